//! The memory that the daemon holds.

/// Has all threads allocate from one arena.
///
/// Blocking calls come and go on many short-lived threads. Left alone, the C library gives each an arena,
/// and each keeps what the largest look at a thousand sessions needed once: four times as much in all.
/// Call it before there are threads.
pub(super) fn one_arena() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes two numbers and touches nothing else; no other thread exists.
    let set = unsafe { nix::libc::mallopt(nix::libc::M_ARENA_MAX, 1) };
    #[cfg(target_env = "gnu")]
    if set == 0 {
        tracing::debug!("could not limit the allocator to one arena; memory use may be higher");
    }
}
