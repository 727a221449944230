//! Writes what was captured as commits and refs, and reads it back before anybody relies on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::super::admin::{Note, failed, linked};
use super::super::bytes;
use super::super::command::Git;
use super::super::facts::LIST_MAX;
use super::super::ignored::precious;
use super::super::measure::Measured;
use super::super::raw::Raw;
use super::super::rig::{GitRepo, oid};
use super::super::status;
use super::super::traces::{ids, kinds, tips};
use super::capture::state_files;
use super::{Capture, Manifest, describe};
use crate::domain::ids::{Incarnation, Oid, RaiderId};
use crate::ports::repo::{RepoError, SalvageRecord};

/// State files larger than this are saved, but not searched for commit ids.
const SEARCH_MAX: u64 = 1024 * 1024;

/// Where the salvage of a raider's incarnation lies, without number.
fn prefix(raider: &RaiderId, incarnation: Incarnation) -> String {
    format!(
        "refs/horde/salvage/{}/{}/{incarnation}",
        raider.rig, raider.name
    )
}

/// Refs of every salvage of the incarnation, by number.
fn listed(
    repo: &GitRepo,
    raider: &RaiderId,
    incarnation: Incarnation,
) -> Result<BTreeMap<u64, Vec<String>>, RepoError> {
    let prefix = prefix(raider, incarnation);
    let parent = format!("refs/horde/salvage/{}/{}/", raider.rig, raider.name);
    let output = repo
        .git()
        .args(["for-each-ref", "--format=%(refname)", &parent])
        .run()?;
    let mut found: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for name in output.text().lines() {
        let Some(rest) = name.strip_prefix(&prefix) else {
            continue;
        };
        let (number, _) = rest.split_once('/').unwrap_or((rest, ""));
        let number = match number.strip_prefix('.') {
            None if number.is_empty() => Some(1),
            None => None,
            Some(number) => number.parse().ok(),
        };
        if let Some(number) = number {
            found.entry(number).or_default().push(name.to_owned());
        }
    }
    Ok(found)
}

fn id(raider: &RaiderId, incarnation: Incarnation, number: u64) -> String {
    let suffix = suffix(number);
    format!("{}-{}-{incarnation}{suffix}", raider.rig, raider.name)
}

fn suffix(number: u64) -> String {
    if number == 1 {
        String::new()
    } else {
        format!(".{number}")
    }
}

/// The salvage that was written from this very state, if there is one.
pub(super) fn existing(
    repo: &GitRepo,
    raider: &RaiderId,
    incarnation: Incarnation,
    fingerprint: &str,
) -> Result<Option<SalvageRecord>, RepoError> {
    for (number, refs) in listed(repo, raider, incarnation)? {
        let Some(meta) = refs.iter().find(|name| name.ends_with("/meta")) else {
            continue;
        };
        let manifest = Manifest::read(repo, meta)?;
        if manifest.fingerprint == fingerprint {
            readable(repo, &refs)?;
            return Ok(Some(SalvageRecord {
                id: id(raider, incarnation, number),
                bytes: size(repo, &refs, manifest.head.as_ref())?,
                refs,
                ignored: manifest.ignored,
            }));
        }
    }
    Ok(None)
}

/// The number of the next salvage of the incarnation.
fn next_number(
    repo: &GitRepo,
    raider: &RaiderId,
    incarnation: Incarnation,
) -> Result<u64, RepoError> {
    let listed = listed(repo, raider, incarnation)?;
    Ok(listed.keys().last().map_or(1, |last| last + 1))
}

/// Keeps a commit without any sandbox around it, once.
pub(in super::super) fn keep(
    repo: &GitRepo,
    head: &Oid,
    raider: &RaiderId,
    incarnation: Incarnation,
) -> Result<SalvageRecord, RepoError> {
    repo.take(std::slice::from_ref(head))?;
    let record = |number, refs| SalvageRecord {
        id: id(raider, incarnation, number),
        refs,
        bytes: 0,
        ignored: Vec::new(),
    };
    for (number, refs) in listed(repo, raider, incarnation)? {
        if let [only] = &refs[..]
            && repo.resolve(only)?.as_ref() == Some(head)
        {
            return Ok(record(number, refs));
        }
    }
    let number = next_number(repo, raider, incarnation)?;
    let prefix = format!("{}{}", prefix(raider, incarnation), suffix(number));
    let refs = make_refs(repo, &prefix, vec![("head".to_owned(), head.clone())])?;
    readable(repo, &refs)?;
    Ok(record(number, refs))
}

