//! The watch over merge requests that wait for a review: the target is fetched every two patrols while there are any,
//! and what was merged elsewhere is recorded. It runs in the lane of the forge, so that nothing lands meanwhile.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::actors::effects;
use crate::actors::forge::ForgeArgs;
use crate::actors::refusal::Refusal;
use crate::actors::sagas::land;
use crate::domain::city::Rig;
use crate::domain::ids::{Oid, RelicId};
use crate::domain::merge::MergeRequest;
use crate::domain::restart::Mono;

/// The number of patrols between two fetches.
const EVERY: u32 = 2;

/// The memory of the watch. Lost with the actor: then it fetches once more.
#[derive(Default)]
pub(super) struct Watch(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    at: Option<Mono>,
    /// The head and the tip of the target that were compared, by merge request.
    compared: BTreeMap<RelicId, (Oid, Oid)>,
}

impl Watch {
    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        // A poisoned lock costs at most another comparison.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true when it is time to fetch; the next time counts from now on.
    fn is_due(&self, args: &ForgeArgs) -> bool {
        let now = args.world.clock.mono();
        let every = args.world.city.daemon.patrol_interval * EVERY;
        let mut seen = self.seen();
        let due = seen.at.is_none_or(|at| now.saturating_sub(at) >= every);
        if due {
            seen.at = Some(now);
        }
        due
    }

    fn is_new(&self, mr: &MergeRequest, tip: &Oid) -> bool {
        let pair = (mr.head.clone(), tip.clone());
        self.seen().compared.get(&mr.id) != Some(&pair)
    }

    fn note(&self, mr: &MergeRequest, tip: &Oid) {
        let pair = (mr.head.clone(), tip.clone());
        self.seen().compared.insert(mr.id.clone(), pair);
    }
}

/// Looks for merge requests that were merged elsewhere, if it is time. A target that cannot be read is asked again
/// later.
pub(super) async fn look(args: &ForgeArgs, watch: &Watch, rig: &Rig, queue: &[MergeRequest]) {
    let waiting: Vec<&MergeRequest> = queue.iter().filter(|mr| mr.awaits_person()).collect();
    let open = |id: &RelicId| waiting.iter().any(|mr| mr.id == *id);
    watch.seen().compared.retain(|id, _| open(id));
    if waiting.is_empty() || !watch.is_due(args) {
        return;
    }
    let mut tips: BTreeMap<&str, Option<Oid>> = BTreeMap::new();
    for mr in waiting {
        let tip = match tips.get(mr.target.as_str()) {
            Some(tip) => tip.clone(),
            None => {
                let tip = fetch(args, rig, &mr.target).await;
                tips.insert(&mr.target, tip.clone());
                tip
            }
        };
        let Some(tip) = tip.filter(|tip| watch.is_new(mr, tip)) else {
            continue;
        };
        match land::merged_elsewhere(&args.world, rig, mr.clone(), &tip).await {
            Ok(_) => watch.note(mr, &tip),
            Err(error) => tracing::warn!(
                mr = %mr.id,
                %error,
                "it cannot be told whether a merge request was merged elsewhere; it is compared again later"
            ),
        }
    }
}

async fn fetch(args: &ForgeArgs, rig: &Rig, target: &str) -> Option<Oid> {
    let own = target.to_owned();
    let kind = effects::WorkKind::Network;
    let fetched = effects::repo_for(&args.world, &rig.name, kind, move |repo| {
        repo.fetch_target(&own)
    });
    match fetched.await.map_err(Refusal::from) {
        Ok(state) => Some(state.tip),
        Err(error) => {
            tracing::debug!(rig = %rig.name, target, %error, "the target of reviewed work cannot be fetched now");
            None
        }
    }
}
