//! Drums: addresses, rights, bounds, `rally`, and delivery into live sessions.

use serde_json::{Value, json};

use super::ask_as;
use crate::actors::claims::ClaimKey;
use crate::actors::mail::Charged;
use crate::control::protocol::{ControlError, ErrorKind};
use crate::control::rights::CallerRole;
use crate::control::server::Caller;
use crate::domain::city::City;
use crate::domain::city::{Pool, RestartType, Rights};
use crate::domain::event::EventType;
use crate::domain::ids::{ChildId, HarnessName, SessionId};
use crate::domain::question::Pattern;
use crate::ports::sessions::Input;
use crate::testing::world::{Scenario, TestCity, agent};

/// A process of each session.
const PID: u32 = 4242;

fn operator() -> Caller {
    Caller::stand_in(None, CallerRole::Operator)
}

/// Returns a process in the raider's session.
fn raider(city: &TestCity, charged: &Charged) -> Caller {
    let pid = PID + u32::try_from(charged.raider.name.as_str().len()).unwrap();
    city.parts.sessions.place(pid, &charged.session);
    Caller::stand_in(pid, CallerRole::Raider(charged.session.clone()))
}

/// Returns a process in the session of this agent.
fn standing(city: &TestCity, name: &str) -> Caller {
    let session = SessionId::new(format!("city-{name}")).unwrap();
    let pid = PID + 100 + u32::from(name.as_bytes()[name.len() - 1]);
    city.parts.sessions.place(pid, &session);
    Caller::stand_in(pid, CallerRole::Agent(session))
}

async fn send(city: &TestCity, caller: &Caller, to: &str) -> Result<Value, ControlError> {
    let args = json!({ "to": to, "subject": "the tests", "message": "are red" });
    ask_as(city, caller.clone(), "drums.send", args).await
}

async fn on(city: &TestCity, caller: &Caller, op: &str, id: &Value) -> Result<Value, ControlError> {
    ask_as(city, caller.clone(), op, json!({ "id": id })).await
}

async fn inbox(city: &TestCity, caller: &Caller) -> Vec<Value> {
    let inbox = ask_as(city, caller.clone(), "drums.inbox", json!({}))
        .await
        .unwrap();
    let drums = inbox["drums"].as_array().unwrap().clone();
    assert_eq!(inbox["waiting"], drums.len());
    drums.iter().map(|drum| drum["id"].clone()).collect()
}

async fn rally(city: &TestCity, caller: &Caller) -> Value {
    ask_as(city, caller.clone(), "rally", json!({}))
        .await
        .unwrap()["drums"]
        .clone()
}

async fn with_mayor(rights: Rights) -> TestCity {
    let scenario = Scenario::new().agent("mayor", RestartType::Permanent);
    scenario
        .with(|city| city.agents[0].rights = rights)
        .start()
        .await
}

#[tokio::test(start_paused = true)]
async fn raider_mails_a_person_whose_reply_it_finds_at_rally() {
    let (city, charged) = Scenario::at_work().await;
    let toast = raider(&city, &charged);
    assert_eq!(rally(&city, &toast).await, Value::Null);
    let sent = send(&city, &toast, "operator").await.unwrap();
    assert_eq!(sent["from"], charged.raider.to_string());
    assert_eq!(sent["to"], "operator");
    assert_eq!(sent["delivery"]["state"], "waits");
    assert_eq!(inbox(&city, &operator()).await, [sent["id"].clone()]);

    let read = on(&city, &operator(), "drums.read", &sent["id"])
        .await
        .unwrap();
    assert_eq!(
        (&read["body"], read["read"].is_string()),
        (&json!("are red"), true)
    );
    let args = json!({ "id": sent["id"], "message": "known, go on" });
    let reply = ask_as(&city, operator(), "drums.reply", args)
        .await
        .unwrap();
    assert_eq!(
        (&reply["subject"], &reply["answers"]),
        (&json!("Re: the tests"), &sent["id"])
    );
    assert_eq!(
        (&reply["from"], &reply["to"]),
        (&json!("operator"), &sent["from"])
    );
    assert!(
        inbox(&city, &operator()).await.is_empty(),
        "a reply acknowledges"
    );

    let rallied = rally(&city, &toast).await;
    assert_eq!(rallied["waiting"], 1);
    assert!(rallied["how"].as_str().unwrap().contains("drums read ID"));
    let expected =
        json!({ "id": reply["id"], "from": "operator", "subject": "Re: the tests", "read": false });
    assert_eq!(rallied["drums"], json!([expected]));
    on(&city, &toast, "drums.read", &reply["id"]).await.unwrap();
    assert_eq!(
        rally(&city, &toast).await["drums"][0]["read"],
        true,
        "until it is acknowledged"
    );
    on(&city, &toast, "drums.ack", &reply["id"]).await.unwrap();
    assert_eq!(rally(&city, &toast).await, Value::Null);
    let again = on(&city, &toast, "drums.ack", &reply["id"]).await.unwrap();
    assert!(again["acked"].is_string());
    for (kind, times) in [
        (EventType::DrumsSent, 2),
        (EventType::DrumsRead, 2),
        (EventType::DrumsAcked, 2),
        (EventType::DrumsDelivered, 0),
    ] {
        assert_eq!(city.events(kind).await.len(), times, "{kind:?}");
    }
    let first = city.events(EventType::DrumsSent).await.remove(0);
    assert_eq!(first.data["by"], charged.session.as_str());
    assert_eq!(first.data["body"], Value::Null, "the journal has no texts");
}

