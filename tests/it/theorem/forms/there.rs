//! Checks that a form is there: by git's own files and by the files on the disk.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use super::super::look::{PIPES, SandboxState};
use super::broken::LOCKS;
use super::{Form, ODD};

/// Returns whether the form is in the sandbox, by git's own files and the file system.
pub fn is_there(form: Form, dir: &Path, seen: &SandboxState) -> bool {
    if form.is_ruin() {
        return ruined(form, dir);
    }
    let admin = SandboxState::admin(dir);
    let refs = |below: &str| {
        fs::read_dir(admin.join("../..").join(below)).is_ok_and(|found| found.count() > 0)
    };
    let has = |name: &str| admin.join(name).exists();
    let edited = |name: &[u8]| {
        let staged = seen.index.iter().find(|entry| entry.path == name);
        let file = seen.files.get(name);
        staged
            .zip(file)
            .is_some_and(|(staged, file)| staged.id != file.id())
    };
    let flagged = |name: &[u8]| {
        let entry = seen.index.iter().find(|entry| entry.path == name);
        edited(name) && entry.is_some_and(|entry| entry.is_flagged())
    };
    let head = |start: &str| seen.head_line.starts_with(start);
    let staged = |name: &[u8]| seen.index.iter().any(|entry| entry.path == name);
    match form {
        Form::Orphan => seen.head.is_none(),
        Form::Aside => head("ref: refs/heads/aside-"),
        Form::Left => head("ref: refs/heads/look-") && !seen.left_behind(dir).is_empty(),
        Form::Ahead => staged(b"work"),
        Form::Elsewhere | Form::Backup | Form::Amended | Form::ReflogOnly | Form::OwnRef => {
            !seen.left_behind(dir).is_empty() && (form != Form::OwnRef || has("refs/worktree/own"))
        }
        Form::Grafted | Form::Replaced => staged(b"mine") && refs("refs/replace/"),
        Form::Forged => staged(b"mine") && has("../../refs/remotes/origin/mine"),
        Form::Stash => !seen.stashes.is_empty(),
        Form::StashTaken => {
            let root = dir.ancestors().nth(4).expect("a root");
            let taken = fs::read_to_string(root.join("taken")).unwrap_or_default();
            !taken.is_empty() && seen.stashes.is_empty()
        }
        Form::Detached => !head("ref: ") && staged(b"detached"),
        Form::Bisect
        | Form::Rebase
        | Form::Autostash
        | Form::Merge
        | Form::CherryPick
        | Form::Revert => under_way(form, &admin),
        Form::Sparse => has("info/sparse-checkout") && seen.files.contains_key(&b"run.sh"[..]),
        Form::Submodule => staged(b"lib") && has("modules/lib/HEAD"),
        Form::SubmoduleLeft | Form::SubmoduleGone | Form::SubmoduleRemoved => {
            super::submodules::is_there(form, dir, seen)
        }
        Form::Conflict => seen.index.iter().any(|entry| entry.stage() > 0),
        Form::Skip => flagged(b"src/deep/c.txt"),
        Form::Assume => flagged(b"src/deep/d.txt"),
        Form::Staged => edited(b"README"),
        Form::StagedOnly => staged(b"staged-only") && !dir.join("staged-only").exists(),
        Form::Renamed => staged(b"src/deep/renamed") && !staged(b"src/deep/e.txt"),
        Form::Intent => seen.index.iter().any(|entry| entry.is_promised()),
        Form::Deleted => staged(b"src/b.txt") && !dir.join("src/b.txt").exists(),
        Form::Dirty => edited(b"src/deep/f.txt"),
        Form::Modes | Form::LineEndings | Form::OddNames | Form::OwnTask => among_files(form, seen),
        Form::Locked => has("locked"),
        Form::Collected => staged(b"collected") && edited(b"collected"),
        Form::RefLocks => super::broken::ref_locks(dir)
            .iter()
            .all(|lock| lock.exists()),
        Form::Clean => true,
        form if form.is_told() => setting_is_there(form, dir, &admin, seen),
        _ => on_disk(form, dir),
    }
}

/// Checks the files of the sandbox alone.
fn among_files(form: Form, seen: &SandboxState) -> bool {
    let file = |name: &str| seen.files.get(name.as_bytes());
    match form {
        Form::Modes => file("run.sh").is_some_and(|file| file.kind == "file"),
        Form::LineEndings => file("crlf.eol").is_some_and(|file| file.bytes == b"one\ntwo\n"),
        Form::OddNames => ODD.iter().all(|name| seen.files.contains_key(*name)),
        _ => file("TASK.md").is_some(),
    }
}

/// Checks for a stopped operation.
fn under_way(form: Form, admin: &Path) -> bool {
    let file = match form {
        Form::Bisect => "BISECT_LOG",
        Form::Rebase => "rebase-merge/orig-head",
        Form::Autostash => "rebase-merge/autostash",
        Form::Merge => "MERGE_HEAD",
        Form::CherryPick => "CHERRY_PICK_HEAD",
        _ => "REVERT_HEAD",
    };
    admin.join(file).exists()
}

