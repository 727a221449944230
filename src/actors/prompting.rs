//! The first prompt of a program that takes it in its terminal (`prompt = "paste"` and `"stdin"`): typed by the same judgement as
//! every other text. A login or a menu at the start keeps it back, is shown as what it is, and takes no Enter of it.
//!
//! ```text
//!  session is up ──► owed? ──► drawn, and quiet ──► waits for text ──► typed ──► nothing is owed
//!                       ▲                      ├──► a dialog, a limit, a login ──┐
//!                       │                      └──► nothing is known of it ──► after LONG a person is called
//!                       └── its screen was looked at again, or a patrol's time ──┘
//! ```
//!
//! What is owed is kept with the session, so a supervisor that adopts the session goes on here. A prompt that was typed in
//! the moment in which a supervisor died is typed twice, which is better than not at all. Once it was typed, the end of
//! input alone is owed.

use std::sync::Arc;
use std::time::Duration;

use super::root::{ChildSpec, Work};
use super::typing::Typing;
use super::world::{Directory, World};
use super::{conditions, effects, shaman, typing};
use crate::actors::refusal::RefusalKind;
use crate::domain::condition::Condition;
use crate::domain::dialog::Readiness;
use crate::domain::harness::{END_OF_INPUT, in_short_lines};
use crate::domain::ids::{ChildId, HarnessName, RelicId};
use crate::domain::message::{Escalation, Severity};
use crate::domain::restart::Mono;
use crate::domain::screen::ScreenView;
use crate::ports::sessions::{SessionError, SessionHandle};

/// The fact of a session that holds the prompt until it was typed.
pub(super) const OWED: &str = "first_prompt";
/// A person is called in these words.
const UNTYPED: &str = "its first prompt cannot be typed";
/// A program that draws is looked at again after this; one that shows the same then is quiet.
const QUIET: Duration = Duration::from_millis(300);
/// Between two tries to see whether a prompt is owed.
const AGAIN: Duration = Duration::from_secs(2);
/// One that never gets quiet gets its prompt after this,
const NEVER_QUIET: Duration = Duration::from_secs(10);
/// and one that reads lines and has printed nothing after this: a program that is about to read keys would take the
/// lines for something else.
const SILENT: Duration = Duration::from_secs(3);
/// Reasons for which a prompt is not typed yet.
const UNKNOWN: &str =
    "nothing on its screen is known to take text, and it is no dialog that is known either";
const BEGUN: &str = "a line that a person has begun and not submitted stands in its input";
/// So begins the condition of a session whose first prompt is kept back.
const WAITS: &str = "its first prompt waits: ";
/// A screen of which nothing is known is a condition after this.
const LONG: Duration = Duration::from_secs(30);

/// A session and whose it is.
struct Owed {
    child: ChildId,
    relic: Option<RelicId>,
    harness: HarnessName,
    handle: SessionHandle,
    text: String,
}

/// What was seen of it so far.
#[derive(Default)]
struct Course {
    began: Mono,
    view: Option<ScreenView>,
    /// Since when its screen changes at each look.
    moves: Option<Mono>,
    /// The reason for which the prompt is not typed, where no condition says it, and since when.
    kept_back: Option<(String, Mono)>,
    /// A person was called for that.
    called: bool,
    /// A person was called, for whatever.
    has_called: bool,
    /// The terminal has taken a part of the prompt, and takes the rest as its program reads.
    under_way: bool,
    /// Nothing but the end of input is owed.
    at_end: bool,
}

impl Course {
    /// Returns since when this keeps the prompt back. Another reason is waited for anew, and told anew.
    fn since(&mut self, why: &str, now: Mono) -> Mono {
        match &self.kept_back {
            Some((known, since)) if known == why => *since,
            _ => {
                (self.kept_back, self.called) = (Some((why.to_owned(), now)), false);
                now
            }
        }
    }
}

/// What to do next.
enum Next {
    /// Nothing more.
    Over,
    /// Look again in a moment.
    Soon,
    /// Look again when the screen has changed.
    Later,
}

/// Types the first prompt of a session, if it is owed, in a task of its own.
pub fn begin(world: &Arc<World>, spec: &ChildSpec, harness: &HarnessName, handle: &SessionHandle) {
    let relic = match &spec.work {
        Work::Raider { hook, .. } => Some(hook.relic.clone()),
        Work::Agent(_) => None,
    };
    let (child, harness, handle) = (spec.id.clone(), harness.clone(), handle.clone());
    let directory = Arc::clone(&world.directory);
    let world = Arc::clone(world);
    tokio::spawn(async move {
        let began = world.clock.mono();
        drop(world);
        let Some(text) = kept(&directory, &handle).await else {
            return;
        };
        let owed = Owed {
            child,
            relic,
            harness,
            handle,
            text,
        };
        let mut course = Course {
            began,
            at_end: owed.text == END_OF_INPUT.to_string(),
            ..Course::default()
        };
        // A supervisor that stops leaves it to the next one.
        while let Some(world) = directory.newest().filter(|world| !world.is_stopping()) {
            let wait = match attempt(&world, &owed, &mut course).await {
                Next::Over => return,
                Next::Soon => QUIET,
                Next::Later => world.city.daemon.patrol_interval,
            };
            let changed = world.directory.conditions.looked(&owed.handle);
            drop(world);
            match changed.filter(|_| wait > QUIET) {
                // What comes first.
                Some(changed) => drop(tokio::time::timeout(wait, changed.notified()).await),
                None => tokio::time::sleep(wait).await,
            }
        }
    });
}

