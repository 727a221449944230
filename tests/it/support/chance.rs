//! Random numbers. The seed is printed, and `HORDE_SEED` repeats it.

use std::time::{SystemTime, UNIX_EPOCH};

/// A small generator (xorshift).
pub struct Chance(u64);

impl Chance {
    /// Starts from `HORDE_SEED`, or from a fresh seed.
    pub fn seeded() -> Self {
        let given = std::env::var("HORDE_SEED").ok();
        let given = given.and_then(|seed| seed.parse().ok());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let seed = given.unwrap_or(now.as_nanos() as u64 | 1);
        eprintln!("HORDE_SEED={seed}");
        Self(seed)
    }

    /// Returns a number below `most`.
    pub fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % most as u64).unwrap()
    }
}
