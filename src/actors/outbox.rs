//! The outbox: completions that `hd` left there while the supervisor was away.
//!
//! ```text
//!   file ─► readable? ─► genuine? ─► declared ─► accepted, or refused for good: removed
//!               │            │           └► may be accepted later: stays
//!               └────────────┴► no: set aside, and an event
//! ```
//!
//! A file does not prove its author: it must be signed with the key of the session that it names, and match the known
//! facts about the raider.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::claims::{Claim, ClaimKey};
use super::declared;
use super::refusal::{Refusal, RefusalKind};
use super::world::World;
use super::{ask, effects};
use crate::actors::mail::DoneRequest;
use crate::actors::mail::WitnessMsg;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{Incarnation, InvalidId, RaiderId};
use crate::domain::intent::Intent;
use crate::domain::relic::Hook;
use crate::ports::tasks::{TaskError, TaskFiles};

/// Handles the outbox as far as possible now, and returns when every file was tried, also by other tasks.
pub async fn drain(world: &Arc<World>) {
    /// Interval between two checks of a claim that another task holds.
    const TURN: Duration = Duration::from_millis(50);
    let elsewhere = empty(world).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "the outbox could not be read; the next patrol retries");
        Vec::new()
    });
    for key in elsewhere {
        while world.claims.is_claimed(&key) {
            tokio::time::sleep(TURN).await;
        }
    }
}

/// Tries every file: those of one raider in their order, each raider's in a task of its own. Returns the claims that
/// other tasks hold; these tasks then repeat their work.
pub async fn empty(world: &Arc<World>) -> Result<Vec<ClaimKey>, Refusal> {
    let (mut trying, mut elsewhere) = (JoinSet::new(), Vec::new());
    let left = effects::tasks(world, effects::Owner::City, |tasks| tasks.outbox()).await?;
    let waiting: BTreeSet<_> = left.iter().map(|(_, intent)| author(intent)).collect();
    let mut authors = HashMap::new();
    for author in waiting {
        match world.claims.claim_or_repeat(author.clone()) {
            Some(claim) => {
                let task = trying.spawn(empty_of(Arc::clone(world), author.clone(), claim));
                authors.insert(task.id(), author);
            }
            None => elsewhere.push(author),
        }
    }
    while let Some(tried) = trying.join_next_with_id().await {
        if let Err(panic) = tried {
            let author = authors.get(&panic.id());
            tracing::error!(
                ?author,
                %panic,
                "the handling of an outbox file panicked; the files of its author stay in the outbox, and the next \
                patrol retries"
            );
        }
    }
    Ok(elsewhere)
}

/// Returns the claim for the files of one raider.
fn author(intent: &Result<Intent, TaskError>) -> ClaimKey {
    let (rig, raider) = match intent {
        Ok(intent) => (intent.rig.as_deref(), intent.raider.as_deref()),
        Err(_) => (None, None),
    };
    let said = |name: Option<&str>| name.unwrap_or_default().to_owned();
    ClaimKey::Outbox(said(rig), said(raider))
}

/// Tries the files of one raider, until one has to wait: later ones must not be handled before it.
async fn empty_of(world: Arc<World>, whose: ClaimKey, mut claim: Claim) {
    loop {
        let left = effects::tasks(&world, effects::Owner::City, |tasks| tasks.outbox()).await;
        let left = left.unwrap_or_else(|error| {
            tracing::warn!(%error, "the outbox could not be read; the next patrol retries");
            Vec::new()
        });
        let own = left
            .into_iter()
            .filter(|(_, intent)| author(intent) == whose);
        for (file, intent) in own {
            if carry_out(&world, file, intent).await == Next::Waits {
                break;
            }
        }
        match claim.give_back() {
            Some(again) => claim = again,
            None => return,
        }
    }
}

/// The result of handling a file.
#[derive(PartialEq, Eq)]
enum Next {
    /// Handled: accepted, refused or set aside.
    Over,
    /// May be accepted later.
    Waits,
}

