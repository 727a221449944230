//! The switch that ends the gate under way. A rig runs one gate at a time.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use rustix::event::{EventfdFlags, eventfd};

use crate::adapters::git::rig::locked;

/// The gate that runs now, if one does.
#[derive(Debug, Default)]
pub(in crate::adapters::git) struct RunningGate(Mutex<Option<Arc<OwnedFd>>>);

/// A run that can be ended. Dropped, the next stop ends nothing.
pub(super) struct Switch<'a> {
    of: &'a RunningGate,
    fd: Option<Arc<OwnedFd>>,
}

impl RunningGate {
    /// Registers a run. Without a free descriptor it cannot be ended early; its timeout still holds.
    pub(super) fn begin(&self) -> Switch<'_> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC).ok().map(Arc::new);
        locked(&self.0).clone_from(&fd);
        Switch { of: self, fd }
    }

    /// Ends the run, if there is one.
    pub(in crate::adapters::git) fn stop(&self) {
        if let Some(fd) = &*locked(&self.0) {
            // If the counter is full, the signal was sent already.
            let _sent = rustix::io::write(fd, &1_u64.to_ne_bytes());
        }
    }
}

impl Switch<'_> {
    /// Returns the descriptor that becomes readable when the run is to end.
    pub(super) fn fd(&self) -> Option<&OwnedFd> {
        self.fd.as_deref()
    }
}

impl Drop for Switch<'_> {
    fn drop(&mut self) {
        locked(&self.of.0).take();
    }
}
