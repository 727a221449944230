//! The input queue of the holder: bytes and pauses, bounded, drained as the program reads.
//!
//! A submitted text is typed in the form that the program wants: as a bracketed paste if the program asked for that,
//! then, after a pause, the submit key; or as a line if the program reads lines.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use super::pty::Reading;
use crate::domain::harness::LONGEST_LINE;
use crate::domain::screen::Inputs;

/// The limit of queued bytes; more input is refused.
pub const LIMIT: usize = 4 * 1024 * 1024;
/// The pause between a text and its submit key: programs that read raw take a return that comes with the text for a
/// part of the text.
const SETTLE: Duration = Duration::from_millis(150);

/// Identifies the connection that waits for its input to be taken.
pub type Waiter = u64;

/// The type of input, for terminals that can tell the difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A text, typed as a paste.
    Text,
    /// Keys, typed as they are.
    Keys,
}

enum Step {
    Bytes {
        bytes: Vec<u8>,
        written: usize,
        kind: Kind,
        waiter: Option<Waiter>,
    },
    Pause(Duration, Option<Waiter>),
    Tell(Waiter),
}

/// The queue.
#[derive(Default)]
pub struct Input {
    steps: VecDeque<Step>,
    waiting: usize,
    paused_until: Option<Instant>,
    inputs: Inputs,
    /// The waiter whose input has been typed in part.
    begun: Option<Waiter>,
}

/// The result of one pump of the queue.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pumped {
    /// Bytes that the terminal took.
    pub bytes: usize,
    /// The waiters whose input has been taken completely.
    pub told: Vec<Waiter>,
}

impl Input {
    /// Queues bytes as they are.
    pub fn type_bytes(&mut self, bytes: Vec<u8>, waiter: Option<Waiter>) -> Result<(), String> {
        self.admit(bytes.len())?;
        self.bytes(bytes, Kind::Keys, waiter);
        self.steps.extend(waiter.map(Step::Tell));
        Ok(())
    }

    /// Queues a text without the submit key.
    pub fn paste(
        &mut self,
        text: &str,
        bracketed: bool,
        waiter: Option<Waiter>,
    ) -> Result<(), String> {
        let text = without_keys(text);
        self.admit(text.len())?;
        self.text(text, bracketed, waiter);
        self.steps.extend(waiter.map(Step::Tell));
        Ok(())
    }

    fn text(&mut self, text: String, bracketed: bool, waiter: Option<Waiter>) {
        match bracketed {
            true => {
                let paste = format!("\x1b[200~{text}\x1b[201~");
                self.bytes(paste.into_bytes(), Kind::Keys, waiter);
            }
            false => self.bytes(text.into_bytes(), Kind::Text, waiter),
        }
    }

    /// Queues a text and the submit key.
    pub fn submit(
        &mut self,
        text: &str,
        reading: Reading,
        bracketed: bool,
        waiter: Option<Waiter>,
    ) -> Result<(), String> {
        let text = without_keys(text);
        self.admit(text.len())?;
        match reading {
            _ if bracketed || reading == Reading::Raw => {
                self.text(text, bracketed, waiter);
                self.steps.push_back(Step::Pause(SETTLE, waiter));
                self.bytes(b"\r".to_vec(), Kind::Keys, waiter);
            }
            Reading::Lines | Reading::Raw => {
                if let Some(line) = text.lines().find(|line| line.len() > LONGEST_LINE) {
                    return Err(format!(
                        "a line of {} bytes is too long for a program that reads lines (at most {LONGEST_LINE})",
                        line.len()
                    ));
                }
                self.bytes(format!("{text}\n").into_bytes(), Kind::Text, waiter);
            }
        }
        self.steps.extend(waiter.map(Step::Tell));
        Ok(())
    }

    fn admit(&self, more: usize) -> Result<(), String> {
        if self.waiting + more > LIMIT {
            return Err(format!(
                "the program does not read: {} bytes of input wait already",
                self.waiting
            ));
        }
        Ok(())
    }

    fn bytes(&mut self, bytes: Vec<u8>, kind: Kind, waiter: Option<Waiter>) {
        if !bytes.is_empty() {
            self.waiting += bytes.len();
            let written = 0;
            self.steps.push_back(Step::Bytes {
                bytes,
                written,
                kind,
                waiter,
            });
        }
    }

