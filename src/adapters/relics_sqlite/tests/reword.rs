//! Tests of the switch that rewords every text: it leaves none, and changes nothing else.

use serde_json::json;

use super::super::reword::OTHER_WORDS;
use super::*;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::merge::MrState;
use crate::domain::message::{self, Body, Escalation};
use crate::domain::problem::ProblemKind;
use crate::ports::relics::EventFilter;

const TEXT: &str = "the remote does not answer";

#[test]
fn texts_of_all_tables_are_reworded_and_nothing_else() {
    let mut store = store();
    let relic = create(&mut store, &records::task(TEXT));
    let row = create(&mut store, &records::task("m"));
    let hook = records::hook(&toast(), &relic.id);
    let mut mr = records::mr(row.id.as_str(), hook, MrState::Queued);
    mr.note = Some(TEXT.into());
    let call = Escalation::high("account main", ProblemKind::Unread, TEXT.to_owned());
    let event = NewEvent::new(EventType::MrHeld, "account main", Cause::Stuck);
    let data = json!({ "note": TEXT, "mr": mr.id, "list": [TEXT, "code", 7] });
    run(&mut store, |txn| {
        txn.put_mr(&mr)?;
        txn.send("root", message::SHAMAN, Body::Escalation(call.clone()))?;
        txn.record(&event.clone().with(data.clone()))?;
        txn.set("plain", Some(TEXT))?;
        txn.set(
            "json",
            Some(&json!({ "why": TEXT, "of": TEXT }).to_string()),
        )
    })
    .unwrap();
    run(&mut store, |txn| txn.reword()).unwrap();
    let relic = run(&mut store, |txn| txn.relic(&relic.id)).unwrap();
    assert_eq!(
        (relic.title.as_str(), relic.kind),
        (OTHER_WORDS, RelicKind::Task)
    );
    let now = run(&mut store, |txn| txn.mr(&mr.id)).unwrap();
    mr.note = Some(OTHER_WORDS.into());
    assert_eq!(now, mr, "nothing else of it");
    let inbox = run(&mut store, |txn| txn.inbox(message::SHAMAN)).unwrap();
    let Body::Escalation(now) = &inbox[0].body else {
        panic!("{inbox:?}");
    };
    assert_eq!(now.evidence, OTHER_WORDS);
    assert_eq!(
        (&now.agent, now.problem.kind()),
        (&call.agent, ProblemKind::Unread)
    );
    let filter = EventFilter {
        kind: Some(EventType::MrHeld.as_str().to_owned()),
        ..EventFilter::default()
    };
    let events = run(&mut store, |txn| txn.events(&filter)).unwrap();
    assert_eq!(events[0].subject, "account main");
    let data = json!({ "note": OTHER_WORDS, "mr": mr.id, "list": [OTHER_WORDS, "code", 7] });
    assert_eq!(events[0].data, data);
    let facts = run(&mut store, |txn| Ok((txn.get("plain")?, txn.get("json")?))).unwrap();
    let json = json!({ "why": OTHER_WORDS, "of": TEXT }).to_string();
    assert_eq!(facts, (Some(OTHER_WORDS.into()), Some(json)));
}

/// The journal stays append-only for everything else.
#[test]
fn journal_cannot_be_rewritten_after_a_rewording() {
    let mut store = store();
    let event = NewEvent::new(EventType::MrHeld, "gt-1", Cause::Stuck);
    let event = event.with(json!({ "note": TEXT }));
    run(&mut store, |txn| txn.record(&event)).unwrap();
    run(&mut store, |txn| txn.reword()).unwrap();
    let refused = store.conn.execute("UPDATE events SET data = '{}'", []);
    assert!(refused.is_err());
}
