//! Reads the index: from a copy, in a git directory of our own that has only the objects of others. So neither the
//! agent's configuration nor its locks take part.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::super::admin::{At, failed};
use super::super::bytes::{self, RelPath};
use super::super::command::Git;
use super::super::objects;
use super::hash::{Format, READ_AT_ONCE, drain};
use super::open::Root;
use super::recent::Recent;
use super::walk::Stamp;
use crate::adapters::city_root;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The largest index that is read.
const INDEX_MAX: u64 = 1024 * 1024 * 1024;
/// The prefix of the file names of a split index's shared part.
const SHARED: &str = "sharedindex.";
/// The flag that `git ls-files --debug` prints for an intent-to-add entry.
const PROMISED: u32 = 1 << 29;

/// An entry of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Staged {
    /// `100644`, `100755`, `120000` or `160000`.
    pub(in super::super) mode: String,
    /// The blob, or a submodule's commit.
    pub(in super::super) id: Oid,
    /// 0, or 1 to 3 in a conflict.
    pub(in super::super) stage: u8,
    pub(in super::super) path: RelPath,
    /// Set when git is told to leave the file out (`skip-worktree`).
    pub(in super::super) skip: bool,
    /// Set when git is told that the file is unchanged (`assume-unchanged`).
    pub(in super::super) assume: bool,
    /// Set when only the intent to add is recorded (`git add -N`).
    pub(in super::super) promised: bool,
    /// The cached metadata of the file: inode, size, and both times. An agent may have forged it.
    stat: Option<(u64, u64, Time, Time)>,
}

type Time = (i64, u32);

impl Staged {
    /// Returns true for a submodule.
    pub(in super::super) fn is_link(&self) -> bool {
        self.mode == "160000"
    }

    /// Returns true if the agent's git took the file for the staged one: only a claim.
    pub(in super::super) fn is_refreshed(&self, file: &Stamp) -> bool {
        let now = (
            // git keeps 32 bits of each.
            file.inode & 0xffff_ffff,
            file.size & 0xffff_ffff,
            file.modified,
            file.changed,
        );
        self.stat == Some(now)
    }

    /// Adds everything except the cached metadata to a digest.
    fn digest(&self, digest: &mut Sha256) {
        let flags = [self.skip, self.assume, self.promised].map(u8::from);
        let head = [self.stage, flags[0], flags[1], flags[2]];
        for part in [
            self.mode.as_bytes(),
            self.id.as_str().as_bytes(),
            &head,
            &self.path,
        ] {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
    }
}

/// An index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct Index {
    /// Sorted by path and stage.
    pub(in super::super) entries: Vec<Staged>,
    /// SHA-256 of the entries as they were listed, without their cached metadata.
    pub(in super::super) digest: [u8; 32],
    /// Objects that only a shared part names.
    pub(in super::super) more: BTreeSet<Oid>,
    /// The reason why an existing index cannot be read.
    pub(in super::super) odd: Option<String>,
}

impl Index {
    /// Returns its entries without conflict, by path.
    pub(in super::super) fn by_path(&self) -> impl Iterator<Item = (&RelPath, &Staged)> {
        let whole = self.entries.iter().filter(|staged| staged.stage == 0);
        whole.map(|staged| (&staged.path, staged))
    }
}

/// A git directory of our own that shows the objects, and copies of the refs, of another one.
#[derive(Debug)]
pub(in super::super) struct Lens {
    dir: tempfile::TempDir,
}

