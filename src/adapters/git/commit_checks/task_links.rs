//! Refuses commits with links that may lead to the files of a task: git would bring them into the sandboxes of others, whose sessions
//! would write into this task. A directory or submodule in the place of an outcome file would leave them without one.

use super::super::injected_files;
use super::super::rig::{GitRepo, oid};
use crate::domain::ids::Oid;
use crate::domain::task_names::is_reserved;
use crate::ports::repo::RepoError;

/// An entry that a commit brings under the name of a task file, and that is no file.
struct Link {
    commit: Oid,
    /// False for a directory or a submodule.
    is_link: bool,
    id: String,
    name: String,
}

/// Refuses a head if it, or a commit below it that no remote has and that may land as well, brings such an entry. One that the
/// target has is no fault of the branch, nor is one of the remote's commits that the head does not have any more. `new` are those
/// commits that no remote has, where they are known.
///
/// # Errors
/// [`RepoError::Rejected`] says which commit it is.
pub(super) fn check(
    repo: &GitRepo,
    head: &Oid,
    old: &[Oid],
    new: Option<&[Oid]>,
) -> Result<(), RepoError> {
    if let Some(new) = new
        && !is_any_tracked(repo, new, head)?
    {
        return Ok(());
    }
    let mut links = brought(repo, head, old)?;
    links.extend(links_of(repo, head)?);
    let Some(Link {
        commit,
        is_link,
        name,
        ..
    }) = refused(repo, links, old)?
    else {
        return Ok(());
    };
    let what = match (is_link, is_reserved(&name)) {
        (false, _) => "no file,",
        (true, true) => "a link",
        (true, false) => "a link that leads to no file of the commit,",
    };
    Err(RepoError::Rejected(format!(
        "{}: {name} is {what} in the place of the supervisor's link to a task file, and no commit may have it",
        commit.short()
    )))
}

/// Refuses a landing that gives the target such a link. Each branch was checked alone: of two that are landed together, one may
/// bring the link and the other one the directory by which it leads to a task.
///
/// # Errors
/// [`RepoError::Rejected`].
pub(in super::super) fn check_landing(
    repo: &GitRepo,
    old: &Oid,
    new: &Oid,
) -> Result<(), RepoError> {
    if !is_any_tracked(repo, &[], new)? {
        return Ok(());
    }
    let links = links_of(repo, new)?;
    match refused(repo, links, std::slice::from_ref(old))? {
        None => Ok(()),
        Some(link) => Err(RepoError::Rejected(format!(
            "together with the work that has landed, {} is a link that leads to no file of the repository, and may lead to a task file: remove \
             it, or the links of directories that it goes through",
            link.name
        ))),
    }
}

/// Returns the first of these entries that no commit may bring and that the old commits do not have.
fn refused(repo: &GitRepo, links: Vec<Link>, old: &[Oid]) -> Result<Option<Link>, RepoError> {
    if links.is_empty() {
        return Ok(None);
    }
    let mut before = Vec::new();
    for commit in old {
        before.extend(links_of(repo, commit)?);
    }
    let is_there = |link: &Link| -> Result<bool, RepoError> {
        for before in before.iter().filter(|before| before.name == link.name) {
            if !link.is_link || before.id == link.id && lead_to_the_same(repo, before, link)? {
                return Ok(true);
            }
        }
        Ok(false)
    };
    for link in links {
        if is_there(&link)? {
            continue;
        }
        if is_reserved(&link.name) || !is_to_file(&leads_to(repo, &link)?) {
            return Ok(Some(link));
        }
    }
    Ok(None)
}

