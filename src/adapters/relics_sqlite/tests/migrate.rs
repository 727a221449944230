//! Tests of stores of older versions: problems known by their words get codes.

use std::path::Path;

use rusqlite::{Connection, params};
use serde_json::json;

use super::super::schema;
use super::*;
use crate::domain::merge::{HoldReason, MrState, Review};
use crate::domain::message::{Body, SHAMAN};
use crate::domain::problem::{Problem, ProblemKind};
use crate::domain::relic::RelicStatus;
use crate::ports::relics::RelicFilter;

/// The last schema that identified problems by their words.
const WORDS: usize = 7;

/// Subject, words of an older version, evidence; kind of the problem, and the thing that it concerns.
type Call = (
    &'static str,
    &'static str,
    &'static str,
    ProblemKind,
    Option<&'static str>,
);

const TOAST: &str = "horde/raiders/Toast";
const WITNESS: &str = "horde/witness";

/// Calls that name nothing, or are in an agent's own words.
const PLAIN: &[Call] = &[
    (
        TOAST,
        "whose sandbox it is cannot be read",
        "",
        ProblemKind::Unread,
        None,
    ),
    (
        TOAST,
        "gt-1 could not be landed after 3 reworks",
        "",
        ProblemKind::ReworkExhausted,
        None,
    ),
    (
        WITNESS,
        "gt-1 was charged in vain, 3 times in a row",
        "",
        ProblemKind::ChargedInVain,
        None,
    ),
    (
        "rig horde",
        "the budget of rig horde is spent: 3.00 of 3.00 USD today",
        "",
        ProblemKind::BudgetSpent,
        None,
    ),
    (
        "rig horde",
        "the budget of rig horde does not count all that is used: some tokens have no price",
        "",
        ProblemKind::BudgetUnpriced,
        None,
    ),
    (TOAST, "/etc/x: no access", "", ProblemKind::Said, None),
    (TOAST, "no key", "", ProblemKind::Said, None),
];

/// Calls that name the thing that they concern.
const NAMING: &[Call] = &[
    (
        TOAST,
        "its session could not be ended",
        "gt-horde-Toast (4f2a): Timeout (60 s)\nlook (state D)",
        ProblemKind::Unkillable,
        Some("4f2a"),
    ),
    (
        TOAST,
        "its done cannot go on",
        "",
        ProblemKind::SagaStuck,
        Some("done"),
    ),
    (
        WITNESS,
        "the prune of horde-Nux-1 cannot go on",
        "",
        ProblemKind::SagaStuck,
        Some("prune of horde-Nux-1"),
    ),
    (
        TOAST,
        "its nuke was begun by another version and cannot go on",
        "",
        ProblemKind::SagaForeign,
        Some("nuke"),
    ),
    (
        WITNESS,
        "what became of gt-1 of horde/raiders/Toast cannot be dealt with",
        "",
        ProblemKind::MessageStuck,
        Some("gt-1 of horde/raiders/Toast"),
    ),
    (
        TOAST,
        "gt-mr-1 was tried 5 times and cannot be landed yet",
        "",
        ProblemKind::LandingHeld,
        Some("gt-mr-1"),
    ),
    (
        TOAST,
        "gt-mr-1 cannot be landed: main moves all the time",
        "",
        ProblemKind::TargetMoves,
        Some("gt-mr-1"),
    ),
    (
        TOAST,
        "gt-1 cannot be landed on main; `hd mq retry gt-mr-1` tries again when it can",
        "",
        ProblemKind::LandingRefused,
        Some("gt-mr-1"),
    ),
    (
        "city",
        "/city/.horde/s.lock: it is a FIFO",
        "",
        ProblemKind::Ground,
        Some("/city/.horde/s.lock"),
    ),
];

fn old_calls() -> impl Iterator<Item = (&'static str, &'static str, &'static str, Problem)> {
    let all = PLAIN.iter().chain(NAMING);
    all.map(|(about, words, evidence, kind, of)| {
        let problem = match of {
            Some(of) => kind.of(of, *words),
            None => kind.in_words(*words),
        };
        (*about, *words, *evidence, problem)
    })
}

/// Makes a file with the calls of an older version: each as an open escalation, a closed one, an unread message and a
/// handled one.
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
    let calls: Vec<_> = old_calls().collect();
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