/// The mail of a raider belongs to its work: it stays with the relic, and is hidden from other work of the slot.
#[tokio::test(start_paused = true)]
async fn mail_of_a_raider_goes_to_the_next_raider_of_its_relic() {
    let (city, first) = Scenario::at_work().await;
    let sent = send(&city, &operator(), "Toast").await.unwrap();
    assert_eq!(sent["mailbox"], format!("relic/{}", first.relic));
    city.nuke(&first.raider, true).await.unwrap();
    let other = city.worker("other").await;
    assert_eq!(other.raider, first.raider, "the same slot");
    let toast = raider(&city, &other);
    assert_eq!(rally(&city, &toast).await, Value::Null);
    let refused = on(&city, &toast, "drums.read", &sent["id"])
        .await
        .unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Forbidden);
    let next = city.charge(&first.relic).await.unwrap();
    let next = raider(&city, &next);
    assert_eq!(rally(&city, &next).await["drums"][0]["id"], sent["id"]);
    let args = json!({ "id": sent["id"], "message": "done" });
    ask_as(&city, next, "drums.reply", args).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn reply_goes_to_the_present_raider_of_the_work_and_is_refused_once_it_is_closed() {
    let (city, first) = Scenario::at_work().await;
    let toast = raider(&city, &first);
    let sent = send(&city, &toast, "operator").await.unwrap();
    let reply = async || {
        let args = json!({ "id": sent["id"], "message": "go on" });
        ask_as(&city, operator(), "drums.reply", args).await
    };
    city.nuke(&first.raider, true).await.unwrap();
    city.worker("other").await;
    let next = city.charge(&first.relic).await.unwrap();
    assert_ne!(next.raider, first.raider);
    assert_eq!(reply().await.unwrap()["to"], next.raider.to_string());
    let close = json!({ "relic": first.relic, "yes": true });
    ask_as(&city, operator(), "relic.close", close)
        .await
        .unwrap();
    let refused = reply().await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict);
    assert!(refused.message.contains("closed"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn raiders_and_agents_see_their_own_drums_and_a_person_sees_all() {
    let city = with_mayor(Rights::Work).await;
    let charged = city.worker("a").await;
    let (toast, mayor) = (raider(&city, &charged), standing(&city, "mayor"));
    let errand = Caller::stand_in(None, CallerRole::OwnCommand(Rights::Work));
    let to_mayor = send(&city, &toast, "mayor").await.unwrap();
    let to_toast = send(&city, &mayor, "horde/Toast").await.unwrap();
    assert_eq!(to_toast["from"], "mayor");
    for (caller, id, name) in [
        (&toast, &to_mayor["id"], "mayor"),
        (&mayor, &to_toast["id"], "Toast"),
        (&errand, &to_mayor["id"], "mayor"),
    ] {
        for op in ["drums.read", "drums.ack"] {
            let refused = on(&city, caller, op, id).await.unwrap_err();
            assert_eq!(refused.kind, ErrorKind::Forbidden, "{op}");
        }
        let args = json!({ "id": id, "message": "x" });
        let refused = ask_as(&city, caller.clone(), "drums.reply", args)
            .await
            .unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden);
        let args = json!({ "name": name });
        let refused = ask_as(&city, caller.clone(), "drums.inbox", args)
            .await
            .unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden);
    }
    let none = ask_as(&city, errand, "drums.inbox", json!({}))
        .await
        .unwrap_err();
    assert_eq!(none.kind, ErrorKind::Conflict, "it has no mailbox");
    let read = on(&city, &operator(), "drums.read", &to_mayor["id"])
        .await
        .unwrap();
    assert_eq!(read["read"], Value::Null, "its receiver has not read it");
    assert_eq!(inbox(&city, &mayor).await, [to_mayor["id"].clone()]);
    on(&city, &operator(), "drums.ack", &to_mayor["id"])
        .await
        .unwrap();
    assert!(inbox(&city, &mayor).await.is_empty());
    let all = json!({ "name": "mayor", "all": true });
    let kept = ask_as(&city, operator(), "drums.inbox", all).await.unwrap();
    assert_eq!(
        (&kept["waiting"], &kept["drums"][0]["id"]),
        (&json!(0), &to_mayor["id"])
    );
}

