//! Random test cases that can be repeated: the seed is printed, and `HORDE_SEED` repeats it.

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::tier::{asked, is_long};

/// Returns the first seed: `HORDE_SEED`; without it a fresh one in the long tier, else 1.
#[must_use]
pub fn first() -> u64 {
    let clock = || std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let unseen = || if is_long() { clock() } else { 1 };
    asked().unwrap_or_else(unseen)
}

/// Returns a runner of this number of cases from this seed, which is printed.
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
