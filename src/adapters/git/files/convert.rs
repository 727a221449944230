//! Judges files whose bytes differ from their blob because git converts them: line endings, `ident`, encodings, LFS,
//! filters. Built-in conversions are computed again from the blob and the attributes of the commit; a filter is never
//! run.
//!
//! ```text
//!   the converted blob gives these bytes           given: can be made again from the commit
//!   an LFS pointer names these bytes, and ours     given
//!     has them, or the base has the pointer
//!   it names them, and they may be nowhere else    converted
//!   git would store these bytes as the blob        converted: saved without being asked for
//!   a filter is involved, and the agent's git      converted (that is only a claim, so they are saved)
//!     took the file for unchanged
//!   anything else                                  changed
//! ```

use std::fs;
use std::io::Read as _;

use super::super::admin::At;
use super::super::bytes::{self, RelPath};
use super::super::command::Git;
use super::super::lfs::{self, Pointer};
use super::compare::Tree;
use super::hash::{self, Format};
use super::holes::Sparse;
use super::open::Root;
use super::walk::Entry;
use crate::adapters::city_root;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The largest file that is read and converted: only text is. A larger file counts as changed.
const TEXT_MAX: u64 = 16 * 1024 * 1024;
/// The attributes that decide on a conversion.
const ATTRIBUTES: [&str; 6] = [
    "filter",
    "text",
    "eol",
    "ident",
    "working-tree-encoding",
    "crlf",
];

/// The reason why a file's bytes are not those of its blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Why {
    /// The blob gives them by a conversion.
    Given,
    /// A conversion may be the only reason.
    Converted,
    /// The content was changed.
    Changed,
}

/// A tracked file whose bytes differ from its blob.
#[derive(Debug)]
pub(in super::super) struct Suspect<'a> {
    pub(in super::super) entry: &'a Entry,
    pub(in super::super) blob: &'a Oid,
    /// Set when the agent's git took the file for unchanged.
    pub(in super::super) refreshed: bool,
}

/// Judges files. `git` reads the blobs, with our configuration; `lists` are the `.gitattributes` of the commit.
#[derive(Debug)]
pub(in super::super) struct Judge<'a, F> {
    pub(in super::super) git: F,
    pub(in super::super) root: &'a Root,
    pub(in super::super) lists: Vec<(&'a RelPath, &'a Oid)>,
    pub(in super::super) scratch: &'a std::path::Path,
    /// The prefix of the repository in the paths of entries; the attributes do not contain it.
    pub(in super::super) prefix: &'a [u8],
    /// The stores of the files that LFS pointers name.
    pub(in super::super) lfs: Lfs<'a>,
}

/// The stores of the files that LFS pointers name.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Lfs<'a> {
    /// The repository whose store counts: ours.
    pub(in super::super) ours: &'a std::path::Path,
    /// The commit, and the base of the sandbox, which a remote had before an agent came. Both are in ours.
    pub(in super::super) commits: Option<(&'a Oid, &'a Oid)>,
}