    /// Removes the input of a waiter that has gone, so that it is not typed later at an unexpected time. Input that
    /// was begun stays: half of a text would be worse than all of it.
    pub fn forget(&mut self, gone: Waiter) {
        if self.begun == Some(gone) {
            return;
        }
        let waiting = &mut self.waiting;
        self.steps.retain(|step| match step {
            Step::Bytes { bytes, waiter, .. } if *waiter == Some(gone) => {
                *waiting -= bytes.len();
                false
            }
            Step::Pause(_, waiter) => *waiter != Some(gone),
            Step::Tell(waiter) => *waiter != gone,
            Step::Bytes { .. } => true,
        });
    }

    /// Drops the queue. Returns the waiters.
    pub fn give_up(&mut self) -> Vec<Waiter> {
        self.waiting = 0;
        self.paused_until = None;
        self.begun = None;
        let told = self.steps.drain(..).filter_map(|step| match step {
            Step::Tell(waiter) => Some(waiter),
            Step::Bytes { .. } | Step::Pause(..) => None,
        });
        told.collect()
    }

    /// Types as much as the terminal takes now.
    pub fn pump(
        &mut self,
        now: Instant,
        mut write: impl FnMut(&[u8], Kind) -> io::Result<usize>,
    ) -> io::Result<Pumped> {
        let mut pumped = Pumped::default();
        while let Some(step) = self.steps.front_mut() {
            match step {
                Step::Bytes {
                    bytes,
                    written,
                    kind,
                    waiter,
                } => {
                    let count = write(&bytes[*written..], *kind);
                    // A tmux command that hit its timeout may have done its work.
                    let may_be_taken = match &count {
                        Ok(count) => *count > 0,
                        Err(error) => error.kind() == io::ErrorKind::TimedOut,
                    };
                    if may_be_taken {
                        begins(&mut self.begun, *waiter, &mut self.inputs);
                    }
                    let count = count?;
                    *written += count;
                    self.waiting -= count;
                    pumped.bytes += count;
                    if *written < bytes.len() {
                        break;
                    }
                }
                Step::Pause(length, _) => {
                    let until = *self.paused_until.get_or_insert(now + *length);
                    if now < until {
                        break;
                    }
                    self.paused_until = None;
                }
                Step::Tell(waiter) => {
                    begins(&mut self.begun, Some(*waiter), &mut self.inputs);
                    self.begun = None;
                    self.inputs.taken += 1;
                    pumped.told.push(*waiter);
                }
            }
            self.steps.pop_front();
        }
        Ok(pumped)
    }

    /// Returns true if the front of the queue waits for the terminal to take bytes.
    pub fn wants_room(&self) -> bool {
        matches!(self.steps.front(), Some(Step::Bytes { .. }))
    }

    /// The time of the next pump if nothing happens before.
    pub fn deadline(&self) -> Option<Instant> {
        self.paused_until
    }

    /// The number of queued bytes.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns the counters of inputs with a waiter.
    pub fn inputs(&self) -> Inputs {
        self.inputs
    }
}

/// Counts an input whose first part is typed, or may be.
fn begins(begun: &mut Option<Waiter>, waiter: Option<Waiter>, inputs: &mut Inputs) {
    if waiter.is_some() && *begun != waiter {
        inputs.begun += 1;
    }
    *begun = waiter;
}