/// A standing agent's words about a path are no problem with the supervisor's own files, although 0008 took them for
/// one.
#[test]
fn call_of_a_standing_agent_that_begins_with_a_slash_is_in_its_own_words() {
    let dir = crate::testing::scratch();
    let path = dir.path().join("relics.db");
    let words = "/etc/x: no access";
    let mut conn = Connection::open(&path).unwrap();
    schema::migrate_to(&mut conn, WORDS).unwrap();
    conn.execute(
        "INSERT INTO events (ts, type, subject, cause, data) VALUES (0, 'controller.started', 'city', 'startup', '{}')",
        [],
    )
    .unwrap();
    for (number, about) in [(1, "mayor"), (2, "city")] {
        conn.execute(
            "INSERT INTO relics (id, prefix, number, step, kind, title, body, status, priority, created, reworks)
             VALUES ('esc-' || ?1, 'esc', ?1, 0, 'escalation', ?2, '', 'open', 2, 0, 0)",
            params![number, words],
        )
        .unwrap();
        conn.execute(
            "INSERT INTO relic_labels (relic, place, label) VALUES ('esc-' || ?1, 0, 'about:' || ?2)",
            params![number, about],
        )
        .unwrap();
        let body = json!({
            "type": "ESCALATION", "agent": about, "relic": null, "problem": words,
            "severity": "high", "evidence": "",
        });
        conn.execute(
            "INSERT INTO messages (sender, receiver, type, body, sent_at, handled_at)
             VALUES ('x', 'shaman', 'ESCALATION', ?1, 0, NULL)",
            [body.to_string()],
        )
        .unwrap();
    }
    drop(conn);
    let mut store = SqliteRelics::open(&path, Arc::new(SystemClock::new())).unwrap();
    let mut relics = run(&mut store, |txn| txn.relics(&RelicFilter::default())).unwrap();
    relics.sort_by(|a, b| a.id.as_str().cmp(b.id.as_str()));
    let stored = |relic: &Relic| Problem::stored(&relic.labels, &relic.title);
    let kinds: Vec<_> = relics.iter().map(|relic| stored(relic).kind()).collect();
    assert_eq!(kinds, [ProblemKind::Said, ProblemKind::Ground]);
    let inbox = run(&mut store, |txn| txn.inbox(SHAMAN)).unwrap();
    let called = inbox.iter().map(|message| match &message.body {
        Body::Escalation(call) => call.problem.clone(),
        other => panic!("{other:?}"),
    });
    let called: Vec<_> = called.collect();
    let own = ProblemKind::Ground.of("/etc/x", words);
    assert_eq!(
        called[0].identity(),
        Problem::in_own_words(words).identity()
    );
    assert_eq!(called[1].identity(), own.identity());
}

/// The last schema with decisions that were read from the journal.
const JOURNAL: usize = 8;

/// Merge requests of an older version: state, review, note, and the time that it waits for.
const OLD: [(&str, &str, Option<&str>, Option<i64>); 7] = [
    ("reviewing", "wanted", Some("a person must look"), None),
    ("reviewing", "wanted", None, None),
    ("reviewing", "approved", Some("approved"), None),
    (
        "queued",
        "none",
        Some("c has changes; commit or stash them and it will land: a"),
        Some(1),
    ),
    (
        "queued",
        "none",
        Some("main moved 9 times while this was tested and pushed; x"),
        Some(1),
    ),
    ("queued", "none", Some("the target cannot be read"), Some(1)),
    ("merged", "none", None, None),
];

/// Makes a relic with a merge request for each row of [`OLD`], whose second event is a hold, and a hook.
fn journalled(path: &Path) {
    let mut conn = Connection::open(path).unwrap();
    schema::migrate_to(&mut conn, JOURNAL).unwrap();
    conn.execute_batch(
        "INSERT INTO relics (id, prefix, number, step, kind, title, body, status, priority, created, reworks)
         VALUES ('gt-1', 'gt', 1, 0, 'task', 'a', '', 'hooked', 0, 0, 0);
         INSERT INTO hooks (raider, rig, incarnation, relic, branch, base, target, harness, charged_at)
         VALUES ('horde/raiders/Toast', 'horde', 2, 'gt-1', 'b', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',
                 'main', 'script', 0);",
    )
    .unwrap();
    let event = |ts: i64, kind: &str, subject: &str, cause: &str, data: serde_json::Value| {
        conn.execute(
            "INSERT INTO events (ts, type, subject, cause, data) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![ts * 1_000_000, kind, subject, cause, data.to_string()],
        )
        .unwrap();
        let seq = conn.last_insert_rowid();
        for about in [Some(subject), data["mr"].as_str()].into_iter().flatten() {
            let known = "INSERT OR IGNORE INTO event_subjects (subject, seq) VALUES (?1, ?2)";
            conn.execute(known, params![about, seq]).unwrap();
        }
    };
    for (number, (state, review, note, until)) in (2..).zip(OLD) {
        let id = format!("gt-{number}");
        conn.execute(
            "INSERT INTO relics (id, prefix, number, step, kind, title, body, status, priority, created, reworks)
             VALUES (?1, 'gt', ?2, 0, 'merge_request', 'm', '', 'open', 0, 0, 0)",
            params![id, number],
        )
        .unwrap();
        conn.execute(
            "INSERT INTO merge_requests (id, rig, relic, raider, incarnation, branch, head, target, state, open,
                 priority, queued_at, attempts, not_before, gates, conflict_files, note, review)
             VALUES (?1, 'horde', 'gt-1', 'horde/raiders/Toast', ?2, 'b',
                 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'main', ?3, ?4, 0, 0, 0, ?5, '[]', '[]', ?6, ?7)",
            params![id, number, state, state != "merged", until, note, review],
        )
        .unwrap();
        for ts in [10, 20] {
            event(ts, "mr.held", &id, "done", json!({ "mr": id }));
        }
    }
    let toast = "horde/raiders/Toast";
    event(
        30,
        "raider.merged",
        toast,
        "merged",
        json!({ "mr": "gt-8" }),
    );
    for (incarnation, written) in [(1, "2026-01-01T00:00:00Z"), (2, "2026-01-02T00:00:00Z")] {
        let data = json!({ "incarnation": incarnation, "written": written });
        event(
            40 + incarnation,
            "raider.nudged",
            toast,
            "outcome_file",
            data,
        );
        let data = json!({ "incarnation": incarnation, "class": "stuck_in_done" });
        event(50 + incarnation, "raider.zombie", toast, "done", data);
    }
}

