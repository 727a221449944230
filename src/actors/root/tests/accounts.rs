//! Accounts at a limit or without a login: the effects on their sessions (`actors/accounts.rs`).

use crate::actors::mail::RootMail;
use std::time::Duration;

use jiff::Timestamp;

use crate::actors::conversation;
use crate::actors::mail::Charged;
use crate::actors::mail::ChildState;
use crate::actors::refusal::RefusalKind;
use crate::actors::{accounts, ask, conditions};
use crate::domain::cause::Cause;
use crate::domain::city::City;
use crate::domain::condition::Report;
use crate::domain::event::EventType;
use crate::domain::ids::{ChildId, HarnessName, SessionId};
use crate::domain::question::Pattern;
use crate::domain::relic::RelicStatus;
use crate::ports::sessions::{Input, Sessions};
use crate::testing::tier::by_tier;
use crate::testing::world::{Scenario, Town};

pub(super) const PATROL: Duration = Duration::from_secs(31);
pub(super) const MINUTE: Duration = Duration::from_secs(60);

/// Configures the limit and login patterns of every harness.
pub(super) fn looks(city: &mut City) {
    let pattern = |text: &str| Pattern::new(text).into_iter().collect();
    for harness in city.harnesses.values_mut() {
        harness.looks.limit = pattern(r"at your limit(?: until (?P<until>\S+))?");
        harness.looks.auth = pattern("please log in");
        harness.looks.working = pattern("thinking");
        harness.looks.input = pattern("^> ");
        harness.resume = vec!["--resume".into(), "{session_id}".into()];
    }
}

pub(super) async fn town() -> Town {
    Scenario::new().with(looks).start().await
}

pub(super) fn child(charged: &Charged) -> ChildId {
    ChildId::Raider(charged.raider.clone())
}

pub(super) fn harness(town: &Town) -> HarnessName {
    town.world.city.harnesses.keys().next().unwrap().clone()
}

/// Returns the text of a limit that ends after this time.
pub(super) fn limit(town: &Town, after: Duration) -> String {
    format!("at your limit until {}\n> ", town.world.clock.now() + after)
}

pub(super) fn show(town: &Town, session: &SessionId, screen: &str) {
    town.parts.sessions.show(session, Some(screen));
    let now = town.world.clock.now();
    town.parts.sessions.set_last_activity(session, Some(now));
}

/// Makes the conversation of a child's session known, so that the next session can resume it.
pub(super) async fn converse(town: &Town, child: &ChildId) {
    let handle = town.view(child).await.unwrap().session.unwrap().handle;
    let sessions = &town.parts.sessions;
    sessions
        .set_meta(&handle, conversation::CONVERSATION, "c-1")
        .unwrap();
}

pub(super) fn limit_notices(town: &Town, session: &SessionId) -> usize {
    let sent = town.parts.sessions.sent(session);
    let of_limit = |input: &&Input| match input {
        Input::Submit(text) | Input::Paste(text) => text.contains("limit of your account is over"),
        _ => false,
    };
    sent.iter().filter(of_limit).count()
}

async fn until(town: &Town, raider: &ChildId) -> Option<Timestamp> {
    let session = town.view(raider).await?.session?;
    let shown = town.world.directory.conditions.of(&session.handle)?;
    shown.until()
}

/// Contract 2.3, exit 9: no work is charged to an account at its limit, and none is started.
#[tokio::test(start_paused = true)]
async fn limit_of_one_session_parks_the_account_and_is_no_death() {
    let town = town().await;
    let (first, second) = (town.worker("one").await, town.worker("two").await);
    let (one, two) = (first.session.clone(), second.session.clone());
    show(&town, &one, &limit(&town, MINUTE * 20));
    town.pass(PATROL).await;
    assert!(until(&town, &child(&first)).await.is_some());
    assert_eq!(town.events(EventType::AccountParked).await.len(), 1);
    let relic = town.relic("three").await;
    let refused = town.charge(&relic).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Parked, "{refused}");
    assert!(refused.message.contains("at your limit"), "{refused}");
    // The other one ends of the same limit: it rests, and starts when the limit is over.
    town.parts.sessions.print(&two, "at your limit");
    town.parts.sessions.exit(&two, 1);
    town.pass(PATROL).await;
    assert_eq!(town.state(&child(&second)).await, Some(ChildState::Stopped));
    assert_eq!(town.view(&child(&second)).await.unwrap().restarts, 0);
    assert!(town.events(EventType::AgentCrashed).await.is_empty());
    assert_eq!(town.starts(&two), 1);
    assert!(town.runs(&one), "a short limit is waited for");
    town.pass(MINUTE * 21).await;
    assert_eq!(town.starts(&two), 2);
    assert_eq!(
        limit_notices(&town, &one),
        1,
        "the interrupted prompt is restored"
    );
    assert_eq!(town.events(EventType::AccountResumed).await.len(), 1);
    assert!(town.charge(&relic).await.is_ok());
}