/// Contract 2.2, `rights`: an agent with all rights acts as a person.
#[tokio::test(start_paused = true)]
async fn agent_with_all_rights_sees_the_drums_of_others() {
    let city = with_mayor(Rights::All).await;
    city.worker("a").await;
    let sent = send(&city, &operator(), "Toast").await.unwrap();
    let mayor = standing(&city, "mayor");
    on(&city, &mayor, "drums.read", &sent["id"]).await.unwrap();
    on(&city, &mayor, "drums.ack", &sent["id"]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn unknown_address_is_refused_with_a_suggestion() {
    let city = with_mayor(Rights::Work).await;
    city.worker("a").await;
    for (name, hint) in [
        ("mayro", "did you mean mayor?"),
        ("Tosat", "did you mean Toast?"),
        ("oprator", "did you mean operator?"),
        ("horde/raiders/Taost", "did you mean horde/raiders/Toast?"),
        ("x", "addresses: operator, mayor, horde/raiders/Toast"),
        ("", "addresses: operator, mayor, horde/raiders/Toast"),
    ] {
        let refused = send(&city, &operator(), name).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::NotFound, "{name}");
        assert_eq!(refused.hint.as_deref(), Some(hint), "{name}");
    }
    let missing = on(&city, &operator(), "drums.read", &json!(9))
        .await
        .unwrap_err();
    assert_eq!(missing.kind, ErrorKind::NotFound);
    assert!(city.events(EventType::DrumsSent).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn sender_that_repeats_itself_is_refused_and_others_are_not() {
    let city = with_mayor(Rights::Work).await;
    let charged = city.worker("a").await;
    let (toast, mayor) = (raider(&city, &charged), standing(&city, "mayor"));
    let first = send(&city, &toast, "operator").await.unwrap();
    for _ in 1..20 {
        send(&city, &toast, "operator").await.unwrap();
    }
    let refused = send(&city, &toast, "operator").await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict);
    assert!(refused.message.contains("full"), "{refused}");
    send(&city, &mayor, "operator").await.unwrap();
    on(&city, &operator(), "drums.ack", &first["id"])
        .await
        .unwrap();
    send(&city, &toast, "operator").await.unwrap();
    let long = json!({ "to": "operator", "subject": "a\nb" });
    let refused = ask_as(&city, toast, "drums.send", long).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::BadRequest);
}

#[tokio::test(start_paused = true)]
async fn mail_to_a_pool_is_read_by_any_member_and_acknowledged_once() {
    let scenario = Scenario::new().agent("worker", RestartType::Permanent);
    let city = scenario.with(|city| {
        city.agents[0].pool = Some(Pool {
            min: 2,
            max: 3,
            check: None,
            check_interval: std::time::Duration::from_secs(5),
            drain_timeout: std::time::Duration::from_secs(20),
        });
    });
    let city = city.start().await;
    assert!(city.runs(&city.session(&agent("worker-2"))));
    let (one, two) = (standing(&city, "worker-1"), standing(&city, "worker-2"));
    let pool = send(&city, &operator(), "worker").await.unwrap();
    let member = send(&city, &operator(), "worker-2").await.unwrap();
    let absent = send(&city, &operator(), "worker-3").await;
    assert!(absent.is_ok(), "it has the number that a later member gets");
    let beyond = send(&city, &operator(), "worker-4").await.unwrap_err();
    assert_eq!(beyond.kind, ErrorKind::NotFound);
    assert_eq!(inbox(&city, &one).await, [pool["id"].clone()]);
    assert_eq!(
        inbox(&city, &two).await,
        [pool["id"].clone(), member["id"].clone()]
    );
    assert_eq!(rally(&city, &one).await["drums"][0]["id"], pool["id"]);
    on(&city, &one, "drums.ack", &pool["id"]).await.unwrap();
    assert_eq!(inbox(&city, &two).await, [member["id"].clone()]);
    let refused = on(&city, &one, "drums.read", &member["id"])
        .await
        .unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Forbidden);
}

