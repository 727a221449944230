//! Tests of the state and reason shown for children that make no progress.

use std::time::Duration;

use serde_json::{Value, json};

use super::ask;
use crate::actors::conditions;
use crate::actors::records::escalations::{self, Ends};
use crate::control::handlers::status;
use crate::control::snapshot::Published;
use crate::domain::condition::Report;
use crate::domain::ids::ChildId;
use crate::domain::message::Escalation;
use crate::domain::problem::{Problem, ProblemKind};
use crate::domain::question::Pattern;
use crate::ports::sessions::StartError;
use crate::testing::world::{Scenario, TestCity};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

async fn toast(city: &TestCity) -> Value {
    let toast = json!({ "name": "Toast" });
    ask(city, "raider.show", toast).await.unwrap()
}

/// The steps taken against a stalled session are remembered, but its replacement is not stalled for them.
#[tokio::test(start_paused = true)]
async fn a_fresh_session_is_not_stalled_before_its_time() {
    let scenario = Scenario::new().rig(|rig| rig.raiders.stall_after = Some(10 * MINUTE));
    let city = scenario.start().await;
    let charged = city.worker("a").await;
    city.pass(12 * MINUTE).await;
    assert_eq!(toast(&city).await["state"], "stalled");
    while city.starts(&charged.session) < 2 {
        city.pass(MINUTE).await;
    }
    assert_eq!(toast(&city).await["state"], "working");
    city.pass(12 * MINUTE).await;
    assert_eq!(toast(&city).await["state"], "stalled");
}

#[tokio::test(start_paused = true)]
async fn a_raider_in_its_back_off_says_when_it_is_tried_again() {
    let (city, charged) = Scenario::at_work().await;
    assert_eq!(toast(&city).await["retry_at"], Value::Null);
    for _ in 0..2 {
        city.parts.sessions.exit(&charged.session, 3);
        city.settle().await;
    }
    let shown = toast(&city).await;
    let now = city.world.clock.now().to_string();
    let at = shown["retry_at"].as_str();
    assert!(at.is_some_and(|at| at > now.as_str()), "{shown}");
    city.pass(MINUTE).await;
    assert_eq!(toast(&city).await["retry_at"], Value::Null);
}

/// Several sessions continue one after another: none shows a limit that is over.
#[tokio::test(start_paused = true)]
async fn a_limit_that_is_over_is_shown_as_a_turn_that_is_waited_for_and_then_not_at_all() {
    let looks = |city: &mut crate::domain::city::City| {
        let pattern = r"at your limit(?: until (?P<until>\S+))?";
        for harness in city.harnesses.values_mut() {
            harness.patterns.limit = Pattern::new(pattern).into_iter().collect();
            harness.patterns.input = Pattern::new("^> ").into_iter().collect();
        }
    };
    let city = Scenario::new().with(looks).start().await;
    let first = city.worker("one").await;
    // The older work has the first turn.
    city.pass(SECOND).await;
    let second = city.worker("two").await;
    let ends = city.world.clock.now() + 10 * MINUTE;
    for session in [&first.session, &second.session] {
        let screen = format!("at your limit until {ends}\n> ");
        city.parts.sessions.show(session, Some(&screen));
        let now = city.world.clock.now();
        city.parts.sessions.set_last_activity(session, Some(now));
    }
    city.pass(MINUTE).await;
    let shown = async |name: &str| {
        let args = json!({ "name": name });
        ask(&city, "raider.show", args).await.unwrap()
    };
    assert_eq!(shown("Toast").await["condition"], "rate_limited");
    let left = ends.duration_since(city.world.clock.now()).unsigned_abs();
    city.pass(left + SECOND).await;
    assert_eq!(
        shown("Toast").await["condition"],
        Value::Null,
        "within a second"
    );
    let waits = shown("Shadow").await;
    assert_eq!(waits["condition"], "rate_limited");
    let turn = (ends + 5 * SECOND).to_string();
    let (until, detail) = (waits["until"].as_str(), waits["detail"].as_str());
    assert!(until.unwrap() >= turn.as_str(), "{waits}");
    assert!(detail.unwrap().contains("in its turn"), "{waits}");
    city.pass(5 * SECOND).await;
    assert_eq!(shown("Shadow").await["condition"], Value::Null);
}

/// An answer to a client never runs git: the last figures are shown with their age.
#[tokio::test(start_paused = true)]
async fn status_shows_the_last_git_counts_without_waiting() {
    let (city, charged) = Scenario::at_work().await;
    let counts = || city.parts.repo.count("glance");
    // The first question makes git run, if no patrol did.
    toast(&city).await;
    city.settle().await;
    let shown = toast(&city).await["git"].clone();
    assert_eq!(
        (&shown["ahead"], &shown["untracked"]),
        (&json!(1), &json!(0)),
        "{shown}"
    );
    assert_eq!(shown["age_s"], 0);
    city.pass(MINUTE).await;
    // git hangs: the answer comes all the same, and there is one refresh at a time.
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    city.parts.repo.interlude("glance", move || {
        // Returns also when the test ends.
        let _told = wait.lock().unwrap().recv();
    });
    city.parts.repo.dirty(&charged.raider.name, "b");
    let before = counts();
    for _ in 0..3 {
        let shown = toast(&city).await["git"].clone();
        assert_eq!(
            (&shown["dirty"], &shown["age_s"]),
            (&json!(0), &json!(60)),
            "{shown}"
        );
    }
    city.until("git is asked", || counts() == before + 1).await;
    drop(go);
    city.pass(Duration::from_secs(2)).await;
    assert_eq!(toast(&city).await["git"]["dirty"], 1);
}

