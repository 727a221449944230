//! Writes captured content as commits and refs, and reads it back before it counts as saved.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::super::admin::At;
use super::super::bytes;
use super::super::command::{CHECKOUT, Git};
use super::super::facts::LIST_MAX;
use super::super::files::list::list;
use super::super::files::store::Store;
use super::super::ignored::precious;
use super::super::measure::Measured;
use super::super::object_copy::looked_up;
use super::super::reflog_commits::{ids, kinds, tips};
use super::super::rig::{GitRepo, oid};
use super::capture::is_state;
use super::manifest::render;
use super::work::{self, FILES, work};
use super::{Capture, Manifest, damaged, describe};
use crate::adapters::beneath;
use crate::domain::ids::{Incarnation, Oid, RaiderId};
use crate::ports::repo::{RepoError, SalvageRecord};

/// The largest state file that is searched for commit ids; larger ones are only saved.
const SEARCH_MAX: u64 = 1024 * 1024;

/// Returns the prefix of the salvage of a raider's incarnation, without number.
fn prefix(raider: &RaiderId, incarnation: Incarnation) -> String {
    format!(
        "refs/horde/salvage/{}/{}/{incarnation}",
        raider.rig, raider.name
    )
}

/// Returns the refs of every salvage of the incarnation, by number.
fn listed(
    repo: &GitRepo,
    raider: &RaiderId,
    incarnation: Incarnation,
) -> Result<BTreeMap<u64, Vec<String>>, RepoError> {
    let prefix = prefix(raider, incarnation);
    let parent = format!("refs/horde/salvage/{}/{}/", raider.rig, raider.name);
    let mut found: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for (_, name) in repo.refs_below(&parent)? {
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
            found.entry(number).or_default().push(name);
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

/// Returns the salvage of exactly this state, if there is one.
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
        // One that is damaged does not keep this state from being saved.
        let manifest = match Manifest::read(repo, meta) {
            Ok(manifest) => manifest,
            Err(why) if matches!(why, RepoError::Timeout { .. }) => return Err(why),
            Err(why) => {
                tracing::warn!(meta, %why, "the manifest of an earlier salvage of the raider cannot be read; it does not count as saved");
                continue;
            }
        };
        if manifest.fingerprint == fingerprint {
            readable(repo, &refs)?;
            return Ok(Some(SalvageRecord {
                id: id(raider, incarnation, number),
                work: work(repo, raider, incarnation, &refs, &manifest.damaged)?,
                bytes: manifest.bytes,
                refs,
                ignored: manifest.ignored,
                fingerprint: Some(manifest.fingerprint),
            }));
        }
    }
    Ok(None)
}

/// Returns the number of the next salvage of the incarnation.
fn next_number(
    repo: &GitRepo,
    raider: &RaiderId,
    incarnation: Incarnation,
) -> Result<u64, RepoError> {
    let listed = listed(repo, raider, incarnation)?;
    Ok(listed.keys().last().map_or(1, |last| last + 1))
}

/// Saves a commit without a sandbox, once.
pub(in super::super) fn keep(
    repo: &GitRepo,
    head: &Oid,
    raider: &RaiderId,
    incarnation: Incarnation,
) -> Result<SalvageRecord, RepoError> {
    repo.take(std::slice::from_ref(head))?;
    let record = |number, refs: Vec<String>| {
        Ok(SalvageRecord {
            id: id(raider, incarnation, number),
            work: work(repo, raider, incarnation, &refs, &[])?,
            refs,
            bytes: 0,
            ignored: Vec::new(),
            fingerprint: None,
        })
    };
    for (number, refs) in listed(repo, raider, incarnation)? {
        if let [only] = &refs[..]
            && repo.resolve(only)?.as_ref() == Some(head)
        {
            return record(number, refs);
        }
    }
    let number = next_number(repo, raider, incarnation)?;
    let prefix = format!("{}{}", prefix(raider, incarnation), suffix(number));
    let refs = make_refs(repo, &prefix, vec![("head".to_owned(), head.clone())])?;
    readable(repo, &refs)?;
    record(number, refs)
}

