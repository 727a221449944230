//! The two tiers of the tests. `cargo test` is the short one; `tests/long/run` runs the long one, which
//! says so with `HORDE_SWEEP=long`: what has a short and a long form takes the long one then.

/// Whether the long tier runs.
#[must_use]
pub fn is_long() -> bool {
    let wanted = std::env::var("HORDE_SWEEP").unwrap_or_default();
    wanted.split(',').any(|word| word == "long")
}

/// The first for `cargo test`, the second for the long tier.
pub fn by_tier<T>(short: T, long: T) -> T {
    if is_long() { long } else { short }
}
