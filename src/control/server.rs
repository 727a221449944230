//! The daemon's end of the control socket. It holds no state of the city: a line becomes one call
//! of the [`Service`], and its answer one line.
//!
//! ```text
//!   accept ─┬─► uid? ─► caller? ─► place? ─► [ line ─► envelope ─► rights ─► args ─► call ─► answer ]*
//!           │    │no     │           │no          │too long: answer, close     │stream: items, then end
//!           │    │       │           └► refused   └ garbage: answer, go on     └ slow reader: dropped
//!           │    └► refused └ no answer in time: may only look
//!           └ everything behind it is in the connection's own task (arrivals.rs)
//! ```
//!
//! A connection has one request in flight; further lines wait in the socket, so that answers come in order and a client
//! cannot queue up unbounded work.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};

use super::protocol::{Body, ControlError, ErrorKind, Op, OpName, Response};
use super::rights::CallerRole;
use crate::domain::city::Rights;
use crate::domain::ids::SessionId;

mod arrivals;
mod connection;
mod connection_limits;
mod listener;
mod peer;

pub use self::connection_limits::{CONNECTIONS_MAX, CONNECTIONS_MAX_PER_SESSION};
pub use self::listener::{AtSocket, Bound, SocketFile, bind};
pub use self::peer::Peer;

use self::arrivals::{Arrival, Arrivals};
use self::connection_limits::{ConnectionPermit, Places};

/// The limit for the reader to take a line.
pub const WRITE_LIMIT: Duration = Duration::from_secs(30);
/// The pause after an error of `accept` (such as no free file descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The caller at the other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The pid as the kernel tells it; none when the process is not visible here.
    pub pid: Option<u32>,
    /// The user of the process.
    pub uid: u32,
    /// The kind of caller, with its session if there is one.
    pub who: CallerRole,
    /// Tells whether the pid still belongs to the process.
    pub peer: Peer,
}

#[cfg(test)]
impl Caller {
    /// Returns a caller of this pid whose process is this one.
    pub fn stand_in(pid: impl Into<Option<u32>>, who: CallerRole) -> Self {
        Self {
            pid: pid.into(),
            uid: 0,
            who,
            peer: Peer::of_pid(std::process::id()),
        }
    }
}

/// The answer of a call.
#[derive(Debug)]
pub enum Answer {
    /// A single result.
    Value(Value),
    /// A single result, as JSON.
    Text(String),
    /// Items until the sender is dropped, or until an error, which ends the stream. The channel should be small: a slow
    /// reader holds up the sender.
    Stream(Items),
}

/// The items of a stream, as JSON.
pub type Items = mpsc::Receiver<Result<String, ControlError>>;

/// An identification under way.
pub type Identified = Pin<Box<dyn Future<Output = CallerRole> + Send>>;

/// A call under way.
pub type Call = Pin<Box<dyn Future<Output = Result<Answer, ControlError>> + Send>>;

/// The service behind the socket.
pub trait Service: Send + Sync + 'static {
    /// Returns the session that the process is a member of. Called once per connection, and never for an invisible pid.
    /// A process that cannot be read in time is [`CallerRole::Unrecognised`].
    fn identify(&self, pid: u32) -> Identified;

    /// Returns the present rights of an agent's session.
    fn rights(&self, session: &SessionId) -> Rights;

    /// Serves a request that the caller has the right to make. The call runs to its end even when the caller goes away.
    fn call(&self, caller: Caller, op: Op) -> Call;

    /// Records a `forbidden` request for the journal; without operation, a forbidden connection.
    fn forbidden(&self, caller: &Caller, op: Option<OpName>, error: &ControlError);

    /// Records an answer and its duration; for a stream, its beginning.
    fn answered(&self, op: OpName, failed: Option<ErrorKind>, took: Duration);
}