#[tokio::test(start_paused = true)]
async fn drums_survive_the_supervisor() {
    let (city, charged) = Scenario::at_work().await;
    let sent = send(&city, &operator(), "Toast").await.unwrap();
    let clock = city.world.clock.clone();
    let city = Scenario::new().start_on(city.crash().await, clock).await;
    let toast = raider(&city, &charged);
    assert_eq!(inbox(&city, &toast).await, [sent["id"].clone()]);
}

/// The session of a slot keeps its name over incarnations: a late process of an earlier one sends and reads nothing.
#[tokio::test(start_paused = true)]
async fn late_process_of_an_earlier_incarnation_has_no_drums() {
    let (city, first) = Scenario::at_work().await;
    let late = raider(&city, &first);
    city.nuke(&first.raider, true).await.unwrap();
    city.worker("b").await;
    let refused = send(&city, &late, "operator").await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Forbidden);
    let refused = ask_as(&city, late, "drums.inbox", json!({}))
        .await
        .unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Forbidden);
}

/// Makes the harness show where it takes text, and what it asks.
fn prompts(city: &mut City) {
    for harness in city.harnesses.values_mut() {
        harness.patterns.input = Pattern::new("^> ").into_iter().collect();
        harness.patterns.asks = Pattern::new(r"\?").into_iter().collect();
    }
}

