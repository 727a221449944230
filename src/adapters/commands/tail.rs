//! The end of an output.

use std::collections::VecDeque;

/// A buffer of the last bytes of an output.
#[derive(Debug)]
pub struct Tail {
    bytes: VecDeque<u8>,
    max: usize,
}

impl Tail {
    /// Makes a buffer of at most `max` bytes.
    #[must_use]
    pub fn new(max: usize) -> Self {
        let bytes = VecDeque::new();
        Self { bytes, max }
    }

    /// Adds output.
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let excess = self.bytes.len().saturating_sub(self.max);
        self.bytes.drain(..excess);
    }

    /// Returns the bytes as text.
    pub fn text(&mut self) -> String {
        String::from_utf8_lossy(self.bytes.make_contiguous()).into_owned()
    }
}
