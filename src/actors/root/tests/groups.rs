//! OTP's restart strategies, on groups of agents.

use crate::actors::mail::RootMail;
use std::time::Duration;

use crate::actors::accounts;
use crate::actors::mail::ChildState;
use crate::domain::account::{Trouble, Why};
use crate::domain::city::{Group, RestartType, Strategy};
use crate::domain::event::EventType;
use crate::domain::ids::{AgentName, HarnessName, SessionId};
use crate::ports::sessions::StartError;
use crate::testing::world::{Scenario, Town, agent};

const SECOND: Duration = Duration::from_secs(1);
const NAMES: [&str; 3] = ["a", "b", "c"];

fn group(strategy: Strategy) -> Scenario {
    let agents = NAMES.iter().fold(Scenario::new(), |scenario, name| {
        scenario.agent(name, RestartType::Permanent)
    });
    agents.with(|city| {
        city.groups = vec![Group {
            name: "three".into(),
            strategy,
            members: NAMES.map(|name| AgentName::new(name).unwrap()).to_vec(),
        }];
    })
}

fn sessions(town: &Town) -> [SessionId; 3] {
    NAMES.map(|name| town.session(&agent(name)))
}

fn counts(town: &Town) -> [usize; 3] {
    sessions(town).map(|id| town.starts(&id))
}

/// OTP supervisor_SUITE, one_for_one, one_for_all and rest_for_one: the members that restart with `b`.
#[tokio::test(start_paused = true)]
async fn group_strategy_decides_which_members_restart() {
    let table = [
        (Strategy::OneForOne, [1, 2, 1]),
        (Strategy::OneForAll, [2, 2, 2]),
        (Strategy::RestForOne, [1, 2, 2]),
    ];
    for (strategy, after) in table {
        let town = group(strategy).start().await;
        town.parts.sessions.crash(&sessions(&town)[1], 9);
        town.pass(SECOND).await;
        assert_eq!(counts(&town), after, "{strategy:?}");
        assert!(sessions(&town).iter().all(|id| town.runs(id)));
        let deaths = town.view(&agent("b")).await.unwrap().restarts;
        assert_eq!(deaths, 1);
        let innocent = town.view(&agent("c")).await.unwrap().restarts;
        assert_eq!(innocent, 0, "only the dead one's death counts");
    }
}

/// Siblings end in the reverse order of their start, and start in order.
#[tokio::test(start_paused = true)]
async fn the_others_end_last_first_and_start_first_first() {
    let town = group(Strategy::OneForAll).start().await;
    let [a, b, c] = sessions(&town);
    let before = town.parts.sessions.starts().len();
    town.parts.sessions.crash(&b, 9);
    town.pass(SECOND).await;
    let stops: Vec<_> = town
        .parts
        .sessions
        .stops()
        .into_iter()
        .map(|(h, _)| h.id)
        .collect();
    assert_eq!(stops, [c.clone(), a.clone()]);
    let starts: Vec<_> = town
        .parts
        .sessions
        .starts()
        .into_iter()
        .map(|s| s.id)
        .collect();
    assert_eq!(starts[before..], [a, b, c]);
}

/// OTP: a resting child is not restarted with the others; a temporary child never is.
#[tokio::test(start_paused = true)]
async fn resting_member_is_not_started_by_its_group() {
    let town = group(Strategy::OneForAll);
    let town = town.with(|city| city.agents[2].restart = RestartType::Temporary);
    let town = town.start().await;
    let [a, b, _] = sessions(&town);
    town.rest(&agent("a")).await.unwrap();
    town.parts.sessions.crash(&b, 9);
    town.pass(SECOND).await;
    assert!(!town.runs(&a));
    assert_eq!(counts(&town), [1, 2, 1]);
    assert_eq!(town.state(&agent("c")).await, Some(ChildState::Stopped));
}

/// Makes the member die once too often, a minute apart.
async fn quarantine(town: &Town, name: &str) {
    let id = agent(name);
    for _ in 0..6 {
        town.pass(SECOND * 60).await;
        town.parts.sessions.crash(&town.session(&id), 9);
        town.settle().await;
    }
    assert_eq!(town.state(&id).await, Some(ChildState::Quarantined));
}

/// While the culprit is quarantined no member runs without it; afterwards all of them do.
#[tokio::test(start_paused = true)]
async fn a_quarantined_member_keeps_its_group_down() {
    let town = group(Strategy::OneForAll).start().await;
    let [a, b, c] = sessions(&town);
    quarantine(&town, "b").await;
    town.pass(SECOND * 600).await;
    assert!(!town.runs(&a) && !town.runs(&b) && !town.runs(&c));
    town.pass(SECOND * 3600).await;
    assert!(town.runs(&a) && town.runs(&b) && town.runs(&c));
}

