//! Outcome files and the outbox: completion by any harness.

use std::sync::Arc;
use std::time::Duration;

use crate::actors::mail::Charged;
use crate::actors::mail::ChildState;
use crate::actors::mail::WitnessMsg;
use crate::domain::event::EventType;
use crate::domain::facts::GitFacts;
use crate::domain::ids::ChildId;
use crate::domain::intent::Intent;
use crate::domain::message::{Body, Handoff};
use crate::domain::relic::RelicStatus;
use crate::ports::repo::RepoError;
use crate::testing::fake_tasks::{done_intent, sign};
use crate::testing::world::{Scenario, TestCity, asking};

const PATROL: Duration = Duration::from_secs(31);
const PASSED: &str = r#"{"outcome":"passed"}"#;

fn dir(city: &TestCity, charged: &Charged) -> std::path::PathBuf {
    let city = &city.world.city;
    city.task_dir(&charged.raider, &charged.relic, charged.incarnation)
}

/// Writes the outcome file of a raider, as its agent does.
fn outcome(city: &TestCity, charged: &Charged, text: &str) {
    city.parts.tasks.write_outcome(&dir(city, charged), text);
}

/// Writes it unnoticed by the watcher.
fn unwatched(city: &TestCity, charged: &Charged, text: &str) {
    let tasks = &city.parts.tasks;
    tasks.write_outcome_unwatched(&dir(city, charged), text);
}

#[tokio::test(start_paused = true)]
async fn an_outcome_file_completes_like_done_once() {
    let (city, charged) = Scenario::at_work().await;
    let dir = dir(&city, &charged);
    for _ in 0..3 {
        city.parts.tasks.write_outcome(&dir, PASSED);
    }
    drop(city.completed(&charged.raider).await);
    city.settle().await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
    assert_eq!(city.events(EventType::RaiderDone).await.len(), 1);
    assert_eq!(city.parts.repo.landings(), 1);
}

/// Weakness W2 of an earlier system: work whose session died as it handed over stayed in its state for ever, because
/// the failure of the next step was swallowed.
#[tokio::test(start_paused = true)]
async fn a_session_that_ends_after_its_outcome_is_finished_not_dead() {
    let (city, charged) = Scenario::at_work().await;
    unwatched(&city, &charged, PASSED);
    city.parts.sessions.exit(&charged.session, 0);
    city.settle().await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
    assert_eq!(city.starts(&charged.session), 1);
    assert!(city.events(EventType::AgentCrashed).await.is_empty());
}

/// A git that was killed leaves its lock for a while.
#[tokio::test(start_paused = true)]
async fn session_that_ends_while_its_outcome_cannot_be_judged_is_judged_later() {
    for text in [PASSED, ""] {
        let (city, charged) = Scenario::at_work().await;
        unwatched(&city, &charged, text);
        city.parts.tasks.unsettle(true);
        city.parts.sessions.exit(&charged.session, 0);
        city.pass(PATROL * 2).await;
        assert!(!city.runs(&charged.session));
        assert!(city.events(EventType::AgentCrashed).await.is_empty());
        city.parts.tasks.unsettle(false);
        city.pass(PATROL).await;
        let is_done = !text.is_empty();
        assert_eq!(city.runs(&charged.session), !is_done, "{text:?}");
        let status = city.status(&charged.relic).await;
        assert_eq!(status == RelicStatus::Closed, is_done);
        let deaths = city.events(EventType::AgentCrashed).await.len();
        assert_eq!(deaths, usize::from(!is_done), "{text:?}");
    }
}

/// An unreadable outcome proves nothing: the death counts, and the raider is not finished.
#[tokio::test(start_paused = true)]
async fn unreadable_outcome_does_not_finish_its_raider() {
    let (city, charged) = Scenario::at_work().await;
    city.parts.tasks.hide(Some("too many open files"));
    city.parts.sessions.crash(&charged.session, 9);
    city.pass(PATROL * 2).await;
    assert!(
        !city.runs(&charged.session),
        "it may have said that it is done"
    );
    city.parts.tasks.hide(None);
    city.pass(PATROL).await;
    assert!(city.runs(&charged.session));
    assert_eq!(city.starts(&charged.session), 2);
    assert_eq!(city.events(EventType::AgentCrashed).await.len(), 1);
    // The next daemon concludes nothing from it either.
    let clock = city.world.clock.clone();
    let parts = city.crash().await;
    parts.sessions.exit_unheard(&charged.session, 1);
    parts.tasks.hide(Some("too many open files"));
    let city = Scenario::new().start_on(parts, clock).await;
    city.pass(PATROL).await;
    assert!(!city.runs(&charged.session));
    city.parts.tasks.hide(None);
    city.pass(PATROL).await;
    assert!(city.runs(&charged.session));
}

