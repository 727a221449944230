//! Races with a declared completion.

use std::collections::BTreeMap;

use crate::actors::mail::DoneRequest;
use crate::actors::records::totems;
use crate::domain::asker::Asker;
use crate::domain::event::EventType;
use crate::domain::relic::Completion;
use crate::domain::ritual::{Ritual, RitualStep};
use crate::domain::self_review::Verdict;
use crate::testing::world::{Scenario, completion};

/// The steps are read again in the transaction of the intent: a totem may be started while git is asked.
#[tokio::test(start_paused = true)]
async fn a_totem_that_is_started_during_the_check_refuses_the_completion() {
    let city = Scenario::new().start().await;
    let charged = city.worker("a task").await;
    let ritual = Ritual {
        name: "work".parse().unwrap(),
        description: String::new(),
        file: None,
        vars: BTreeMap::new(),
        steps: vec![RitualStep {
            id: "look".parse().unwrap(),
            title: "Look".into(),
            body: String::new(),
            needs: Vec::new(),
            fresh_session: false,
        }],
    };
    let (store, id) = (city.world.store.clone(), charged.relic.clone());
    let (rig, runtime) = (
        charged.raider.rig.clone(),
        tokio::runtime::Handle::current(),
    );
    city.parts.repo.interlude("fit", move || {
        let (id, rig, ritual) = (id.clone(), rig.clone(), ritual.clone());
        let start = store.run(move |txn| {
            let relic = txn.relic(&id)?;
            let asker = Asker::person();
            totems::start(txn, &ritual, &rig, &relic, BTreeMap::new(), &asker).map(drop)
        });
        runtime.block_on(start).unwrap();
    });
    let refused = city.completed(&charged.raider).await.unwrap_err();
    assert!(refused.message.contains("is not done"), "{refused:?}");
    assert!(city.hook(&charged.raider).await.unwrap().done.is_none());
}

/// After a crash between the two, the work was stuck and no round said so.
#[tokio::test(start_paused = true)]
async fn round_of_a_review_that_is_stuck_is_recorded_with_its_declaration() {
    let (city, charged) = Scenario::at_work().await;
    let request = DoneRequest {
        exit: Completion::Escalated,
        is_stuck_review: true,
        reason: Some("the requirements contradict each other".into()),
        ..completion(&charged.raider)
    };
    city.done(request).await.unwrap();
    let key = (charged.relic.clone(), charged.raider, charged.incarnation);
    let rounds = city.store(move |txn| txn.self_reviews(&key.0, &key.1, key.2));
    let rounds = rounds.await;
    assert_eq!((rounds.len(), rounds[0].verdict), (1, Verdict::Stuck));
    assert!(rounds[0].note.as_ref().unwrap().contains("contradict"));
    assert_eq!(city.events(EventType::RaiderReviewed).await.len(), 1);
}