impl Lens {
    /// Makes a lens in a scratch directory, with an object directory that agents can write to, and that of ours.
    ///
    /// # Errors
    /// When it cannot be written, or an object directory has files that git must not open.
    pub(in super::super) fn new(
        dir: tempfile::TempDir,
        format: Format,
        theirs: &Path,
        ours: &Path,
    ) -> Result<Self, RepoError> {
        let git = dir.path().join("git");
        let version = u8::from(format == Format::Sha256);
        let config = format!(
            "[core]\n\trepositoryformatversion = {version}\n\tbare = true\n{}",
            match format {
                Format::Sha1 => "",
                Format::Sha256 => "[extensions]\n\tobjectFormat = sha256\n",
            }
        );
        objects::check(theirs, ours)?;
        let mut alternates = Vec::new();
        for path in [theirs, ours] {
            alternates.extend(quoted(bytes::of(path)));
            alternates.push(b'\n');
        }
        let made = ["objects/info", "refs/heads", "info"]
            .iter()
            .try_for_each(|name| city_root::make_dirs(&git.join(name)))
            .and_then(|()| fs::write(git.join("config"), config))
            .and_then(|()| fs::write(git.join("HEAD"), "ref: refs/heads/horde\n"))
            .and_then(|()| fs::write(git.join("objects/info/alternates"), alternates));
        made.at("cannot write in", &git)?;
        Ok(Self { dir })
    }

    /// Returns its git directory.
    pub(in super::super) fn git_dir(&self) -> PathBuf {
        self.dir.path().join("git")
    }

    /// Returns a git command that runs on it.
    pub(in super::super) fn git(&self) -> Git {
        let dir = self.git_dir();
        Git::in_dir(&dir)
            .env("GIT_DIR", &dir)
            .env("GIT_OPTIONAL_LOCKS", "0")
            .args(objects::UNINDEXED)
    }

    /// Reads the index of an administrative directory. A missing index is empty.
    ///
    /// # Errors
    /// When the directory cannot be read, or the copy cannot be written.
    pub(in super::super) fn index(
        &self,
        admin: &Path,
        recent: &Recent,
    ) -> Result<Arc<Index>, RepoError> {
        let fail = |error: io::Error| failed("cannot read", admin, &error);
        let root = Root::open(admin).map_err(fail)?;
        let (mut shared, mut digest) = (Vec::new(), Sha256::new());
        let mut names: Vec<_> = root.list(b"").map_err(fail)?.1;
        names.sort();
        for (name, _) in names {
            if name.starts_with(SHARED.as_bytes())
                && self
                    .copy(&root, &name, &mut digest)
                    .map_err(fail)?
                    .is_none()
            {
                shared.push(bytes::path(&name).to_owned());
            }
        }
        let whole = self.copy(&root, b"index", &mut digest).map_err(fail)?;
        let sum = digest.finalize().into();
        if whole.is_none()
            && let Some(index) = recent.indexes.get(&sum)
        {
            return Ok(index);
        }
        let index = self.listed(whole.as_ref(), &shared)?;
        match whole.is_none() && index.odd.is_none() {
            true => Ok(recent.indexes.keep(sum, Arc::new(index))),
            // The failure may be transient, so it is not cached.
            false => Ok(Arc::new(index)),
        }
    }

    /// Lists the copied index. `missing` is the reason if the index itself was not copied.
    fn listed(&self, missing: Option<&io::Error>, shared: &[PathBuf]) -> Result<Index, RepoError> {
        let mut index = match missing {
            None => self.list(Path::new("index"))?,
            Some(error) if super::open::is_nothing(error) => Index::default(),
            Some(error) => odd(&error.to_string()),
        };
        for name in shared {
            let entries = self.list(name)?.entries.into_iter();
            index
                .more
                .extend(entries.filter(|it| !it.is_link()).map(|it| it.id));
        }
        Ok(index)
    }

    /// Returns the index that was read last as one whole file, if it has two parts.
    ///
    /// # Errors
    /// When git cannot write it, or it cannot be read.
    pub(in super::super) fn joined(&self) -> Result<Option<Vec<u8>>, RepoError> {
        let (dir, file) = (self.git_dir(), self.git_dir().join("index"));
        let is_part =
            |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(SHARED.as_bytes());
        let mut listed = fs::read_dir(&dir).at("cannot read", &dir)?.flatten();
        if !listed.any(|entry| is_part(&entry.file_name())) {
            return Ok(None);
        }
        let join = ["update-index", "--no-split-index"];
        self.git().env("GIT_INDEX_FILE", &file).args(join).run()?;
        fs::read(&file).map(Some).at("cannot read", &dir)
    }

