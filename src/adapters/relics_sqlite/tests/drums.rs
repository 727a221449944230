//! Tests of stored drums: their order, counts and deletion.

use super::*;
use crate::domain::drum::{DrumHead, Mailbox, NewDrum, Waiting};
use crate::domain::ids::AgentName;
use crate::domain::relic::RelicStatus;

fn drum(mailbox: &Mailbox, from: &str) -> NewDrum {
    NewDrum {
        mailbox: mailbox.clone(),
        to: "to".into(),
        from: from.into(),
        reply_to: Some(Mailbox::People),
        subject: "subject".into(),
        body: "body".into(),
        answers: Some(7),
    }
}

fn mayor() -> Mailbox {
    Mailbox::Agent(AgentName::new("mayor").unwrap())
}

fn acked(store: &mut SqliteRelics, id: u64, when: &str) {
    run(store, |txn| {
        let mut head = txn.drum(id)?.head;
        head.acked = Some(at(when));
        txn.put_drum(&head)
    })
    .unwrap();
}

fn ids(heads: &[DrumHead]) -> Vec<u64> {
    heads.iter().map(|head| head.id).collect()
}

#[test]
fn drum_is_stored_in_full_and_its_number_is_not_given_again() {
    let mut store = store();
    let sent = run(&mut store, |txn| txn.add_drum(&drum(&mayor(), "Toast"))).unwrap();
    assert_eq!(run(&mut store, |txn| txn.drum(1)).unwrap(), sent);
    let head = &sent.head;
    assert_eq!(
        (head.id, &head.mailbox, &*head.from),
        (1, &mayor(), "Toast")
    );
    assert_eq!(
        (&*head.to, &*head.subject, &*sent.body),
        ("to", "subject", "body")
    );
    assert_eq!(
        (&head.reply_to, head.answers),
        (&Some(Mailbox::People), Some(7))
    );
    assert_eq!((head.delivered, head.read, head.acked), (None, None, None));
    acked(&mut store, 1, "2026-01-01T00:00:00Z");
    run(&mut store, |txn| txn.trim_drums(&mayor(), 0)).unwrap();
    let next = run(&mut store, |txn| txn.add_drum(&drum(&mayor(), "Toast"))).unwrap();
    assert_eq!(next.head.id, 2);
    for missing in [1, 99, u64::MAX] {
        let error = run(&mut store, |txn| txn.drum(missing)).unwrap_err();
        assert!(matches!(error, StoreError::NotFound { kind: "drum", .. }));
    }
}

#[test]
fn mailbox_lists_and_counts_its_own_drums_only() {
    let mut store = store();
    for (mailbox, from) in [
        (Mailbox::People, "a"),
        (mayor(), "a"),
        (Mailbox::People, "b"),
        (Mailbox::People, "a"),
    ] {
        run(&mut store, |txn| txn.add_drum(&drum(&mailbox, from))).unwrap();
    }
    acked(&mut store, 1, "2026-01-01T00:00:00Z");
    let people = &Mailbox::People;
    let waiting = run(&mut store, |txn| txn.waiting_drums(people, 9)).unwrap();
    assert_eq!(ids(&waiting), [3, 4]);
    let first = run(&mut store, |txn| txn.waiting_drums(people, 1)).unwrap();
    assert_eq!(ids(&first), [3]);
    let old = run(&mut store, |txn| txn.acked_drums(people, 9)).unwrap();
    assert_eq!(ids(&old), [1]);
    let count = run(&mut store, |txn| txn.count_drums(people, "a")).unwrap();
    assert_eq!(
        count,
        Waiting {
            all: 2,
            of_sender: 1
        }
    );
}

#[test]
fn only_the_newest_acknowledged_drums_of_a_mailbox_are_kept() {
    let mut store = store();
    for _ in 0..5 {
        run(&mut store, |txn| txn.add_drum(&drum(&mayor(), "a"))).unwrap();
    }
    run(&mut store, |txn| txn.add_drum(&drum(&Mailbox::People, "a"))).unwrap();
    for (id, when) in [(1, "04"), (2, "03"), (3, "02"), (4, "01"), (6, "01")] {
        acked(&mut store, id, &format!("2026-01-{when}T00:00:00Z"));
    }
    let trimmed = run(&mut store, |txn| txn.trim_drums(&mayor(), 2)).unwrap();
    assert_eq!(trimmed, 2);
    let kept = run(&mut store, |txn| txn.acked_drums(&mayor(), 9)).unwrap();
    assert_eq!(ids(&kept), [1, 2]);
    let waiting = run(&mut store, |txn| txn.waiting_drums(&mayor(), 9)).unwrap();
    assert_eq!(ids(&waiting), [5]);
    let others = run(&mut store, |txn| txn.acked_drums(&Mailbox::People, 9)).unwrap();
    assert_eq!(ids(&others), [6]);
}

/// Drums that wait for a person, an agent or open work are kept, whatever their age.
#[test]
fn acknowledged_drums_and_those_of_closed_work_are_pruned_by_age() {
    let mut store = store();
    for title in ["open", "closed"] {
        create(&mut store, &task(title));
    }
    run(&mut store, |txn| {
        let mut relic = txn.relic(&id("gt-2"))?;
        relic.status = RelicStatus::Closed;
        txn.put_relic(&relic)
    })
    .unwrap();
    for mailbox in [
        Mailbox::People,
        mayor(),
        Mailbox::Work(id("gt-1")),
        Mailbox::Work(id("gt-2")),
        mayor(),
    ] {
        run(&mut store, |txn| txn.add_drum(&drum(&mailbox, "a"))).unwrap();
    }
    acked(&mut store, 5, "2026-01-01T00:00:00Z");
    let before = |store: &mut SqliteRelics, when: &str| {
        run(store, |txn| txn.prune_drums(at(when), 9)).unwrap()
    };
    assert_eq!(before(&mut store, "2026-01-02T00:00:00Z"), 1);
    assert_eq!(before(&mut store, "2999-01-01T00:00:00Z"), 1);
    for (number, is_kept) in [(1, true), (2, true), (3, true), (4, false), (5, false)] {
        let found = run(&mut store, |txn| txn.drum(number));
        assert_eq!(found.is_ok(), is_kept, "{number}");
    }
}