/// A session that would idle for long is ended, and its conversation goes on when the limit is over.
#[tokio::test(start_paused = true)]
async fn long_limit_ends_the_session_and_resumes_its_conversation() {
    let town = town().await;
    let charged = town.worker("one").await;
    let session = charged.session.clone();
    converse(&town, &child(&charged)).await;
    show(&town, &session, &limit(&town, MINUTE * 300));
    town.pass(PATROL * 3).await;
    assert!(!town.runs(&session));
    let view = town.view(&child(&charged)).await.unwrap();
    assert_eq!(view.absence().as_deref(), Some("its account is at a limit"));
    town.pass_hours(MINUTE * 290).await;
    assert_eq!(town.starts(&session), 1);
    town.pass(MINUTE * 12).await;
    assert_eq!(town.starts(&session), 2);
    let started = town.parts.sessions.starts();
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
    assert!(town.events(EventType::AgentCrashed).await.is_empty());
}

/// A session with a person attached is kept.
#[tokio::test(start_paused = true)]
async fn attached_session_is_not_ended_by_a_long_limit() {
    let town = town().await;
    let charged = town.worker("one").await;
    let session = charged.session.clone();
    converse(&town, &child(&charged)).await;
    town.parts.sessions.set_attached(&session, true);
    show(&town, &session, &limit(&town, MINUTE * 300));
    town.pass(PATROL * 3).await;
    assert!(town.runs(&session));
    assert_eq!(limit_notices(&town, &session), 0);
}

/// Sessions go on in the order of their work's priority, not all at once.
#[tokio::test(start_paused = true)]
async fn sessions_go_on_one_after_another() {
    let town = town().await;
    let mut sessions = Vec::new();
    for title in ["one", "two", "three"] {
        sessions.push(town.worker(title).await.session);
    }
    let text = limit(&town, MINUTE * 10);
    for session in &sessions {
        show(&town, session, &text);
    }
    town.pass(PATROL).await;
    town.pass(MINUTE * 9).await;
    let all = || {
        sessions
            .iter()
            .map(|one| limit_notices(&town, one))
            .sum::<usize>()
    };
    assert_eq!(all(), 0);
    let mut seen = Vec::new();
    for _ in 0..60 {
        town.pass(Duration::from_secs(2)).await;
        seen.push(all());
    }
    assert!(seen.contains(&1) && seen.contains(&2), "{seen:?}");
    assert_eq!(all(), 3, "{seen:?}");
}

/// The most urgent work goes on first, whatever began first.
#[tokio::test(start_paused = true)]
async fn sessions_go_on_in_the_order_of_the_priority_of_their_work() {
    let town = town().await;
    let mut sessions = Vec::new();
    for (title, priority) in [("one", 0), ("two", 5), ("three", -1), ("four", 9)] {
        let charged = town.worker(title).await;
        let id = charged.relic.clone();
        town.store(move |txn| {
            let mut relic = txn.relic(&id)?;
            relic.priority = priority;
            txn.put_relic(&relic)
        })
        .await;
        sessions.push((priority, charged.session));
    }
    let text = limit(&town, MINUTE * 10);
    for (_, session) in &sessions {
        show(&town, session, &text);
    }
    town.pass(PATROL).await;
    town.pass(MINUTE * 9).await;
    let mut order = Vec::new();
    for _ in 0..240 {
        town.pass(Duration::from_millis(500)).await;
        for (priority, session) in &sessions {
            if limit_notices(&town, session) > 0 && !order.contains(priority) {
                order.push(*priority);
            }
        }
    }
    assert_eq!(order, [9, 5, 0, -1]);
}

