//! The two tiers of the tests. `cargo test` is the short one; `tests/long/run` runs the long one by `HORDE_SWEEP=long`:
//! tests with a short and a long form take the long one then.

use std::sync::LazyLock;

/// Returns whether the long tier runs.
#[must_use]
pub fn is_long() -> bool {
    let wanted = std::env::var("HORDE_SWEEP").unwrap_or_default();
    wanted.split(',').any(|word| word == "long")
}

/// Returns the first value for `cargo test`, the second for the long tier.
pub fn by_tier<T>(short: T, long: T) -> T {
    if is_long() { long } else { short }
}

/// Returns the seed that is asked for.
#[must_use]
pub fn asked() -> Option<u64> {
    std::env::var("HORDE_SEED").ok()?.parse().ok()
}

/// Returns the cases that are tested: in the long tier all, otherwise about one in so many.
pub fn sampled<T>(cases: impl IntoIterator<Item = T>, one_in: usize) -> impl Iterator<Item = T> {
    let cases = cases.into_iter().enumerate();
    cases
        .filter(move |(place, _)| takes(*place, one_in))
        .map(|(_, case)| case)
}

/// Returns whether a case is tested: in the long tier every case, otherwise each `one_in`-th, from an offset that
/// changes with the seed. The seed is printed.
#[must_use]
pub fn takes(place: usize, one_in: usize) -> bool {
    static SEED: LazyLock<u64> = LazyLock::new(|| {
        let clock = || {
            std::time::UNIX_EPOCH
                .elapsed()
                .unwrap_or_default()
                .as_secs()
        };
        asked().unwrap_or_else(clock)
    });
    if place == 0 {
        eprintln!("HORDE_SEED={}", *SEED);
    }
    let nth = place as u64 + *SEED % one_in as u64;
    is_long() || nth.is_multiple_of(one_in as u64)
}
