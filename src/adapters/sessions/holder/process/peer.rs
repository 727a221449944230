//! A connection to the holder: hello, requests in, answers out, without blocking. A peer that sends nonsense or does
//! not read is dropped; the agent never notices.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

use crate::domain::holder_wire::{
    Answer, Frames, MAX_INPUT, OLDEST, Request, VERSION, WireError, agree, hello,
};

/// The limit of unread answers, above which a peer is too slow.
const MOST_UNREAD: usize = 256 * 1024;

/// The stage of the conversation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The peer's hello has not arrived.
    Hello,
    /// Requests are answered.
    Talking,
    /// The remaining answers are sent, then the connection is closed.
    Closing,
    /// The connection is closed.
    Over,
}

/// A connection.
pub struct Peer {
    /// The number of the connection in this holder.
    pub id: u64,
    /// Set when output is streamed to the peer.
    pub follows: bool,
    /// Set when the peer is notified of screen changes.
    pub watches: bool,
    /// Set when a person is attached, with a terminal of some size, who sees and answers the prompts.
    pub attached: bool,
    /// Set while the peer waits for its input to be taken; its next request waits, too.
    pub waits: bool,
    stream: UnixStream,
    frames: Frames,
    unsent: Vec<u8>,
    stage: Stage,
}

impl Peer {
    /// Takes over an accepted connection, if it is of our own user (or root).
    pub fn new(id: u64, stream: UnixStream) -> io::Result<Self> {
        // Root of a user namespace has the number 0 here, which not every library accepts.
        let uid = getsockopt(&stream, PeerCredentials)?.uid();
        if uid != 0 && uid != rustix::process::geteuid().as_raw() {
            return Err(io::Error::from(ErrorKind::PermissionDenied));
        }
        stream.set_nonblocking(true)?;
        Ok(Self {
            id,
            follows: false,
            watches: false,
            attached: false,
            waits: false,
            stream,
            frames: Frames::default(),
            unsent: Vec::new(),
            stage: Stage::Hello,
        })
    }

    /// Returns true if the peer has said hello.
    pub fn is_known(&self) -> bool {
        self.stage != Stage::Hello
    }

    /// Returns true if the connection is closed.
    pub fn is_closed(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Returns true if the holder should poll for requests of the peer.
    pub fn listens(&self) -> bool {
        matches!(self.stage, Stage::Hello | Stage::Talking) && !self.waits
    }

    /// Returns true if there are unsent answers.
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Reads from the peer.
    pub fn receive(&mut self) {
        let mut buffer = [0; 8192];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.stage = Stage::Over,
            Ok(count) => self.frames.push(&buffer[..count]),
            Err(error) if is_later(&error) => {}
            Err(_) => self.stage = Stage::Over,
        }
    }

    /// Returns the peer's next request, if one is complete and may be answered now.
    pub fn request(&mut self) -> Option<Request> {
        if self.stage == Stage::Hello {
            self.greet();
        }
        while self.stage == Stage::Talking && !self.waits {
            let request = match self.frames.next_frame() {
                Ok(None) => return None,
                Ok(Some((kind, payload))) => Request::decode(kind, payload),
                Err(error) => Err(error),
            };
            match request {
                Ok(request) => return Some(request),
                Err(error) => {
                    self.refuse(error.to_string());
                    // After a malformed payload the next frame is in its place, but not after an impossible length.
                    if let WireError::TooLong(_) = error {
                        self.close();
                    }
                }
            }
        }
        None
    }

    fn greet(&mut self) {
        let Some(bytes) = self.frames.hello() else {
            return;
        };
        match agree(&bytes) {
            Ok(_) => {
                self.stage = Stage::Talking;
                self.queue(&hello(VERSION));
            }
            Err(WireError::Version(_)) => {
                self.stage = Stage::Closing;
                self.queue(&hello(OLDEST));
            }
            Err(_) => self.stage = Stage::Over,
        }
    }

    /// Sends an answer.
    pub fn answer(&mut self, answer: &Answer) {
        if self.stage == Stage::Talking {
            self.queue(&answer.encode());
        }
    }

    /// Answers that the request was refused.
    pub fn refuse(&mut self, why: impl Into<String>) {
        self.answer(&Answer::Refused(why.into()));
    }

    /// Streams output to the peer, in frames within the size limit.
    pub fn stream(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(MAX_INPUT) {
            self.answer(&Answer::Output(part.to_vec()));
        }
    }

    /// Sends the remaining answers, then closes.
    pub fn close(&mut self) {
        if self.stage == Stage::Talking {
            self.stage = Stage::Closing;
            self.flush();
        }
    }

    fn queue(&mut self, bytes: &[u8]) {
        let slow = self.unsent.len();
        self.unsent.extend_from_slice(bytes);
        self.flush();
        // Only answers that waited before count, so that one large answer alone drops no peer.
        if slow > MOST_UNREAD && self.unsent.len() > MOST_UNREAD {
            self.stage = Stage::Over;
        }
    }

    /// Sends as much as the peer takes now.
    pub fn flush(&mut self) {
        let mut sent = 0;
        while sent < self.unsent.len() {
            match self.stream.write(&self.unsent[sent..]) {
                Ok(count) if count > 0 => sent += count,
                Err(error) if is_later(&error) => break,
                _ => {
                    self.stage = Stage::Over;
                    break;
                }
            }
        }
        self.unsent.drain(..sent);
        if self.unsent.is_empty() {
            // Gives the memory of a burst back, to keep an idle holder small.
            self.unsent.shrink_to(4096);
            if self.stage == Stage::Closing {
                self.stage = Stage::Over;
            }
        }
    }
}

impl AsFd for Peer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Peer, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        (Peer::new(1, ours).unwrap(), theirs)
    }

    #[test]
    fn nonsense_ends_the_connection_and_a_wrong_payload_does_not() {
        let (mut peer, mut theirs) = pair();
        theirs.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        peer.receive();
        assert_eq!(peer.request(), None);
        assert!(peer.is_closed());

        let (mut peer, mut theirs) = pair();
        theirs.write_all(&hello(VERSION)).unwrap();
        theirs.write_all(&[0, 0, 0, 2, 0x04, 9]).unwrap();
        theirs.write_all(&Request::Peek.encode()).unwrap();
        peer.receive();
        assert_eq!(peer.request(), Some(Request::Peek));
        theirs.write_all(&[255, 255, 255, 255]).unwrap();
        peer.receive();
        assert_eq!(peer.request(), None);
        assert!(peer.is_closed());
    }

    #[test]
    fn a_peer_that_waits_is_not_asked_for_more() {
        let (mut peer, mut theirs) = pair();
        theirs.write_all(&hello(VERSION)).unwrap();
        theirs.write_all(&Request::Peek.encode()).unwrap();
        peer.receive();
        peer.waits = true;
        assert_eq!(peer.request(), None);
        peer.waits = false;
        assert_eq!(peer.request(), Some(Request::Peek));
    }

    #[test]
    fn a_peer_that_does_not_read_is_dropped_within_bounds() {
        let (mut peer, mut theirs) = pair();
        theirs.write_all(&hello(VERSION)).unwrap();
        peer.receive();
        assert_eq!(peer.request(), None);
        let mut streamed = 0;
        while !peer.is_closed() {
            peer.stream(&[b'x'; 4096]);
            streamed += 4096;
            assert!(streamed < 64 * 1024 * 1024, "it is never dropped");
        }
        assert!(peer.unsent.len() < 2 * MOST_UNREAD);
    }
}
