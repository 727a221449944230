//! Notifies the service manager (`sd_notify`) in an order that it accepts.
//!
//! ```text
//!  starting ── READY ──► running ── RELOADING ──► reloading ── READY ──► running ── STOPPING ──► stopping
//! ```
//!
//! A message out of turn is left out: a reload while the city starts or stops does not concern the manager, and READY
//! would be wrong there.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sd_notify::NotifyState;

use crate::actors::config::Reloading;
use crate::actors::mail::{ChildState, ChildView};
use crate::actors::refusal::Refusal;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Starting,
    Running,
    Reloading,
    Stopping,
}

/// The service manager, if one listens.
pub(super) struct Manager(Mutex<Phase>);

impl Manager {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Phase::Starting))
    }

    /// Locked while the manager is notified, so that notifications keep their order.
    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notifies that the control socket answers.
    pub(super) fn ready(&self) {
        let mut phase = self.phase();
        if *phase == Phase::Starting {
            *phase = Phase::Running;
            send_states(&[NotifyState::Ready]);
        }
    }

    /// Notifies that the configuration is being read, or that reading is over.
    pub(super) fn reloads(&self, reloading: &Reloading) {
        let mut phase = self.phase();
        match (*phase, reloading) {
            (Phase::Running, Reloading::Begun) => match NotifyState::monotonic_usec_now() {
                Ok(now) => {
                    *phase = Phase::Reloading;
                    send_states(&[NotifyState::Reloading, now]);
                }
                // Without the time the manager would take it for a failed reload.
                Err(error) => {
                    tracing::warn!(%error, "no monotonic time; the service manager is not notified of this reload");
                }
            },
            (Phase::Reloading, Reloading::Over { refused }) => {
                *phase = Phase::Running;
                let status = status_of_reload(refused.as_deref());
                send_states(&[NotifyState::Ready, NotifyState::Status(&status)]);
            }
            _ => {}
        }
    }

    /// Notifies that the root answers, with a status of its children.
    pub(super) fn lives(&self, views: &[ChildView], reload_error: Option<&str>) {
        let status = status(views, reload_error);
        send_states(&[NotifyState::Watchdog, NotifyState::Status(&status)]);
    }

    /// Notifies that everything is being ended.
    pub(super) fn stopping(&self) {
        let mut phase = self.phase();
        if *phase != Phase::Stopping {
            *phase = Phase::Stopping;
            send_states(&[NotifyState::Stopping]);
        }
    }
}

/// Feeds the watchdog for as long as the root answers. Without that the manager kills the supervisor and starts it
/// again; the next start adopts the running sessions.
pub(super) async fn watch<F: Future<Output = Result<Vec<ChildView>, Refusal>>>(
    limit: Duration,
    look: impl Fn() -> F,
    lives: impl Fn(&[ChildView]),
) {
    loop {
        tokio::time::sleep(limit / 2).await;
        match look().await {
            Ok(views) => lives(&views),
            Err(error) => {
                tracing::error!(%error, "the root supervisor does not answer; the service manager's watchdog is not fed");
            }
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the service manager names its socket here"
)]
fn send_states(states: &[NotifyState]) {
    let socket = std::env::var_os("NOTIFY_SOCKET").unwrap_or_default();
    let told = match socket.as_bytes().split_first() {
        // The library only knows sockets with a path.
        Some((b'@', name)) => tell_abstract(name, states),
        _ => sd_notify::notify(states),
    };
    if let Err(error) = told {
        tracing::warn!(%error, ?socket, "could not notify the service manager");
    }
}

/// Notifies a manager that listens at a socket without a file.
fn tell_abstract(name: &[u8], states: &[NotifyState]) -> std::io::Result<()> {
    let address = SocketAddr::from_abstract_name(name)?;
    let lines: String = states.iter().map(|state| format!("{state}\n")).collect();
    let socket = UnixDatagram::unbound()?;
    // A manager that does not read must not hold up the supervisor.
    socket.set_nonblocking(true)?;
    socket.send_to_addr(lines.as_bytes(), &address).map(drop)
}

fn status_of_reload(refused: Option<&str>) -> String {
    match refused {
        None => "the configuration is in force".to_owned(),
        Some(why) => format!("{REFUSED}: {}", first_line(why)),
    }
}

const REFUSED: &str = "the configuration on disk is refused; the previous one stays in force";

/// Returns the line for `systemctl status`: `12 sessions running, 1 quarantined`.
fn status(views: &[ChildView], reload_error: Option<&str>) -> String {
    let running = views.iter().filter(|view| view.session.is_some()).count();
    let quarantined = |view: &&ChildView| view.state == ChildState::Quarantined;
    let quarantined = views.iter().filter(quarantined).count();
    let mut status = format!("{running} sessions running");
    if quarantined > 0 {
        status.push_str(&format!(", {quarantined} quarantined"));
    }
    if let Some(why) = reload_error {
        status.push_str(&format!("; configuration: {}", first_line(why)));
    }
    status
}

/// Returns the first line only: further lines would be assignments to the manager.
fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Returns how often the root was asked and the watchdog fed; from the third time on, the root answers with `then`.
    async fn fed(then: impl AsyncFn() -> Result<Vec<ChildView>, Refusal>) -> (usize, usize) {
        let (asked, fed) = (Cell::new(0), Cell::new(0));
        let look = || {
            asked.set(asked.get() + 1);
            async {
                match asked.get() {
                    1 | 2 => Ok(Vec::new()),
                    _ => then().await,
                }
            }
        };
        let lives = |_: &[ChildView]| fed.set(fed.get() + 1);
        let hour = Duration::from_secs(3599);
        let watching = watch(Duration::from_secs(10), look, lives);
        let over = tokio::time::timeout(hour, watching).await;
        assert!(over.is_err(), "it never ends by itself");
        (asked.get(), fed.get())
    }

    #[tokio::test(start_paused = true)]
    async fn the_watchdog_is_fed_while_the_root_answers_and_then_starves() {
        assert_eq!(fed(async || Ok(Vec::new())).await, (719, 719));
        assert_eq!(fed(std::future::pending).await, (3, 2), "the root hangs");
        let gone = async || Err(Refusal::internal("gone"));
        assert_eq!(fed(gone).await, (719, 2), "the root is gone");
    }
}
