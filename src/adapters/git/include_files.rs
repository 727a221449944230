//! The files that settings of git include, followed to the end: also those of a condition that does not hold now, and those that are
//! not there. git reads such a file as soon as the branch, the place or a remote changes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::bytes;
use super::checkouts::is_of_another;
use super::command::{Git, READ_LIMIT};
use super::config_text;
use crate::adapters::link_walk::on_the_way;
use crate::in_time::in_time;
use crate::ports::repo::RepoError;

/// The limit for a look at one file. Its disk may hang, and git would never look there.
pub(super) const LOOK_LIMIT: Duration = Duration::from_secs(5);
/// The limit for all files: callers hold locks meanwhile.
pub(super) const LIMIT: Duration = Duration::from_secs(30);
/// The number of files that are followed.
const FILES_MAX: usize = 500;

/// A file that is included.
#[derive(Debug)]
pub(super) struct Included {
    /// The file as the setting names it, made absolute.
    pub(super) file: PathBuf,
    /// The links on the way to it, and the place that they lead to; only the file itself if it was not looked at.
    pub(super) places: Vec<PathBuf>,
    /// Set if it was not looked at: what it leads to, and what it includes, is not known.
    pub(super) is_unknown: bool,
}

/// The files that are included.
#[derive(Debug, Default)]
pub(super) struct Followed {
    pub(super) files: Vec<Included>,
    /// A file that did not answer within the limit: not all files are known.
    pub(super) silent: Option<PathBuf>,
}

/// Returns the files that these files of settings include, for the rig with this checkout, as far as they can be looked at until `end`.
/// Files in the checkouts of other rigs are not opened: the disk of another rig must not stop this one.
///
/// # Errors
/// When there are too many; git's, when it cannot be run.
pub(super) fn followed(
    files: impl IntoIterator<Item = PathBuf>,
    checkout: Option<&Path>,
    end: Instant,
) -> Result<Followed, RepoError> {
    let mut open: Vec<PathBuf> = files.into_iter().collect();
    let (mut done, mut found) = (BTreeSet::new(), Followed::default());
    while let Some(file) = open.pop() {
        if !done.insert(file.clone()) {
            continue;
        }
        let included = match Instant::now() < end {
            true => included_by(&file)?,
            false => None,
        };
        let Some(included) = included else {
            found.silent = Some(file);
            continue;
        };
        for next in included {
            if found.files.iter().any(|it| it.file == next) {
                continue;
            }
            if found.files.len() == FILES_MAX {
                let file = file.display();
                return Err(RepoError::Failed(format!(
                    "git's configuration includes more than {FILES_MAX} files, some of them by {file}"
                )));
            }
            let is_closed = is_of_another(checkout, &next);
            let looked = match is_closed || Instant::now() >= end {
                true => None,
                false => looked(&next),
            };
            if looked.is_none() && !is_closed {
                found.silent = Some(next.clone());
            }
            let is_file = looked.as_ref().is_some_and(|it| it.is_file);
            found.files.push(Included {
                is_unknown: looked.is_none(),
                places: looked.map_or_else(|| vec![next.clone()], |it| it.places),
                file: next.clone(),
            });
            if is_file {
                open.push(next);
            }
        }
    }
    Ok(found)
}