fn is_any_tracked(repo: &GitRepo, new: &[Oid], head: &Oid) -> Result<bool, RepoError> {
    for commit in new.iter().chain([head]) {
        let tracked = injected_files::tracked(repo, commit, injected_files::EXCLUDED)?;
        if tracked.contains(&true) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns git's answer for the entry to which a link leads in its commit, also through links there: `<id> <type> <size>`, or that it
/// leads out of the tree, or to no entry.
fn leads_to(repo: &GitRepo, link: &Link) -> Result<Vec<u8>, RepoError> {
    if !link.is_link {
        return Ok(Vec::new());
    }
    let git = repo
        .git()
        .args(["cat-file", "--batch-check", "--follow-symlinks"]);
    let git = git.stdin(format!("{}:{}\n", link.commit, link.name));
    Ok(git.run()?.stdout)
}

/// Returns true if two links of one text lead to the same place. A directory that they go through may be a link in one commit.
fn lead_to_the_same(repo: &GitRepo, one: &Link, other: &Link) -> Result<bool, RepoError> {
    let answers = [leads_to(repo, one)?, leads_to(repo, other)?];
    if answers[0] == answers[1] {
        return Ok(true);
    }
    let [kind, other_kind] = answers.each_ref().map(|answer| kind(answer));
    if kind != other_kind {
        return Ok(false);
    }
    match kind {
        // A directory with other files.
        b"tree" => Ok(true),
        // git does not say where they end: at a name that it does not have, to which other links may lead now.
        b"dangling" | b"loop" | b"notdir" => {
            let diff = repo.git().args(["diff-tree", "-r", "--no-renames"]);
            let diff = diff
                .args([one.commit.as_str(), other.commit.as_str()])
                .run()?;
            // `:<mode before> <mode after> <id before> <id after> <status>\t<path>`
            let diff = diff.text();
            let mut modes = diff.lines().map(|line| line.split(' ').nth(1));
            Ok(!modes.any(|mode| mode == Some("120000")))
        }
        _ => Ok(false),
    }
}

/// Returns the kind of an entry, or the word for none, of an answer of [`leads_to`].
fn kind(answer: &[u8]) -> &[u8] {
    let mut words = answer.split(|byte| *byte == b' ');
    let first = words.next().unwrap_or_default();
    match first {
        b"symlink" | b"dangling" | b"loop" | b"notdir" => first,
        _ => words.next().unwrap_or_default(),
    }
}

/// Returns true for the answer of [`leads_to`] about a file. Where other links end is known in the sandbox alone: files that git does
/// not have, links of the system, and other sessions decide it.
fn is_to_file(answer: &[u8]) -> bool {
    kind(answer) == b"blob"
}

/// Returns what the commits of a head, those that no remote has, bring under the names of task files and is no file.
fn brought(repo: &GitRepo, head: &Oid, old: &[Oid]) -> Result<Vec<Link>, RepoError> {
    let log = [
        "log",
        "--full-history",
        "--format=%H",
        "--raw",
        "--no-abbrev",
        "--no-renames",
        "-m",
        "--root",
        "-O/dev/null",
    ];
    let git = repo.git().env("GIT_LITERAL_PATHSPECS", "1");
    let log = git.args(log).args([head.as_str(), "--not"]);
    let log = log
        .args(old.iter().map(Oid::as_str))
        .args(["--remotes", "--"]);
    let log = log.args(injected_files::EXCLUDED).run()?.text();
    let (mut commit, mut links) = (head.clone(), Vec::new());
    for line in log.lines().filter(|line| !line.is_empty()) {
        let Some(change) = line.strip_prefix(':') else {
            commit = oid(line)?;
            continue;
        };
        // `<mode before> <mode after> <id before> <id after> <status>\t<path>`
        let (fields, name) = change.split_once('\t').unwrap_or((change, ""));
        let [_, mode, _, id, _] = fields.split(' ').collect::<Vec<_>>()[..] else {
            continue;
        };
        // A file below such a name has a directory in its place.
        let (top, is_below) = name
            .split_once('/')
            .map_or((name, false), |it| (it.0, true));
        if mode != "000000" && (is_below || !mode.starts_with("100")) {
            links.push(Link {
                commit: commit.clone(),
                is_link: mode == "120000" && !is_below,
                id: id.to_owned(),
                name: top.to_owned(),
            });
        }
    }
    Ok(links)
}

/// Returns what a commit has under those names that is no file.
fn links_of(repo: &GitRepo, commit: &Oid) -> Result<Vec<Link>, RepoError> {
    let git = repo.git().env("GIT_LITERAL_PATHSPECS", "1");
    let list = git.args(["ls-tree", commit.as_str(), "--"]);
    let list = list.args(injected_files::EXCLUDED).run()?.text();
    // `<mode> <kind> <id>\t<path>`
    let link = |line: &str| {
        let (fields, name) = line.split_once('\t')?;
        let [mode, _, id] = fields.split(' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        (!mode.starts_with("100")).then(|| Link {
            commit: commit.clone(),
            is_link: mode == "120000",
            id: id.to_owned(),
            name: name.to_owned(),
        })
    };
    Ok(list.lines().filter_map(link).collect())
}
