//! Copies objects from the repository that agents write to into ours. Each object is hashed again, so that the
//! objects of ours match their ids.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::admin::{self, At};
use super::bytes;
use super::command::{CHECKOUT, Git};
use super::files::index::quoted;
use super::rig::GitRepo;
use super::unreadable;
use super::{objects, settings};
use crate::adapters::city_root;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The number of tries: an agent's `git gc` may move objects while they are copied.
const ATTEMPTS: usize = 2;
/// The number of splits of a list in a search for damaged objects: each part costs git processes.
pub(super) const SPLITS_MAX: usize = 100;

/// The objects that were not copied.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// The objects that are not whole.
    pub(super) damaged: Vec<Oid>,
    /// The objects that were not examined, because too many others are not whole.
    pub(super) unseen: Vec<Oid>,
    /// The objects that exist and cannot be opened now.
    pub(super) closed: Vec<Oid>,
    /// Why the first of the closed ones cannot be opened.
    pub(super) why_closed: Option<RepoError>,
}

impl GitRepo {
    /// Returns a `git` command in ours that also reads the objects of theirs, which may be gone later.
    pub(super) fn lens(&self) -> Git {
        self.through(self.git())
    }

    /// Lets a command on ours read the objects of theirs, too. The command fails if something among them would stop
    /// git and cannot be set aside.
    pub(super) fn through(&self, git: Git) -> Git {
        let git = git.args(objects::UNINDEXED);
        match objects::check_theirs(self) {
            Ok(()) => borrowing(git, &self.theirs().join("objects")),
            // The objects of ours, and the files, are judged all the same.
            Err(_) if objects::is_shut(self) => git,
            Err(why) => git.refused(why),
        }
    }

    /// Returns a `git` command on the files of a sandbox and an index, with our configuration and attributes.
    pub(super) fn work(&self, sandbox: &Path, index: &Path) -> Git {
        let git = Git::in_dir(sandbox)
            .besides(settings::of_user_file(self.repo_dir()))
            .env("GIT_DIR", self.repo_dir())
            .env("GIT_WORK_TREE", sandbox)
            .env("GIT_INDEX_FILE", index);
        self.through(git)
    }

