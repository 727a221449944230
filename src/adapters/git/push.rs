//! Pushes one ref, and reads the outcome: the only place that reads the output of `git push`.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use super::command::{Git, NETWORK, Output};
use super::remote::remote_head;
use super::rig::GitRepo;
use super::{hooks, lfs};
use crate::domain::ids::Oid;
use crate::domain::url_text::without_passwords;
use crate::ports::repo::RepoError;

/// Runs no hook of a repository of the user's own: with `core.hooksPath`, a commit of an agent may have brought it.
const NO_HOOKS: &str = "--receive-pack=git -c core.hooksPath=/dev/null receive-pack";

/// The time after which the remote is asked whether it has the commit already.
const ASKED_AFTER: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 10_000 });

/// The number of characters of git's messages that are kept at the beginning, and at the end.
const SAID_MAX: usize = 2_000;

/// A push to be made. A single ref is atomic by itself.
#[derive(Debug)]
pub(super) struct Push<'a> {
    /// The repository pushed from.
    pub(super) repo: &'a GitRepo,
    /// The remote branch.
    pub(super) branch: &'a str,
    /// Its new commit; none deletes it.
    pub(super) head: Option<&'a Oid>,
    /// The expected commit of the remote branch. Without it, the push must be a fast-forward.
    pub(super) lease: Option<&'a Oid>,
    /// Set when nothing is moved: the user's pre-push hook runs, and the other end is asked for its branch.
    pub(super) is_rehearsal: bool,
}

/// The answer of the other end, or of this one, to a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// The branch is at the wanted commit, now or already before.
    Done,
    /// The branch is not at the expected commit, or would lose commits, or another push of it is in progress.
    Stale(String),
    /// A hook or a rule refused the push.
    Refused(String),
}

impl Push<'_> {
    /// Pushes, with the user's pre-push hook.
    ///
    /// # Errors
    /// [`RepoError::Remote`] when there was no answer, [`RepoError::Timeout`].
    pub(super) fn run(&self) -> Result<Answer, RepoError> {
        let name = format!("refs/heads/{}", self.branch);
        let url = self.repo.push_url()?;
        let mut git = self.repo.git_at_remote();
        git = match self.head {
            Some(head) => {
                lfs::bring(self.repo.theirs(), self.repo.repo_dir(), head)?;
                let hooks = hooks::of_user(self.repo)?;
                if let Some(hooks) = &hooks {
                    git = git.hooks(hooks);
                }
                // git-lfs asks the configuration where the remote is.
                git.arg("-c")
                    .arg(format!("remote.origin.pushUrl={url}"))
                    .arg("push")
            }
            // A deletion brings no commits that a hook could check.
            None => git.args(["push", "--no-verify"]),
        };
        git = git
            .args(["--porcelain", "--no-follow-tags"])
            .arg("--recurse-submodules=no");
        if self.repo.own_origin()?.is_some() {
            git = git.arg(NO_HOOKS);
        }
        if self.is_rehearsal {
            git = git.arg("--dry-run");
        }
        if let Some(expected) = self.lease {
            git = git.arg(format!("--force-with-lease={name}:{expected}"));
        }
        let head = self.head.map(Oid::as_str).unwrap_or_default();
        let git = git.arg(&url).arg(format!("{head}:{name}"));
        // A hook prints to the same output.
        let git = git.chatty().limit(NETWORK);
        let Some(output) = self.patiently(git)? else {
            return Ok(Answer::Done);
        };
        read(&output, &name, &url)
    }

    /// Returns the outcome of the push; none if the remote has the commit and only the push hangs, because a hook
    /// behind the remote takes long. That push runs until its timeout, without a waiter.
    fn patiently(&self, git: Git) -> Result<Option<Output>, RepoError> {
        let plain = |error| without_password(error, &format!("push of {}", self.branch));
        let Some(head) = self.head else {
            return git.output().map(Some).map_err(plain);
        };
        let (done, ended) = mpsc::channel();
        let pushes = std::thread::Builder::new().name("git push".to_owned());
        // The receiver is gone if the remote had the commit first.
        let started = pushes.spawn(move || drop(done.send(git.output())));
        started.map_err(|error| RepoError::Failed(format!("no thread for a push: {error}")))?;
        loop {
            match ended.recv_timeout(ASKED_AFTER) {
                Ok(output) => return output.map(Some).map_err(plain),
                Err(RecvTimeoutError::Disconnected) => {
                    let what = format!("the push of {} panicked", self.branch);
                    return Err(RepoError::Failed(what));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Ok(Some(found)) = remote_head(self.repo, self.branch)
                && found == *head
            {
                let branch = self.branch;
                tracing::warn!(
                    rig = %self.repo.name(),
                    branch,
                    "the remote has the pushed commit, but the push still runs; it is left to its timeout"
                );
                return Ok(None);
            }
        }
    }
}

/// Replaces the text of a timeout: errors of a command carry its arguments, and a URL may carry a password.
pub(super) fn without_password(error: RepoError, what: &str) -> RepoError {
    match error {
        RepoError::Timeout { limit, .. } => RepoError::Timeout {
            what: what.to_owned(),
            limit,
        },
        other => other,
    }
}

/// Parts of git's messages about a remote that refuses the credentials.
const UNKNOWN_USER: [&str; 4] = [
    "uthentication failed",
    "error: 401",
    "error: 403",
    "could not read Username",
];

/// Returns git's messages for people, without the password of a URL, shortened.
pub(super) fn git_messages(output: &Output, url: &str) -> String {
    shortened(all_messages(output, url))
}

fn all_messages(output: &Output, url: &str) -> String {
    let text = without_passwords(&output.stderr);
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("hint:"));
    let mut lines: Vec<&str> = lines.collect();
    let has_password = without_passwords(url) != url;
    if has_password && UNKNOWN_USER.iter().any(|sign| text.contains(sign)) {
        lines.push("a password or token in the address is read at the start of the supervisor and at `hd reload`");
    }
    lines.join("; ")
}

