//! Reads a sandbox as the bytes on its disk. An agent can change git's view of a work tree (its index, configuration,
//! filters), so git is not asked: files are found, hashed and compared here.
//!
//! ```text
//!   open     opens paths below a directory: no link followed, no mount entered
//!   walk     lists every entry, with the kernel's metadata
//!   pattern  the patterns of ignore lists, with git's meaning
//!   ignore   decides which entries ignore rules hide
//!   hash     computes the id that git would give to a file's bytes
//!   seen     a cache of hashes, by fingerprint
//!   paths    lists sorted by path, queried in their order
//!   recent   a cache of recent listings, by their sources
//!   convert  judges bytes that differ from their blob only by a conversion of git's
//!   compare  compares the files of a sandbox with those of its commit
//!   index    reads a copy of the index
//!   holes    reads and writes sparse files without their holes
//!   store    writes blobs into ours, and reads them back
//! ```

pub(super) mod compare;
pub(super) mod convert;
pub(super) mod hash;
pub(super) mod hash_cache;
pub(super) mod holes;
pub(super) mod ignore;
pub(super) mod index;
pub(super) mod list;
pub(super) mod open;
pub(super) mod paths;
pub(super) mod pattern;
pub(super) mod recent;
pub(super) mod store;
pub(super) mod text;
pub(super) mod walk;