/// A person is called when it lasts, until it is over.
#[tokio::test(start_paused = true)]
async fn an_outcome_that_cannot_be_seen_for_long_is_told_of() {
    let (city, charged) = Scenario::at_work().await;
    city.parts.tasks.hide(Some("permission denied"));
    city.parts.sessions.crash(&charged.session, 9);
    city.pass(PATROL * 60).await;
    let escalations = city.escalations().await;
    assert_eq!(escalations.len(), 1, "{escalations:?}");
    assert!(
        escalations[0].body.contains("permission denied"),
        "{escalations:?}"
    );
    city.parts.tasks.hide(None);
    city.pass(PATROL * 2).await;
    assert!(city.runs(&charged.session));
    assert_eq!(city.escalations().await[0].status, RelicStatus::Closed);
}

/// A raider that rests because of its outcome works on when that is withdrawn.
#[tokio::test(start_paused = true)]
async fn a_raider_whose_outcome_was_taken_back_works_on() {
    let (city, charged) = Scenario::at_work().await;
    let dir = dir(&city, &charged);
    city.parts.tasks.write_outcome_unwatched(&dir, "half a li");
    city.parts.sessions.exit(&charged.session, 0);
    city.pass(PATROL * 20).await;
    for _ in 0..3 {
        city.parts.sessions.exit(&charged.session, 0);
        city.pass(PATROL * 20).await;
    }
    let id = ChildId::Raider(charged.raider.clone());
    assert_eq!(city.state(&id).await, Some(ChildState::Finished));
    city.parts.tasks.write_outcome_unwatched(&dir, "");
    city.pass(PATROL).await;
    assert!(city.runs(&charged.session));
}

#[tokio::test(start_paused = true)]
async fn an_outcome_on_a_dirty_tree_is_told_then_escalated_once() {
    let (city, charged) = Scenario::at_work().await;
    city.parts.repo.dirty(&charged.raider.name, "wip.txt");
    outcome(&city, &charged, PASSED);
    city.pass(PATROL * 20).await;
    assert_eq!(city.parts.sessions.sent(&charged.session).len(), 2);
    assert_eq!(city.escalations().await.len(), 1);
    let sent = city.events(EventType::MessageSent).await;
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert!(city.runs(&charged.session), "nothing was thrown away");
}

#[tokio::test(start_paused = true)]
async fn a_finished_session_with_a_dirty_tree_is_started_again_for_it() {
    let (city, charged) = Scenario::at_work().await;
    city.parts.repo.dirty(&charged.raider.name, "wip.txt");
    unwatched(&city, &charged, PASSED);
    city.parts.sessions.exit(&charged.session, 0);
    city.settle().await;
    assert_eq!(city.starts(&charged.session), 2);
    let prompt = city.parts.tasks.prompts().pop().unwrap();
    assert!(prompt.contains("wip.txt"), "{prompt}");
    let id = ChildId::Raider(charged.raider.clone());
    assert_eq!(city.state(&id).await, Some(ChildState::Running));
    city.parts
        .repo
        .change(&charged.raider.name, |facts| facts.dirty.clear());
    outcome(&city, &charged, PASSED);
    city.settle().await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
}

