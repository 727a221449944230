//! The daemon's end of the control socket. It holds no state of the city: a line becomes one call
//! of the [`Service`], and its answer one line.
//!
//! ```text
//!   accept ─► uid? ─► who? ─► place? ─► [ line ─► envelope ─► rights ─► args ─► call ─► answer ]*
//!              │no             │no          │too long: answer, close     │stream: items, then end
//!              └► refused      └► refused   └ garbage: answer, go on     └ slow reader: dropped
//! ```
//!
//! One request of a connection is in flight at a time; further lines wait in the socket, so that
//! answers come in order and nobody can queue up work without end.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
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

pub use listener::bind;
pub use peer::Peer;

/// Connections at once of the operator, and of all others together, so that these can never shut a person
/// out. Whoever has none yet gets one all the same: sessions that have many keep no other from saying
/// that it is done.
pub const CONNECTIONS_MAX: usize = 64;
/// Connections at once from inside one session, and from all errands, and from all who cannot be seen,
/// so that none of them can shut the others out.
pub const CONNECTIONS_MAX_PER_SESSION: usize = 8;
/// How long one line may take to be taken by its reader.
pub const WRITE_LIMIT: Duration = Duration::from_secs(30);
/// After an error of `accept` (out of file descriptors), before the next try.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Who is at the other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Its pid as the kernel says; none when it is not visible here.
    pub pid: Option<u32>,
    /// Its user.
    pub uid: u32,
    /// Which session it belongs to, if any.
    pub who: Who,
    /// Tells whether the pid is still its own.
    pub peer: Peer,
}

/// What a call gives back.
#[derive(Debug)]
pub enum Answer {
    /// One result.
    Value(Value),
    /// Items until the sender is dropped, or until an error, which ends the stream. Make the channel
    /// small: a slow reader holds it up.
    Stream(Items),
}

/// What a stream is made of.
pub type Items = mpsc::Receiver<Result<Value, ControlError>>;

/// A call under way.
pub type Call = Pin<Box<dyn Future<Output = Result<Answer, ControlError>> + Send>>;

/// What stands behind the socket.
pub trait Service: Send + Sync + 'static {
    /// Which session the process belongs to, by membership. Called once per connection, and never
    /// for a pid that is not visible. Must be cheap.
    fn identify(&self, pid: u32) -> Who;

    /// What the calls of an agent's session may do by now.
    fn rights(&self, session: &SessionId) -> Rights;

    /// Serves one request that the caller has the right to ask. It runs to its end even when the
    /// caller goes away.
    fn call(&self, caller: Caller, op: Op) -> Call;

    /// Told of each request that was `forbidden`, for the journal; without operation, of a connection.
    fn forbidden(&self, caller: &Caller, op: Option<OpName>, error: &ControlError);

    /// Told of each answer, and how long it took; of a stream, when it begins.
    fn answered(&self, op: OpName, failed: Option<ErrorKind>, took: Duration);
}

/// Serves until `stopping` becomes true or its sender is gone; then takes no new connection, lets
/// requests in flight end, ends streams, and returns when every connection is closed. The caller
/// puts a limit on that by dropping the future.
pub async fn serve<S: Service>(
    listener: UnixListener,
    service: Arc<S>,
    mut stopping: watch::Receiver<bool>,
) {
    let places = Arc::new(Places::default());
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stopped(&mut stopping) => break,
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "a control connection failed");
                }
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a control connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        match admit(&stream, service.as_ref(), &places) {
            Ok((caller, place)) => {
                let (service, stopping) = (service.clone(), stopping.clone());
                connections.spawn(async move {
                    let _held_to_the_end = place;
                    connection::run(stream, caller, service, stopping).await;
                });
            }
            Err(error) => refuse(&stream, error),
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Returns when the server is to stop, or nobody is left to say so.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // The value that it gives is a lock, which must not be held any longer.
    drop(stopping.wait_for(|stop| *stop).await);
}

