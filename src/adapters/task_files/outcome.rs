//! Reads the outcome of an incarnation: from the file of its task directory, or from a file that its session wrote in
//! place of a link to it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::moves;
use super::text::{IN_SANDBOX, IN_TASKS, at, changed, from_above, read_bytes, read_some, written};
use crate::adapters::beneath;
use crate::domain::task_names::{OUTCOME, OUTCOMES, is_link_target};
use crate::ports::repo::Committed;
use crate::ports::tasks::{OutcomeText, TaskError};

/// Tells where a file is committed, with these bytes or under this name. None when that cannot be told now.
type AskOfFile<'a> = &'a dyn Fn(&str, Option<&[u8]>) -> Option<Committed>;

/// A file in the place of a link.
enum InPlace {
    /// Nothing that the session declares, or the link itself.
    Nothing,
    Text(OutcomeText),
    /// The reason why it is not read as an outcome, for the session.
    Odd(String),
    /// git is writing files of the sandbox, or cannot be asked.
    Unsettled,
}

/// Returns the outcome that was declared last; else the first of the entries that are no file. A file that cannot be read,
/// or may be git's, is a declaration as well: no older one counts in its place. One that cannot be judged now is told only where
/// the caller no longer `waits`.
pub(super) fn read(
    dir: &Path,
    sandbox: &Path,
    committed: AskOfFile<'_>,
    waits: bool,
) -> Result<OutcomeText, TaskError> {
    let path = dir.join(OUTCOME);
    let (root, file) = from_above(&path, IN_TASKS);
    let mut found = match read_some(root, file) {
        Ok(found) => found.unwrap_or_default(),
        // Something other than a file was put there.
        Err(error) if is_refused(&error) => no_text(&path, error.to_string()),
        Err(error) => return Err(at(&path)(error)),
    };
    let file = path.symlink_metadata().ok();
    let file = file.filter(|file| changed(file) == found.written);
    if let Some(file) = file {
        found.written = moves::declared(&path, &file);
    }
    let mut declared = vec![(path, found)];
    let (mut odd, mut unsettled) = (None, false);
    for name in OUTCOMES {
        let own = sandbox.join(name);
        match in_sandbox(&own, name, committed) {
            InPlace::Nothing => {}
            InPlace::Text(found) => declared.push((own, found)),
            InPlace::Odd(why) if is_file(&own) => declared.push((own.clone(), no_text(&own, why))),
            InPlace::Odd(why) => odd = odd.or_else(|| Some(no_text(&own, why))),
            InPlace::Unsettled if waits => unsettled = true,
            InPlace::Unsettled => {
                let why = format!(
                    "git has been at work in the sandbox for long, or cannot be asked, so {name} is not read as an outcome; run `hd done`"
                );
                declared.push((own.clone(), no_text(&own, why)));
            }
        }
    }
    let is_declaration = |(path, found): &&(PathBuf, OutcomeText)| {
        !found.text.trim().is_empty() || found.odd.is_some() && is_file(path)
    };
    let newest = declared
        .iter()
        .filter(is_declaration)
        .max_by_key(|it| it.1.written);
    let newest = newest.map(|(_, found)| found.clone());
    let (_, file) = declared.swap_remove(0);
    let mut found = newest.unwrap_or(match odd {
        Some(odd) if file.odd.is_none() => odd,
        _ => file,
    });
    found.unsettled = unsettled;
    Ok(found)
}

/// Returns the outcome that the session wrote in the place of a link.
fn in_sandbox(own: &Path, name: &str, committed: AskOfFile<'_>) -> InPlace {
    let (root, file) = from_above(own, IN_SANDBOX);
    match read_bytes(root, file) {
        // A program may just be writing it, or never will.
        Ok(Some((bytes, _))) if bytes.trim_ascii().is_empty() => InPlace::Nothing,
        Ok(Some((bytes, written))) => match committed(name, Some(&bytes)) {
            Some(Committed::No) => InPlace::Text(OutcomeText {
                text: String::from_utf8_lossy(&bytes).into_owned(),
                written,
                ..OutcomeText::default()
            }),
            Some(Committed::Before) => InPlace::Nothing,
            // Another branch may have brought it.
            Some(Committed::OnBranch) => InPlace::Odd(format!(
                "{name} is committed, so it is not read as an outcome; run `git rm --cached {name}` and commit that, \
                then run `hd done`, or write the outcome into {}",
                other(name)
            )),
            Some(Committed::Known) => InPlace::Odd(format!(
                "git has a file of the name {name}, or one with its text, and may have written it, so it is not read as an \
                outcome; if it is yours, run `hd done`, or write the outcome into {} and remove {name}",
                other(name)
            )),
            Some(Committed::Unsettled) | None => InPlace::Unsettled,
        },
        Err(error) if is_made(own, &error) => match committed(name, None) {
            Some(Committed::No) => InPlace::Odd(format!(
                "at {name} in the sandbox: {error}; remove it and write a regular file there"
            )),
            Some(_) => InPlace::Nothing,
            None => InPlace::Unsettled,
        },
        // Another program holds a lease on it, for a moment.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => InPlace::Unsettled,
        // An error of the system: the file in the task directory decides.
        Ok(None) | Err(_) => InPlace::Nothing,
    }
}

