//! A declared completion, before anything is done about it: its parsing, and its comparison with the sandbox
//! (`rules.md`, done).

mod fit;
pub mod outcome_file;
mod rejected;
pub mod review;

pub use self::fit::unfit;
pub use self::rejected::Decided;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;

use super::effects;
use super::mail::DoneRequest;
use super::records::totems;
use super::refusal::{Refusal, RefusalKind};
use super::sandbox_links;
use super::world::World;
use crate::domain::cause::Cause;
use crate::domain::facts::GitFacts;
use crate::domain::handoff::NOTE_MAX;
use crate::domain::ids::{RaiderId, RelicId};
use crate::domain::nuke::{self, CleanupStatus};
use crate::domain::outcome::Outcome;
use crate::domain::relic::{Completion, Hook};
use crate::domain::self_review;
use crate::domain::task_names::{self, OUTCOMES, TASK};
use crate::domain::totem::orders;
use crate::domain::until;
use crate::ports::relics::{StoreError, Txn};

/// Parses a request from the arguments of `done`, from the socket or the outbox.
///
/// # Errors
/// [`RefusalKind::BadRequest`].
pub fn parse_args(
    raider: RaiderId,
    args: &serde_json::Value,
    now: Timestamp,
) -> Result<DoneRequest, Refusal> {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Args {
        status: Option<Completion>,
        cleanup_status: Option<CleanupStatus>,
        no_change: bool,
        until: Option<String>,
        reason: Option<String>,
    }
    let args: Args = serde_json::from_value(args.clone())
        .map_err(|error| Refusal::new(RefusalKind::BadRequest, error.to_string()))?;
    let until = args.until.as_deref().map(|text| time(text, now));
    let until = until.transpose()?;
    if let Some(reason) = &args.reason {
        check_reason(reason)?;
    }
    Ok(DoneRequest {
        raider,
        incarnation: None,
        exit: args.status.unwrap_or(Completion::Completed),
        cleanup_status: args.cleanup_status,
        no_change: args.no_change,
        wants_review: false,
        is_stuck_review: false,
        until,
        reason: args.reason,
        cause: Cause::Done,
    })
}

/// Reads the end of a deferral.
///
/// # Errors
/// [`RefusalKind::BadRequest`].
pub fn time(text: &str, now: Timestamp) -> Result<Timestamp, Refusal> {
    let until = until::declared(text, now, &TimeZone::system());
    until.ok_or_else(|| {
        let message = format!("{text:?} is not a time");
        let hint =
            "RFC 3339, seconds since 1970, or in the words of a harness: 7:04am (UTC), in 2h";
        Refusal::new(RefusalKind::BadRequest, message).hint(hint)
    })
}

/// Checks the length of a reason: it is stored with the hook, the relic and in the journal.
///
/// # Errors
/// [`RefusalKind::BadRequest`].
pub fn check_reason(reason: &str) -> Result<(), Refusal> {
    if reason.len() <= NOTE_MAX {
        return Ok(());
    }
    let why = format!("the reason is longer than {} KiB", NOTE_MAX / 1024);
    Err(Refusal::new(RefusalKind::BadRequest, why).hint("write it into a file, and name the file"))
}

/// Cuts a reason that is on file and longer than allowed: the program that wrote it cannot be asked for a shorter one.
#[must_use]
pub fn cut_reason(mut reason: String) -> String {
    const CUT: &str = "\n[... cut]";
    if reason.len() > NOTE_MAX {
        reason.truncate(reason.floor_char_boundary(NOTE_MAX - CUT.len()));
        reason.push_str(CUT);
    }
    reason
}

/// Builds the request of an outcome on file.
#[must_use]
pub fn request_of(hook: &Hook, outcome: Outcome) -> DoneRequest {
    let (exit, no_change, wants_review, reason) = match outcome {
        Outcome::Passed { reason } => (Completion::Completed, false, false, reason),
        Outcome::NoChange { reason } => (Completion::Completed, true, false, Some(reason)),
        Outcome::Reviewing { reason } => (Completion::Completed, false, true, reason),
        Outcome::Stuck { reason } => (Completion::Escalated, false, false, Some(reason)),
    };
    DoneRequest {
        raider: hook.raider.clone(),
        incarnation: Some(hook.incarnation),
        exit,
        cleanup_status: None,
        no_change,
        wants_review,
        is_stuck_review: false,
        until: None,
        reason: reason.map(cut_reason),
        cause: Cause::OutcomeFile,
    }
}

/// Returns true when a completion lands commits.
#[must_use]
pub fn lands(exit: Completion, no_change: bool) -> bool {
    exit == Completion::Completed && !no_change
}

/// Returns git's facts about a hook's sandbox, after its links were put back.
///
/// # Errors
/// The sandbox cannot be read.
pub async fn measure(world: &World, hook: &Hook) -> Result<GitFacts, Refusal> {
    // A file in the place of one of these links would count as work that is not committed.
    sandbox_links::repair(world, hook).await;
    let (sandbox, target) = (world.city.sandbox(&hook.raider), hook.target.clone());
    let rig = &hook.raider.rig;
    let measured = effects::repo_for(world, rig, effects::WorkKind::Sandbox, move |repo| {
        repo.facts(&sandbox, &target)
    })
    .await;
    // On a full disk `hd` writes the declaration to the outbox, which is read when there is room.
    measured.map_err(Refusal::passing_on_a_full_disk)
}