/// Serves until `stopping` becomes true or its sender is gone; then takes no new connection, lets requests in flight
/// end, ends streams, and returns when every connection is closed. The caller limits that by dropping the future. A
/// newer listener replaces the one before, whose socket was removed.
pub async fn serve<S: Service>(
    mut listeners: mpsc::Receiver<UnixListener>,
    service: Arc<S>,
    mut stopping: watch::Receiver<bool>,
) {
    let (places, arrivals) = (Arc::new(Places::default()), Arrivals::default());
    // The processes behind the connections, for messages.
    let (mut connections, mut callers) = (JoinSet::new(), HashMap::new());
    let Some(mut listener) = listeners.recv().await else {
        return;
    };
    loop {
        let accepted = tokio::select! {
            biased;
            () = stopped(&mut stopping) => break,
            Some(ended) = connections.join_next_with_id() => {
                let task = ended.as_ref().map_or_else(JoinError::id, |(task, ())| *task);
                let caller = callers.remove(&task);
                if let Err(error) = ended {
                    tracing::error!(
                        ?caller,
                        %error,
                        "the task of a control connection panicked; other connections go on"
                    );
                }
                continue;
            }
            Some(newer) = listeners.recv() => {
                listener = newer;
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "new control connections cannot be accepted now; the server retries");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (service, stopping) = (service.clone(), stopping.clone());
        let caller = pid_of(&stream).unwrap_or_default();
        let (arrival, wait) = arrivals.enter(caller);
        let places = Arc::clone(&places);
        let task = connections.spawn(receive(stream, service, stopping, places, arrival));
        callers.insert(task.id(), caller);
        wait.swift().await;
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Returns when the server is to stop, or the sender of stop requests is gone.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // The returned value is a lock, which must not be held any longer.
    drop(stopping.wait_for(|stop| *stop).await);
}

/// Returns the pid of the process that made the connection; none when it is not visible here.
fn pid_of(stream: &UnixStream) -> Option<u32> {
    let pid = stream.peer_cred().ok()?.pid()?;
    u32::try_from(pid).ok().filter(|pid| *pid != 0)
}

/// Admits a new connection and serves it to its end. Without an arrival its caller is not identified.
async fn receive<S: Service>(
    stream: UnixStream,
    service: Arc<S>,
    mut stopping: watch::Receiver<bool>,
    places: Arc<Places>,
    arrival: Option<Arrival>,
) {
    let pid = arrival.as_ref().and_then(|_| pid_of(&stream));
    let admitted = tokio::select! {
        biased;
        () = stopped(&mut stopping) => return,
        admitted = admit(&stream, pid, service.as_ref(), &places) => admitted,
    };
    drop(arrival);
    match admitted {
        Ok((caller, place)) => connection::run(stream, caller, service, stopping, place).await,
        Err(error) => refuse(&stream, error),
    }
}

/// Decides on a new connection: right user, recognised caller, free place.
async fn admit<S: Service>(
    stream: &UnixStream,
    pid: Option<u32>,
    service: &S,
    places: &Arc<Places>,
) -> Result<(Caller, ConnectionPermit), ControlError> {
    let peer = stream.peer_cred().map_err(|error| {
        ControlError::internal(format!("the peer process cannot be identified: {error}"))
    })?;
    let own = rustix::process::geteuid().as_raw();
    let caller = Caller {
        pid,
        uid: peer.uid(),
        who: CallerRole::Unrecognised,
        peer: Peer::of(stream, pid),
    };
    admit_peer(own, caller, service, places).await
}

/// Recognises the caller by its pid, which must belong to the process all the while.
async fn admit_peer<S: Service>(
    own: u32,
    mut caller: Caller,
    service: &S,
    places: &Arc<Places>,
) -> Result<(Caller, ConnectionPermit), ControlError> {
    if caller.uid != own && caller.uid != 0 {
        let error = ControlError::forbidden("this city belongs to another user");
        service.forbidden(&caller, None, &error);
        return Err(error);
    }
    if let Some(pid) = caller.pid {
        let who = service.identify(pid).await;
        if caller.peer.lives() {
            caller.who = who;
        }
    }
    let place = Places::take(places, &caller.who)?;
    Ok((caller, place))
}

/// Sends a line if the fresh socket takes it at once; then the connection is closed.
fn refuse(stream: &UnixStream, error: ControlError) {
    let mut line = Response {
        id: Value::Null,
        body: Body::Failed(error),
    }
    .line();
    line.push('\n');
    if let Err(error) = stream.try_write(line.as_bytes())
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        tracing::debug!(%error, "could not send the reason to a refused control connection");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures_util::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A service that takes every caller for a person, and remembers refused callers.
    #[derive(Default)]
    struct Door(Mutex<Vec<u32>>);

    impl Service for Door {
        fn identify(&self, pid: u32) -> Identified {
            assert_ne!(pid, 0);
            Box::pin(async { CallerRole::Operator })
        }

        fn rights(&self, _: &SessionId) -> Rights {
            Rights::Read
        }

        fn call(&self, _: Caller, _: Op) -> Call {
            Box::pin(async { Ok(Answer::Value(Value::Null)) })
        }

        fn forbidden(&self, caller: &Caller, _: Option<OpName>, error: &ControlError) {
            assert_eq!(error.kind, ErrorKind::Forbidden);
            self.0.lock().unwrap().push(caller.uid);
        }

        fn answered(&self, _: OpName, _: Option<ErrorKind>, _: Duration) {}
    }

    /// A client that died without closing keeps no place for ever.
    #[tokio::test(start_paused = true)]
    async fn connection_that_sends_nothing_for_ten_minutes_is_told_and_closed() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let caller = Caller::stand_in(1, CallerRole::Operator);
        let permit = Places::take(&Arc::default(), &caller.who);
        let (_stop, stopping) = watch::channel(false);
        let door = Arc::new(Door::default());
        let served = connection::run(near, caller, door, stopping, permit.unwrap());
        let served = tokio::spawn(served);
        let begun = tokio::time::Instant::now();
        tokio::time::sleep(Duration::from_secs(550)).await;
        let ping = b"{\"v\":1,\"id\":\"1\",\"op\":\"ping\",\"args\":{}}\n";
        far.write_all(ping).await.unwrap();
        let mut all = String::new();
        far.read_to_string(&mut all).await.unwrap();
        let lines: Vec<Value> = all
            .lines()
            .map(|it| serde_json::from_str(it).unwrap())
            .collect();
        assert_eq!(lines.len(), 2, "{all}");
        assert_eq!(
            (&lines[0]["id"], &lines[0]["ok"]),
            (&"1".into(), &true.into())
        );
        assert_eq!(lines[1]["error"]["kind"], "unavailable", "{all}");
        assert!(all.contains("it sent no request"), "{all}");
        // Counted from the answer, not from the beginning.
        let limit = Duration::from_secs(600);
        assert!(
            begun.elapsed() >= Duration::from_secs(550) + limit,
            "{:?}",
            begun.elapsed()
        );
        assert!(
            begun.elapsed() <= 2 * limit + Duration::from_secs(1),
            "{:?}",
            begun.elapsed()
        );
        served.await.unwrap();
    }

    #[tokio::test]
    async fn another_user_is_turned_away_and_a_caller_without_pid_is_invisible() {
        let (door, places) = (Door::default(), Arc::default());
        let peer = Peer::of_pid(std::process::id());
        let admit = |uid, pid| {
            let (who, peer) = (CallerRole::Unrecognised, peer.clone());
            let caller = Caller {
                pid,
                uid,
                who,
                peer,
            };
            let admitted = admit_peer(1000, caller, &door, &places);
            admitted.now_or_never().unwrap().map(|(caller, _)| caller)
        };
        for uid in [1001, 999, u32::MAX] {
            let refused = admit(uid, Some(7)).unwrap_err();
            assert_eq!(refused.kind, ErrorKind::Forbidden);
        }
        assert_eq!(*door.0.lock().unwrap(), [1001, 999, u32::MAX]);
        for uid in [1000, 0] {
            assert_eq!(admit(uid, Some(7)).unwrap().who, CallerRole::Operator);
            assert_eq!(admit(uid, None).unwrap().who, CallerRole::Unrecognised);
        }
    }

    /// The number of connections whose caller cannot be read.
    const UNREAD: usize = 4;

    /// A service to which this process is unreadable at first, and a person later.
    #[derive(Default)]
    struct Slow(std::sync::atomic::AtomicUsize);

    impl Service for Slow {
        fn identify(&self, _: u32) -> Identified {
            use std::sync::atomic::Ordering;
            match self.0.fetch_add(1, Ordering::Relaxed) < UNREAD {
                true => Box::pin(std::future::pending()),
                false => Box::pin(async { CallerRole::Operator }),
            }
        }

        fn rights(&self, _: &SessionId) -> Rights {
            Rights::Read
        }

        fn call(&self, _: Caller, _: Op) -> Call {
            Box::pin(async { Ok(Answer::Value(Value::from("here"))) })
        }

        fn forbidden(&self, _: &Caller, _: Option<OpName>, _: &ControlError) {}

        fn answered(&self, _: OpName, _: Option<ErrorKind>, _: Duration) {}
    }

    #[tokio::test]
    async fn callers_that_cannot_be_read_hold_up_neither_a_person_nor_the_end() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let (listener, listeners) = mpsc::channel(1);
        listener
            .send(UnixListener::bind(&path).unwrap())
            .await
            .unwrap();
        let (stop, stopping) = watch::channel(false);
        let serving = tokio::spawn(serve(listeners, Arc::new(Slow::default()), stopping));
        let mut unread = Vec::new();
        for _ in 0..UNREAD {
            unread.push(UnixStream::connect(&path).await.unwrap());
        }
        let mut person = UnixStream::connect(&path).await.unwrap();
        let ping = b"{\"v\":1,\"id\":\"1\",\"op\":\"ping\",\"args\":{}}\n";
        person.write_all(ping).await.unwrap();
        let mut answer = vec![0; 1024];
        let patience = crate::testing::PATIENCE;
        let read = tokio::time::timeout(patience, person.read(&mut answer)).await;
        let length = read.expect("an answer").unwrap();
        let text = String::from_utf8_lossy(&answer[..length]);
        assert!(text.contains("here"), "{text}");
        stop.send(true).unwrap();
        let ended = tokio::time::timeout(patience, serving).await;
        ended.expect("the end").unwrap();
        drop(unread);
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "the test needs a process")]
    async fn caller_that_is_gone_has_no_rights_whatever_has_its_pid() {
        let (door, places) = (Door::default(), Arc::default());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let peer = Peer::of_pid(child.id());
        child.wait().unwrap();
        let caller = Caller {
            pid: Some(std::process::id()),
            uid: 1000,
            who: CallerRole::Unrecognised,
            peer,
        };
        let admitted = admit_peer(1000, caller, &door, &places).await;
        let (caller, _place) = admitted.unwrap();
        assert_eq!(caller.who, CallerRole::Unrecognised);
    }
}