/// A member that is quarantined for its own deaths stays so, whatever its siblings do, and returns when its own
/// quarantine ends.
#[tokio::test(start_paused = true)]
async fn a_death_releases_no_sibling_from_its_quarantine() {
    let town = group(Strategy::RestForOne).start().await;
    let [_, b, c] = sessions(&town);
    quarantine(&town, "c").await;
    town.parts.sessions.crash(&b, 9);
    town.pass(SECOND * 60).await;
    assert_eq!(town.state(&agent("c")).await, Some(ChildState::Quarantined));
    assert!(town.runs(&b) && !town.runs(&c));
    town.pass(SECOND * 3600).await;
    assert!(town.runs(&c));
    assert_eq!(counts(&town), [1, 2, 7]);
}

/// A member that was started by hand while its group waits for a culprit dies: it restarts with the members that can,
/// and the culprit when its quarantine ends.
#[tokio::test(start_paused = true)]
async fn a_culprit_is_not_forgotten_when_another_dies_before_its_time() {
    let town = group(Strategy::OneForAll).start().await;
    let [a, b, c] = sessions(&town);
    quarantine(&town, "b").await;
    town.wake(&agent("a")).await.unwrap();
    town.parts.sessions.crash(&a, 9);
    town.pass(SECOND * 60).await;
    assert_eq!(town.state(&agent("b")).await, Some(ChildState::Quarantined));
    assert!(town.runs(&a) && !town.runs(&b) && town.runs(&c));
    town.pass(SECOND * 3600).await;
    assert!(town.runs(&a) && town.runs(&b) && town.runs(&c));
}

/// OTP: a second death during the restart is counted, and the restart begins again.
#[tokio::test(start_paused = true)]
async fn a_second_death_meanwhile_begins_again() {
    let town = group(Strategy::OneForAll).start().await;
    let [a, b, c] = sessions(&town);
    town.parts.sessions.crash(&b, 9);
    town.parts.sessions.crash(&c, 9);
    town.pass(SECOND * 5).await;
    for id in [&a, &b, &c] {
        assert!(town.runs(id));
    }
    town.pass(SECOND * 60).await;
    assert_eq!(town.parts.sessions.doubles(), 0);
}

/// A member that is stopped during the restart takes no part any more, and delays no other.
#[tokio::test(start_paused = true)]
async fn member_that_is_stopped_meanwhile_does_not_delay_its_group() {
    let town = group(Strategy::OneForAll).start().await;
    let [a, b, c] = sessions(&town);
    town.parts.sessions.hold_start(&a);
    town.parts.sessions.crash(&b, 9);
    town.until("the first one is being started", || {
        town.world.starts.available_permits() < 16
    })
    .await;
    let (root, id) = (town.root.clone(), agent("a"));
    let rest = |reply| RootMail::Rest { id, reply };
    let resting = tokio::spawn(async move { root.call(|reply| rest(reply).into(), None).await });
    crate::actors::ask::views(&town.world).await.unwrap();
    town.parts.sessions.release_start(&a);
    town.pass(SECOND).await;
    assert!(resting.await.unwrap().unwrap().is_success());
    assert_eq!(town.state(&agent("a")).await, Some(ChildState::Stopped));
    assert!(!town.runs(&a) && town.runs(&b) && town.runs(&c));
}

/// A start of the member that died waits until the others have ended. It is refused after a while rather than left
/// unanswered while their sessions cannot be observed; the member starts when it can.
#[tokio::test(start_paused = true)]
async fn start_that_waits_for_sessions_that_cannot_be_seen_is_answered() {
    let town = group(Strategy::OneForAll).start().await;
    let [a, b, c] = sessions(&town);
    town.parts.sessions.crash(&b, 9);
    town.parts.sessions.blind(Some("no answer"));
    town.until("its group is to be restarted", || !town.runs(&b))
        .await;
    town.settle().await;
    let refused = town.wake(&agent("b")).await.unwrap_err();
    assert!(refused.contains("starts with its group"), "{refused}");
    town.parts.sessions.blind(None);
    town.pass(SECOND * 120).await;
    assert!([a, b, c].iter().all(|id| town.runs(id)));
}

/// A member that waits for an agent outside the group delays no other member.
#[tokio::test(start_paused = true)]
async fn member_that_waits_for_another_agent_does_not_delay_its_group() {
    let town = group(Strategy::OneForAll).agent("other", RestartType::Permanent);
    let other = || AgentName::new("other").unwrap();
    let town = town.with(|city| city.agents[0].depends_on = vec![other()]);
    let town = town.start().await;
    let [a, b, c] = sessions(&town);
    town.rest(&agent("other")).await.unwrap();
    town.parts.sessions.crash(&c, 9);
    town.pass(SECOND * 5).await;
    assert_eq!(town.state(&agent("a")).await, Some(ChildState::Blocked));
    assert!(town.runs(&b) && town.runs(&c));
    town.wake(&agent("other")).await.unwrap();
    town.pass(SECOND).await;
    assert!(town.runs(&a));
    town.parts.sessions.crash(&c, 9);
    town.pass(SECOND * 60).await;
    assert!(town.runs(&a) && town.runs(&b) && town.runs(&c));
}

