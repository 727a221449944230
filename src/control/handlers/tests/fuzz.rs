//! Fuzzing of the socket: each line gets an answer, nothing panics or hangs, and a caller with read rights changes
//! nothing. Real server, real handlers, a city of fakes.
//!
//! In `cargo test` a few cases of one seed; in the long tier a million lines of others. The seed is
//! printed, and `HORDE_SEED` repeats it.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestError;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};

use crate::actors::ask;
use crate::actors::mail::Charged;
use crate::actors::mail::StopEnd;
use crate::control::handlers::Handlers;
use crate::control::protocol::{LINE_MAX, OpName};
use crate::control::server::{bind, serve};
use crate::domain::city::{RestartType, Rights};
use crate::domain::event::EventType;
use crate::ports::relics::{EventFilter, RelicFilter};
use crate::testing::seeded;
use crate::testing::tier::by_tier;
use crate::testing::world::{Scenario, TestCity, agent};

/// The virtual time after which a request counts as hanging; no operation takes as long.
const HANG: Duration = Duration::from_secs(2 * 3600);
/// The writer of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caller {
    Operator,
    Raider,
    Agent(Rights),
    Errand(Rights),
    Invisible,
}

impl Caller {
    const ALL: [Self; 8] = [
        Self::Operator,
        Self::Raider,
        Self::Agent(Rights::Read),
        Self::Agent(Rights::Work),
        Self::Agent(Rights::All),
        Self::Errand(Rights::Read),
        Self::Errand(Rights::Work),
        Self::Invisible,
    ];

    fn only_looks(self) -> bool {
        matches!(self, Self::Errand(Rights::Read) | Self::Invisible)
    }
}

fn odd_text() -> impl Strategy<Value = String> {
    const KNOWN: &[&str] = &[
        "Toast",
        "Shadow",
        "horde/Toast",
        "horde/raiders/Toast",
        "horde",
        "gt-1",
        "gt-2",
        "mayor",
        "city-mayor",
        "gt-horde-Toast",
        "completed",
        "deferred",
        "clean",
        "script",
        "main",
    ];
    const TRICKS: &[&str] = &[
        "",
        " ",
        "..",
        "../..",
        "../../etc/passwd",
        "/",
        "//",
        "a/../b",
        "horde/raiders/..",
        "\0",
        "Toast\0",
        "\u{202e}tsaoT",
        "Tóast",
        "-rf",
        "--yes",
        "$(reboot)",
        "'; drop table relics",
        "gt-0",
        "gt--1",
        "gt-18446744073709551616",
        "%s%n",
        "\r\n",
        "refs/heads/main",
        "HEAD@{1}",
        "999999999999999999h",
        "-1s",
        "0000-00-00",
        "+999999999-12-31T23:59:59Z",
        "1e400",
    ];
    prop_oneof![
        6 => select(KNOWN).prop_map(str::to_owned),
        4 => select(TRICKS).prop_map(str::to_owned),
        2 => any::<String>(),
        1 => (0_usize..20_000).prop_map(|n| "x".repeat(n)),
    ]
}

