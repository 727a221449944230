//! Answers questions about ours with libgit2 in this process: a git process costs milliseconds, and a measurement
//! asks a dozen questions.
//!
//! libgit2 reads only ours, and only positive answers count. If it finds nothing, cannot read (sha256, damage), or
//! would search long, git is asked.

use std::collections::HashSet;

use git2::{ObjectType, Repository, Sort};

use super::patch_equivalence;
use super::rig::{GitRepo, oid};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The number of commits of a history that are searched here. git searches more, and can be ended.
const RECENT_MAX: usize = 256;

/// Ours, opened by libgit2.
pub(super) struct InProcessRepo(Repository);

impl GitRepo {
    /// Opens ours in this process; none if libgit2 cannot open it.
    pub(super) fn known(&self) -> Option<InProcessRepo> {
        Repository::open_bare(self.repo_dir())
            .ok()
            .map(InProcessRepo)
    }

    /// Returns true if `ancestor` is `descendant` or one of its ancestors.
    ///
    /// # Errors
    /// [`RepoError::NotFound`] if ours lacks one of them.
    pub(super) fn is_ancestor(&self, ancestor: &Oid, descendant: &Oid) -> Result<bool, RepoError> {
        let known = self.known();
        if known.is_some_and(|known| known.reaches(descendant, ancestor)) {
            return Ok(true);
        }
        patch_equivalence::is_ancestor(self.repo_dir(), ancestor, descendant)
    }

    /// Returns every ref of ours, with the object that it names.
    pub(super) fn refs(&self) -> Result<Vec<(Oid, String)>, RepoError> {
        self.refs_below("refs/")
    }

    /// Returns the refs of ours whose names start with `top`, which ends with a slash.
    pub(super) fn refs_below(&self, top: &str) -> Result<Vec<(Oid, String)>, RepoError> {
        if let Some(refs) = self.known().and_then(|known| known.refs(top)) {
            return Ok(refs);
        }
        let format = "--format=%(objectname) %(refname)";
        let text = self.git().args(["for-each-ref", format, top]).run()?.text();
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        lines
            .map(|(id, name)| Ok((oid(id)?, name.to_owned())))
            .collect()
    }
}

impl InProcessRepo {
    /// Returns true if ours has an object of this name.
    pub(super) fn has(&self, id: &Oid) -> bool {
        let found = || Some(self.0.odb().ok()?.exists(named(id.as_str())?));
        found().unwrap_or_default()
    }

