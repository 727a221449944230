//! What a service manager is told (`sd_notify`), in an order that makes sense to it.
//!
//! ```text
//!  starting ── READY ──► running ── RELOADING ──► reloading ── READY ──► running ── STOPPING ──► stopping
//! ```
//!
//! What comes out of turn is not said: a reload while the city is being brought up or down is no
//! matter of the manager's, and READY there would be a lie.

use std::sync::{Mutex, MutexGuard, PoisonError};

use sd_notify::NotifyState;

use crate::actors::config::Reloading;
use crate::actors::root::{ChildState, ChildView};

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

    /// Held while it is told, so that it hears things in the order in which they happened.
    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The control socket answers.
    pub(super) fn ready(&self) {
        let mut phase = self.phase();
        if *phase == Phase::Starting {
            *phase = Phase::Running;
            tell(&[NotifyState::Ready]);
        }
    }

    /// The configuration is being read, or that is over.
    pub(super) fn reloads(&self, reloading: &Reloading) {
        let mut phase = self.phase();
        match (*phase, reloading) {
            (Phase::Running, Reloading::Begun) => match NotifyState::monotonic_usec_now() {
                Ok(now) => {
                    *phase = Phase::Reloading;
                    tell(&[NotifyState::Reloading, now]);
                }
                // Without the time it would be taken for a failed reload.
                Err(error) => tracing::warn!(%error, "a reload without a time is not told"),
            },
            (Phase::Reloading, Reloading::Over { refused }) => {
                *phase = Phase::Running;
                let status = status_of_reload(refused.as_deref());
                tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
            }
            _ => {}
        }
    }

    /// The root answers; this is what it looks after.
    pub(super) fn lives(&self, views: &[ChildView], reload_error: Option<&str>) {
        let status = status(views, reload_error);
        tell(&[NotifyState::Watchdog, NotifyState::Status(&status)]);
    }

    /// Everything is being ended.
    pub(super) fn stopping(&self) {
        let mut phase = self.phase();
        if *phase != Phase::Stopping {
            *phase = Phase::Stopping;
            tell(&[NotifyState::Stopping]);
        }
    }
}

fn tell(states: &[NotifyState]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager could not be told");
    }
}

fn status_of_reload(refused: Option<&str>) -> String {
    match refused {
        None => "the configuration is in force".to_owned(),
        Some(why) => format!("{REFUSED}: {}", first_line(why)),
    }
}

const REFUSED: &str = "the configuration on disk is refused, the one before stays in force";

/// `12 sessions running, 1 quarantined`: one line, for `systemctl status`.
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

/// More would be further assignments to the manager.
fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