/// Writes commits and refs, makes them durable, and reads them back.
pub(super) fn write(
    repo: &GitRepo,
    raw: &Raw,
    measured: &Measured,
    capture: &Capture,
    raider: &RaiderId,
    incarnation: Incarnation,
) -> Result<SalvageRecord, RepoError> {
    let number = next_number(repo, raider, incarnation)?;
    let prefix = format!("{}{}", prefix(raider, incarnation), suffix(number));
    let note = Note::read(&measured.place.admin);
    let ignored: Vec<_> = precious(&measured.status, note.as_ref())
        .take(LIST_MAX)
        .collect();
    let commit = |what: &str, tree: &Oid, parents: &[Oid]| {
        let message = format!("{what} of {raider}, incarnation {incarnation}");
        commit_tree(repo, raider, tree, parents, &message)
    };
    let head: Vec<Oid> = measured.status.head.iter().cloned().collect();
    let index = commit("Index", &capture.index, &head)?;
    let parents: Vec<Oid> = head.iter().cloned().chain([index.clone()]).collect();
    let worktree = commit("Work tree", &capture.worktree, &parents)?;
    let tree = meta_tree(raw, measured, capture, raider, incarnation, ignored.clone())?;
    let meta = commit("State", &tree, &named_commits(measured)?)?;
    let mut refs: Vec<(String, Oid)> = head
        .into_iter()
        .map(|head| ("head".to_owned(), head))
        .collect();
    refs.extend([
        ("index".to_owned(), index),
        ("worktree".to_owned(), worktree),
        ("meta".to_owned(), meta),
    ]);
    let numbered = |name: &str, n: usize, id: &Oid| (format!("{name}-{n}"), id.clone());
    let stashes = measured.stashes.iter().enumerate();
    refs.extend(stashes.map(|(n, stash)| numbered("stash", n, &stash.commit)));
    let lost = measured.lost.tips.iter().enumerate();
    refs.extend(lost.map(|(n, id)| numbered("reflog", n, id)));
    for (n, tree) in capture.nested.iter().enumerate() {
        if let Some(tree) = tree {
            refs.push((
                format!("nested-{n}"),
                commit("Nested repository", tree, &[])?,
            ));
        }
    }
    for (n, nested) in measured.nested.iter().enumerate() {
        if nested.git_dir.is_none()
            && let Some(tree) = staged_elsewhere(raw, measured, &nested.path, n)?
        {
            refs.push((format!("staged-{n}"), commit("Index", &tree, &[])?));
        }
    }
    let refs = make_refs(repo, &prefix, refs)?;
    readable(repo, &refs)?;
    Ok(SalvageRecord {
        id: id(raider, incarnation, number),
        bytes: size(repo, &refs, measured.status.head.as_ref())?,
        refs,
        ignored,
    })
}

/// The index of a worktree that the agent made inside the sandbox, by stages: its git directory
/// outlives the sandbox, but nothing keeps what only its index names.
fn staged_elsewhere(
    raw: &Raw,
    measured: &Measured,
    path: &[u8],
    n: usize,
) -> Result<Option<Oid>, RepoError> {
    let dir = measured.place.sandbox.join(bytes::path(path));
    let ours = linked(&dir).is_some_and(|found| found.parent() == measured.place.admin.parent());
    if !ours {
        return Ok(None);
    }
    let entries = status::index(Git::in_dir(&dir).env("GIT_OPTIONAL_LOCKS", "0"))?;
    let records: Vec<_> = entries
        .iter()
        .map(|entry| {
            entry.record(
                &bytes::below(entry.stage.to_string().as_bytes(), &entry.path),
                0,
            )
        })
        .collect();
    let index = raw.index(&format!("staged-{n}"));
    index.load(records.iter().map(Vec::as_slice))?;
    index.write_tree().map(Some)
}

/// Makes the refs below the prefix, all or none, and reads them back. Answers with their full names.
fn make_refs(
    repo: &GitRepo,
    prefix: &str,
    mut refs: Vec<(String, Oid)>,
) -> Result<Vec<String>, RepoError> {
    refs.sort();
    let ids: Vec<Oid> = refs.iter().map(|(_, id)| id.clone()).collect();
    repo.take_all(&ids)?;
    sync(repo)?;
    let mut script = String::new();
    for (name, id) in &refs {
        script.push_str(&format!("create {prefix}/{name} {id}\n"));
    }
    repo.git()
        .args(["-c", "core.fsync=reference", "update-ref", "--stdin"])
        .stdin(script)
        .run()?;
    let format = "--format=%(refname) %(objectname)";
    let found = repo.git().args(["for-each-ref", format, prefix]).run()?;
    let found = found.text();
    for (name, id) in &refs {
        let line = format!("{prefix}/{name} {id}");
        if !found.lines().any(|found| found == line) {
            return Err(RepoError::Failed(format!(
                "{prefix}/{name} does not read back"
            )));
        }
    }
    let full = |(name, _): &(String, Oid)| format!("{prefix}/{name}");
    Ok(refs.iter().map(full).collect())
}