impl<F: Fn() -> Git> Judge<'_, F> {
    /// Returns for each suspect the reason why it differs, in their order.
    ///
    /// # Errors
    /// When git fails, or a file cannot be read.
    pub(in super::super) fn judge(&self, suspects: &[Suspect<'_>]) -> Result<Vec<Why>, RepoError> {
        if suspects.is_empty() {
            return Ok(Vec::new());
        }
        let tree = self.attributes()?;
        let attributes = self.check(&tree, suspects)?;
        let config = self.config()?;
        let mut found = vec![Why::Changed; suspects.len()];
        let mut plain = Vec::new();
        for (n, suspect) in suspects.iter().enumerate() {
            let own = &attributes[n];
            if own.is_filtered() {
                found[n] = self.filtered(own, suspect)?;
            } else if own.converts(config.auto) && suspect.entry.stamp.size <= TEXT_MAX {
                plain.push(n);
            }
        }
        for n in plain {
            found[n] = self.built_in(&suspects[n], &attributes[n], &config);
        }
        Ok(found)
    }

    /// Writes the attributes of the commit into an otherwise empty work tree.
    fn attributes(&self) -> Result<std::path::PathBuf, RepoError> {
        let tree = self.scratch.join("attributes");
        city_root::make_dirs(&tree).at("cannot make", &tree)?;
        for (path, blob) in &self.lists {
            let text = (self.git)()
                .args(["cat-file", "blob", blob.as_str()])
                .output()?;
            if !text.ok() {
                continue;
            }
            let file = tree.join(bytes::path(self.own(path)));
            let dir = file.parent().unwrap_or(&tree);
            let made = city_root::make_dirs(dir).and_then(|()| fs::write(&file, &text.stdout));
            made.at("cannot write", &file)?;
        }
        Ok(tree)
    }

    fn in_tree(&self, tree: &std::path::Path) -> Git {
        (self.git)()
            .env("GIT_WORK_TREE", tree)
            .env("GIT_INDEX_FILE", self.scratch.join("no-index"))
            .arg("-C")
            .arg(tree)
    }

    /// Returns an entry's path in its repository.
    fn own<'p>(&self, path: &'p [u8]) -> &'p [u8] {
        path.strip_prefix(self.prefix).unwrap_or(path)
    }

    fn check(
        &self,
        tree: &std::path::Path,
        suspects: &[Suspect<'_>],
    ) -> Result<Vec<Attributes>, RepoError> {
        let paths = suspects.iter().map(|suspect| self.own(&suspect.entry.path));
        let listed = self
            .in_tree(tree)
            .args(["check-attr", "-z", "--stdin"])
            .args(ATTRIBUTES)
            .stdin(bytes::join(paths))
            .run()?;
        let fields: Vec<&[u8]> = listed.stdout.split(|byte| *byte == 0).collect();
        let of = |fields: &[&[u8]]| Attributes(std::array::from_fn(|n| fields[3 * n + 2].to_vec()));
        let found: Vec<_> = fields.chunks_exact(3 * ATTRIBUTES.len()).map(of).collect();
        match found.len() == suspects.len() {
            true => Ok(found),
            false => Err(RepoError::Failed(
                "git check-attr left paths out".to_owned(),
            )),
        }
    }

    fn config(&self) -> Result<Config, RepoError> {
        let keys = r"^core\.(autocrlf|eol)$";
        let asked = (self.git)().args(["config", "--get-regexp", keys]);
        let text = asked.output()?.text().to_ascii_lowercase();
        // The last value counts.
        let value = |key: &str| {
            let mut lines = text.lines().rev().filter_map(|line| line.split_once(' '));
            lines.find(|(name, _)| *name == key).map_or("", |it| it.1)
        };
        let auto = value("core.autocrlf");
        let is_true = matches!(auto, "true" | "yes" | "on" | "1");
        Ok(Config {
            auto: is_true || auto == "input",
            crlf: is_true || (auto != "input" && value("core.eol") == "crlf"),
        })
    }

    fn filtered(&self, own: &Attributes, suspect: &Suspect<'_>) -> Result<Why, RepoError> {
        let opinion = match suspect.refreshed {
            true => Why::Converted,
            false => Why::Changed,
        };
        if own.value("filter") != b"lfs" {
            return Ok(opinion);
        }
        let blob = (self.git)()
            .args(["cat-file", "blob", suspect.blob.as_str()])
            .output()?;
        let Some(pointer) = lfs::pointer(&blob.stdout) else {
            return Ok(opinion);
        };
        if pointer.size != suspect.entry.stamp.size {
            return Ok(Why::Changed);
        }
        let found = self.root.file(&suspect.entry.path);
        let found =
            found.and_then(|file| hash::sha256(&mut Sparse::of(file)?.take(pointer.size + 1)));
        if !found.is_ok_and(|(digest, size)| pointer == Pointer { digest, size }) {
            return Ok(Why::Changed);
        }
        let kept = lfs::is_stored(self.lfs.ours, &pointer) || self.remote_had(suspect.blob)?;
        Ok(if kept { Why::Given } else { Why::Converted })
    }

    /// Returns true if a remote had the pointer before an agent came, and so the file. A pointer that an agent pushed
    /// later does not prove that the file was uploaded, too.
    fn remote_had(&self, pointer: &Oid) -> Result<bool, RepoError> {
        let Some((head, base)) = self.lfs.commits else {
            return Ok(false);
        };
        let own = lfs::beyond(Git::in_dir(self.lfs.ours), head, base.as_str())?;
        Ok(!own.contains(pointer.as_str()))
    }

    /// Compares the blob with what git would store of the file; if they are equal, compares the file with what git
    /// makes of the blob.
    fn built_in(&self, suspect: &Suspect<'_>, own: &Attributes, config: &Config) -> Why {
        let mut text = Vec::new();
        let read = self.root.file(&suspect.entry.path);
        let read = read.and_then(|file| file.take(TEXT_MAX + 1).read_to_end(&mut text));
        if read.is_err() {
            return Why::Changed;
        }
        let ident = own.is("ident");
        let stored = stored(&text, ident);
        let id = hash::bytes(Format::of(suspect.blob), &stored);
        if id.is_ok_and(|id| id == *suspect.blob) {
            let ident = ident.then_some(suspect.blob);
            return match made(&stored, ident, own.ends_with_crlf(config)) == text {
                true => Why::Given,
                false => Why::Converted,
            };
        }
        match own.is("working-tree-encoding") && suspect.refreshed {
            true => Why::Converted,
            false => Why::Changed,
        }
    }
}

