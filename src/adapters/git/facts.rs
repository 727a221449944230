//! Measures the facts of a sandbox for the safety protocol.

use std::path::Path;

use super::admin::{self, At};
use super::bytes;
use super::entry_links;
use super::ignored::precious;
use super::measure::{Files, Measured, measure, measure_gone};
use super::remote::PUSHED;
use super::rig::{GitRepo, oid};
use crate::domain::facts::GitFacts;
use crate::domain::ids::Oid;
use crate::domain::ignored::Ignored;
use crate::ports::repo::{Measurement, RepoError};

/// The largest length of a list; longer ones are cut, but the fingerprint still covers everything.
pub(super) const LIST_MAX: usize = 300;

/// Measures a sandbox now.
pub(super) fn facts(
    repo: &GitRepo,
    sandbox: &Path,
    target: &str,
) -> Result<Measurement, RepoError> {
    let measured = measure(repo, sandbox, Files::Known)?;
    let note = measured.ground.note.as_ref();
    let ignored = Ignored::known(precious(&measured.hidden, note));
    let facts = judge(repo, &measured, Some(target))?;
    Ok(Measurement { facts, ignored })
}

/// Returns the facts of a measurement. On a branch without commits `head` is all zeros. Without a target, facts about
/// it are left out, and any branch that is not a raider's takes its place.
pub(super) fn judge(
    repo: &GitRepo,
    measured: &Measured,
    target: Option<&str>,
) -> Result<GitFacts, RepoError> {
    let tip = match target {
        Some(target) => repo.target_tip(target)?,
        None => None,
    };
    let head = measured.ground.head.clone();
    let cut = |paths: &mut dyn Iterator<Item = &Vec<u8>>| {
        paths
            .take(LIST_MAX)
            .map(|path| bytes::lossy(path))
            .collect()
    };
    let (merge_base, ahead, head_reachable) = match &head {
        Some(head) => (
            merge_base(repo, head, tip.as_ref())?,
            ahead(repo, head, tip.as_ref())?,
            measured.lost.own.is_none() && reachable(repo, head, target)?,
        ),
        None => (None, 0, true),
    };
    Ok(GitFacts {
        head: head.map_or_else(|| zeros(repo), Ok)?,
        branch: measured.ground.branch.clone(),
        merge_base,
        ahead,
        dirty: cut(&mut measured.dirty()),
        untracked: cut(&mut measured.untracked()),
        stashes: measured
            .stashes
            .iter()
            .map(|stash| stash.message.clone())
            .collect(),
        head_reachable,
        other_work: measured.other_work.clone(),
        fingerprint: measured.fingerprint.clone(),
    })
}

/// Returns ahead, dirty and untracked, for people.
pub(super) fn glance(
    repo: &GitRepo,
    sandbox: &Path,
    target: &str,
) -> Result<(u64, u64, u64), RepoError> {
    let (ground, files) = super::measure::glance(repo, sandbox)?;
    let ahead = match &ground.head {
        Some(head) => ahead(repo, head, repo.target_tip(target)?.as_ref())?,
        None => 0,
    };
    let (dirty, untracked) = (files.dirty.len(), files.untracked.len());
    Ok((ahead, dirty as u64, untracked as u64))
}

/// Returns what git still knows of a sandbox whose directory is gone, as facts: `dirty` contains the staged files.
pub(super) fn remains(
    repo: &GitRepo,
    sandbox: &Path,
    target: &str,
) -> Result<Option<GitFacts>, RepoError> {
    let left = measure_gone(repo, sandbox)?;
    left.map(|left| judge(repo, &left, Some(target)))
        .transpose()
}

/// Returns the commits of a sandbox whose directory is gone that nothing else holds.
pub(super) fn strays(
    repo: &GitRepo,
    sandbox: &Path,
    branch: &str,
    target: &str,
) -> Result<Vec<Oid>, RepoError> {
    let mut names = vec![format!("refs/heads/{branch}")];
    for admin in entry_links::of_sandbox(repo, sandbox)? {
        let head = admin::line(&admin, Path::new("HEAD"));
        let head = head.at("cannot read the HEAD of", &admin)?;
        let head = bytes::lossy(&head.unwrap_or_default());
        names.push(head.trim().trim_start_matches("ref: ").to_owned());
    }
    let salvage = ["refs/horde/salvage".to_owned()];
    let mut strays = Vec::new();
    for name in names {
        let tip = match Oid::new(name.as_str()) {
            Ok(commit) => Some(commit),
            Err(_) => repo.their_refs().resolve(&name)?,
        };
        let Some(tip) = tip else { continue };
        if let Err(error) = repo.take(std::slice::from_ref(&tip)) {
            match error {
                // A name without an object: there is nothing to keep.
                RepoError::NotFound(_) => continue,
                error => return Err(error),
            }
        }
        if !strays.contains(&tip)
            && !reachable(repo, &tip, Some(target))?
            && !reached_from(repo, &tip, &salvage)?
        {
            strays.push(tip);
        }
    }
    Ok(strays)
}

