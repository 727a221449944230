//! `rally`: the name of the caller, its work, and where it was.

use serde_json::Value;

use super::{FACTS_LIMIT, own_facts};
use crate::actors::declared::outcome_file::{self, OutcomeSeen};
use crate::actors::last_end;
use crate::actors::records::handoffs::{self, ToldNote};
use crate::actors::records::{outcome_notices, totems};
use crate::actors::refusal::Refusal;
use crate::actors::world::World;
use crate::control::handlers::caller::own_hook;
use crate::control::handlers::{drums, standing, to_json, totem};
use crate::control::protocol::answers::{OutcomeState, RalliedDrums, SandboxGit};
use crate::control::protocol::{ControlError, answers};
use crate::control::rights::CallerRole;
use crate::control::server::Caller;
use crate::domain::drum::Mailbox;
use crate::domain::facts::GitFacts;
use crate::domain::outcome::OutcomeWord;
use crate::domain::prompt;
use crate::domain::relic::{Hook, Relic};
use crate::domain::self_review::{self, Round};
use crate::domain::totem::Totem;
use crate::ports::relics::{StoreError, Txn};

/// The number of rounds of self-review that are told, the last ones.
const RALLIED: usize = 3;

/// The records that a raider is told of.
struct Records {
    relic: Relic,
    note: Option<ToldNote>,
    reviews: Vec<Round>,
    drums: Option<RalliedDrums>,
    totem: Option<Totem>,
}

impl Records {
    fn read(txn: &mut dyn Txn, hook: &Hook, hd: &str) -> Result<Self, StoreError> {
        let id = &hook.relic;
        Ok(Self {
            note: handoffs::last_note(txn, hook)?,
            reviews: txn.self_reviews(id, &hook.raider, hook.incarnation)?,
            drums: drums::rallied(txn, &[Mailbox::Work(id.clone())], hd)?,
            totem: totems::read(txn, id)?,
            relic: txn.relic(id)?,
        })
    }
}

/// `rally`: what am I, what is my work, where was I.
pub(in crate::control::handlers) async fn rally(
    world: &World,
    caller: &Caller,
) -> Result<Value, ControlError> {
    if let CallerRole::Agent(session) = &caller.who {
        return standing::rally(world, caller, session).await;
    }
    let hook = own_hook(world, caller).await?;
    let hd = world.hd();
    let (own, own_hd) = (hook.clone(), hd.clone());
    let records = world
        .store
        .run(move |txn| Records::read(txn, &own, &own_hd))
        .await?;
    let rig = world.city.rig(&hook.raider.rig);
    let left = rig.map(|rig| self_review::left(&records.reviews, rig.raiders.max_reviews));
    let (sandbox, target) = (world.city.sandbox(&hook.raider), hook.target.clone());
    // git is asked at this moment, within the budget of the rig's sandboxes. The counts that `status` shows (`glances`)
    // have neither head nor paths, and are older than the last edits of the agent that asks.
    let git = own_facts(world, &hook, sandbox.clone(), target);
    let session = hook.raider.session_id();
    let last_end = last_end::read(world, &session);
    let (git, last_end, outcome) = tokio::join!(git, last_end, outcome(world, &hook));
    let earlier = records.reviews.len().saturating_sub(RALLIED);
    let (note, note_at) = records.note.map(|note| (note.text, note.at)).unzip();
    to_json(&answers::Rally::Raider(Box::new(answers::RaiderRally {
        task_file: world.tasks.task_file(&sandbox).to_owned(),
        sandbox,
        relic: records.relic,
        last_end,
        note,
        note_at: note_at.flatten(),
        self_reviews: records.reviews.into_iter().skip(earlier).collect(),
        self_reviews_left: left,
        git: git.map_or_else(|unknown| SandboxGit::Unknown { unknown }, seen),
        done: hook.is_declared(),
        outcome,
        drums: records.drums,
        totem: records.totem.map(|totem| totem::progress(&totem, &hd)),
        rules: prompt::rules(&hook.target, &hd),
        finish: prompt::outcome(&hook.relic, &hd),
        // The full path, because a shell may know another program as `hd`.
        hd,
        rig: hook.raider.rig.clone(),
        raider: hook.raider,
        incarnation: hook.incarnation,
        branch: hook.branch,
        target: hook.target,
        base: hook.base,
    })))
}

/// Returns the state of a sandbox for its raider.
fn seen(git: GitFacts) -> SandboxGit {
    SandboxGit::Known {
        head: git.head,
        branch: git.branch,
        ahead: git.ahead,
        dirty: git.dirty,
        untracked: git.untracked,
        special: git.other_work.iter().map(ToString::to_string).collect(),
    }
}

/// Returns the state of the raider's outcome file. One that cannot be read is unknown, and no error of the answer.
async fn outcome(world: &World, hook: &Hook) -> OutcomeState {
    let read = async {
        let seen = outcome_file::read(world, hook).await?;
        let (own, written) = (hook.clone(), seen.written);
        let refused = world
            .store
            .run(move |txn| outcome_notices::refused(txn, &own, written));
        Ok((seen, refused.await?))
    };
    let read: Result<Result<_, Refusal>, _> = tokio::time::timeout(FACTS_LIMIT, read).await;
    let unknown = |why: String| OutcomeState {
        state: OutcomeWord::Unknown,
        reason: Some(why),
        written: None,
        refused: None,
        void: false,
    };
    match read {
        Ok(Ok((seen, refused))) => told(seen, refused),
        Ok(Err(error)) => unknown(error.to_string()),
        Err(_) => unknown(format!(
            "the outcome file could not be read within {FACTS_LIMIT:?}"
        )),
    }
}

fn told(seen: OutcomeSeen, refused: Option<String>) -> OutcomeState {
    let (state, reason) = seen.said.told();
    let is_empty = state == OutcomeWord::Empty;
    OutcomeState {
        state,
        reason,
        written: seen.written,
        // An empty file declares nothing.
        refused: refused.filter(|_| !is_empty),
        void: seen.is_void && !is_empty,
    }
}