async fn deliver(city: &TestCity, caller: &Caller, to: &str) -> Value {
    let args = json!({ "to": to, "subject": "rm -rf /", "message": "are red", "deliver": true });
    ask_as(city, caller.clone(), "drums.send", args)
        .await
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn drum_is_told_to_a_session_whose_program_waits_for_text() {
    let city = Scenario::new().with(prompts).start().await;
    let charged = city.worker("a").await;
    // Until it is known that no first prompt is to be typed.
    city.settle().await;
    city.parts.sessions.show(&charged.session, Some("> "));
    let sent = deliver(&city, &operator(), "Toast").await;
    assert_eq!(
        sent["delivery"],
        json!({ "state": "delivered", "why": null })
    );
    assert!(sent["delivered"].is_string());
    let hd = city.world.hd();
    let text = format!("Drum 1 from operator has arrived: read it with `{hd} drums read 1`.");
    assert_eq!(
        city.parts.sessions.sent(&charged.session),
        [Input::Submit(text)]
    );
    let told = city.events(EventType::DrumsDelivered).await;
    assert_eq!(
        (told.len(), told[0].subject.as_str()),
        (1, "horde/raiders/Toast")
    );
    let toast = raider(&city, &charged);
    assert_eq!(
        rally(&city, &toast).await["waiting"],
        1,
        "it still waits to be read"
    );
    let args = json!({ "id": 1, "message": "read" });
    ask_as(&city, toast, "drums.reply", args).await.unwrap();
    let args = json!({ "id": 2, "message": "good", "deliver": true });
    let reply = ask_as(&city, operator(), "drums.reply", args)
        .await
        .unwrap();
    assert_eq!(reply["delivery"]["state"], "delivered");
}

#[tokio::test(start_paused = true)]
async fn drum_waits_where_typing_is_not_safe_and_the_answer_says_why() {
    let scenario = Scenario::new().agent("plain", RestartType::Permanent);
    let city = scenario.with(prompts).start().await;
    let charged = city.worker("a").await;
    // Its first prompt is typed.
    city.settle().await;
    let toast = raider(&city, &charged);
    let sessions = &city.parts.sessions;
    let show = |screen: &str| sessions.show(&charged.session, Some(screen));
    let waits = async |to: &str, why: &str| {
        let sent = deliver(&city, &operator(), to).await;
        assert_eq!(sent["delivery"]["state"], "waits", "{to}: {why}");
        let says = sent["delivery"]["why"].as_str().unwrap();
        assert!(says.contains(why), "{to}: {says}");
        assert_eq!(sent["delivered"], Value::Null);
    };
    show("Allow this command?\n> ");
    waits("Toast", "Allow this command?").await;
    show("compiling");
    waits("Toast", "no input line").await;
    show("> ");
    sessions.set_attached(&charged.session, true);
    waits("Toast", "a person is attached").await;
    sessions.set_attached(&charged.session, false);
    let id = ChildId::Raider(charged.raider.clone());
    let handle = city.view(&id).await.unwrap().session.unwrap().handle;
    let prompt = city.world.claims.claim(ClaimKey::Prompt(handle.token));
    waits("Toast", "first prompt").await;
    drop(prompt);
    sessions.begin_line(&charged.session, Some(city.world.clock.now()));
    waits("Toast", "begun a line").await;
    waits("plain", "no harness drives").await;
    waits("operator", "people are not told").await;
    assert!(sessions.sent(&charged.session).is_empty());
    assert!(sessions.sent(&city.session(&agent("plain"))).is_empty());
    assert!(city.events(EventType::DrumsDelivered).await.is_empty());
    assert_eq!(rally(&city, &toast).await["waiting"], 5);
    city.nuke(&charged.raider, true).await.unwrap();
    let reply = json!({ "id": 7, "message": "x" });
    ask_as(&city, operator(), "drums.reply", reply)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn drum_to_a_pool_is_told_to_a_member_that_waits_for_text() {
    let scenario = Scenario::new().agent("worker", RestartType::Permanent);
    let city = scenario.with(prompts).with(|city| {
        city.agents[0].harness = Some(HarnessName::new("script").unwrap());
        city.agents[0].pool = Some(Pool {
            min: 2,
            max: 2,
            check: None,
            check_interval: std::time::Duration::from_secs(5),
            drain_timeout: std::time::Duration::from_secs(20),
        });
    });
    let city = city.start().await;
    let [one, two] = [1, 2].map(|n| city.session(&agent(&format!("worker-{n}"))));
    city.parts.sessions.show(&one, Some("compiling"));
    city.parts.sessions.show(&two, Some("> "));
    let sent = deliver(&city, &operator(), "worker").await;
    assert_eq!(sent["delivery"]["state"], "delivered");
    assert!(city.parts.sessions.sent(&one).is_empty());
    assert_eq!(city.parts.sessions.sent(&two).len(), 1);
}

/// A number is answered with the drum, a list with a list; a number that is missing, or of another mailbox, leaves all.
#[tokio::test(start_paused = true)]
async fn several_drums_are_acknowledged_at_once_or_none() {
    let city = with_mayor(Rights::Work).await;
    let charged = city.worker("a").await;
    let (toast, mayor) = (raider(&city, &charged), standing(&city, "mayor"));
    let mut ids = Vec::new();
    for _ in 0..3 {
        let sent = send(&city, &operator(), "Toast").await.unwrap();
        ids.push(sent["id"].clone());
    }
    let foreign = send(&city, &toast, "mayor").await.unwrap()["id"].clone();
    for (wrong, kind) in [
        (json!([ids[0], 99]), ErrorKind::NotFound),
        (json!([ids[0], foreign]), ErrorKind::Forbidden),
    ] {
        let refused = on(&city, &toast, "drums.ack", &wrong).await.unwrap_err();
        assert_eq!(refused.kind, kind);
        assert_eq!(inbox(&city, &toast).await, ids);
    }
    let two = json!([ids[2], ids[0], ids[2]]);
    let told = on(&city, &toast, "drums.ack", &two).await.unwrap();
    let acked: Vec<_> = told.as_array().unwrap().iter().collect();
    assert_eq!(acked.len(), 2, "each once");
    assert_eq!((&acked[0]["id"], &acked[1]["id"]), (&ids[2], &ids[0]));
    assert_eq!(inbox(&city, &toast).await, [ids[1].clone()]);
    assert_eq!(inbox(&city, &mayor).await, [foreign]);
}
