//! Cases that nobody chose, and that come again: the seed is printed, and `HORDE_SEED` repeats it.

use std::sync::LazyLock;

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::tier::is_long;

/// The seed to begin with: the one that is asked for; in the long tier one that nobody has seen.
#[must_use]
pub fn first() -> u64 {
    let clock = || std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let unseen = || if is_long() { clock() } else { 1 };
    asked().unwrap_or_else(unseen)
}

fn asked() -> Option<u64> {
    std::env::var("HORDE_SEED").ok()?.parse().ok()
}

/// Runs so many cases of this seed, which is printed.
#[must_use]
pub fn runner(seed: u64, cases: u32) -> TestRunner {
    eprintln!("HORDE_SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 300,
        ..Config::default()
    };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// Whether a case is tested: in the long tier every one, otherwise one in so many, others each time. The
/// seed is printed.
#[must_use]
pub fn takes(place: usize, one_in: usize) -> bool {
    static SEED: LazyLock<u64> = LazyLock::new(|| {
        let clock = || std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
        asked().unwrap_or_else(clock)
    });
    if place == 0 {
        eprintln!("HORDE_SEED={}", *SEED);
    }
    let nth = place as u64 + *SEED % one_in as u64;
    is_long() || nth.is_multiple_of(one_in as u64)
}