/// Carries a file's request out as if it came over the socket. A permanent refusal removes the file; a request that may
/// be accepted later stays.
async fn carry_out(world: &World, file: PathBuf, intent: Result<Intent, TaskError>) -> Next {
    let intent = match intent {
        Ok(intent) => intent,
        Err(error) => return set_aside(world, file, None, error.why).await,
    };
    let request = match done_request(&intent, world.clock.now()) {
        Ok(request) => request,
        Err(why) => return set_aside(world, file, Some(&intent), why.message).await,
    };
    let key = world.secret.key(
        &request.raider.session_id(),
        request.incarnation.unwrap_or_default(),
    );
    if !intent.is_signed(&key) {
        let why = format!(
            "it is not signed with the key of the session of {}",
            request.raider
        );
        return set_aside(world, file, Some(&intent), why).await;
    }
    let settled = match mismatch(world, &intent, &request).await {
        Ok(Some(why)) => return set_aside(world, file, Some(&intent), why).await,
        Ok(None) => declare(world, request).await,
        Err(error) => Err(error),
    };
    match settled {
        Ok(()) => {}
        // May be accepted later: a probe can succeed.
        Err(error) if error.is_passing() || error.kind == RefusalKind::Internal => {
            tracing::warn!(
                file = %file.display(),
                %error,
                "a completion from the outbox cannot be handled now; it stays there and is \
                retried"
            );
            return Next::Waits;
        }
        Err(error) => {
            let raider = intent.raider.as_deref().unwrap_or("nobody");
            tracing::warn!(
                raider,
                %error,
                "a completion from the outbox was refused; it is removed"
            );
        }
    }
    let shown = file.display().to_string();
    let settle = effects::tasks(world, effects::Owner::City, move |tasks| {
        tasks.remove_intent(&file)
    })
    .await;
    or_warn!(
        settle,
        file = shown,
        "a handled file could not be removed from the outbox; the next patrol handles it again, without effect"
    );
    Next::Over
}

/// Returns true while a completion of this hook's session waits in the outbox. An outbox that cannot be read has none, and the log says
/// so: work goes on without it.
pub async fn has_completion_of(world: &World, hook: &Hook) -> bool {
    let left = effects::tasks(world, effects::Owner::City, |tasks| tasks.outbox()).await;
    let left = left.unwrap_or_else(|error| {
        tracing::warn!(raider = %hook.raider, %error, "the outbox cannot be read; completions in it are not waited for");
        Vec::new()
    });
    let key = world
        .secret
        .key(&hook.raider.session_id(), hook.incarnation);
    let is_own = |intent: &Intent| {
        let request = done_request(intent, world.clock.now());
        let is_of_hook =
            |it: DoneRequest| it.raider == hook.raider && it.incarnation == Some(hook.incarnation);
        intent.relic.as_deref() == Some(hook.relic.as_str())
            && request.is_ok_and(is_of_hook)
            && intent.is_signed(&key)
    };
    left.iter().any(|(_, it)| it.as_ref().is_ok_and(is_own))
}

/// Has a waiting completion of this hook's session handled, if there is one, and waits for that attempt, which may take longer than its
/// caller waits. Returns true if there was one.
pub async fn settle(world: &Arc<World>, hook: &Hook) -> bool {
    const TURN: Duration = Duration::from_millis(50);
    /// Shorter than the supervisor waits for its children when it stops.
    const LIMIT: Duration = Duration::from_secs(8);
    if !has_completion_of(world, hook).await {
        return false;
    }
    // In a task of its own: handling that is under way must not end with this wait.
    let all = Arc::clone(world);
    let attempt = tokio::spawn(async move { drain(&all).await });
    let deadline = world.clock.mono() + LIMIT;
    while !attempt.is_finished() && world.clock.mono() < deadline && !world.is_stopping() {
        tokio::time::sleep(TURN).await;
    }
    true
}

