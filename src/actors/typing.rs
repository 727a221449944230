//! Typing into the terminals of agents: text when the program waits for text, keys when a dialog is open, and nothing
//! when neither is certain (`domain/dialog`).

use std::time::Duration;

use super::claims::{Claim, ClaimKey};
use super::effects;
use super::refusal::{Refusal, RefusalKind};
use super::world::World;
use crate::domain::condition::Patterns;
use crate::domain::dialog::{Dialog, Form, Readiness, readiness};
use crate::domain::facts::RunState;
use crate::domain::ids::{ChildId, HarnessName};
use crate::domain::screen::{Fate, Reads, ScreenView};
use crate::domain::unsubmitted::{self, Unsubmitted};
use crate::ports::sessions::{Input, SessionError, SessionHandle};

/// Delay between a text and its submit key: programs that read keys treat a return that arrives with the text as part
/// of it.
const SETTLE: Duration = Duration::from_millis(150);
/// Timeout for a dialog to show that it took a key, on a busy machine too: without it the next key could go to the next
/// dialog.
const REACTION: Duration = Duration::from_secs(4);
/// Interval between two observations of a dialog that is being answered.
const GLIMPSE: Duration = Duration::from_millis(50);
/// Timeout of the wait for other typing: an answer may take as many keys as a list is long.
const TURN: Duration = Duration::from_secs(30);

/// The reason when it is unknown whether a person is attached.
const UNASKED: &str = "the terminal's server does not report whether a person is attached";

/// The judgement whether text may be typed into a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Typing {
    /// The program waits for text.
    Free,
    /// A person is attached.
    Attended,
    /// A dialog is open.
    Asks(Dialog),
    /// A person has begun a line, and left it in the program's input; with the screen.
    Begun(String),
    /// The screen does not show what the program would do with text; with the screen.
    Unrecognised(String),
    /// Session or screen cannot be observed now, or it is unknown whether a person is attached; with the reason.
    Unseen(String),
    /// The session has ended.
    Gone,
}

/// Returns whether the supervisor may type text of its own into that session now.
pub async fn may_type(world: &World, harness: &HarnessName, handle: &SessionHandle) -> Typing {
    observe(world, harness, handle).await.0
}

/// Returns the same, with the screen if it can be observed.
pub async fn observe(
    world: &World,
    harness: &HarnessName,
    handle: &SessionHandle,
) -> (Typing, Option<ScreenView>) {
    let facts = match effects::facts(world, &handle.id).await {
        Ok(Some(facts)) if facts.token == handle.token => facts,
        Ok(_) => return (Typing::Gone, None),
        Err(error) => return (Typing::Unseen(error.to_string()), None),
    };
    match facts.state {
        RunState::Running => {}
        RunState::Unknown { why } => return (Typing::Unseen(why), None),
        RunState::Exited(_) | RunState::Lost { .. } => return (Typing::Gone, None),
    }
    let (view, ready) = match read_screen(world, Some(harness), handle).await {
        Ok(seen) => seen,
        Err(_) if facts.attached && !facts.guessed => return (Typing::Attended, None),
        // A holder that drops a connection still holds its session: it runs.
        Err(error) => return (Typing::Unseen(error.to_string()), None),
    };
    let attached = (!facts.guessed).then_some(facts.attached);
    (world.directory.conditions).saw_prompt(handle, &view, attached);
    let typing = match ready {
        _ if attached.is_none() => Typing::Unseen(UNASKED.to_owned()),
        _ if facts.attached => Typing::Attended,
        Readiness::Asks(dialog) => Typing::Asks(dialog),
        _ if line::is_begun(world, handle, &view) => Typing::Begun(view.text()),
        Readiness::Ready => Typing::Free,
        Readiness::Unrecognised => Typing::Unrecognised(view.text()),
    };
    (typing, Some(view))
}

/// Returns the screen, and its readiness for text.
///
/// # Errors
/// The session, or its screen, cannot be observed.
pub async fn read_screen(
    world: &World,
    harness: Option<&HarnessName>,
    handle: &SessionHandle,
) -> Result<(ScreenView, Readiness), SessionError> {
    let view = view(world, handle).await?;
    (world.directory.conditions).saw_prompt(handle, &view, None);
    let ready = readiness(&patterns(world, harness).looks(), &view);
    // Hooks report a question before the screen shows it: a text would become its answer.
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

async fn view(world: &World, handle: &SessionHandle) -> Result<ScreenView, SessionError> {
    let of = handle.clone();
    effects::sessions(world, &handle.id, move |provider| provider.view(&of)).await
}

fn patterns(world: &World, harness: Option<&HarnessName>) -> Patterns {
    let harness = harness.and_then(|name| world.city.harnesses.get(name));
    harness
        .map(|harness| harness.patterns.clone())
        .unwrap_or_default()
}

async fn press(world: &World, handle: &SessionHandle, input: Input) -> Result<(), SessionError> {
    let of = handle.clone();
    effects::sessions(world, &handle.id, move |provider| {
        provider.send(&of, &input)
    })
    .await
}

/// Waits until no other text is being typed into the session: two texts pasted before the first Enter would become one.
async fn turn(world: &World, handle: &SessionHandle) -> Result<Claim, Refusal> {
    let key = ClaimKey::Typing(handle.token.clone());
    let deadline = world.clock.mono() + TURN;
    loop {
        if let Some(claim) = world.claims.claim(key.clone()) {
            return Ok(claim);
        }
        if world.clock.mono() >= deadline {
            return Err(Refusal::conflict(
                "another text is being typed into the session",
            ));
        }
        tokio::time::sleep(GLIMPSE).await;
    }
}

/// Submits a text, if the program waits for text.
///
/// # Errors
/// [`RefusalKind::NeedsHuman`] with the dialog, the person's begun line, or the screen that prevents it; nothing was
/// submitted. Or the session is gone.
pub async fn submit(
    world: &World,
    child: &ChildId,
    harness: Option<&HarnessName>,
    handle: &SessionHandle,
    text: &str,
) -> Result<(), Refusal> {
    let sent = deliver(world, child, harness, handle, text, By::Supervisor).await;
    sent.map_err(Into::into)
}

/// The party on whose behalf a text is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The supervisor, which retries by itself.
    Supervisor,
    /// A person.
    Person {
        /// Type after a line that a person has begun: both are submitted as one message.
        force: bool,
    },
}

