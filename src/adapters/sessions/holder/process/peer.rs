//! One connection to the holder: hello, frames in, answers out, nothing that blocks. A peer that
//! sends nonsense or does not read is dropped; nothing it does reaches the agent.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

use crate::domain::holder_wire::{
    Answer, Frames, MAX_INPUT, OLDEST, Request, VERSION, WireError, agree, hello,
};

/// A peer with more unread answers than this is too slow.
const MOST_UNREAD: usize = 256 * 1024;

/// How far the conversation has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Its hello has not come.
    Hello,
    /// Requests are answered.
    Talking,
    /// What is left to say is said, then the connection is closed.
    Closing,
    /// It is over.
    Over,
}

/// A connection.
pub struct Peer {
    /// Names it among the connections of this holder.
    pub id: u64,
    /// Whether output is streamed to it.
    pub follows: bool,
    /// Whether it is told that the screen has changed.
    pub watches: bool,
    /// Whether a person sits there with a terminal of some size, who sees and answers what is asked.
    pub attached: bool,
    /// Whether it waits for its input to be taken; its next request waits too.
    pub waits: bool,
    stream: UnixStream,
    frames: Frames,
    unsent: Vec<u8>,
    stage: Stage,
}

impl Peer {
    /// Takes over an accepted connection, if it is one of our own user's (or root's).
    pub fn new(id: u64, stream: UnixStream) -> io::Result<Self> {
        // A person in a container of their own has the number 0 here, which not every library takes.
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

    /// Whether it said hello.
    pub fn is_known(&self) -> bool {
        self.stage != Stage::Hello
    }

    /// Whether the connection is over.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Whether to look for what it sends.
    pub fn listens(&self) -> bool {
        matches!(self.stage, Stage::Hello | Stage::Talking) && !self.waits
    }

    /// Whether it has unread answers.
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Takes in what it sent.
    pub fn receive(&mut self) {
        let mut buffer = [0; 8192];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.stage = Stage::Over,
            Ok(count) => self.frames.push(&buffer[..count]),
            Err(error) if is_later(&error) => {}
            Err(_) => self.stage = Stage::Over,
        }
    }

    /// Its next request, if one is whole and may be answered now.
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
                    // After a malformed payload the next frame is where it should be; not so
                    // after a length that cannot be.
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

    /// Answers.
    pub fn answer(&mut self, answer: &Answer) {
        if self.stage == Stage::Talking {
            self.queue(&answer.encode());
        }
    }

    /// Answers that it was not done.
    pub fn refuse(&mut self, why: impl Into<String>) {
        self.answer(&Answer::Refused(why.into()));
    }

    /// Streams output to it, in frames that are short enough.
    pub fn stream(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(MAX_INPUT) {
            self.answer(&Answer::Output(part.to_vec()));
        }
    }

    /// Says what is left to say, then closes.
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
        // What was waiting before counts, so that one large answer alone drops nobody.
        if slow > MOST_UNREAD && self.unsent.len() > MOST_UNREAD {
            self.stage = Stage::Over;
        }
    }

    /// Sends what it will take now.
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
            // An idle holder is small: what a burst needed is given back.
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
        assert!(peer.is_over());

        let (mut peer, mut theirs) = pair();
        theirs.write_all(&hello(VERSION)).unwrap();
        theirs.write_all(&[0, 0, 0, 2, 0x04, 9]).unwrap();
        theirs.write_all(&Request::Peek.encode()).unwrap();
        peer.receive();
        assert_eq!(peer.request(), Some(Request::Peek));
        theirs.write_all(&[255, 255, 255, 255]).unwrap();
        peer.receive();
        assert_eq!(peer.request(), None);
        assert!(peer.is_over());
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
        while !peer.is_over() {
            peer.stream(&[b'x'; 4096]);
            streamed += 4096;
            assert!(streamed < 64 * 1024 * 1024, "it is never dropped");
        }
        assert!(peer.unsent.len() < 2 * MOST_UNREAD);
    }
}
