//! The signals of the daemon.

use tokio::signal::unix::{self, SignalKind};

use crate::actors::mail::ConfigMsg;
use crate::actors::world::World;
use crate::telemetry;

/// TERM and INT stop the process; HUP and USR1 must not end it.
pub(super) struct Signals {
    term: unix::Signal,
    int: unix::Signal,
    hup: unix::Signal,
    usr1: unix::Signal,
}

impl Signals {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {
            term: unix::signal(SignalKind::terminate())?,
            int: unix::signal(SignalKind::interrupt())?,
            hup: unix::signal(SignalKind::hangup())?,
            usr1: unix::signal(SignalKind::user_defined1())?,
        })
    }

    /// Returns at the next stop signal. HUP reloads the configuration, where a world exists.
    pub(super) async fn stop(&mut self, world: Option<&World>) {
        loop {
            tokio::select! {
                _ = self.term.recv() => return,
                _ = self.int.recv() => return,
                _ = self.hup.recv() => {
                    if let Some(world) = world {
                        world.directory.tell_config(ConfigMsg::Hangup);
                    }
                }
                _ = self.usr1.recv() => reopen_log(),
            }
        }
    }
}

/// Reopens the log file by its name, because the old file was rotated away.
fn reopen_log() {
    match telemetry::reopen() {
        Ok(Some(path)) => tracing::info!(path = %path.display(), "log file reopened after SIGUSR1"),
        Ok(None) => tracing::info!("SIGUSR1 ignored: the log is not a file"),
        Err(error) => tracing::error!(%error, "log file not reopened; the old one stays in use"),
    }
}
