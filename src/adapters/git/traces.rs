//! Traces that a sandbox leaves beside its files: HEAD's reflog, commits that only it and its
//! branches name, and stash entries, which all worktrees of a repository share. Worktrees that the agent
//! made inside it leave theirs.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use super::admin::{Note, Place};
use super::branches::checked_out;
use super::command::Git;
use super::rig::{GitRepo, oid};
use super::status::Status;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// A stash entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stash {
    /// Its commit.
    pub(super) commit: Oid,
    /// Its message.
    pub(super) message: String,
}

/// What reflogs of HEAD name.
#[derive(Debug, Default)]
pub(super) struct HeadReflog {
    /// Commits, each once.
    pub(super) commits: BTreeSet<Oid>,
    /// Branches that were checked out.
    pub(super) branches: HashSet<String>,
    /// Whether HEAD did more than go from one commit to another that was there.
    pub(super) made: bool,
}

/// Reads those of worktrees with these administrative directories.
pub(super) fn head_reflogs(admins: &[PathBuf]) -> Result<HeadReflog, RepoError> {
    let mut found = HeadReflog::default();
    for admin in admins {
        let file = admin.join("logs").join("HEAD");
        match std::fs::read(&file) {
            Ok(text) => note(&String::from_utf8_lossy(&text), &mut found),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(super::admin::failed("cannot read", &file, &error)),
        }
    }
    Ok(found)
}

/// How the messages begin of what makes no commit.
const WENT: &[&str] = &["clone:", "checkout:", "reset:"];

/// Takes over what a reflog names.
fn note(text: &str, found: &mut HeadReflog) {
    // `<old> <new> <who> <when> <zone>\t<message>`; repo.git keeps refs in files, always.
    for line in text.lines() {
        let (head, message) = line.split_once('\t').unwrap_or((line, ""));
        for id in head.split(' ').take(2) {
            if let Ok(id) = Oid::new(id)
                && id.as_str().bytes().any(|digit| digit != b'0')
            {
                found.commits.insert(id);
            }
        }
        found.made |= !WENT.iter().any(|how| message.starts_with(how));
        if let Some((_, moved)) = message.split_once("moving from ") {
            found
                .branches
                .extend(moved.split(" to ").map(str::to_owned));
        }
    }
}

/// Full object ids in a text.
pub(super) fn ids(text: &[u8]) -> Vec<Oid> {
    let text = String::from_utf8_lossy(text);
    let words = text.split(|char: char| !char.is_ascii_hexdigit());
    words.filter_map(|word| Oid::new(word).ok()).collect()
}

/// Those of these objects that are there, and of what type.
pub(super) fn kinds(git: Git, ids: &BTreeSet<Oid>) -> Result<Vec<(Oid, String)>, RepoError> {
    let list: String = ids.iter().map(|id| format!("{id}\n")).collect();
    let format = "--batch-check=%(objectname) %(objecttype)";
    let found = git.args(["cat-file", format]).stdin(list).run()?.text();
    let there = found.lines().filter_map(|line| line.split_once(' '));
    let there = there.filter(|(_, kind)| *kind != "missing");
    there
        .map(|(id, kind)| Ok((oid(id)?, kind.to_owned())))
        .collect()
}

/// Commits that go with the sandbox.
#[derive(Debug, Default)]
pub(super) struct Lost {
    /// Commits of HEAD's reflog and of its branches that neither HEAD nor a ref of somebody else
    /// reaches; only those that no other of them reaches.
    pub(super) tips: Vec<Oid>,
    /// Where the raider's own branch is, when that is among them: work that HEAD has left.
    pub(super) own: Option<Oid>,
}

