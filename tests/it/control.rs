//! The server of the control socket over real sockets: order, limits, garbage, rights, the end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use horde_supervisor::control::protocol::{ControlError, ErrorKind, LINE_MAX};
use horde_supervisor::control::rights::CallerRole;
use horde_supervisor::control::server::{
    AtSocket, CONNECTIONS_MAX, CONNECTIONS_MAX_PER_SESSION, SocketFile, bind, serve,
};
use horde_supervisor::domain::ids::SessionId;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::fake_city::{LIMIT, Shared, event};

struct Server {
    dir: tempfile::TempDir,
    fake: Shared,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
    file: SocketFile,
    renew: mpsc::Sender<UnixListener>,
}

impl Server {
    fn start() -> Self {
        let dir = horde_supervisor::testing::scratch();
        let fake = Shared::default();
        let (stop, stopping) = watch::channel(false);
        let bound = bind(&dir.path().join("s/control.sock")).unwrap();
        let (listener, file) = bound.listen().unwrap();
        let (renew, listeners) = mpsc::channel(1);
        renew.try_send(listener).unwrap();
        let task = tokio::spawn(serve(listeners, Arc::new(fake.clone()), stopping));
        Self {
            dir,
            fake,
            stop,
            task,
            file,
            renew,
        }
    }

    async fn connect(&self) -> Peer {
        let path = self.dir.path().join("s/control.sock");
        Peer(BufReader::new(UnixStream::connect(path).await.unwrap()))
    }
}

struct Peer(BufReader<UnixStream>);

impl Peer {
    async fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).await.unwrap();
    }

    async fn ask(&mut self, id: &str, op: &str, args: Value) {
        let line = json!({"v": 1, "id": id, "op": op, "args": args});
        self.send(format!("{line}\n").as_bytes()).await;
    }

    /// Reads the next answer; none at the end of the connection.
    async fn answer(&mut self) -> Option<Value> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line);
        let read = tokio::time::timeout(LIMIT, read)
            .await
            .expect("an answer in time");
        // A refused connection is reset when data was still on its way.
        match read {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap()),
        }
    }

    async fn error(&mut self) -> (Value, String) {
        let answer = self.answer().await.expect("an answer");
        assert_eq!(answer["ok"], false, "{answer}");
        let kind = answer["error"]["kind"].as_str().unwrap().to_owned();
        (answer["id"].clone(), kind)
    }

    async fn lives(&mut self) {
        self.ask("alive", "ping", json!({})).await;
        let answer = self.answer().await.expect("the connection lives");
        assert_eq!(
            (&answer["id"], &answer["ok"]),
            (&json!("alive"), &json!(true))
        );
    }
}

#[tokio::test]
async fn answers_come_in_the_order_of_the_requests_even_to_a_half_closed_peer() {
    let server = Server::start();
    let mut peer = server.connect().await;
    peer.ask("1", "peek", json!({"name": "slow"})).await;
    peer.ask("2", "ping", json!({})).await;
    peer.ask("3", "why", json!({"name": "Toast"})).await;
    peer.0.get_mut().shutdown().await.unwrap();
    server.fake.0.release.add_permits(1);
    let mut ids = Vec::new();
    while let Some(answer) = peer.answer().await {
        ids.push(answer["id"].clone());
    }
    assert_eq!(ids, ["1", "2", "3"]);
}

#[tokio::test]
async fn connection_has_one_request_in_flight() {
    let server = Server::start();
    let (mut slow, mut other) = (server.connect().await, server.connect().await);
    slow.ask("1", "peek", json!({"name": "slow"})).await;
    slow.ask("2", "ping", json!({})).await;
    // Another connection is served meanwhile, so the second request would have been served, too.
    other.lives().await;
    other.lives().await;
    assert_eq!(server.fake.asked("ping").len(), 2);
    server.fake.0.release.add_permits(1);
    assert_eq!(slow.answer().await.unwrap()["id"], "1");
    assert_eq!(slow.answer().await.unwrap()["id"], "2");
}

#[tokio::test]
async fn garbage_is_answered_and_the_connection_lives() {
    let server = Server::start();
    let mut peer = server.connect().await;
    for garbage in [
        &b"{\n"[..],
        b"\n",
        b"null\n",
        b"\xff\xfe\xfd\n",
        b"\x00\x01\r\n",
        b"[]\n",
    ] {
        peer.send(garbage).await;
        assert_eq!(peer.error().await, (Value::Null, "bad_request".into()));
    }
    peer.send(b"{\"v\":1,\"id\":\"9\",\"op\":\"pong\"}\n").await;
    assert_eq!(peer.error().await, (json!("9"), "bad_request".into()));
    let deep = format!("{}\n", "[".repeat(100_000));
    peer.send(deep.as_bytes()).await;
    assert_eq!(peer.error().await, (Value::Null, "bad_request".into()));
    peer.lives().await;
}

