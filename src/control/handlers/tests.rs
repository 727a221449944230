//! What operators ask for, on a town of fakes under the paused clock.

use std::time::Duration;

use serde_json::{Value, json};

use super::dispatch;
use crate::control::protocol::{ControlError, Op};
use crate::control::rights::Who;
use crate::control::server::Caller;
use crate::domain::event::EventType;
use crate::domain::ids::RelicId;
use crate::domain::merge::MrState;
use crate::domain::relic::RelicStatus;
use crate::ports::repo::RepoError;
use crate::testing::world::{Scenario, Town};

const PATROL: Duration = Duration::from_secs(31);

/// An operator's request, as it comes over the socket.
async fn ask(town: &Town, op: &str, args: Value) -> Result<Value, ControlError> {
    let caller = Caller {
        pid: None,
        uid: 0,
        who: Who::Operator,
    };
    let args = args.as_object().unwrap().clone();
    let op = Op::parse(op.parse().unwrap(), args).unwrap();
    let answer = dispatch(&town.world, caller, op).await;
    town.pass(PATROL).await;
    answer
}

/// One raider is done with a relic; its merge request goes its way.
async fn submitted(town: &Town) -> RelicId {
    let charged = town.worker("a").await;
    town.completed(&charged.raider).await.unwrap();
    town.pass(PATROL).await;
    charged.relic
}

/// The remote's refusal blocked the relic; once it lets the target move, a retry lands it.
#[tokio::test(start_paused = true)]
async fn a_failed_merge_request_that_blocked_its_relic_can_be_retried() {
    let town = Scenario::new().start().await;
    let refused = RepoError::Rejected("protected branch".into());
    town.parts.repo.fail("land", refused);
    let relic = submitted(&town).await;
    assert_eq!(town.relic_now(&relic).await.status, RelicStatus::Blocked);
    let mr = town.mr(&relic).await.unwrap();
    assert_eq!(mr.state, MrState::Failed);
    ask(&town, "mq.retry", json!({ "mr": mr.id }))
        .await
        .unwrap();
    assert_eq!(town.mr(&relic).await.unwrap().state, MrState::Merged);
    assert_eq!(town.relic_now(&relic).await.status, RelicStatus::Closed);
    assert_eq!(town.parts.repo.landings(), 1);
    assert_eq!(town.events(EventType::RaiderCharged).await.len(), 1);
    let again = ask(&town, "mq.retry", json!({ "mr": mr.id })).await;
    assert!(again.is_err(), "it has landed");
}
