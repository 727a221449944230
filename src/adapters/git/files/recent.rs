//! Listings that the measurements of one sandbox have in common: the files of a commit, of an index, and what was
//! hashed before. A charge, a `done` and a removal measure a sandbox several times within seconds, and most of
//! the time of a measurement went to listing the same again.
//!
//! A listing is kept under what it was made of: the id of a commit of ours, the digest of the bytes that were
//! read. So none can be stale. Looks at the sandboxes drop those that were not asked for lately.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::compare::Tree;
use super::index::Index;
use super::seen::KnownFiles;
use crate::domain::ids::Oid;

/// So many listings of a kind are kept: of HEAD, and of its base. One may take megabytes.
const MOST: usize = 2;
/// A listing is dropped when it was not asked for during this time.
const KEPT: Duration = Duration::from_secs(10);

/// SHA-256 of what was read.
pub(in super::super) type Sum = [u8; 32];

/// The listings of one rig.
#[derive(Debug, Default)]
pub(in super::super) struct Recent {
    /// By commit.
    pub(in super::super) trees: Listings<Oid, Tree>,
    /// By the bytes of the index and of what it shares.
    pub(in super::super) indexes: Listings<Sum, Index>,
    /// By the bytes of the list.
    pub(in super::super) seen: Listings<Sum, KnownFiles>,
}

impl Recent {
    /// Drops what was not asked for lately.
    pub(in super::super) fn tidy(&self) {
        let now = Instant::now();
        self.trees.tidy(now);
        self.indexes.tidy(now);
        self.seen.tidy(now);
    }
}

/// Listings of one kind, the one that was asked for last at the end.
#[derive(Debug)]
pub(in super::super) struct Listings<K, V>(Mutex<Vec<Held<K, V>>>);

#[derive(Debug)]
struct Held<K, V> {
    key: K,
    listing: Arc<V>,
    asked: Instant,
}

impl<K, V> Default for Listings<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq, V> Listings<K, V> {
    /// Returns the listing of this key, made now where it is not kept.
    ///
    /// # Errors
    /// Those of `make`.
    pub(in super::super) fn get_or<E>(
        &self,
        key: K,
        make: impl FnOnce() -> Result<V, E>,
    ) -> Result<Arc<V>, E> {
        match self.get(&key) {
            Some(listing) => Ok(listing),
            // Others need not wait while it is made.
            None => Ok(self.keep(key, Arc::new(make()?))),
        }
    }

    /// Returns the listing of this key, where it is kept.
    pub(in super::super) fn get(&self, key: &K) -> Option<Arc<V>> {
        let mut held = self.held();
        let at = held.iter().position(|held| held.key == *key)?;
        let mut found = held.remove(at);
        found.asked = Instant::now();
        let listing = Arc::clone(&found.listing);
        held.push(found);
        Some(listing)
    }

    /// Keeps a listing under this key, and returns it.
    pub(in super::super) fn keep(&self, key: K, listing: Arc<V>) -> Arc<V> {
        let mut held = self.held();
        held.retain(|held| held.key != key);
        held.push(Held {
            key,
            listing: Arc::clone(&listing),
            asked: Instant::now(),
        });
        let surplus = held.len().saturating_sub(MOST);
        held.drain(..surplus);
        listing
    }

    fn tidy(&self, now: Instant) {
        self.held()
            .retain(|held| now.duration_since(held.asked) < KEPT);
    }

    fn held(&self) -> MutexGuard<'_, Vec<Held<K, V>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(listings: &Listings<u8, String>, key: u8, text: &str) -> String {
        let made: Result<_, ()> = listings.get_or(key, || Ok(text.to_owned()));
        made.unwrap().as_ref().clone()
    }

    #[test]
    fn listing_is_made_once_for_each_key_and_the_oldest_goes() {
        let listings = Listings::default();
        assert_eq!(ask(&listings, 1, "one"), "one");
        assert_eq!(ask(&listings, 1, "other"), "one");
        assert_eq!(ask(&listings, 2, "two"), "two");
        assert_eq!(ask(&listings, 1, "other"), "one");
        assert_eq!(ask(&listings, 3, "three"), "three");
        assert_eq!(ask(&listings, 1, "other"), "one");
        assert_eq!(ask(&listings, 2, "made again"), "made again");
    }

    #[test]
    fn failure_is_not_kept_and_what_is_old_is_dropped() {
        let listings = Listings::default();
        assert_eq!(listings.get_or(1, || Err("why")), Err("why"));
        assert_eq!(ask(&listings, 1, "one"), "one");
        listings.tidy(Instant::now());
        assert_eq!(ask(&listings, 1, "other"), "one");
        listings.tidy(Instant::now() + KEPT);
        assert_eq!(ask(&listings, 1, "other"), "other");
    }
}