/// Returns what in a request contradicts the facts about the raider that it names. A request of another incarnation is
/// void anyway: the witness refuses it.
async fn mismatch(
    world: &World,
    intent: &Intent,
    request: &DoneRequest,
) -> Result<Option<String>, Refusal> {
    let raider = request.raider.clone();
    let hook = world.store.run(move |txn| txn.hook(&raider)).await?;
    let present = hook.filter(|hook| Some(hook.incarnation) == request.incarnation);
    let Some(hook) = present else {
        return Ok(None);
    };
    let (raider, session) = (&hook.raider, hook.raider.session_id());
    if intent.session.as_deref() != Some(session.as_str()) {
        return Ok(Some(format!(
            "it was not written by the session of {raider}"
        )));
    }
    if intent.relic.as_deref() != Some(hook.relic.as_str()) {
        return Ok(Some(format!("{raider} does not work on that relic")));
    }
    let (cwd, sandbox) = (intent.cwd.clone(), world.city.sandbox(raider));
    let within = move |tasks: &dyn TaskFiles| Ok(tasks.is_within(&cwd, &sandbox));
    let within =
        effects::tasks(world, effects::Owner::Rig(hook.raider.rig.clone()), within).await?;
    Ok((!within).then(|| format!("it was not written in the sandbox of {raider}")))
}

async fn set_aside(world: &World, file: PathBuf, intent: Option<&Intent>, why: String) -> Next {
    let path = file.clone();
    let aside = effects::tasks(world, effects::Owner::City, move |tasks| {
        tasks.set_aside(&path)
    })
    .await;
    if let Err(error) = aside {
        tracing::warn!(
            file = %file.display(),
            %error,
            "an invalid file could not be set aside and stays in the outbox"
        );
        return Next::Over;
    }
    let raider = intent.and_then(|intent| intent.raider.as_deref());
    let subject = raider.filter(|raider| raider.parse::<RaiderId>().is_ok());
    let data = json!({
        "outbox": file, "op": intent.map(|intent| &intent.op), "raider": raider,
        "session": intent.map(|intent| &intent.session),
        "cwd": intent.map(|intent| &intent.cwd), "message": why,
    });
    let subject = subject.unwrap_or("outbox");
    let event = NewEvent::new(EventType::ControlForbidden, subject, Cause::Forbidden);
    world.store.journal(vec![event.with(data)]);
    Next::Over
}

async fn declare(world: &World, request: DoneRequest) -> Result<(), Refusal> {
    let (raider, witness) = (
        request.raider.clone(),
        world.directory.witness(&request.raider.rig),
    );
    let message = |reply| WitnessMsg::Done(request, reply);
    let declared = ask::ask(witness, message, Duration::from_secs(120)).await?;
    declared.map(drop).inspect_err(|refused| {
        // No other code tells the raider; it may clean the tree later, in the middle of other work.
        let told = WitnessMsg::Refused(raider.clone(), refused.clone());
        world.directory.tell_witness(&raider.rig, told);
    })
}

fn done_request(intent: &Intent, now: Timestamp) -> Result<DoneRequest, Refusal> {
    let bad = |why: String| Refusal::new(RefusalKind::BadRequest, why);
    if intent.op != "done" {
        return Err(bad(format!("{} is not accepted in the outbox", intent.op)));
    }
    let raider = intent.raider.as_deref().unwrap_or_default();
    let rig = intent.rig.as_deref().unwrap_or_default();
    let full = if raider.contains('/') {
        raider.into()
    } else {
        format!("{rig}/raiders/{raider}")
    };
    let raider: RaiderId = full
        .parse()
        .map_err(|error: InvalidId| bad(error.to_string()))?;
    let mut args = Value::Object(intent.args.clone());
    // Written by an `hd` of a version that knew no limit.
    if let Some(Value::String(reason)) = args.get_mut("reason") {
        *reason = declared::cut_reason(std::mem::take(reason));
    }
    let mut request: DoneRequest = declared::parse_args(raider, &args, now)?;
    let incarnation = intent.incarnation.map(Incarnation);
    request.incarnation =
        Some(incarnation.ok_or_else(|| bad("its incarnation is missing".into()))?);
    Ok(request)
}
