//! A city whose supervisor is a fake behind the real server, so that both ends of the control socket are tested without
//! the rest.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use horde_supervisor::control::protocol::{ControlError, ErrorKind, Op, OpName};
use horde_supervisor::control::rights::CallerRole;
use horde_supervisor::control::server::{Answer, Call, Caller, Identified, Service, bind, serve};
use horde_supervisor::domain::city::Rights;
use horde_supervisor::domain::ids::SessionId;
use horde_supervisor::testing::samples::answer_to;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc, watch};

use crate::support::git::write;
pub use crate::support::live::{LIMIT, until};

/// Answers with a sample, except for a few operations that misbehave on purpose.
pub struct Fake {
    /// The caller that every connection is taken for.
    pub who: Mutex<CallerRole>,
    /// Requests as they read on the wire.
    pub asked: Mutex<Vec<Value>>,
    /// The number of finished requests.
    pub ended: AtomicUsize,
    /// The refusals that were reported as `forbidden`.
    pub forbidden: Mutex<Vec<String>>,
    /// `peek slow` waits for a permit of these.
    pub release: Semaphore,
    /// Results set by the test, by operation; the last one counts.
    pub results: Mutex<Vec<(&'static str, Result<Value, ControlError>)>>,
    /// Present while a followed stream is open.
    pub stream: Mutex<Option<mpsc::Sender<Result<String, ControlError>>>>,
}

impl Default for Fake {
    fn default() -> Self {
        Self {
            who: Mutex::new(CallerRole::Operator),
            asked: Mutex::default(),
            ended: AtomicUsize::new(0),
            forbidden: Mutex::default(),
            release: Semaphore::new(0),
            results: Mutex::default(),
            stream: Mutex::default(),
        }
    }
}

/// A handle that the server and the test share.
#[derive(Clone, Default)]
pub struct Shared(pub Arc<Fake>);

impl Shared {
    /// Sets the answer of an operation from now on.
    pub fn answer(&self, op: &'static str, result: Result<Value, ControlError>) {
        self.0.results.lock().unwrap().push((op, result));
    }

    /// Sets the answer of an operation from now on; fields that the test does not name are some or other.
    pub fn told(&self, op: &'static str, partial: &Value) {
        self.answer(op, Ok(whole(op, partial)));
    }

    /// Returns the arguments of all requests of this operation.
    pub fn asked(&self, op: &str) -> Vec<Value> {
        let asked = self.0.asked.lock().unwrap();
        let of = asked.iter().filter(|asked| asked["op"] == op);
        of.map(|asked| asked["args"].clone()).collect()
    }
}

impl Service for Shared {
    fn identify(&self, pid: u32) -> Identified {
        assert_ne!(pid, 0);
        let who = self.0.who.lock().unwrap().clone();
        Box::pin(async { who })
    }

    fn rights(&self, _: &SessionId) -> Rights {
        Rights::Work
    }

    fn call(&self, _: Caller, op: Op) -> Call {
        let fake = self.0.clone();
        Box::pin(async move {
            let name = op.name().as_str();
            let echo = json!({"op": name, "args": op.args()});
            let sample = answer_to(op.name(), None);
            fake.asked.lock().unwrap().push(echo);
            let set = {
                let results = fake.results.lock().unwrap();
                let found = results.iter().rev().find(|(set, _)| *set == name);
                found.map(|(_, result)| result.clone())
            };
            let answer = match (set, op) {
                (_, Op::Status(status)) if status.watch => {
                    let (sender, items) = mpsc::channel(4);
                    *fake.stream.lock().unwrap() = Some(sender);
                    Ok(Answer::Stream(items))
                }
                (Some(result), _) => result.map(Answer::Value),
                (None, Op::Peek(named)) if named.name == "slow" => {
                    fake.release.acquire().await.unwrap().forget();
                    Ok(Answer::Value(sample))
                }
                (None, Op::Logs(logs)) if logs.name == "big" => {
                    let text = "x".repeat(8 * 1024 * 1024);
                    Ok(Answer::Value(whole("logs", &json!({ "text": text }))))
                }
                (None, Op::AgentList(_)) => panic!("a handler that fails inside"),
                (None, Op::Events(events)) => {
                    let (sender, items) = mpsc::channel(4);
                    if events.follow {
                        *fake.stream.lock().unwrap() = Some(sender);
                    } else {
                        for seq in 1..=3 {
                            sender.send(Ok(event(seq).to_string())).await.unwrap();
                        }
                    }
                    Ok(Answer::Stream(items))
                }
                (None, _) => Ok(Answer::Value(sample)),
            };
            fake.ended.fetch_add(1, Ordering::SeqCst);
            answer
        })
    }

