//! Sessions older than `max_session` of `[rigs.raiders]` are asked to hand off (`domain::session_age` decides). Nothing is
//! forced: the text is typed when the program waits for text, and the agent hands off itself, its note first.
//!
//! The requests are stored per session, so that a supervisor that was restarted does not begin again. A crash between
//! typing and storing repeats one request.

use super::super::claims::{Claim, ClaimKey};
use super::super::refusal::Refusal;
use super::super::typing::{self, Typing};
use super::WitnessArgs;
use crate::actors::effects;
use crate::actors::records::session_ages;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::facts::{RunState, SessionFacts};
use crate::domain::ids::ChildId;
use crate::domain::phase::WorkPhase;
use crate::domain::relic::Hook;
use crate::domain::session_age::{self, Asked};
use crate::ports::relics::Txn;
use crate::ports::sessions::SessionHandle;

/// Starts the search for old sessions, independent of other work.
pub(super) fn start_look(args: &WitnessArgs) {
    let rig = args.world.city.rig(&args.rig);
    if rig.is_none_or(|rig| rig.raiders.max_session.is_none()) {
        return;
    }
    let key = ClaimKey::SessionAges(args.rig.clone());
    let Some(claim) = args.world.claims.claim(key) else {
        return;
    };
    let args = args.clone();
    tokio::spawn(async move {
        or_warn!(pass(&args, claim).await, rig = %args.rig,
            "sessions cannot be checked for their age; the next patrol retries");
    });
}

async fn pass(args: &WitnessArgs, _claim: Claim) -> Result<(), Refusal> {
    let world = &args.world;
    let Some(limit) = world
        .city
        .rig(&args.rig)
        .and_then(|rig| rig.raiders.max_session)
    else {
        return Ok(());
    };
    let rig = args.rig.clone();
    let read = move |txn: &mut dyn Txn| {
        let raiders = txn.raiders(Some(&rig))?;
        let working = raiders
            .into_iter()
            .filter(|record| WorkPhase::of(record).is_working());
        let hooks: Vec<Hook> = working.map(|record| record.hook).collect();
        session_ages::asked(txn, &rig, hooks)
    };
    let working = world.store.run(read).await?;
    if working.is_empty() || world.is_stopping() {
        return Ok(());
    }
    let sessions = effects::list(world).await?;
    for (hook, asked) in working {
        let id = hook.raider.session_id();
        let running = |facts: &&SessionFacts| facts.id == id && facts.state == RunState::Running;
        let Some(facts) = sessions.iter().find(running) else {
            continue;
        };
        let session = (facts.token.as_str(), facts.started_at);
        let due = session_age::is_due(limit, session, asked.as_ref(), world.clock.now());
        if let Some(age) = due {
            let handle = SessionHandle {
                id,
                token: facts.token.clone(),
            };
            let text = session_age::text(&hook.relic, age, &world.hd());
            ask(args, &hook, &handle, asked, &text).await?;
        }
    }
    Ok(())
}

/// Types the request, if this is a moment for it: no person is attached, no dialog is open, no line is begun, and the
/// account is not parked. Otherwise the next patrol tries again.
async fn ask(
    args: &WitnessArgs,
    hook: &Hook,
    handle: &SessionHandle,
    asked: Option<Asked>,
    text: &str,
) -> Result<(), Refusal> {
    let world = &args.world;
    let child = ChildId::Raider(hook.raider.clone());
    let accounts = &world.directory.accounts;
    if accounts.held(&world.city, &hook.harness, &child).is_some() {
        return Ok(());
    }
    if typing::may_type(world, &hook.harness, handle).await != Typing::Free {
        return Ok(());
    }
    match typing::submit(world, &child, Some(&hook.harness), handle, text).await {
        Ok(()) => {}
        // A dialog, a person or other text came between.
        Err(later) if later.is_later() => return Ok(()),
        Err(error) => {
            tracing::warn!(
                session = %handle.id,
                %error,
                "the request to hand off could not be typed into an old session; the next patrol tries again"
            );
            return Ok(());
        }
    }
    let (hook, token) = (hook.clone(), handle.token.clone());
    let note = move |txn: &mut dyn Txn| {
        let asked = Asked::once_more(asked.as_ref(), &token, txn.now());
        session_ages::put(txn, &hook.raider, &asked)?;
        let data = serde_json::json!({
            "relic": hook.relic, "incarnation": hook.incarnation, "nudge": asked.times,
        });
        let event = NewEvent::new(EventType::RaiderNudged, &hook.raider, Cause::SessionAge);
        txn.record(&event.with(data)).map(|_| ())
    };
    Ok(world.store.run(note).await?)
}
