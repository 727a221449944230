//! A sandbox as the bytes on its disk. git's opinion of a work tree (its index, its configuration, its
//! filters) is the agent's to change, so none of it is asked: files are found, hashed and compared here.
//!
//! ```text
//!   open     descriptors below a directory: no link followed, no mount entered
//!   walk     every entry, with what the kernel says of it
//!   pattern  the patterns of ignore lists, with the meaning that git gives them
//!   ignore   which of them ignore rules hide
//!   hash     the id that git would give to a file's bytes
//!   seen     what was hashed before, by fingerprint
//!   paths    lists sorted by path, asked in their order
//!   recent   listings that were made moments ago, by what they were made of
//!   convert  bytes that differ from their blob by a conversion of git's only
//!   compare  the files of a sandbox with those of its commit
//!   index    what is staged, read from a copy of the index
//!   store    blobs into ours, and back
//! ```

pub(super) mod compare;
pub(super) mod convert;
pub(super) mod hash;
pub(super) mod ignore;
pub(super) mod index;
pub(super) mod list;
pub(super) mod open;
pub(super) mod paths;
pub(super) mod pattern;
pub(super) mod recent;
pub(super) mod seen;
pub(super) mod store;
pub(super) mod text;
pub(super) mod walk;
