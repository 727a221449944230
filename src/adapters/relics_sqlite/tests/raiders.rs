//! Tests of the records about raiders.

use serde_json::json;

use super::flow::mr;
use super::rows::hook;
use super::*;
use crate::domain::ids::Incarnation;
use crate::domain::merge::MrState;
use crate::domain::message::{Body, RaiderDone};
use crate::domain::phase::RaiderRecord;
use crate::domain::relic::RelicStatus;
use crate::domain::saga::SagaKind;

fn done(raider: &RaiderId, incarnation: u32) -> Body {
    Body::RaiderDone(RaiderDone {
        incarnation: Incarnation(incarnation.into()),
        ..records::raider_done(&hook(raider.clone(), "gt-1"), oid('a'))
    })
}

/// The newest merge request of this incarnation counts, and only unhandled messages of it.
#[test]
fn record_of_a_raider_joins_its_relic_sagas_merge_request_and_completion() {
    let mut store = store();
    for number in 1..=6 {
        create(&mut store, &task(&number.to_string()));
    }
    let (first, second) = (hook(nux(), "gt-2"), hook(toast(), "gt-1"));
    let mut of_another = mr(4, "gt-1", toast(), MrState::Merged);
    of_another.incarnation = Incarnation(7);
    let newest = mr(5, "gt-1", toast(), MrState::Queued);
    let unhandled = run(&mut store, |txn| {
        let mut relic = txn.relic(&id("gt-2"))?;
        relic.status = RelicStatus::Closed;
        relic.closed = Some(at("2026-05-02T10:00:00Z"));
        txn.put_relic(&relic)?;
        txn.put_hook(&first)?;
        txn.put_hook(&second)?;
        txn.put_mr(&mr(3, "gt-1", toast(), MrState::Failed))?;
        txn.put_mr(&newest)?;
        txn.put_mr(&of_another)?;
        let subject = toast().to_string();
        txn.open_saga(SagaKind::Done, &toast().rig, &subject, "intent", &json!({}))?;
        txn.open_saga(SagaKind::Land, &toast().rig, "gt-5", "intent", &json!({}))?;
        txn.send(&subject, "horde/witness", done(&toast(), 7))?;
        txn.send(&subject, "rust/witness", done(&nux(), 7))?;
        txn.send(&subject, "horde/witness", done(&toast(), 1))
    })
    .unwrap();
    let known = run(&mut store, |txn| txn.raiders(None)).unwrap();
    let [toasts, nuxs] = known.as_slice() else {
        panic!("{known:?}")
    };
    assert_eq!(
        (&toasts.hook, toasts.relic, toasts.closed),
        (&second, RelicStatus::Open, None)
    );
    let kinds: Vec<_> = toasts.sagas.iter().map(|saga| saga.kind).collect();
    assert_eq!(kinds, [SagaKind::Done]);
    assert_eq!((&toasts.mr, toasts.is_unhandled), (&Some(newest), true));
    let expected = RaiderRecord {
        relic: RelicStatus::Closed,
        closed: Some(at("2026-05-02T10:00:00Z")),
        ..records::at_work(first)
    };
    assert_eq!(nuxs, &expected);
    let of_rig = run(&mut store, |txn| txn.raiders(Some(&nux().rig))).unwrap();
    assert_eq!(of_rig, [expected]);
    run(&mut store, |txn| txn.handled(unhandled)).unwrap();
    let toasts = run(&mut store, |txn| txn.raider(&toast())).unwrap();
    assert!(toasts.is_some_and(|record| !record.is_unhandled));
    run(&mut store, |txn| txn.drop_hook(&toast(), Incarnation(1))).unwrap();
    assert_eq!(run(&mut store, |txn| txn.raider(&toast())).unwrap(), None);
}
