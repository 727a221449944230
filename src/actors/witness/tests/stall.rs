//! Stalled sessions: nudged, replaced, escalated; and sessions that are not stalled.

use std::sync::Arc;
use std::time::Duration;

use crate::actors::mail::Charged;
use crate::actors::mail::ChildState;
use crate::actors::mail::WitnessMsg;
use crate::actors::records::{escalations, stalls};
use crate::domain::asker::Asker;
use crate::domain::event::EventType;
use crate::domain::ids::ChildId;
use crate::domain::relic::RelicStatus;
use crate::domain::stall::Wait;
use crate::ports::repo::RepoError;
use crate::testing::eventually;
use crate::testing::tier::{by_tier, sampled};
use crate::testing::world::{Scenario, TestCity, asking};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

fn scenario() -> Scenario {
    Scenario::new().rig(|rig| rig.raiders.stall_after = Some(10 * MINUTE))
}

/// Returns the numbers of nudges, of sessions, and of escalations.
async fn steps(city: &TestCity, charged: &Charged) -> (usize, usize, usize) {
    let sent = city.parts.sessions.sent(&charged.session).len();
    let escalations = city.escalations().await.len();
    (sent, city.starts(&charged.session), escalations)
}

async fn causes(city: &TestCity, kind: EventType) -> Vec<String> {
    let events = city.events(kind).await.into_iter();
    events.map(|event| event.cause).collect()
}

/// Weakness W20 of an earlier system: work in progress counted as a stall, and the alarm about it was repeated every
/// three minutes.
#[tokio::test(start_paused = true)]
async fn a_silent_session_is_told_then_replaced_then_a_person_is_called_once() {
    let city = scenario().start().await;
    let charged = city.worker("a").await;
    city.pass(10 * MINUTE).await;
    assert_eq!(steps(&city, &charged).await, (0, 1, 0));
    city.pass(2 * MINUTE).await;
    assert_eq!(steps(&city, &charged).await, (1, 1, 0));
    assert_eq!(causes(&city, EventType::RaiderStalled).await, ["stalled"]);
    let said = format!("{:?}", city.parts.sessions.sent(&charged.session));
    assert!(said.contains("hd wait 30m"), "{said}");
    city.pass(10 * MINUTE).await;
    assert_eq!(steps(&city, &charged).await, (2, 1, 0));
    city.pass(10 * MINUTE).await;
    assert_eq!(steps(&city, &charged).await, (2, 2, 0));
    assert_eq!(causes(&city, EventType::AgentRestarted).await, ["stalled"]);
    assert_eq!(causes(&city, EventType::RaiderRespawned).await, ["stalled"]);
    let prompt = city.parts.tasks.prompts().pop().unwrap();
    assert!(
        prompt.contains("it made no progress for a long time"),
        "{prompt}"
    );
    city.pass(12 * MINUTE).await;
    assert_eq!(steps(&city, &charged).await, (2, 2, 1));
    city.pass_hours(5 * HOUR).await;
    assert_eq!(steps(&city, &charged).await, (2, 2, 1), "each step once");
    assert_eq!(causes(&city, EventType::RaiderStalled).await.len(), 1);
    assert!(city.events(EventType::AgentCrashed).await.is_empty());
    let view = city.view(&ChildId::Raider(charged.raider.clone())).await;
    assert_eq!(view.unwrap().restarts, 0, "a planned cycle is no death");
    // The escalation is acknowledged; progress resets the steps, and closes the escalation.
    let called = city.escalations().await.remove(0).id;
    let known = called.clone();
    city.store(move |txn| escalations::acknowledge(txn, &known, &Asker::person()))
        .await;
    city.parts.repo.commit(&charged.raider.name);
    city.pass(MINUTE).await;
    assert_eq!(
        causes(&city, EventType::RaiderWorking).await,
        ["charged", "progress"]
    );
    let called = city.relic_now(&called).await;
    assert_eq!(called.status, RelicStatus::Closed);
    city.pass(11 * MINUTE).await;
    assert_eq!(steps(&city, &charged).await, (3, 2, 1));
    city.pass(35 * MINUTE).await;
    assert_eq!(steps(&city, &charged).await, (4, 3, 2));
    let raised = city.events(EventType::EscalationRaised).await;
    let anew = raised.iter().filter(|event| event.data["again"] == 0);
    assert_eq!(anew.count(), 2, "and people hear of it");
}

