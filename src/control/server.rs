//! The daemon's end of the control socket. It holds no state of the city: a line becomes one call
//! of the [`Service`], and its answer one line.
//!
//! ```text
//!   accept ─► uid? ─► who? ─► place? ─► [ line ─► envelope ─► rights ─► args ─► call ─► answer ]*
//!              │no             │no          │too long: answer, close     │stream: items, then end
//!              └► refused      └► refused   └ garbage: answer, go on     └ slow reader: dropped
//! ```
//!
//! A connection has one request in flight; further lines wait in the socket, so that answers come in order and a client
//! cannot queue up unbounded work.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::protocol::{Body, ControlError, ErrorKind, Op, OpName, Response};
use super::rights::Who;
use crate::domain::city::Rights;
use crate::domain::ids::SessionId;

mod connection;
mod listener;
mod peer;
mod places;

pub use self::listener::{AtSocket, Bound, SocketFile, bind};
pub use self::peer::Peer;
pub use self::places::{CONNECTIONS_MAX, CONNECTIONS_MAX_PER_SESSION};

use self::places::{Place, Places};

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
    pub who: Who,
    /// Tells whether the pid still belongs to the process.
    pub peer: Peer,
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

/// A call under way.
pub type Call = Pin<Box<dyn Future<Output = Result<Answer, ControlError>> + Send>>;

/// The service behind the socket.
pub trait Service: Send + Sync + 'static {
    /// Returns the session that the process is a member of. Called once per connection, and never for an invisible pid.
    /// Must be cheap.
    fn identify(&self, pid: u32) -> Who;

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
    let places = Arc::new(Places::default());
    let mut connections = JoinSet::new();
    let Some(mut listener) = listeners.recv().await else {
        return;
    };
    loop {
        let accepted = tokio::select! {
            biased;
            () = stopped(&mut stopping) => break,
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "the task of a control connection panicked; other connections go on");
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
                tracing::warn!(%error, "could not accept a control connection; trying again");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        match admit(&stream, service.as_ref(), &places) {
            Ok((caller, place)) => {
                let (service, stopping) = (service.clone(), stopping.clone());
                connections.spawn(connection::run(stream, caller, service, stopping, place));
            }
            Err(error) => refuse(&stream, error),
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Returns when the server is to stop, or the sender of stop requests is gone.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // The returned value is a lock, which must not be held any longer.
    drop(stopping.wait_for(|stop| *stop).await);
}

/// Decides on a new connection: right user, recognised caller, free place.
fn admit<S: Service>(
    stream: &UnixStream,
    service: &S,
    places: &Arc<Places>,
) -> Result<(Caller, Place), ControlError> {
    let peer = stream.peer_cred().map_err(|error| {
        ControlError::internal(format!("the peer process cannot be identified: {error}"))
    })?;
    let own = rustix::process::geteuid().as_raw();
    let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
    let pid = pid.filter(|pid| *pid != 0);
    let caller = Caller {
        pid,
        uid: peer.uid(),
        who: Who::Invisible,
        peer: Peer::of(stream, pid),
    };
    admit_peer(own, caller, service, places)
}

/// Recognises the caller by its pid, which must belong to the process all the while.
fn admit_peer<S: Service>(
    own: u32,
    mut caller: Caller,
    service: &S,
    places: &Arc<Places>,
) -> Result<(Caller, Place), ControlError> {
    if caller.uid != own && caller.uid != 0 {
        let error = ControlError::forbidden("this city belongs to another user");
        service.forbidden(&caller, None, &error);
        return Err(error);
    }
    let who = caller.pid.map(|pid| service.identify(pid));
    if let Some(who) = who
        && caller.peer.lives()
    {
        caller.who = who;
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

    use super::*;

    /// A service that takes every caller for a person, and remembers refused callers.
    #[derive(Default)]
    struct Door(Mutex<Vec<u32>>);

    impl Service for Door {
        fn identify(&self, pid: u32) -> Who {
            assert_ne!(pid, 0);
            Who::Operator
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

    #[test]
    fn another_user_is_turned_away_and_a_caller_without_pid_is_invisible() {
        let (door, places) = (Door::default(), Arc::default());
        let peer = Peer::of_pid(std::process::id());
        let admit = |uid, pid| {
            let (who, peer) = (Who::Invisible, peer.clone());
            let caller = Caller {
                pid,
                uid,
                who,
                peer,
            };
            admit_peer(1000, caller, &door, &places).map(|(caller, _)| caller)
        };
        for uid in [1001, 999, u32::MAX] {
            let refused = admit(uid, Some(7)).unwrap_err();
            assert_eq!(refused.kind, ErrorKind::Forbidden);
        }
        assert_eq!(*door.0.lock().unwrap(), [1001, 999, u32::MAX]);
        for uid in [1000, 0] {
            assert_eq!(admit(uid, Some(7)).unwrap().who, Who::Operator);
            assert_eq!(admit(uid, None).unwrap().who, Who::Invisible);
        }
    }

    #[test]
    fn caller_that_is_gone_has_no_rights_whatever_has_its_pid() {
        let (door, places) = (Door::default(), Arc::default());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let peer = Peer::of_pid(child.id());
        child.wait().unwrap();
        let caller = Caller {
            pid: Some(std::process::id()),
            uid: 1000,
            who: Who::Invisible,
            peer,
        };
        let (caller, _place) = admit_peer(1000, caller, &door, &places).unwrap();
        assert_eq!(caller.who, Who::Invisible);
    }
}
