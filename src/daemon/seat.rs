//! The seats of a city, which its supervisor holds beside its locks: one for the path of the city, one for its id. A
//! lock belongs to a directory; another directory that is moved to the same path has none. A seat is an abstract
//! socket: it belongs to the network namespace of its holder until that ends, whatever happens to files.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Display, Path};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::DaemonError;
use crate::control::client::seat::{Holder, Occupant, occupant};
use crate::domain::city;

/// The time that a seat may outlive a killed supervisor.
const MOMENT: Duration = Duration::from_millis(500);
/// The number of questions that wait for the next look of the holder.
const BACKLOG: i32 = 128;

/// The meaning of a process of this user in another container that holds a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Elsewhere {
    /// Containers may share the network, and have a city each at the same path.
    Ignored,
    /// No two cities have the same id.
    Counts,
}

/// A seat that is held for as long as this is open.
pub(super) struct Seat(Option<OwnedFd>);

impl Seat {
    /// Closes the connections of processes that ask which process holds the seat, for ever. Without this the queue
    /// becomes full, and the next process that asks learns no pid.
    pub(super) async fn answer(&self) -> Infallible {
        let register = |socket| {
            // SAFETY: the socket stays open for as long as it is borrowed.
            unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }
        };
        let socket = self.0.as_ref().map(|socket| register(socket.as_fd()));
        if let Some(Ok(socket)) = socket {
            while let Ok(mut asked) = socket.readable().await {
                // First, so that a connection after the last look is another reason.
                asked.clear_ready();
                while rustix::net::accept_with(socket.get_ref(), SocketFlags::CLOEXEC).is_ok() {}
            }
        }
        std::future::pending().await
    }
}

/// Takes the seat of the path of a city, its canonical one.
pub(super) fn of_path(city: &Path) -> Result<Seat, DaemonError> {
    let key = city.as_os_str().as_encoded_bytes();
    take(key, city, Elsewhere::Ignored).map_err(|holder| {
        refusal(holder, city, |pid, city| {
            format!(
                "another supervisor (pid {pid}) holds this city: it was started when another directory was at \
                {city}, which was moved, removed or replaced while it ran. It ends its sessions, and then itself, \
                within seconds; start again then. If it does not, end its process"
            )
        })
    })
}

/// Takes the seat of the id of a city.
pub(super) fn of_id(id: &str, city: &Path) -> Result<Seat, DaemonError> {
    take(id.as_bytes(), city, Elsewhere::Counts).map_err(|holder| {
        refusal(holder, city, |pid, city| {
            format!(
                "another supervisor (pid {pid}) holds this city: it was started on another directory, of which \
                {city} is a copy or a backup. Nothing was started or ended. Stop that supervisor first: `hd stop` \
                with its directory, or end its process"
            )
        })
    })
}

/// Returns the error about a seat that is held. `of_supervisor` explains why a supervisor may hold it.
fn refusal(
    holder: Option<Holder>,
    city: &Path,
    of_supervisor: impl Fn(u32, Display<'_>) -> String,
) -> DaemonError {
    let city = city.display();
    DaemonError::Occupied(match holder {
        Some(Holder {
            pid,
            stranger: None,
        }) => of_supervisor(pid, city),
        Some(Holder {
            pid,
            stranger: Some(name),
        }) => format!(
            "a process (pid {pid}, {name}) holds the socket by which a supervisor keeps others from {city}, and is no \
            supervisor by its name. Nothing was started or ended. End that process, and start again"
        ),
        None => format!(
            "a process whose pid is unknown holds the socket by which a supervisor keeps others from {city}: it may be \
            a supervisor that is stopped or hangs, or that runs in another container. Nothing was started or ended. \
            End it, and start again"
        ),
    })
}

/// Takes a seat. The error is the process that holds it, as far as it is known. If a process of another user, or one
/// that cannot be identified, has taken the name, the supervisor starts without the seat, because any user can take any
/// name; then only the lock of the directory keeps a second supervisor away.
#[expect(
    clippy::disallowed_methods,
    reason = "other processes are waited for, in real time"
)]
fn take(key: &[u8], city: &Path, elsewhere: Elsewhere) -> Result<Seat, Option<Holder>> {
    let name = city::seat(key, rustix::process::geteuid().as_raw());
    let deadline = Instant::now() + MOMENT;
    loop {
        let why = match bind(&name) {
            Ok(socket) => return Ok(Seat(Some(socket))),
            // A child that a killed supervisor was starting has its seat until its `exec`.
            Err(Errno::ADDRINUSE) if Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(10));
                continue;
            }
            // Asked once: each question stays in the holder's queue until it looks.
            Err(Errno::ADDRINUSE) => match occupant(&name) {
                Occupant::Ours(holder) => return Err(Some(holder)),
                // A supervisor that is stopped or hangs, after many starts were refused.
                Occupant::Silent => return Err(None),
                Occupant::Elsewhere if elsewhere == Elsewhere::Counts => return Err(None),
                Occupant::Elsewhere => {
                    "a process in another container has taken its name".to_owned()
                }
                Occupant::Free => "a process has taken its name, and does not answer".to_owned(),
                Occupant::Other(who) => format!("{who} has taken its name"),
            },
            Err(error) => io::Error::from(error).to_string(),
        };
        tracing::warn!(city = %city.display(), %why, "the socket that keeps a second supervisor from this city's path cannot be used; only the lock of its directory does");
        return Ok(Seat(None));
    }
}

