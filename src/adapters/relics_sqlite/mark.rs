//! A note beside the store with its identity and its last event. It detects a store that was deleted, lost its newest
//! commits, or was replaced, so that no such store is used without a word.

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::{journal, key_values};
use crate::ports::relics::StoreError;
use crate::regular::{self, Links};

/// The key of the store's id in the store.
const KEY: &str = "store:id";
/// The prefix of the name of a saved copy of a store.
pub(super) const SAVED: &str = "relics-saved-";
/// The ways for an operator to continue.
const GO_ON: &str = "restore the store (from a backup), or start once with `--accept-store` to \
accept the present one";

/// The expectation about a store that is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expectation {
    /// The store must match the mark, if there is one; a missing store was lost.
    Marked,
    /// Any store is accepted, or a new one is made.
    Any,
}

/// The note beside a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    id: String,
    /// The newest event that was on the disk.
    seq: u64,
}

fn path(store: &Path) -> PathBuf {
    store.with_extension("db.mark")
}

/// Returns true if there is a sign that a store existed: its mark, or a saved copy. An interrupted first start leaves
/// neither.
#[must_use]
pub fn is_left(store: &Path) -> bool {
    let entries = store.parent().and_then(|dir| fs::read_dir(dir).ok());
    let mut names = entries.into_iter().flatten().flatten();
    let saved = SAVED.as_bytes();
    is_there(store) || names.any(|entry| entry.file_name().as_encoded_bytes().starts_with(saved))
}

fn is_there(store: &Path) -> bool {
    fs::symlink_metadata(path(store)).is_ok()
}

fn read(store: &Path) -> Result<Option<Mark>, StoreError> {
    let bytes = match regular::read(&path(store), Links::Refuse, 4096) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::Unavailable(error.to_string())),
    };
    // A torn note does not speak against the store.
    Ok(serde_json::from_slice(&bytes).ok())
}

impl Mark {
    /// Writes the note.
    pub(super) fn write(&self, store: &Path) -> io::Result<()> {
        let path = path(store);
        let new = path.with_extension("mark.new");
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = fs::OpenOptions::new();
        let file = file.write(true).create_new(true).mode(0o600);
        let mut file = file.open(&new)?;
        io::Write::write_all(&mut file, &serde_json::to_vec(self)?)?;
        fs::rename(new, path)
    }

    /// Returns the mark of the same store at this event.
    pub(super) fn at(&self, seq: u64) -> Self {
        let id = self.id.clone();
        Self { id, seq }
    }
}

/// Refuses a missing store that is expected to exist.
pub(super) fn refuse_missing(
    store: &Path,
    known: Expectation,
    bytes: u64,
) -> Result<(), StoreError> {
    if known == Expectation::Marked && bytes == 0 {
        return Err(StoreError::Failed(format!(
            "the store is missing, but existed before: raiders or a mark are left in {}; {GO_ON}",
            store.parent().unwrap_or(store).display()
        )));
    }
    Ok(())
}

/// Compares a store, before its schema is migrated, with its mark.
pub(super) fn refuse_empty(
    conn: &Connection,
    known: Expectation,
    store: &Path,
) -> Result<(), StoreError> {
    let version: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if known == Expectation::Marked && version == 0 && is_there(store) {
        let why = format!("it is empty, but was not before: its newest commits are lost; {GO_ON}");
        return Err(StoreError::Failed(why));
    }
    Ok(())
}

/// Marks a store with the current schema, if it matches the mark or has none.
pub(super) fn verify(
    conn: &Connection,
    known: Expectation,
    store: &Path,
) -> Result<Mark, StoreError> {
    let (own, seq) = (key_values::get(conn, KEY)?, journal::last_seq(conn)?);
    let marked = read(store)?;
    if let (Expectation::Marked, Some(marked)) = (known, &marked) {
        if own.as_ref() != Some(&marked.id) {
            let why = format!("it is another store than the recorded one; {GO_ON}");
            return Err(StoreError::Failed(why));
        }
        if seq < marked.seq {
            return Err(StoreError::Failed(format!(
                "it is older than recorded: its newest event is {seq}, but it had {}; {GO_ON}",
                marked.seq
            )));
        }
    }
    let id = match own {
        Some(id) => id,
        None => {
            let id: String = conn.query_row("SELECT hex(randomblob(16))", [], |row| row.get(0))?;
            key_values::set(conn, KEY, Some(&id))?;
            id
        }
    };
    let mark = Mark { id, seq };
    match mark.write(store) {
        Ok(()) => Ok(mark),
        // On a full disk, sessions are taken over all the same. The old mark is still true.
        Err(error) if marked.is_some_and(|marked| marked.id == mark.id) => {
            tracing::warn!(%error, "the mark of the store could not be updated; the old one is kept");
            Ok(mark)
        }
        Err(error) => Err(StoreError::Unavailable(format!("its mark: {error}"))),
    }
}