/// Parks the account of the first harness.
fn park(town: &Town) -> HarnessName {
    let harness = town.world.city.harnesses.keys().next().cloned().unwrap();
    let trouble = Trouble {
        why: Why::RateLimited,
        text: "at your limit".to_owned(),
        until: None,
        fresh: false,
    };
    accounts::report_trouble(&town.world, &agent("a"), &harness, trouble);
    harness
}

/// A group whose first member uses an account.
async fn with_account() -> Town {
    let town = group(Strategy::OneForAll);
    let town = town.with(|city| city.agents[0].harness = city.harnesses.keys().next().cloned());
    town.start().await
}

/// A member whose account is parked delays no other member. It starts when its account is open.
#[tokio::test(start_paused = true)]
async fn parked_member_does_not_delay_its_group() {
    let town = with_account().await;
    let [a, b, c] = sessions(&town);
    let harness = park(&town);
    town.parts.sessions.crash(&b, 9);
    town.pass(SECOND * 5).await;
    assert_eq!(town.state(&agent("a")).await, Some(ChildState::Stopped));
    assert!(!town.runs(&a) && town.runs(&b) && town.runs(&c));
    assert!(accounts::unpark(&town.world, &harness));
    town.pass(SECOND * 300).await;
    assert!(all_run(&town));
}

/// The same when its account is parked while its start is put off.
#[tokio::test(start_paused = true)]
async fn member_that_is_parked_while_its_group_waits_for_it_does_not_delay_its_group() {
    let town = with_account().await;
    let [a, b, c] = sessions(&town);
    let full = StartError::Unwritable("no space left".into());
    town.parts.sessions.refuse_start(&a, full);
    town.parts.sessions.crash(&b, 9);
    town.pass(SECOND * 2).await;
    assert_eq!(town.state(&agent("a")).await, Some(ChildState::Backoff));
    assert!(!town.runs(&b) && !town.runs(&c), "they wait for their turn");
    park(&town);
    town.pass(SECOND * 10).await;
    assert_eq!(town.state(&agent("a")).await, Some(ChildState::Stopped));
    assert!(town.runs(&b) && town.runs(&c));
}

fn all_run(town: &Town) -> bool {
    sessions(town).iter().all(|id| town.runs(id))
}

/// Found by the storm: members waiting for a group that was removed from the configuration stop waiting.
#[tokio::test(start_paused = true)]
async fn removed_group_leaves_no_member_waiting() {
    let town = group(Strategy::OneForAll).start().await;
    for _ in 0..3 {
        town.parts.sessions.crash(&sessions(&town)[1], 9);
        town.settle().await;
    }
    assert!(!all_run(&town), "it backs off");
    town.reload(|city| city.groups.clear()).await;
    town.pass(SECOND).await;
    assert!(all_run(&town));
    // Also while a member is still ending.
    let town = group(Strategy::OneForAll).start().await;
    let [_, b, c] = sessions(&town);
    town.parts.sessions.hold_stop(&c);
    town.parts.sessions.crash(&b, 9);
    town.until("c is being ended", || {
        !town.parts.sessions.stops().is_empty()
    })
    .await;
    let then = async {
        // Answered after the reload.
        crate::actors::ask::views(&town.world).await.unwrap();
        town.parts.sessions.release_stop(&c);
    };
    tokio::join!(town.reload(|city| city.groups.clear()), then);
    town.pass(SECOND * 5).await;
    assert!(all_run(&town));
}

/// A member that leaves the group while that restarts still starts, although another member dies before the look that
/// applies the change.
#[tokio::test(start_paused = true)]
async fn member_that_leaves_its_group_during_a_restart_is_not_forgotten() {
    let town = group(Strategy::OneForAll).start().await;
    let [a, b, _] = sessions(&town);
    for _ in 0..3 {
        town.parts.sessions.crash(&b, 9);
        town.settle().await;
    }
    assert!(!all_run(&town), "it backs off");
    // Time stands still until the lists are released.
    town.parts.sessions.hold_lists(true);
    town.reconfigure(|city| city.groups[0].members.truncate(2))
        .await;
    town.wake(&agent("a")).await.unwrap();
    let before = town.starts(&a);
    town.parts.sessions.crash(&a, 9);
    town.until("it starts again", || town.starts(&a) > before)
        .await;
    town.parts.sessions.hold_lists(false);
    town.pass(SECOND * 60).await;
    assert!(all_run(&town));
}

/// The others wait with a quarantined member: its release releases them, too.
#[tokio::test(start_paused = true)]
async fn release_of_a_quarantined_member_releases_its_group() {
    let town = group(Strategy::OneForAll).start().await;
    quarantine(&town, "b").await;
    town.wake(&agent("b")).await.unwrap();
    town.pass(SECOND).await;
    assert!(all_run(&town));
    quarantine(&town, "b").await;
    let grace = SECOND * 77;
    town.reload(|city| city.agents[1].shutdown_timeout = grace)
        .await;
    town.pass(SECOND).await;
    assert!(all_run(&town));
    let released = EventType::AgentUnquarantined;
    assert_eq!(town.events(released).await.len(), 2);
}
