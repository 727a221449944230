//! Automations that start each other.

use super::*;
use crate::actors::records::{agent_hooks, automation_chains};
use crate::domain::automation::{CHAIN_MAX, OFFSPRING_MAX, RitualAction};
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
        let mut one = automation(name, event("automation.completed"));
        one.action = Action::Exec(name.to_owned());
        one
    };
    let city = start(&[of("ping"), of("pong")]).await;
    let runs = || count(&city, "ping") + count(&city, "pong");
    by_hand(&city, "ping").await.unwrap();
    city.pass(secs(1200)).await;
    let once = runs();
    assert_eq!(once, CHAIN_MAX as usize);
    let skipped = endless(&city).await;
    assert_eq!(skipped.len(), 1, "{skipped:?}");
    let told = skipped[0].data["detail"].as_str().unwrap();
    assert!(told.contains("brought each other about"), "{told}");
    city.pass(secs(3600)).await;
    assert_eq!(runs(), once, "it is over");
    let calls = city.escalations().await;
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert!(calls[0].body.contains(" does not run for it"), "{calls:?}");
    // A person starts a new row.
    by_hand(&city, "pong").await.unwrap();
    city.pass(secs(1200)).await;
    assert!(runs() > once + 2, "{}", runs());
}

/// Has the command of one automation run another, as `hd auto run` does.
async fn asked_by(city: &TestCity, from: &str, name: &str) -> Result<(Run, u64), Refusal> {
    let (id, asker) = (
        name.parse().unwrap(),
        Asker::errand(format!("automation/{from}")),
    );
    let message = |reply| DispatcherMsg::Run(id, asker, reply);
    ask::ask(city.world.directory.dispatcher(), message, secs(3600)).await?
}

#[tokio::test(start_paused = true)]
async fn automations_that_run_each_other_by_hand_are_refused_behind_the_last_of_a_row() {
    let city = start(&[
        automation("ping", Gate::Manual),
        automation("pong", Gate::Manual),
    ])
    .await;
    by_hand(&city, "ping").await.unwrap();
    city.pass(secs(1)).await;
    let (mut from, mut to) = ("ping", "pong");
    for _ in 1..CHAIN_MAX {
        asked_by(&city, from, to).await.unwrap();
        city.pass(secs(1)).await;
        (from, to) = (to, from);
    }
    let refused = asked_by(&city, from, to).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Conflict);
    assert!(
        refused.message.contains("brought each other about"),
        "{refused}"
    );
    let runs = count(&city, "ping") + count(&city, "pong");
    assert_eq!(runs, CHAIN_MAX as usize);
    // A person is not bound, and begins a new row.
    by_hand(&city, to).await.unwrap();
    city.pass(secs(1)).await;
    asked_by(&city, to, from).await.unwrap();
}

/// An event waits while its automation runs again.
#[tokio::test(start_paused = true)]
async fn event_of_a_run_counts_as_that_run_and_not_as_the_last_one() {
    let mut tell = automation("tell", event("automation.completed"));
    tell.timeout = secs(3600);
    let city = start(&[automation("hand", Gate::Manual), tell]).await;
    city.parts.runner.let_go("tell", secs(600), 0);
    for _ in 0..2 {
        by_hand(&city, "hand").await.unwrap();
        city.pass(secs(1)).await;
    }
    for _ in 1..CHAIN_MAX {
        asked_by(&city, "hand", "hand").await.unwrap();
        city.pass(secs(1)).await;
    }
    assert_eq!(count(&city, "tell"), 1, "the others wait");
    city.parts.runner.let_go("tell", Duration::ZERO, 0);
    city.pass(secs(700)).await;
    // All but the last run of the row may bring about another one.
    assert_eq!(count(&city, "tell"), 2 + CHAIN_MAX as usize - 2);
    assert_eq!(endless(&city).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn run_that_brought_about_too_many_brings_about_no_more() {
    let city = start(&[automation("hand", Gate::Manual)]).await;
    let (first, _) = by_hand(&city, "hand").await.unwrap();
    city.pass(secs(1)).await;
    let key = format!("automation-chain/first/{}", first.id);
    let before = move |txn: &mut dyn Txn| {
        let count = serde_json::json!({ "runs": OFFSPRING_MAX - 1, "since": txn.now() });
        txn.set(&key, Some(&count.to_string()))
    };
    city.store(before).await;
    asked_by(&city, "hand", "hand").await.unwrap();
    city.pass(secs(1)).await;
    let refused = asked_by(&city, "hand", "hand").await.unwrap_err();
    let why = format!(
        "{OFFSPRING_MAX} runs of automations within an hour that run {} brought about",
        first.id
    );
    assert!(refused.message.contains(&why), "{refused}");
    city.pass(secs(1)).await;
    assert_eq!(city.escalations().await.len(), 1, "at once");
    // A standing agent's relic is the first of a row for weeks.
    city.pass_hours(secs(3600)).await;
    asked_by(&city, "hand", "hand").await.unwrap();
}

/// Versions before stored the number only.
#[tokio::test(start_paused = true)]
async fn row_of_an_older_version_counts_on() {
    let city = start(&[automation("hand", Gate::Manual)]).await;
    let mut last = CHAIN_MAX - 1;
    city.store(move |txn| txn.set("automation-chain/run/hand", Some(&last.to_string())))
        .await;
    asked_by(&city, "hand", "hand").await.unwrap();
    city.pass(secs(1)).await;
    asked_by(&city, "hand", "hand").await.unwrap_err();
    last += 1;
    let fired = city.events(EventType::AutomationFired).await;
    assert_eq!(fired[0].data["chain"]["number"], last);
}

#[tokio::test(start_paused = true)]
async fn counts_of_rows_are_forgotten_after_an_hour() {
    let city = start(&[automation("hand", Gate::Manual)]).await;
    let counts = async |city: &TestCity| {
        let read = |txn: &mut dyn Txn| {
            automation_chains::prune_counts(txn)?;
            txn.key_values_under("automation-chain/first/")
        };
        city.store(read).await.len()
    };
    by_hand(&city, "hand").await.unwrap();
    city.pass(secs(1)).await;
    assert_eq!(counts(&city).await, 0, "a row of one run has none");
    asked_by(&city, "hand", "hand").await.unwrap();
    city.pass(secs(1)).await;
    assert_eq!(counts(&city).await, 1);
    city.pass_hours(secs(3600)).await;
    assert_eq!(counts(&city).await, 0);
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
