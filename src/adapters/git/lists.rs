//! Repairs lists of theirs that git reads in every sandbox: `packed-refs` and `shallow`. With an unreadable one, git
//! does nothing at all, and all raiders of the rig stop. Such a list is set aside, and its usable part is written
//! again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::admin::{self, Note, failed, stamp, write_whole};
use super::branches::checked_out;
use super::ref_lock::RefLock;
use super::rig::{GitRepo, locked};
use super::{branch_conflicts, share};
use crate::adapters::beneath;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

const PACKED: &str = "packed-refs";
const SHALLOW: &str = "shallow";

/// The largest usable `packed-refs`, unless ours is large, too: git reads all of it in each command.
const PACKED_MAX: u64 = 32 << 20;
/// The largest `shallow`.
const SHALLOW_MAX: u64 = 32 << 20;
/// The number of branches that are taken over from a list that is too large. Those of the sandboxes are included.
const BRANCHES_MAX: usize = 10_000;

/// Repairs both lists.
pub(super) fn mend(repo: &GitRepo) -> Result<(), RepoError> {
    mend_packed(repo)?;
    mend_shallow(repo)
}

/// Sets `packed-refs` aside if git could not read it. Checks it only if it changed.
fn mend_packed(repo: &GitRepo) -> Result<(), RepoError> {
    let file = repo.theirs().join(PACKED);
    let mut seen = locked(&repo.state.packed_seen);
    let now = stamp(&file);
    if now.is_none() || *seen == now {
        return Ok(());
    }
    let (text, why) = read_packed(repo, &file)?;
    let Some(why) = why else {
        *seen = now;
        return Ok(());
    };
    let sound = Sound::of(&text);
    branch_conflicts::save(
        repo,
        &sound.refs.values().map(|(id, _)| id.clone()).collect(),
    )?;
    let rest = sound.text(&wanted(repo)?);
    // Locked, because git may write the list meanwhile, and its new refs would be lost.
    let Some(_lock) = RefLock::take(repo.theirs(), &file)? else {
        branch_conflicts::unlock(repo, PACKED)?;
        return Ok(());
    };
    if stamp(&file) != now {
        return Ok(());
    }
    let Some(aside) = share::set_aside(repo.theirs(), Path::new(PACKED))? else {
        return Ok(());
    };
    write_whole(&file, rest.as_bytes())?;
    share::publish_all(repo);
    *seen = stamp(&file);
    repo.mended(format!(
        "{} {why}, and is set aside as {}; the readable refs are written again, and their commits are saved",
        file.display(),
        aside.display()
    ));
    Ok(())
}

/// Reads it. Returns the reason if git could not.
fn read_packed(repo: &GitRepo, file: &Path) -> Result<(Vec<u8>, Option<String>), RepoError> {
    let ours = fs::metadata(repo.repo_dir().join(PACKED)).map_or(0, |found| found.len());
    let max = PACKED_MAX.max(ours.saturating_mul(4));
    let read = |max| beneath::read(repo.theirs(), Path::new(PACKED), max);
    let opened = match read(super::theirs::LIST_MAX) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            beneath::open_up(repo.theirs(), Path::new(PACKED))
                .and_then(|_| read(super::theirs::LIST_MAX))
        }
        read => read,
    };
    match opened {
        Ok(text) => {
            let text = text.unwrap_or_default();
            let size = text.len() as u64;
            let why = match size > max {
                true => Some(format!("had {} MB", size >> 20)),
                false => garbled(&text, repo.object_format()?),
            };
            Ok((text, why))
        }
        // The target of such a file is not read.
        Err(error) if admin::is_strange(&error) => {
            Ok((Vec::new(), Some(format!("could not be read ({error})"))))
        }
        Err(error) => Err(failed("cannot read", file, &error)),
    }
}

/// Returns the reason why git would not read these lines: it stops at the first invalid one.
fn garbled(text: &[u8], format: &str) -> Option<String> {
    match text.last() {
        None => return None,
        Some(b'\n') => {}
        Some(_) => return Some("had half a line at its end".to_owned()),
    }
    let digits = if format == "sha256" { 64 } else { 40 };
    let lines = text.strip_suffix(b"\n").unwrap_or(text);
    let (mut before, mut sorted): (Option<&[u8]>, _) = (None, false);
    for (nth, line) in lines.split(|byte| *byte == b'\n').enumerate() {
        if nth == 0
            && let Some(traits) = line.strip_prefix(b"# pack-refs with:")
        {
            sorted = traits.split(|byte| *byte == b' ').any(|it| it == b"sorted");
            continue;
        }
        let is_id = |id: &[u8]| id.len() == digits && id.iter().all(u8::is_ascii_hexdigit);
        let sound = match line.split_first() {
            Some((b'^', id)) => before.is_some() && is_id(id),
            _ => match line.split_at_checked(digits) {
                Some((id, name)) => {
                    let name = name.strip_prefix(b" ").filter(|name| is_safe(name));
                    let in_order = !sorted || before < name;
                    before = name;
                    is_id(id) && name.is_some() && in_order
                }
                None => false,
            },
        };
        if !sound {
            return Some(format!("was damaged in line {}", nth + 1));
        }
    }
    None
}

/// Returns true if git does not take the name for a path that leads elsewhere.
fn is_safe(name: &[u8]) -> bool {
    let mut parts = name.split(|byte| *byte == b'/');
    let is_upper = |byte: &u8| byte.is_ascii_uppercase() || matches!(byte, b'_' | b'-');
    match parts.next() {
        Some(b"refs") => {
            let rest: Vec<_> = parts.collect();
            !rest.is_empty() && rest.iter().all(|part| !matches!(*part, b"" | b"." | b".."))
        }
        _ => !name.is_empty() && name.iter().all(is_upper),
    }
}

