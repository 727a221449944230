//! Accounts at a limit or without a login: the effects on their sessions (`actors/accounts.rs`).

use crate::actors::mail::RootMail;
use std::time::Duration;

use jiff::Timestamp;

use crate::actors::conversation;
use crate::actors::mail::Charged;
use crate::actors::mail::ChildState;
use crate::actors::refusal::RefusalKind;
use crate::actors::{accounts, ask, conditions};
use crate::domain::asker::Asker;
use crate::domain::cause::Cause;
use crate::domain::city::City;
use crate::domain::condition::Report;
use crate::domain::event::EventType;
use crate::domain::ids::{ChildId, HarnessName, SessionId};
use crate::domain::question::Pattern;
use crate::domain::relic::RelicStatus;
use crate::ports::sessions::{Input, Sessions};
use crate::testing::tier::by_tier;
use crate::testing::world::{Scenario, TestCity};

pub(super) const PATROL: Duration = Duration::from_secs(31);
pub(super) const MINUTE: Duration = Duration::from_secs(60);

/// Configures the limit and login patterns of every harness.
pub(super) fn looks(city: &mut City) {
    let pattern = |text: &str| Pattern::new(text).into_iter().collect();
    for harness in city.harnesses.values_mut() {
        harness.patterns.limit = pattern(r"at your limit(?: until (?P<until>\S+))?");
        harness.patterns.auth = pattern("please log in");
        harness.patterns.working = pattern("thinking");
        harness.patterns.input = pattern("^> ");
        harness.resume = vec!["--resume".into(), "{session_id}".into()];
    }
}

pub(super) async fn city() -> TestCity {
    Scenario::new().with(looks).start().await
}

pub(super) fn child(charged: &Charged) -> ChildId {
    ChildId::Raider(charged.raider.clone())
}

pub(super) fn harness(city: &TestCity) -> HarnessName {
    city.world.city.harnesses.keys().next().unwrap().clone()
}

/// Returns the text of a limit that ends after this time.
pub(super) fn limit(city: &TestCity, after: Duration) -> String {
    format!("at your limit until {}\n> ", city.world.clock.now() + after)
}

pub(super) fn show(city: &TestCity, session: &SessionId, screen: &str) {
    city.parts.sessions.show(session, Some(screen));
    let now = city.world.clock.now();
    city.parts.sessions.set_last_activity(session, Some(now));
}

/// Makes the conversation of a child's session known, so that the next session can resume it.
pub(super) async fn converse(city: &TestCity, child: &ChildId) {
    let handle = city.view(child).await.unwrap().session.unwrap().handle;
    let sessions = &city.parts.sessions;
    sessions
        .set_meta(&handle, conversation::CONVERSATION, "c-1")
        .unwrap();
}

pub(super) fn limit_notices(city: &TestCity, session: &SessionId) -> usize {
    let sent = city.parts.sessions.sent(session);
    let of_limit = |input: &&Input| match input {
        Input::Submit(text) | Input::Paste(text) => text.contains("limit of your account is over"),
        _ => false,
    };
    sent.iter().filter(of_limit).count()
}

async fn until(city: &TestCity, raider: &ChildId) -> Option<Timestamp> {
    let session = city.view(raider).await?.session?;
    let shown = city.world.directory.conditions.of(&session.handle)?;
    shown.until()
}