fn bind(name: &str) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    fn refused(taken: Result<Seat, DaemonError>) -> String {
        match taken {
            Err(DaemonError::Occupied(said)) => said,
            _ => panic!("it was taken"),
        }
    }

    #[tokio::test]
    async fn seat_is_held_until_its_holder_is_gone_and_names_it() {
        let dir = crate::testing::scratch();
        let held = of_path(dir.path()).unwrap();
        let own = format!("a process (pid {}, ", std::process::id());
        for _ in 0..3 {
            // The program of this test is no supervisor, as any process of this user that takes the name.
            let said = refused(of_path(dir.path()));
            assert!(said.contains(&own) && !said.contains("another"), "{said}");
        }
        // One that answers can be asked any number of times.
        let name = city::seat(
            dir.path().as_os_str().as_encoded_bytes(),
            rustix::process::geteuid().as_raw(),
        );
        let asking = tokio::task::spawn_blocking(move || {
            (0..2 * BACKLOG).all(|_| matches!(occupant(&name), Occupant::Ours(_)))
        });
        tokio::select! {
            never = held.answer() => match never {},
            all = asking => assert!(all.unwrap()),
        }
        let _another = of_path(&dir.path().join("other")).unwrap();
        drop(held);
        of_path(dir.path()).unwrap();
    }

    /// Each refused start left questions in the queue of a holder that hangs, and was the holder itself once the queue
    /// was full. Then no start, and no `hd stop`, could name the holder.
    #[test]
    fn seat_of_a_holder_that_answers_nothing_stays_held_by_its_pid_however_often_it_is_asked_for() {
        let dir = crate::testing::scratch();
        let _held = of_path(dir.path()).unwrap();
        let name = city::seat(
            dir.path().as_os_str().as_encoded_bytes(),
            rustix::process::geteuid().as_raw(),
        );
        for _ in 0..BACKLOG + 3 {
            let found = occupant(&name);
            assert!(
                matches!(&found, Occupant::Ours(holder) if holder.pid == std::process::id()),
                "{found:?}"
            );
        }
        let own = format!("(pid {}, ", std::process::id());
        assert!(refused(of_path(dir.path())).contains(&own));
    }

    #[test]
    fn id_is_held_wherever_its_city_is() {
        let dir = crate::testing::scratch();
        let id = dir.path().display().to_string();
        let _held = of_id(&id, Path::new("/a")).unwrap();
        assert!(refused(of_id(&id, Path::new("/b"))).contains("others from /b"));
    }

    /// Any user can take any name.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test needs a process")]
    fn name_that_another_user_has_taken_prevents_no_start() {
        let dir = crate::testing::scratch();
        let key = dir.path().as_os_str().as_encoded_bytes();
        let name = city::seat(key, rustix::process::geteuid().as_raw());
        let socket = bind(&name).unwrap();
        let again = socket.try_clone().unwrap();
        let mut process = Command::new("true");
        process.uid(4242);
        // SAFETY: to listen is one system call.
        unsafe { process.pre_exec(move || Ok(rustix::net::listen(&again, 8)?)) };
        if process.status().is_err() {
            eprintln!("not root: a process of another user could not be tried");
            return;
        }
        assert!(matches!(occupant(&name), Occupant::Other(_)));
        assert!(of_path(dir.path()).unwrap().0.is_none());
        drop(socket);
    }
}
