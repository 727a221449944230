//! Answering of dialogs: by their keys, each followed by an observation of its effect.

use super::super::refusal::{Refusal, RefusalKind};
use super::super::world::World;
use super::{GLIMPSE, REACTION, open, patterns, press, turn, view};
use crate::domain::condition::Patterns;
use crate::domain::dialog::{Answering, Dialog, Form, Reply, Step, Unanswerable, choose, find};
use crate::domain::ids::HarnessName;
use crate::domain::screen::{Reads, ScreenView};
use crate::ports::sessions::{Input, SessionError, SessionHandle};

/// The maximum number of keys: the length of a list, as a key moves by one.
const MOST_KEYS: usize = 64;

/// The result of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The question.
    pub question: String,
    /// The choice, or the words; a secret is hidden.
    pub answer: String,
    /// The question that is open now, if any.
    pub next: Option<String>,
}

/// Answers the open dialog by its keys, and verifies that it has closed.
///
/// # Errors
/// [`RefusalKind::NotFound`] when no dialog is open, [`RefusalKind::BadRequest`] for an answer that the dialog does not
/// have, [`RefusalKind::NeedsHuman`] when it is still open.
pub async fn answer(
    world: &World,
    harness: Option<&HarnessName>,
    handle: &SessionHandle,
    said: &str,
) -> Result<Answered, Refusal> {
    let _one_at_a_time = turn(world, handle).await?;
    let patterns = patterns(world, harness);
    let (first, dialog) = opened(world, &patterns, handle).await?;
    let Some(dialog) = dialog else {
        let hint = "`hd peek NAME` shows the screen; `hd send NAME TEXT` sends text";
        return Err(Refusal::not_found("no dialog is open").hint(hint));
    };
    let hides = first.hides_input == Some(true) || dialog.form == Form::Secret;
    let lines = first.reads() == Reads::Lines;
    let reply = match choose(&dialog, said) {
        // A program that reads lines takes any line as its answer; a program that names its answers takes those.
        Err(Unanswerable::Unrecognised | Unanswerable::NoSuchChoice(_))
            if lines && takes(&dialog, said) =>
        {
            None
        }
        Ok(reply) => Some(reply),
        Err(error) => return Err(unanswerable(&error, &dialog)),
    };
    // An account's key may be pasted at an entry that takes words as well as at a prompt.
    let hides = hides || matches!(reply, Some(Reply::Words { at: Some(_), .. }));
    let Some(reply) = reply else {
        press(world, handle, Input::Submit(said.to_owned())).await?;
        return gone(world, &patterns, handle, &dialog, &shown(said, hides)).await;
    };
    let mut answering = Answering::new(dialog.clone(), reply, lines);
    let mut now = Some(dialog.clone());
    for _ in 0..MOST_KEYS {
        match answering.next(now.as_ref()) {
            Step::Gone => {
                world.directory.conditions.answered(handle);
                return Ok(answered(&dialog, &shown(said, hides), now.as_ref()));
            }
            Step::Stuck(why) => {
                let mut refusal = open(now.as_ref().unwrap_or(&dialog));
                refusal.message = format!("{why}; {}", refusal.message);
                return Err(refusal);
            }
            Step::Press(keys) => {
                press(world, handle, Input::Raw(keys)).await?;
                let seen = reaction(world, &patterns, handle, now.as_ref()).await?;
                if let Some((view, _)) = &seen {
                    answering.reads_lines(view.reads() == Reads::Lines);
                }
                now = seen.and_then(|(_, dialog)| dialog);
            }
        }
    }
    Err(open(now.as_ref().unwrap_or(&dialog)))
}

/// Returns true when a line that matches no recognised choice may still be an answer.
fn takes(dialog: &Dialog, said: &str) -> bool {
    let mut named = dialog.question.split(['[', ']', '(', ')', '/', '|', ',']);
    match dialog.form {
        Form::Letters { .. } => named.any(|word| word.trim().eq_ignore_ascii_case(said.trim())),
        Form::Menu { .. } | Form::AnyKey | Form::Secret | Form::Unrecognised => true,
    }
}

/// Returns the screen, and its dialog. Waits for a dialog that hooks have reported.
async fn opened(
    world: &World,
    patterns: &Patterns,
    handle: &SessionHandle,
) -> Result<(ScreenView, Option<Dialog>), SessionError> {
    let deadline = world.clock.mono() + REACTION;
    loop {
        let view = view(world, handle).await?;
        let dialog = find(&patterns.looks(), &view);
        let reported = world.directory.conditions.reported_question(handle);
        if dialog.is_some() || reported.is_none() || world.clock.mono() >= deadline {
            return Ok((view, dialog));
        }
        tokio::time::sleep(GLIMPSE).await;
    }
}

/// Waits until the typed line has closed the dialog.
async fn gone(
    world: &World,
    patterns: &Patterns,
    handle: &SessionHandle,
    dialog: &Dialog,
    said: &str,
) -> Result<Answered, Refusal> {
    let now = reaction(world, patterns, handle, Some(dialog)).await?;
    let now = now.and_then(|(_, dialog)| dialog);
    match now.as_ref().filter(|now| now.is_same(dialog)) {
        Some(still) => Err(open(still)),
        None => {
            world.directory.conditions.answered(handle);
            Ok(answered(dialog, said, now.as_ref()))
        }
    }
}

/// Returns an answer as shown to people and in the journal.
fn shown(said: &str, hides: bool) -> String {
    match hides {
        true => "(not shown)".to_owned(),
        false => said.trim().to_owned(),
    }
}

fn answered(dialog: &Dialog, said: &str, now: Option<&Dialog>) -> Answered {
    Answered {
        question: dialog.question.clone(),
        answer: said.to_owned(),
        next: now.map(|next| next.question.clone()),
    }
}

/// Returns the screen and its open dialog after the reaction to a key; none when the program has ended.
async fn reaction(
    world: &World,
    patterns: &Patterns,
    handle: &SessionHandle,
    before: Option<&Dialog>,
) -> Result<Option<(ScreenView, Option<Dialog>)>, SessionError> {
    let deadline = world.clock.mono() + REACTION;
    loop {
        tokio::time::sleep(GLIMPSE).await;
        let view = match view(world, handle).await {
            Ok(view) => view,
            // The answer ended the program.
            Err(SessionError::Gone(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let now = find(&patterns.looks(), &view);
        let is_still = match (&now, before) {
            (Some(now), Some(before)) => now.looks_like(before),
            (now, before) => now.is_none() && before.is_none(),
        };
        if !is_still || world.clock.mono() >= deadline {
            return Ok(Some((view, now)));
        }
    }
}

fn unanswerable(error: &Unanswerable, dialog: &Dialog) -> Refusal {
    let kind = match error {
        Unanswerable::Unrecognised | Unanswerable::Multiple => RefusalKind::NeedsHuman,
        Unanswerable::NoSuchChoice(_) | Unanswerable::Ambiguous(_) | Unanswerable::NotALine => {
            RefusalKind::BadRequest
        }
    };
    let open = open(dialog);
    Refusal {
        kind,
        message: format!("{error}; {}", open.message),
        ..open
    }
}
