//! The golden files of the protocol, and requests that are refused.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::*;

fn golden(name: &str) -> Vec<Value> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/protocol");
    let path: PathBuf = dir.join(name);
    let text = fs::read_to_string(&path).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn rejected(line: &str) -> Rejected {
    match Request::parse(line) {
        Err(rejected) => rejected,
        Ok(request) => {
            let error = Op::parse(request.op, request.args).unwrap_err();
            Rejected {
                id: request.id,
                error,
            }
        }
    }
}

#[test]
fn every_operation_has_a_golden_request_that_reads_and_writes_the_same() {
    let mut seen = BTreeSet::new();
    for line in golden("requests.json") {
        let request = Request::parse(&line.to_string()).unwrap();
        seen.insert(request.op);
        let op = Op::parse(request.op, request.args).unwrap();
        let again = Request::line(request.id.as_str().unwrap(), &op);
        assert_eq!(serde_json::from_str::<Value>(&again).unwrap(), line);
    }
    let all: BTreeSet<_> = OpName::ALL.iter().copied().collect();
    assert_eq!(seen, all, "operations without a golden request");
}

#[test]
fn other_spellings_mean_the_same() {
    for pair in golden("spellings.json") {
        let op = |line: &Value| {
            let request = Request::parse(&line.to_string()).unwrap();
            Op::parse(request.op, request.args).unwrap()
        };
        assert_eq!(op(&pair[0]), op(&pair[1]));
    }
}

#[test]
fn answers_read_and_write_the_same() {
    let mut kinds = BTreeSet::new();
    for line in golden("answers.json") {
        let response: Response = serde_json::from_value(line.clone()).unwrap();
        if let Body::Failed(error) = &response.body {
            kinds.insert(serde_json::to_string(&error.kind).unwrap());
        }
        let again: Value = serde_json::from_str(&response.line()).unwrap();
        assert_eq!(again, line);
    }
    assert_eq!(
        kinds.len(),
        ErrorKind::ALL.len(),
        "kinds without a golden answer"
    );
}

#[test]
fn bad_requests_are_answered_with_the_fault_and_a_suggestion() {
    for case in golden("refused.json") {
        let line = match &case["request"] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let rejected = rejected(&line);
        let told = Response {
            id: rejected.id,
            body: Body::Failed(rejected.error),
        };
        let told: Value = serde_json::from_str(&told.line()).unwrap();
        assert_eq!(told, case["answer"], "{line}");
    }
}

#[test]
fn kinds_decide_exit_codes() {
    let codes: Vec<_> = ErrorKind::ALL
        .iter()
        .map(|kind| {
            let name = serde_json::to_value(kind).unwrap();
            (name.as_str().unwrap().to_owned(), kind.exit().code())
        })
        .collect();
    let expected = [
        ("bad_request", 2),
        ("not_found", 4),
        ("refused", 5),
        ("forbidden", 1),
        ("conflict", 1),
        ("unavailable", 3),
        ("needs_human", 7),
        ("parked", 9),
        ("timeout", 6),
        ("version", 10),
        ("internal", 1),
    ];
    let expected: Vec<_> = expected.map(|(name, code)| (name.to_owned(), code)).into();
    assert_eq!(codes, expected);
}

#[test]
fn a_kind_of_a_later_version_is_read_as_internal() {
    let line = json!({"id":"1","ok":false,"error":{"kind":"tired","message":"no"}});
    let response: Response = serde_json::from_value(line).unwrap();
    let Body::Failed(error) = response.body else {
        panic!("not an error");
    };
    assert_eq!(error.kind, ErrorKind::Internal);
}

#[test]
fn destructive_operations_need_consent() {
    let op = |args: Value| match Op::parse(OpName::RaiderNuke, args.as_object().unwrap().clone()) {
        Ok(op) => op.consented(),
        Err(error) => panic!("{error}"),
    };
    assert!(op(json!({"name":"Toast"})).is_err());
    assert!(op(json!({"name":"Toast","salvage":true})).is_err());
    assert!(op(json!({"name":"Toast","yes":true})).is_ok());
    assert!(op(json!({"name":"Toast","dry_run":true})).is_ok());
}

/// Arguments with a `yes` belong to an operation that destroys something: each refuses to run without it. Whether a
/// relic is hooked is known to the handler of `relic.close` only.
#[test]
fn every_operation_that_takes_consent_asks_for_it() {
    let mut refuses = BTreeSet::new();
    for line in golden("requests.json") {
        let mut request = Request::parse(&line.to_string()).unwrap();
        let op = request.op;
        for consent in ["yes", "dry_run"] {
            request.args.remove(consent);
        }
        let without = Op::parse(op, request.args.clone()).unwrap();
        if without.consented().is_err() {
            request.args.insert("yes".to_owned(), true.into());
            let given = Op::parse(op, request.args).unwrap();
            assert_eq!(given.consented(), Ok(()), "{op}");
            refuses.insert(op);
        }
    }
    let takes = |op: &OpName| op.keys().contains(&"yes") && *op != OpName::RelicClose;
    let all: BTreeSet<_> = OpName::ALL.iter().copied().filter(takes).collect();
    assert_eq!(refuses, all);
}

#[test]
fn an_intent_reads_as_it_was_written() {
    let text = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/protocol/intent.json"),
    )
    .unwrap();
    let intent: Intent = serde_json::from_str(&text).unwrap();
    let op = Op::parse(intent.op.parse().unwrap(), intent.args.clone()).unwrap();
    assert_eq!(op.name(), OpName::Done);
    let again = serde_json::to_value(&intent).unwrap();
    assert_eq!(again, serde_json::from_str::<Value>(&text).unwrap());
}