/// Contract 2.3, exit 9: no work is charged to an account at its limit, and none is started.
#[tokio::test(start_paused = true)]
async fn limit_of_one_session_parks_the_account_and_is_no_death() {
    let city = city().await;
    let (first, second) = (city.worker("one").await, city.worker("two").await);
    let (one, two) = (first.session.clone(), second.session.clone());
    show(&city, &one, &limit(&city, MINUTE * 20));
    city.pass(PATROL).await;
    assert!(until(&city, &child(&first)).await.is_some());
    assert_eq!(city.events(EventType::AccountParked).await.len(), 1);
    let relic = city.relic("three").await;
    let refused = city.charge(&relic).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Parked, "{refused}");
    assert!(refused.message.contains("at your limit"), "{refused}");
    // The other one ends of the same limit: it rests, and starts when the limit is over.
    city.parts.sessions.print(&two, "at your limit");
    city.parts.sessions.exit(&two, 1);
    city.pass(PATROL).await;
    assert_eq!(city.state(&child(&second)).await, Some(ChildState::Stopped));
    assert_eq!(city.view(&child(&second)).await.unwrap().restarts, 0);
    assert!(city.events(EventType::AgentCrashed).await.is_empty());
    assert_eq!(city.starts(&two), 1);
    assert!(city.runs(&one), "a short limit is waited for");
    city.pass(MINUTE * 21).await;
    assert_eq!(city.starts(&two), 2);
    assert_eq!(
        limit_notices(&city, &one),
        1,
        "the interrupted prompt is restored"
    );
    assert_eq!(city.events(EventType::AccountResumed).await.len(), 1);
    assert!(city.charge(&relic).await.is_ok());
}

/// A session that would idle for long is ended, and its conversation goes on when the limit is over.
#[tokio::test(start_paused = true)]
async fn long_limit_ends_the_session_and_resumes_its_conversation() {
    let city = city().await;
    let charged = city.worker("one").await;
    let session = charged.session.clone();
    converse(&city, &child(&charged)).await;
    show(&city, &session, &limit(&city, MINUTE * 300));
    city.pass(PATROL * 3).await;
    assert!(!city.runs(&session));
    let view = city.view(&child(&charged)).await.unwrap();
    assert_eq!(view.absence().as_deref(), Some("its account is at a limit"));
    city.pass_hours(MINUTE * 290).await;
    assert_eq!(city.starts(&session), 1);
    city.pass(MINUTE * 12).await;
    assert_eq!(city.starts(&session), 2);
    let started = city.parts.sessions.starts();
    let argv = &started.last().unwrap().argv;
    assert!(argv.contains(&"c-1".to_owned()), "{argv:?}");
    let prompt = argv
        .iter()
        .find(|word| word.contains("autonomous coding agent"));
    let prompt = prompt.unwrap_or_else(|| panic!("no prompt in {argv:?}"));
    assert!(
        prompt.contains("limit"),
        "the interrupted prompt is restored: {prompt}"
    );
    assert!(city.events(EventType::AgentCrashed).await.is_empty());
}

/// A session with a person attached is kept.
#[tokio::test(start_paused = true)]
async fn attached_session_is_not_ended_by_a_long_limit() {
    let city = city().await;
    let charged = city.worker("one").await;
    let session = charged.session.clone();
    converse(&city, &child(&charged)).await;
    city.parts.sessions.set_attached(&session, true);
    show(&city, &session, &limit(&city, MINUTE * 300));
    city.pass(PATROL * 3).await;
    assert!(city.runs(&session));
    assert_eq!(limit_notices(&city, &session), 0);
}

/// Sessions go on in the order of their work's priority, not all at once.
#[tokio::test(start_paused = true)]
async fn sessions_go_on_one_after_another() {
    let city = city().await;
    let mut sessions = Vec::new();
    for title in ["one", "two", "three"] {
        sessions.push(city.worker(title).await.session);
    }
    let text = limit(&city, MINUTE * 10);
    for session in &sessions {
        show(&city, session, &text);
    }
    city.pass(PATROL).await;
    city.pass(MINUTE * 9).await;
    let all = || {
        sessions
            .iter()
            .map(|one| limit_notices(&city, one))
            .sum::<usize>()
    };
    assert_eq!(all(), 0);
    let mut seen = Vec::new();
    for _ in 0..60 {
        city.pass(Duration::from_secs(2)).await;
        seen.push(all());
    }
    assert!(seen.contains(&1) && seen.contains(&2), "{seen:?}");
    assert_eq!(all(), 3, "{seen:?}");
}

