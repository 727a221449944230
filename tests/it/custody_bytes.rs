//! A sandbox is its bytes: whatever an agent wrote into git's configuration, attributes or index, the files on the disk
//! are measured, saved and restored. The oracle reads the disk before and after, without git.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use horde_supervisor::domain::ids::{Incarnation, Oid};
use horde_supervisor::ports::repo::{Repo, SandboxSpec};
use horde_supervisor::testing::scratch;

use crate::support::again::again;
use crate::support::city::{City, permit, toast};
use crate::support::git::{commit_all, git, rev, try_git, write};

/// Kind, mode, seconds and nanoseconds, bytes.
pub type Bytes = (&'static str, u32, (i64, i64), Vec<u8>);

/// Returns every file below a directory, except for its own `.git` and the links to the task.
pub fn disk(dir: &Path) -> BTreeMap<Vec<u8>, Bytes> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(here) = open.pop() {
        for entry in fs::read_dir(&here).unwrap() {
            let path = entry.unwrap().path();
            let name = path
                .strip_prefix(dir)
                .unwrap()
                .as_os_str()
                .as_bytes()
                .to_vec();
            let meta = fs::symlink_metadata(&path).unwrap();
            let ours = ["TASK.md", ".horde-outcome", ".orange-outcome"];
            if name == b".git" || (meta.is_symlink() && ours.iter().any(|it| it.as_bytes() == name))
            {
                continue;
            }
            let time = (meta.mtime(), meta.mtime_nsec());
            if meta.is_dir() {
                open.push(path);
            } else if meta.is_symlink() {
                let to = fs::read_link(&path)
                    .unwrap()
                    .as_os_str()
                    .as_bytes()
                    .to_vec();
                found.insert(name, ("link", 0, time, to));
            } else if meta.is_file() {
                let mode = meta.permissions().mode() & 0o7777;
                found.insert(name, ("file", mode, time, fs::read(&path).unwrap()));
            }
        }
    }
    found
}

/// Salvages the sandbox, removes it, makes ours forget unreachable objects, and restores it.
pub fn back(city: &City, sandbox: &Path) -> PathBuf {
    let to = city.root().join("restored");
    back_of(city, &city.spec(1), sandbox, &to);
    to
}

/// The same for any sandbox. The objects of theirs are moved aside; returns their new place.
pub fn back_of(city: &City, spec: &SandboxSpec, sandbox: &Path, to: &Path) -> PathBuf {
    let record = city
        .repo
        .salvage(sandbox, &spec.raider, spec.incarnation)
        .expect("salvaged");
    let facts = city.facts(sandbox);
    city.repo
        .discard_sandbox(&permit(spec, &facts), &city.trash(), &|| Ok(()))
        .expect("removed");
    fs::remove_dir_all(city.trash()).unwrap();
    let aside = city.root().join("objects.aside");
    fs::rename(city.repo.theirs().join("objects"), &aside).unwrap();
    git(city.repo.repo_dir(), &["gc", "-q", "--prune=now"]);
    fs::create_dir_all(city.repo.theirs().join("objects")).unwrap();
    city.repo.prepare().unwrap();
    city.repo.restore(&record, to).expect("restored");
    aside
}

/// Asserts that the sandbox holds work: it is not clean, and every byte comes back.
pub fn comes_back(city: &City, sandbox: &Path) -> PathBuf {
    let before = disk(sandbox);
    assert!(!city.facts(sandbox).is_clean(), "it holds work");
    let to = back(city, sandbox);
    let after = disk(&to);
    let differs = |name: &&Vec<u8>| before.get(*name) != after.get(*name);
    let all: Vec<_> = before.keys().chain(after.keys()).filter(differs).collect();
    let all: Vec<_> = all
        .iter()
        .map(|name| String::from_utf8_lossy(name))
        .collect();
    assert!(all.is_empty(), "differ: {all:?}");
    to
}

pub fn configure(sandbox: &Path, settings: &[(&str, &str)]) {
    for (key, value) in settings {
        git(sandbox, &["config", key, value]);
    }
}

/// A notebook stripper drops changes.
/// Case A01 of an adversary: a clean filter drops the bytes that an edit changed.
#[test]
fn edit_that_a_lossy_filter_drops_comes_back() {
    let city = City::with(|checkout| {
        write(checkout, ".gitattributes", "*.ipynb filter=strip\n");
        write(checkout, "nb.ipynb", "kept\n");
    });
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    configure(
        &sandbox,
        &[
            ("filter.strip.clean", "grep -v output"),
            ("filter.strip.smudge", "cat"),
        ],
    );
    write(&sandbox, "nb.ipynb", "kept\noutput 1\noutput 2\n");
    git(&sandbox, &["add", "nb.ipynb"]);
    assert_eq!(git(&sandbox, &["status", "--short"]), "");
    let facts = city.facts(&sandbox);
    assert!(facts.is_committed(), "it holds up nothing: {facts:?}");
    comes_back(&city, &sandbox);
}

