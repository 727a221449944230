//! One push of one ref, and what came of it: the only place that reads what `git push` prints.

use std::path::Path;

use super::command::{Git, NETWORK, Output};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// Lets a checkout move with its branch when it is clean, without a change to its configuration.
const UPDATE_CHECKOUT: &str =
    "--receive-pack=git -c receive.denyCurrentBranch=updateInstead receive-pack";

/// A push to be made. A single ref is atomic by itself.
#[derive(Debug)]
pub(super) struct Push<'a> {
    /// The repository pushed from.
    pub(super) dir: &'a Path,
    /// The directory of the user's hooks, where there are any.
    pub(super) hooks: Option<&'a Path>,
    /// Where to.
    pub(super) url: &'a str,
    /// The remote branch.
    pub(super) branch: &'a str,
    /// Its new commit; none deletes it.
    pub(super) head: Option<&'a Oid>,
    /// Where the remote branch must be. Without it, the push must be a fast-forward.
    pub(super) lease: Option<&'a Oid>,
    /// Whether a checkout of the branch at the other end moves along.
    pub(super) update_checkout: bool,
}

/// What the other end, or this one, said to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// The branch is where it was wanted, now or before.
    Done,
    /// The branch is not where it was expected, or it would lose commits.
    Stale(String),
    /// The checkout at the other end has changes.
    CheckoutDirty(String),
    /// A hook or a rule said no.
    Refused(String),
}

impl Push<'_> {
    /// Pushes.
    ///
    /// # Errors
    /// [`RepoError::Remote`] when there was no answer, [`RepoError::Timeout`].
    pub(super) fn run(&self) -> Result<Answer, RepoError> {
        let name = format!("refs/heads/{}", self.branch);
        let mut git = Git::in_dir(self.dir)
            .args(["push", "--porcelain", "--no-follow-tags"])
            .arg("--recurse-submodules=no");
        if let Some(hooks) = self.hooks {
            git = git.hooks(hooks);
        }
        if self.update_checkout {
            git = git.arg(UPDATE_CHECKOUT);
        }
        if let Some(expected) = self.lease {
            git = git.arg(format!("--force-with-lease={name}:{expected}"));
        }
        let head = self.head.map(Oid::as_str).unwrap_or_default();
        let output = git
            .arg(self.url)
            .arg(format!("{head}:{name}"))
            .limit(NETWORK)
            .output()
            .map_err(|error| without_password(error, &format!("push of {}", self.branch)))?;
        read(&output, &name, self.url)
    }
}

/// Errors of a command carry its arguments, and a URL may carry a password.
pub(super) fn without_password(error: RepoError, what: &str) -> RepoError {
    match error {
        RepoError::Timeout { limit, .. } => RepoError::Timeout {
            what: what.to_owned(),
            limit,
        },
        other => other,
    }
}

/// The URL without the password that it may hold.
pub(super) fn shown(url: &str) -> String {
    match (url.split_once("://"), url.split_once('@')) {
        (Some((scheme, rest)), Some(_)) => {
            let host = rest.split_once('@').map_or(rest, |(_, host)| host);
            format!("{scheme}://{host}")
        }
        _ => url.to_owned(),
    }
}

/// What git said to people, without the password a URL may hold.
pub(super) fn said(output: &Output, url: &str) -> String {
    let text = output.stderr.replace(url, &shown(url));
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("hint:"))
        .collect();
    lines.join("; ")
}

/// Reads the porcelain line of the ref, or what there is instead.
fn read(output: &Output, name: &str, url: &str) -> Result<Answer, RepoError> {
    let text = output.text();
    let line = text.lines().find_map(|line| {
        let mut fields = line.split('\t');
        let (flag, refs, summary) = (fields.next()?, fields.next()?, fields.next()?);
        let (_, to) = refs.rsplit_once(':')?;
        (to == name).then_some((flag, summary))
    });
    let said = said(output, url);
    match line {
        Some((flag, _)) if flag != "!" && output.ok() => Ok(Answer::Done),
        Some(("!", summary)) => refusal(summary, said),
        Some(_) => Err(RepoError::Remote(said)),
        // The pre-push hook of this end ends the push before anything is printed of it.
        None if output.code == Some(1) && !lost_connection(&said) => Ok(Answer::Refused(said)),
        None => Err(RepoError::Remote(said)),
    }
}

