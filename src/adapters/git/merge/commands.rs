//! The engine that uses only the `git` program: for repositories that libgit2 refuses, for merges that it must not
//! decide, and for signed commits.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use super::attributes;
use super::commit::{Commit, Draft, Ident};
use super::engine::{Engine, Joined};
use crate::adapters::git::bytes;
use crate::adapters::git::command::Git;
use crate::adapters::git::rig::oid;
use crate::adapters::git::settings;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The `git` program, run in one repository.
#[derive(Debug)]
pub(super) struct Commands {
    dir: PathBuf,
    signs: bool,
    able: Able,
    apart: Option<Apart>,
}

/// A bare repository that has the objects of another one as alternates. Git writes the objects of a preview here, so that
/// the other one does not grow with each look.
#[derive(Debug, Clone)]
pub(in crate::adapters::git) struct Apart {
    /// The directory of the repository.
    pub(in crate::adapters::git) dir: PathBuf,
    /// The longest time of each command.
    pub(in crate::adapters::git) limit: Duration,
}

/// The features of this `git merge-tree`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Able {
    /// Set when it can read attributes from a tree (2.41).
    pub(super) attributes: bool,
    /// Set when it can be given the merge base (2.40).
    pub(super) merge_base: bool,
}

/// The settings of a merge, whatever the user's settings are: git's defaults. Drivers are not included: the
/// attributes of the target name one, and the settings define its command.
const MERGE: &[&str] = &[
    "merge.renames=true",
    "merge.directoryRenames=conflict",
    "merge.renameLimit=7000",
    "merge.renormalize=false",
    "merge.default=text",
    "diff.renames=true",
    "diff.renameLimit=1000",
    "diff.algorithm=histogram",
    "core.attributesFile=/dev/null",
];

/// Returns the features of git, asked once: git is not downgraded under a running daemon.
pub(super) fn able() -> Able {
    static ABLE: OnceLock<Able> = OnceLock::new();
    *ABLE.get_or_init(|| {
        let version = Git::in_dir(Path::new("/")).arg("version").run();
        let text = version.map(|output| output.text()).unwrap_or_default();
        let number = text.strip_prefix("git version ").unwrap_or(&text);
        let mut parts = number.split('.').map_while(|part| part.parse::<u32>().ok());
        let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        Able {
            attributes: version >= (2, 41),
            merge_base: version >= (2, 40),
        }
    })
}

/// Returns true if the repository's settings demand signed commits.
pub(super) fn signs(dir: &Path) -> Result<bool, RepoError> {
    let git = settings::as_user(Git::in_dir(dir), dir);
    let git = git.args(["config", "--type=bool", "--get", "commit.gpgsign"]);
    let output = git.output()?;
    Ok(output.text() == "true")
}

impl Commands {
    /// Makes the engine. With `signs`, commits are signed.
    pub(super) fn new(dir: &Path, signs: bool) -> Self {
        Self {
            dir: dir.to_owned(),
            signs,
            able: able(),
            apart: None,
        }
    }

    /// Has all objects written there.
    pub(super) fn apart(mut self, apart: Apart) -> Self {
        self.apart = Some(apart);
        self
    }

    /// Limits the features to those of an older git, for tests.
    #[cfg(test)]
    pub(super) fn limited_to(mut self, able: Able) -> Self {
        self.able = able;
        self
    }

    /// Makes three bare commits with these trees, so that the base is the merge base of the others.
    fn fork(&self, base: &Commit, ours: &Oid, theirs: &Oid) -> Result<[Oid; 2], RepoError> {
        let bare = |tree: &Oid, parents: Vec<Oid>| {
            self.store(&Draft {
                tree: tree.clone(),
                parents,
                author: b"merge <> 0 +0000".to_vec(),
                committer: b"merge <> 0 +0000".to_vec(),
                encoding: None,
                message: Vec::new(),
            })
        };
        let base = bare(&base.tree, Vec::new())?;
        let side = |side: &Oid| bare(&self.commit(side)?.tree, vec![base.clone()]);
        Ok([side(ours)?, side(theirs)?])
    }

    fn git(&self) -> Git {
        self.configured(Git::in_dir(&self.dir))
    }

    fn configured(&self, git: Git) -> Git {
        let git = git.besides(settings::of_user_file(&self.dir));
        match &self.apart {
            None => git,
            Some(apart) => git
                .env("GIT_OBJECT_DIRECTORY", apart.dir.join("objects"))
                .limit(apart.limit),
        }
    }

    fn git_dir(&self) -> Result<PathBuf, RepoError> {
        let asked = self.git().args(["rev-parse", "--absolute-git-dir"]);
        Ok(bytes::path(asked.run()?.stdout.trim_ascii_end()).to_owned())
    }

    /// `git commit-tree` signs: it knows OpenPGP, X.509 and SSH.
    fn write_signed(&self, draft: &Draft) -> Result<Oid, RepoError> {
        let author = Ident::parse(&draft.author);
        let committer = Ident::parse(&draft.committer);
        let mut git = settings::as_user(self.git(), &self.dir);
        if let Some(encoding) = &draft.encoding {
            let encoding = String::from_utf8_lossy(encoding);
            git = git.args(["-c", &format!("i18n.commitEncoding={encoding}")]);
        }
        git = git.args(["commit-tree", "-S", draft.tree.as_str()]);
        for parent in &draft.parents {
            git = git.args(["-p", parent.as_str()]);
        }
        for (role, ident) in [("AUTHOR", author), ("COMMITTER", committer)] {
            let mut date = b"@".to_vec();
            date.extend_from_slice(ident.when);
            git = git
                .env(format!("GIT_{role}_NAME"), OsStr::from_bytes(ident.name))
                .env(format!("GIT_{role}_EMAIL"), OsStr::from_bytes(ident.email))
                .env(format!("GIT_{role}_DATE"), OsStr::from_bytes(&date));
        }
        let output = git.args(["-F", "-"]).stdin(draft.message.clone()).run()?;
        oid(&output.text())
    }
}