#[tokio::test]
async fn another_version_is_said_so() {
    let server = Server::start();
    let mut peer = server.connect().await;
    for v in ["2", "0", "\"1\"", "null"] {
        peer.send(format!("{{\"v\":{v},\"id\":\"1\",\"op\":\"ping\"}}\n").as_bytes())
            .await;
        assert_eq!(peer.error().await, (json!("1"), "version".into()));
    }
    peer.lives().await;
}

#[tokio::test]
async fn the_longest_line_is_served_and_a_longer_one_ends_the_connection() {
    let server = Server::start();
    let mut peer = server.connect().await;
    let empty = json!({"v": 1, "id": "1", "op": "why", "args": {"name": ""}}).to_string();
    let name = "x".repeat(LINE_MAX - empty.len());
    peer.ask("1", "why", json!({ "name": name })).await;
    assert_eq!(peer.answer().await.unwrap()["ok"], true);
    let long = vec![b'x'; LINE_MAX + 1];
    // The server may close before everything is written.
    let _broken = peer.0.get_mut().write_all(&long).await;
    assert_eq!(peer.error().await, (Value::Null, "bad_request".into()));
    assert_eq!(peer.answer().await, None);
    server.connect().await.lives().await;
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_does_not_read_is_dropped() {
    let server = Server::start();
    let mut peer = server.connect().await;
    peer.ask("1", "logs", json!({"name": "big"})).await;
    // The clock runs only while all tasks wait: this is after the write limit.
    tokio::time::sleep(Duration::from_secs(31)).await;
    let mut got = Vec::new();
    let ended = peer.0.read_to_end(&mut got).await;
    assert!(
        ended.is_err() || got.len() < 8 * 1024 * 1024,
        "the answer came whole"
    );
    server.connect().await.lives().await;
}

/// Silent connections never take a person's place.
#[tokio::test]
async fn idle_connections_make_room_for_a_person() {
    let server = Server::start();
    let mut peers = Vec::new();
    for _ in 0..100 {
        let mut peer = server.connect().await;
        peer.lives().await;
        peers.push(peer);
    }
    let closed = 100 - CONNECTIONS_MAX;
    for peer in &mut peers[..closed] {
        assert_eq!(peer.error().await, (Value::Null, "unavailable".into()));
        assert!(peer.answer().await.is_none(), "it is closed");
    }
    for peer in &mut peers[closed..] {
        peer.lives().await;
    }
}

#[tokio::test]
async fn single_session_cannot_take_all_connections() {
    let server = Server::start();
    let raider = CallerRole::Raider(SessionId::new("gt-horde-Toast").unwrap());
    *server.fake.0.who.lock().unwrap() = CallerRole::Operator;
    let mut person = server.connect().await;
    person.lives().await;
    *server.fake.0.who.lock().unwrap() = raider;
    let mut peers = Vec::new();
    for _ in 0..=CONNECTIONS_MAX_PER_SESSION {
        let mut peer = server.connect().await;
        peer.lives().await;
        peers.push(peer);
    }
    assert_eq!(peers[0].error().await, (Value::Null, "unavailable".into()));
    peers[1].lives().await;
    person.lives().await;
}

/// The socket's file is removed: connections to the next socket are served as before.
#[tokio::test]
async fn a_socket_that_was_removed_is_made_again_and_served() {
    let server = Server::start();
    let mut before = server.connect().await;
    before.lives().await;
    std::fs::remove_file(server.file.path()).unwrap();
    assert_eq!(server.file.check(), AtSocket::Free);
    let (listener, _file) = bind(server.file.path()).unwrap().listen().unwrap();
    server.renew.send(listener).await.unwrap();
    server.connect().await.lives().await;
    before.lives().await;
}

#[tokio::test]
async fn rights_are_looked_at_before_arguments() {
    let server = Server::start();
    let raider = CallerRole::Raider(SessionId::new("gt-horde-Toast").unwrap());
    *server.fake.0.who.lock().unwrap() = raider;
    let mut peer = server.connect().await;
    peer.ask("1", "raider.nuke", json!({"nonsense": true}))
        .await;
    assert_eq!(peer.error().await, (json!("1"), "forbidden".into()));
    peer.ask("2", "done", json!({"nonsense": true})).await;
    assert_eq!(peer.error().await, (json!("2"), "bad_request".into()));
    peer.ask("3", "done", json!({})).await;
    assert_eq!(peer.answer().await.unwrap()["ok"], true);
    assert_eq!(server.fake.0.forbidden.lock().unwrap().len(), 1);
    assert!(server.fake.asked("raider.nuke").is_empty());
}

#[tokio::test]
async fn no_raider_is_nuked_without_consent() {
    let server = Server::start();
    let mut peer = server.connect().await;
    peer.ask("1", "raider.nuke", json!({"name": "Toast"})).await;
    assert_eq!(peer.error().await, (json!("1"), "bad_request".into()));
    assert!(server.fake.asked("raider.nuke").is_empty());
    peer.ask("2", "raider.nuke", json!({"name": "Toast", "yes": true}))
        .await;
    assert_eq!(peer.answer().await.unwrap()["ok"], true);
}

#[tokio::test]
async fn a_request_that_fails_inside_is_an_answer() {
    let server = Server::start();
    let mut peer = server.connect().await;
    peer.ask("1", "agent.list", json!({})).await;
    assert_eq!(peer.error().await, (json!("1"), "internal".into()));
    peer.lives().await;
}

#[tokio::test]
async fn a_request_runs_to_its_end_when_its_caller_has_gone() {
    let server = Server::start();
    let mut peer = server.connect().await;
    peer.ask("1", "peek", json!({"name": "slow"})).await;
    until("it is asked", || !server.fake.asked("peek").is_empty()).await;
    drop(peer);
    server.fake.0.release.add_permits(1);
    until("it has ended", || {
        server.fake.0.ended.load(Ordering::SeqCst) == 1
    })
    .await;
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let met = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, met)
        .await
        .unwrap_or_else(|_| panic!("not in time: {what}"));
}