/// The most urgent work goes on first, whatever began first.
#[tokio::test(start_paused = true)]
async fn sessions_go_on_in_the_order_of_the_priority_of_their_work() {
    let city = city().await;
    let mut sessions = Vec::new();
    for (title, priority) in [("one", 0), ("two", 5), ("three", -1), ("four", 9)] {
        let charged = city.worker(title).await;
        let id = charged.relic.clone();
        city.store(move |txn| {
            let mut relic = txn.relic(&id)?;
            relic.priority = priority;
            txn.put_relic(&relic)
        })
        .await;
        sessions.push((priority, charged.session));
    }
    let text = limit(&city, MINUTE * 10);
    for (_, session) in &sessions {
        show(&city, session, &text);
    }
    city.pass(PATROL).await;
    city.pass(MINUTE * 9).await;
    let mut order = Vec::new();
    for _ in 0..240 {
        city.pass(Duration::from_millis(500)).await;
        for (priority, session) in &sessions {
            if limit_notices(&city, session) > 0 && !order.contains(priority) {
                order.push(*priority);
            }
        }
    }
    assert_eq!(order, [9, 5, 0, -1]);
}

/// A login is missing for all sessions: a person is called once, and no session is started.
#[tokio::test(start_paused = true)]
async fn login_calls_one_person_once_and_parks_until_a_session_goes_on() {
    let city = city().await;
    let (first, second) = (city.worker("one").await, city.worker("two").await);
    show(&city, &first.session, "please log in");
    show(&city, &second.session, "please log in");
    city.pass(PATROL * 2).await;
    let open = city.escalations().await;
    assert_eq!(open.len(), 1, "{open:?}");
    assert!(open[0].title.contains("login"), "{open:?}");
    let relic = city.relic("three").await;
    let refused = city.charge(&relic).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Parked);
    city.pass_hours(MINUTE * by_tier(120, 600)).await;
    assert_eq!(city.starts(&first.session), 1);
    city.reword().await;
    // A person logs in there: the other session, which has the old login in its memory, is restarted.
    show(&city, &first.session, "thinking");
    let (sessions, other) = (city.parts.sessions.clone(), second.session.clone());
    let fresh = move || sessions.show(&other, Some("> "));
    city.parts.sessions.interlude("stop", fresh);
    city.pass(PATROL * 4).await;
    let starts = |charged: &Charged| city.starts(&charged.session);
    assert_eq!((starts(&first), starts(&second)), (1, 2));
    let called = city.escalations().await;
    let closed = called.iter().all(|call| call.status == RelicStatus::Closed);
    assert!(closed && called.len() == 1, "the call is over: {called:?}");
    assert!(city.charge(&relic).await.is_ok());
}

/// The first prompt of a session comes after its first screen. It proves nothing: the program refuses it as well.
#[tokio::test(start_paused = true)]
async fn prompt_of_a_session_does_not_end_the_park_that_it_told_of() {
    let city = city().await;
    let charged = city.worker("one").await;
    let session = charged.session.clone();
    let handle = city
        .view(&child(&charged))
        .await
        .unwrap()
        .session
        .unwrap()
        .handle;
    show(&city, &session, "please log in\n> ");
    city.pass(PATROL).await;
    let relic = city.relic("two").await;
    for _ in 0..3 {
        assert!(conditions::report(&city.world, &handle, &Report::Begins));
        show(&city, &session, "please log in\nthinking");
        city.pass(PATROL).await;
        show(&city, &session, "please log in\n> ");
        assert!(conditions::report(&city.world, &handle, &Report::Waits));
        city.pass(PATROL).await;
        let refused = city.charge(&relic).await.unwrap_err();
        assert_eq!(refused.kind, RefusalKind::Parked, "{refused}");
    }
    assert_eq!(city.events(EventType::AccountParked).await.len(), 1);
    assert!(city.events(EventType::AccountResumed).await.is_empty());
    assert_eq!(city.starts(&session), 1);
    let called = city.escalations().await;
    assert!(
        called.len() == 1 && called[0].status != RelicStatus::Closed,
        "{called:?}"
    );
    // An answer of its model is proof.
    assert!(conditions::report(&city.world, &handle, &Report::Answers));
    city.pass(PATROL).await;
    assert_eq!(city.events(EventType::AccountResumed).await.len(), 1);
    assert!(city.charge(&relic).await.is_ok());
}