#[tokio::test(start_paused = true)]
async fn an_idle_city_asks_nothing_of_git() {
    let city = Scenario::new().start().await;
    city.worker("a").await;
    city.pass(MINUTE * 2).await;
    let before = city.parts.repo.count("glance");
    assert!(before >= 1, "a patrol saw that HEAD had moved");
    city.pass(MINUTE * 10).await;
    assert_eq!(city.parts.repo.count("glance"), before);
}

/// `raider-lifecycle.md`: a suspended raider is not expected to work.
#[tokio::test(start_paused = true)]
async fn a_suspended_raider_is_not_stalled() {
    let city = Scenario::new().start().await;
    city.worker("a").await;
    let name = json!({ "name": "Toast" });
    ask(&city, "raider.suspend", name).await.unwrap();
    city.pass(MINUTE).await;
    assert_eq!(toast(&city).await["state"], "suspended");
}

/// A merge request with a retry time is held, not queued.
#[tokio::test(start_paused = true)]
async fn a_parked_merge_request_is_shown_as_held() {
    let (city, charged) = Scenario::at_work().await;
    let broken = crate::ports::repo::RepoError::Failed("no network".into());
    city.parts.repo.break_op("merge", broken);
    city.completed(&charged.raider).await.unwrap();
    city.pass(Duration::from_secs(5)).await;
    let listed = ask(&city, "mq.list", json!({})).await.unwrap();
    assert_eq!(listed[0]["state"], "held", "{listed}");
    let mr = json!({ "mr": listed[0]["id"] });
    assert_eq!(
        ask(&city, "mq.show", mr.clone()).await.unwrap()["state"],
        "held"
    );
    let rejection = json!({ "mr": listed[0]["id"], "note": "no", "yes": true });
    for (op, args) in [("mq.reject", &rejection), ("mq.approve", &mr)] {
        let refused = ask(&city, op, args.clone()).await.unwrap_err();
        assert!(refused.message.ends_with("it is held"), "{refused:?}");
    }
    city.parts.repo.mend("merge");
    let retried = ask(&city, "mq.retry", mr).await.unwrap();
    assert_eq!(retried["state"], "queued");
}

/// It said that the session is restarted at a time, which moved on with each try.
#[tokio::test(start_paused = true)]
async fn raider_of_a_held_rig_is_shown_as_waiting_for_the_rig() {
    let (city, charged) = Scenario::at_work().await;
    city.parts.repo.hold(Some("its repository is missing"));
    city.parts.sessions.crash(&charged.session, 9);
    city.pass(MINUTE).await;
    let shown = toast(&city).await;
    assert_eq!(shown["state"], "stalled", "{shown}");
    let detail = "its rig is held; its session starts when the rig is prepared";
    assert_eq!(shown["detail"], detail);
    assert_eq!(shown["retry_at"], Value::Null);
    assert_eq!(shown["needs_person"], false, "one is called about the rig");
    city.pass(MINUTE).await;
    assert_eq!(toast(&city).await["since"], shown["since"]);
    city.parts.repo.hold(None);
    city.pass(MINUTE).await;
    assert_eq!(toast(&city).await["state"], "working");
}

/// As above: the reason is shown, and no time at which nothing may happen.
#[tokio::test(start_paused = true)]
async fn start_that_is_put_off_is_shown_with_its_reason() {
    let (city, charged) = Scenario::at_work().await;
    for _ in 0..100 {
        let full = StartError::Unwritable("no space left".into());
        city.parts.sessions.refuse_start(&charged.session, full);
    }
    city.parts.sessions.crash(&charged.session, 9);
    city.pass(MINUTE).await;
    let shown = toast(&city).await;
    let detail = shown["detail"].as_str().unwrap();
    assert!(detail.starts_with("its start is put off: "), "{detail}");
    assert!(detail.contains("no space left"), "{detail}");
    assert_eq!(shown["retry_at"], Value::Null);
}