impl By {
    fn is_forced(self) -> bool {
        self == Self::Person { force: true }
    }
}

/// As [`submit`], but on behalf of a person or of the supervisor.
///
/// # Errors
/// [`Undelivered`].
pub async fn deliver(
    world: &World,
    child: &ChildId,
    harness: Option<&HarnessName>,
    handle: &SessionHandle,
    text: &str,
    by: By,
) -> Result<(), Undelivered> {
    let force = by.is_forced();
    let _one_at_a_time = turn(world, handle).await?;
    let (view, ready) = emptied(world, harness, handle).await?;
    refuse_unless_ready(ready, &view)?;
    if !force && line::is_begun(world, handle, &view) {
        return Err(line::begun(&view).into());
    }
    // From here on any waiting input is this text.
    if view.is_full() {
        return Err(full(&view).into());
    }
    match view.reads() {
        Reads::Keys => paste(world, harness, handle, text, &view, by).await?,
        // Without a report of the modes, a text is submitted as a whole.
        Reads::Lines | Reads::Unknown => {
            let submit = Input::Submit(text.to_owned());
            let sent = put(world, handle, &view, submit).await;
            sent.map_err(|sent| Undelivered::Unanswered {
                stands: None,
                anew: false,
                sent,
            })?;
        }
    }
    line::submitted(world, child, handle, &view, force);
    Ok(())
}

/// Pastes a text, and presses Enter once it stands in the input line.
async fn paste(
    world: &World,
    harness: Option<&HarnessName>,
    handle: &SessionHandle,
    text: &str,
    view: &ScreenView,
    by: By,
) -> Result<(), Undelivered> {
    let conditions = &world.directory.conditions;
    let left = conditions.set_unsubmitted(handle, None);
    let Some((paste, stands)) = unsubmitted::rest(left.clone(), text, view) else {
        // A person who repeats a text means it. A retry of the supervisor proves nothing.
        if by == By::Supervisor {
            conditions.set_unsubmitted(handle, left);
        }
        return Err(doubtful(view).into());
    };
    // Until it is submitted it stands there, whatever happens.
    conditions.set_unsubmitted(handle, Some(stands.clone()));
    let mut anew = paste.is_some();
    let pasted = |why: Refusal, anew: bool| {
        // The hook of an earlier text may have been late.
        conditions.set_unsubmitted(handle, Some(stands.clone()));
        let stands = stands.clone();
        Undelivered::Pasted { stands, anew, why }
    };
    if let Some(paste) = paste {
        let sent = put(world, handle, view, Input::Paste(paste)).await;
        sent.map_err(|sent| {
            anew &= sent.fate != Fate::Untouched;
            pasted(sent.of_a_paste(), anew)
        })?;
    }
    let looked = settled(world, harness, handle, &stands).await;
    let (view, ready) = looked.map_err(|error| pasted(error.into(), anew))?;
    // A dialog may have opened since: Enter would take its default.
    let is_lost = ready == Readiness::Unrecognised && !stands.is_shown(&view);
    let is_begun = !by.is_forced() && line::is_begun(world, handle, &view);
    if is_lost || is_begun || matches!(ready, Readiness::Asks(_)) {
        let refused = match is_begun {
            true => Err(line::begun(&view)),
            false => refuse_unless_ready(ready, &view),
        };
        return refused.map_err(|mut why| {
            why.message = format!("the text was typed, but not submitted: {}", why.message);
            pasted(why, anew)
        });
    }
    let sent = put(world, handle, &view, Input::Raw(b"\r".to_vec())).await;
    sent.map_err(|sent| match sent.fate {
        Fate::Untouched => pasted(sent.why, anew),
        Fate::Taken | Fate::Unknown => Undelivered::Unanswered {
            stands: Some(stands.clone()),
            anew,
            sent,
        },
    })
}

