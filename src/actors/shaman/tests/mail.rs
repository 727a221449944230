//! `notify.mail_to`: drums to agents about escalations.

use super::*;
use crate::domain::city::RestartType;
use crate::domain::drum::{Drum, Mailbox};
use crate::domain::ids::AgentName;

fn name(text: &str) -> AgentName {
    AgentName::new(text).unwrap()
}

fn mailing(to: &'static [&'static str]) -> Scenario {
    let scenario = seldom().agent("warchief", RestartType::Permanent);
    scenario.with(move |city| {
        city.notify.mail_to = to.iter().copied().map(name).collect();
    })
}

/// Returns the drums that wait for an agent.
async fn drums(city: &TestCity, agent: &str) -> Vec<Drum> {
    let mailbox = Mailbox::Agent(name(agent));
    let read = move |txn: &mut dyn Txn| {
        let heads = txn.waiting_drums(&mailbox, 99)?;
        heads.iter().map(|head| txn.drum(head.id)).collect()
    };
    city.store(read).await
}

async fn subjects(city: &TestCity, agent: &str) -> Vec<String> {
    let drums = drums(city, agent).await;
    drums.into_iter().map(|drum| drum.head.subject).collect()
}

#[tokio::test(start_paused = true)]
async fn escalation_is_mailed_once_each_time_it_is_raised_until_it_is_acknowledged() {
    let city = mailing(&["warchief"]).start().await;
    help(&city, about("mayor", "no key", Severity::Low)).await;
    help(&city, about("mayor", "no key", Severity::Low)).await;
    let mail = drums(&city, "warchief").await;
    assert_eq!(mail.len(), 1);
    assert_eq!(mail[0].head.subject, "escalation esc-1 (low): no key");
    assert_eq!(
        (&*mail[0].head.from, &mail[0].head.reply_to),
        ("supervisor", &None)
    );
    assert!(
        mail[0].body.contains("about: mayor\nseverity: low"),
        "{}",
        mail[0].body
    );
    assert_eq!(
        city.events(EventType::DrumsSent).await[0].subject,
        "warchief"
    );
    city.pass(5 * HOUR).await;
    let again = "escalation esc-1 (medium): no key";
    assert_eq!(subjects(&city, "warchief").await[1..], [again]);
    ack(&city, &only(&city).await).await;
    city.pass(40 * HOUR).await;
    assert_eq!(drums(&city, "warchief").await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn agent_that_is_added_to_mail_to_gets_what_is_open_and_others_get_nothing_twice() {
    let city = mailing(&["warchief"]).start().await;
    help(&city, about("mayor", "no key", Severity::Low)).await;
    city.reload(|city| city.notify.mail_to.push(name("clerk")))
        .await;
    city.world.newest().nudge(message::SHAMAN);
    city.settle().await;
    for agent in ["warchief", "clerk"] {
        assert_eq!(subjects(&city, agent).await.len(), 1, "{agent}");
    }
}

/// The mailbox takes twenty drums of one sender; the rest come when there is room.
#[tokio::test(start_paused = true)]
async fn escalation_waits_for_room_in_a_full_mailbox() {
    let city = mailing(&["warchief"]).start().await;
    for number in 0..21 {
        help(&city, about(&format!("a{number}"), "no key", Severity::Low)).await;
    }
    let mail = drums(&city, "warchief").await;
    assert_eq!((mail.len(), city.escalations().await.len()), (20, 21));
    let first = mail[0].head.id;
    city.store(move |txn| crate::actors::records::drums::acknowledge(txn, first, Cause::Operator))
        .await;
    city.world.nudge(message::SHAMAN);
    city.settle().await;
    assert_eq!(drums(&city, "warchief").await.len(), 20);
    assert_eq!(city.events(EventType::DrumsSent).await.len(), 21);
}
