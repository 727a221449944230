//! The patrol of the supervisor's own files: ground, control socket, store and watches. It mends what it can, and
//! reports the rest.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::ground::Ground;
use crate::actors::effects;
use crate::actors::ground::looked;
use crate::actors::world::World;
use crate::control::server::{AtSocket, SocketFile, bind};
use crate::domain::ground::{Look, Part};
use crate::domain::shown;

/// The time that a check may take until it is reported.
const CHECK_LIMIT: Duration = Duration::from_secs(60);

/// The time between two requested checks: a rig that is held and prepared in turn must not keep the disk busy.
const PAUSE: Duration = Duration::from_secs(2);

/// Returns the result of a check that has not ended in time.
fn unanswered(world: &World) -> Look {
    let mut look = Look::default();
    let says = format!("the supervisor's own files have not answered within {CHECK_LIMIT:?}");
    let hint = "check for a disk or a network mount that does not answer";
    look.leave(Part::State, world.city.state_dir(), says, hint);
    look
}

/// Completes a check with the faults that other parts have noticed, and reports it.
async fn report(world: &Arc<World>, mut look: Look) {
    if let Some(why) = world.store.trouble() {
        let path = world.city.state_dir().join("relics.db");
        let hint = "sessions run on; no new work starts until the store can be written";
        look.leave(Part::Store, path, why, hint);
    }
    if let Some(why) = world.tasks.unwatched() {
        let hint = "only patrols see changes; raise the sysctl \
                fs.inotify.max_user_instances or max_user_watches";
        let says = format!("changes of files are not watched: {why}");
        look.leave(Part::Watch, world.city.outbox_dir(), says, hint);
    }
    for (entry, file) in world.tasks.written_in_trash() {
        let says = format!(
            "{} was written or moved there after its sandbox was checked and removed: it may be \
                    in no commit and no salvage",
            shown::line(&file.to_string_lossy())
        );
        let hint = "save what you need from it, then delete the directory";
        look.leave(Part::Trash, entry, says, hint);
    }
    // Entries of the trash may no longer be in use.
    effects::empty_trash(world);
    effects::look_at_repositories(world).await;
    let held = effects::prepare_held(world);
    for (rig, why) in effects::unseen_rigs(world) {
        if held.contains_key(&rig) {
            continue;
        }
        let says = format!("rig {rig} is unseen: {why}");
        let hint = "check the disk of this rig, and its git; other rigs do not depend on it";
        look.leave(Part::Rig, world.city.rig_dir(&rig), says, hint);
    }
    for (rig, why) in held {
        let says = format!("rig {rig} is held: {why}");
        let hint = "each patrol retries it; other rigs do not depend on it";
        look.leave(Part::Rig, world.city.rig_dir(&rig), says, hint);
    }
    for (rig, repo) in &world.repos {
        for says in repo.take_mended() {
            look.mend(Part::Rig, world.city.rig_dir(rig), says);
        }
    }
    looked(world, look).await;
}

/// Checks at the start, at every patrol and on request, for ever.
pub(super) async fn keep<C: FnMut() -> Look + Send + 'static>(check: C, world: Arc<World>) {
    let mut checking = begin(check);
    let (mut waiting, mut pause) = (Vec::new(), Duration::ZERO);
    loop {
        let (check, look) = match tokio::time::timeout(CHECK_LIMIT, &mut checking).await {
            Ok(Ok((check, look))) => (Some(check), look),
            Ok(Err(error)) => {
                tracing::error!(%error, "the check of the supervisor's own files was cancelled; it stays off until the next start");
                return;
            }
            // One check at a time: its thread is waited for again after the next interval.
            Err(_) => (None, unanswered(&world.newest())),
        };
        let own = world.newest();
        // In a task of its own: a panic must not end the patrols.
        let reported = tokio::spawn(async move { report(&own, look).await });
        if let Err(panic) = reported.await {
            tracing::error!(%panic, "the report about the supervisor's own files panicked; the next patrol reports again");
        }
        let interval = world.newest().city.daemon.patrol_interval;
        if check.is_some() {
            waiting.clear();
        }
        let wanted = async {
            tokio::time::sleep(pause).await;
            world.directory.ground.wanted().await;
        };
        pause = tokio::select! {
            () = tokio::time::sleep(interval) => Duration::ZERO,
            () = wanted => PAUSE,
        };
        if let Some(check) = check {
            waiting = world.directory.ground.take_waiting();
            checking = begin(check);
        }
    }
}

/// Begins a check on a thread. After a panic nothing is known to be wrong, and the next patrol checks again.
fn begin<C: FnMut() -> Look + Send + 'static>(mut check: C) -> JoinHandle<(C, Look)> {
    tokio::task::spawn_blocking(move || {
        // Not dropped by a panic, which would remove the socket's file.
        let look = catch_unwind(AssertUnwindSafe(&mut check));
        (check, look.unwrap_or_default())
    })
}