/// A nudge that the terminal did not take does not count, and is no reason for a fresh session.
#[tokio::test(start_paused = true)]
async fn raider_that_cannot_be_nudged_is_not_replaced_and_is_escalated_once() {
    let city = scenario().start().await;
    let charged = city.worker("a").await;
    let sessions = &city.parts.sessions;
    sessions.deafen(&charged.session, true);
    city.pass_hours(5 * HOUR).await;
    assert_eq!(steps(&city, &charged).await, (0, 1, 1));
    let called = city.escalations().await.remove(0);
    assert!(
        called.title.contains("accepts no nudge"),
        "{}",
        called.title
    );
    assert!(called.body.contains("takes nothing"), "{}", called.body);
    assert!(city.events(EventType::RaiderNudged).await.is_empty());
    assert_eq!(causes(&city, EventType::RaiderStalled).await.len(), 1);
    // From the first nudge that arrives they are counted as usual.
    sessions.deafen(&charged.session, false);
    while steps(&city, &charged).await.0 == 0 {
        city.pass(MINUTE).await;
    }
    assert_eq!(steps(&city, &charged).await, (1, 1, 1));
    let nudged = city.events(EventType::RaiderNudged).await;
    assert_eq!(nudged[0].data["nudge"], 1);
    city.pass(12 * MINUTE).await;
    assert_eq!(steps(&city, &charged).await, (2, 1, 1));
    city.pass(12 * MINUTE).await;
    assert_eq!(steps(&city, &charged).await, (2, 2, 1));
}

/// The echo of a nudge or a greeting is no progress.
#[tokio::test(start_paused = true)]
async fn an_echo_takes_no_step_back() {
    let city = scenario().start().await;
    let charged = city.worker("a").await;
    let mut told = (0, 1, 0);
    for _ in 0..60 {
        city.pass(MINUTE).await;
        let now = steps(&city, &charged).await;
        if now != told {
            told = now;
            city.parts.sessions.print(&charged.session, "echo");
        }
    }
    assert_eq!(told, (2, 2, 1));
}

/// A continuing answer is progress: the next silence is a new one.
#[tokio::test(start_paused = true)]
async fn raider_that_goes_on_after_a_nudge_starts_over_with_its_nudges() {
    let city = scenario().start().await;
    let charged = city.worker("a").await;
    city.pass(12 * MINUTE).await;
    for _ in 0..15 {
        city.parts.sessions.print(&charged.session, "working");
        city.pass(MINUTE).await;
    }
    assert_eq!(
        causes(&city, EventType::RaiderWorking).await,
        ["charged", "progress"]
    );
    city.pass(11 * MINUTE).await;
    let nudged = city.events(EventType::RaiderNudged).await;
    let counts: Vec<_> = nudged.iter().map(|event| &event.data["nudge"]).collect();
    assert_eq!(counts, [1, 1]);
    assert_eq!(causes(&city, EventType::RaiderStalled).await.len(), 2);
}

/// Weakness W20 of an earlier system: work in progress counted as a stall, and the alarm about it was repeated every
/// three minutes.
#[tokio::test(start_paused = true)]
async fn a_slow_but_working_session_is_left_alone() {
    let city = scenario().start().await;
    let charged = city.worker("a").await;
    let (sessions, repo) = (&city.parts.sessions, &city.parts.repo);
    let slot = &charged.raider.name;
    for round in 0..by_tier(6, 40) {
        city.pass(9 * MINUTE).await;
        match round % 5 {
            0 => sessions.print(&charged.session, "still here"),
            1 => drop(repo.commit(slot)),
            2 => repo.dirty(slot, &format!("{round}.txt")),
            3 => sessions.use_cpu(&charged.session, Duration::from_secs(20)),
            _ => {
                let id = charged.relic.clone();
                city.store(move |txn| {
                    let mut relic = txn.relic(&id)?;
                    relic.labels.push(format!("step-{round}"));
                    txn.put_relic(&relic)
                })
                .await;
            }
        }
    }
    assert_eq!(steps(&city, &charged).await, (0, 1, 0));
    assert!(city.events(EventType::RaiderStalled).await.is_empty());
}