/// Attributes that name no driver, and line ends that differ from the blob's.
/// Case A04 of an adversary: line ends of a file whose filter has no driver.
#[test]
fn line_ends_behind_a_filter_without_a_driver_come_back() {
    let city = City::with(|checkout| {
        write(
            checkout,
            ".gitattributes",
            "x.dat filter=none-such text eol=lf\n",
        );
        write(checkout, "x.dat", "one\ntwo\n");
    });
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    assert!(city.facts(&sandbox).is_clean());
    write(&sandbox, "x.dat", "one\r\ntwo\r\n");
    comes_back(&city, &sandbox);
}

/// Git passes over such paths and says nothing.
/// Case A08 of an adversary: untracked files below `.GIT/` on a disk that tells cases apart.
/// Case A08b of an adversary: a link named `.gitmodules`.
#[test]
fn paths_that_look_like_a_git_directory_come_back() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, ".GIT/notes", "1\n");
    write(&sandbox, "x/.Git/notes", "2\n");
    write(&sandbox, "n/.GIT/deep", "3\n");
    write(&sandbox, "git~1", "4\n");
    symlink("elsewhere", sandbox.join(".gitmodules")).unwrap();
    comes_back(&city, &sandbox);
}

/// Settings that make git blind.
/// Case A12 of an adversary: `core.ignoreCase`, and a name beside its other case.
/// Case A13 of an adversary: a change that keeps size and time, with `core.trustctime=false`.
/// Case A14 of an adversary: `core.fileMode` and `core.symlinks` are false.
#[test]
fn files_hidden_by_git_settings_come_back() {
    let blind = [
        ("core.ignoreCase", "true"),
        ("core.trustctime", "false"),
        ("core.checkStat", "minimal"),
        ("core.fileMode", "false"),
        ("core.symlinks", "false"),
        ("core.untrackedCache", "true"),
        ("core.bigFileThreshold", "1"),
        ("core.excludesFile", "/dev/null"),
        ("core.attributesFile", "/nowhere"),
        ("core.splitIndex", "true"),
        ("status.showUntrackedFiles", "no"),
    ];
    let city = City::new();
    let sandbox = city.sandbox();
    configure(&sandbox, &blind);
    write(&sandbox, "readme", "beside README\n");
    write(&sandbox, "SRC/a.txt", "beside src\n");
    let file = sandbox.join("src/b.txt");
    let time = fs::metadata(&file).unwrap().modified().unwrap();
    let size = fs::read(&file).unwrap().len();
    fs::write(&file, "x".repeat(size)).unwrap();
    fs::File::options()
        .write(true)
        .open(&file)
        .unwrap()
        .set_modified(time)
        .unwrap();
    fs::set_permissions(sandbox.join("README"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("nowhere", sandbox.join("link")).unwrap();
    comes_back(&city, &sandbox);
}

/// The user's own configuration says that links are files.
#[test]
fn links_come_back_where_the_user_has_git_write_files_for_them() {
    let dir = scratch();
    let file = dir.path().join("gitconfig");
    fs::write(&file, "[core]\n\tsymlinks = false\n").unwrap();
    let nowhere = dir.path().join("config");
    let variables = [
        ("GIT_CONFIG_GLOBAL", file.as_os_str()),
        ("XDG_CONFIG_HOME", nowhere.as_os_str()),
    ];
    if !again(
        links_come_back_where_the_user_has_git_write_files_for_them,
        &variables,
    ) {
        return;
    }
    let city = City::with(|checkout| symlink("README", checkout.join("kept")).unwrap());
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    let kept = fs::symlink_metadata(sandbox.join("kept")).unwrap();
    assert!(kept.is_symlink(), "a sandbox has the links of its commit");
    symlink("nowhere", sandbox.join("dangling")).unwrap();
    symlink("README", sandbox.join("link")).unwrap();
    // A file with the bytes of the link that the commit has.
    fs::remove_file(sandbox.join("kept")).unwrap();
    write(&sandbox, "kept", "README");
    let to = comes_back(&city, &sandbox);
    assert!(fs::symlink_metadata(to.join("kept")).unwrap().is_file());
}

/// The user's own repository has that setting.
/// Case A14b of an adversary: `core.fileMode=false` in the checkout of the user.
#[test]
fn modes_come_back_where_the_checkout_keeps_none() {
    let city = City::with(|checkout| {
        configure(
            checkout,
            &[("core.fileMode", "false"), ("core.symlinks", "false")],
        );
    });
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    for (name, mode) in [("README", 0o755), ("n", 0o600), ("exec", 0o711)] {
        write(&sandbox, name, name);
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(sandbox.join(name), mode).unwrap();
    }
    symlink("README", sandbox.join("link")).unwrap();
    comes_back(&city, &sandbox);
}

/// An index in parts.
/// Case A25 of an adversary: a split index of version 4.
/// Case A25c of an adversary: a split index with many files.
#[test]
fn split_index_comes_back() {
    for version in ["2", "4"] {
        let city = City::new();
        let sandbox = city.sandbox();
        for n in 0..300 {
            write(&sandbox, &format!("many/{n}"), format!("{n}\n"));
        }
        configure(
            &sandbox,
            &[
                ("core.splitIndex", "true"),
                ("splitIndex.maxPercentChange", "100"),
            ],
        );
        let set = format!("--index-version={version}");
        git(&sandbox, &["update-index", &set, "--split-index"]);
        git(&sandbox, &["add", "many"]);
        write(&sandbox, "README", "staged\n");
        git(&sandbox, &["add", "README"]);
        write(&sandbox, "README", "edited after\n");
        let staged = git(&sandbox, &["ls-files", "-s"]);
        let to = comes_back(&city, &sandbox);
        assert_eq!(git(&to, &["ls-files", "-s"]), staged, "version {version}");
        assert_eq!(git(&to, &["show", ":README"]), "staged");
    }
}

/// A split index without checksums has git look for files without names, for ever.
/// Case C19 of an adversary: an index in which git finds `././`.
#[test]
fn index_that_git_cannot_list_is_work_and_no_obstacle() {
    let city = City::new();
    let sandbox = city.sandbox();
    configure(
        &sandbox,
        &[("core.splitIndex", "true"), ("index.skipHash", "true")],
    );
    git(&sandbox, &["update-index", "--split-index"]);
    write(&sandbox, "README", "edited\n");
    drop(try_git(&sandbox, &["add", "README"]));
    let began = Instant::now();
    comes_back(&city, &sandbox);
    assert!(began.elapsed() < Duration::from_secs(100));
}

/// A line of one raider hides nothing of another.
/// Case A72 of an adversary: a line in the `info/exclude` that all raiders share.
#[test]
fn line_of_one_raider_hides_nothing_of_another() {
    let city = City::new();
    let (sandbox, other) = (city.sandbox(), city.spec_of("Nux", 1));
    city.repo.make_sandbox(&other).unwrap();
    let exclude = city.repo.theirs().join("info/exclude");
    let mut text = fs::read_to_string(&exclude).unwrap();
    text.push_str("notes.md\n*\n");
    fs::write(&exclude, text).unwrap();
    write(&sandbox, "notes.md", "mine\n");
    assert_eq!(city.facts(&sandbox).untracked, ["notes.md"]);
    comes_back(&city, &sandbox);
}

/// The user's own ignore rules and those of the checkout hold.
#[test]
fn rules_of_the_checkout_hold_in_every_sandbox() {
    let city = City::new();
    write(&city.checkout(), ".git/info/exclude", "*.local\n");
    let sandbox = city.sandbox();
    write(&sandbox, "x.local", "1\n");
    assert!(city.facts(&sandbox).is_clean());
}

/// A required filter whose program is gone.
/// Case A65 of an adversary: the program of a required filter is gone at the restore.
#[test]
fn sandbox_comes_back_without_the_program_of_its_filter() {
    let city = City::with(|checkout| {
        write(checkout, ".gitattributes", "*.bin filter=gone\n");
        write(checkout, "a.bin", "a\n");
    });
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    let broken = [
        ("filter.gone.clean", "/gone/tool"),
        ("filter.gone.smudge", "/gone/tool"),
        ("filter.gone.required", "true"),
    ];
    configure(&sandbox, &broken);
    write(&sandbox, "a.bin", "edited\n");
    write(&sandbox, "b.bin", "new\n");
    comes_back(&city, &sandbox);
}

/// An agent's `git gc` removes unreachable objects while salvage writes.
/// Case A45 of an adversary: `git gc --prune=now` while a salvage is written.
#[test]
fn collection_of_garbage_meanwhile_takes_nothing() {
    let city = City::new();
    let sandbox = city.sandbox();
    for n in 0..40 {
        write(&sandbox, &format!("s{n}"), format!("{n}\n"));
    }
    let theirs = city.repo.theirs().to_owned();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                drop(try_git(&theirs, &["gc", "-q", "--prune=now"]));
            }
        });
        let saved = city.repo.salvage(&sandbox, &toast(), Incarnation(1));
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        let to = city.root().join("restored");
        city.repo.restore(&saved.unwrap(), &to).unwrap();
        assert_eq!(disk(&to), disk(&sandbox));
    });
}

