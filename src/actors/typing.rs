//! What is typed into the terminals of agents: text where the program waits for text, the keys of a
//! dialog where one is open, and nothing where neither can be told (`domain/dialog`).

use std::time::Duration;

use super::effects;
use super::refusal::{Refusal, RefusalKind};
use super::world::{Claim, World};
use crate::domain::condition::Patterns;
use crate::domain::dialog::{
    Answering, Dialog, Form, Readiness, Reply, Step, Unanswerable, choose, find, readiness,
};
use crate::domain::facts::RunState;
use crate::domain::ids::HarnessName;
use crate::domain::screen::ScreenView;
use crate::ports::sessions::{Input, SessionError, SessionHandle};

/// Between a text and its submit key: programs that read keys take a return that comes with the text
/// for part of the text.
const SETTLE: Duration = Duration::from_millis(150);
/// A dialog that has taken a key shows it within this, on a busy machine too: the next key is for the next dialog else.
const REACTION: Duration = Duration::from_secs(4);
/// Between two looks at a dialog that is being answered.
const GLIMPSE: Duration = Duration::from_millis(50);
/// Something else that is typed is waited for so long: an answer may take as many keys as a list is long.
const TURN: Duration = Duration::from_secs(30);
/// A list is at most so long, and a key moves by one.
const MOST_KEYS: usize = 64;

/// Whether text may be typed into a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Typing {
    /// The program waits for text.
    Free,
    /// A person is attached, or it cannot be seen that none is.
    Attended,
    /// A dialog is open.
    Asks(Dialog),
    /// A person has begun a line, and left it in the program's input; the screen is attached.
    Begun(String),
    /// The screen says nothing of what the program would make of text; the screen is attached.
    Unrecognised(String),
    /// Session or screen cannot be seen now.
    Unseen,
    /// That session has ended.
    Gone,
}

/// Says whether the supervisor may type text of its own into that session now.
pub async fn may_type(world: &World, harness: &HarnessName, handle: &SessionHandle) -> Typing {
    let facts = match effects::facts(world, &handle.id).await {
        Ok(Some(facts)) if facts.token == handle.token => facts,
        Ok(_) => return Typing::Gone,
        Err(_) => return Typing::Unseen,
    };
    match facts.state {
        RunState::Running => {}
        RunState::Unknown { .. } => return Typing::Unseen,
        RunState::Exited(_) | RunState::Lost { .. } => return Typing::Gone,
    }
    if facts.attached || facts.guessed {
        return Typing::Attended;
    }
    match look(world, Some(harness), handle).await {
        Ok((view, Readiness::Ready)) if line::is_begun(world, handle, &view) => {
            Typing::Begun(view.text())
        }
        Ok((_, Readiness::Ready)) => Typing::Free,
        Ok((_, Readiness::Asks(dialog))) => Typing::Asks(dialog),
        Ok((view, Readiness::Unrecognised)) => Typing::Unrecognised(view.text()),
        Err(SessionError::Gone(_)) => Typing::Gone,
        Err(SessionError::Failed { .. }) => Typing::Unseen,
    }
}

/// The screen, and what it says about text.
///
/// # Errors
/// The session, or its screen, cannot be seen.
pub async fn look(
    world: &World,
    harness: Option<&HarnessName>,
    handle: &SessionHandle,
) -> Result<(ScreenView, Readiness), SessionError> {
    let view = view(world, handle).await?;
    let ready = readiness(&patterns(world, harness).looks(), &view);
    // Hooks tell of a question before the screen shows it: a text would become its answer.
    let reported = world.directory.conditions.reported_question(handle);
    let ready = match (ready, reported) {
        (Readiness::Ready, Some(question)) => Readiness::Asks(Dialog {
            question,
            form: Form::Unrecognised,
            above: Vec::new(),
        }),
        (ready, _) => ready,
    };
    Ok((view, ready))
}

/// Whether the program reads whole lines: a text needs no key that submits it then.
fn reads_lines(view: &ScreenView) -> bool {
    view.reads_lines == Some(true) && view.bracketed_paste != Some(true)
}

async fn view(world: &World, handle: &SessionHandle) -> Result<ScreenView, SessionError> {
    let of = handle.clone();
    effects::sessions(world, &handle.id, move |provider| provider.view(&of)).await
}