/// The other name of the outcome file, with a link of its own.
fn other(name: &str) -> &'static str {
    let [first, second] = OUTCOMES;
    if name == first { second } else { first }
}

fn is_file(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_file())
}

/// Returns true for an entry that cannot be read because of what the session made of it.
fn is_refused(error: &io::Error) -> bool {
    beneath::is_odd(error) || error.kind() == io::ErrorKind::PermissionDenied
}

fn no_text(path: &Path, why: String) -> OutcomeText {
    OutcomeText {
        text: String::new(),
        written: written(path),
        odd: Some(why),
        unsettled: false,
    }
}

/// Returns true for an entry of the session that is no file, in a sandbox that is a directory. The supervisor's link may
/// be that of an earlier incarnation, or of the city's former path, until the sandbox is made ready.
fn is_made(own: &Path, error: &io::Error) -> bool {
    let kind = |path: Option<&Path>| path.and_then(|path| path.symlink_metadata().ok());
    let is_in_dir = kind(own.parent()).is_some_and(|sandbox| sandbox.is_dir());
    let sandbox = own.parent().unwrap_or(own);
    let is_link = fs::read_link(own).is_ok_and(|target| is_link_target(sandbox, &target));
    is_refused(error) && is_in_dir && !is_link
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// The task directory with an empty outcome file, and a sandbox with a link to it.
    fn places(top: &Path) -> (PathBuf, PathBuf) {
        let (dir, sandbox) = (
            top.join(".horde/tasks/rig/gt-1/1"),
            top.join("raiders/Toast"),
        );
        fs::create_dir_all(&dir).unwrap();
        fs::create_dir_all(&sandbox).unwrap();
        fs::write(dir.join(OUTCOME), "").unwrap();
        for name in OUTCOMES {
            symlink(dir.join(OUTCOME), sandbox.join(name)).unwrap();
        }
        (dir, sandbox)
    }

    /// Puts something in the place of the outcome file; the second path is a directory outside of the sandbox.
    type Make = fn(&Path, &Path);

    const SAID: &str = r#"{"outcome":"passed"}"#;

    #[test]
    fn entry_in_place_of_the_outcome_file_that_is_no_file_is_told() {
        let make: [(&str, Make); 5] = [
            ("link", |at, top| {
                fs::write(top.join("elsewhere"), SAID).unwrap();
                symlink(top.join("elsewhere"), at).unwrap();
            }),
            ("link", |at, _| symlink("nowhere", at).unwrap()),
            ("regular file", |at, _| {
                nix::unistd::mkfifo(at, nix::sys::stat::Mode::S_IRWXU).unwrap();
            }),
            ("regular file", |at, _| fs::create_dir(at).unwrap()),
            ("larger than", |at, _| {
                fs::write(at, format!("{}{SAID}", " ".repeat(100_000))).unwrap();
            }),
        ];
        for (what, make) in make {
            let top = crate::testing::scratch();
            let (dir, sandbox) = places(top.path());
            let at = sandbox.join(OUTCOMES[0]);
            let read = || read(&dir, &sandbox, &|_, _| Some(Committed::No), true).unwrap();
            assert_eq!((read().odd, read().text.as_str()), (None, ""));
            fs::remove_file(&at).unwrap();
            make(&at, top.path());
            let found = read();
            let why = found.odd.unwrap_or_default();
            assert!(
                why.contains(what) && why.contains(OUTCOMES[0]),
                "{what}: {why}"
            );
            assert_eq!(found.text, "", "it is not read through");
            assert!(found.written.is_some(), "it is told once");
            // A project may have such an entry of its own.
            let owned = super::read(
                &dir,
                &sandbox,
                &|_, bytes| match bytes {
                    None => Some(Committed::Before),
                    Some(_) => Some(Committed::No),
                },
                true,
            )
            .unwrap();
            assert_eq!(owned.odd, None, "{what}");
            // The other name, and the file itself, hold an outcome all the same.
            let last = crate::testing::eventually("the clock of the file system goes on", || {
                fs::write(dir.join(OUTCOME), SAID).unwrap();
                Some(read()).filter(|last| last.odd.is_none())
            });
            assert_eq!(last.text, SAID);
        }
    }

    #[test]
    fn outcome_file_that_is_too_large_is_told() {
        let top = crate::testing::scratch();
        let (dir, sandbox) = places(top.path());
        let blanks = format!("{}{SAID}", " ".repeat(100_000));
        fs::write(dir.join(OUTCOME), blanks).unwrap();
        let found = read(&dir, &sandbox, &|_, _| Some(Committed::No), true).unwrap();
        assert!(found.odd.is_some_and(|why| why.contains("larger than")));
    }
}
