//! Automations that start each other.

use super::*;
use crate::actors::records::{agent_hooks, automation_chains};
use crate::domain::automation::{CHAIN_MAX, RitualAction};
use crate::domain::event::Event;
use crate::domain::ids::RelicId;
use crate::domain::relic::RelicStatus;
use crate::domain::ritual::{Ritual, RitualStep};
use crate::ports::relics::Txn;
use crate::testing::records;

/// Skips of this kind.
async fn endless(city: &TestCity) -> Vec<Event> {
    let mut skipped = city.events(EventType::AutomationSkipped).await;
    skipped.retain(|event| event.cause == "endless_chain");
    skipped
}

#[tokio::test(start_paused = true)]
async fn automations_that_start_each_other_stop_and_the_journal_says_why() {
    let of = |name: &str| {
        let mut one = automation(name, event("automation.*"));
        one.action = Action::Exec(name.to_owned());
        one
    };
    let city = start(&[of("ping"), of("pong")]).await;
    let runs = || count(&city, "ping") + count(&city, "pong");
    by_hand(&city, "ping").await.unwrap();
    city.pass(secs(1200)).await;
    let once = runs();
    assert!((3..=64).contains(&once), "{once}");
    let skipped = endless(&city).await;
    assert!((1..=64).contains(&skipped.len()), "{skipped:?}");
    let told = skipped[0].data["detail"].as_str().unwrap();
    assert!(told.contains("brought each other about"), "{told}");
    city.pass(secs(3600)).await;
    assert_eq!(runs(), once, "it is over");
    // A person starts a new row.
    by_hand(&city, "pong").await.unwrap();
    city.pass(secs(1200)).await;
    assert!(runs() > once + 2, "{}", runs());
}

/// A ritual for the pool `crew` for each new relic.
fn swept() -> Scenario {
    let ritual = Ritual {
        name: "sweep".parse().unwrap(),
        description: "Sweep".into(),
        file: None,
        vars: std::collections::BTreeMap::new(),
        steps: vec![RitualStep {
            id: "sweep".parse().unwrap(),
            title: "Sweep".into(),
            body: String::new(),
            needs: Vec::new(),
            fresh_session: false,
        }],
    };
    let mut tidy = automation("tidy", event("relic.created"));
    tidy.action = Action::Ritual(RitualAction {
        ritual: ritual.name.clone(),
        rig: "horde".parse().unwrap(),
        pool: Some("crew".parse().unwrap()),
        vars: std::collections::BTreeMap::new(),
    });
    city(&[tidy]).with(|city| {
        city.rituals.insert(ritual.name.clone(), ritual);
    })
}

/// An agent takes the automation's relic, makes another one as `hd relic create` does, and is done.
async fn makes_more_work(city: &TestCity) -> Option<RelicId> {
    let work = |txn: &mut dyn Txn| {
        let (member, pool) = ("crew-1".parse().unwrap(), "crew".parse().unwrap());
        let asker = Asker::agent("crew-1");
        let Some(taken) = agent_hooks::take(txn, &member, Some(&pool), &asker)? else {
            return Ok(None);
        };
        let made = txn.create_relic(&records::task("more"))?;
        automation_chains::note_made(txn, &made, &asker)?;
        txn.record(&NewEvent::new(EventType::RelicCreated, &made.id, &asker))?;
        let mut done = txn.relic(&taken.id)?;
        done.status = RelicStatus::Closed;
        txn.put_relic(&done)?;
        Ok(Some(taken.id))
    };
    let taken = city.store(work).await;
    city.pass(secs(61)).await;
    taken
}

/// The relics that an agent makes while it works on an automation's relic are not automated work themselves.
#[tokio::test(start_paused = true)]
async fn agent_on_automated_work_cannot_have_its_automation_make_work_without_end() {
    let city = swept().start().await;
    made(&city, "gt-901").await;
    city.pass(secs(31)).await;
    let mut rounds = 0;
    while rounds < 40 && makes_more_work(&city).await.is_some() {
        rounds += 1;
    }
    assert_eq!(rounds, CHAIN_MAX);
    assert_eq!(endless(&city).await.len(), 1);
    // What a person makes has its work made as before.
    made(&city, "gt-902").await;
    city.pass(secs(61)).await;
    assert!(makes_more_work(&city).await.is_some());
}