/// Looks for them. Branches of the sandbox's own hold nothing fast: nobody lists them once it is gone.
pub(super) fn lost(
    repo: &GitRepo,
    place: &Place,
    note: Option<&Note>,
    status: &Status,
    reflog: &HeadReflog,
) -> Result<Lost, RepoError> {
    // Asked of repo.git: the worktree's own refs (bisect, rewritten) go when it goes. Salvage does
    // not count, or the act of saving would change what was measured.
    let refs = repo
        .git()
        .args(["for-each-ref", "--format=%(objectname) %(refname)"])
        .run()?
        .text();
    let refs: Vec<_> = refs
        .lines()
        .filter_map(|line| line.split_once(' '))
        .collect();
    let mut ours = branches(repo, place)?;
    ours.retain(|branch| is_own(repo, note, status, reflog, (branch, &refs)));
    let (mut known, mut commits, mut own) = (Vec::new(), reflog.commits.clone(), None);
    for (id, name) in &refs {
        let branch = name.strip_prefix("refs/heads/");
        if let Some(branch) = branch.filter(|name| ours.iter().any(|ours| ours.name == *name)) {
            let tip = oid(id)?;
            if note.is_some_and(|note| note.branch == branch) {
                own = Some(tip.clone());
            }
            commits.insert(tip);
        } else if !name.starts_with("refs/horde/salvage/") {
            known.extend(format!("^{id}\n").bytes());
        }
    }
    if let Some(head) = &status.head {
        known.extend(format!("^{head}\n").bytes());
    }
    let unheld = |own: &Oid| {
        let elsewhere = status.head.as_ref() != Some(own);
        Ok(elsewhere && !tips(place.git(), &BTreeSet::from([own.clone()]), &known)?.is_empty())
    };
    let own = match own {
        Some(own) if unheld(&own)? => Some(own),
        Some(_) | None => None,
    };
    Ok(Lost {
        tips: tips(place.git(), &commits, &known)?,
        own,
    })
}

/// A local branch.
struct Branch {
    name: String,
    /// Its tip.
    commit: Oid,
    /// Who made that, and when, in seconds since 1970.
    committer: String,
    made: i64,
    /// Whether another sandbox, or the forge, has it checked out.
    elsewhere: bool,
}

/// Asked apart from the other refs, of which there may be many: this reads every commit.
fn branches(repo: &GitRepo, place: &Place) -> Result<Vec<Branch>, RepoError> {
    let format = "--format=%(objectname)%00%(refname)%00%(committername)%00%(committerdate:unix)";
    let in_use = checked_out(repo)?;
    // What somebody has checked out beside the sandboxes nobody looks after.
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    let homes = [real(repo.raiders_dir()), real(repo.forge_dir())];
    let own = real(&place.sandbox);
    let elsewhere = |(_, at): &(String, PathBuf)| {
        let within = |home: &Option<PathBuf>| {
            let at = real(at);
            at.zip(home.as_ref())
                .is_some_and(|(at, home)| at.starts_with(home))
        };
        !within(&own) && homes.iter().any(within)
    };
    let listed = repo
        .git()
        .args(["for-each-ref", format, "refs/heads/"])
        .run()?;
    let text = listed.text();
    let read = |line: &str| {
        let fields: Vec<&str> = line.split('\0').collect();
        let &[commit, full, committer, made] = fields.as_slice() else {
            let what = format!("git for-each-ref printed {line:?}");
            return Err(RepoError::Failed(what));
        };
        Ok(Branch {
            name: full.strip_prefix("refs/heads/").unwrap_or(full).to_owned(),
            commit: oid(commit)?,
            committer: committer.to_owned(),
            made: made.parse().unwrap_or(i64::MIN),
            elsewhere: in_use.iter().any(|used| used.0 == full && elsewhere(used)),
        })
    };
    text.lines().map(read).collect()
}