    /// Copies a regular file, and digests its name and bytes. Returns the reason if it was not copied.
    fn copy(&self, root: &Root, name: &[u8], digest: &mut Sha256) -> io::Result<Option<io::Error>> {
        let from = match root.file(name) {
            Ok(file) => file,
            Err(error) => return Ok(Some(error)),
        };
        if from.metadata()?.len() > INDEX_MAX {
            return Ok(Some(io::Error::other("it is too large")));
        }
        let mut to = fs::File::create(self.git_dir().join(bytes::path(name)))?;
        let mut from = io::Read::take(from, INDEX_MAX);
        digest.update((name.len() as u64).to_le_bytes());
        digest.update(name);
        let copied = drain(&mut from, READ_AT_ONCE, |part| {
            digest.update(part);
            to.write_all(part)
        })?;
        digest.update(copied.to_le_bytes());
        Ok(None)
    }

    fn list(&self, name: &Path) -> Result<Index, RepoError> {
        let listed = self
            .git()
            .env("GIT_INDEX_FILE", self.git_dir().join(name))
            .args(["ls-files", "-v", "-s", "-z", "--debug"])
            .output();
        let listed = match listed {
            Ok(listed) if listed.ok() => listed,
            Ok(listed) => {
                // The copy that git read has another name each time.
                let here = format!("{}/", self.git_dir().display());
                return Ok(odd(listed.stderr.replace(&here, "").trim()));
            }
            // A forged index may keep git busy for ever.
            Err(error @ RepoError::Timeout { .. }) => return Ok(odd(&error.to_string())),
            Err(error) => return Err(error),
        };
        Ok(match parse(&listed.stdout) {
            Some(entries) => {
                let mut digest = Sha256::new();
                for staged in &entries {
                    staged.digest(&mut digest);
                }
                Index {
                    entries,
                    digest: digest.finalize().into(),
                    ..Index::default()
                }
            }
            None => odd("git cannot list it"),
        })
    }
}

fn odd(why: &str) -> Index {
    Index {
        odd: Some(why.to_owned()),
        ..Index::default()
    }
}

/// Quotes a path for `objects/info/alternates`.
pub(in super::super) fn quoted(path: &[u8]) -> Vec<u8> {
    let mut text = vec![b'"'];
    for byte in path {
        match byte {
            b'"' | b'\\' => text.extend([b'\\', *byte]),
            b'\n' => text.extend(b"\\n"),
            plain => text.push(*plain),
        }
    }
    text.push(b'"');
    text
}

/// Parses records of `<tag> <mode> <oid> <stage>\t<path>`, NUL, and five lines of stat data.
fn parse(mut text: &[u8]) -> Option<Vec<Staged>> {
    let mut entries = Vec::new();
    while !text.is_empty() {
        let nul = text.iter().position(|byte| *byte == 0)?;
        let (record, rest) = (&text[..nul], &text[nul + 1..]);
        let ends = rest.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let end = ends.map(|(at, _)| at).nth(4)?;
        let mut staged = entry(record)?;
        let debug = std::str::from_utf8(&rest[..end]).ok()?;
        (staged.stat, staged.promised) = stat(debug).map_or((None, false), |(stat, flags)| {
            (Some(stat), flags & PROMISED != 0)
        });
        // A split index without its base has entries without names, which git 2.47 lists as `./`. git itself writes such an
        // index under `index.skipHash`, because it takes the zeros in place of the base's checksum for no base.
        if staged.path.is_empty() || staged.path == b"./" {
            return None;
        }
        entries.push(staged);
        text = &rest[end + 1..];
    }
    // git lists the entries in their order in the file, which an agent may have written.
    if !entries.is_sorted_by_key(place) {
        entries.sort_by(|a, b| place(a).cmp(&place(b)));
    }
    Some(entries)
}

fn place(staged: &Staged) -> (&RelPath, u8) {
    (&staged.path, staged.stage)
}