/// The prompt that is owed to a session; none when none is, or the session is gone.
async fn kept(directory: &Directory, handle: &SessionHandle) -> Option<String> {
    let mut told = false;
    while let Some(world) = directory.newest().filter(|world| !world.is_stopping()) {
        let id = handle.id.clone();
        let kept = effects::sessions(&world, &handle.id, move |p| p.get_meta(&id, OWED)).await;
        match kept {
            Ok(text) => return text.filter(|text| !text.is_empty()),
            Err(SessionError::Gone(_)) => return None,
            // The prompt may be owed, and no other task types it.
            Err(error) => {
                if !std::mem::replace(&mut told, true) {
                    tracing::warn!(session = %handle.id, %error, "whether its first prompt is owed cannot be read; this is tried again");
                }
            }
        }
        drop(world);
        tokio::time::sleep(AGAIN).await;
    }
    None
}

async fn attempt(world: &World, owed: &Owed, course: &mut Course) -> Next {
    let (view, ready) = match typing::look(world, Some(&owed.harness), &owed.handle).await {
        Ok(seen) => seen,
        Err(SessionError::Gone(_)) => return ended(world, owed, course).await,
        Err(SessionError::Failed { .. }) => return Next::Later,
    };
    let waits = view.queued.is_some_and(|bytes| bytes > 0);
    match course.under_way && !waits {
        true => return typed(world, owed, course, &view).await,
        false if course.under_way => return Next::Later,
        false if course.at_end => return end(world, owed, course, &view).await,
        false => {}
    }
    let now = world.clock.mono();
    let age = now.saturating_sub(course.began);
    let drawn = !view.text().trim().is_empty();
    if !drawn && !reads_keys(&view) && age < SILENT || moves(course, &view, now) {
        return Next::Soon;
    }
    if let Readiness::Unrecognised = ready {
        let hint = "`input_patterns` of its harness say how a screen that takes text looks.";
        return kept_back(world, owed, course, &view, (UNKNOWN, hint)).await;
    }
    let typing = typing::may_type(world, &owed.harness, &owed.handle).await;
    let shown = world.directory.conditions.of(&owed.handle);
    let shown = shown.filter(|shown| !shown.text().starts_with(WAITS));
    let parked = world
        .directory
        .accounts
        .held(world, &owed.harness, &owed.child);
    let asks = matches!(ready, Readiness::Asks(_));
    // Words that an attached person has begun would be submitted with it; a condition tells people.
    if asks || parked.is_some() || shown.is_some() || typing == Typing::Attended {
        course.kept_back = None;
        conditions::set_odd(world, &owed.handle, None);
        return Next::Later;
    }
    if let Typing::Begun(_) = typing {
        let hint = "The prompt is typed once that line is submitted or emptied, or was left for ten minutes.";
        return kept_back(world, owed, course, &view, (BEGUN, hint)).await;
    }
    type_now(world, owed, course, &view).await
}

/// Types it, and with it the end of input where its program reads lines and nothing else.
async fn type_now(world: &World, owed: &Owed, course: &mut Course, view: &ScreenView) -> Next {
    let text = owed.text.strip_suffix(END_OF_INPUT);
    let text = text.map_or(owed.text.as_str(), str::trim_end);
    let text = match reads_keys(view) {
        true => text.to_owned(),
        false => in_short_lines(text),
    };
    match typing::submit(world, Some(&owed.harness), &owed.handle, &text).await {
        Ok(()) => typed(world, owed, course, view).await,
        Err(gone) if gone.kind == RefusalKind::NotFound => ended(world, owed, course).await,
        Err(refused)
            if matches!(
                refused.kind,
                RefusalKind::NeedsHuman | RefusalKind::Conflict
            ) =>
        {
            // Below stands the screen, which may change.
            let why = refused.message.lines().next().unwrap_or_default();
            let hint = refused.hint.as_deref().unwrap_or_default();
            kept_back(world, owed, course, view, (why, hint)).await
        }
        // A line that is too long for the terminal, a terminal that takes nothing.
        Err(error) => {
            let looked = typing::look(world, Some(&owed.harness), &owed.handle).await;
            let queued = looked.ok().and_then(|(view, _)| view.queued);
            course.under_way = queued.is_some_and(|bytes| bytes > 0);
            let (why, screen) = (error.to_string(), view.text());
            let hint = match course.under_way {
                true => "The rest of it is typed when the program reads.",
                false => "It is tried again at each patrol.",
            };
            course.since(&why, world.clock.mono());
            conditions::set_odd(world, &owed.handle, None);
            call(world, owed, course, (&why, hint, &screen)).await;
            Next::Later
        }
    }
}