/// Returns the screen once a pasted text had time to be drawn: a busy program draws late.
async fn settled(
    world: &World,
    harness: Option<&HarnessName>,
    handle: &SessionHandle,
    stands: &Unsubmitted,
) -> Result<(ScreenView, Readiness), SessionError> {
    tokio::time::sleep(SETTLE).await;
    let deadline = world.clock.mono() + REACTION;
    loop {
        let (view, ready) = read_screen(world, harness, handle).await?;
        let is_hidden = ready == Readiness::Unrecognised && !stands.is_shown(&view);
        if !is_hidden || world.clock.mono() >= deadline {
            return Ok((view, ready));
        }
        tokio::time::sleep(GLIMPSE).await;
    }
}

/// Returns the screen once the program has read earlier input, or had time to.
async fn emptied(
    world: &World,
    harness: Option<&HarnessName>,
    handle: &SessionHandle,
) -> Result<(ScreenView, Readiness), SessionError> {
    let deadline = world.clock.mono() + REACTION;
    loop {
        let (view, ready) = read_screen(world, harness, handle).await?;
        if !view.is_full() || world.clock.mono() >= deadline {
            return Ok((view, ready));
        }
        tokio::time::sleep(GLIMPSE).await;
    }
}

/// Types keys, whatever is on the screen; never between the parts of a text or an answer.
///
/// # Errors
/// Other typing takes too long, or the session is gone.
pub async fn keys(world: &World, handle: &SessionHandle, keys: Vec<u8>) -> Result<(), Refusal> {
    let _one_at_a_time = turn(world, handle).await?;
    world.directory.conditions.pressed(handle);
    Ok(press(world, handle, Input::Raw(keys)).await?)
}

/// Types the end of input to a program that reads lines. Types nothing to a program that reads keys, which that key
/// would end. `typed` is the text before it, if it was typed just now: its echo may look like a dialog.
///
/// # Errors
/// A dialog, a person's begun line, or earlier input prevents it. Otherwise as [`keys`].
pub async fn end_input(
    world: &World,
    harness: &HarnessName,
    handle: &SessionHandle,
    typed: Option<&str>,
) -> Result<(), Refusal> {
    let _one_at_a_time = turn(world, handle).await?;
    let (view, ready) = read_screen(world, Some(harness), handle).await?;
    if view.reads() == Reads::Keys {
        return Ok(());
    }
    let is_echo = |dialog: &Dialog| typed.is_some_and(|text| text.contains(&dialog.question));
    match ready {
        Readiness::Asks(dialog) if !is_echo(&dialog) => Err(open(&dialog)),
        _ if line::is_begun(world, handle, &view) => Err(line::begun(&view)),
        _ if view.is_full() => Err(full(&view)),
        _ => Ok(press(world, handle, Input::EndOfInput).await?),
    }
}

/// Builds the refusal of a text while the program does not read earlier input.
fn full(view: &ScreenView) -> Refusal {
    let waits = view.queued.unwrap_or_default();
    Refusal::conflict(format!(
        "{waits} bytes of earlier input wait in its terminal, because its program does not read"
    ))
    .hint("`hd peek NAME` shows what the program does")
}

/// Builds the refusal of a text while an earlier one may still stand in the input line.
fn doubtful(view: &ScreenView) -> Refusal {
    Refusal::new(
        RefusalKind::NeedsHuman,
        format!(
            "an earlier text was typed, but not submitted, and may still be in the input line:\n{}",
            view.text()
        ),
    )
    .hint("`hd send NAME --keys Enter` submits it; repeat `hd send` to type the new text anyway")
}

fn refuse_unless_ready(ready: Readiness, view: &ScreenView) -> Result<(), Refusal> {
    match ready {
        Readiness::Ready => Ok(()),
        Readiness::Asks(dialog) => Err(open(&dialog)),
        Readiness::Unrecognised => Err(Refusal::new(
            RefusalKind::NeedsHuman,
            format!("the screen shows no input line:\n{}", view.text()),
        )
        .hint("`hd send NAME --keys \"...\"` types keys, `hd attach NAME` shows the terminal")),
    }
}

/// Builds the refusal that names the open dialog and its answers.
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
            "the way to answer it is unknown: use `hd attach NAME` or `hd send NAME --keys \"...\"`"
        }
        Form::Menu {
            several: Some(_), ..
        } => "it takes several choices: `hd answer NAME 1,3` selects only these and submits",
        Form::Menu { multiple: true, .. } => {
            "it takes several choices, but its keys are unknown: use `hd attach NAME` or `hd send \
            NAME --keys \"...\"`"
        }
        Form::AnyKey => "`hd answer NAME enter` continues",
        Form::Secret => "`hd answer NAME TEXT` types it",
        Form::Menu { .. } | Form::Letters { .. } => "`hd answer NAME CHOICE` answers it",
    };
    Refusal::new(RefusalKind::NeedsHuman, message).hint(hint)
}

mod answering;
mod line;
mod sent;

use self::sent::put;

pub use self::answering::{Answered, answer};
pub use self::sent::{Unanswered, Undelivered};

#[cfg(test)]
mod tests;