/// Checks git's configuration, and the work that git does not see under it.
fn setting_is_there(form: Form, dir: &Path, admin: &Path, seen: &SandboxState) -> bool {
    let config = fs::read_to_string(admin.join("../../config")).unwrap_or_default();
    let said = |word: &str| config.contains(word);
    let other = |name: &str| {
        let staged = seen
            .index
            .iter()
            .find(|entry| entry.path == name.as_bytes());
        let file = seen.files.get(name.as_bytes());
        let differ = |(staged, file): (&super::super::index::Entry, &super::super::look::File)| {
            staged.id != file.id()
        };
        staged.zip(file).is_some_and(differ)
    };
    match form {
        Form::LossyFilter => said("strip") && other("src/book.nb"),
        Form::NoDriver => other("src/x.dat"),
        Form::FilterGone => said("/gone/tool") && dir.join("src/x.gone").exists(),
        Form::IgnoreCase => said("ignoreCase") && dir.join("SRC/a.txt").exists(),
        Form::SameStat => said("trustctime") && other("src/stat"),
        Form::UserNoModes => {
            let user = dir.ancestors().nth(4).expect("a root");
            let user = fs::read_to_string(user.join("checkout/.git/config"));
            let kind = |name: &str| seen.files.get(name.as_bytes()).map(|file| file.kind);
            user.is_ok_and(|user| user.contains("symlinks = false"))
                && (kind("src/mode"), kind("made.sh")) == (Some("exec"), Some("exec"))
                && (kind("src/link"), kind("made-link")) == (Some("link"), Some("link"))
        }
        Form::NoModes => {
            let mode = fs::metadata(dir.join("src/mode")).map(|found| found.permissions().mode());
            said("symlinks") && other("src/link") && mode.is_ok_and(|mode| mode & 0o111 != 0)
        }
        Form::Monitor => said("fsmonitor") && other("src/stat"),
        Form::Exclude => dir.join("src/notes").exists(),
        Form::SplitIndex => fs::read_dir(admin).is_ok_and(|mut found| {
            let is_shared = |name: &str| name.starts_with("sharedindex.");
            found.any(|entry| {
                entry.is_ok_and(|entry| entry.file_name().to_str().is_some_and(is_shared))
            })
        }),
        _ => said("told") && dir.join("told").exists(),
    }
}

/// Checks the files of the directory, including those that git passes over.
fn on_disk(form: Form, dir: &Path) -> bool {
    let has = |name: &str| dir.join(name).exists();
    match form {
        Form::Nested => dir.join("tools/inner/.git/refs/stash").exists(),
        Form::OwnWorktree => dir.join("beside/.git").is_file(),
        Form::HiddenWorktree => dir.join("target/beside/.git").is_file(),
        Form::HiddenClone => dir.join("target/code/.git").is_dir(),
        Form::TypeChange => dir.join("kind/file").is_dir() && dir.join("kind/dir").is_file(),
        Form::Symlink => dir.join("to-a-directory").is_symlink(),
        Form::Untracked => dir.join("new/empty").exists(),
        Form::Ignored => dir.join(".env").exists(),
        Form::GitCase => has(".GIT/notes"),
        Form::GitmodulesLink => dir.join(".gitmodules").is_symlink() && has("elsewhere"),
        Form::OnlyLooks => has("fixtures/empty/.git") && has("src/.git/config"),
        Form::BrokenClone => has("broken/.git/objects") && !has("broken/.git/HEAD"),
        Form::BareInside => has("bare.git/HEAD"),
        Form::Separate => has("sep/only-here") && has("apart/refs/heads/main"),
        Form::SeparateHidden => has("target/sep/only-here") && has("target/apart/refs/heads/main"),
        Form::DeepHidden => has("target/a/b/c/d/e/.git/refs/heads/main"),
        Form::CopiedLink => has("copied/.git") && has("copied/file"),
        Form::TooDeep => crate::support::deep::read(dir).is_some(),
        Form::HiddenInNested => has("outer/build/inner/.git/refs/heads/main"),
        _ => {
            fs::metadata(dir.join("src/.gitignore")).is_ok_and(|found| found.file_type().is_fifo())
        }
    }
}

/// Checks a sandbox in which git does not work.
fn ruined(form: Form, dir: &Path) -> bool {
    let link = dir.join(".git");
    let shared = dir.join("../../repo.git/config");
    let config = fs::read_to_string(shared).unwrap_or_default();
    dir.join("ruined").exists()
        && match form {
            Form::StaleLocks => LOCKS
                .iter()
                .all(|name| SandboxState::admin(dir).join(name).exists()),
            Form::BareConfig => config.contains("/nowhere"),
            Form::Garbage => config.starts_with("[[["),
            Form::AdminGone => link.is_file() && !SandboxState::admin(dir).exists(),
            Form::LinkElsewhere => link.is_symlink(),
            Form::AdminPipes => PIPES.iter().any(|name| {
                let found = fs::metadata(SandboxState::admin(dir).join(name));
                found.is_ok_and(|found| found.file_type().is_fifo())
            }),
            _ => link.join("refs/heads/main").exists(),
        }
}