/// An unreadable outcome is no crash, and the agent is told about it; a person is called when that does not help.
#[tokio::test(start_paused = true)]
async fn an_outcome_that_cannot_be_read_is_told_to_the_next_session_then_escalated() {
    let (city, charged) = Scenario::at_work().await;
    let dir = dir(&city, &charged);
    city.parts
        .tasks
        .write_outcome(&dir, r#"{"outcome":"pased"}"#);
    for session in 2..=3 {
        city.parts.sessions.exit(&charged.session, 0);
        // The watcher's reading may still run; the one after it waits for its turn.
        city.pass(Duration::from_millis(200)).await;
        assert_eq!(city.starts(&charged.session), session);
        let prompt = city.parts.tasks.prompts().pop().unwrap();
        let why =
            "First fix this: .horde-outcome could not be understood: unknown outcome \"pased\"";
        assert!(prompt.contains(why), "{prompt}");
    }
    assert!(city.escalations().await.is_empty());
    city.parts.sessions.exit(&charged.session, 0);
    city.pass(PATROL * 4).await;
    assert_eq!(city.starts(&charged.session), 3);
    assert_eq!(city.escalations().await.len(), 1);
    assert!(city.events(EventType::AgentCrashed).await.is_empty());
    city.parts.tasks.write_outcome(&dir, PASSED);
    city.settle().await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
}

#[tokio::test(start_paused = true)]
async fn outcome_that_is_written_in_two_parts_is_no_mistake() {
    let (city, charged) = Scenario::at_work().await;
    let dir = dir(&city, &charged);
    let (start, second) = (city.world.clock.now(), Duration::from_secs(1));
    city.parts.tasks.stamp(&dir, start);
    city.parts.tasks.write_outcome(&dir, r#"{"outcome":"#);
    city.pass(second).await;
    city.parts.tasks.stamp(&dir, start + second);
    city.parts.tasks.write_outcome(&dir, PASSED);
    city.pass(second * 3).await;
    assert!(city.parts.sessions.sent(&charged.session).is_empty());
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
}

/// A half-written file is no mistake yet; if it stays so for a moment, the agent is told without waiting for a patrol.
#[tokio::test(start_paused = true)]
async fn an_outcome_that_stays_unreadable_is_told_to_the_living_session() {
    let (city, charged) = Scenario::at_work().await;
    let dir = dir(&city, &charged);
    city.parts.tasks.stamp(&dir, city.world.clock.now());
    city.parts.tasks.write_outcome(&dir, r#"{"outcome":"#);
    city.pass(Duration::from_secs(5)).await;
    let sent = city.parts.sessions.sent(&charged.session);
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert!(
        format!("{sent:?}").contains("could not be understood"),
        "{sent:?}"
    );
    assert!(city.runs(&charged.session));
}

/// An operator's start is not ended at once by the same unacceptable file.
#[tokio::test(start_paused = true)]
async fn an_operator_can_start_a_raider_again_whose_outcome_was_not_accepted() {
    let city = Scenario::new()
        .rig(|rig| rig.raiders.nudges = 0)
        .start()
        .await;
    let charged = city.worker("a").await;
    city.parts.repo.dirty(&charged.raider.name, "wip.txt");
    unwatched(&city, &charged, PASSED);
    city.parts.sessions.exit(&charged.session, 0);
    city.settle().await;
    let id = ChildId::Raider(charged.raider.clone());
    assert_eq!(city.state(&id).await, Some(ChildState::Finished));
    assert_eq!(city.escalations().await.len(), 1);
    city.wake(&id).await.unwrap();
    city.settle().await;
    assert_eq!(city.state(&id).await, Some(ChildState::Running));
    let prompt = city.parts.tasks.prompts().pop().unwrap();
    assert!(
        prompt.contains("First fix this") && prompt.contains("wip.txt"),
        "{prompt}"
    );
    // An outcome that became acceptable meanwhile needs no session.
    city.parts.sessions.exit(&charged.session, 0);
    city.settle().await;
    assert_eq!(city.state(&id).await, Some(ChildState::Finished));
    city.parts
        .repo
        .change(&charged.raider.name, |facts| facts.dirty.clear());
    city.wake(&id).await.unwrap();
    city.settle().await;
    assert_eq!(city.starts(&charged.session), 2);
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
}

#[tokio::test(start_paused = true)]
async fn intent_in_the_outbox_is_carried_out() {
    let (city, charged) = Scenario::at_work().await;
    city.parts.tasks.leave(done_intent(&charged));
    city.settle().await;
    assert_eq!(city.parts.tasks.intents(), 0);
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
}

/// The first has to wait: later completions of its raider wait, too.
#[tokio::test(start_paused = true)]
async fn intents_of_a_raider_are_carried_out_in_order() {
    let (city, charged) = Scenario::at_work().await;
    let gone = RepoError::Remote("no route".into());
    city.parts.repo.fail("measure", gone);
    let first = done_intent(&charged);
    let mut second = first.clone();
    second.args.insert("status".into(), "escalated".into());
    second.args.insert("reason".into(), "no key".into());
    let second = sign(&charged, second);
    city.parts.tasks.leave_unheard(first);
    city.parts.tasks.leave_unheard(second);
    city.pass(PATROL).await;
    city.pass(PATROL).await;
    assert_eq!(city.parts.tasks.intents(), 0);
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
}

/// A file that was written in another raider's name is refused, set aside for a person, and journalled.
#[tokio::test(start_paused = true)]
async fn intent_with_a_false_claim_is_set_aside_and_journalled() {
    let city = Scenario::new().start().await;
    let (own, other) = (city.worker("a").await, city.worker("b").await);
    let honest = done_intent(&own);
    let forge = |change: &dyn Fn(&mut Intent)| {
        let mut forged = honest.clone();
        change(&mut forged);
        // It has only its own key.
        sign(&own, forged)
    };
    let unsigned = Intent {
        mac: None,
        ..honest.clone()
    };
    let forged = [
        forge(&|it| it.session = Some(other.session.to_string())),
        forge(&|it| it.session = None),
        forge(&|it| it.relic = Some(other.relic.to_string())),
        forge(&|it| it.relic = None),
        forge(&|it| it.cwd = other.sandbox.clone()),
        forge(&|it| it.cwd = "".into()),
        forge(&|it| it.incarnation = None),
        // `HD_ACTOR=.. hd done` for another's session: only the name is forged.
        forge(&|it| it.raider = Some(other.raider.to_string())),
        forge(&|it| it.raider = Some("../../Toast".into())),
        forge(&|it| it.op = "stop".into()),
        // Everything is forged, and signed with another key, or unsigned.
        sign(&own, done_intent(&other)),
        unsigned,
    ];
    for intent in &forged {
        city.parts.tasks.leave(intent.clone());
        city.settle().await;
    }
    city.parts.tasks.leave_garbage("it is not JSON");
    city.pass(PATROL * 3).await;
    assert_eq!(city.parts.tasks.intents(), 0);
    assert_eq!(city.parts.tasks.aside(), forged);
    let mut told = city.events(EventType::ControlForbidden).await;
    let garbage = told.pop().unwrap();
    assert_eq!(garbage.subject, "outbox");
    assert_eq!(garbage.data["message"], "it is not JSON");
    assert_eq!(told.len(), forged.len());
    let subjects = |name: &str| told.iter().filter(|told| told.subject == name).count();
    assert_eq!(subjects(&own.raider.to_string()), 9);
    assert_eq!(subjects(&other.raider.to_string()), 2);
    assert!(city.events(EventType::RaiderDone).await.is_empty());
    assert!(city.runs(&own.session) && city.runs(&other.session));
    city.parts.tasks.leave(honest);
    city.settle().await;
    assert_eq!(city.parts.tasks.intents(), 0);
    assert_eq!(city.events(EventType::RaiderDone).await.len(), 1);
}

/// A raider ran `hd done` without a supervisor and ended: its next session learns the result.
#[tokio::test(start_paused = true)]
async fn an_intent_that_is_refused_at_the_start_is_told_to_the_next_session() {
    let (city, charged) = Scenario::at_work().await;
    city.parts.repo.dirty(&charged.raider.name, "wip.txt");
    let clock = Arc::clone(&city.world.clock);
    let parts = city.crash().await;
    parts.sessions.exit_unheard(&charged.session, 0);
    parts.tasks.leave(done_intent(&charged));
    let city = Scenario::new().start_on(parts, clock).await;
    // The refusal may come while its session is being started, and waits for that.
    let told = || {
        let sent = city.parts.sessions.sent(&charged.session);
        let heard = format!("{sent:?} {:?}", city.parts.tasks.prompts().last());
        city.parts.tasks.intents() == 0 && heard.contains("wip.txt")
    };
    // The store answers from a thread of its own, for which virtual time does not wait.
    let breath = || crate::testing::poll::pass(Duration::from_millis(5));
    for _ in 0..100 {
        city.pass(Duration::from_millis(200)).await;
        tokio::task::spawn_blocking(breath).await.unwrap();
        if told() {
            break;
        }
    }
    let is_told = told() && city.runs(&charged.session);
    assert!(is_told, "{}", city.journal().await);
}

/// A note is for the successor on the same work, not for the next incarnation in the slot.
#[tokio::test(start_paused = true)]
async fn a_handoff_note_never_reaches_the_next_incarnation() {
    let (city, charged) = Scenario::at_work().await;
    let address = charged.raider.to_string();
    let note = Body::Handoff(Handoff {
        note: Some("mind the gap".into()),
        relic: Some(charged.relic.clone()),
        incarnation: None,
        totem_step: None,
        resume: false,
    });
    city.store(move |txn| txn.send(&address, &address, note.clone()))
        .await;
    city.nuke(&charged.raider, true).await.unwrap();
    let next = city.worker("b").await;
    assert_eq!(next.raider, charged.raider);
    let prompt = city.parts.tasks.prompts().pop().unwrap();
    assert!(!prompt.contains("mind the gap"), "{prompt}");
}

#[tokio::test(start_paused = true)]
async fn an_outcome_on_a_sandbox_that_cannot_be_measured_is_escalated_once() {
    let (city, charged) = Scenario::at_work().await;
    let broken = RepoError::Failed("index is damaged".into());
    city.parts.repo.break_op("measure", broken);
    unwatched(&city, &charged, PASSED);
    city.parts.sessions.exit(&charged.session, 0);
    city.pass(PATROL * 4).await;
    let escalations = city.escalations().await;
    assert_eq!(escalations.len(), 1);
    assert!(escalations[0].body.contains("index is damaged"));
    city.parts.repo.mend("measure");
    city.pass(PATROL).await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
}

/// A refused completion is reported, and never carried out later while the raider works on.
#[tokio::test(start_paused = true)]
async fn an_intent_that_is_refused_is_told_to_its_raider_and_put_away() {
    let (city, charged) = Scenario::at_work().await;
    city.parts.repo.dirty(&charged.raider.name, "wip.txt");
    city.parts.tasks.leave(done_intent(&charged));
    city.settle().await;
    assert_eq!(city.parts.tasks.intents(), 0);
    let sent = city.parts.sessions.sent(&charged.session);
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert!(format!("{sent:?}").contains("wip.txt"), "{sent:?}");
    let clean = |facts: &mut GitFacts| facts.dirty.clear();
    city.parts.repo.change(&charged.raider.name, clean);
    city.pass(PATROL * 3).await;
    assert!(city.events(EventType::RaiderDone).await.is_empty());
    assert!(city.runs(&charged.session));
}

/// The number of reminders is stored.
#[tokio::test(start_paused = true)]
async fn a_killed_witness_does_not_begin_to_count_anew() {
    let (city, charged) = Scenario::at_work().await;
    city.parts.repo.dirty(&charged.raider.name, "wip.txt");
    outcome(&city, &charged, PASSED);
    for _ in 0..5 {
        city.pass(PATROL).await;
        assert_eq!(city.kill_actors::<WitnessMsg>(), 1);
    }
    assert_eq!(city.parts.sessions.sent(&charged.session).len(), 2);
    assert_eq!(city.escalations().await.len(), 1);
}

/// A return would answer the dialog: a problem with an outcome, or with a refused completion, is reported when the
/// dialog has closed.
#[tokio::test(start_paused = true)]
async fn no_input_into_an_open_question_or_under_a_persons_hands() {
    for (attached, intent) in [(true, false), (false, false), (true, true), (false, true)] {
        let city = Scenario::new().with(asking).start().await;
        let charged = city.worker("a").await;
        let sessions = &city.parts.sessions;
        match attached {
            true => sessions.set_attached(&charged.session, true),
            false => sessions.print(&charged.session, "Delete it?"),
        }
        city.parts.repo.dirty(&charged.raider.name, "wip.txt");
        match intent {
            true => city.parts.tasks.leave(done_intent(&charged)),
            false => city
                .parts
                .tasks
                .write_outcome(&dir(&city, &charged), PASSED),
        }
        city.pass(PATROL * 10).await;
        let what = format!("attached: {attached}, intent: {intent}");
        assert_eq!(sessions.sent(&charged.session), [], "{what}");
        assert!(city.events(EventType::RaiderNudged).await.is_empty());
        assert!(city.escalations().await.is_empty(), "{what}");
        sessions.set_attached(&charged.session, false);
        sessions.show(&charged.session, Some(""));
        sessions.print(&charged.session, "working");
        city.pass(PATROL * 2).await;
        assert!(!sessions.sent(&charged.session).is_empty(), "{what}");
    }
}