/// The text was typed: from now on at most the end of input is owed.
async fn typed(world: &World, owed: &Owed, course: &mut Course, view: &ScreenView) -> Next {
    course.under_way = false;
    if owed.text.ends_with(END_OF_INPUT) {
        course.at_end = true;
        owe(world, owed, &END_OF_INPUT.to_string()).await;
        return end(world, owed, course, view).await;
    }
    owe(world, owed, "").await;
    ended(world, owed, course).await
}

/// Tells a program that reads lines that no more of them come. To one that reads keys it would be a key that ends it.
async fn end(world: &World, owed: &Owed, course: &mut Course, view: &ScreenView) -> Next {
    if !reads_keys(view) {
        let end = END_OF_INPUT.to_string().into_bytes();
        match typing::keys(world, &owed.handle, end).await {
            Ok(()) => {}
            Err(gone) if gone.kind == RefusalKind::NotFound => {}
            Err(error) => {
                tracing::warn!(session = %owed.handle.id, %error, "the end of its input is not typed yet");
                return Next::Later;
            }
        }
    }
    owe(world, owed, "").await;
    ended(world, owed, course).await
}

/// Keeps with the session what is still owed to it.
async fn owe(world: &World, owed: &Owed, rest: &str) {
    let (of, rest) = (owed.handle.clone(), rest.to_owned());
    let keep =
        move |provider: &dyn crate::ports::sessions::Sessions| provider.set_meta(&of, OWED, &rest);
    if let Err(error) = effects::sessions(world, &owed.handle.id, keep).await {
        tracing::warn!(session = %owed.handle.id, %error, "its first prompt may be typed again");
    }
}

/// Whether the program reads keys, and no lines.
fn reads_keys(view: &ScreenView) -> bool {
    view.reads_lines == Some(false) || view.bracketed_paste == Some(true)
}

/// Whether the screen is not quiet yet.
fn moves(course: &mut Course, view: &ScreenView, now: Mono) -> bool {
    if course.view.replace(view.clone()).as_ref() == Some(view) {
        course.moves = None;
        return false;
    }
    let since = *course.moves.get_or_insert(now);
    now.saturating_sub(since) < NEVER_QUIET
}

/// The prompt may not be typed, and no condition tells people why. The program may still be starting, or the person may
/// submit their line. After [`LONG`] a person is called.
async fn kept_back(
    world: &World,
    owed: &Owed,
    course: &mut Course,
    view: &ScreenView,
    (why, hint): (&str, &str),
) -> Next {
    let now = world.clock.mono();
    let since = course.since(why, now);
    if now.saturating_sub(since) < LONG {
        return Next::Soon;
    }
    let screen = view.text();
    let condition = Condition::Unrecognised {
        text: format!("{WAITS}{why}"),
        screen: screen.clone(),
    };
    conditions::set_odd(world, &owed.handle, Some(condition));
    call(world, owed, course, (why, hint, &screen)).await;
    Next::Later
}

/// Calls a person, once.
async fn call(
    world: &World,
    owed: &Owed,
    course: &mut Course,
    (why, hint, screen): (&str, &str, &str),
) {
    if !course.called {
        // Another reason is not told while the call for the one before is open.
        if course.has_called {
            over(world, owed).await;
        }
        let body = Escalation {
            agent: owed.child.to_string(),
            relic: owed.relic.clone(),
            problem: UNTYPED.to_owned(),
            severity: Severity::High,
            evidence: format!(
                "{why}. `hd attach {0}` or `hd send {0} --keys \"...\"` brings it to where it takes text. {hint} Its \
                 screen:\n{screen}",
                owed.child
            ),
        };
        match shaman::call(world, "root", body).await {
            Ok(()) => (course.called, course.has_called) = (true, true),
            Err(error) => {
                tracing::warn!(child = %owed.child, %error, "a person could not be called yet");
            }
        }
    }
}

/// It was typed, or its session has ended: what people were called for is over.
async fn ended(world: &World, owed: &Owed, course: &Course) -> Next {
    conditions::set_odd(world, &owed.handle, None);
    if course.has_called {
        over(world, owed).await;
    }
    Next::Over
}

/// Closes the call about the first prompt of this session.
async fn over(world: &World, owed: &Owed) {
    let who = owed.child.to_string();
    let over = world
        .store
        .run(move |txn| shaman::over(txn, &[UNTYPED], |of, _| of == who));
    if let Err(error) = over.await {
        tracing::warn!(child = %owed.child, %error, "a call about its first prompt may stay open");
    }
}

#[cfg(test)]
mod tests;
