//! Answers a dialog with the keys that it takes, one at a time, with a look at the screen after each. An answer is
//! never pasted into a menu.
//!
//! ```text
//!  choose(dialog, words) ──► Reply
//!  Answering::next(what is open now) ──► Press(keys) ──► look ──► next ... ──► Gone
//!                                                                        └──► Stuck(why)
//! ```

use std::collections::BTreeSet;

use super::several::Ticking;
use super::{Choice, Dialog, Form};

const UP: &[u8] = b"\x1b[A";
const DOWN: &[u8] = b"\x1b[B";
const RIGHT: &[u8] = b"\x1b[C";
const LEFT: &[u8] = b"\x1b[D";
const ENTER: &[u8] = b"\r";
const ESCAPE: &[u8] = b"\x1b";

/// The choice that an answer stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// An entry of the list, from 0.
    Entry(usize),
    /// These entries of the list and no others, ticked and submitted together.
    Several(BTreeSet<usize>),
    /// Free text, at this entry of a menu, or at the cursor.
    Words {
        /// The entry that takes free text.
        at: Option<usize>,
        /// The text, one line.
        text: String,
    },
    /// The key that continues.
    Continue,
}

/// The reason why an answer does not fit the dialog.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unanswerable {
    /// The answer matches no entry.
    #[error("the dialog has no choice {0:?}")]
    NoSuchChoice(String),
    /// The answer matches several entries.
    #[error("{0:?} fits more than one choice")]
    Ambiguous(String),
    /// It is unknown how the dialog takes an answer.
    #[error("the way to answer this dialog is unknown")]
    Unrecognised,
    /// Entries are ticked one by one, with unknown keys.
    #[error("the dialog takes several choices at once, but its keys are unknown")]
    Multiple,
    /// An empty answer, or one with control characters.
    #[error("an answer is one line of text")]
    NotALine,
}

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Type these bytes, then look again.
    Press(Vec<u8>),
    /// The dialog has closed.
    Gone,
    /// The dialog does not react.
    Stuck(&'static str),
}

/// Prefixes of labels of entries that take free text. Each must say so: in any other entry, a digit in the typed text
/// would choose an entry.
const OWN_WORDS: &[&str] = &[
    "type something",
    "type your",
    "type a ",
    "enter a ",
    "enter your ",
    "other (type ",
    "no, and tell ",
];

/// Finds the entry, or the free text, that an answer stands for: by its number, its key, its text, or the beginning of
/// its text.
///
/// # Errors
/// [`Unanswerable`].
pub fn choose(dialog: &Dialog, answer: &str) -> Result<Reply, Unanswerable> {
    let answer = answer.trim();
    if answer.is_empty() && dialog.form != Form::AnyKey || answer.chars().any(char::is_control) {
        return Err(Unanswerable::NotALine);
    }
    match &dialog.form {
        Form::Menu {
            multiple: true,
            several: None,
            ..
        } => Err(Unanswerable::Multiple),
        Form::Menu {
            multiple: true,
            choices,
            ..
        } => several(choices, answer),
        Form::Menu { choices, .. } => match entry(choices, answer)? {
            Some(at) => Ok(Reply::Entry(at)),
            None => own_words(choices, answer),
        },
        Form::Letters { choices, .. } => entry(choices, answer)?
            .map(Reply::Entry)
            .ok_or_else(|| Unanswerable::NoSuchChoice(answer.to_owned())),
        Form::AnyKey => Ok(Reply::Continue),
        Form::Secret => Ok(Reply::Words {
            at: None,
            text: answer.to_owned(),
        }),
        Form::Unrecognised => Err(Unanswerable::Unrecognised),
    }
}

fn entry(choices: &[Choice], answer: &str) -> Result<Option<usize>, Unanswerable> {
    let wanted = answer.to_lowercase();
    let mut letters = wanted.chars();
    if let (Some(key), None) = (letters.next(), letters.next())
        && let Some(at) = choices.iter().position(|choice| choice.key == Some(key))
    {
        return Ok(Some(at));
    }
    let is_named =
        |choice: &Choice| (choice.named()).is_some_and(|key| key.eq_ignore_ascii_case(&wanted));
    if let Some(at) = choices.iter().position(is_named) {
        return Ok(Some(at));
    }
    // `hd status` numbers the choices. Where the program itself numbers them, its numbers hold.
    let is_digit = |choice: &Choice| choice.key.is_some_and(|key| key.is_ascii_digit());
    let numbered = choices.iter().any(is_digit);
    if let (false, Ok(number)) = (numbered, wanted.parse::<usize>())
        && (1..=choices.len()).contains(&number)
    {
        return Ok(Some(number - 1));
    }
    let same = |choice: &&Choice| choice.label.to_lowercase() == wanted;
    if let Some(at) = choices.iter().position(|choice| same(&choice)) {
        return Ok(Some(at));
    }
    let begins = |choice: &Choice| choice.label.to_lowercase().starts_with(&wanted);
    let mut fitting = (0..choices.len()).filter(|at| begins(&choices[*at]));
    match (fitting.next(), fitting.next()) {
        (Some(at), None) => Ok(Some(at)),
        (None, _) => Ok(None),
        (Some(_), Some(_)) => Err(Unanswerable::Ambiguous(answer.to_owned())),
    }
}