/// Writes commits and refs, makes them durable, and reads them back.
pub(super) fn write<F: Fn() -> Git>(
    repo: &GitRepo,
    mut blobs: Store<F>,
    measured: &Measured,
    capture: &Capture,
    raider: &RaiderId,
    incarnation: Incarnation,
) -> Result<SalvageRecord, RepoError> {
    let number = next_number(repo, raider, incarnation)?;
    let prefix = format!("{}{}", prefix(raider, incarnation), suffix(number));
    let ignored: Vec<_> = precious(&measured.hidden, measured.ground.note.as_ref())
        .take(LIST_MAX)
        .collect();
    let staged = staged(repo, measured)?;
    let own = staged.iter().filter(|(id, _)| !capture.blobs.contains(id));
    let size = capture.bytes + own.map(|(_, size)| size).sum::<u64>();
    let mut manifest = describe(measured, capture, raider, incarnation, ignored.clone());
    manifest.bytes = size;
    let below = damaged::save(repo, &mut blobs, &measured.damaged)?;
    manifest.damaged = below.commits;
    let text = serde_json::to_vec_pretty(&manifest)
        .map_err(|error| RepoError::Failed(format!("the manifest: {error}")))?;
    let listed = blobs.bytes(&text)?;
    let files = blobs.bytes(render(&capture.lines).as_bytes())?;
    blobs.flush()?;
    let held = capture.blobs.iter().chain(staged.iter().map(|(id, _)| id));
    let held: BTreeSet<&Oid> = held.chain(&below.blobs).collect();
    let tree = meta_tree(repo, [&listed, &files], &held, &below.trees)?;
    let mut named = named_commits(repo, measured)?;
    named.extend(below.whole);
    let message = format!("State of {raider}, incarnation {incarnation}");
    let meta = commit_tree(repo, raider, &tree, &named, &message)?;
    let head = measured.ground.head.iter();
    let mut refs: Vec<(String, Oid)> = head.map(|head| ("head".to_owned(), head.clone())).collect();
    refs.push(("meta".to_owned(), meta));
    let shown = work::files(repo, measured, &capture.lines, raider);
    refs.extend(shown.map(|id| (FILES.to_owned(), id)));
    let numbered = |name: &str, n: usize, id: &Oid| (format!("{name}-{n}"), id.clone());
    let stashes = measured.stashes.iter().map(|stash| &stash.commit);
    let stashes = stashes.chain(&measured.dropped).enumerate();
    refs.extend(stashes.map(|(n, commit)| numbered("stash", n, commit)));
    let lost = measured.lost.tips.iter().enumerate();
    refs.extend(lost.map(|(n, id)| numbered("reflog", n, id)));
    let refs = make_refs(repo, &prefix, refs)?;
    readable(repo, &refs)?;
    Ok(SalvageRecord {
        id: id(raider, incarnation, number),
        bytes: size,
        work: work(repo, raider, incarnation, &refs, &manifest.damaged)?,
        refs,
        ignored,
        fingerprint: Some(measured.fingerprint.clone()),
    })
}

/// Returns the staged objects that HEAD does not reach, here and in worktrees that the agent made inside, with their
/// sizes, and copies them into ours. Missing objects cannot be saved.
fn staged(repo: &GitRepo, measured: &Measured) -> Result<Vec<(Oid, u64)>, RepoError> {
    let known: BTreeSet<&Oid> = match measured.ground.head {
        Some(_) => measured.tree.values().map(|(_, id)| id).collect(),
        None => BTreeSet::new(),
    };
    let index = &measured.index;
    let own = index
        .entries
        .iter()
        .filter(|it| !it.is_link() && !it.promised);
    let own = own.map(|it| &it.id).chain(&index.more);
    let all = own.chain(&measured.inner.staged);
    let wanted: BTreeSet<Oid> = all.filter(|id| !known.contains(id)).cloned().collect();
    let told = looked_up(repo.lens(), "%(objecttype) %(objectsize)", &wanted)?;
    let blob = |(id, told): (Oid, Option<String>)| {
        let size = told?.strip_prefix("blob ")?.parse().ok()?;
        Some((id, size))
    };
    let mut there: Vec<(Oid, u64)> = told.into_iter().filter_map(blob).collect();
    let ids: Vec<Oid> = there.iter().map(|(id, _)| id.clone()).collect();
    let damaged = repo.take_whole(&ids)?;
    there.retain(|(id, _)| !damaged.contains(id));
    Ok(there)
}