/// The settings that decide where attributes do not.
#[derive(Debug, Clone, Copy)]
struct Config {
    /// Line ends of files that look like text are converted.
    auto: bool,
    /// Text has carriage returns in work trees.
    crlf: bool,
}

/// The values of [`ATTRIBUTES`] for a path.
#[derive(Debug)]
struct Attributes([Vec<u8>; ATTRIBUTES.len()]);

impl Attributes {
    fn value(&self, name: &str) -> &[u8] {
        let at = ATTRIBUTES.iter().position(|known| *known == name);
        at.map_or(&b""[..], |at| &self.0[at])
    }

    fn is(&self, name: &str) -> bool {
        !matches!(self.value(name), b"unspecified" | b"unset" | b"")
    }

    fn is_filtered(&self) -> bool {
        self.is("filter")
    }

    fn ends_with_crlf(&self, config: &Config) -> bool {
        match self.value("eol") {
            b"crlf" => true,
            b"lf" => false,
            _ => config.crlf && self.value("crlf") != b"input",
        }
    }

    fn converts(&self, auto: bool) -> bool {
        let text = ["text", "eol", "ident", "working-tree-encoding", "crlf"];
        let unset = |name: &str| self.value(name) == b"unset";
        text.iter().any(|name| self.is(name)) || (auto && !unset("text") && !unset("crlf"))
    }
}

/// Returns the bytes as git would store them: without carriage returns at the ends of lines and, if `ident` is set,
/// without what it wrote.
fn stored(text: &[u8], ident: bool) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    for (n, byte) in text.iter().enumerate() {
        if *byte != b'\r' || text.get(n + 1) != Some(&b'\n') {
            plain.push(*byte);
        }
    }
    if !ident {
        return plain;
    }
    let mut collapsed = Vec::with_capacity(plain.len());
    let mut rest = plain.as_slice();
    while let Some(at) = rest.windows(4).position(|part| part == b"$Id:") {
        let (before, mark) = rest.split_at(at);
        collapsed.extend_from_slice(before);
        let end = mark[4..]
            .iter()
            .position(|byte| matches!(byte, b'$' | b'\n'));
        match end.filter(|end| mark[4 + end] == b'$') {
            Some(end) => {
                collapsed.extend_from_slice(b"$Id$");
                rest = &mark[4 + end + 1..];
            }
            None => {
                collapsed.extend_from_slice(&mark[..4]);
                rest = &mark[4..];
            }
        }
    }
    collapsed.extend_from_slice(rest);
    collapsed
}

/// Returns the bytes as git writes the stored ones to a work tree.
fn made(stored: &[u8], ident: Option<&Oid>, crlf: bool) -> Vec<u8> {
    const MARK: &[u8] = b"$Id$";
    let mut text = Vec::with_capacity(stored.len());
    let mut rest = stored;
    while let Some((&first, after)) = rest.split_first() {
        if let Some(blob) = ident.filter(|_| rest.starts_with(MARK)) {
            text.extend_from_slice(format!("$Id: {blob} $").as_bytes());
            rest = &rest[MARK.len()..];
            continue;
        }
        if crlf && first == b'\n' {
            text.push(b'\r');
        }
        text.push(first);
        rest = after;
    }
    text
}

/// Returns the `.gitattributes` files of a commit's tree.
pub(in super::super) fn lists(tree: &Tree) -> Vec<(&RelPath, &Oid)> {
    const NAME: &[u8] = b".gitattributes";
    let is = |path: &[u8]| path.rsplit(|byte| *byte == b'/').next() == Some(NAME);
    // A tree that an agent made may have entries such as `..`.
    let plain = |path: &[u8]| {
        let mut parts = path.split(|byte| *byte == b'/');
        parts.all(|part| !matches!(part, b"" | b"." | b".."))
    };
    let found = tree
        .iter()
        .filter(|(path, (mode, _))| is(path) && plain(path) && mode.starts_with("100"));
    found.map(|(path, (_, blob))| (path, blob)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_stored_without_additions_of_git() {
        assert_eq!(stored(b"a\r\nb\rc\r\n", false), b"a\nb\rc\n");
        assert_eq!(
            stored(b"x $Id: 12ab $ $Id: no\n$Id$", true),
            b"x $Id$ $Id: no\n$Id$"
        );
    }

    #[test]
    fn bytes_are_made_as_git_writes_them() {
        let blob = Oid::new("1".repeat(40)).unwrap();
        let text = made(b"$Id$ a\nb", Some(&blob), true);
        assert_eq!(text, format!("$Id: {blob} $ a\r\nb").as_bytes());
        assert_eq!(made(b"$Id$\n", None, false), b"$Id$\n");
    }
}