#[test]
fn facts_that_older_versions_read_from_the_journal_are_on_the_records() {
    use HoldReason::{Checkout, Infra, Review, Target};
    let dir = crate::testing::scratch();
    let path = dir.path().join("relics.db");
    journalled(&path);
    let mut store = SqliteRelics::open(&path, Arc::new(SystemClock::new())).unwrap();
    let mrs = run(&mut store, |txn| txn.mrs_of(&id("gt-1"))).unwrap();
    let second = |at: i64| Some(Timestamp::from_second(at).unwrap());
    let holds: Vec<_> = mrs.iter().map(|mr| mr.hold).collect();
    let expected = [
        Some(Review),
        None,
        None,
        Some(Checkout),
        Some(Target),
        Some(Infra),
        None,
    ];
    assert_eq!(holds, expected);
    for mr in &mrs {
        assert_eq!(mr.held_since, mr.hold.and(second(20)), "{mr:?}");
        let merged = mr.state == MrState::Merged;
        assert_eq!(mr.settled_at, second(30).filter(|_| merged), "{mr:?}");
    }
    assert!(mrs[0].awaits_person() && mrs[3].needs_person() && !mrs[5].needs_person());
    let fact = |store: &mut SqliteRelics, key: &str| {
        let text = run(store, |txn| txn.get(key)).unwrap().unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    };
    assert_eq!(
        fact(&mut store, "outcome/horde/raiders/Toast"),
        json!({
            "incarnation": 2, "count": 1,
            "last": ["1970-01-01T00:00:42Z", "2026-01-02T00:00:00Z"],
        })
    );
    assert_eq!(
        fact(&mut store, "zombie/horde/raiders/Toast"),
        json!({ "incarnation": 2, "classes": { "stuck_in_done": "1970-01-01T00:00:52Z" } })
    );
}

/// The last schema that did not tell a rejection from a withdrawal.
const UNTOLD: usize = 22;

/// A withdrawal was taken for a rejection by the end of its review.
#[test]
fn rejections_of_older_versions_are_told_from_withdrawals_by_their_notes() {
    let dir = crate::testing::scratch();
    let path = dir.path().join("relics.db");
    let mut conn = Connection::open(&path).unwrap();
    schema::migrate_to(&mut conn, UNTOLD).unwrap();
    conn.execute_batch(
        "INSERT INTO relics (id, prefix, number, step, kind, title, body, status, priority, created, reworks)
         VALUES ('gt-1', 'gt', 1, 0, 'task', 'a', '', 'open', 0, 0, 0);",
    )
    .unwrap();
    let rows = [
        ("rejected", None, Review::Rejected),
        (
            "rejected",
            Some("the flag must be --json"),
            Review::Rejected,
        ),
        ("rejected", Some("its relic was closed"), Review::Wanted),
        ("rejected", Some("its relic is closed"), Review::Wanted),
        (
            "rejected",
            Some("its raider was nuked before the work was verified"),
            Review::Wanted,
        ),
        ("failed", Some("gate test failed"), Review::Wanted),
    ];
    for (number, (state, note, _)) in (2..).zip(&rows) {
        let id = format!("gt-{number}");
        conn.execute(
            "INSERT INTO relics (id, prefix, number, step, kind, title, body, status, priority, created, reworks)
             VALUES (?1, 'gt', ?2, 0, 'merge_request', 'm', '', 'open', 0, 0, 0)",
            params![id, number],
        )
        .unwrap();
        conn.execute(
            "INSERT INTO merge_requests (id, rig, relic, raider, incarnation, branch, head, target, state, open,
                 priority, queued_at, attempts, gates, conflict_files, note, review)
             VALUES (?1, 'horde', 'gt-1', 'horde/raiders/Toast', ?2, 'b',
                 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'main', ?3, 0, 0, 0, 0, '[]', '[]', ?4, 'wanted')",
            params![id, number, state, note],
        )
        .unwrap();
    }
    drop(conn);
    let mut store = SqliteRelics::open(&path, Arc::new(SystemClock::new())).unwrap();
    let mrs = run(&mut store, |txn| txn.mrs_of(&id("gt-1"))).unwrap();
    let reviews: Vec<_> = mrs.iter().map(|mr| mr.review).collect();
    assert_eq!(reviews, rows.map(|(_, _, review)| review));
}