    /// Returns the type of an object of ours, as git names it.
    pub(super) fn kind(&self, id: &Oid) -> Option<&'static str> {
        let (_, kind) = self.0.odb().ok()?.read_header(named(id.as_str())?).ok()?;
        Some(kind.str())
    }

    /// Returns the commit that a full ref name or a full id stands for.
    pub(super) fn commit(&self, name: &str) -> Option<Oid> {
        let object = match name.starts_with("refs/") {
            true => self.0.find_reference(name).ok()?.peel(ObjectType::Commit),
            false => {
                let found = self.0.find_object(named(name)?, None).ok()?;
                found.peel(ObjectType::Commit)
            }
        };
        to_oid(object.ok()?.id())
    }

    /// Returns the name of the ref that a symbolic ref names.
    pub(super) fn target(&self, name: &str) -> Option<String> {
        let found = self.0.find_reference(name).ok()?;
        found.symbolic_target().ok()?.map(str::to_owned)
    }

    /// Returns the raw content of an object.
    pub(super) fn raw(&self, id: &Oid) -> Option<Vec<u8>> {
        let store = self.0.odb().ok()?;
        let object = store.read(named(id.as_str())?).ok()?;
        Some(object.data().to_vec())
    }

    /// Returns the content of a file at the top of a commit, which is named as for [`InProcessRepo::commit`].
    pub(super) fn file(&self, commit: &str, name: &str) -> Option<Vec<u8>> {
        let commit = named(self.commit(commit)?.as_str())?;
        let tree = self.0.find_commit(commit).ok()?.tree().ok()?;
        let blob = self.0.find_blob(tree.get_name(name)?.id()).ok()?;
        Some(blob.content().to_vec())
    }

    /// Returns the tree of a commit.
    pub(super) fn tree(&self, commit: &Oid) -> Option<Oid> {
        let commit = self.0.find_commit(named(commit.as_str())?).ok()?;
        to_oid(commit.tree_id())
    }

    /// Returns the names among `names` that the top directory of a commit has.
    pub(super) fn at_top<const N: usize>(
        &self,
        commit: &Oid,
        names: [&str; N],
    ) -> Option<[bool; N]> {
        let commit = self.0.find_commit(named(commit.as_str())?).ok()?;
        let tree = commit.tree().ok()?;
        Some(names.map(|name| tree.iter().any(|it| it.name_bytes() == name.as_bytes())))
    }

    fn refs(&self, top: &str) -> Option<Vec<(Oid, String)>> {
        let mut found = Vec::new();
        for name in self.0.references_glob(&format!("{top}*")).ok()?.names() {
            let name = name.ok()?;
            // For a ref with an empty file, the list shows its packed value; it also shows names that git ignores.
            // The lookup does neither.
            let reference = self.0.find_reference(name).ok()?;
            let target = reference.resolve().ok()?.target()?;
            found.push((to_oid(target)?, name.to_owned()));
        }
        Some(found)
    }

    /// Returns the committer of a commit, and its time in seconds since 1970.
    pub(super) fn committed(&self, id: &Oid) -> Option<(String, i64)> {
        let commit = self.0.find_commit(named(id.as_str())?).ok()?;
        // git converts a name to UTF-8, so other encodings are left to git.
        if !matches!(commit.message_encoding(), Ok(None)) {
            return None;
        }
        let committer = commit.committer();
        Some((
            committer.name().ok()?.to_owned(),
            committer.when().seconds(),
        ))
    }

    /// Returns a commit and its newest ancestors.
    pub(super) fn recent(&self, from: &Oid) -> HashSet<Oid> {
        let ids = self.walk(from).into_iter().flatten();
        ids.filter_map(to_oid).collect()
    }

    /// Returns true if `to` is `from` or among its newest ancestors.
    fn reaches(&self, from: &Oid, to: &Oid) -> bool {
        let to = named(to.as_str());
        let mut ids = self.walk(from).into_iter().flatten();
        to.is_some_and(|to| ids.any(|id| id == to))
    }

    fn walk(&self, from: &Oid) -> Option<impl Iterator<Item = git2::Oid>> {
        let mut walk = self.0.revwalk().ok()?;
        // Any other order needs the whole history.
        walk.set_sorting(Sort::NONE).ok()?;
        walk.push(named(from.as_str())?).ok()?;
        Some(walk.take(RECENT_MAX).map_while(Result::ok))
    }

    /// Returns the merge base of two commits of which one is a recent ancestor of the other.
    pub(super) fn merge_base(&self, one: &Oid, other: &Oid) -> Option<Oid> {
        if self.recent(one).contains(other) {
            return Some(other.clone());
        }
        self.recent(other).contains(one).then(|| one.clone())
    }

    /// Returns the number of commits that `head` has and `of` does not, if one is a recent ancestor of the other.
    pub(super) fn ahead(&self, head: &Oid, of: &Oid) -> Option<u64> {
        if self.recent(of).contains(head) {
            return Some(0);
        }
        if self.0.is_shallow() || !self.recent(head).contains(of) {
            return None;
        }
        let mut walk = self.0.revwalk().ok()?;
        walk.push(named(head.as_str())?).ok()?;
        walk.hide(named(of.as_str())?).ok()?;
        let ids: Result<Vec<_>, _> = walk.collect();
        u64::try_from(ids.ok()?.len()).ok()
    }

    /// Returns a value of the configuration of ours that is not empty.
    pub(super) fn setting(&self, key: &str) -> Option<String> {
        let file = self.0.path().join("config");
        let config = git2::Config::open(&file).ok()?;
        let value = config.get_string(key).ok()?;
        (!value.is_empty()).then_some(value)
    }
}

/// Parses a full id. libgit2 would pad a short one with zeros.
fn named(id: &str) -> Option<git2::Oid> {
    let is_full = id.len() == 40;
    is_full.then(|| git2::Oid::from_str(id).ok()).flatten()
}