/// Large and sparse files are streamed; hard links stay one file; empty directories, times and modes are kept.
#[test]
fn everything_that_a_directory_holds_comes_back() {
    let city = City::new();
    let sandbox = city.sandbox();
    fs::create_dir_all(sandbox.join("empty/deep")).unwrap();
    fs::set_permissions(sandbox.join("empty"), fs::Permissions::from_mode(0o750)).unwrap();
    let sparse = fs::File::create(sandbox.join("sparse")).unwrap();
    sparse.set_len(10 << 20).unwrap();
    write(&sandbox, "one", "the same file\n");
    fs::hard_link(sandbox.join("one"), sandbox.join("two")).unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    fs::File::options()
        .write(true)
        .open(sandbox.join("one"))
        .unwrap()
        .set_modified(old)
        .unwrap();
    let odd = OsStr::from_bytes(b"odd \xff\n\"name");
    fs::write(sandbox.join(odd), "1").unwrap();
    let to = comes_back(&city, &sandbox);
    assert!(to.join("empty/deep").is_dir());
    assert_eq!(
        fs::metadata(to.join("empty")).unwrap().mode() & 0o7777,
        0o750
    );
    let inode = |name: &str| fs::metadata(to.join(name)).unwrap().ino();
    assert_eq!(inode("one"), inode("two"));
}