/// The supervisor's own files: state directory, lock and socket. Dropping it removes the socket's file.
pub(super) struct OwnFiles {
    ground: Arc<Ground>,
    socket: SocketFile,
    /// Receives a socket that was made again, to be served from then on.
    renew: mpsc::Sender<UnixListener>,
}

impl OwnFiles {
    pub(super) fn new(
        ground: Arc<Ground>,
        socket: SocketFile,
        renew: mpsc::Sender<UnixListener>,
    ) -> Self {
        Self {
            ground,
            socket,
            renew,
        }
    }

    /// Checks them, and mends what it can.
    pub(super) fn check(&mut self) -> Look {
        let mut look = self.ground.check();
        // Without its directory there is no place for the socket; the missing directory is reported already.
        if look
            .left
            .iter()
            .all(|it| !matches!(it.part, Part::City | Part::State))
        {
            self.look_at_socket(&mut look);
        }
        look
    }

    fn look_at_socket(&mut self, look: &mut Look) {
        let path = self.socket.path().to_owned();
        match self.socket.check() {
            AtSocket::Ours => {}
            AtSocket::Free => match self.bind_again() {
                Ok(()) => look.mend(
                    Part::Socket,
                    path,
                    "the control socket was removed, and was recreated",
                ),
                Err(error) => {
                    let says = format!("the control socket is gone and cannot be made: {error}");
                    look.leave(
                        Part::Socket,
                        path,
                        says,
                        "`hd` cannot reach this supervisor",
                    );
                }
            },
            AtSocket::Taken(what) => {
                let says = format!("the control socket was replaced by {what}");
                let hint = "move it away; then the socket is recreated";
                look.leave(Part::Socket, path, says, hint);
            }
            AtSocket::Unseen(why) => {
                look.leave(
                    Part::Socket,
                    path,
                    format!("it cannot be checked: {why}"),
                    "",
                );
            }
        }
    }

    fn bind_again(&mut self) -> std::io::Result<()> {
        let (listener, socket) = bind(self.socket.path())?.listen()?;
        self.socket = socket;
        // The server is gone only at the end, when no socket is needed.
        self.renew.try_send(listener).map_err(std::io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::{Mutex, PoisonError};

    use super::*;
    use crate::testing::world::Scenario;

    #[tokio::test(start_paused = true)]
    async fn requested_check_comes_at_once_and_the_next_one_after_a_pause() {
        let city = Scenario::new().start().await;
        let checks = Arc::new(Mutex::new(0));
        let count = Arc::clone(&checks);
        let check = move || {
            *count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            Look::default()
        };
        let keeping = tokio::spawn(keep(check, Arc::clone(&city.world)));
        city.settle().await;
        let checked = || *checks.lock().unwrap_or_else(PoisonError::into_inner);
        let ground = &city.world.directory.ground;
        let begun = city.world.clock.mono();
        for (number, waited) in [(2, Duration::ZERO), (3, PAUSE)] {
            ground.look_now(Duration::from_secs(60)).await;
            assert_eq!(checked(), number);
            let passed = city.world.clock.mono() - begun;
            assert!(passed >= waited && passed < waited + PAUSE, "{passed:?}");
        }
        // A caller waits no longer than it says.
        keeping.abort();
        ground.look_now(PAUSE).await;
        assert_eq!(checked(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn check_that_panics_keeps_its_files_and_is_repeated_at_the_next_patrol() {
        let city = Scenario::new().start().await;
        let dir = crate::testing::scratch();
        let private = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(dir.path(), private).unwrap();
        let path = dir.path().join("control.sock");
        let (_listener, socket) = bind(&path).unwrap().listen().unwrap();
        let checks = Arc::new(Mutex::new(0));
        let count = Arc::clone(&checks);
        let check = move || {
            let says = format!("{} is served", socket.path().display());
            let mut number = count.lock().unwrap_or_else(PoisonError::into_inner);
            *number += 1;
            assert!(*number > 1, "on purpose");
            let mut look = Look::default();
            look.leave(Part::Lock, "/city", says, "");
            look
        };
        let keeping = tokio::spawn(keep(check, Arc::clone(&city.world)));
        let interval = city.world.city.daemon.patrol_interval;
        let findings = || city.world.directory.ground.findings().len();
        for (waited, found) in [(interval / 2, 0), (interval, 1)] {
            city.pass(waited).await;
            assert_eq!(findings(), found);
            assert!(path.exists(), "the panic did not drop the files");
        }
        assert_eq!(*checks.lock().unwrap_or_else(PoisonError::into_inner), 2);
        keeping.abort();
        let _aborted = keeping.await;
        assert!(!path.exists());
    }
}