/// Returns the beginning and the end of a long text: git's first and last lines say what happened.
fn shortened(text: String) -> String {
    let count = text.chars().count();
    if count <= 2 * SAID_MAX {
        return text;
    }
    let begin: String = text.chars().take(SAID_MAX).collect();
    let end: String = text.chars().skip(count - SAID_MAX).collect();
    format!("{begin} ... {end}")
}

/// Reads the porcelain line of the ref, or the messages if there is none.
fn read(output: &Output, name: &str, url: &str) -> Result<Answer, RepoError> {
    let text = output.text();
    let line = text.lines().find_map(|line| {
        let mut fields = line.split('\t');
        let (flag, refs, summary) = (fields.next()?, fields.next()?, fields.next()?);
        let (_, to) = refs.rsplit_once(':')?;
        (to == name).then_some((flag, summary))
    });
    // What a hook prints without end must not hide the line that decides.
    let said = all_messages(output, url);
    let answer = match line {
        Some((flag, _)) if flag != "!" && output.ok() => Ok(Answer::Done),
        Some(("!", summary)) => refusal(summary, said),
        Some(_) => Err(RepoError::Remote(said)),
        // The pre-push hook of this end stops the push before git prints the line.
        None if output.code == Some(1) && !lost_connection(&said) => Ok(Answer::Refused(format!(
            "by the pre-push hook here: {said}"
        ))),
        None => Err(RepoError::Remote(said)),
    };
    match answer {
        Ok(Answer::Stale(why)) => Ok(Answer::Stale(shortened(why))),
        Ok(Answer::Refused(why)) => Ok(Answer::Refused(shortened(why))),
        Err(RepoError::Remote(why)) => Err(RepoError::Remote(shortened(why))),
        other => other,
    }
}

/// Returns true if the connection was lost, possibly by the hook: git-lfs has a connection of its own.
fn lost_connection(said: &str) -> bool {
    let signs = [
        "fatal:",
        "remote end hung up",
        "dial tcp",
        "i/o timeout",
        "connection refused",
        "connection reset",
    ];
    signs.iter().any(|sign| said.contains(sign))
}

