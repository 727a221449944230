//! A rig that is held: one cause, and one call of a person, which is that of the ground.

use std::time::Duration;

use crate::actors::refusal::LASTING;
use crate::domain::relic::RelicStatus;
use crate::ports::repo::RepoError;
use crate::testing::world::Scenario;

const PATROL: Duration = Duration::from_secs(31);

/// Its sandboxes cannot be listed, either: that was a second call.
#[tokio::test(start_paused = true)]
async fn held_rig_calls_no_person_for_its_sandboxes() {
    let city = Scenario::new().start().await;
    city.parts.repo.hold(Some("its repository is missing"));
    city.pass(PATROL * 16).await;
    assert_eq!(city.escalations().await, []);
}

#[tokio::test(start_paused = true)]
async fn held_rig_calls_no_person_for_work_that_waits_for_it() {
    let (city, charged) = Scenario::at_work().await;
    let away = RepoError::Remote("no route".into());
    city.parts.repo.break_op("push_branch", away);
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    city.parts.repo.hold(Some("its repository is missing"));
    city.parts.repo.mend("push_branch");
    city.pass_hours(LASTING * 3).await;
    assert_eq!(city.escalations().await, []);
    city.parts.repo.hold(None);
    city.pass(PATROL * 3).await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
    assert_eq!(city.escalations().await, []);
}