impl Engine for Commands {
    fn commit(&self, id: &Oid) -> Result<Commit, RepoError> {
        let output = self
            .git()
            .args(["cat-file", "commit", id.as_str()])
            .output()?;
        if !output.ok() {
            return Err(RepoError::NotFound(format!("commit {id}")));
        }
        Commit::parse(id, &output.stdout)
    }

    /// Only git knows every encoding, so it decodes a commit that names one.
    fn utf8(&self, commit: &Commit) -> Result<Commit, RepoError> {
        let mut decoded = commit.clone();
        if decoded.encoding.take().is_some() {
            let output = self
                .git()
                .args(["log", "-1", "--no-walk", "--encoding=UTF-8"])
                .args(["--no-show-signature", "--no-notes", "--no-mailmap"])
                .args(["--format=%an%x00%ae%x00%B", commit.id.as_str()])
                .run()?;
            let mut parts = output.stdout.splitn(3, |byte| *byte == 0);
            let mut next = || parts.next().unwrap_or_default().to_vec();
            let (name, email, message) = (next(), next(), next());
            let when = Ident::parse(&commit.author).when;
            decoded.author = [&name[..], b" <", &email, b"> ", when].concat();
            decoded.message = message;
        }
        for text in [&mut decoded.author, &mut decoded.message] {
            // As git shows it: text that is not UTF-8 and names no encoding is Latin-1.
            if std::str::from_utf8(text).is_err() {
                let chars = text.iter().map(|byte| char::from(*byte));
                *text = chars.collect::<String>().into_bytes();
            }
        }
        Ok(decoded)
    }

    fn write(&self, draft: &Draft) -> Result<Oid, RepoError> {
        if self.signs {
            return self.write_signed(draft);
        }
        self.store(draft)
    }

    fn store(&self, draft: &Draft) -> Result<Oid, RepoError> {
        let output = self
            .git()
            .args(["hash-object", "-t", "commit", "-w", "--stdin"])
            .stdin(draft.bytes())
            .run()?;
        oid(&output.text())
    }

    fn signs(&self) -> bool {
        self.signs
    }

    fn merge_bases(&self, one: &Oid, other: &Oid) -> Result<Vec<Oid>, RepoError> {
        let output = self
            .git()
            .args(["merge-base", "--all", one.as_str(), other.as_str()])
            .output()?;
        match output.code {
            Some(0) => output.text().lines().map(oid).collect(),
            Some(1) => Ok(Vec::new()),
            _ => Err(RepoError::Failed(format!(
                "{one} and {other} have no comparable history: {}",
                output.stderr.trim()
            ))),
        }
    }

    fn missing(&self, known: &[&Oid], head: &Oid) -> Result<Vec<Oid>, RepoError> {
        let output = self
            .git()
            .args(["rev-list", "--reverse", "--topo-order", head.as_str()])
            .args(known.iter().map(|known| format!("^{known}")))
            .run()?;
        output.text().lines().map(oid).collect()
    }

    fn join(&self, base: Option<&Commit>, ours: &Oid, theirs: &Oid) -> Result<Joined, RepoError> {
        let attributes = match self.able.attributes {
            true => None,
            false => Some(attributes::directory(|| self.git(), ours)?),
        };
        let mut git = match &attributes {
            None => self.git(),
            Some(dir) => self
                .configured(Git::in_dir(dir.path()))
                .env("GIT_DIR", self.git_dir()?)
                .env("GIT_WORK_TREE", dir.path()),
        };
        for setting in MERGE {
            git = git.args(["-c", setting]);
        }
        if attributes.is_none() {
            git = git.arg(format!("--attr-source={ours}"));
        }
        git = git
            .args(["merge-tree", "--write-tree", "-z"])
            .args(["--name-only", "--no-messages"]);
        git = match base {
            Some(base) if self.able.merge_base => git
                .arg(format!("--merge-base={}", base.id))
                .args([ours.as_str(), theirs.as_str()]),
            Some(base) => git.args(self.fork(base, ours, theirs)?.map(String::from)),
            None => git.args([ours.as_str(), theirs.as_str()]),
        };
        let output = git.output()?;
        let mut fields = output.stdout.split(|byte| *byte == 0);
        let tree = fields.next().unwrap_or_default();
        match output.code {
            Some(0) => oid(&String::from_utf8_lossy(tree)).map(Joined::Tree),
            Some(1) => {
                let mut paths: Vec<String> = fields
                    .take_while(|field| !field.is_empty())
                    .map(|field| String::from_utf8_lossy(field).into_owned())
                    .collect();
                paths.sort();
                paths.dedup();
                Ok(Joined::Conflict(paths))
            }
            _ => Err(RepoError::Failed(format!(
                "{theirs} cannot be merged with {ours}: {}",
                output.stderr.trim()
            ))),
        }
    }
}