/// A raider takes over another harness of its rig with its next session, and an account that no session uses any more
/// is parked no longer.
#[tokio::test(start_paused = true)]
async fn raider_takes_another_harness_over_and_the_old_account_is_forgotten() {
    let second = |city: &mut City| {
        let mut other = city.harnesses.values().next().unwrap().clone();
        other.name = HarnessName::new("other").unwrap();
        other.account = "other".into();
        other.command = vec!["other".into()];
        city.harnesses.insert(other.name.clone(), other);
    };
    let city = Scenario::new().with(looks).with(second).start().await;
    let (kept, gone) = (city.worker("one").await, city.worker("two").await);
    converse(&city, &child(&gone)).await;
    show(&city, &kept.session, "please log in\n> ");
    city.pass(PATROL).await;
    // It ends of the same login, and rests.
    city.parts.sessions.print(&gone.session, "please log in");
    city.parts.sessions.exit(&gone.session, 1);
    city.pass(PATROL).await;
    assert_eq!(
        (city.starts(&gone.session), city.escalations().await.len()),
        (1, 1)
    );
    city.reconfigure(|city| city.rigs[0].raiders.harness = HarnessName::new("other").unwrap())
        .await;
    city.pass(PATROL).await;
    assert_eq!(city.starts(&gone.session), 2);
    let last = || city.parts.sessions.starts().last().unwrap().argv.clone();
    assert_eq!(last()[0], "other");
    assert!(
        !last().contains(&"c-1".to_owned()),
        "no conversation of another program"
    );
    let parked = || !city.world.directory.accounts.all_parked().is_empty();
    assert!(parked(), "a session of it runs");
    ask::cycle(&city.world, child(&kept), Cause::Operator)
        .await
        .unwrap();
    city.pass(PATROL).await;
    assert_eq!(
        (city.starts(&kept.session), last()[0].as_str()),
        (2, "other")
    );
    assert!(!parked());
    let called = city.escalations().await;
    assert!(
        called.iter().all(|call| call.status == RelicStatus::Closed),
        "{called:?}"
    );
}

/// A park outlives the supervisor: its crash starts nothing early.
#[tokio::test(start_paused = true)]
async fn park_outlives_the_supervisor() {
    let city = city().await;
    let charged = city.worker("one").await;
    let session = charged.session.clone();
    converse(&city, &child(&charged)).await;
    show(&city, &session, &limit(&city, MINUTE * 300));
    city.pass(PATROL * 3).await;
    assert!(!city.runs(&session));
    let clock = std::sync::Arc::clone(&city.world.clock);
    let parts = city.crash().await;
    let city = Scenario::new().with(looks).start_on(parts, clock).await;
    city.pass(PATROL * 4).await;
    assert!(!city.runs(&session));
    let accounts = &city.world.directory.accounts;
    assert!(accounts.parked(&city.world.city, &harness(&city)).is_some());
    city.pass_hours(MINUTE * 300).await;
    assert!(city.runs(&session));
}

/// A person lifts the park: `hd harness resume`.
#[tokio::test(start_paused = true)]
async fn person_ends_the_park_and_its_event_names_that_person() {
    let city = city().await;
    let session = city.worker("one").await.session;
    show(&city, &session, &limit(&city, MINUTE * 20));
    city.pass(PATROL).await;
    let of = harness(&city);
    assert!(accounts::unpark(&city.world, &of, Asker::person()));
    city.pass(PATROL).await;
    let told = city.events(EventType::AccountResumed).await.remove(0);
    let person = serde_json::json!(Asker::person().data());
    assert_eq!(told.data["asker"], person, "{told:?}");
    assert_eq!(limit_notices(&city, &session), 1);
    assert!(!accounts::unpark(&city.world, &of, Asker::person()), "over");
    city.world.directory.tell_root(RootMail::Accounts);
    city.pass(MINUTE * 30).await;
    assert_eq!(limit_notices(&city, &session), 1);
}