fn patterns(world: &World, harness: Option<&HarnessName>) -> Patterns {
    let harness = harness.and_then(|name| world.city.harnesses.get(name));
    harness
        .map(|harness| harness.looks.clone())
        .unwrap_or_default()
}

async fn press(world: &World, handle: &SessionHandle, input: Input) -> Result<(), SessionError> {
    let of = handle.clone();
    effects::sessions(world, &handle.id, move |provider| {
        provider.send(&of, &input)
    })
    .await
}

/// Waits until nothing else is typed into the session: two texts that are pasted before the first Enter would be
/// one.
async fn turn(world: &World, handle: &SessionHandle) -> Result<Claim, Refusal> {
    let name = format!("typing/{}", handle.token);
    let deadline = world.clock.mono() + TURN;
    loop {
        if let Some(claim) = world.claims.claim(name.clone()) {
            return Ok(claim);
        }
        if world.clock.mono() >= deadline {
            return Err(Refusal::conflict(
                "something else is typed into the session",
            ));
        }
        tokio::time::sleep(GLIMPSE).await;
    }
}

/// Submits a text, if the program waits for text.
///
/// # Errors
/// [`RefusalKind::NeedsHuman`] with the dialog, the line that a person has begun, or the screen, that is in the way;
/// nothing was submitted then. Or the session is gone.
pub async fn submit(
    world: &World,
    harness: Option<&HarnessName>,
    handle: &SessionHandle,
    text: &str,
) -> Result<(), Refusal> {
    submit_behind(world, harness, handle, text, false).await
}

/// The same, `force`d behind a line that a person has begun: both are submitted as one message then.
///
/// # Errors
/// As [`submit`].
pub async fn submit_behind(
    world: &World,
    harness: Option<&HarnessName>,
    handle: &SessionHandle,
    text: &str,
    force: bool,
) -> Result<(), Refusal> {
    let _one_at_a_time = turn(world, handle).await?;
    let (view, ready) = look(world, harness, handle).await?;
    refuse_unless_ready(ready, &view)?;
    let stands_in = |view: &ScreenView| !force && line::is_begun(world, handle, view);
    if stands_in(&view) {
        return Err(line::begun(&view));
    }
    // A holder of an older version tells no modes, and can only submit.
    if reads_lines(&view) || view.bracketed_paste.is_none() {
        press(world, handle, Input::Submit(text.to_owned())).await?;
        line::submitted(world, handle, &view, force);
        return Ok(());
    }
    let conditions = &world.directory.conditions;
    let left = conditions.set_unsubmitted(handle, None);
    let (paste, stands) = unsubmitted::rest(left, text, &view).ok_or_else(|| doubtful(&view))?;
    // Until it is submitted it stands there, whatever happens.
    conditions.set_unsubmitted(handle, Some(stands.clone()));
    if let Some(paste) = paste {
        press(world, handle, Input::Paste(paste)).await?;
    }
    tokio::time::sleep(SETTLE).await;
    // A dialog may have opened since: Enter would take its default.
    let deadline = world.clock.mono() + REACTION;
    let (view, ready) = loop {
        let (view, ready) = look(world, harness, handle).await?;
        // A busy program draws the text late.
        let is_hidden = ready == Readiness::Unrecognised && !stands.is_shown(&view);
        if !is_hidden || world.clock.mono() >= deadline {
            break (view, ready);
        }
        tokio::time::sleep(GLIMPSE).await;
    };
    let is_lost = ready == Readiness::Unrecognised && !stands.is_shown(&view);
    let is_begun = stands_in(&view);
    if is_lost || is_begun || matches!(ready, Readiness::Asks(_)) {
        let refused = match is_begun {
            true => Err(line::begun(&view)),
            false => refuse_unless_ready(ready, &view),
        };
        return refused.map_err(|mut refusal| {
            refusal.message = format!("the text was typed and not submitted: {}", refusal.message);
            refusal
        });
    }
    press(world, handle, Input::Raw(b"\r".to_vec())).await?;
    line::submitted(world, handle, &view, force);
    Ok(())
}

/// Types keys, whatever is on the screen; between no two parts of a text or an answer.
///
/// # Errors
/// Something else is typed for too long, or the session is gone.
pub async fn keys(world: &World, handle: &SessionHandle, keys: Vec<u8>) -> Result<(), Refusal> {
    let _one_at_a_time = turn(world, handle).await?;
    Ok(press(world, handle, Input::Raw(keys)).await?)
}

