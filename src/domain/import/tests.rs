//! Tables of formats, states, priorities and orders.

use super::*;

fn items(text: &str, format: Format) -> Vec<Item> {
    let parsed = parse(text, format).unwrap();
    parsed.items.into_iter().map(|placed| placed.item).collect()
}

fn refused(text: &str, format: Format) -> (usize, String) {
    let fault = parse(text, format).unwrap_err();
    (fault.line, fault.why)
}

fn source(system: &str, id: &str) -> Source {
    Source {
        system: system.into(),
        id: id.into(),
    }
}

#[test]
fn the_format_is_recognised_by_its_first_record() {
    let rows = [
        ("[]", Format::Github),
        ("\n [ {\"number\": 1} ]", Format::Github),
        (r#"{"number":1,"title":"a","state":"OPEN"}"#, Format::Github),
        (
            r#"{"id":"bd-1","title":"a","issue_type":"bug"}"#,
            Format::Beads,
        ),
        (
            r#"{"id":"bd-1","title":"a","created_at":"2026-01-01T00:00:00Z"}"#,
            Format::Beads,
        ),
        (
            r#"{"id":"gt-1","title":"a","deps":[],"created":"2026-01-01T00:00:00Z"}"#,
            Format::Jsonl,
        ),
        (r#"{"id":"gt-1","title":"a"}"#, Format::Jsonl),
        ("", Format::Jsonl),
        ("not json", Format::Jsonl),
    ];
    for (text, format) in rows {
        assert_eq!(Format::of(text), format, "{text}");
    }
}

#[test]
fn priorities_of_beads_are_turned_round() {
    let rows = [(0, 4), (1, 3), (2, 2), (3, 1), (4, 0)];
    for (theirs, ours) in rows {
        assert_eq!(beads::priority(theirs), Ok(ours));
    }
    for wrong in [-1, 5] {
        assert!(beads::priority(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn states_of_beads_are_mapped() {
    use RelicStatus::{Blocked, Closed, Deferred, Open};
    let rows = [
        ("open", Some(Open)),
        ("in_progress", Some(Open)),
        ("hooked", Some(Open)),
        ("pinned", Some(Open)),
        ("blocked", Some(Blocked)),
        ("deferred", Some(Deferred)),
        ("closed", Some(Closed)),
        ("tombstone", None),
    ];
    for (word, status) in rows {
        assert_eq!(beads::status(word), Ok(status), "{word}");
    }
    assert!(beads::status("odd").is_err());
}

#[test]
fn labels_of_github_give_a_priority() {
    let rows = [
        ("P0", Some(4)),
        ("critical", Some(4)),
        ("Priority: Critical", Some(4)),
        ("urgent", Some(4)),
        ("p1", Some(3)),
        ("priority: high", Some(3)),
        ("priority/high", Some(3)),
        ("high priority", Some(3)),
        ("prio-medium", Some(2)),
        ("priority:P2", Some(2)),
        ("priority: low", Some(1)),
        ("P3", Some(1)),
        ("priority: trivial", Some(0)),
        ("P4", Some(0)),
        // A word of everyday speech counts only beside `priority`.
        ("high", None),
        ("low hanging fruit", None),
        ("bug", None),
        ("priority", None),
        ("priority: odd", None),
    ];
    for (label, expected) in rows {
        assert_eq!(github::priority(label), expected, "{label}");
    }
}

/// Status before, whether a raider or the queue has it, the file's status; status after.
#[test]
fn an_import_leaves_hooked_and_closed_relics_as_they_are() {
    use RelicStatus::{Blocked, Closed, Deferred, Hooked, Open};
    let rows = [
        (Open, false, Open, Open),
        (Open, false, Closed, Closed),
        (Open, false, Blocked, Blocked),
        (Open, false, Deferred, Deferred),
        (Open, false, Hooked, Open),
        (Open, true, Closed, Open),
        (Blocked, false, Open, Blocked),
        (Blocked, false, Closed, Closed),
        (Blocked, true, Closed, Blocked),
        (Deferred, false, Open, Deferred),
        (Deferred, false, Closed, Closed),
        (Hooked, true, Closed, Hooked),
        (Hooked, true, Open, Hooked),
        (Closed, false, Open, Closed),
        (Closed, false, Blocked, Closed),
    ];
    for (now, bound, given, after) in rows {
        let found = status_after(now, bound, given);
        assert_eq!(found, after, "{now:?} {bound} {given:?}");
    }
    assert_eq!(status_at_first(Hooked), Open);
    assert_eq!(status_at_first(Closed), Closed);
}

#[test]
fn an_issue_of_beads_becomes_an_item() {
    let text = r#"{"id":"bd-2","title":" fix it ","description":"how","design":"so","notes":"","acceptance_criteria":"green","status":"in_progress","priority":1,"issue_type":"bug","labels":["ui"],"assignee":"alice","dependencies":[{"issue_id":"bd-2","depends_on_id":"bd-1","type":"blocks"},{"issue_id":"bd-2","depends_on_id":"bd-9","type":"parent-child"},{"issue_id":"bd-2","depends_on_id":"bd-8","type":"related"}],"created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-02T00:00:00Z","external_ref":"gh-7"}
{"id":"bd-3","title":"gone","status":"tombstone"}"#;
    let parsed = parse(text, Format::Beads).unwrap();
    assert_eq!(parsed.skipped["deleted"], 1);
    assert_eq!(parsed.skipped["links"], 1);
    let item = &parsed.items[0].item;
    assert_eq!(item.source, source("beads", "bd-2"));
    assert_eq!(item.title, "fix it");
    assert_eq!(
        item.body,
        "how\n\n## Design\n\nso\n\n## Acceptance criteria\n\ngreen\n\n## External reference\n\ngh-7"
    );
    assert_eq!((item.status, item.priority), (RelicStatus::Open, Some(3)));
    assert_eq!(item.labels, ["ui", "bug"]);
    assert_eq!(item.assignee.as_deref(), Some("alice"));
    assert_eq!(item.deps, Some(vec![source("beads", "bd-1")]));
    assert_eq!(item.parent, Some(source("beads", "bd-9")));
}

#[test]
fn issues_of_gh_and_of_the_rest_api_become_items() {
    let gh = r#"[{"number":7,"title":"a","body":"b","labels":[{"name":"priority: high"},{"name":"ui"}],"state":"CLOSED","assignees":[{"login":"alice"},{"login":"bob"}],"createdAt":"2026-01-01T00:00:00Z","closedAt":"2026-01-02T00:00:00Z","url":"https://github.com/o/r/issues/7"}]"#;
    let item = items(gh, Format::Github).remove(0);
    assert_eq!(
        item.source,
        source("github", "https://github.com/o/r/issues/7")
    );
    assert_eq!((item.status, item.priority), (RelicStatus::Closed, Some(3)));
    assert_eq!(item.assignee.as_deref(), Some("alice, bob"));
    assert!(item.closed.is_some() && item.deps.is_none());
    let rest = r#"[{"number":7,"title":"a","body":null,"labels":["p0"],"state":"open","assignees":[],"created_at":"2026-01-01T00:00:00Z","url":"https://api.github.com/x","html_url":"https://github.com/o/r/issues/7"},
{"number":8,"title":"a pull request","state":"open","pull_request":{"url":"x"}}]
[{"number":9,"title":"of the next page","state":"open"}]"#;
    let parsed = parse(rest, Format::Github).unwrap();
    assert_eq!(parsed.skipped["pull_requests"], 1);
    let [first, last] = parsed.items.as_slice() else {
        panic!("{parsed:?}");
    };
    assert_eq!(first.item.source, item.source);
    assert_eq!(first.item.priority, Some(4));
    assert_eq!(last.line, 3);
    assert_eq!(last.item.source, source("github", "#9"));
}

#[test]
fn a_line_of_an_export_keeps_its_identity_and_links() {
    let text = r#"{"id":"gt-1","kind":"task","title":"a","status":"hooked","assignee":"horde/raiders/Toast","source":{"system":"city:AB","id":"gt-1"}}
{"id":"gt-2","title":"b","parent":"gt-1","deps":["gt-1","gt-9"],"priority":2}
{"id":"gt-3","kind":"merge_request","title":"c"}"#;
    let parsed = parse(text, Format::Jsonl).unwrap();
    assert_eq!(parsed.skipped["other_kinds"], 1);
    let [a, b] = parsed.items.as_slice() else {
        panic!("{parsed:?}");
    };
    assert_eq!(a.item.source, source("city:AB", "gt-1"));
    assert_eq!(a.item.assignee, None, "its raider is another city's");
    assert_eq!(b.item.source, source("jsonl", "gt-2"));
    assert_eq!(b.item.parent, Some(source("city:AB", "gt-1")));
    let deps = vec![source("city:AB", "gt-1"), source("relic", "gt-9")];
    assert_eq!(b.item.deps, Some(deps));
}

#[test]
fn a_fault_names_its_line() {
    let good = r#"{"id":"a","title":"t"}"#;
    let rows = [
        (Format::Jsonl, format!("{good}\n\nnot json"), 3, "expected"),
        (
            Format::Jsonl,
            format!("{good}\n{{\"id\":\"b\"}}"),
            2,
            "title",
        ),
        (
            Format::Jsonl,
            format!("{good}\n{good}"),
            2,
            "line 1 already",
        ),
        (
            Format::Jsonl,
            r#"{"id":"a","title":" "}"#.to_owned(),
            1,
            "no title",
        ),
        (
            Format::Jsonl,
            r#"{"id":"a","title":"t","status":"odd"}"#.to_owned(),
            1,
            "odd",
        ),
        (
            Format::Jsonl,
            format!("{good}\n{{\"id\":\"b\",\"title\":\"t\",\"branch\":\"a..b\"}}"),
            2,
            "its branch \"a..b\"",
        ),
        (
            Format::Jsonl,
            r#"{"id":"a","title":"t","target":"-x"}"#.to_owned(),
            1,
            "its target \"-x\"",
        ),
        (
            Format::Beads,
            r#"{"id":"a","title":"t","priority":9}"#.to_owned(),
            1,
            "priority is 9",
        ),
        (
            Format::Github,
            "[{\"number\":1,\"title\":\"t\",\"state\":\"open\"},\n{\"number\":2}]".to_owned(),
            1,
            "issue 2 of the array",
        ),
        (Format::Github, "[\n{]".to_owned(), 2, "key"),
    ];
    for (format, text, line, why) in rows {
        let (found, said) = refused(&text, format);
        assert_eq!(found, line, "{text}: {said}");
        assert!(said.contains(why), "{text}: {said}");
        assert!(!said.contains(" at line "), "{said}");
    }
}

/// Makes lines of (id, parent, dependencies).
fn graph(rows: &[(&str, Option<&str>, &[&str])]) -> Vec<Placed> {
    let line = |(id, parent, deps): &(&str, Option<&str>, &[&str])| {
        serde_json::json!({ "id": id, "title": id, "parent": parent, "deps": deps }).to_string()
    };
    let text: Vec<_> = rows.iter().map(line).collect();
    parse(&text.join("\n"), Format::Jsonl).unwrap().items
}

fn ids(sorted: &[Placed]) -> Vec<&str> {
    sorted
        .iter()
        .map(|one| one.item.source.id.as_str())
        .collect()
}

#[test]
fn records_come_after_their_dependencies_and_their_parent() {
    let sorted = ordered(graph(&[
        ("a", Some("d"), &["b"]),
        ("b", None, &["c", "outside"]),
        ("c", Some("d"), &[]),
        ("d", None, &[]),
    ]));
    assert_eq!(ids(&sorted.unwrap()), ["d", "c", "b", "a"]);
}

/// A parent that waits for its steps is no cycle: a step comes first, and again with its parent.
#[test]
fn a_step_whose_parent_waits_for_it_gets_its_parent_at_the_end() {
    let sorted = ordered(graph(&[("a", None, &["a.1"]), ("a.1", Some("a"), &[])])).unwrap();
    assert_eq!(ids(&sorted), ["a.1", "a", "a.1"]);
    assert_eq!(sorted[0].item.parent, None);
    assert_eq!(sorted[2].item.parent, Some(source("jsonl", "a")));
}

#[test]
fn a_cycle_is_refused_with_its_line_and_its_records() {
    let refused = ordered(graph(&[
        ("z", None, &["a"]),
        ("a", None, &["b"]),
        ("b", None, &["c"]),
        ("c", None, &["a"]),
    ]));
    let fault = refused.unwrap_err();
    assert_eq!(fault.line, 2);
    assert_eq!(
        fault.why,
        "a would depend on itself: a \u{2192} b \u{2192} c \u{2192} a"
    );
}

#[test]
fn a_record_that_is_a_step_of_itself_is_refused_with_its_line() {
    let none: &[&str] = &[];
    let rows = [
        (
            vec![
                ("z", Some("a"), none),
                ("a", Some("b"), none),
                ("b", Some("a"), none),
            ],
            2,
            "a would be a step of itself: a \u{2192} b \u{2192} a",
        ),
        (
            vec![("y", None, none), ("x", Some("x"), none)],
            2,
            "x would be a step of itself: x \u{2192} x",
        ),
        (
            vec![("a", Some("b"), &["b"][..]), ("b", Some("a"), none)],
            1,
            "a would be a step of itself: a \u{2192} b \u{2192} a",
        ),
    ];
    for (records, line, why) in rows {
        let fault = ordered(graph(&records)).unwrap_err();
        assert_eq!((fault.line, fault.why.as_str()), (line, why));
    }
}