/// The tree of `meta`: manifest, lists, state, and every stage of conflicting paths.
fn meta_tree(
    raw: &Raw,
    measured: &Measured,
    capture: &Capture,
    raider: &RaiderId,
    incarnation: Incarnation,
    ignored: Vec<String>,
) -> Result<Oid, RepoError> {
    let (manifest, lists) = describe(measured, capture, raider, incarnation, ignored);
    let dir = raw.staging("meta")?;
    let names = lists.write(&manifest, &dir)?;
    let index = raw.index("meta");
    index.add(&dir, names.iter().map(Vec::as_slice))?;
    index.graft("state", &capture.state)?;
    let stages = measured
        .index
        .iter()
        .filter(|entry| entry.stage > 0)
        .map(|entry| {
            let dir = format!("stages/{}", entry.stage);
            entry.record(&bytes::below(dir.as_bytes(), &entry.path), 0)
        });
    let stages: Vec<_> = stages.collect();
    index.load(stages.iter().map(Vec::as_slice))?;
    index.write_tree()
}

/// Commits that the state of the sandbox and of worktrees inside it names (a rebase's `orig-head`,
/// `MERGE_HEAD`, an autostash, HEAD's reflog) and HEAD does not reach.
fn named_commits(measured: &Measured) -> Result<Vec<Oid>, RepoError> {
    let mut named: BTreeSet<Oid> = measured.lost.tips.iter().cloned().collect();
    named.extend(
        measured
            .nested
            .iter()
            .filter_map(|nested| nested.head.clone()),
    );
    for admin in &measured.admins {
        for file in state_files(admin)? {
            let path = admin.join(bytes::path(&file));
            let small = fs::metadata(&path).is_ok_and(|meta| meta.len() <= SEARCH_MAX);
            if small {
                let text = fs::read(&path).map_err(|error| failed("cannot read", &path, &error))?;
                named.extend(ids(&text));
            }
        }
    }
    named.retain(|id| id.as_str().bytes().any(|digit| digit != b'0'));
    let mut named = kinds(measured.place.git(), &named)?;
    named.retain(|(_, kind)| kind == "commit");
    let named = named.into_iter().map(|(id, _)| id).collect();
    let known = measured
        .status
        .head
        .as_ref()
        .map(|head| format!("^{head}\n"));
    tips(
        measured.place.git(),
        &named,
        known.unwrap_or_default().as_bytes(),
    )
}

fn commit_tree(
    repo: &GitRepo,
    raider: &RaiderId,
    tree: &Oid,
    parents: &[Oid],
    message: &str,
) -> Result<Oid, RepoError> {
    let name = raider.to_string();
    let mut git = repo.lens().args(["commit-tree", "-m", message]);
    for parent in parents {
        git = git.args(["-p", parent.as_str()]);
    }
    for role in ["AUTHOR", "COMMITTER"] {
        git = git
            .env(format!("GIT_{role}_NAME"), &name)
            .env(format!("GIT_{role}_EMAIL"), "salvage@horde.invalid");
    }
    oid(&git.arg(tree.as_str()).run()?.text())
}

/// Loose objects are not flushed by git itself: a ref must not outlive its content.
fn sync(repo: &GitRepo) -> Result<(), RepoError> {
    let dir = repo.repo_dir();
    let synced = fs::File::open(dir).and_then(|dir| Ok(rustix::fs::syncfs(&dir)?));
    synced.map_err(|error| failed("cannot flush", dir, &error))
}

/// Walks everything that the refs hold and no remote-tracking ref does; a missing object is an
/// error.
fn readable(repo: &GitRepo, refs: &[String]) -> Result<(), RepoError> {
    repo.git()
        .args(["rev-list", "--objects", "--quiet"])
        .args(refs)
        .args(["--not", "--remotes"])
        .run()?;
    Ok(())
}

/// Bytes of file content that the salvaged trees have and HEAD's tree has not.
fn size(repo: &GitRepo, refs: &[String], head: Option<&Oid>) -> Result<u64, RepoError> {
    let blobs = |name: &str| -> Result<BTreeSet<Oid>, RepoError> {
        let output = repo.git().args(["ls-tree", "-r", "-z", name]).run()?;
        Ok(bytes::split(&output.stdout).filter_map(tree_blob).collect())
    };
    let mut ours = BTreeSet::new();
    for name in refs {
        let last = name.rsplit('/').next().unwrap_or_default();
        if matches!(last, "index" | "worktree") || last.starts_with("nested-") {
            ours.extend(blobs(name)?);
        }
    }
    if let Some(head) = head {
        for known in blobs(head.as_str())? {
            ours.remove(&known);
        }
    }
    let list: String = ours.iter().map(|id| format!("{id}\n")).collect();
    let output = repo
        .git()
        .args(["cat-file", "--batch-check=%(objectsize)"])
        .stdin(list)
        .run()?;
    Ok(output
        .text()
        .lines()
        .filter_map(|line| line.parse::<u64>().ok())
        .sum())
}

/// The blob of a tree's record, `<mode> blob <oid>\t<path>`; none for a submodule.
fn tree_blob(record: &[u8]) -> Option<Oid> {
    let head = record.split(|byte| *byte == b'\t').next()?;
    let (_, id) = std::str::from_utf8(head).ok()?.split_once(" blob ")?;
    Oid::new(id).ok()
}