#[tokio::test]
async fn a_stream_owns_its_connection_until_it_ends() {
    let server = Server::start();
    let mut peer = server.connect().await;
    peer.ask("1", "events", json!({})).await;
    peer.ask("2", "ping", json!({})).await;
    for seq in 1..=3 {
        let item = json!({"id": "1", "item": event(seq)});
        assert_eq!(peer.answer().await, Some(item));
    }
    let end = json!({"id": "1", "ok": true, "result": null});
    assert_eq!(peer.answer().await, Some(end));
    assert_eq!(peer.answer().await.unwrap()["id"], "2");
}

#[tokio::test]
async fn a_stream_ends_when_its_reader_has_gone() {
    let server = Server::start();
    let mut peer = server.connect().await;
    peer.ask("1", "events", json!({"follow": true})).await;
    let followed = || server.fake.0.stream.lock().unwrap().clone();
    until("it is followed", || followed().is_some()).await;
    let sender = followed().unwrap();
    sender.send(Ok(event(1).to_string())).await.unwrap();
    assert_eq!(peer.answer().await.unwrap()["item"]["seq"], 1);
    drop(peer);
    let closed = tokio::time::timeout(LIMIT, sender.closed()).await;
    closed.expect("the stream is dropped without an event to send");
}

#[tokio::test]
async fn a_stream_that_fails_says_so() {
    let server = Server::start();
    let mut peer = server.connect().await;
    peer.ask("1", "events", json!({"follow": true})).await;
    let followed = || server.fake.0.stream.lock().unwrap().clone();
    until("it is followed", || followed().is_some()).await;
    let sender = followed().unwrap();
    let error = ControlError::unavailable("the journal cannot be read");
    sender.send(Err(error)).await.unwrap();
    assert_eq!(peer.error().await, (json!("1"), "unavailable".into()));
}

#[tokio::test]
async fn the_end_lets_requests_finish_and_tells_streams() {
    let server = Server::start();
    let (mut asking, mut following) = (server.connect().await, server.connect().await);
    let mut idle = server.connect().await;
    idle.lives().await;
    following.ask("1", "events", json!({"follow": true})).await;
    asking.ask("1", "peek", json!({"name": "slow"})).await;
    until("both are asked", || {
        server.fake.0.asked.lock().unwrap().len() == 3
    })
    .await;
    server.stop.send_replace(true);
    assert_eq!(following.error().await, (json!("1"), "unavailable".into()));
    assert_eq!(idle.answer().await, None);
    server.fake.0.release.add_permits(1);
    assert_eq!(asking.answer().await.unwrap()["ok"], true);
    tokio::time::timeout(LIMIT, server.task)
        .await
        .expect("it ends")
        .unwrap();
}

fn line() -> impl Strategy<Value = Vec<u8>> {
    let request = json!({"v": 1, "id": "x", "op": "charge", "args": {"relic": "gt-1", "rig": "r"}});
    let request = request.to_string().into_bytes();
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..200),
        "\\PC{0,80}".prop_map(String::into_bytes),
        (any::<proptest::sample::Index>(), any::<u8>()).prop_map(move |(at, byte)| {
            let mut changed = request.clone();
            let at = at.index(changed.len());
            changed[at] = byte;
            changed
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_line_has_one_answer(lines in proptest::collection::vec(line(), 0..20)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = Server::start();
            let mut peer = server.connect().await;
            let mut bytes = Vec::new();
            let mut expected = 0;
            for line in lines {
                // A line end inside makes it two lines.
                expected += 1 + line.iter().filter(|byte| **byte == b'\n').count();
                bytes.extend(line);
                bytes.push(b'\n');
            }
            peer.send(&bytes).await;
            for _ in 0..expected {
                let answer = peer.answer().await.expect("an answer to every line");
                assert!(answer.get("ok").is_some(), "{answer}");
            }
            peer.lives().await;
        });
    }
}

#[test]
fn kinds_are_spelled_as_the_contract_has_them() {
    let kinds = ErrorKind::ALL
        .iter()
        .map(|kind| serde_json::to_value(kind).unwrap());
    let kinds: Vec<_> = kinds
        .map(|kind| kind.as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        kinds.join(" "),
        "bad_request not_found refused forbidden conflict unavailable needs_human parked timeout version internal"
    );
}