/// Finds the entries that `1,3` stands for. An entry that takes free text is not ticked, for it opens an input line.
fn several(choices: &[Choice], answer: &str) -> Result<Reply, Unanswerable> {
    let mut wanted = BTreeSet::new();
    for word in answer
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
    {
        let no_such = || Unanswerable::NoSuchChoice(word.to_owned());
        let at = entry(choices, word)?.ok_or_else(no_such)?;
        let can = choices[at].ticked.is_some() && own_words(&choices[at..=at], word).is_err();
        wanted.insert(can.then_some(at).ok_or_else(no_such)?);
    }
    match wanted.is_empty() {
        true => Err(Unanswerable::NotALine),
        false => Ok(Reply::Several(wanted)),
    }
}

fn own_words(choices: &[Choice], answer: &str) -> Result<Reply, Unanswerable> {
    let takes = |choice: &Choice| {
        let label = choice.label.trim_start_matches(['•', ' ']).to_lowercase();
        OWN_WORDS.iter().any(|words| label.starts_with(words))
    };
    let no_such = || Unanswerable::NoSuchChoice(answer.to_owned());
    // Each letter of the text would be the key of a choice.
    let takes_letters = name_keys(choices)
        && (choices.iter()).any(|choice| choice.named().is_some_and(|key| key.len() == 1));
    let mut fitting = choices.iter().enumerate().filter(|_| !takes_letters);
    let (at, _) = fitting
        .find(|(_, choice)| takes(choice))
        .ok_or_else(no_such)?;
    Ok(Reply::Words {
        at: Some(at),
        text: answer.to_owned(),
    })
}

/// An answer in progress.
#[derive(Debug)]
pub struct Answering {
    first: Dialog,
    reply: Reply,
    /// Set when the program reads whole lines: letters then need Enter.
    lines: bool,
    /// The same after the last key.
    reads_lines_now: bool,
    keyed: bool,
    typed: bool,
    entered: bool,
    /// The selection before the last arrow.
    moved_from: Option<usize>,
    stills: u32,
    ticking: Option<Ticking>,
}

/// The number of times that an arrow without effect is pressed before the answer is given up.
const MOST_STILLS: u32 = 2;

impl Answering {
    /// Starts an answer to this dialog.
    #[must_use]
    pub fn new(dialog: Dialog, reply: Reply, lines: bool) -> Self {
        let ticking = match (&reply, &dialog.form) {
            (Reply::Several(wanted), Form::Menu { several, .. }) => {
                several.map(|keys| Ticking::new(wanted.clone(), keys))
            }
            _ => None,
        };
        Self {
            ticking,
            first: dialog,
            reply,
            lines,
            reads_lines_now: lines,
            keyed: false,
            typed: false,
            entered: false,
            moved_from: None,
            stills: 0,
        }
    }

    /// Records if the program reads whole lines now.
    pub fn reads_lines(&mut self, lines: bool) {
        self.reads_lines_now = lines;
    }

    /// Decides on the next key by the dialog that is open now.
    #[must_use]
    pub fn next(&mut self, now: Option<&Dialog>) -> Step {
        if let Some(ticking) = &mut self.ticking {
            let is_it = now.is_some_and(|now| self.first.is_same(now));
            return ticking.next(now, is_it);
        }
        let Some(now) = now.filter(|now| self.is_it(now)) else {
            return match &self.reply {
                Reply::Words { at: Some(_), .. } if !self.typed => {
                    Step::Stuck("the dialog closed before the words were typed")
                }
                _ => Step::Gone,
            };
        };
        match (&self.reply, &now.form) {
            (Reply::Continue, _) => self.enter(ENTER),
            (Reply::Words { at: None, text }, _) => {
                let line = format!("{text}\r");
                self.enter(line.as_bytes())
            }
            (
                Reply::Words { at: Some(at), text },
                Form::Menu {
                    choices, selected, ..
                },
            ) => {
                let key = choices.get(*at).and_then(|choice| choice.key);
                let (at, text) = (*at, text.clone());
                self.words(at, key, &text, *selected)
            }
            (
                Reply::Entry(at),
                Form::Menu {
                    choices, selected, ..
                },
            ) => {
                let (at, key) = (*at, key_of(choices, *at));
                self.pick(at, key, *selected)
            }
            (Reply::Entry(_), Form::Letters { typed: true, .. }) if !self.keyed => {
                Step::Stuck("its input already holds an answer")
            }
            (Reply::Entry(at), Form::Letters { choices, .. }) => {
                let Some(key) = choices.get(*at).and_then(|choice| choice.key) else {
                    return Step::Stuck("the choice has no key");
                };
                self.letter(key)
            }
            _ => Step::Gone,
        }
    }

