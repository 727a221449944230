//! Cheap observation of raiders at work.

use super::super::super::claims::ClaimKey;
use super::super::super::conditions::{self, Observed};
use super::super::super::effects;
use super::super::super::refusal::Refusal;
use super::super::WitnessArgs;
use crate::actors::records::stalls::{steps, wait};
use crate::domain::facts::{RunState, SessionFacts};
use crate::domain::ids::{ChildId, RaiderId, RigName};
use crate::domain::phase::WorkPhase;
use crate::domain::relic::Hook;
use crate::domain::stall::{Marks, Steps, Wait};
use crate::ports::relics::{StoreError, Txn};
use crate::ports::repo::RepoError;

/// A raider at work, as observed.
pub(super) struct ObservedRaider {
    pub(super) hook: Hook,
    pub(super) facts: SessionFacts,
    /// Set when a person is attached, or is asked to come.
    pub(super) attended: bool,
    pub(super) marks: Marks,
    /// Why it cannot be observed in full: it is left alone then.
    pub(super) unseen: Option<String>,
    pub(super) steps: Option<Steps>,
    pub(super) wait: Option<Wait>,
}

/// A raider at work, from the store.
struct Candidate {
    hook: Hook,
    relic: String,
    steps: Option<Steps>,
    wait: Option<Wait>,
}

impl Candidate {
    /// Adds its session, its repository, and whether its screen asks something or cannot be read.
    fn observed(
        self,
        facts: &SessionFacts,
        git: Result<String, RepoError>,
        (asks, hidden): (bool, bool),
        picture: Option<u64>,
    ) -> ObservedRaider {
        let runs = facts.state == RunState::Running;
        let unseen = match (&facts.state, &git) {
            (RunState::Unknown { why }, _) => Some(why.clone()),
            (_, Err(error)) => Some(error.to_string()),
            _ if facts.guessed => Some("its terminal's server does not answer".to_owned()),
            _ => hidden.then(|| "its screen cannot be read".to_owned()),
        };
        ObservedRaider {
            marks: Marks {
                session: facts.token.clone(),
                output: facts.last_output,
                git: git.ok(),
                relic: self.relic,
                picture,
            },
            attended: runs && (asks || facts.attached && !facts.guessed),
            unseen,
            facts: facts.clone(),
            steps: self.steps,
            wait: self.wait,
            hook: self.hook,
        }
    }
}

/// Returns the raiders with open work that no saga is busy with.
fn candidates(
    txn: &mut dyn Txn,
    rig: &RigName,
    only: Option<&RaiderId>,
) -> Result<Vec<Candidate>, StoreError> {
    let records = match only {
        Some(raider) => txn.raider(raider)?.into_iter().collect(),
        None => txn.raiders(Some(rig))?,
    };
    let mut found = Vec::new();
    for record in records {
        match WorkPhase::of(&record) {
            WorkPhase::Working => {}
            WorkPhase::Unbound
            | WorkPhase::Orphaned { .. }
            | WorkPhase::Charging { .. }
            | WorkPhase::Removing { .. }
            | WorkPhase::Submitting { .. }
            | WorkPhase::Validating { .. }
            | WorkPhase::InReview { .. }
            | WorkPhase::Over { .. } => continue,
        }
        let hook = record.hook;
        let relic = txn.relic(&hook.relic)?;
        found.push(Candidate {
            relic: serde_json::to_string(&relic).unwrap_or_default(),
            steps: steps(txn, &hook)?,
            wait: wait(txn, &hook.raider)?,
            hook,
        });
    }
    Ok(found)
}

/// Observes all raiders, or one, as far as that is cheap.
///
/// # Errors
/// Store, provider or repository is not available: no raider is observed.
pub(super) async fn observe(
    args: &WitnessArgs,
    only: Option<RaiderId>,
) -> Result<Vec<ObservedRaider>, Refusal> {
    let world = &args.world;
    let (rig, wanted) = (args.rig.clone(), only.clone());
    let read = move |txn: &mut dyn Txn| candidates(txn, &rig, wanted.as_ref());
    let mut candidates = world.store.run(read).await?;
    candidates.retain(|candidate| {
        let raider = &candidate.hook.raider;
        let child = ChildId::Raider(raider.clone());
        !world.city.suspends(&child) && !world.claims.is_claimed(&ClaimKey::Repair(raider.clone()))
    });
    if candidates.is_empty() || world.is_stopping() {
        return Ok(Vec::new());
    }
    let moment = world.directory.conditions.moment();
    let sessions = match &only {
        None => effects::list(world).await?,
        Some(raider) => effects::facts(world, &raider.session_id())
            .await?
            .into_iter()
            .collect(),
    };
    let sandboxes = candidates
        .iter()
        .map(|one| world.city.sandbox(&one.hook.raider));
    let sandboxes: Vec<_> = sandboxes.collect();
    let git = effects::repo(world, &args.rig, move |repo| {
        let marks = sandboxes.iter().map(|sandbox| repo.progress(sandbox));
        Ok(marks.collect::<Vec<_>>())
    });
    let asking = conditions::observe_screens(world, moment, &askers(&candidates, &sessions)).await;
    let mut seen = Vec::new();
    for (candidate, git) in candidates.into_iter().zip(git.await?) {
        let hook = &candidate.hook;
        let own = hook.raider.session_id();
        let is = |facts: &&SessionFacts| match facts.state {
            RunState::Running => facts.incarnation == hook.incarnation,
            RunState::Unknown { .. } => true,
            RunState::Exited(_) | RunState::Lost { .. } => false,
        };
        let mut own = sessions.iter().filter(|facts| facts.id == own);
        if let Some(facts) = own.find(is) {
            let accounts = &world.directory.accounts;
            let child = ChildId::Raider(hook.raider.clone());
            let parked = accounts.held(&world.city, &hook.harness, &child).is_some();
            let asks = parked || world.directory.conditions.is_known(&facts.id);
            let hidden = asking.contains(&facts.id) && !asks;
            let picture = world.directory.conditions.picture(&facts.id);
            seen.push(candidate.observed(facts, git, (asks, hidden), picture));
        }
    }
    Ok(seen)
}

/// Returns the raiders with a session, which may have a dialog open.
fn askers(candidates: &[Candidate], sessions: &[SessionFacts]) -> Vec<Observed> {
    let asker = |Candidate { hook, .. }: &Candidate| {
        let own = hook.raider.session_id();
        let facts = sessions.iter().find(|facts| facts.id == own)?;
        Some(Observed {
            child: ChildId::Raider(hook.raider.clone()),
            harness: hook.harness.clone(),
            facts: facts.clone(),
        })
    };
    candidates.iter().filter_map(asker).collect()
}