/// The usable refs of such a list, each with the line that names the target of a tag.
#[derive(Default)]
struct Sound {
    refs: BTreeMap<String, (Oid, Option<String>)>,
}

impl Sound {
    fn of(text: &[u8]) -> Self {
        let (mut found, mut last) = (Self::default(), None);
        for line in text.split(|byte| *byte == b'\n') {
            let stands_for = line.strip_prefix(b"^").map(super::bytes::lossy);
            if let (Some(id), Some(name)) = (stands_for, &last) {
                if let (Ok(id), Some(entry)) = (Oid::new(id), found.refs.get_mut(name)) {
                    entry.1 = Some(format!("^{id}\n"));
                }
                continue;
            }
            last = super::theirs::packed_line(line).map(|(name, id)| {
                found.refs.insert(name.clone(), (id, None));
                name
            });
        }
        found
    }

    /// Formats the list as git does: all refs if they are few, otherwise the wanted branches and a limited number of
    /// others. Ours has the remote-tracking refs and tags.
    fn text(&self, wanted: &BTreeSet<String>) -> String {
        let mut text = "# pack-refs with: sorted \n".to_owned();
        let heads = self
            .refs
            .keys()
            .filter(|name| name.starts_with("refs/heads/"));
        let others = heads
            .filter(|name| !wanted.contains(*name))
            .take(BRANCHES_MAX);
        let kept: BTreeSet<&String> = others.chain(wanted).collect();
        let few = self.refs.len() <= BRANCHES_MAX;
        for (name, (id, stands_for)) in &self.refs {
            if few || kept.contains(name) {
                text.extend([id.as_str(), " ", name, "\n"]);
                text.extend(stands_for.as_deref());
            }
        }
        text
    }
}

/// Returns the branches that sandboxes were made with, or are on.
fn wanted(repo: &GitRepo) -> Result<BTreeSet<String>, RepoError> {
    let made = Note::all(repo)?.into_iter();
    let made = made.map(|note| format!("refs/heads/{}", note.branch));
    let used = checked_out(repo)?.into_iter().map(|it| it.0);
    Ok(made.chain(used).collect())
}

/// Sets `shallow` aside if ours has the whole history, or git could not read it: otherwise one agent's `git fetch
/// --depth` cuts the history for all sandboxes.
fn mend_shallow(repo: &GitRepo) -> Result<(), RepoError> {
    let file = repo.theirs().join(SHALLOW);
    if fs::symlink_metadata(&file).is_err() {
        return Ok(());
    }
    if repo.repo_dir().join(SHALLOW).exists() {
        let text = beneath::read(repo.theirs(), Path::new(SHALLOW), SHALLOW_MAX);
        let text = super::bytes::lossy(&text.ok().flatten().unwrap_or_default());
        if text.lines().all(|line| Oid::new(line).is_ok()) {
            return Ok(());
        }
    }
    let Some(aside) = share::set_aside(repo.theirs(), Path::new(SHALLOW))? else {
        return Ok(());
    };
    repo.mended(format!(
        "{} truncated the history of all sandboxes, and is set aside as {}",
        file.display(),
        aside.display()
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected result is that of git 2.47, read with `git branch`.
    #[test]
    fn list_that_git_would_not_read_is_garbled() {
        let id = "1".repeat(40);
        let head = "# pack-refs with: peeled fully-peeled sorted ";
        let fine = [
            String::new(),
            format!("{head}\n"),
            format!("{head}\n{id} refs/heads/a\n^{id}\n{id} refs/heads/b\n"),
            format!("{id} refs/heads/b\n{id} refs/heads/a\n"),
            format!("{id} refs/heads/..x\n{id} FOO\n{id} refs/heads/x y\r\n"),
        ];
        for text in &fine {
            assert_eq!(garbled(text.as_bytes(), "sha1"), None, "{text:?}");
        }
        let bad = [
            "garbage\n".to_owned(),
            "\n".to_owned(),
            format!("{id} refs/heads/a"),
            format!("{id} refs/heads/a\n\n"),
            format!("# c\n{id} refs/heads/a\n"),
            format!("{id} refs/heads/a\n^garb\n"),
            format!("^{id}\n"),
            format!("{id}\n"),
            format!("{id} refs/heads/../../a\n"),
            format!("{id} ../a\n"),
            format!("{id}{id} refs/heads/a\n"),
            format!("{head}\n{id} refs/heads/b\n{id} refs/heads/a\n"),
        ];
        for text in &bad {
            assert!(garbled(text.as_bytes(), "sha1").is_some(), "{text:?}");
        }
        assert!(garbled(b"\xff\x00\n", "sha1").is_some());
    }

    #[test]
    fn usable_lines_of_a_garbled_list_are_kept_in_order() {
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let text = format!(
            "garbage\n{two} refs/tags/v\n^{one}\n{one} refs/heads/raider/A/x\n^\n{one} ../x\n{two} refs/heads/b"
        );
        let sound = Sound::of(text.as_bytes()).text(&BTreeSet::new());
        let kept = format!(
            "# pack-refs with: sorted \n{two} refs/heads/b\n{one} refs/heads/raider/A/x\n{two} refs/tags/v\n^{one}\n"
        );
        assert_eq!(sound, kept);
        assert_eq!(garbled(sound.as_bytes(), "sha1"), None);
    }
}