/// Returns the files that one file includes; no files where git cannot read it, because it refuses to work once a condition holds;
/// none when it does not answer within the limit.
fn included_by(file: &Path) -> Result<Option<Vec<PathBuf>>, RepoError> {
    let git = Git::in_dir(Path::new("/")).limit(READ_LIMIT);
    let git = git.args(["config", "--no-includes", "-z", "--file"]);
    let git = git.arg(file);
    let asked = git.args(["--get-regexp", r"^include(if\..*)?\.path$"]);
    let output = match asked.output() {
        Ok(output) => output,
        Err(RepoError::Timeout { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let settings = config_text::listed(&output.stdout);
    let mut files = Vec::new();
    for named in settings.into_iter().filter_map(|it| it.1) {
        if let (Some(path), Some(dir)) = (expanded(&named)?, file.parent()) {
            files.push(dir.join(path));
        }
    }
    Ok(Some(files))
}

/// Returns the path that a setting names; none for one that git cannot expand, as the home of a user that this machine does not have.
fn expanded(named: &str) -> Result<Option<PathBuf>, RepoError> {
    if !named.starts_with('~') && !named.starts_with("%(") {
        return Ok(Some(PathBuf::from(named)));
    }
    let set = format!("horde.path={named}");
    let git = Git::in_dir(Path::new("/")).args(["-c", &set]);
    let told = git.args(["config", "--type=path", "-z", "--get", "horde.path"]);
    let told = told.output()?;
    let path = told.stdout.strip_suffix(b"\0").unwrap_or(&told.stdout);
    Ok(told.ok().then(|| bytes::path(path).to_owned()))
}

/// The result of a look at a file.
struct Looked {
    places: Vec<PathBuf>,
    /// git reads no pipe or device to its end.
    is_file: bool,
}

/// Returns the links on the way to a file, and the place that they lead to; none when its disk does not answer within the limit.
pub(super) fn way(file: &Path, end: Instant) -> Option<Vec<PathBuf>> {
    let looked = (Instant::now() < end).then(|| looked(file)).flatten();
    looked.map(|it| it.places)
}

/// The files that are being looked at, and the end of such a look.
static LOOKS: (Mutex<BTreeSet<PathBuf>>, Condvar) = (Mutex::new(BTreeSet::new()), Condvar::new());

/// Looks at a file on a thread of its own; none when its disk does not answer within the limit. As long as that look hangs, no other
/// one is begun.
fn looked(file: &Path) -> Option<Looked> {
    let (looks, ended) = &LOOKS;
    let open = looks.lock().unwrap_or_else(PoisonError::into_inner);
    // Another rig looks at the same file of the user.
    let waited = ended.wait_timeout_while(open, LOOK_LIMIT, |open| open.contains(file));
    let (mut open, _) = waited.unwrap_or_else(PoisonError::into_inner);
    if !open.insert(file.to_owned()) {
        return None;
    }
    drop(open);
    let look = Look(file.to_owned());
    in_time(LOOK_LIMIT, move || Looked {
        places: on_the_way(&look.0),
        is_file: look.0.is_file(),
    })
}

/// A look under way. Its drop tells those that wait for it.
struct Look(PathBuf);

impl Drop for Look {
    fn drop(&mut self) {
        let mut open = LOOKS.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.remove(&self.0);
        LOOKS.1.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, thread};

    use super::*;

    fn files(of: &Path) -> Vec<String> {
        let found = followed([of.to_owned()], None, Instant::now() + LIMIT).unwrap();
        assert_eq!(found.silent, None);
        assert!(found.files.iter().all(|it| !it.is_unknown));
        let dir = of.parent().unwrap();
        let name = |it: &Included| {
            let file = it.file.strip_prefix(dir).unwrap_or(&it.file);
            file.display().to_string()
        };
        let mut names: Vec<_> = found.files.iter().map(name).collect();
        names.sort();
        names
    }

    /// git lists the includes of the files alone that it reads.
    #[test]
    fn includes_are_followed_by_conditions_that_do_not_hold_and_in_circles() {
        let scratch = crate::testing::scratch();
        let at = |name: &str| scratch.path().join(name);
        let write = |name: &str, text: &str| fs::write(at(name), text).unwrap();
        write(
            "top",
            "[includeIf \"gitdir:/nowhere/\"]\n\tpath = one\n[includeIf \"onbranch:x\"]\n\tpath = ~no-such-user/x\n\
            [includeIf \"onbranch:y\"]\n\tpath\n[include]\n\tpath = two\n",
        );
        write("one", "[include]\n\tpath = deep/three\n");
        write(
            "two",
            "[include]\n\tpath = top\n\tpath = absent\n\tpath = broken\n",
        );
        fs::create_dir(at("deep")).unwrap();
        write("deep/three", "[include]\n\tpath = four\n");
        write("broken", "[not a section\n");
        let expected = [
            "absent",
            "broken",
            "deep/four",
            "deep/three",
            "one",
            "top",
            "two",
        ];
        assert_eq!(files(&at("top")), expected);
    }

    #[test]
    fn pipe_is_an_included_file_that_is_not_read() {
        let scratch = crate::testing::scratch();
        let at = |name: &str| scratch.path().join(name);
        fs::write(at("top"), "[include]\n\tpath = pipe\n").unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RWXU).unwrap();
        assert_eq!(files(&at("top")), ["pipe"]);
    }

    /// Rigs are prepared at the same time, and all of them look at the files of the user.
    #[test]
    fn looks_at_one_file_at_the_same_time_all_have_an_answer() {
        let scratch = crate::testing::scratch();
        let at = |name: &str| scratch.path().join(name);
        fs::write(at("top"), "[include]\n\tpath = one\n\tpath = two\n").unwrap();
        fs::write(at("one"), "").unwrap();
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert_eq!(files(&at("top")), ["one", "two"]));
            }
        });
    }
}