/// A login is missing for all sessions: a person is called once, and no session is started.
#[tokio::test(start_paused = true)]
async fn login_calls_one_person_once_and_parks_until_a_session_goes_on() {
    let town = town().await;
    let (first, second) = (town.worker("one").await, town.worker("two").await);
    show(&town, &first.session, "please log in");
    show(&town, &second.session, "please log in");
    town.pass(PATROL * 2).await;
    let open = town.escalations().await;
    assert_eq!(open.len(), 1, "{open:?}");
    assert!(open[0].title.contains("login"), "{open:?}");
    let relic = town.relic("three").await;
    let refused = town.charge(&relic).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Parked);
    town.pass_hours(MINUTE * by_tier(120, 600)).await;
    assert_eq!(town.starts(&first.session), 1);
    town.reword().await;
    // A person logs in there: the other session, which has the old login in its memory, is restarted.
    show(&town, &first.session, "thinking");
    let (sessions, other) = (town.parts.sessions.clone(), second.session.clone());
    let fresh = move || sessions.show(&other, Some("> "));
    town.parts.sessions.interlude("stop", fresh);
    town.pass(PATROL * 4).await;
    let starts = |charged: &Charged| town.starts(&charged.session);
    assert_eq!((starts(&first), starts(&second)), (1, 2));
    let called = town.escalations().await;
    let closed = called.iter().all(|call| call.status == RelicStatus::Closed);
    assert!(closed && called.len() == 1, "the call is over: {called:?}");
    assert!(town.charge(&relic).await.is_ok());
}

/// The first prompt of a session comes after its first screen. It proves nothing: the program refuses it as well.
#[tokio::test(start_paused = true)]
async fn prompt_of_a_session_does_not_end_the_park_that_it_told_of() {
    let town = town().await;
    let charged = town.worker("one").await;
    let session = charged.session.clone();
    let handle = town
        .view(&child(&charged))
        .await
        .unwrap()
        .session
        .unwrap()
        .handle;
    show(&town, &session, "please log in\n> ");
    town.pass(PATROL).await;
    let relic = town.relic("two").await;
    for _ in 0..3 {
        assert!(conditions::report(&town.world, &handle, &Report::Begins));
        show(&town, &session, "please log in\nthinking");
        town.pass(PATROL).await;
        show(&town, &session, "please log in\n> ");
        assert!(conditions::report(&town.world, &handle, &Report::Waits));
        town.pass(PATROL).await;
        let refused = town.charge(&relic).await.unwrap_err();
        assert_eq!(refused.kind, RefusalKind::Parked, "{refused}");
    }
    assert_eq!(town.events(EventType::AccountParked).await.len(), 1);
    assert!(town.events(EventType::AccountResumed).await.is_empty());
    assert_eq!(town.starts(&session), 1);
    let called = town.escalations().await;
    assert!(
        called.len() == 1 && called[0].status != RelicStatus::Closed,
        "{called:?}"
    );
    // An answer of its model is proof.
    assert!(conditions::report(&town.world, &handle, &Report::Answers));
    town.pass(PATROL).await;
    assert_eq!(town.events(EventType::AccountResumed).await.len(), 1);
    assert!(town.charge(&relic).await.is_ok());
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
    let town = Scenario::new().with(looks).with(second).start().await;
    let (kept, gone) = (town.worker("one").await, town.worker("two").await);
    converse(&town, &child(&gone)).await;
    show(&town, &kept.session, "please log in\n> ");
    town.pass(PATROL).await;
    // It ends of the same login, and rests.
    town.parts.sessions.print(&gone.session, "please log in");
    town.parts.sessions.exit(&gone.session, 1);
    town.pass(PATROL).await;
    assert_eq!(
        (town.starts(&gone.session), town.escalations().await.len()),
        (1, 1)
    );
    town.reconfigure(|city| city.rigs[0].raiders.harness = HarnessName::new("other").unwrap())
        .await;
    town.pass(PATROL).await;
    assert_eq!(town.starts(&gone.session), 2);
    let last = || town.parts.sessions.starts().last().unwrap().argv.clone();
    assert_eq!(last()[0], "other");
    assert!(
        !last().contains(&"c-1".to_owned()),
        "no conversation of another program"
    );
    let parked = || !town.world.directory.accounts.all_parked().is_empty();
    assert!(parked(), "a session of it runs");
    ask::cycle(&town.world, child(&kept), Cause::Operator)
        .await
        .unwrap();
    town.pass(PATROL).await;
    assert_eq!(
        (town.starts(&kept.session), last()[0].as_str()),
        (2, "other")
    );
    assert!(!parked());
    let called = town.escalations().await;
    assert!(
        called.iter().all(|call| call.status == RelicStatus::Closed),
        "{called:?}"
    );
}