/// Tells `[rejected] (why)`, the verdict of this end, from `[remote rejected] (why)`, that of the other.
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
    // Another branch has a part of the name, as `raider`: no retry helps while it is there.
    if has(&["directory file conflict"]) || told.contains("exists; cannot create 'refs/heads/") {
        return Ok(Answer::Refused(told));
    }
    // Another push came between the lease's check and the update, or at the same moment.
    if has(&[
        "cannot lock ref",
        "failed to update ref",
        "failed to lock",
        "incorrect old value",
        "reference already exists",
        "non-fast-forward",
    ]) {
        return Ok(Answer::Stale(told));
    }
    if has(&["missing necessary objects", "failed to report status"])
        || has(&["unpack"]) && passes(&told)
    {
        return Err(RepoError::Remote(told));
    }
    // Any other failure to unpack is a refusal: a retry would send the same objects.
    Ok(Answer::Refused(told))
}

/// Returns true if the other end failed to store the objects for a transient reason, which is no fault of the
/// objects.
pub(super) fn passes(said: &str) -> bool {
    let signs = [
        "no space left",
        "quota",
        "read-only file system",
        "input/output error",
        "out of memory",
        "too many open files",
        "unable to create",
        "unable to write",
        "unable to fork",
        "died of signal",
        "early eof",
    ];
    let said = said.to_lowercase();
    signs.iter().any(|sign| said.contains(sign))
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
            "[remote rejected] (failed to update ref)",
            "[remote rejected] (incorrect old value provided)",
        ] {
            assert!(matches!(refused(summary), Answer::Stale(_)), "{summary}");
        }
        for summary in [
            "[remote rejected] (Working directory has unstaged changes)",
            "[remote rejected] (pre-receive hook declined)",
            "[remote rejected] (protected branch hook declined)",
            "[remote rejected] (cannot lock ref 'refs/heads/a/b': 'refs/heads/a' exists; cannot create 'refs/heads/a/b')",
            "[remote rejected] (directory file conflict)",
        ] {
            assert!(matches!(refused(summary), Answer::Refused(_)), "{summary}");
        }
        let unpacked = |said| answer(1, &line("!", "[remote rejected] (unpacker error)"), said);
        let disk_full = unpacked("remote: fatal: write error: No space left on device\n");
        assert!(matches!(disk_full, Err(RepoError::Remote(_))));
        let checked = "remote: error: object abc: treeNotSorted: not properly sorted\n";
        let Ok(Answer::Refused(why)) = unpacked(checked) else {
            panic!("{:?}", unpacked(checked));
        };
        assert!(why.contains("treeNotSorted"), "{why}");
    }

    #[test]
    fn long_messages_are_shortened_and_decide_as_a_whole() {
        let many = "ö\n".repeat(9_999);
        let Ok(Answer::Refused(why)) = answer(1, "", &format!("begin\n{many}end")) else {
            panic!("a hook refused");
        };
        assert!(why.contains("begin; ö") && why.ends_with("ö; end"));
        assert!(why.chars().count() < 2 * SAID_MAX + 100);
        let lost = answer(1, "", &format!("{many}dial tcp: i/o timeout\n{many}"));
        assert!(matches!(lost, Err(RepoError::Remote(_))), "{lost:?}");
    }

    #[test]
    fn no_answer_is_the_remotes_fault_and_shows_no_password() {
        let stderr = "fatal: unable to access 'https://me:secret@host/x.git': no host\nhint: x\n";
        let error = answer(128, "", stderr).unwrap_err();
        let expected = "fatal: unable to access 'https://host/x.git': no host";
        assert_eq!(error, RepoError::Remote(expected.to_owned()));
        let hook = answer(1, "", "error: failed to push some refs to 'x'\n").unwrap();
        let Answer::Refused(why) = hook else {
            panic!("{hook:?}");
        };
        assert!(
            why.starts_with("by the pre-push hook here: error: failed"),
            "{why}"
        );
        let lfs = "batch request: dial tcp 10.0.0.1:443: connect: connection refused\n";
        assert!(matches!(answer(1, "", lfs), Err(RepoError::Remote(_))));
    }
}
