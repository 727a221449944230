//! A cache of listings that several measurements of a sandbox share: the files of a commit, of an index, and hashes
//! of files. A charge, a `done` and a removal measure a sandbox several times within seconds, and most of the time of
//! a measurement was spent on listing the same again.
//!
//! The key of a listing is its source: the id of a commit of ours, or the digest of the bytes that were read.
//! Therefore no listing can be stale. Each look at the sandboxes drops the listings that were not used lately.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::compare::Tree;
use super::hash_cache::CachedHashes;
use super::index::Index;
use crate::domain::ids::Oid;

/// The number of listings of a kind that are kept: those of HEAD and of its base. One may take megabytes.
const MOST: usize = 2;
/// The time without use after which a listing is dropped.
const KEPT: Duration = Duration::from_secs(10);

/// The SHA-256 of the bytes that were read.
pub(in super::super) type Sum = [u8; 32];

/// The cached listings of one rig.
#[derive(Debug, Default)]
pub(in super::super) struct Recent {
    /// The files of commits, by commit.
    pub(in super::super) trees: Listings<Oid, Tree>,
    /// The entries of indexes, by the bytes of the index and of its shared part.
    pub(in super::super) indexes: Listings<Sum, Index>,
    /// The hashes of files, by the bytes of the list.
    pub(in super::super) seen: Listings<Sum, CachedHashes>,
}

impl Recent {
    /// Drops listings that were not used lately.
    pub(in super::super) fn tidy(&self) {
        let now = Instant::now();
        self.trees.tidy(now);
        self.indexes.tidy(now);
        self.seen.tidy(now);
    }
}

/// Cached listings of one kind, the last used one at the end.
#[derive(Debug)]
pub(in super::super) struct Listings<K, V>(Mutex<Vec<CachedListing<K, V>>>);

#[derive(Debug)]
struct CachedListing<K, V> {
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
    /// Returns the listing of this key from the cache, or makes it.
    ///
    /// # Errors
    /// The errors of `make`.
    pub(in super::super) fn get_or<E>(
        &self,
        key: K,
        make: impl FnOnce() -> Result<V, E>,
    ) -> Result<Arc<V>, E> {
        match self.get(&key) {
            Some(listing) => Ok(listing),
            // Not locked meanwhile, so that other callers need not wait.
            None => Ok(self.keep(key, Arc::new(make()?))),
        }
    }

    /// Returns the listing of this key, if it is in the cache.
    pub(in super::super) fn get(&self, key: &K) -> Option<Arc<V>> {
        let mut held = self.held();
        let at = held.iter().position(|held| held.key == *key)?;
        let mut found = held.remove(at);
        found.asked = Instant::now();
        let listing = Arc::clone(&found.listing);
        held.push(found);
        Some(listing)
    }

    /// Adds a listing with this key to the cache, and returns it.
    pub(in super::super) fn keep(&self, key: K, listing: Arc<V>) -> Arc<V> {
        let mut held = self.held();
        held.retain(|held| held.key != key);
        held.push(CachedListing {
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

    fn held(&self) -> MutexGuard<'_, Vec<CachedListing<K, V>>> {
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
    fn failure_is_not_cached_and_old_listings_are_dropped() {
        let listings = Listings::default();
        assert_eq!(listings.get_or(1, || Err("why")), Err("why"));
        assert_eq!(ask(&listings, 1, "one"), "one");
        listings.tidy(Instant::now());
        assert_eq!(ask(&listings, 1, "other"), "one");
        listings.tidy(Instant::now() + KEPT);
        assert_eq!(ask(&listings, 1, "other"), "other");
    }
}