/// A park outlives the supervisor: its crash starts nothing early.
#[tokio::test(start_paused = true)]
async fn park_outlives_the_supervisor() {
    let town = town().await;
    let charged = town.worker("one").await;
    let session = charged.session.clone();
    converse(&town, &child(&charged)).await;
    show(&town, &session, &limit(&town, MINUTE * 300));
    town.pass(PATROL * 3).await;
    assert!(!town.runs(&session));
    let clock = std::sync::Arc::clone(&town.world.clock);
    let parts = town.crash().await;
    let town = Scenario::new().with(looks).start_on(parts, clock).await;
    town.pass(PATROL * 4).await;
    assert!(!town.runs(&session));
    let accounts = &town.world.directory.accounts;
    assert!(accounts.parked(&town.world.city, &harness(&town)).is_some());
    town.pass_hours(MINUTE * 300).await;
    assert!(town.runs(&session));
}

/// A person lifts the park: `hd harness resume`.
#[tokio::test(start_paused = true)]
async fn person_ends_the_park() {
    let town = town().await;
    let session = town.worker("one").await.session;
    show(&town, &session, &limit(&town, MINUTE * 20));
    town.pass(PATROL).await;
    let of = harness(&town);
    assert!(accounts::unpark(&town.world, &of));
    town.pass(PATROL).await;
    assert_eq!(limit_notices(&town, &session), 1);
    assert!(!accounts::unpark(&town.world, &of), "over");
    town.world.directory.tell_root(RootMail::Accounts);
    town.pass(MINUTE * 30).await;
    assert_eq!(limit_notices(&town, &session), 1);
}

/// Nudges go to no session of a parked account: they would only meet the limit.
#[tokio::test(start_paused = true)]
async fn no_session_of_a_parked_account_is_nudged() {
    let scenario = Scenario::new().with(looks);
    let town = scenario
        .rig(|rig| rig.raiders.stall_after = Some(MINUTE * 5))
        .start()
        .await;
    let (first, second) = (town.worker("one").await, town.worker("two").await);
    show(&town, &first.session, &limit(&town, MINUTE * 120));
    show(&town, &second.session, "> ");
    town.pass_hours(MINUTE * 100).await;
    assert!(town.parts.sessions.sent(&second.session).is_empty());
    assert!(town.events(EventType::RaiderNudged).await.is_empty());
    town.pass_hours(MINUTE * 60).await;
    assert!(!town.events(EventType::RaiderNudged).await.is_empty());
}

/// No other code tells a session to go on: a session that cannot be told at its turn is told later.
#[tokio::test(start_paused = true)]
async fn session_that_a_person_is_attached_to_is_told_afterwards() {
    let town = town().await;
    let charged = town.worker("one").await;
    let session = charged.session.clone();
    show(&town, &session, &limit(&town, MINUTE * 20));
    town.pass(PATROL).await;
    town.parts.sessions.set_attached(&session, true);
    town.pass(MINUTE * 22).await;
    assert_eq!(limit_notices(&town, &session), 0);
    town.parts.sessions.set_attached(&session, false);
    town.pass(PATROL).await;
    assert_eq!(limit_notices(&town, &session), 1);
}

/// A program that names a limit at each of its ends may have done its work. That is no death, and a person is called.
#[tokio::test(start_paused = true)]
async fn program_that_names_a_limit_at_each_end_calls_a_person_once() {
    let town = town().await;
    let charged = town.worker("one").await;
    let session = charged.session.clone();
    let ends = async |lives: Duration| {
        town.pass_hours(lives).await;
        let text = limit(&town, MINUTE * 10);
        town.parts.sessions.print(&session, text.trim_end());
        show(&town, &session, "> ");
        town.parts.sessions.exit(&session, 0);
        town.pass(MINUTE * 12).await;
        assert!(town.runs(&session), "it goes on when its account is open");
    };
    let called = async || town.events(EventType::EscalationRaised).await.len();
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
    assert!(town.events(EventType::AgentCrashed).await.is_empty());
}

/// A program that ends with the text of a limit that is over is restarted with the pauses of a death.
#[tokio::test(start_paused = true)]
async fn end_with_the_text_of_an_old_limit_is_a_death() {
    let town = town().await;
    let charged = town.worker("one").await;
    let session = charged.session.clone();
    let until = town.world.clock.now() + MINUTE * 20;
    show(&town, &session, &limit(&town, MINUTE * 20));
    town.pass(MINUTE * 25).await;
    let tomorrow = until + Duration::from_secs(24 * 3600);
    town.parts
        .sessions
        .print(&session, &format!("at your limit until {tomorrow}"));
    show(&town, &session, "> ");
    town.parts.sessions.exit(&session, 1);
    town.pass(PATROL).await;
    assert_eq!(town.events(EventType::AgentCrashed).await.len(), 1);
    assert_eq!(town.events(EventType::AccountParked).await.len(), 1);
}