/// Whether a branch is this sandbox's: the raider's, one on which HEAD has been, or one that has what
/// HEAD left or what this raider committed since. Not one that another sandbox has checked out, nor,
/// without pushing, one where work lands.
fn is_own(
    repo: &GitRepo,
    note: Option<&Note>,
    status: &Status,
    reflog: &HeadReflog,
    (found, refs): (&Branch, &[(&str, &str)]),
) -> bool {
    let branch = found.name.as_str();
    if note.is_some_and(|note| note.branch == branch) {
        return true;
    }
    let upstream = |(_, name): &(&str, &str)| {
        let remote = name.strip_prefix("refs/remotes/");
        remote
            .and_then(|name| name.split_once('/'))
            .map(|(_, name)| name)
            == Some(branch)
    };
    if found.elsewhere || (!repo.pushes() && refs.iter().any(upstream)) {
        return false;
    }
    let been = reflog.branches.contains(branch) || status.branch.as_deref() == Some(branch);
    let made = note.is_some_and(|note| {
        found.committer == note.raider.to_string() && found.made >= note.created
    });
    been || made || reflog.commits.contains(&found.commit)
}

/// The commits that are not reachable from the known ones (`^<oid>` lines), tips only. Objects
/// that are gone already are passed over.
pub(super) fn tips(git: Git, commits: &BTreeSet<Oid>, known: &[u8]) -> Result<Vec<Oid>, RepoError> {
    if commits.is_empty() {
        return Ok(Vec::new());
    }
    let mut input: Vec<u8> = commits
        .iter()
        .flat_map(|id| format!("{id}\n").into_bytes())
        .collect();
    input.extend_from_slice(known);
    let output = git
        .args(["rev-list", "--parents", "--ignore-missing", "--stdin"])
        .stdin(input)
        .run()?;
    let text = output.text();
    let mut parents = HashSet::new();
    let mut found = Vec::new();
    for line in text.lines() {
        let mut ids = line.split(' ');
        found.extend(ids.next());
        parents.extend(ids);
    }
    found
        .into_iter()
        .filter(|id| !parents.contains(id))
        .map(oid)
        .collect()
}

/// The stash entries that belong to this sandbox: those whose message names one of its branches,
/// and those without a branch (detached, autostash) that were made on a commit of its reflog since
/// it exists.
pub(super) fn stashes(
    place: &Place,
    note: Option<&Note>,
    status: &Status,
    reflog: &HeadReflog,
) -> Result<Vec<Stash>, RepoError> {
    let output = place
        .git()
        .args(["stash", "list", "--format=%H%x00%P%x00%ct%x00%gs"])
        .run()?;
    let mut found = Vec::new();
    for line in output.text().lines() {
        let fields: Vec<&str> = line.split('\0').collect();
        let &[commit, parents, time, message] = fields.as_slice() else {
            return Err(RepoError::Failed(format!(
                "git stash list printed {line:?}"
            )));
        };
        let ours = match branch_of(message) {
            Some(branch) => {
                status.branch.as_deref() == Some(branch)
                    || note.is_some_and(|note| note.branch == branch)
                    || reflog.branches.contains(branch)
            }
            None => {
                let made = time.parse().unwrap_or(i64::MAX);
                let on = parents.split(' ').next().and_then(|id| Oid::new(id).ok());
                let here = on.is_some_and(|on| {
                    reflog.commits.contains(&on) || status.head.as_ref() == Some(&on)
                });
                here && note.is_none_or(|note| made >= note.created)
            }
        };
        if ours {
            found.push(Stash {
                commit: oid(commit)?,
                message: message.to_owned(),
            });
        }
    }
    Ok(found)
}

/// `WIP on <branch>: ...` or `On <branch>: ...`; none for other messages and a detached HEAD.
fn branch_of(message: &str) -> Option<&str> {
    let rest = message
        .strip_prefix("WIP on ")
        .or_else(|| message.strip_prefix("On "))?;
    let (branch, _) = rest.split_once(": ")?;
    (branch != "(no branch)").then_some(branch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stash_names_the_branch_it_was_made_on() {
        assert_eq!(
            branch_of("WIP on raider/Toast/gt-1-1: 12ab x"),
            Some("raider/Toast/gt-1-1")
        );
        assert_eq!(branch_of("On main: half: done"), Some("main"));
        assert_eq!(branch_of("WIP on (no branch): 12ab x"), None);
        assert_eq!(branch_of("autostash"), None);
    }
}