/// Decides on a new connection: the right user, recognised, and with a place left.
fn admit<S: Service>(
    stream: &UnixStream,
    service: &S,
    places: &Arc<Places>,
) -> Result<(Caller, Place), ControlError> {
    let peer = stream
        .peer_cred()
        .map_err(|error| ControlError::internal(format!("the peer cannot be seen: {error}")))?;
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

/// Recognises the caller by its number, which has to be its own all the while.
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

/// One line, if the fresh socket takes it at once; then the connection is closed.
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
        tracing::debug!(%error, "a refused connection was not told why");
    }
}

/// Who holds how many connections.
#[derive(Debug, Default)]
struct Places(Mutex<HashMap<Who, usize>>);

/// One connection's place; given back when dropped.
struct Place {
    places: Arc<Places>,
    holder: Who,
}

impl Places {
    fn take(places: &Arc<Self>, who: &Who) -> Result<Place, ControlError> {
        let mut held = places.0.lock().unwrap_or_else(PoisonError::into_inner);
        let a_person = *who == Who::Operator;
        let alike = held
            .iter()
            .filter(|(of, _)| (**of == Who::Operator) == a_person);
        let all: usize = alike.map(|(_, count)| count).sum();
        if held.contains_key(who) && all >= CONNECTIONS_MAX {
            return Err(full(CONNECTIONS_MAX, "at once"));
        }
        let count = held.entry(who.clone()).or_default();
        if !a_person && *count >= CONNECTIONS_MAX_PER_SESSION {
            return Err(full(CONNECTIONS_MAX_PER_SESSION, "from one session"));
        }
        *count += 1;
        drop(held);
        Ok(Place {
            places: places.clone(),
            holder: who.clone(),
        })
    }
}

fn full(limit: usize, which: &str) -> ControlError {
    ControlError::unavailable(format!("there are {limit} connections {which} already"))
        .hint("close some, or try again")
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = held.get_mut(&self.holder) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes everybody for a person, and remembers who was refused.
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
    fn another_user_is_turned_away_and_who_has_no_pid_is_invisible() {
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

    #[test]
    fn nobody_can_shut_a_person_out() {
        let places = Arc::default();
        let session = |n: usize| Who::Raider(format!("gt-horde-{n}").parse().unwrap());
        let taken: Vec<_> = (0..CONNECTIONS_MAX)
            .map_while(|n| Places::take(&places, &session(n)).ok())
            .collect();
        assert_eq!(taken.len(), CONNECTIONS_MAX);
        assert!(Places::take(&places, &Who::Operator).is_ok());
        assert!(Places::take(&places, &session(0)).is_err(), "none is left");
    }

    #[test]
    fn sessions_that_took_every_place_keep_no_other_from_being_done() {
        let places = Arc::default();
        let session = |n: usize| Who::Raider(format!("gt-horde-{n}").parse().unwrap());
        let taken: Vec<_> = (0..CONNECTIONS_MAX)
            .map_while(|n| Places::take(&places, &session(n / CONNECTIONS_MAX_PER_SESSION)).ok())
            .collect();
        assert_eq!(taken.len(), CONNECTIONS_MAX);
        let one = Places::take(&places, &session(99));
        assert!(one.is_ok());
        assert!(
            Places::take(&places, &session(99)).is_err(),
            "one is enough"
        );
    }

    #[test]
    fn only_a_person_may_take_every_place() {
        use crate::domain::city::Rights::Read;
        let places = Arc::default();
        for who in [Who::Invisible, Who::Errand(Read)] {
            let take = |_| Places::take(&places, &who);
            let taken: Vec<_> = (0..=CONNECTIONS_MAX_PER_SESSION)
                .map_while(|n| take(n).ok())
                .collect();
            assert_eq!(taken.len(), CONNECTIONS_MAX_PER_SESSION, "{who:?}");
        }
        let taken: Vec<_> = (0..)
            .map_while(|_| Places::take(&places, &Who::Operator).ok())
            .collect();
        assert_eq!(taken.len(), CONNECTIONS_MAX);
    }
}