    /// Returns true when the open dialog is still the one that is being answered. Typed text changes the row that it is
    /// typed into.
    fn is_it(&self, now: &Dialog) -> bool {
        if self.typed {
            return now.choices().len() == self.first.choices().len()
                && (now.question == self.first.question || !self.entered);
        }
        // Once a key may have closed the dialog, the same question below another text is the next dialog.
        let may_be_next = self.keyed || self.entered;
        self.first.is_same(now) && (!may_be_next || self.first.is_below_the_same(now))
    }

    /// Presses the key that submits, once.
    fn enter(&mut self, bytes: &[u8]) -> Step {
        if std::mem::replace(&mut self.entered, true) {
            return Step::Stuck("it is still open after Enter");
        }
        Step::Press(bytes.to_vec())
    }

    fn letter(&mut self, key: char) -> Step {
        match (std::mem::replace(&mut self.keyed, true), self.lines) {
            (false, true) => Step::Press(format!("{key}\r").into_bytes()),
            (false, false) => Step::Press(key.to_string().into_bytes()),
            (true, true) => Step::Stuck("it asks the same question again"),
            // The program read one key, and has gone on.
            (true, false) if self.reads_lines_now => Step::Gone,
            // The program waits for the end of the line although it reads keys.
            (true, false) => self.enter(ENTER),
        }
    }

    /// Chooses the entry: by its key where there is one, else by moving to it and pressing Enter.
    fn pick(&mut self, at: usize, key: Option<Vec<u8>>, selected: Option<usize>) -> Step {
        if selected == Some(at) {
            return self.enter(ENTER);
        }
        if let Some(key) = key.filter(|_| !self.keyed) {
            self.keyed = true;
            return Step::Press(key);
        }
        self.walk(at, selected)
    }

    fn words(&mut self, at: usize, key: Option<char>, text: &str, selected: Option<usize>) -> Step {
        if self.typed {
            return self.enter(ENTER);
        }
        match (selected, key) {
            (Some(selected), _) if selected == at => {}
            (Some(_), _) => return self.walk(at, selected),
            // With an invisible selection, only the number leads to the entry.
            (None, Some(key)) if !self.keyed => {
                self.keyed = true;
                return Step::Press(key.to_string().into_bytes());
            }
            (None, _) if self.keyed => {}
            (None, _) => return Step::Stuck("the selected entry cannot be recognised"),
        }
        self.typed = true;
        Step::Press(text.as_bytes().to_vec())
    }

    /// Moves one row towards the entry.
    fn walk(&mut self, at: usize, selected: Option<usize>) -> Step {
        let Some(selected) = selected else {
            return Step::Stuck("the selected entry cannot be recognised");
        };
        self.stills = match self.moved_from == Some(selected) {
            true => self.stills + 1,
            false => 0,
        };
        if self.stills > MOST_STILLS {
            return Step::Stuck("its selection does not move");
        }
        self.moved_from = Some(selected);
        let across = matches!(self.first.form, Form::Menu { across: true, .. });
        Step::Press(key_towards(at, selected, across).to_vec())
    }
}

/// Returns the key that chooses an entry of a menu: its number, or else the key that its label names. A single "(esc)"
/// in a menu only tells how to leave the dialog.
fn key_of(choices: &[Choice], at: usize) -> Option<Vec<u8>> {
    let choice = choices.get(at)?;
    if let Some(key) = choice.key {
        return Some(key.to_string().into_bytes());
    }
    let named = choice.named().filter(|_| name_keys(choices));
    named.map(str::as_bytes).map(|named| match named {
        [letter] => vec![*letter],
        _ => ESCAPE.to_vec(),
    })
}

/// Returns true when the labels of a menu name keys: a single label may end in a word in brackets.
fn name_keys(choices: &[Choice]) -> bool {
    let named = choices.iter().filter(|choice| choice.named().is_some());
    named.count() > 1
}

/// Returns the arrow key that moves the selection towards an entry.
pub(super) fn key_towards(at: usize, selected: usize, across: bool) -> &'static [u8] {
    match (across, at > selected) {
        (false, true) => DOWN,
        (false, false) => UP,
        (true, true) => RIGHT,
        (true, false) => LEFT,
    }
}