    /// Copies the objects that are reachable from these and missing in ours. Objects of ours are complete with
    /// everything reachable from them.
    ///
    /// # Errors
    /// [`RepoError::NotFound`] if theirs lacks one of these objects, too; [`RepoError::Failed`] if a reachable object
    /// is missing or damaged: nothing is copied then.
    pub(super) fn take(&self, ids: &[Oid]) -> Result<(), RepoError> {
        let mut wanted = ids.to_vec();
        if let Some(known) = self.known() {
            wanted.retain(|id| !known.has(id));
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let wanted = missing(self.git(), &wanted)?;
        if wanted.is_empty() {
            return Ok(());
        }
        if let Some(absent) = missing(self.lens(), &wanted)?.first() {
            return Err(RepoError::NotFound(format!("commit {absent}")));
        }
        let mut attempt = 1;
        loop {
            match copy(self, &wanted) {
                Err(error) if attempt < ATTEMPTS => {
                    tracing::debug!(rig = %self.name(), %error, "copying objects from the agents' repository failed; it is retried");
                    attempt += 1;
                }
                done => return done,
            }
        }
    }

    /// Copies whole objects as [`GitRepo::take`] does. Returns the damaged ones, and those that were not checked
    /// because too many are damaged.
    ///
    /// # Errors
    /// As [`GitRepo::take_each`]; or an object exists and cannot be opened.
    pub(super) fn take_whole(&self, ids: &[Oid]) -> Result<Vec<Oid>, RepoError> {
        let left = self.take_each(ids)?;
        match left.why_closed {
            Some(why) => Err(why),
            None => Ok([left.damaged, left.unseen].concat()),
        }
    }

    /// Does the same as [`GitRepo::take_whole`], and returns damaged, unchecked and closed objects apart: a closed one of one
    /// raider stops no other.
    ///
    /// # Errors
    /// A failure other than damage, or damage of ours.
    pub(super) fn take_each(&self, ids: &[Oid]) -> Result<Left, RepoError> {
        let mut left = Left::default();
        self.take_parts(ids, &mut { SPLITS_MAX }, &mut left)?;
        if !left.damaged.is_empty() {
            // If a ref of ours cannot be followed, every copy fails, and the objects of theirs are not the cause.
            let walk = ["rev-list", "--objects", "--max-count=1", "--not", "--all"];
            self.git().args(walk).limit(CHECKOUT).run()?;
        }
        Ok(left)
    }

    fn take_parts(
        &self,
        ids: &[Oid],
        splits: &mut usize,
        left: &mut Left,
    ) -> Result<(), RepoError> {
        match self.take(ids) {
            Err(why) if !is_damage(&why) => return Err(why),
            Ok(()) => {}
            Err(why) if ids.len() == 1 => match unreadable::check(self, ids, &why.to_string()) {
                Ok(()) => left.damaged.extend_from_slice(ids),
                Err(why) => {
                    left.closed.extend_from_slice(ids);
                    left.why_closed.get_or_insert(why);
                }
            },
            Err(_) if *splits == 0 => left.unseen.extend_from_slice(ids),
            Err(_) => {
                *splits -= 1;
                let (some, others) = ids.split_at(ids.len() / 2);
                self.take_parts(some, splits, left)?;
                self.take_parts(others, splits, left)?;
            }
        }
        Ok(())
    }

    /// Copies the tips of these commits with everything reachable from them; in place of a damaged tip, its whole
    /// predecessors. Returns the result of the search, and the damaged commits.
    ///
    /// # Errors
    /// As [`GitRepo::take_whole`].
    pub(super) fn take_tips<T>(
        &self,
        find: impl Fn(&BTreeSet<Oid>) -> Result<T, RepoError>,
        tips: impl Fn(&T) -> Vec<Oid>,
    ) -> Result<(T, BTreeSet<Oid>), RepoError> {
        let mut damaged = BTreeSet::new();
        loop {
            let found = find(&damaged)?;
            let more = self.take_whole(&tips(&found))?;
            if more.is_empty() {
                return Ok((found, damaged));
            }
            damaged.extend(more);
        }
    }
}

/// The endings of git's last message when the machine failed, and not the object that it read.
const MACHINE: &[&str] = &[
    "No space left on device",
    "Disk quota exceeded",
    "File too large",
    "Read-only file system",
    "Input/output error",
    "Cannot allocate memory",
    "out of memory",
    "Too many open files",
    "Too many open files in system",
    "Resource temporarily unavailable",
];

/// Returns true if the objects are the cause, and not the machine. The texts of damage cannot be listed: an agent can write an
/// object for which git has another text. Names in git's message come from the agent, and stand before its end. A process that
/// a signal ended was ended by the machine, for example when memory is short.
pub(super) fn is_damage(error: &RepoError) -> bool {
    match error {
        RepoError::NotFound(_) | RepoError::Damaged { .. } => true,
        // git has one exit code for both.
        RepoError::Git {
            code: Some(_),
            stderr,
            ..
        } => {
            let last = stderr.lines().last().unwrap_or_default().trim_end();
            let is_full = last.starts_with("fatal: Out of memory, ") && last.ends_with(" bytes)");
            !is_full && !MACHINE.iter().any(|how| last.ends_with(how))
        }
        _ => false,
    }
}

/// Lets a command read the objects of another directory, too.
pub(super) fn borrowing(git: Git, objects: &Path) -> Git {
    let list = quoted(bytes::of(objects));
    git.env(
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        bytes::path(&list).as_os_str(),
    )
}

fn copy(repo: &GitRepo, ids: &[Oid]) -> Result<(), RepoError> {
    let listed = repo
        .lens()
        .args(["rev-list", "--objects", "--stdin", "--not", "--all"])
        .stdin(lines(ids))
        .limit(CHECKOUT)
        .run()?;
    let scratch = admin::scratch(repo)?;
    // Without deltas, which would cost more time than they save: the objects of one task are few. One pack is added
    // to ours as a whole, or not at all.
    repo.lens()
        .args(["-c", "pack.packSizeLimit=0"])
        .args(["pack-objects", "--quiet", "--window=0"])
        .arg(scratch.path().join("take"))
        .stdin(listed.stdout.clone())
        .limit(CHECKOUT)
        .run()?;
    let text = String::from_utf8_lossy(&listed.stdout);
    let names = text.lines().filter_map(|line| line.split(' ').next());
    let names = names.filter_map(|name| Oid::new(name).ok());
    let names: Vec<Oid> = names.chain(ids.iter().cloned()).collect();
    admit(repo, scratch.path(), ids, &names)
}

/// Adds the pack in a directory to ours, if it has exactly these objects and completes the wanted ones.
fn admit(repo: &GitRepo, dir: &Path, ids: &[Oid], names: &[Oid]) -> Result<(), RepoError> {
    // Not in ours yet, because git takes objects of ours for complete.
    let apart = dir.join("objects");
    let git = || {
        let git = repo.git().env("GIT_OBJECT_DIRECTORY", &apart);
        borrowing(git, &repo.repo_dir().join("objects")).limit(CHECKOUT)
    };
    city_root::make_dirs(&apart.join("pack")).at("cannot read the pack in", dir)?;
    for pack in with_suffix(dir, "pack").at("cannot read the pack in", dir)? {
        git()
            .args(["index-pack", "--stdin"])
            .stdin_file(File::open(pack).at("cannot read the pack in", dir)?)
            .run()?;
    }
    if let Some(id) = missing(git(), names)?.first() {
        return Err(RepoError::Damaged {
            id: id.clone(),
            repository: repo.theirs().to_owned(),
        });
    }
    // Checks the real content: the list of objects was only the claim of theirs.
    git()
        .args(["rev-list", "--objects", "--quiet", "--stdin"])
        .args(["--not", "--all"])
        .stdin(lines(ids))
        .run()?;
    let pack = repo.repo_dir().join("objects/pack");
    let moved = city_root::make_dirs(&pack).and_then(|()| {
        // git finds a pack by its index, so that is moved last.
        for suffix in ["pack", "rev", "idx"] {
            for file in with_suffix(&apart.join("pack"), suffix)? {
                fs::rename(&file, pack.join(file.file_name().unwrap_or_default()))?;
            }
        }
        File::open(&pack)?.sync_all()
    });
    moved.at("cannot write in", &pack)
}

fn with_suffix(dir: &Path, suffix: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        found.extend((path.extension() == Some(suffix.as_ref())).then_some(path));
    }
    Ok(found)
}

