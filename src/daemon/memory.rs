//! The memory that the daemon holds.

/// Makes all threads allocate from a single arena.
///
/// Blocking calls run on many short-lived threads. By default the C library gives each thread an arena, and each arena
/// keeps the memory that the largest look at a thousand sessions needed once: four times as much in all. Must be called
/// before other threads exist.
pub(super) fn one_arena() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes two numbers and touches nothing else; no other thread exists.
    let set = unsafe { nix::libc::mallopt(nix::libc::M_ARENA_MAX, 1) };
    #[cfg(target_env = "gnu")]
    if set == 0 {
        tracing::debug!("could not limit the allocator to one arena; memory use may be higher");
    }
}