/// The successor of a killed witness comes to the same conclusions at the same times.
#[tokio::test(start_paused = true)]
async fn a_killed_witness_forgets_nothing() {
    let city = scenario().start().await;
    let charged = city.worker("a").await;
    let mut history = Vec::new();
    for minute in 1..=50 {
        city.pass(MINUTE).await;
        let now = steps(&city, &charged).await;
        if history.last().is_none_or(|(_, last)| *last != now) {
            history.push((minute, now));
        }
        if minute % 8 == 0 {
            assert_eq!(city.kill_actors::<WitnessMsg>(), 1);
        }
    }
    let seen: Vec<_> = history.iter().map(|(_, steps)| *steps).collect();
    let expected = [(0, 1, 0), (1, 1, 0), (2, 1, 0), (2, 2, 0), (2, 2, 1)];
    assert_eq!(seen, expected, "{history:?}");
}

/// A new daemon measures silence from its own start, and goes on with the steps.
#[tokio::test(start_paused = true)]
async fn a_killed_daemon_forgets_no_step() {
    let mut city = scenario().start().await;
    let charged = city.worker("a").await;
    let expected = [
        (0, 1, 0),
        (1, 1, 0),
        (2, 1, 0),
        (2, 2, 0),
        (2, 2, 1),
        (2, 2, 1),
    ];
    for (life, expected) in expected.into_iter().enumerate() {
        assert_eq!(steps(&city, &charged).await, expected, "{life}");
        let clock = Arc::clone(&city.world.clock);
        let parts = city.crash().await;
        city = scenario().start_on(parts, clock).await;
        city.pass(10 * MINUTE).await;
        assert_eq!(steps(&city, &charged).await, expected, "{life}: not yet");
        city.pass(2 * MINUTE).await;
    }
}

#[tokio::test(start_paused = true)]
async fn session_with_an_attached_person_is_not_nudged_or_replaced() {
    let city = scenario().start().await;
    let charged = city.worker("a").await;
    city.parts.sessions.set_attached(&charged.session, true);
    city.pass_hours(3 * HOUR).await;
    assert_eq!(steps(&city, &charged).await, (0, 1, 0));
    city.parts.sessions.set_attached(&charged.session, false);
    city.pass(9 * MINUTE).await;
    assert_eq!(steps(&city, &charged).await, (0, 1, 0));
    city.pass(3 * MINUTE).await;
    assert_eq!(steps(&city, &charged).await, (1, 1, 0));
}

/// A text typed after it would become one message with it, so none is typed until it was left for long.
#[tokio::test(start_paused = true)]
async fn person_is_called_for_a_stalled_session_in_which_a_line_was_begun_and_left() {
    let city = scenario().start().await;
    let charged = city.worker("a").await;
    let sessions = &city.parts.sessions;
    sessions.show(&charged.session, Some("> delete the"));
    for _ in 0..5 {
        sessions.begin_line(&charged.session, Some(city.world.clock.now()));
        city.pass(MINUTE * 8).await;
    }
    assert!(sessions.sent(&charged.session).is_empty());
    assert!(city.runs(&charged.session), "it is not replaced for that");
    let called = city.escalations().await;
    assert_eq!(called.len(), 1, "{called:?}");
    assert!(called[0].title.contains("a person began"), "{called:?}");
    assert!(called[0].body.contains("delete the"), "{called:?}");
    city.pass(MINUTE * 20).await;
    assert!(!sessions.sent(&charged.session).is_empty());
}