fn to_oid(id: git2::Oid) -> Option<Oid> {
    Oid::new(id.to_string()).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::rig::resolve;
    use super::super::testing::Rigged;
    use super::*;

    /// Loose and packed refs, an annotated tag, a symbolic ref, and a merge of two histories.
    fn rigged() -> (Rigged, Vec<Oid>) {
        let rigged = Rigged::new();
        let (repo, base) = (&rigged.repo, rigged.base.clone());
        let one = rigged.commit(&base, &[("one", "1\n")]);
        let two = rigged.commit(&base, &[("two", "2\n")]);
        let git = |args: &[&str]| repo.git().args(args).run().unwrap().text();
        let tree = rigged.tree(&one);
        let merge = [
            "commit-tree",
            "-m",
            "both",
            "-p",
            one.as_str(),
            "-p",
            two.as_str(),
            &tree,
        ];
        let merge = Oid::new(git(&merge)).unwrap();
        git(&["update-ref", "refs/remotes/origin/one", one.as_str()]);
        git(&["tag", "-a", "-m", "a tag", "v1", two.as_str()]);
        git(&["pack-refs", "--all"]);
        git(&["update-ref", "refs/remotes/origin/one", merge.as_str()]);
        git(&[
            "symbolic-ref",
            "refs/remotes/origin/HEAD",
            "refs/remotes/origin/one",
        ]);
        let ids = vec![base, one, two, merge];
        (rigged, ids)
    }

    fn listed(repo: &GitRepo) -> Vec<String> {
        let format = "--format=%(objectname) %(refname)";
        let text = repo
            .git()
            .args(["for-each-ref", format])
            .run()
            .unwrap()
            .text();
        text.lines().map(str::to_owned).collect()
    }

    fn shown(refs: Vec<(Oid, String)>) -> Vec<String> {
        let mut lines: Vec<_> = refs
            .iter()
            .map(|(id, name)| format!("{id} {name}"))
            .collect();
        lines.sort_by(|one, other| one[41..].cmp(&other[41..]));
        lines
    }

    /// Nothing falls back to git.
    #[test]
    fn it_answers_as_git_does() {
        let (rigged, ids) = rigged();
        let repo = &rigged.repo;
        let known = repo.known().unwrap();
        let refs = known.refs("refs/").unwrap();
        assert_eq!(shown(refs.clone()), listed(repo));
        let below = known.refs("refs/remotes/origin/").unwrap();
        let is_below = |it: &&(Oid, String)| it.1.starts_with("refs/remotes/origin/");
        assert_eq!(
            below,
            refs.iter().filter(is_below).cloned().collect::<Vec<_>>()
        );
        let head = known.target("refs/remotes/origin/HEAD");
        assert_eq!(head.as_deref(), Some("refs/remotes/origin/one"));
        assert_eq!(known.target("refs/remotes/origin/one"), None);
        for (_, name) in &refs {
            assert_eq!(
                known.commit(name),
                resolve(repo.git(), name).unwrap(),
                "{name}"
            );
        }
        let count = |head: &Oid, of: &Oid| {
            let args = ["rev-list", "--count", head.as_str(), "--not", of.as_str()];
            repo.git().args(args).run().unwrap().text()
        };
        let (one, text) = (&ids[1], b"1\n".to_vec());
        for commit in [one.as_str(), "refs/tags/v1"] {
            let has_it = commit == one.as_str();
            assert_eq!(known.file(commit, "one"), has_it.then(|| text.clone()));
        }
        for one in &ids {
            assert!(known.has(one));
            assert_eq!(known.kind(one), Some("commit"));
            let args = ["log", "-1", "--format=%cn %ct", one.as_str()];
            let told = repo.git().args(args).run().unwrap().text();
            let (name, time) = known.committed(one).unwrap();
            assert_eq!(format!("{name} {time}"), told);
            for other in &ids {
                let bases = ["merge-base", one.as_str(), other.as_str()];
                let base = repo.git().args(bases).run().unwrap().text();
                match known.merge_base(one, other) {
                    Some(found) => assert_eq!(found.as_str(), base),
                    // Neither is before the other.
                    None => assert!(![one.as_str(), other.as_str()].contains(&&*base)),
                }
                if let Some(ahead) = known.ahead(one, other) {
                    assert_eq!(ahead.to_string(), count(one, other));
                }
            }
        }
        assert_eq!(known.ahead(&ids[3], &ids[0]), Some(3));
        assert_eq!(known.ahead(&ids[1], &ids[2]), None);
    }

    /// libgit2 gives no answer where git's may differ.
    #[test]
    fn it_is_silent_where_git_may_see_something_else() {
        let (rigged, ids) = rigged();
        let repo = &rigged.repo;
        let absent = Oid::new("12".repeat(20)).unwrap();
        let known = repo.known().unwrap();
        assert!(!known.has(&absent));
        assert_eq!(known.kind(&absent), None);
        assert_eq!(known.commit("refs/heads/none"), None);
        assert_eq!(known.commit(&ids[0].as_str()[..12]), None, "a short id");
        // git lists no ref whose own file is empty, even if it has a packed value.
        fs::write(repo.repo_dir().join("refs/remotes/origin/one"), "").unwrap();
        assert_eq!(known.refs("refs/"), None);
        assert_eq!(shown(repo.refs().unwrap()), listed(repo));
    }

    #[test]
    fn recent_commits_are_few_of_a_long_history() {
        let rigged = Rigged::new();
        let mut import = String::new();
        for nth in 0..1000 {
            let from = if nth == 0 {
                "reset refs/heads/long\n"
            } else {
                ""
            };
            import.push_str(&format!(
                "{from}commit refs/heads/long\ncommitter A <a@example.invalid> {nth} +0000\ndata 1\nx\n"
            ));
        }
        let git = rigged.repo.git().args(["fast-import", "--quiet"]);
        git.stdin(import).run().unwrap();
        let tip = rigged.repo.resolve("refs/heads/long").unwrap().unwrap();
        let recent = rigged.repo.known().unwrap().recent(&tip);
        assert_eq!(recent.len(), RECENT_MAX);
        let newest = ["rev-list", "--max-count=200", "refs/heads/long"];
        let newest = rigged.repo.git().args(newest).run().unwrap().text();
        let seen = |id: &str| recent.contains(&Oid::new(id).unwrap());
        assert!(newest.lines().all(seen));
    }
}
