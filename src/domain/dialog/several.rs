//! Answers a dialog with several choices: ticks each by the key that the dialog names, with a look after each, submits
//! all of them, and confirms the question if they are right.

use std::collections::BTreeSet;

use super::answer::{Step, key_towards};
use super::{Dialog, Form};
use crate::domain::screen::ScreenView;

const ENTER: &[u8] = b"\r";
/// The number of times that an arrow without effect is pressed before the answer is given up.
const MOST_STILLS: u32 = 2;
/// The number of rows above the first choice that may show the tabs of the dialog.
const TABS_ABOVE: usize = 6;

/// The keys of a dialog whose entries are ticked one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Several {
    /// Ticks or unticks the selected entry.
    pub toggle: &'static [u8],
    /// Submits the ticked entries, or leads to the place for that.
    pub submit: &'static [u8],
}

impl Several {
    /// Reads the keys from the hint below the choices and the tabs above them; none where these do not name them.
    pub(super) fn read(view: &ScreenView, first: usize, below: &[String]) -> Option<Self> {
        let hint = below.join("\n").to_lowercase();
        let above = &view.rows[first.saturating_sub(TABS_ABOVE)..first];
        let has_submit_tab = above
            .iter()
            .any(|row| row.contains('←') && row.contains("Submit") && row.contains('→'));
        if hint.contains("space toggle")
            && ["accept", "submit", "confirm"]
                .iter()
                .any(|word| hint.contains(&format!("enter {word}")))
        {
            return Some(Self {
                toggle: b" ",
                submit: ENTER,
            });
        }
        let is_on_enter = hint.contains("enter toggle") && hint.contains("tab");
        let is_claude = has_submit_tab && hint.contains("enter to select");
        (is_on_enter || is_claude).then_some(Self {
            toggle: ENTER,
            submit: b"\t",
        })
    }
}

/// An answer of several choices in progress.
#[derive(Debug)]
pub(super) struct Ticking {
    wanted: BTreeSet<usize>,
    keys: Several,
    /// The entry whose key was pressed last.
    toggled: Option<usize>,
    moved_from: Option<usize>,
    stills: u32,
    submitted: bool,
    confirmed: bool,
}

impl Ticking {
    pub(super) fn new(wanted: BTreeSet<usize>, keys: Several) -> Self {
        Self {
            wanted,
            keys,
            toggled: None,
            moved_from: None,
            stills: 0,
            submitted: false,
            confirmed: false,
        }
    }

    /// Decides on the next key by the dialog that is open now: the one that is being answered, another, or none.
    pub(super) fn next(&mut self, now: Option<&Dialog>, is_it: bool) -> Step {
        match now {
            None if self.submitted => Step::Gone,
            None => Step::Stuck("the dialog closed before it was submitted"),
            Some(now) if is_it => self.tick(now),
            Some(_) if !self.submitted => {
                Step::Stuck("another dialog opened before it was submitted")
            }
            Some(now) if asks_to_submit(now) => {
                match std::mem::replace(&mut self.confirmed, true) {
                    true => Step::Stuck("it still asks for a confirmation of the choices"),
                    false => Step::Press(ENTER.to_vec()),
                }
            }
            Some(_) => Step::Gone,
        }
    }

    fn toggle(&mut self, at: usize, key: Vec<u8>) -> Step {
        match self.toggled.replace(at) == Some(at) {
            true => Step::Stuck("a choice does not take its tick"),
            false => Step::Press(key),
        }
    }

    fn tick(&mut self, now: &Dialog) -> Step {
        let Form::Menu {
            choices,
            selected,
            across,
            ..
        } = &now.form
        else {
            return Step::Gone;
        };
        if self.submitted {
            return Step::Stuck("it is still open after it was submitted");
        }
        let wrong = |at: &usize| {
            choices[*at]
                .ticked
                .is_some_and(|is| is != self.wanted.contains(at))
        };
        let Some(at) = (0..choices.len()).find(wrong) else {
            self.submitted = true;
            return Step::Press(self.keys.submit.to_vec());
        };
        match selected {
            Some(selected) if *selected == at => self.toggle(at, self.keys.toggle.to_vec()),
            // With an invisible selection, only the number leads to the entry.
            None => match choices[at].key {
                Some(key) => self.toggle(at, key.to_string().into_bytes()),
                None => Step::Stuck("the selected entry cannot be recognised"),
            },
            Some(selected) => {
                self.stills = match self.moved_from.replace(*selected) == Some(*selected) {
                    true => self.stills + 1,
                    false => 0,
                };
                match self.stills > MOST_STILLS {
                    true => Step::Stuck("its selection does not move"),
                    false => Step::Press(key_towards(at, *selected, *across).to_vec()),
                }
            }
        }
    }
}

/// Returns true when a dialog only asks if the choices are to be submitted, and Enter confirms that.
fn asks_to_submit(dialog: &Dialog) -> bool {
    let selected = match &dialog.form {
        Form::Menu {
            choices, selected, ..
        } => selected
            .and_then(|at| choices.get(at))
            .map(|choice| choice.label.as_str()),
        Form::Unrecognised => Some(dialog.question.as_str()),
        Form::Letters { .. } | Form::AnyKey | Form::Secret => None,
    };
    selected.is_some_and(|text| {
        let text = text.to_lowercase();
        text.starts_with("submit") || text.contains("enter submit")
    })
}