/// A difference that our own conversion explains is no work: it can be made again from the commit.
#[test]
fn file_that_our_own_conversion_gives_is_clean() {
    let city = City::with(|checkout| {
        let rules = "*.crlf text eol=crlf\n*.id ident\n*.lfs filter=lfs\n";
        write(checkout, ".gitattributes", rules);
        write(checkout, "a.crlf", "one\r\ntwo\r\n");
        write(checkout, "b.id", "$Id$\n");
        let sum = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
        let pointer =
            format!("version https://git-lfs.github.com/spec/v1\noid sha256:{sum}\nsize 6\n");
        write(checkout, "c.lfs", pointer);
    });
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    assert!(city.facts(&sandbox).is_clean());
    // Written again, so that only its bytes tell what it is.
    for name in ["a.crlf", "b.id"] {
        let text = fs::read(sandbox.join(name)).unwrap();
        fs::remove_file(sandbox.join(name)).unwrap();
        fs::write(sandbox.join(name), text).unwrap();
    }
    fs::write(sandbox.join("c.lfs"), "hello\n").unwrap();
    let facts = city.facts(&sandbox);
    assert!(facts.is_clean(), "{facts:?}");
    fs::write(sandbox.join("c.lfs"), "hullo\n").unwrap();
    assert_eq!(city.facts(&sandbox).dirty, ["c.lfs"]);
}

/// The pointer was committed, and its bytes were only in the sandbox.
#[test]
fn lfs_file_is_saved_unless_ours_has_it_or_a_remote_had_it() {
    let city = City::with(|checkout| write(checkout, ".gitattributes", "*.lfs filter=lfs\n"));
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    let sum = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
    let pointer = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{sum}\nsize 6\n");
    write(&sandbox, "new.lfs", pointer);
    let head = Oid::new(commit_all(&sandbox, "a picture")).unwrap();
    write(&sandbox, "new.lfs", "hello\n");
    let converted = ["bytes that git converts: new.lfs"];
    assert_eq!(city.facts(&sandbox).other_work, converted);
    let store = |repo: &Path| repo.join("lfs/objects/58/91").join(sum);
    let put = |file: &Path| {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "hello\n").unwrap();
    };
    // A push leaves the pointer there, with the file that its hook finds.
    let branch = city.spec(1).branch;
    city.repo.push_branch(&branch, &head, None).unwrap();
    assert_eq!(city.facts(&sandbox).other_work, converted);
    put(&store(city.repo.theirs()));
    assert_eq!(city.facts(&sandbox).other_work, converted);
    let kept = store(city.repo.repo_dir());
    put(&kept);
    assert!(city.facts(&sandbox).other_work.is_empty());
    fs::remove_file(&kept).unwrap();
    comes_back(&city, &sandbox);
}

/// A file that looks clean to the agent's git because its index was forged is work.
#[test]
fn forged_index_hides_no_edit() {
    let city = City::new();
    let sandbox = city.sandbox();
    let blob = rev(&sandbox, "HEAD:README");
    write(&sandbox, "README", "hello, edited\n");
    git(&sandbox, &["add", "README"]);
    let entry = format!("100644,{blob},README");
    git(&sandbox, &["update-index", "--cacheinfo", &entry]);
    git(&sandbox, &["update-index", "--assume-unchanged", "README"]);
    assert_eq!(git(&sandbox, &["status", "--short"]), "");
    assert_eq!(city.facts(&sandbox).dirty, ["README"]);
    comes_back(&city, &sandbox);
}