#[tokio::test(start_paused = true)]
async fn raider_that_asks_a_question_is_not_stalled() {
    let city = scenario().with(asking).start().await;
    let charged = city.worker("a").await;
    city.parts
        .sessions
        .show(&charged.session, Some("Go on? (y)"));
    city.pass_hours(3 * HOUR).await;
    assert_eq!(steps(&city, &charged).await, (0, 1, 0));
    assert_eq!(
        causes(&city, EventType::RaiderNeedsInput).await,
        ["question"]
    );
    city.parts.sessions.show(&charged.session, Some(""));
    city.pass(9 * MINUTE).await;
    assert_eq!(steps(&city, &charged).await, (0, 1, 0));
    city.pass(3 * MINUTE).await;
    assert_eq!(steps(&city, &charged).await, (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_declared_wait_holds_for_its_session_until_it_has_passed() {
    let city = scenario().start().await;
    let charged = city.worker("a").await;
    let facts = city
        .world
        .sessions
        .facts(&charged.session)
        .unwrap()
        .unwrap();
    let at = city.world.clock.now();
    let mut wait = Wait {
        session: "another".into(),
        at,
        until: at + HOUR,
        reason: "the CI runs".into(),
    };
    let declare = async |wait: &Wait| {
        let (raider, wait) = (charged.raider.clone(), wait.clone());
        city.store(move |txn| stalls::declare(txn, &raider, &wait))
            .await;
    };
    declare(&wait).await;
    city.pass(12 * MINUTE).await;
    assert_eq!(steps(&city, &charged).await, (1, 1, 0), "it is not its own");
    wait.session = facts.token;
    declare(&wait).await;
    city.pass(58 * MINUTE).await;
    assert_eq!(steps(&city, &charged).await, (1, 1, 0));
    city.pass(3 * MINUTE).await;
    assert_eq!(steps(&city, &charged).await, (2, 1, 0));
    let nudged = city.events(EventType::RaiderNudged).await;
    assert_eq!(
        nudged[1].data["nudge"], 1,
        "who says that it waits is not stalled"
    );
}

/// A failed observation is no silence, and no reason to ignore it: a person is called.
#[tokio::test(start_paused = true)]
async fn unobservable_raider_is_left_alone_and_escalated_once() {
    for op in sampled(["progress", "changes", "session", "screen", "attached"], 3) {
        let city = scenario().with(asking).start().await;
        let charged = city.worker("a").await;
        let (sessions, session) = (&city.parts.sessions, &charged.session);
        match op {
            "session" => sessions.hide(session, Some("no answer")),
            "screen" => sessions.show(session, None),
            "attached" => sessions.guess_attached(session, true),
            _ => city.parts.repo.break_op(op, RepoError::Failed("no".into())),
        }
        city.pass(9 * MINUTE).await;
        assert_eq!(steps(&city, &charged).await, (0, 1, 0), "{op}");
        city.pass_hours(35 * MINUTE).await;
        assert_eq!(steps(&city, &charged).await, (0, 1, 1), "{op}");
        assert!(
            city.events(EventType::RaiderStalled).await.is_empty(),
            "{op}"
        );
        city.reword().await;
        city.parts.repo.mend(op);
        sessions.hide(session, None);
        sessions.show(session, Some(""));
        sessions.guess_attached(session, false);
        city.pass(12 * MINUTE).await;
        assert!((1..=2).contains(&steps(&city, &charged).await.0), "{op}");
        // It is observed again, and makes progress.
        city.parts.repo.commit(&charged.raider.name);
        city.pass(MINUTE).await;
        let called = city.escalations().await;
        assert_eq!(called.len(), 1, "{op}");
        assert_eq!(called[0].status, RelicStatus::Closed, "{op}");
    }
}

/// A failed look does not restart the measurement.
#[tokio::test(start_paused = true)]
async fn a_look_that_fails_forgets_no_silence() {
    let city = scenario().start().await;
    let charged = city.worker("a").await;
    city.pass(9 * MINUTE).await;
    let broken = RepoError::Failed("no".into());
    city.parts.repo.break_op("progress", broken);
    city.pass(MINUTE).await;
    city.parts.repo.mend("progress");
    city.pass(2 * MINUTE).await;
    assert_eq!(steps(&city, &charged).await, (1, 1, 0));
}

/// A costly observation takes time: events meanwhile count.
#[tokio::test(start_paused = true)]
async fn stall_step_follows_the_latest_observation() {
    let acts = ["print", "ask", "attach"];
    let cases = [2, 0].map(|nudges| acts.map(|what| (nudges, what)));
    for (nudges, what) in sampled(cases.concat(), 3) {
        let city = scenario()
            .with(asking)
            .rig(|rig| rig.raiders.nudges = nudges)
            .start()
            .await;
        let charged = city.worker("a").await;
        city.pass(2 * MINUTE).await;
        let (sessions, id) = (Arc::clone(&city.parts.sessions), charged.session.clone());
        city.parts.repo.interlude("changes", move || match what {
            "print" => sessions.print(&id, "there"),
            "ask" => sessions.show(&id, Some("Go on?")),
            _ => sessions.set_attached(&id, true),
        });
        city.pass(18 * MINUTE).await;
        assert!(city.parts.repo.count("changes") > 1, "{nudges}, {what}");
        assert_eq!(steps(&city, &charged).await, (0, 1, 0), "{nudges}, {what}");
    }
}

/// An idle session is stalled, too: it is nudged before it is replaced.
#[tokio::test(start_paused = true)]
async fn idle_timeout_does_not_hide_a_stall() {
    let city = scenario().rig(|rig| rig.raiders.idle_timeout = Some(5 * MINUTE));
    let city = city.start().await;
    let charged = city.worker("a").await;
    city.pass_hours(3 * HOUR).await;
    assert_eq!(steps(&city, &charged).await, (2, 2, 1));
}

/// A restart that the root refuses is retried, and a person is called.
#[tokio::test(start_paused = true)]
async fn a_restart_that_is_refused_calls_a_person() {
    let city = scenario().rig(|rig| rig.raiders.nudges = 0).start().await;
    let charged = city.worker("a").await;
    city.parts.sessions.refuse_stop(&charged.session);
    let id = ChildId::Raider(charged.raider.clone());
    city.rest(&id).await.unwrap_err();
    city.pass_hours(3 * HOUR).await;
    let problems = city.escalations().await;
    let stalled = problems.iter().filter(|one| one.title.contains("stalled"));
    assert_eq!(stalled.count(), 1, "{problems:?}");
    assert_eq!(city.starts(&charged.session), 1);
}

/// A session that came up between observation and act is another one.
#[tokio::test(start_paused = true)]
async fn a_successor_is_never_replaced_in_its_stead() {
    let city = scenario().rig(|rig| rig.raiders.nudges = 0).start().await;
    let charged = city.worker("a").await;
    city.pass(2 * MINUTE).await;
    assert_eq!(city.parts.repo.count("changes"), 1, "the first deeper look");
    let (sessions, id) = (Arc::clone(&city.parts.sessions), charged.session.clone());
    city.parts.repo.interlude("changes", move || {
        if sessions.starts().len() == 1 {
            sessions.crash(&id, 9);
        }
        eventually("a successor", || {
            (sessions.starts().len() > 1).then_some(())
        });
    });
    city.pass(12 * MINUTE).await;
    assert_eq!(
        city.parts.repo.count("changes"),
        3,
        "one more is the successor's"
    );
    assert_eq!(steps(&city, &charged).await.1, 2);
    assert!(city.events(EventType::AgentRestarted).await.is_empty());
    let id = ChildId::Raider(charged.raider);
    assert_eq!(city.state(&id).await, Some(ChildState::Running));
}

/// Only silent sessions cost a `git status`: one after a tenth of `stall_after`, one when it is due.
#[tokio::test(start_paused = true)]
async fn git_status_runs_only_where_nothing_else_happens() {
    let city = scenario().start().await;
    let (busy, silent) = (city.worker("a").await, city.worker("b").await);
    for _ in 0..120 {
        city.parts.sessions.print(&busy.session, "busy");
        city.pass(Duration::from_secs(5)).await;
    }
    let of = |name: &str| {
        let calls = city.parts.repo.calls();
        let deep = calls
            .iter()
            .filter(|(op, what)| *op == "changes" && what == name);
        deep.count()
    };
    assert_eq!(of(busy.raider.name.as_str()), 0);
    assert_eq!(of(silent.raider.name.as_str()), 1);
}

/// A reload applies at once.
#[tokio::test(start_paused = true)]
async fn stall_after_can_be_changed_while_it_runs() {
    let city = scenario().start().await;
    let charged = city.worker("a").await;
    city.reload(|city| city.rigs[0].raiders.stall_after = None)
        .await;
    city.pass_hours(HOUR).await;
    assert_eq!(steps(&city, &charged).await, (0, 1, 0));
    city.reload(|city| city.rigs[0].raiders.stall_after = Some(MINUTE))
        .await;
    city.pass(2 * MINUTE).await;
    assert_eq!(steps(&city, &charged).await, (1, 1, 0));
    city.reload(|city| city.rigs[0].raiders.stall_after = None)
        .await;
    city.pass(MINUTE).await;
    let hook = city.hook(&charged.raider).await.unwrap();
    let steps = city.store(move |txn| stalls::steps(txn, &hook)).await;
    assert_eq!(steps, None, "it is not shown as stalled");
}
