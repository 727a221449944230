//! Locks by name: operations of this process on the same thing run one after the other. Two fetches into one ref
//! would fail on each other's lock.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

static TAKEN: Mutex<Option<HashSet<String>>> = Mutex::new(None);
static GIVEN_BACK: Condvar = Condvar::new();

/// A held lock, released when dropped.
#[derive(Debug)]
pub(super) struct Turn(String);

fn key(repo: &Path, name: &str) -> String {
    format!("{} {name}", repo.display())
}

/// The set is consistent after every step, so a panic elsewhere breaks nothing here.
fn taken() -> MutexGuard<'static, Option<HashSet<String>>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the lock of a name in a repository; none if it is held.
pub(super) fn try_take(repo: &Path, name: &str) -> Option<Turn> {
    let key = key(repo, name);
    let is_free = taken().get_or_insert_default().insert(key.clone());
    // Lazily: a turn that was not taken must not be dropped, which would release the lock of its holder.
    is_free.then(|| Turn(key))
}

/// Waits for the lock of a name in a repository.
pub(super) fn take(repo: &Path, name: &str) -> Turn {
    let key = key(repo, name);
    let mut taken = taken();
    while !taken.get_or_insert_default().insert(key.clone()) {
        let woken = GIVEN_BACK.wait(taken);
        taken = woken.unwrap_or_else(PoisonError::into_inner);
    }
    Turn(key)
}

impl Drop for Turn {
    fn drop(&mut self) {
        taken().get_or_insert_default().remove(&self.0);
        GIVEN_BACK.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn lock_is_exclusive_per_name() {
        let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let own = take(Path::new("/turns"), "other");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let _turn = take(Path::new("/turns"), "same");
                        let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        drop(own);
        assert_eq!(most.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn attempt_at_a_held_lock_leaves_it_with_its_holder() {
        let repo = Path::new("/attempts");
        let held = take(repo, "name");
        assert!(try_take(repo, "name").is_none());
        assert!(
            try_take(repo, "name").is_none(),
            "the first attempt released nothing"
        );
        drop(held);
        assert!(try_take(repo, "name").is_some());
    }
}