/// The refusal of a text while it cannot be told whether an earlier one still stands in the input line.
fn doubtful(view: &ScreenView) -> Refusal {
    Refusal::new(
        RefusalKind::NeedsHuman,
        format!(
            "an earlier text was typed and not submitted, and may still stand in the input line:\n{}",
            view.text()
        ),
    )
    .hint("`hd send NAME --keys Enter` submits it; the same `hd send` again types the text all the same")
}

fn refuse_unless_ready(ready: Readiness, view: &ScreenView) -> Result<(), Refusal> {
    match ready {
        Readiness::Ready => Ok(()),
        Readiness::Asks(dialog) => Err(open(&dialog)),
        Readiness::Unrecognised => Err(Refusal::new(
            RefusalKind::NeedsHuman,
            format!(
                "the screen does not show that the program waits for text:\n{}",
                view.text()
            ),
        )
        .hint("`hd send NAME --keys \"...\"` types keys, `hd attach NAME` shows the terminal")),
    }
}

/// The refusal that says which dialog is open, and how it is answered.
fn open(dialog: &Dialog) -> Refusal {
    let mut message = format!("a dialog is open: {}", dialog.question);
    for (at, choice) in dialog.choices().iter().enumerate() {
        let key = choice
            .key
            .map_or_else(|| (at + 1).to_string(), String::from);
        message.push_str(&format!("\n  {key}  {}", choice.label));
    }
    let hint = match dialog.form {
        Form::Unrecognised => {
            "how it is answered is not known: `hd attach NAME`, or `hd send NAME --keys \"...\"`"
        }
        Form::Menu {
            several: Some(_), ..
        } => {
            "it takes several choices: `hd answer NAME 1,3` ticks these and no others, and submits them"
        }
        Form::Menu { multiple: true, .. } => {
            "it takes several choices, by keys that are not known: `hd attach NAME`, or `hd send NAME --keys \"...\"`"
        }
        Form::AnyKey => "`hd answer NAME enter` goes on",
        Form::Secret => "`hd answer NAME TEXT` types it",
        Form::Menu { .. } | Form::Letters { .. } => "`hd answer NAME CHOICE` answers it",
    };
    Refusal::new(RefusalKind::NeedsHuman, message).hint(hint)
}

/// How a dialog was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The question.
    pub question: String,
    /// The choice, or the words; a secret is not told.
    pub answer: String,
    /// The question that is open now.
    pub next: Option<String>,
}

/// Answers the dialog that is open, by the keys that it takes, and sees it gone.
///
/// # Errors
/// [`RefusalKind::NotFound`] when none is open, [`RefusalKind::BadRequest`] for an answer that the
/// dialog does not have, [`RefusalKind::NeedsHuman`] when it is still there.
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
    let lines = reads_lines(&first);
    let reply = match choose(&dialog, said) {
        // A program that reads lines takes any line for its answer; one that names its answers takes these.
        Err(Unanswerable::Unrecognised | Unanswerable::NoSuchChoice(_))
            if lines && takes(&dialog, said) =>
        {
            None
        }
        Ok(reply) => Some(reply),
        Err(error) => return Err(unanswerable(&error, &dialog)),
    };
    // A key of an account is pasted at an entry that takes words as well as at a prompt.
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
                    answering.reads_lines(reads_lines(view));
                }
                now = seen.and_then(|(_, dialog)| dialog);
            }
        }
    }
    Err(open(now.as_ref().unwrap_or(&dialog)))
}

/// Whether a line may be an answer that was not recognised as one of the choices.
fn takes(dialog: &Dialog, said: &str) -> bool {
    let mut named = dialog.question.split(['[', ']', '(', ')', '/', '|', ',']);
    match dialog.form {
        Form::Letters { .. } => named.any(|word| word.trim().eq_ignore_ascii_case(said.trim())),
        Form::Menu { .. } | Form::AnyKey | Form::Secret | Form::Unrecognised => true,
    }
}

/// The screen, and the dialog on it. One that hooks have told of is waited for.
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

/// Waits until a line of one's own has made the dialog go.
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

/// An answer as people and the journal are told of it.
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

/// The screen, and the dialog that is open on it, once it has reacted to a key; none when the program has ended.
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

mod line;
mod unsubmitted;

pub use self::unsubmitted::Unsubmitted;

#[cfg(test)]
mod tests;