/// Removes control characters: in a text they would act as keys (interrupt, end of input, end of the paste).
fn without_keys(text: &str) -> String {
    let is_text = |c: &char| matches!(c, '\n' | '\t') || !c.is_control();
    text.chars().filter(is_text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    /// Types everything, skipping over pauses; the pauses are counted.
    fn typed(input: &mut Input, mut room: usize) -> (Vec<u8>, usize) {
        let (mut now, mut out, mut pauses) = (Instant::now(), Vec::new(), 0);
        loop {
            input
                .pump(now, |bytes, _| {
                    let count = bytes.len().min(room);
                    room -= count;
                    out.extend_from_slice(&bytes[..count]);
                    Ok(count)
                })
                .unwrap();
            match input.deadline() {
                Some(later) => (now, pauses) = (later, pauses + 1),
                None => return (out, pauses),
            }
        }
    }

    #[test]
    fn a_text_is_submitted_as_the_program_reads() {
        for (reading, bracketed, expected, pauses) in [
            (Reading::Lines, false, &b"hi\n"[..], 0),
            (Reading::Raw, false, b"hi\r", 1),
            (Reading::Raw, true, b"\x1b[200~hi\x1b[201~\r", 1),
            (Reading::Lines, true, b"\x1b[200~hi\x1b[201~\r", 1),
        ] {
            let mut input = Input::default();
            input.submit("hi", reading, bracketed, None).unwrap();
            assert_eq!(typed(&mut input, 1000), (expected.to_vec(), pauses));
        }
    }

    #[test]
    fn a_text_cannot_press_keys() {
        let mut input = Input::default();
        let text = "a\x03b\x1b[201~c\td\ne\x7f";
        input.submit(text, Reading::Lines, false, None).unwrap();
        assert_eq!(typed(&mut input, 1000).0, b"ab[201~c\td\ne\n");
    }

    #[test]
    fn a_line_that_the_kernel_would_cut_is_refused() {
        let mut input = Input::default();
        let long = "x".repeat(4096);
        assert!(input.submit(&long, Reading::Lines, false, None).is_err());
        assert!(input.submit(&long, Reading::Raw, false, None).is_ok());
        let lines = format!("{}\n{}", &long[1..], &long[1..]);
        assert!(input.submit(&lines, Reading::Lines, false, None).is_ok());
    }

    #[test]
    fn a_full_terminal_delays_the_rest_and_its_waiter() {
        let mut input = Input::default();
        input.type_bytes(b"abcdef".to_vec(), Some(7)).unwrap();
        let now = Instant::now();
        let pumped = input.pump(now, |bytes, _| Ok(bytes.len().min(4))).unwrap();
        assert_eq!(pumped.bytes, 4);
        assert!(pumped.told.is_empty() && input.wants_room());
        let pumped = input.pump(now, |bytes, _| Ok(bytes.len())).unwrap();
        assert_eq!(pumped.told, [7]);
        assert_eq!((input.waiting(), pumped.bytes), (0, 2));
    }

    #[test]
    fn abandoned_input_is_typed_only_if_it_was_begun() {
        let mut input = Input::default();
        for (text, waiter) in [("one", 1), ("two", 2), ("three", 3)] {
            input
                .submit(text, Reading::Raw, false, Some(waiter))
                .unwrap();
        }
        let pumped = input.pump(Instant::now(), |_, _| Ok(1)).unwrap();
        assert_eq!(pumped.bytes, 1);
        input.forget(1);
        input.forget(2);
        assert_eq!(typed(&mut input, 1000), (b"ne\rthree\r".to_vec(), 2));
        assert_eq!(input.waiting(), 0);
    }

    #[test]
    fn inputs_are_counted_as_far_as_they_were_taken() {
        let mut input = Input::default();
        let counted = |input: &Input| (input.inputs().begun, input.inputs().taken);
        input.type_bytes(b"reply".to_vec(), None).unwrap();
        input.submit("one", Reading::Raw, false, Some(6)).unwrap();
        typed(&mut input, 1000);
        assert_eq!(counted(&input), (1, 1), "text and Enter are one");
        input.type_bytes(b"abcdef".to_vec(), Some(7)).unwrap();
        input
            .pump(Instant::now(), |bytes, _| Ok(bytes.len().min(4)))
            .unwrap();
        assert_eq!(counted(&input), (2, 1));
        assert_eq!(input.give_up(), [7]);
        input.type_bytes(b"refused".to_vec(), Some(8)).unwrap();
        let mut fails = |kind: ErrorKind| {
            let failed = input.pump(Instant::now(), |_, _| Err(kind.into()));
            assert!(failed.is_err());
            counted(&input)
        };
        assert_eq!(fails(ErrorKind::Other), (2, 1), "nothing of it was taken");
        assert_eq!(fails(ErrorKind::TimedOut), (3, 1), "tmux may have taken it");
        assert_eq!(input.give_up(), [8]);
        assert_eq!(input.waiting(), 0);
    }

    #[test]
    fn the_queue_is_bounded() {
        let mut input = Input::default();
        input.type_bytes(vec![0; LIMIT], None).unwrap();
        assert!(input.type_bytes(vec![0; 1], None).is_err());
        assert!(input.submit("x", Reading::Raw, false, None).is_err());
    }
}
