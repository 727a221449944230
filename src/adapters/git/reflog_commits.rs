//! Finds the traces of a sandbox that are not files: HEAD's reflog, and commits that only the reflog and the
//! sandbox's branches name. Includes the worktrees that the agent made inside it. For stash entries see
//! [`super::stash`].

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::admin::Note;
use super::branches::checked_out;
use super::ground::Ground;
use super::object_copy::{SPLITS_MAX, is_damage, looked_up};
use super::rig::{GitRepo, oid};
use super::theirs::{LIST_MAX, is_ref};
use super::unreadable;
use crate::adapters::beneath;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The contents of HEAD reflogs.
#[derive(Debug, Default)]
pub(super) struct HeadReflog {
    /// Commits, each once.
    pub(super) commits: BTreeSet<Oid>,
    /// Branches that were checked out.
    pub(super) branches: HashSet<String>,
    /// Set when HEAD did more than move between existing commits.
    pub(super) made: bool,
    /// The reason, for people, why a reflog cannot be read.
    pub(super) odd: Option<String>,
}

/// Reads the HEAD reflogs of these administrative directories. Anything else that an agent put in place of a reflog
/// counts as empty: the files are measured and saved all the same.
pub(super) fn head_reflogs(admins: &[PathBuf]) -> Result<HeadReflog, RepoError> {
    let mut found = HeadReflog::default();
    for admin in admins {
        take_log(admin, Path::new(LOG), &mut found)?;
    }
    Ok(found)
}

/// Reads the HEAD reflogs of a sandbox and the reflog of the branch that it was made with: from another worktree, or
/// without HEAD, that branch may have been at commits that HEAD never visited.
pub(super) fn reflogs(repo: &GitRepo, ground: &Ground) -> Result<HeadReflog, RepoError> {
    let admins: Vec<_> = ground.admin.iter().chain(&ground.inside).cloned().collect();
    let mut found = head_reflogs(&admins)?;
    let made_with = ground.note.as_ref().map(|note| &note.branch);
    let name = made_with.or(ground.branch.as_ref());
    let name = name.map(|branch| format!("refs/heads/{branch}"));
    if let Some(name) = name.filter(|name| is_ref(name)) {
        take_log(repo.theirs(), &Path::new("logs").join(name), &mut found)?;
    }
    Ok(found)
}

/// The path of HEAD's reflog in an administrative directory.
const LOG: &str = "logs/HEAD";

/// Adds the contents of a reflog, or the reason why it cannot be read.
fn take_log(root: &Path, name: &Path, found: &mut HeadReflog) -> Result<(), RepoError> {
    match read_log(root, name) {
        Ok(text) => {
            let text = text.unwrap_or_default();
            add_reflog(&String::from_utf8_lossy(&text), found);
            Ok(())
        }
        Err(error) if super::admin::is_strange(&error) || is_closed(&error) => {
            let path = root.join(name);
            found.odd = Some(format!("the reflog {}: {error}", path.display()));
            // The reflog may have told of new commits.
            found.made = true;
            Ok(())
        }
        Err(error) => Err(super::admin::failed(
            "cannot read",
            &root.join(name),
            &error,
        )),
    }
}

/// Reads a reflog. Opens it first if the agent closed it by permissions.
fn read_log(root: &Path, name: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let read = || beneath::read(root, name, LIST_MAX);
    match read() {
        Err(error) if is_closed(&error) => {
            let mut above: Vec<_> = name.ancestors().filter(|it| *it != Path::new("")).collect();
            above.reverse();
            for name in above {
                beneath::open_up(root, name)?;
            }
            read()
        }
        read => read,
    }
}

fn is_closed(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::PermissionDenied
}

/// The first words of reflog messages of operations that make no commit.
const WENT: &[&str] = &["clone:", "checkout:", "reset:", "Branch: renamed "];

/// The first words of messages that a fetch, or a new branch at an existing commit, writes to the reflogs of other
/// refs.
const FETCHED: &[&str] = &["branch:", "fetch", "remote:"];