/// Makes the refs below the prefix in one transaction, and reads them back. Returns their full names.
fn make_refs(
    repo: &GitRepo,
    prefix: &str,
    mut refs: Vec<(String, Oid)>,
) -> Result<Vec<String>, RepoError> {
    refs.sort();
    sync(repo)?;
    let mut script = String::new();
    for (name, id) in &refs {
        script.push_str(&format!("create {prefix}/{name} {id}\n"));
    }
    repo.git()
        .args(["-c", "core.fsync=reference", "update-ref", "--stdin"])
        .stdin(script)
        .run()?;
    let found = repo.refs_below(&format!("{prefix}/"))?;
    for (name, id) in &refs {
        let made = (id.clone(), format!("{prefix}/{name}"));
        if !found.contains(&made) {
            return Err(RepoError::Failed(format!(
                "{prefix}/{name} could not be verified after writing"
            )));
        }
    }
    let full = |(name, _): &(String, Oid)| format!("{prefix}/{name}");
    Ok(refs.iter().map(full).collect())
}

/// Makes the tree of `meta`. git refuses it if an object is missing.
fn meta_tree(
    repo: &GitRepo,
    [manifest, files]: [&Oid; 2],
    blobs: &BTreeSet<&Oid>,
    trees: &BTreeSet<Oid>,
) -> Result<Oid, RepoError> {
    let make = |text: String| {
        let made = repo
            .git()
            .args(["mktree", "-z"])
            .stdin(text)
            .limit(CHECKOUT);
        oid(&made.run()?.text())
    };
    let mut text = format!("100644 blob {manifest}\tmanifest.json\0100644 blob {files}\tfiles\0");
    if !blobs.is_empty() {
        let entries = blobs.iter().map(|id| format!("100644 blob {id}\t{id}\0"));
        let below = make(entries.collect())?;
        text.push_str(&format!("040000 tree {below}\tblobs\0"));
    }
    if !trees.is_empty() {
        let entries = trees.iter().map(|id| format!("040000 tree {id}\t{id}\0"));
        let below = make(entries.collect())?;
        text.push_str(&format!("040000 tree {below}\ttrees\0"));
    }
    make(text)
}

/// Returns the commits that the state files of the sandbox and of worktrees inside it name (a rebase's `orig-head`,
/// `MERGE_HEAD`, an autostash, HEAD's reflog) and HEAD does not reach. Copies those that are whole into ours.
fn named_commits(repo: &GitRepo, measured: &Measured) -> Result<Vec<Oid>, RepoError> {
    let mut named: BTreeSet<Oid> = measured.lost.tips.iter().cloned().collect();
    for admin in measured.admins() {
        for file in list(&admin, true)?.iter().filter(|file| is_state(file)) {
            // A larger file is saved, but not searched for commits.
            if let Ok(Some(text)) = beneath::read(&admin, bytes::path(file), SEARCH_MAX) {
                named.extend(ids(&text));
            }
        }
    }
    named.retain(|id| id.as_str().bytes().any(|digit| digit != b'0'));
    let mut named = kinds(repo, &named)?;
    named.retain(|(_, kind)| kind == "commit");
    let named: BTreeSet<Oid> = named.into_iter().map(|(id, _)| id).collect();
    let known = measured.ground.head.as_ref();
    let known = known.map(|head| format!("^{head}\n")).unwrap_or_default();
    let whole = |damaged: &BTreeSet<Oid>| {
        let whole = named.difference(damaged).cloned().collect();
        tips(repo, &whole, known.as_bytes())
    };
    Ok(repo.take_tips(whole, Clone::clone)?.0)
}

pub(super) fn commit_tree(
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

/// Syncs the file system: git does not flush loose objects itself, and a ref must not outlive its content.
fn sync(repo: &GitRepo) -> Result<(), RepoError> {
    let dir = repo.repo_dir();
    let synced = fs::File::open(dir).and_then(|dir| Ok(rustix::fs::syncfs(&dir)?));
    synced.at("cannot flush", dir)
}

/// Walks everything that the refs hold and no remote-tracking ref does. A missing object is an error.
fn readable(repo: &GitRepo, refs: &[String]) -> Result<(), RepoError> {
    repo.git()
        .args(["rev-list", "--objects", "--quiet"])
        .args(refs)
        .args(["--not", "--remotes"])
        .run()?;
    Ok(())
}