/// Nudges go to no session of a parked account: they would only meet the limit.
#[tokio::test(start_paused = true)]
async fn no_session_of_a_parked_account_is_nudged() {
    let scenario = Scenario::new().with(looks);
    let city = scenario
        .rig(|rig| rig.raiders.stall_after = Some(MINUTE * 5))
        .start()
        .await;
    let (first, second) = (city.worker("one").await, city.worker("two").await);
    show(&city, &first.session, &limit(&city, MINUTE * 120));
    show(&city, &second.session, "> ");
    city.pass_hours(MINUTE * 100).await;
    assert!(city.parts.sessions.sent(&second.session).is_empty());
    assert!(city.events(EventType::RaiderNudged).await.is_empty());
    city.pass_hours(MINUTE * 60).await;
    assert!(!city.events(EventType::RaiderNudged).await.is_empty());
}

/// No other code tells a session to go on: a session that cannot be told at its turn is told later.
#[tokio::test(start_paused = true)]
async fn session_that_a_person_is_attached_to_is_told_afterwards() {
    let city = city().await;
    let charged = city.worker("one").await;
    let session = charged.session.clone();
    show(&city, &session, &limit(&city, MINUTE * 20));
    city.pass(PATROL).await;
    city.parts.sessions.set_attached(&session, true);
    city.pass(MINUTE * 22).await;
    assert_eq!(limit_notices(&city, &session), 0);
    city.parts.sessions.set_attached(&session, false);
    city.pass(PATROL).await;
    assert_eq!(limit_notices(&city, &session), 1);
}

/// A program that names a limit at each of its ends may have done its work. That is no death, and a person is called.
#[tokio::test(start_paused = true)]
async fn program_that_names_a_limit_at_each_end_calls_a_person_once() {
    let city = city().await;
    let charged = city.worker("one").await;
    let session = charged.session.clone();
    let ends = async |lives: Duration| {
        city.pass_hours(lives).await;
        let text = limit(&city, MINUTE * 10);
        city.parts.sessions.print(&session, text.trim_end());
        show(&city, &session, "> ");
        city.parts.sessions.exit(&session, 0);
        city.pass(MINUTE * 12).await;
        assert!(city.runs(&session), "it goes on when its account is open");
    };
    let called = async || city.events(EventType::EscalationRaised).await.len();
    // With work in between, whatever its limit is.
    for _ in 0..by_tier(2, 5) {
        ends(MINUTE * 50).await;
    }
    assert_eq!(called().await, 0);
    // It may have run for some minutes since its last start.
    ends(MINUTE * 15).await;
    let mut times = 0;
    while called().await == 0 {
        times += 1;
        assert!(times < 6, "no person is called");
        ends(MINUTE).await;
    }
    assert_eq!(times, 3);
    ends(MINUTE).await;
    assert_eq!(called().await, 1);
    assert!(city.events(EventType::AgentCrashed).await.is_empty());
}

/// A program that ends with the text of a limit that is over is restarted with the pauses of a death.
#[tokio::test(start_paused = true)]
async fn end_with_the_text_of_an_old_limit_is_a_death() {
    let city = city().await;
    let charged = city.worker("one").await;
    let session = charged.session.clone();
    let until = city.world.clock.now() + MINUTE * 20;
    show(&city, &session, &limit(&city, MINUTE * 20));
    city.pass(MINUTE * 25).await;
    let tomorrow = until + Duration::from_secs(24 * 3600);
    city.parts
        .sessions
        .print(&session, &format!("at your limit until {tomorrow}"));
    show(&city, &session, "> ");
    city.parts.sessions.exit(&session, 1);
    city.pass(PATROL).await;
    assert_eq!(city.events(EventType::AgentCrashed).await.len(), 1);
    assert_eq!(city.events(EventType::AccountParked).await.len(), 1);
}