/// Returns true if a reflog tells of more than fetching and moving between commits.
pub(super) fn is_made(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let mut told = text
        .lines()
        .map(|line| line.split_once('\t').map_or("", |it| it.1));
    told.any(|message| {
        let mut known = WENT.iter().chain(FETCHED);
        !known.any(|how| message.starts_with(how))
    })
}

/// Adds the contents of a reflog.
fn add_reflog(text: &str, found: &mut HeadReflog) {
    // `<old> <new> <committer> <time> <zone>\t<message>`; repo.git always keeps its refs in files.
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

/// Returns the full object ids in a text.
pub(super) fn ids(text: &[u8]) -> Vec<Oid> {
    let text = String::from_utf8_lossy(text);
    let words = text.split(|char: char| !char.is_ascii_hexdigit());
    words.filter_map(|word| Oid::new(word).ok()).collect()
}

/// Returns the objects among `ids` that ours or theirs has, with their types.
///
/// # Errors
/// git fails, or an object exists and cannot be opened.
pub(super) fn kinds(repo: &GitRepo, ids: &BTreeSet<Oid>) -> Result<Vec<(Oid, String)>, RepoError> {
    let (kinds, missing) = kinds_there(repo, ids)?;
    if !missing.is_empty() {
        unreadable::check(repo, &missing, "")?;
    }
    Ok(kinds)
}

/// Objects with their types, and those that were not found.
pub(super) type Kinds = (Vec<(Oid, String)>, Vec<Oid>);

/// Returns the objects among `ids` that git finds in ours or theirs, with their types, and those that it does not find:
/// they are missing, or cannot be opened.
///
/// # Errors
/// git fails.
pub(super) fn kinds_there(repo: &GitRepo, ids: &BTreeSet<Oid>) -> Result<Kinds, RepoError> {
    let known = repo.known();
    let (mut kinds, mut missing, mut asked) = (Vec::new(), Vec::new(), Vec::new());
    for id in ids {
        match known.as_ref().and_then(|known| known.kind(id)) {
            Some(kind) => kinds.push((id.clone(), kind.to_owned())),
            None => asked.push(id),
        }
    }
    for (id, kind) in looked_up(repo.lens(), "%(objecttype)", asked)? {
        match kind {
            Some(kind) => kinds.push((id, kind)),
            None => missing.push(id),
        }
    }
    Ok((kinds, missing))
}

/// Commits that would be lost with the sandbox.
#[derive(Debug, Default)]
pub(super) struct Lost {
    /// Commits of HEAD's reflog and of the sandbox's branches that are reachable neither from HEAD nor from a ref
    /// outside of the sandbox. Only those that no other of them reaches.
    pub(super) tips: Vec<Oid>,
    /// The tip of the raider's own branch, if it is among them: work that HEAD has left.
    pub(super) own: Option<Oid>,
}

/// Finds the commits that would be lost, except the damaged ones. The sandbox's own branches do not protect a commit:
/// no sandbox lists them after the removal.
pub(super) fn lost(
    repo: &GitRepo,
    note: Option<&Note>,
    ground: &Ground,
    reflog: &HeadReflog,
    damaged: &BTreeSet<Oid>,
) -> Result<Lost, RepoError> {
    // Salvage does not count, or the act of saving would change the measurement.
    let mut refs = repo.refs()?;
    refs.retain(|(_, name)| !is_ours_alone(name));
    let mut own_branches = branches(repo, &ground.sandbox)?;
    own_branches.retain(|branch| is_own(repo, note, ground, reflog, (branch, &refs)));
    let (mut known, mut commits, mut own) = (Vec::new(), reflog.commits.clone(), None);
    for branch in &own_branches {
        if note.is_some_and(|note| note.branch == branch.name) {
            own = Some(branch.commit.clone());
        }
        commits.insert(branch.commit.clone());
    }
    commits.retain(|commit| !damaged.contains(commit));
    let held = held(repo, ground, &refs);
    commits.retain(|commit| !held.contains(commit));
    let there = kinds(repo, &commits)?.into_iter();
    let commits: BTreeSet<Oid> = there
        .filter(|(_, kind)| kind == "commit")
        .map(|it| it.0)
        .collect();
    own = own.filter(|commit| !damaged.contains(commit) && !held.contains(commit));
    for id in refs.iter().map(|it| &it.0).chain(&ground.head) {
        known.extend(format!("^{id}\n").bytes());
    }
    let unheld = |own: &Oid| {
        let tips = tips(repo, &BTreeSet::from([own.clone()]), &known)?;
        Ok(!tips.is_empty())
    };
    let own = match own {
        Some(own) if unheld(&own)? => Some(own),
        Some(_) | None => None,
    };
    Ok(Lost {
        tips: tips(repo, &commits, &known)?,
        own,
    })
}

/// Returns true if a ref of ours only keeps the work of a sandbox: a pinned stash entry or salvage.
pub(super) fn is_ours_alone(name: &str) -> bool {
    name.starts_with("refs/horde/salvage/") || name.starts_with(super::stash::PINS)
}

/// Returns the commits that HEAD or a ref of ours reaches, without a long search.
fn held(repo: &GitRepo, ground: &Ground, refs: &[(Oid, String)]) -> HashSet<Oid> {
    let mut held: HashSet<Oid> = refs.iter().map(|it| it.0.clone()).collect();
    if let Some(head) = &ground.head {
        held.insert(head.clone());
        if let Some(known) = repo.known() {
            held.extend(known.recent(head));
        }
    }
    held
}

/// A local branch.
struct Branch {
    name: String,
    /// Its tip.
    commit: Oid,
    /// The committer of the tip, and the time in seconds since 1970.
    committer: String,
    made: i64,
    /// Set when another sandbox, or the forge, has it checked out.
    elsewhere: bool,
}

/// Returns the branches of theirs with the metadata of their tips.
fn branches(repo: &GitRepo, sandbox: &Path) -> Result<Vec<Branch>, RepoError> {
    let in_use = checked_out(repo)?;
    // A worktree outside of the sandboxes and the forge protects nothing: no part of the supervisor looks after it.
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    let homes = [real(repo.raiders_dir()), real(repo.forge_dir())];
    let own = real(sandbox);
    let elsewhere = |(_, at): &(String, PathBuf)| {
        let within = |home: &Option<PathBuf>| {
            let at = real(at);
            at.zip(home.as_ref())
                .is_some_and(|(at, home)| at.starts_with(home))
        };
        !within(&own) && homes.iter().any(within)
    };
    let heads = repo.their_refs().list("refs/heads/")?;
    let mut told = HashMap::new();
    if let Some(known) = repo.known() {
        for head in heads.values() {
            told.extend(known.committed(head).map(|it| (head.clone(), it)));
        }
    }
    let unknown = heads.values().filter(|head| !told.contains_key(*head));
    let unknown: Vec<Oid> = unknown.cloned().collect();
    told.extend(committed(repo, &unknown)?);
    let branch = |(full, commit): (&String, &Oid)| {
        // Nothing is known of a damaged tip, which counts as work all the same.
        let unread = || (String::new(), i64::MIN);
        let (committer, made) = told.get(commit).cloned().unwrap_or_else(unread);
        Branch {
            name: full.strip_prefix("refs/heads/").unwrap_or(full).to_owned(),
            commit: commit.clone(),
            committer,
            made,
            elsewhere: in_use.iter().any(|used| used.0 == *full && elsewhere(used)),
        }
    };
    Ok(heads.iter().map(branch).collect())
}

/// Returns the committers and times of commits, as git reads them in ours or theirs. Leaves out damaged commits.
fn committed(repo: &GitRepo, ids: &[Oid]) -> Result<HashMap<Oid, (String, i64)>, RepoError> {
    if ids.is_empty() {
        // Without ids, git would print HEAD.
        return Ok(HashMap::new());
    }
    let ask = |list: String| {
        repo.lens()
            .args(["log", "--no-walk=unsorted", "--stdin", "-z"])
            .args(["--ignore-missing", "--format=%H%x09%cn%x09%ct"])
            .stdin(list)
    };
    let mut listed = ask(ids.iter().map(|id| format!("{id}\n")).collect()).output()?;
    if !listed.ok() {
        // A damaged commit concerns its own sandbox only.
        let mut each = Vec::new();
        for head in ids {
            match ask(format!("{head}\n")).run() {
                Ok(one) => each.push(one.stdout),
                Err(why) if is_damage(&why) => {}
                Err(why) => return Err(why),
            }
        }
        listed.stdout = each.join(&0);
    }
    let text = listed.text();
    let record = |record: &str| {
        let (id, rest) = record.split_once('\t')?;
        let (name, time) = rest.rsplit_once('\t')?;
        let made = time.parse().unwrap_or(i64::MIN);
        Some((Oid::new(id).ok()?, (name.to_owned(), made)))
    };
    Ok(text.split('\0').filter_map(record).collect())
}

/// Returns true if a branch belongs to this sandbox: the raider's own branch, a branch on which HEAD has been, or a
/// branch with commits that HEAD left or that this raider made since. Returns false for a branch that another sandbox
/// has checked out and, without pushing, for a branch that work lands on.
fn is_own(
    repo: &GitRepo,
    note: Option<&Note>,
    ground: &Ground,
    reflog: &HeadReflog,
    (found, refs): (&Branch, &[(Oid, String)]),
) -> bool {
    let branch = found.name.as_str();
    if note.is_some_and(|note| note.branch == branch) {
        return true;
    }
    let upstream = |(_, name): &(Oid, String)| {
        let remote = name.strip_prefix("refs/remotes/");
        remote
            .and_then(|name| name.split_once('/'))
            .map(|(_, name)| name)
            == Some(branch)
    };
    if found.elsewhere || (!repo.pushes() && refs.iter().any(upstream)) {
        return false;
    }
    let been = reflog.branches.contains(branch) || ground.branch.as_deref() == Some(branch);
    let made = note.is_some_and(|note| {
        found.committer == note.raider.to_string() && found.made >= note.created
    });
    been || made || reflog.commits.contains(&found.commit)
}

/// Returns the commits that are not reachable from the known ones (`^<oid>` lines), tips only. Skips objects that are
/// gone. A commit whose history cannot be followed counts as a tip and does not stop the search for the others.
pub(super) fn tips(
    repo: &GitRepo,
    commits: &BTreeSet<Oid>,
    known: &[u8],
) -> Result<Vec<Oid>, RepoError> {
    match followed(repo, commits, known) {
        Err(why) if is_damage(&why) => {}
        found => return found,
    }
    let all: Vec<Oid> = commits.iter().cloned().collect();
    let broken = broken(repo, &all, known, &mut { SPLITS_MAX })?;
    let broken: BTreeSet<Oid> = broken.into_iter().collect();
    let whole = commits.iter().filter(|commit| !broken.contains(commit));
    let mut found = followed(repo, &whole.cloned().collect(), known)?;
    found.extend(broken);
    Ok(found)
}

/// Returns the commits whose history cannot be followed. If there are too many, the rest counts as broken, too: the
/// sandbox is kept, and nothing is lost.
fn broken(
    repo: &GitRepo,
    commits: &[Oid],
    known: &[u8],
    splits: &mut usize,
) -> Result<Vec<Oid>, RepoError> {
    match followed(repo, &commits.iter().cloned().collect(), known) {
        Ok(_) => Ok(Vec::new()),
        Err(why) if !is_damage(&why) => Err(why),
        Err(_) if commits.len() == 1 || *splits == 0 => Ok(commits.to_vec()),
        Err(_) => {
            *splits -= 1;
            let (some, others) = commits.split_at(commits.len() / 2);
            let some = broken(repo, some, known, splits)?;
            Ok([some, broken(repo, others, known, splits)?].concat())
        }
    }
}

fn followed(repo: &GitRepo, commits: &BTreeSet<Oid>, known: &[u8]) -> Result<Vec<Oid>, RepoError> {
    if commits.is_empty() {
        return Ok(Vec::new());
    }
    let mut input: Vec<u8> = commits
        .iter()
        .flat_map(|id| format!("{id}\n").into_bytes())
        .collect();
    input.extend_from_slice(known);
    let output = repo
        .lens()
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