/// Only its hooks report that: no end of its work, no question.
#[tokio::test(start_paused = true)]
async fn raider_whose_turn_ended_is_shown_as_waiting_until_it_goes_on() {
    let (city, charged) = Scenario::at_work().await;
    let id = ChildId::Raider(charged.raider.clone());
    let handle = city.view(&id).await.unwrap().session.unwrap().handle;
    let world = &city.world;
    let harness = world.city.harnesses.keys().next().unwrap();
    world.directory.conditions.enroll(&id, harness, &handle);
    assert!(conditions::report(world, &handle, &Report::Begins));
    assert!(conditions::report(world, &handle, &Report::Answers));
    assert_eq!(toast(&city).await["condition"], Value::Null, "it may go on");
    city.pass(15 * SECOND).await;
    let shown = toast(&city).await;
    assert_eq!(shown["condition"], "waiting", "{shown}");
    assert_eq!(shown["state"], "working");
    let detail = shown["detail"].as_str().unwrap();
    assert!(detail.starts_with("its turn ended at "), "{detail}");
    assert!(detail.ends_with("; it waits for input"), "{detail}");
    assert!(conditions::report(world, &handle, &Report::Begins));
    assert_eq!(toast(&city).await["condition"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn login_is_shown_with_the_choices_of_its_dialog() {
    let looks = |city: &mut crate::domain::city::City| {
        for harness in city.harnesses.values_mut() {
            harness.patterns.auth = Pattern::new("Sign in with ChatGPT").into_iter().collect();
        }
    };
    let city = Scenario::new().with(looks).start().await;
    conditions::connect(&city.world);
    let charged = city.worker("a").await;
    let screen = "How do you want to log in?\n> 1. Sign in with ChatGPT\n  2. Provide a key\n\n  Press enter to continue";
    city.parts.sessions.show(&charged.session, Some(screen));
    city.pass(MINUTE).await;
    let shown = toast(&city).await;
    assert_eq!(shown["condition"], "auth", "{shown}");
    let choices = json!(["Sign in with ChatGPT", "Provide a key"]);
    assert_eq!(shown["choices"], choices);
}

/// Weakness W17 of an earlier system: raiders were looked up under another name than they were stored under, and with
/// one fixed prefix of ids: working raiders were listed as done.
#[tokio::test(start_paused = true)]
async fn raider_is_shown_at_work_and_gives_its_relic_back_whatever_the_prefix() {
    let scenario = Scenario::new().rig(|rig| rig.prefix = "zz".into());
    let city = scenario.start().await;
    let ran = ask(&city, "run", json!({ "task": ["a"], "rig": "horde" })).await;
    let relic = ran.unwrap()["relics"][0]["relic"].clone();
    assert_eq!(relic, "zz-1");
    city.pass(MINUTE).await;
    let raiders = ask(&city, "raider.list", json!({})).await.unwrap();
    let raiders = raiders.as_array().unwrap();
    assert_eq!(raiders.len(), 1, "{raiders:?}");
    assert_eq!(
        (&raiders[0]["state"], &raiders[0]["hook"]),
        (&json!("working"), &relic)
    );
    let shown = async |relic: &Value| ask(&city, "relic.show", json!({ "relic": relic })).await;
    let hooked = shown(&relic).await.unwrap();
    assert_eq!(
        (&hooked["status"], &hooked["raider"]),
        (&json!("hooked"), &json!("horde/raiders/Toast"))
    );
    let nuke = json!({ "name": "Toast", "yes": true });
    ask(&city, "raider.nuke", nuke).await.unwrap();
    assert_eq!(shown(&relic).await.unwrap()["status"], "open");
}

async fn whole(city: &TestCity) -> Value {
    let published = Published::default();
    let told = status::status(&published, &city.world, Duration::ZERO);
    serde_json::from_str(&told.await.unwrap()).unwrap()
}

/// The header had counted them, and no row had named them.
#[tokio::test(start_paused = true)]
async fn status_names_each_escalation_that_nobody_acknowledged_and_no_other_row_names() {
    let (city, charged) = Scenario::at_work().await;
    let toast = charged.raider.to_string();
    let calls = [
        ("mayor", Problem::in_own_words("no key"), Ends::WithWork),
        ("claude", ProblemKind::LoginWanted.into(), Ends::WithWork),
        (
            &*toast,
            ProblemKind::SandboxChanged.into(),
            Ends::WithSandbox,
        ),
    ];
    for (about, problem, ends) in calls {
        let call = Escalation::high(about, problem, "");
        escalations::call(&city.world, "test", ends, call)
            .await
            .unwrap();
    }
    city.settle().await;
    let status = whole(&city).await;
    assert_eq!(status["escalations"], 3);
    let named = &status["rigs"][0]["raiders"][0]["escalation"];
    assert!(named["id"].is_string(), "{status}");
    let shown = status["calls"].as_array().unwrap();
    assert_eq!(shown.len(), 1, "{shown:?}");
    let call = json!({ "id": shown[0]["id"], "about": "mayor", "problem": "no key" });
    assert_eq!(shown[0], call);
    ask(&city, "escalations.ack", json!({ "id": shown[0]["id"] }))
        .await
        .unwrap();
    let status = whole(&city).await;
    assert_eq!(
        (&status["escalations"], &status["calls"]),
        (&json!(3), &json!([]))
    );
}