fn entry(record: &[u8]) -> Option<Staged> {
    let tab = record.iter().position(|byte| *byte == b'\t')?;
    let head = std::str::from_utf8(&record[..tab]).ok()?;
    let mut fields = head.split(' ');
    let tag = fields.next()?;
    Some(Staged {
        mode: fields.next()?.to_owned(),
        id: Oid::new(fields.next()?).ok()?,
        stage: fields.next()?.parse().ok()?,
        path: record[tab + 1..].to_vec(),
        skip: tag.eq_ignore_ascii_case("s"),
        assume: tag.chars().all(|tag| tag.is_ascii_lowercase()),
        promised: false,
        stat: None,
    })
}

/// Parses the stat data that git prints, and its flags.
fn stat(text: &str) -> Option<((u64, u64, Time, Time), u32)> {
    let value = |name: &str| {
        let at = text.find(name)? + name.len();
        text[at..].split_ascii_whitespace().next()
    };
    let time = |name: &str| {
        let (seconds, nanos) = value(name)?.split_once(':')?;
        Some((seconds.parse().ok()?, nanos.parse().ok()?))
    };
    let flags = u32::from_str_radix(value("flags:")?, 16).ok()?;
    let stat = (
        value("ino:")?.parse().ok()?,
        value("size:")?.parse().ok()?,
        time("mtime:")?,
        time("ctime:")?,
    );
    Some((stat, flags))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_is_listed_with_flags_and_stat_data() {
        let id = "7".repeat(40);
        let debug = |flags: &str| {
            format!(
                "  ctime: 5:6\n  mtime: 3:4\n  dev: 1\tino: 9\n  uid: 0\tgid: 0\n  size: 2\tflags: {flags}\n"
            )
        };
        let text = format!(
            "H 100644 {id} 0\ta\n b\0{}s 100755 {id} 2\tc\0{}H 100644 {id} 0\tn\0{}",
            debug("0"),
            debug("0"),
            debug("20004000")
        );
        let found = parse(text.as_bytes()).unwrap();
        let flags: Vec<_> = found
            .iter()
            .map(|it| {
                (
                    it.path.as_slice(),
                    it.stage,
                    it.skip,
                    it.assume,
                    it.promised,
                )
            })
            .collect();
        let wanted: [(&[u8], _, _, _, _); 3] = [
            (b"a\n b", 0, false, false, false),
            (b"c", 2, true, true, false),
            (b"n", 0, false, false, true),
        ];
        assert_eq!(flags, wanted);
        let mut stamp = Stamp {
            inode: (1 << 32) + 9,
            size: 2,
            mode: 0o644,
            modified: (3, 4),
            changed: (5, 6),
        };
        assert!(found[0].is_refreshed(&stamp));
        stamp.changed.1 += 1;
        assert!(!found[0].is_refreshed(&stamp));
    }

    /// git lists an index that an agent wrote in any order.
    #[test]
    fn entries_are_sorted_whatever_their_order_in_the_file() {
        let id = "7".repeat(40);
        let record = |stage: u8, path: &str| {
            format!("H 100644 {id} {stage}\t{path}\0  a\n  b\n  c\n  d\n  e\n")
        };
        let text =
            [(0, "b"), (3, "a"), (1, "a"), (0, "a.b")].map(|(stage, path)| record(stage, path));
        let found = parse(text.concat().as_bytes()).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|it| (it.path.as_slice(), it.stage))
            .collect();
        assert_eq!(found, [(&b"a"[..], 1), (b"a", 3), (b"a.b", 0), (b"b", 0)]);
    }

    #[test]
    fn entry_without_a_name_makes_the_index_unreadable() {
        let id = "7".repeat(40);
        for nameless in ["", "./"] {
            let text = format!("H 100644 {id} 0\t{nameless}\0  a\n  b\n  c\n  d\n  e\n");
            assert_eq!(parse(text.as_bytes()), None, "{nameless:?}");
        }
        assert_eq!(parse(b"H 100644"), None);
    }
}