/// Checks whether the declaration would be accepted now.
///
/// # Errors
/// As [`check`], and as [`Decided::expect_rework`].
pub async fn preview(world: &World, request: &DoneRequest, hook: &Hook) -> Result<(), Refusal> {
    let git = measure(world, hook).await?;
    let decided = Decided::of(world, &hook.relic).await?;
    decided.expect_rework(request, hook, &git)?;
    check(world, request, hook, &git).await
}

/// Checks a declaration against git's facts about its sandbox.
///
/// # Errors
/// [`RefusalKind::WorkAtRisk`] for a dirty tree, [`RefusalKind::NoCommits`] for one without commits,
/// [`RefusalKind::BadRequest`] for another branch, or for commits that a remote may refuse.
pub async fn check(
    world: &World,
    request: &DoneRequest,
    hook: &Hook,
    git: &GitFacts,
) -> Result<(), Refusal> {
    is_complete(world, request, hook, git).await?;
    fit::check(world, hook, git).await
}

/// Checks completed work. `rules.md`, done: never an automatic commit; zero commits only when nothing had to change.
async fn is_complete(
    world: &World,
    request: &DoneRequest,
    hook: &Hook,
    git: &GitFacts,
) -> Result<(), Refusal> {
    if !git.is_committed() {
        let losses = nuke::losses(git);
        let message = "the work tree is not clean";
        return Err(Refusal::work_at_risk(message, losses).hint(way_out(hook, git)));
    }
    fit::on_branch(world, hook, git).await?;
    if request.exit == Completion::Escalated {
        return Ok(());
    }
    reviewed(world, hook).await?;
    if request.exit == Completion::Deferred {
        return Ok(());
    }
    if request.no_change {
        if request.reason.as_deref().is_none_or(str::is_empty) {
            let message = "--no-change needs --reason";
            return Err(Refusal::new(RefusalKind::BadRequest, message));
        }
        if git.ahead > 0 {
            let message = format!("{} has {} commits of its own", hook.branch, git.ahead);
            let hint = "omit --no-change to land them";
            return Err(Refusal::new(RefusalKind::BadRequest, message).hint(hint));
        }
        return Ok(());
    }
    if git.ahead == 0 {
        let message = format!("{} has no commits", hook.branch);
        let hint = "commit the work; or, if no change was needed: hd done --no-change --reason WHY";
        return Err(Refusal::new(RefusalKind::NoCommits, message).hint(hint));
    }
    steps_are_done(world, request, hook).await
}

/// Returns the way to a clean work tree.
fn way_out(hook: &Hook, git: &GitFacts) -> String {
    let own = |path: &&String| path.as_str() == TASK || OUTCOMES.contains(&path.as_str());
    let links: Vec<_> = git.dirty.iter().filter(own).cloned().collect();
    let way = "commit what belongs to the work, remove what does not, and run `hd done` again";
    if links.is_empty() {
        return way.to_owned();
    }
    let base = git.merge_base.as_ref().unwrap_or(&hook.base);
    let named = links.join(" ");
    let commands = task_names::anew_without(base.as_str(), &named).join("`, `");
    format!(
        "{way}; if a commit has taken up the supervisor's links, make it anew without them: `{commands}`; a link that the target has is \
         taken out by `git rm -q --cached {named}` and `git commit`; a file that it has is restored by `git checkout HEAD -- NAME`"
    )
}

/// Returns true for completed work whose steps must all be done. A program that cannot run `hd` closes no steps: its end
/// is taken for the end of all of them.
#[must_use]
pub fn needs_steps(world: &World, request: &DoneRequest, hook: &Hook) -> bool {
    let harness = world.city.harnesses.get(&hook.harness);
    let cannot = harness.is_some_and(|harness| harness.done_on_exit);
    request.exit == Completion::Completed && !request.no_change && !cannot
}

/// Returns the next open step of a relic's totem, and a sentence about all open ones.
///
/// # Errors
/// The store's.
pub fn open_steps(
    txn: &mut dyn Txn,
    relic: &RelicId,
) -> Result<Option<(RelicId, String)>, StoreError> {
    let totem = totems::read(txn, relic)?;
    Ok(totem.as_ref().and_then(orders::open))
}

/// Refuses completed work whose totem has open steps.
async fn steps_are_done(world: &World, request: &DoneRequest, hook: &Hook) -> Result<(), Refusal> {
    if !needs_steps(world, request, hook) {
        return Ok(());
    }
    let relic = hook.relic.clone();
    let open = world.store.run(move |txn| open_steps(txn, &relic));
    let Some((id, message)) = open.await? else {
        return Ok(());
    };
    let hint = format!(
        "do it, then `hd step done {id}`; if it cannot be done: hd done --status escalated --reason WHY"
    );
    Err(Refusal::new(RefusalKind::BadRequest, message).hint(hint))
}

/// Refuses every other end after the last allowed self-review failed: the outcome must be `stuck` then
/// (`agent-lifecycle.md`, section 4).
async fn reviewed(world: &World, hook: &Hook) -> Result<(), Refusal> {
    let Some(rig) = world.city.rig(&hook.raider.rig) else {
        return Ok(());
    };
    let max = rig.raiders.max_reviews;
    let own = hook.clone();
    let rounds = world
        .store
        .run(move |txn| txn.self_reviews(&own.relic, &own.raider, own.incarnation));
    if !self_review::is_over(&rounds.await?, max) {
        return Ok(());
    }
    let message = format!("{max} of {max} self-reviews of {} failed", hook.relic);
    let hint = "report it to a person: `hd review stuck -m WHY`, or the outcome `stuck`";
    Err(Refusal::new(RefusalKind::BadRequest, message).hint(hint))
}
