//! Watches screens for changes: one thread sleeps on a connection to the holder of each session, which reports when
//! its program wrote something ([`Request::Watch`]). The reports are only hints: the patrol looks at every
//! screen anyway.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;

use super::client::Client;
use super::files::SessionRecord;
use crate::adapters::proc;
use crate::domain::holder_wire::{Answer, Frames, Request};
use crate::ports::sessions::{ScreenListener, SessionHandle};

/// The event for a new entry in the queue.
const QUEUE: u64 = 0;

/// A session to watch.
struct Wish {
    dir: PathBuf,
    handle: SessionHandle,
}

struct Shared {
    wake: OwnedFd,
    /// Sessions to watch; none once the thread must end.
    queue: Mutex<Option<Vec<Wish>>>,
    listener: OnceLock<ScreenListener>,
}

/// The watch of all screens; its thread ends with it.
pub struct Changes {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Changes {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the kernel refuses descriptors or a thread.
    pub fn new() -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared {
            wake,
            queue: Mutex::new(Some(Vec::new())),
            listener: OnceLock::new(),
        });
        let mut watcher = Watcher::new(Arc::clone(&shared))?;
        let thread = std::thread::Builder::new()
            .name("screen-watch".to_owned())
            .stack_size(256 * 1024)
            .spawn(move || watcher.run())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Sets the listener for changes; only the first one counts.
    pub fn listen(&self, listener: ScreenListener) {
        if self.shared.listener.set(listener).is_err() {
            tracing::error!(
                "the second listener for changed screens was refused; the first one stays"
            );
        }
    }

    /// Watches the screen of a session. Returns at once: a holder that hangs delays no start.
    pub fn watch(&self, dir: PathBuf, state: &SessionRecord) {
        let handle = SessionHandle {
            id: state.id.clone(),
            token: state.token.clone(),
        };
        if let Some(queue) = self.shared.queue().as_mut() {
            queue.push(Wish { dir, handle });
        }
        self.shared.wake();
    }
}

impl Changes {
    /// Ends all watches, to free their descriptors. Afterwards only patrols look at screens.
    pub fn let_go(&self) {
        *self.shared.queue() = None;
        self.shared.wake();
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.let_go();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(
                "the thread that watches screens panicked; only patrols look at screens from now on"
            );
        }
    }
}

impl Shared {
    fn queue(&self) -> std::sync::MutexGuard<'_, Option<Vec<Wish>>> {
        // Every change is a single call, so a panic elsewhere leaves it consistent.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // A full counter wakes the thread all the same.
        let _full = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

struct Watched {
    stream: UnixStream,
    frames: Frames,
    handle: SessionHandle,
}

/// The thread's own state.
struct Watcher {
    shared: Arc<Shared>,
    epoll: OwnedFd,
    last: u64,
    watched: HashMap<u64, Watched>,
}

impl Watcher {
    fn new(shared: Arc<Shared>) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(QUEUE);
        epoll::add(&epoll, &shared.wake, data, epoll::EventFlags::IN)?;
        Ok(Self {
            shared,
            epoll,
            last: QUEUE,
            watched: HashMap::new(),
        })
    }

    fn run(&mut self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => {
                    tracing::error!(%error, "the watch of screens failed and ends; only patrols look at screens from now on");
                    return;
                }
            }
            for event in &events {
                match event.data.u64() {
                    QUEUE if !self.take_queue() => return self.watched.clear(),
                    QUEUE => {}
                    number => self.hear(number),
                }
            }
        }
    }

    /// Connects to the holders of queued sessions. Returns false when the watch must end.
    fn take_queue(&mut self) -> bool {
        let mut counter = [0; 8];
        // Another wake-up may have read it already.
        let _none = rustix::io::read(&self.shared.wake, &mut counter);
        let wishes = match self.shared.queue().as_mut() {
            Some(queue) => std::mem::take(queue),
            None => return false,
        };
        for wish in wishes {
            let session = wish.handle.id.clone();
            if let Err(why) = self.connect(wish) {
                tracing::debug!(%session, why, "the screen of a session cannot be watched; only patrols look at it");
            }
        }
        true
    }

    fn connect(&mut self, wish: Wish) -> Result<(), String> {
        let mut client =
            Client::hurried(&wish.dir, &wish.handle.token).map_err(|error| error.to_string())?;
        client
            .send(&Request::Watch)
            .map_err(|error| error.to_string())?;
        let (stream, frames) = client.into_parts();
        if proc::is_scarce(&stream) {
            return Err("few file descriptors are left".to_owned());
        }
        let set_up = || -> io::Result<()> {
            stream.set_nonblocking(true)?;
            let data = epoll::EventData::new_u64(self.last + 1);
            Ok(epoll::add(
                &self.epoll,
                &stream,
                data,
                epoll::EventFlags::IN,
            )?)
        };
        set_up().map_err(|error| error.to_string())?;
        self.last += 1;
        let handle = wish.handle;
        self.watched.insert(
            self.last,
            Watched {
                stream,
                frames,
                handle,
            },
        );
        // Output from before the watch is reported, too.
        self.notify(self.last);
        Ok(())
    }

    /// Reads the messages of a holder; drops a connection that is closed.
    fn hear(&mut self, number: u64) {
        let Some(watched) = self.watched.get_mut(&number) else {
            return;
        };
        match watched.read() {
            Heard::Changed => self.notify(number),
            Heard::Nothing => {}
            Heard::Over => {
                if let Some(watched) = self.watched.remove(&number)
                    && let Err(error) = epoll::delete(&self.epoll, &watched.stream)
                {
                    tracing::warn!(session = %watched.handle.id, %error, "the connection of an ended session could not be removed from the watched set");
                }
            }
        }
    }

    fn notify(&self, number: u64) {
        let Some(watched) = self.watched.get(&number) else {
            return;
        };
        let session = watched.handle.id.clone();
        let (Some(listener), handle) = (self.shared.listener.get(), watched.handle.clone()) else {
            return;
        };
        if catch_unwind(AssertUnwindSafe(|| listener(handle))).is_err() {
            tracing::error!(%session, "the listener for changed screens panicked; the next patrol looks at the screen");
        }
    }
}

/// The result of one read.
enum Heard {
    Changed,
    Nothing,
    Over,
}

impl Watched {
    fn read(&mut self) -> Heard {
        let mut buffer = [0; 512];
        let mut heard = Heard::Nothing;
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Heard::Over,
                Ok(count) => self.frames.push(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return heard,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return Heard::Over,
            }
            loop {
                match self.frames.next_frame() {
                    Ok(Some((kind, payload))) => match Answer::decode(kind, payload) {
                        Ok(Answer::Changed) => heard = Heard::Changed,
                        Ok(Answer::Unknown(_)) => {}
                        // Refused, or the session is over.
                        Ok(_) | Err(_) => return Heard::Over,
                    },
                    Ok(None) => break,
                    Err(_) => return Heard::Over,
                }
            }
        }
    }
}