/// Returns those of these objects that do not exist.
pub(super) fn missing(git: Git, ids: &[Oid]) -> Result<Vec<Oid>, RepoError> {
    let told = looked_up(git, "%(objectname)", ids)?.into_iter();
    Ok(told.filter(|it| it.1.is_none()).map(|it| it.0).collect())
}

/// Returns what git says of each object, in the format of `git cat-file --batch-check`; none of one that it does not
/// find. A caller asks for no more than it needs: of a damaged object, git can tell some things.
pub(super) fn looked_up<'i>(
    git: Git,
    format: &str,
    ids: impl IntoIterator<Item = &'i Oid>,
) -> Result<Vec<(Oid, Option<String>)>, RepoError> {
    let ids: Vec<Oid> = ids.into_iter().cloned().collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let format = format!("--batch-check={format}");
    let git = git.args(["cat-file", "--buffer", &format]);
    let text = git.stdin(lines(&ids)).run()?.text();
    let answer = |line: &str| (!line.ends_with(" missing")).then(|| line.to_owned());
    Ok(ids.into_iter().zip(text.lines().map(answer)).collect())
}

fn lines(ids: &[Oid]) -> String {
    ids.iter().map(|id| format!("{id}\n")).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use nix::unistd::{Uid, geteuid, setfsuid};

    use super::super::testing::Rigged;
    use super::*;

    #[test]
    fn object_is_to_blame_for_what_git_says_of_it_and_the_machine_for_its_own_failures() {
        let failed = |code, stderr: &str| RepoError::Git {
            command: "git rev-list --stdin".into(),
            code,
            stderr: stderr.to_owned(),
        };
        let damage = [
            "error: Object 12 not a commit\nfatal: revision walk setup failed",
            "fatal: entry 'x: No space left on device' in tree 12 has blob mode, but is not a blob",
            "fatal: entry 'x\nfatal: y: No space left on device\n' in tree 12 has blob mode",
            "fatal: entry 'x\nfatal: Out of memory, y' in tree 12 has blob mode",
            "",
        ];
        assert!(
            damage
                .iter()
                .all(|said| is_damage(&failed(Some(128), said)))
        );
        let machine = [
            "fatal: write error: No space left on device",
            "error: x\nfatal: mmap failed: Cannot allocate memory",
            "fatal: Out of memory, malloc failed (tried to allocate 12 bytes)",
        ];
        assert!(
            !machine
                .iter()
                .any(|said| is_damage(&failed(Some(128), said)))
        );
        assert!(!is_damage(&failed(None, "")), "a signal ended it");
        // Words do not decide.
        for words in [
            "git cannot be run: No such file or directory",
            "git x ended with 1: ",
            "x is damaged: ",
        ] {
            assert!(!is_damage(&RepoError::Failed(words.into())), "{words}");
        }
    }

    /// A container may leave a pack that only its own user reads: one damaged entry had stopped the copy of all others.
    #[test]
    fn object_that_may_be_in_a_closed_pack_stops_no_other_object() {
        let rigged = Rigged::new();
        let (repo, theirs) = (&rigged.repo, rigged.repo.theirs());
        let written = |kind: &str, text: String| {
            let git = Git::in_dir(theirs).args(["hash-object", "-w", "--literally", "--stdin"]);
            let id = git.args(["-t", kind]).stdin(text).run().unwrap().text();
            Oid::new(id).unwrap()
        };
        let commit = |tree: &str, text: &str| {
            let by = "A <a@x> 1 +0000";
            written(
                "commit",
                format!("tree {tree}\nauthor {by}\ncommitter {by}\n\n{text}\n"),
            )
        };
        let empty = written("tree", String::new());
        let (whole, half) = (commit(empty.as_str(), "a"), commit(&"5".repeat(40), "b"));
        let pack = theirs.join("objects/pack/pack-x.pack");
        fs::create_dir_all(pack.parent().unwrap()).unwrap();
        fs::write(&pack, "x").unwrap();
        let all = std::process::Command::new("chmod")
            .args(["-R", "a+rwX"])
            .arg(rigged.path("."))
            .status();
        assert!(all.unwrap().success());
        fs::set_permissions(&pack, fs::Permissions::from_mode(0o000)).unwrap();
        // The superuser opens every file: this thread reads as another user.
        let as_root = geteuid().is_root();
        if as_root {
            setfsuid(Uid::from_raw(65534));
        }
        let left = repo.take_each(&[half.clone(), whole.clone()]);
        if as_root {
            setfsuid(Uid::from_raw(0));
        }
        let left = left.unwrap();
        assert_eq!((left.closed, left.damaged), (vec![half], Vec::new()));
        assert!(left.why_closed.is_some());
        assert_eq!(missing(repo.git(), &[whole]).unwrap(), []);
    }

    /// An agent that swaps objects between listing and packing may leave out objects that others name.
    #[test]
    fn incomplete_pack_is_not_copied() {
        let rigged = Rigged::new();
        let repo = &rigged.repo;
        let apart = crate::testing::scratch();
        let at = |name: &str| apart.path().join(name);
        let git = |args: &[&str]| Git::in_dir(&at("their.git")).args(args).run().unwrap();
        let theirs = at("their.git").display().to_string();
        Git::in_dir(apart.path())
            .args(["init", "-q", "--bare", &theirs])
            .run()
            .unwrap();
        let blob = git(&["hash-object", "-w", "--stdin"]).text();
        let tree = format!("100644 blob {blob}\tempty\n");
        let made = Git::in_dir(&at("their.git"))
            .arg("mktree")
            .stdin(tree)
            .run();
        let tree = made.unwrap().text();
        let ids = [&tree, &blob].map(|id| Oid::new(id.as_str()).unwrap());
        let pack = |name: &str, ids: &[Oid]| {
            fs::create_dir(at(name)).unwrap();
            let pack = Git::in_dir(&at("their.git")).args(["pack-objects", "-q"]);
            pack.arg(at(name).join("take"))
                .stdin(lines(ids))
                .run()
                .unwrap();
            admit(repo, &at(name), &ids[..1], ids)
        };
        pack("part", &ids[..1]).unwrap_err();
        assert_eq!(missing(repo.git(), &ids).unwrap(), ids);
        pack("whole", &ids).unwrap();
        assert_eq!(missing(repo.git(), &ids).unwrap(), []);
    }
}