fn lost_connection(said: &str) -> bool {
    said.contains("fatal:") || said.contains("remote end hung up")
}

/// `[rejected] (why)` is this end's verdict, `[remote rejected] (why)` the other's.
fn refusal(summary: &str, said: String) -> Result<Answer, RepoError> {
    let why = summary
        .split_once('(')
        .map_or(summary, |(_, why)| why.trim_end_matches(')'));
    let told = if said.is_empty() {
        why.to_owned()
    } else {
        format!("{why}: {said}")
    };
    let has = |words: &[&str]| words.iter().any(|word| why.contains(word));
    if summary.starts_with("[rejected]") {
        return Ok(Answer::Stale(told));
    }
    if has(&[
        "Working directory has",
        "Up-to-date check failed",
        "Could not update working tree",
    ]) {
        return Ok(Answer::CheckoutDirty(told));
    }
    // Somebody else's push between the lease's check and the update.
    if has(&["cannot lock ref", "incorrect old value", "non-fast-forward"]) {
        return Ok(Answer::Stale(told));
    }
    if has(&[
        "unpack",
        "missing necessary objects",
        "failed to report status",
    ]) {
        return Err(RepoError::Remote(told));
    }
    Ok(Answer::Refused(told))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: i32, stdout: &str, stderr: &str) -> Result<Answer, RepoError> {
        let output = Output {
            code: Some(code),
            stdout: stdout.as_bytes().to_vec(),
            stderr: stderr.to_owned(),
        };
        read(&output, "refs/heads/main", "https://me:secret@host/x.git")
    }

    #[test]
    fn every_kind_of_answer_is_told_apart() {
        let line = |flag: &str, summary: &str| {
            format!("To /x\n{flag}\tabc:refs/heads/main\t{summary}\nDone\n")
        };
        for (flag, summary) in [(" ", "a..b"), ("*", "[new branch]"), ("=", "[up to date]")] {
            assert_eq!(answer(0, &line(flag, summary), "").unwrap(), Answer::Done);
        }
        let refused = |summary| answer(1, &line("!", summary), "").unwrap();
        for summary in [
            "[rejected] (stale info)",
            "[rejected] (fetch first)",
            "[remote rejected] (cannot lock ref 'refs/heads/main': is at a but expected b)",
        ] {
            assert!(matches!(refused(summary), Answer::Stale(_)), "{summary}");
        }
        for summary in [
            "[remote rejected] (Working directory has unstaged changes)",
            "[remote rejected] (Could not update working tree to new HEAD)",
        ] {
            assert!(
                matches!(refused(summary), Answer::CheckoutDirty(_)),
                "{summary}"
            );
        }
        for summary in [
            "[remote rejected] (pre-receive hook declined)",
            "[remote rejected] (protected branch hook declined)",
        ] {
            assert!(matches!(refused(summary), Answer::Refused(_)), "{summary}");
        }
        let disk_full = answer(1, &line("!", "[remote rejected] (unpacker error)"), "");
        assert!(matches!(disk_full, Err(RepoError::Remote(_))));
    }

    #[test]
    fn no_answer_is_the_remotes_fault_and_shows_no_password() {
        let stderr = "fatal: unable to access 'https://me:secret@host/x.git': no host\nhint: x\n";
        let error = answer(128, "", stderr).unwrap_err();
        let expected = "fatal: unable to access 'https://host/x.git': no host";
        assert_eq!(error, RepoError::Remote(expected.to_owned()));
        let hook = answer(1, "", "error: failed to push some refs to 'x'\n").unwrap();
        assert!(matches!(hook, Answer::Refused(_)));
    }
}