fn zeros(repo: &GitRepo) -> Result<Oid, RepoError> {
    let sha256 = repo.object_format()? == "sha256";
    let digits = if sha256 { 64 } else { 40 };
    oid(&"0".repeat(digits))
}

/// Returns the merge base; none without a target or a common history.
pub(super) fn merge_base(
    repo: &GitRepo,
    head: &Oid,
    tip: Option<&Oid>,
) -> Result<Option<Oid>, RepoError> {
    let Some(tip) = tip else { return Ok(None) };
    if let Some(base) = repo.known().and_then(|known| known.merge_base(head, tip)) {
        return Ok(Some(base));
    }
    let output = repo
        .git()
        .args(["merge-base", head.as_str(), tip.as_str()])
        .output()?;
    match output.code {
        Some(0) => oid(&output.text()).map(Some),
        Some(1) => Ok(None),
        _ => Err(RepoError::Failed(format!(
            "the merge base cannot be found: {}",
            output.stderr.trim()
        ))),
    }
}

/// Counts the commits of HEAD that are not on the target or, without a target, on no remote.
fn ahead(repo: &GitRepo, head: &Oid, tip: Option<&Oid>) -> Result<u64, RepoError> {
    let known = tip.and_then(|tip| repo.known()?.ahead(head, tip));
    if let Some(ahead) = known {
        return Ok(ahead);
    }
    let not = tip.map_or_else(|| "--remotes".to_owned(), ToString::to_string);
    let output = repo
        .git()
        .args(["rev-list", "--count", head.as_str(), "--not", &not])
        .run()?;
    let text = output.text();
    text.parse()
        .map_err(|_| RepoError::Failed(format!("git rev-list --count printed {text:?}")))
}

/// Returns true if the commit is reachable from a remote-tracking ref, a queue pin or, without pushing, a pushed
/// branch or the target. The raider's own branch does not count.
fn reachable(repo: &GitRepo, head: &Oid, target: Option<&str>) -> Result<bool, RepoError> {
    reached_from(repo, head, &lasting(repo, target))
}

/// Returns true if the commit is reachable from more than raiders' branches: a remote-tracking ref of such a branch
/// may be outdated.
pub(super) fn holds(repo: &GitRepo, commit: &Oid, target: &str) -> Result<bool, RepoError> {
    let mut refs = lasting(repo, Some(target));
    refs.push("refs/horde/salvage".to_owned());
    let of_raider = |name: &str| name.starts_with("refs/remotes/") && name.contains("/raider/");
    if is_named(repo, commit, &refs, |name| !of_raider(name))? {
        return Ok(true);
    }
    let names = reaching(repo, commit, &refs)?;
    Ok(names.lines().any(|name| !of_raider(name)))
}

/// Returns the refs that outlive a sandbox and its branch.
fn lasting(repo: &GitRepo, target: Option<&str>) -> Vec<String> {
    let mut refs = vec!["refs/remotes".to_owned(), "refs/horde/mq".to_owned()];
    if !repo.pushes() {
        refs.push(PUSHED.to_owned());
        refs.push(match target {
            Some(target) => format!("refs/heads/{target}"),
            None => "refs/heads".to_owned(),
        });
    }
    refs
}

/// Returns true if one of these refs, except a raider's branch, reaches the commit.
fn reached_from(repo: &GitRepo, head: &Oid, refs: &[String]) -> Result<bool, RepoError> {
    let counts = |name: &str| !name.starts_with("refs/heads/raider/");
    // A pushed head, or one without new commits, is usually named by a ref itself.
    if is_named(repo, head, refs, counts)? {
        return Ok(true);
    }
    let names = reaching(repo, head, refs)?;
    Ok(names.lines().any(counts))
}

/// Returns true if one of these refs that counts names the commit itself.
fn is_named(
    repo: &GitRepo,
    commit: &Oid,
    refs: &[String],
    counts: impl Fn(&str) -> bool,
) -> Result<bool, RepoError> {
    let is_below = |name: &str, top: &String| {
        let rest = name.strip_prefix(top.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let names_it = |(id, name): &(Oid, String)| {
        id == commit && counts(name) && refs.iter().any(|top| is_below(name, top))
    };
    Ok(repo.refs()?.iter().any(names_it))
}

fn reaching(repo: &GitRepo, head: &Oid, refs: &[String]) -> Result<String, RepoError> {
    let git = repo
        .git()
        .args(["for-each-ref", "--format=%(refname)", "--contains"]);
    Ok(git.arg(head.as_str()).args(refs).run()?.text())
}