fn odd_value() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        select(&[0, 1, u64::MAX, i64::MAX as u64, i64::MAX as u64 + 1][..]).prop_map(Value::from),
    ];
    let leaf = prop_oneof![
        6 => odd_text().prop_map(Value::from),
        2 => number,
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(4, 16, 4, |inner| {
        prop_oneof![
            4 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            1 => prop::collection::btree_map(odd_text(), inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Returns a valid request of each kind.
fn golden() -> Vec<Value> {
    serde_json::from_str(include_str!(
        "../../../../tests/data/protocol/requests.json"
    ))
    .unwrap()
}

/// Generates a request with a few invalid places.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), odd_value()), 0..3);
    let extra = prop::option::weighted(0.1, (odd_text(), odd_value()));
    let ops = prop::option::weighted(0.1, select(OpName::ALL));
    let envelope =
        prop::option::weighted(0.05, (select(&["v", "id", "op", "args"][..]), odd_value()));
    (select(golden()), changes, extra, ops, envelope).prop_map(
        |(mut line, changes, extra, op, envelope)| {
            let mut args: Map<String, Value> =
                serde_json::from_value(line["args"].clone()).unwrap();
            for (which, value) in changes {
                let keys: Vec<_> = args.keys().cloned().collect();
                if !keys.is_empty() {
                    args.insert(which.get(&keys).clone(), value);
                }
            }
            args.extend(extra);
            line["args"] = args.into();
            if let Some(op) = op {
                line["op"] = op.as_str().into();
            }
            if let Some((key, value)) = envelope {
                line[key] = value;
            }
            line.to_string().into_bytes()
        },
    )
}

fn line() -> impl Strategy<Value = Vec<u8>> {
    let deep = (
        1_usize..3000,
        select(&["[", "{\"a\":", "{\"v\":1,\"id\":["][..]),
    );
    let any_line = prop_oneof![
        40 => request(),
        3 => prop::collection::vec(any::<u8>(), 0..200),
        3 => any::<String>().prop_map(String::into_bytes),
        2 => odd_value().prop_map(|value| value.to_string().into_bytes()),
        1 => deep.prop_map(|(depth, part)| part.repeat(depth).into_bytes()),
        // Cut off somewhere.
        2 => (request(), any::<prop::sample::Index>()).prop_map(|(mut line, at)| {
            line.truncate(at.index(line.len()));
            line
        }),
    ];
    any_line.prop_map(|mut line| {
        line.retain(|byte| *byte != b'\n');
        line.truncate(LINE_MAX);
        line
    })
}

/// The state that a caller with read rights must not change.
async fn snapshot(city: &TestCity) -> Vec<String> {
    let stored = city.store(|txn| {
        let mut events = txn.events(&EventFilter {
            limit: usize::MAX,
            ..EventFilter::default()
        })?;
        events.retain(|event| event.kind != EventType::ControlForbidden.as_str());
        Ok(format!(
            "{:?} {:?} {:?} {:?} {events:?}",
            txn.relics(&RelicFilter::default())?,
            txn.hooks(None)?,
            txn.mrs(None, false)?,
            txn.salvages()?,
        ))
    });
    let (sessions, repo) = (&city.parts.sessions, &city.parts.repo);
    vec![
        stored.await,
        format!(
            "{:?} {:?} {:?}",
            sessions.history(),
            sessions.stops(),
            sessions.running()
        ),
        format!(
            "{:?} {:?} {:?}",
            repo.names(),
            repo.pins(),
            repo.remote_branches()
        ),
    ]
}

/// The state of another raider.
async fn others(city: &TestCity, other: &Charged) -> String {
    let hook = city.hook(&other.raider).await;
    let relic = city.relic_now(&other.relic).await;
    let mayor = city.starts(&city.session(&agent("mayor")));
    let stops = city.parts.sessions.stops();
    let stopped = stops.iter().any(|(handle, _)| handle.id == other.session);
    format!(
        "{hook:?} {relic:?} {mayor} {stopped} {}",
        city.starts(&other.session)
    )
}

struct Peer(BufReader<UnixStream>);

impl Peer {
    async fn at(path: &std::path::Path) -> Self {
        Self(BufReader::new(UnixStream::connect(path).await.unwrap()))
    }

    async fn send(&mut self, line: &[u8]) {
        self.0.get_mut().write_all(line).await.unwrap();
        self.0.get_mut().write_all(b"\n").await.unwrap();
    }

    /// Reads the next answer, and skips the items of a stream.
    async fn answer(&mut self) -> Value {
        loop {
            let mut said = String::new();
            let read = tokio::time::timeout(HANG, self.0.read_line(&mut said)).await;
            let read = read.expect("it hangs").unwrap();
            assert!(read > 0, "the connection was closed");
            let said: Value = serde_json::from_str(&said).unwrap();
            if said.get("item").is_none() {
                return said;
            }
        }
    }

    /// Checks that the answer to the next line is the next answer: no answer came twice.
    async fn is_in_step(&mut self, n: usize) {
        let line = json!({"v": 1, "id": format!("step-{n}"), "op": "ping", "args": {}});
        self.send(line.to_string().as_bytes()).await;
        assert_eq!(self.answer().await["id"], format!("step-{n}"));
    }
}

fn follows(line: &[u8]) -> bool {
    let request: Value = serde_json::from_slice(line).unwrap_or_default();
    request["op"] == "events" && request["args"]["follow"] == true
}

async fn converse(caller: Caller, lines: &[Vec<u8>]) {
    let scenario = Scenario::new().agent("mayor", RestartType::Permanent);
    let scenario = scenario.with(|city| {
        if let Caller::Agent(rights) = caller {
            city.agents[0].rights = rights;
        }
    });
    let city = scenario.start().await;
    let (own, other) = (city.worker("a").await, city.worker("b").await);
    let pid = std::process::id();
    match caller {
        Caller::Operator => {}
        Caller::Raider => city.parts.sessions.place(pid, &own.session),
        Caller::Agent(_) => {
            let session = city.session(&agent("mayor"));
            city.parts.sessions.place(pid, &session);
        }
        Caller::Errand(rights) => city.parts.runner.place(pid, rights),
        Caller::Invisible => city.parts.sessions.obscure(pid),
    }
    let dir = crate::testing::scratch();
    let socket = dir.path().join("s/control.sock");
    let (stop, mut asked) = mpsc::channel(4);
    let stopper = tokio::spawn(async move {
        while let Some((mode, done)) = asked.recv().await {
            let left = Vec::new();
            let _gone = tokio::sync::oneshot::Sender::send(done, StopEnd { mode, left });
        }
    });
    let handlers = Arc::new(Handlers::new(Arc::clone(&city.world), stop));
    let (stopping, stops) = watch::channel(false);
    let (listener, _until_served) = bind(&socket).unwrap().listen().unwrap();
    let (renew, listeners) = mpsc::channel(1);
    renew.try_send(listener).unwrap();
    let server = tokio::spawn(serve(listeners, handlers, stops));
    let before = (snapshot(&city).await, others(&city, &other).await);

    let mut peer = Peer::at(&socket).await;
    for (n, line) in lines.iter().enumerate() {
        peer.send(line).await;
        if follows(line) {
            peer = Peer::at(&socket).await;
            continue;
        }
        let answer = peer.answer().await;
        let shown = String::from_utf8_lossy(line);
        assert!(answer["ok"].is_boolean(), "{shown}\n{answer}");
        assert_ne!(answer["error"]["kind"], "internal", "{shown}\n{answer}");
        peer.is_in_step(n).await;
    }
    city.settle().await;
    let after = (snapshot(&city).await, others(&city, &other).await);
    if caller.only_looks() {
        assert_eq!(after.0, before.0);
    }
    if caller.only_looks() || caller == Caller::Raider {
        assert_eq!(after.1, before.1);
    }
    ask::views(&city.world).await.expect("the root lives");
    drop(peer);
    stopping.send_replace(true);
    server.await.unwrap();
    stopper.abort();
}

#[test]
fn whatever_is_written_is_answered_once_and_changes_no_more_than_its_writer_may() {
    let mut seed = seeded::first();
    let (wanted, longest) = by_tier((1, 60), (1_000_000, 400));
    let written = Cell::new(0);
    while written.get() < wanted {
        eprintln!("{} lines", written.get());
        let lines = prop::collection::vec(line(), 1..longest);
        let callers = select(&Caller::ALL[..]);
        let result = seeded::runner(seed, 32).run(&(callers, lines), |(caller, lines)| {
            written.set(written.get() + lines.len());
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()
                .unwrap();
            runtime.block_on(converse(caller, &lines));
            Ok(())
        });
        match result {
            Ok(()) => seed += 1,
            Err(TestError::Fail(why, (caller, lines))) => {
                let lines = lines.iter().map(|line| String::from_utf8_lossy(line));
                let lines = lines.collect::<Vec<_>>().join("\n");
                panic!("HORDE_SEED={seed}: {why}\n{caller:?} wrote\n{lines}");
            }
            Err(TestError::Abort(why)) => panic!("{why}"),
        }
    }
}
