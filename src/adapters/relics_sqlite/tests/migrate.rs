//! Stores of older versions: what they knew by words is known by codes afterwards.

use std::path::Path;

use rusqlite::{Connection, params};
use serde_json::json;

use super::super::schema;
use super::*;
use crate::domain::message::{Body, SHAMAN};
use crate::domain::problem::{Problem, ProblemKind};
use crate::domain::relic::RelicStatus;
use crate::ports::relics::RelicFilter;

/// The last schema that knew problems by their words.
const WORDS: usize = 7;

/// Whom it is about, the words of an older version, what was seen, and which problem that is.
fn old_calls() -> Vec<(&'static str, &'static str, &'static str, Problem)> {
    use ProblemKind::{
        BudgetSpent, BudgetUnpriced, ChargedInVain, Ground, LandingParked, LandingRefused,
        MessageStuck, ReworkExhausted, SagaForeign, SagaStuck, TargetMoves, Unkillable, Unread,
    };
    let toast = "horde/raiders/Toast";
    let none = |kind: ProblemKind| kind.in_words("");
    let of = |kind: ProblemKind, of: &str| kind.of(of, "");
    let spent = "the budget of rig horde is spent: 3.00 of 3.00 USD today";
    let unpriced =
        "the budget of rig horde does not count all that is used: some tokens have no price";
    let refused = "gt-1 cannot be landed on main; `hd mq retry gt-mr-1` tries again when it can";
    vec![
        (
            toast,
            "whose sandbox it is cannot be read",
            "",
            none(Unread),
        ),
        (
            toast,
            "its session could not be ended",
            "gt-horde-Toast (4f2a): Timeout (60 s)\nlook (state D)",
            of(Unkillable, "4f2a"),
        ),
        (toast, "its done cannot go on", "", of(SagaStuck, "done")),
        (
            "horde/witness",
            "the prune of horde-Nux-1 cannot go on",
            "",
            of(SagaStuck, "prune of horde-Nux-1"),
        ),
        (
            toast,
            "its nuke was begun by another version and cannot go on",
            "",
            of(SagaForeign, "nuke"),
        ),
        (
            "horde/witness",
            "what became of gt-1 of horde/raiders/Toast cannot be dealt with",
            "",
            of(MessageStuck, "gt-1 of horde/raiders/Toast"),
        ),
        (
            toast,
            "gt-mr-1 was tried 5 times and cannot be landed yet",
            "",
            of(LandingParked, "gt-mr-1"),
        ),
        (
            toast,
            "gt-mr-1 cannot be landed: main moves all the time",
            "",
            of(TargetMoves, "gt-mr-1"),
        ),
        (toast, refused, "", of(LandingRefused, "gt-mr-1")),
        (
            toast,
            "gt-1 could not be landed after 3 reworks",
            "",
            none(ReworkExhausted),
        ),
        (
            "horde/witness",
            "gt-1 was charged in vain, 3 times in a row",
            "",
            none(ChargedInVain),
        ),
        ("rig horde", spent, "", none(BudgetSpent)),
        ("rig horde", unpriced, "", none(BudgetUnpriced)),
        (
            "town",
            "/city/.horde/s.lock: it is a FIFO",
            "",
            of(Ground, "/city/.horde/s.lock"),
        ),
        (
            toast,
            "/etc/x: no access",
            "",
            Problem::said("/etc/x: no access"),
        ),
        (toast, "no key", "", Problem::said("no key")),
    ]
}

/// A file with the calls as an older version left them: each as an open escalation, a closed one, an unread message and
/// a handled one.
fn old_store(path: &Path) {
    let mut conn = Connection::open(path).unwrap();
    schema::migrate_to(&mut conn, WORDS).unwrap();
    let mut number = 0;
    for (about, words, evidence, _) in old_calls() {
        for status in ["open", "closed"] {
            number += 1;
            conn.execute(
                "INSERT INTO relics (id, prefix, number, step, kind, title, body, status, priority, created, reworks)
                 VALUES ('esc-' || ?1, 'esc', ?1, 0, 'escalation', ?2, ?3, ?4, 2, 0, 0)",
                params![number, words, evidence, status],
            )
            .unwrap();
            conn.execute(
                "INSERT INTO relic_labels (relic, place, label) VALUES ('esc-' || ?1, 0, 'about:' || ?2)",
                params![number, about],
            )
            .unwrap();
        }
        let body = json!({
            "type": "RECOVERY_NEEDED", "agent": about, "relic": null, "problem": words,
            "severity": "high", "evidence": evidence,
        });
        for handled in [None, Some(1)] {
            conn.execute(
                "INSERT INTO messages (sender, receiver, type, body, sent_at, handled_at)
                 VALUES ('x', 'shaman', 'RECOVERY_NEEDED', ?1, 0, ?2)",
                params![body.to_string(), handled],
            )
            .unwrap();
        }
    }
}

#[test]
fn calls_of_older_versions_get_the_codes_of_their_words() {
    let dir = crate::testing::scratch();
    let path = dir.path().join("relics.db");
    old_store(&path);
    let mut store = SqliteRelics::open(&path, Arc::new(SystemClock::new())).unwrap();
    let relics = run(&mut store, |txn| txn.relics(&RelicFilter::default())).unwrap();
    let inbox = run(&mut store, |txn| txn.inbox(SHAMAN)).unwrap();
    let calls = old_calls();
    assert_eq!((relics.len(), inbox.len()), (2 * calls.len(), calls.len()));
    for (number, (about, words, _, problem)) in calls.into_iter().enumerate() {
        let of = |relic: &&Relic| relic.id.as_str() == format!("esc-{}", 2 * number + 1);
        let relic = relics.iter().find(of).unwrap();
        let stored = Problem::stored(&relic.labels, &relic.title);
        assert_eq!(stored.identity(), problem.identity(), "{words}");
        assert_eq!(
            (relic.labels[0].as_str(), stored.text()),
            (&*format!("about:{about}"), words)
        );
        let Body::RecoveryNeeded(call) = &inbox[number].body else {
            panic!("{:?}", inbox[number]);
        };
        assert_eq!(call.problem.identity(), problem.identity(), "{words}");
        assert_eq!(call.problem.text(), words);
    }
    let closed = relics
        .iter()
        .filter(|relic| relic.status == RelicStatus::Closed);
    assert!(closed.into_iter().all(|relic| relic.labels.len() == 1));
    let coded = "SELECT count(*) FROM messages WHERE handled_at AND body ->> '$.code'";
    let handled: i64 = store.conn.query_row(coded, [], |row| row.get(0)).unwrap();
    assert_eq!(handled, 0, "what was read is left as it was");
}