    fn forbidden(&self, _: &Caller, _: Option<OpName>, error: &ControlError) {
        self.0.forbidden.lock().unwrap().push(error.message.clone());
    }

    fn answered(&self, _: OpName, _: Option<ErrorKind>, _: Duration) {}
}

/// Completes an answer, or an item of a stream.
pub fn whole(op: &str, partial: &Value) -> Value {
    answer_to(op.parse().unwrap(), Some(partial))
}

/// Returns an event as the journal has them.
pub fn event(seq: u64) -> Value {
    json!({"seq": seq, "ts": "2026-01-31T12:00:00Z", "type": "raider.charged",
        "subject": "horde/raiders/Toast", "cause": "charged", "data": {"relic": "gt-1"}})
}

/// A directory with a `city.toml`, and the fake supervisor on its socket.
pub struct FakeCity {
    dir: tempfile::TempDir,
    pub fake: Shared,
    stop: Option<watch::Sender<bool>>,
    server: Option<JoinHandle<()>>,
}

impl FakeCity {
    pub fn start() -> Self {
        let mut city = Self::away();
        let socket = city.socket();
        let (stop, stopping) = watch::channel(false);
        let fake = city.fake.clone();
        let (listening, listens) = std::sync::mpsc::channel();
        let server = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread();
            let runtime = { runtime }.worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                let (listener, _until_served) = bind(&socket).unwrap().listen().unwrap();
                listening.send(()).unwrap();
                let (renew, listeners) = tokio::sync::mpsc::channel(1);
                renew.try_send(listener).unwrap();
                serve(listeners, Arc::new(fake), stopping).await;
            });
        });
        listens.recv_timeout(LIMIT).unwrap();
        city.stop = Some(stop);
        city.server = Some(server);
        city
    }

    /// Makes the city without a server on its socket.
    pub fn away() -> Self {
        let dir = horde_supervisor::testing::scratch();
        write(dir.path(), "city.toml", "[workspace]\nname = \"fake\"\n");
        Self {
            dir,
            fake: Shared::default(),
            stop: None,
            server: None,
        }
    }

    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    pub fn socket(&self) -> PathBuf {
        self.root().join(".horde/control.sock")
    }

    /// Returns a command for `hd` on this city, without the variables that it reads from the caller's environment.
    pub fn hd(&self) -> assert_cmd::Command {
        let mut hd = hd();
        hd.arg("--city").arg(self.root()).timeout(LIMIT);
        hd
    }

    /// Stops the server and waits for its end.
    pub fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send_replace(true);
        }
        if let Some(server) = self.server.take() {
            server.join().unwrap();
        }
    }
}

impl Drop for FakeCity {
    fn drop(&mut self) {
        self.fake.0.release.add_permits(100);
        self.stop();
    }
}

/// Returns a command for `hd`, without the variables of the test's environment about cities.
pub fn hd() -> assert_cmd::Command {
    let mut hd = assert_cmd::Command::cargo_bin("hd").unwrap();
    for name in VARIABLES {
        hd.env_remove(name);
    }
    hd
}

/// Variables that `hd` reads.
pub const VARIABLES: &[&str] = &[
    "CARGO",
    "HORDE_CITY",
    "HD_CITY",
    "HD_SOCKET",
    "HD_RAIDER",
    "HD_ACTOR",
    "HD_RIG",
    "HD_RELIC",
    "HD_INCARNATION",
    "HD_SESSION",
    "XDG_RUNTIME_DIR",
];
