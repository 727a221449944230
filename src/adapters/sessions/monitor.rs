//! Observes the ends of sessions: one thread sleeps on the pidfds of all holders. A holder ends after it has put the
//! end of its session on disk, so its end is the event and `exit.json` has the details.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;

use super::files::{self, SessionRecord};
use super::observe;
use crate::adapters::proc::{self, Pidfd};
use crate::ports::sessions::{Listener, SessionEvent, SessionHandle};

/// The event that ends the thread.
const CLOSE: u64 = 0;

struct Watch {
    pidfd: Pidfd,
    dir: PathBuf,
    state: SessionRecord,
}

#[derive(Default)]
struct Watches {
    last: u64,
    by_number: HashMap<u64, Watch>,
    by_token: HashMap<String, u64>,
}

struct Shared {
    epoll: OwnedFd,
    close: OwnedFd,
    watches: Mutex<Watches>,
    listener: OnceLock<Listener>,
}

/// The monitor; its thread ends with it.
pub struct Monitor {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Monitor {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the kernel refuses descriptors or a thread.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let close = eventfd(0, EventfdFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(CLOSE);
        epoll::add(&epoll, &close, data, epoll::EventFlags::IN)?;
        let shared = Arc::new(Shared {
            epoll,
            close,
            watches: Mutex::default(),
            listener: OnceLock::new(),
        });
        let in_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("session-monitor".to_owned())
            .stack_size(256 * 1024)
            .spawn(move || in_thread.run())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Sets the listener for ends; only the first one counts.
    pub fn listen(&self, listener: Listener) {
        if self.shared.listener.set(listener).is_err() {
            tracing::error!(
                "the second listener for session ends was refused; the first one stays"
            );
        }
    }

    /// Watches the holder of a session. Returns false if it has ended already: no end will be announced then.
    /// Watching twice announces once.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn watch(&self, dir: PathBuf, state: SessionRecord) -> io::Result<bool> {
        let mut watches = self.shared.watches();
        if watches.by_token.contains_key(&state.token) {
            return Ok(true);
        }
        let Some(pidfd) = Pidfd::open(&state.holder)? else {
            return Ok(false);
        };
        if proc::is_scarce(&pidfd) {
            return Err(io::Error::other("few file descriptors are left"));
        }
        watches.last += 1;
        let number = watches.last;
        let data = epoll::EventData::new_u64(number);
        epoll::add(&self.shared.epoll, &pidfd, data, epoll::EventFlags::IN)?;
        watches.by_token.insert(state.token.clone(), number);
        watches
            .by_number
            .insert(number, Watch { pidfd, dir, state });
        Ok(true)
    }
}

impl Monitor {
    /// Announces the end of a session whose holder ended before it could be watched.
    pub fn announce(&self, dir: &Path, state: &SessionRecord) {
        self.shared.announce(dir, state);
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        if let Err(error) = rustix::io::write(&self.shared.close, &1_u64.to_ne_bytes()) {
            tracing::error!(%error, "the session monitor could not be stopped; its thread is left running");
            return;
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the session monitor panicked");
        }
    }
}

impl Shared {
    fn watches(&self) -> MutexGuard<'_, Watches> {
        // Every change to the maps is a single call, so a panic elsewhere leaves them consistent.
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => {
                    // Never observed so far; the patrol's list still finds every end.
                    tracing::error!(%error, "the session monitor failed and ends; only patrols notice the ends of sessions from now on");
                    return;
                }
            }
            for event in &events {
                match event.data.u64() {
                    CLOSE => return,
                    number => self.holder_ended(number),
                }
            }
        }
    }

    fn holder_ended(&self, number: u64) {
        let watch = {
            let mut watches = self.watches();
            let Some(watch) = watches.by_number.remove(&number) else {
                return;
            };
            watches.by_token.remove(&watch.state.token);
            watch
        };
        // Dropping the pidfd would not take it out of the set while a fork has a copy.
        if let Err(error) = epoll::delete(&self.epoll, &watch.pidfd) {
            tracing::warn!(session = %watch.state.id, %error, "the pidfd of an ended holder could not be removed from the watched set");
        }
        self.announce(&watch.dir, &watch.state);
    }

    fn announce(&self, dir: &Path, state: &SessionRecord) {
        let handle = SessionHandle {
            id: state.id.clone(),
            token: state.token.clone(),
        };
        let event = match files::read_end(dir, &state.token) {
            Ok(Some(ended)) => SessionEvent::Exited(handle, ended.exit),
            Ok(None) => SessionEvent::Lost(handle, observe::why_lost(dir, state)),
            Err(error) => {
                // An unknown end is never announced as lost; the next list decides.
                tracing::warn!(session = %state.id, %error, "the record of a session's end cannot be read; it is not announced, and a patrol reads it again");
                return;
            }
        };
        let Some(listener) = self.listener.get() else {
            return;
        };
        if catch_unwind(AssertUnwindSafe(|| listener(event))).is_err() {
            tracing::error!(session = %state.id, "the listener for session ends panicked; a patrol notices the end");
        }
    }
}
