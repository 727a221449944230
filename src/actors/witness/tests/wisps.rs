//! Cleanup wisps (`witness-patrol.md`, cleanup wisp lifecycle).

use std::time::Duration;

use crate::actors::mail::WitnessMsg;
use crate::domain::city::WispGc;
use crate::domain::event::EventType;
use crate::domain::relic::{Relic, RelicKind, RelicStatus};
use crate::ports::relics::{RelicFilter, Txn};
use crate::ports::repo::RepoError;
use crate::testing::world::{Scenario, TestCity};

const PATROL: Duration = Duration::from_secs(31);
const HOUR: Duration = Duration::from_secs(3600);

async fn wisps(city: &TestCity) -> Vec<Relic> {
    let filter = RelicFilter {
        kind: Some(RelicKind::Wisp),
        ..RelicFilter::default()
    };
    city.store(move |txn: &mut dyn Txn| txn.relics(&filter))
        .await
}

/// Returns title, status and end of each wisp, the oldest first.
pub(super) async fn shown(city: &TestCity) -> Vec<(String, RelicStatus, String)> {
    let mut wisps = wisps(city).await;
    wisps.sort_by_key(|wisp| (wisp.created, wisp.id.to_string()));
    let row = |wisp: Relic| (wisp.title, wisp.status, wisp.context.unwrap_or_default());
    wisps.into_iter().map(row).collect()
}

/// `merge-requested`: from MERGE_READY until the queue has finished with it, then in the cycle's digest.
/// Weakness W13 of an earlier system: a name was cut at the wrong place when a record of cleanup changed, and the
/// record was never found again.
#[tokio::test(start_paused = true)]
async fn work_in_the_queue_is_kept_track_of_until_it_has_landed() {
    let city = Scenario::new().gate("slow").start().await;
    let away = RepoError::Remote("away".into());
    city.parts.repo.break_op("run_gate", away);
    let charged = city.worker("a").await;
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    let title = "cleanup of horde/raiders/Toast: merge-requested".to_owned();
    let open = (title.clone(), RelicStatus::Open, String::new());
    let open = [open];
    assert_eq!(shown(&city).await, open);
    // Another look, and another witness, find nothing new.
    city.kill_actors::<WitnessMsg>();
    city.pass(PATROL).await;
    assert_eq!(shown(&city).await, open);
    assert_eq!(city.events(EventType::WispCreated).await.len(), 1);
    city.parts.repo.mend("run_gate");
    city.pass(PATROL * 40).await;
    let closed = (title, RelicStatus::Closed, "merged".to_owned());
    let digest = "patrol digest of horde: 1 ended".to_owned();
    let digest = (digest, RelicStatus::Closed, String::new());
    assert_eq!(shown(&city).await, [closed, digest], "one digest");
    let wisps = wisps(&city).await;
    let digest = wisps.iter().find(|wisp| wisp.parent.is_none()).unwrap();
    assert!(
        digest.body.contains("with gt-1 was merge-requested"),
        "{}",
        digest.body
    );
    assert!(
        wisps
            .iter()
            .any(|wisp| wisp.parent.as_ref() == Some(&digest.id))
    );
}

/// `pending`: a finished sandbox holds work that a removal would lose; until it is gone.
#[tokio::test(start_paused = true)]
async fn a_dirty_sandbox_is_kept_track_of_until_it_is_gone() {
    let city = Scenario::new().rig(|rig| rig.witness.keep_dirty = HOUR);
    let city = city.start().await;
    let charged = city.worker("a").await;
    city.parts.repo.dirty(&charged.raider.name, "wip.txt");
    super::unhook(&city, &charged).await;
    city.pass(super::GROWN + PATROL * 3).await;
    let title = "cleanup of horde/raiders/Toast: pending".to_owned();
    let open = [(title.clone(), RelicStatus::Open, String::new())];
    assert_eq!(shown(&city).await, open, "once");
    let wisp = wisps(&city).await.remove(0);
    assert!(wisp.body.contains("wip.txt"), "{}", wisp.body);
    city.pass_hours(HOUR).await;
    assert!(city.parts.repo.names().is_empty(), "`keep_dirty` is over");
    let ended = shown(&city).await;
    assert_eq!(ended[0], (title, RelicStatus::Closed, "removed".to_owned()));
}

/// `zombie-detected`: the sandbox has no owner and cannot be measured.
#[tokio::test(start_paused = true)]
async fn a_sandbox_that_cannot_be_looked_into_is_kept_track_of() {
    let (city, charged) = Scenario::at_work().await;
    super::unhook(&city, &charged).await;
    city.parts
        .repo
        .break_op("measure", RepoError::Failed("torn".into()));
    city.pass(super::GROWN + PATROL * 3).await;
    let title = "cleanup of horde/raiders/Toast: zombie-detected".to_owned();
    let open = [(title, RelicStatus::Open, String::new())];
    assert_eq!(shown(&city).await, open);
    city.pass_hours(HOUR).await;
    assert_eq!(shown(&city).await, open);
    assert_eq!(city.parts.repo.names(), ["Toast"], "never on Unknown");
}

/// Wisps are ephemeral (`wisp_ttl`).
#[tokio::test(start_paused = true)]
async fn wisps_are_collected_and_digests_with_them() {
    let city = Scenario::new().with(|city| {
        city.daemon.wisp_gc = Some(WispGc {
            interval: PATROL,
            ttl: PATROL * 4,
        });
    });
    let city = city.start().await;
    let charged = city.worker("a").await;
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    city.pass(PATROL * 2).await;
    assert_eq!(wisps(&city).await.len(), 2, "a wisp and its digest");
    city.pass(PATROL * 10).await;
    assert_eq!(wisps(&city).await, []);
}
