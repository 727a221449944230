//! The salvage theorem: after any acts of a raider in its sandbox, a restore gives the same HEAD, the same index and
//! the same bytes. The seed is printed, `HORDE_SEED` repeats it, and `HORDE_CASES` sets the number of cases.

mod verdict;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::custody_bytes::{back_of, disk};
use crate::custody_salvage::roundtrip;
use horde_supervisor::ports::repo::Repo;
use horde_supervisor::testing::tier::by_tier;
use verdict::{Born, Verdict};

use crate::support::city::City;
use crate::support::git::{git, try_git};

/// A single act of a raider. If git refuses it (a commit without changes), nothing happens.
#[derive(Debug, Clone)]
enum Act {
    Write(usize, Vec<u8>),
    Delete(usize),
    Link(usize),
    Exec(usize),
    Move(usize, usize),
    Add(usize),
    AddAll,
    Promise(usize),
    Unstage(usize),
    Commit,
    Amend,
    Stash,
    Unstash,
    Detach,
    Branch,
    Back,
    ResetHard,
    Skip(usize),
    Assume(usize),
    Nest(usize),
    Merge,
    Pick,
    Rebase,
}

const PATHS: &[&str] = &[
    "README",
    "src/a.txt",
    "src/b.txt",
    "src/deep/c.txt",
    "run.sh",
    "new",
    "src/new with space",
    "odd\n\"name\"",
    "dir/inside/deep",
    "crlf.eol",
];

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let path = 0..PATHS.len();
    let content = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..12),
        "[ab]{0,3}(\r?\n[ab]{0,2}){0,3}".prop_map(String::into_bytes),
    ];
    let act = prop_oneof![
        6 => (path.clone(), content).prop_map(|(path, content)| Act::Write(path, content)),
        2 => path.clone().prop_map(Act::Delete),
        1 => path.clone().prop_map(Act::Link),
        1 => path.clone().prop_map(Act::Exec),
        1 => (path.clone(), path.clone()).prop_map(|(from, to)| Act::Move(from, to)),
        2 => path.clone().prop_map(Act::Add),
        1 => proptest::strategy::Just(Act::AddAll),
        1 => path.clone().prop_map(Act::Promise),
        1 => path.clone().prop_map(Act::Unstage),
        2 => proptest::strategy::Just(Act::Commit),
        1 => proptest::strategy::Just(Act::Amend),
        1 => proptest::strategy::Just(Act::Stash),
        1 => proptest::strategy::Just(Act::Unstash),
        1 => proptest::strategy::Just(Act::Detach),
        1 => proptest::strategy::Just(Act::Branch),
        1 => proptest::strategy::Just(Act::Back),
        1 => proptest::strategy::Just(Act::ResetHard),
        1 => path.clone().prop_map(Act::Skip),
        1 => path.clone().prop_map(Act::Assume),
        1 => path.prop_map(Act::Nest),
        1 => proptest::strategy::Just(Act::Merge),
        1 => proptest::strategy::Just(Act::Pick),
        1 => proptest::strategy::Just(Act::Rebase),
    ];
    proptest::collection::vec(act, 1..14)
}

/// Makes room for a path by removing the files in the way, as a person would.
fn make_room(dir: &Path, name: &str) {
    let path = dir.join(name);
    let parent = path.parent().expect("a parent");
    for above in parent.ancestors().take_while(|above| *above != dir) {
        if above.is_symlink() || above.is_file() {
            fs::remove_file(above).expect("removed");
        }
    }
    fs::create_dir_all(parent).expect("made");
    if path.is_symlink() || path.is_file() {
        fs::remove_file(&path).expect("removed");
    } else if path.is_dir() {
        fs::remove_dir_all(&path).expect("removed");
    }
}

fn act(dir: &Path, act: &Act) {
    let slot = dir
        .file_name()
        .and_then(|name| name.to_str())
        .expect("a slot");
    let run = |args: &[&str]| drop(try_git(dir, args));
    let on = |args: &[&str], path: &usize| {
        let args: Vec<&str> = args.iter().copied().chain(["--", PATHS[*path]]).collect();
        drop(try_git(dir, &args));
    };
    match act {
        Act::Write(path, content) => {
            make_room(dir, PATHS[*path]);
            fs::write(dir.join(PATHS[*path]), content).expect("written");
        }
        Act::Delete(path) => {
            let path = dir.join(PATHS[*path]);
            if path.is_symlink() || path.is_file() {
                fs::remove_file(path).expect("removed");
            }
        }
        Act::Link(path) => {
            make_room(dir, PATHS[*path]);
            symlink("src", dir.join(PATHS[*path])).expect("linked");
        }
        Act::Exec(path) => {
            let path = dir.join(PATHS[*path]);
            if !path.is_symlink() && path.is_file() {
                fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("set");
            }
        }
        Act::Move(from, to) => {
            if dir.join(PATHS[*from]).is_file() && from != to {
                run(&["mv", "-f", PATHS[*from], PATHS[*to]]);
            }
        }
        Act::Add(path) => on(&["add"], path),
        Act::AddAll => run(&["add", "-A"]),
        Act::Promise(path) => on(&["add", "-N"], path),
        Act::Unstage(path) => on(&["rm", "--cached", "-q"], path),
        Act::Commit => run(&["commit", "-qam", "work"]),
        Act::Amend => run(&["commit", "-q", "--amend", "-m", "again"]),
        Act::Stash => run(&["stash", "push", "-u"]),
        Act::Unstash => run(&["stash", "pop"]),
        Act::Detach => run(&["checkout", "-q", "--detach"]),
        Act::Branch => run(&["checkout", "-q", "-b", &format!("aside-{slot}")]),
        Act::Back => run(&["checkout", "-q", &format!("raider/{slot}/gt-1-1")]),
        Act::ResetHard => run(&["reset", "-q", "--hard", "HEAD~1"]),
        Act::Skip(path) => on(&["update-index", "--skip-worktree"], path),
        Act::Assume(path) => on(&["update-index", "--assume-unchanged"], path),
        Act::Nest(path) => {
            let name = format!("{}.repo", PATHS[*path].replace(['/', '\n'], "_"));
            run(&["init", "-q", "-b", "main", &name]);
            fs::write(dir.join(&name).join("inner"), "1").expect("written");
            drop(try_git(&dir.join(&name), &["add", "inner"]));
        }
        Act::Merge => run(&["merge", "-q", "refs/horde/test/other"]),
        Act::Pick => run(&["cherry-pick", "refs/horde/test/other"]),
        Act::Rebase => run(&["rebase", "-q", "refs/horde/test/other"]),
    }
}

/// Returns a source of chance from the seed that is asked for, or from a fresh one.
fn chance() -> TestRng {
    let seed = std::env::var("HORDE_SEED").ok();
    let clock = || std::time::UNIX_EPOCH.elapsed().expect("a time").as_secs();
    let seed: u64 = seed
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(clock);
    eprintln!("HORDE_SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

/// Returns the configuration for this number of cases, or for the number that is asked for.
fn config(cases: u32) -> Config {
    let asked = std::env::var("HORDE_CASES").ok();
    Config {
        cases: asked.and_then(|cases| cases.parse().ok()).unwrap_or(cases),
        max_shrink_iters: 64,
        failure_persistence: None,
        ..Config::default()
    }
}

/// Makes a city with another line of work that touches the same files.
fn city() -> City {
    let city = City::with(|checkout| {
        fs::write(checkout.join(".gitattributes"), "*.eol text eol=crlf\n").expect("written");
        fs::write(checkout.join("crlf.eol"), "one\r\ntwo\r\n").expect("written");
    });
    city.repo.prepare().expect("prepared");
    let checkout = city.checkout();
    fs::write(checkout.join("src/a.txt"), "other\n").expect("written");
    fs::write(checkout.join("new"), "other\n").expect("written");
    git(&checkout, &["rm", "-q", "run.sh"]);
    git(&checkout, &["add", "-A"]);
    git(&checkout, &["commit", "-qm", "other"]);
    let bare = city.repo.theirs().display().to_string();
    git(
        &checkout,
        &["push", "-q", &bare, "HEAD:refs/horde/test/other"],
    );
    city
}

#[test]
fn whatever_was_done_comes_back() {
    let city = city();
    let case = std::cell::Cell::new(0_u64);
    let outcome =
        TestRunner::new_with_rng(config(by_tier(8, 240)), chance()).run(&acts(), |steps| {
            case.set(case.get() + 1);
            // Each case has its own slot: names of slots are letters and digits.
            let spec = city.spec_of(&format!("Case{}", case.get()), 1);
            city.repo.make_sandbox(&spec).expect("a sandbox");
            // All worktrees share the stash.
            git(&spec.path, &["stash", "clear"]);
            for step in &steps {
                act(&spec.path, step);
            }
            roundtrip(&city, &spec.path, &format!("case-{}", case.get()));
            Ok(())
        });
    outcome.expect("the theorem holds");
}

/// Settings that change how git reads a work tree, and under which git still works.
const SETTINGS: &[(&str, &str)] = &[
    ("core.ignoreCase", "true"),
    ("core.trustctime", "false"),
    ("core.checkStat", "minimal"),
    ("core.fileMode", "false"),
    ("core.symlinks", "false"),
    ("core.autocrlf", "true"),
    ("core.autocrlf", "input"),
    ("core.eol", "crlf"),
    ("core.safecrlf", "false"),
    ("core.splitIndex", "true"),
    ("core.untrackedCache", "true"),
    ("core.precomposeUnicode", "true"),
    ("core.protectNTFS", "false"),
    ("core.preloadIndex", "false"),
    ("core.excludesFile", "/dev/null"),
    ("core.attributesFile", "/dev/null"),
    ("index.version", "4"),
    ("index.threads", "1"),
    ("status.showUntrackedFiles", "no"),
    ("merge.renormalize", "true"),
    ("filter.lossy.clean", "head -c 2"),
    ("filter.lossy.smudge", "cat"),
    ("filter.gone.clean", "/gone/tool"),
    ("filter.gone.required", "true"),
    ("diff.external", "/gone/tool"),
];

/// Lines of an agent's `.gitattributes`.
const ATTRIBUTES: &[&str] = &[
    "* text=auto",
    "* text",
    "* -text",
    "* eol=crlf",
    "*.txt eol=lf",
    "* ident",
    "README filter=lossy",
    "*.sh filter=gone",
    "* filter=none-such",
    "*.txt working-tree-encoding=UTF-16",
    "* crlf=input",
];

/// Sets the settings, and writes the lines of attributes.
fn configure(dir: &Path, settings: &[usize], lines: &[usize]) {
    for (key, value) in settings.iter().map(|n| SETTINGS[*n]) {
        git(dir, &["config", key, value]);
    }
    if lines.is_empty() {
        return;
    }
    let lines = lines.iter().map(|n| format!("{}\n", ATTRIBUTES[*n]));
    make_room(dir, ".gitattributes");
    fs::write(dir.join(".gitattributes"), lines.collect::<String>()).expect("written");
}

/// The oracle against any git configuration of an agent: a file whose bytes differ from the commit is never called
/// clean, and every byte comes back after the sandbox is gone and no ref reaches anything that was not salvaged. git is
/// not asked for any of it.
#[test]
fn whatever_git_is_told_every_byte_is_seen_and_comes_back() {
    let settings = proptest::collection::vec(0..SETTINGS.len(), 0..5);
    let lines = proptest::collection::vec(0..ATTRIBUTES.len(), 0..3);
    let city = city();
    let file = city.repo.theirs().join("config");
    let plain = fs::read(&file).expect("a configuration");
    let case = std::cell::Cell::new(0_u64);
    let run = |(settings, lines, steps): (Vec<usize>, Vec<usize>, Vec<Act>)| {
        case.set(case.get() + 1);
        let name = format!("Told{}", case.get());
        let spec = city.spec_of(&name, 1);
        fs::write(&file, &plain).expect("written");
        city.repo.make_sandbox(&spec).expect("a sandbox");
        let own = city.repo.theirs().join("worktrees").join(&name);
        let ours = city.repo.repo_dir();
        let born = Born::of(ours, spec.base.as_str(), disk(&spec.path));
        configure(&spec.path, &settings, &lines);
        steps.iter().for_each(|step| act(&spec.path, step));
        let head = try_git(&spec.path, &["rev-parse", "--verify", "-q", "HEAD"]);
        let head = String::from_utf8_lossy(&head.stdout).trim().to_owned();
        let before = disk(&spec.path);
        let index = fs::read(own.join("index")).ok();
        let facts = city.facts(&spec.path);
        let again = city.facts(&spec.path);
        assert_eq!(facts, again, "it is measured the same twice");
        let verdict = Verdict::of(ours, &head, &before, &born);
        let sparse = steps.iter().any(|step| matches!(step, Act::Skip(_)));
        let unseen = verdict.unseen(&facts, sparse);
        assert!(unseen.is_empty(), "called clean: {unseen:?}: {facts:?}");
        let to = city.root().join("restored").join(&name);
        let objects = back_of(&city, &spec, &spec.path, &to);
        assert_eq!(disk(&to), before, "bytes differ");
        let link = fs::read_to_string(to.join(".git")).expect("a link");
        let admin = Path::new(link.trim().trim_start_matches("gitdir: "));
        let restored = fs::read(admin.join("index")).ok();
        assert_eq!(restored, index, "the index differs");
        // The next case needs the branches of theirs.
        fs::remove_dir_all(city.repo.theirs().join("objects")).expect("removed");
        fs::rename(objects, city.repo.theirs().join("objects")).expect("put back");
        Ok(())
    };
    let cases = (settings, lines, acts());
    let outcome = TestRunner::new_with_rng(config(by_tier(6, 240)), chance()).run(&cases, run);
    outcome.expect("the theorem holds");
}

/// The oracle refutes facts that leave out files of the disk.
#[test]
fn facts_that_call_an_edit_clean_are_refuted() {
    let city = city();
    let spec = city.spec_of("Toast", 1);
    city.repo.make_sandbox(&spec).expect("a sandbox");
    let head = git(&spec.path, &["rev-parse", "HEAD"]);
    let ours = city.repo.repo_dir();
    let born = Born::of(ours, &head, disk(&spec.path));
    let unseen = |facts: &_| {
        let now = disk(&spec.path);
        Verdict::of(ours, &head, &now, &born).unseen(facts, false)
    };
    let clean = city.facts(&spec.path);
    assert_eq!(unseen(&clean), [""; 0]);
    fs::write(spec.path.join("README"), "hallo\n").expect("written");
    fs::write(spec.path.join("crlf.eol"), "one\ntwo\r\n").expect("written");
    fs::write(spec.path.join("new"), "").expect("written");
    fs::remove_file(spec.path.join("src/b.txt")).expect("removed");
    let exec = fs::Permissions::from_mode(0o755);
    fs::set_permissions(spec.path.join("src/a.txt"), exec).expect("set");
    let all = ["README", "crlf.eol", "new", "src/a.txt", "src/b.txt"];
    assert_eq!(unseen(&clean), all);
    assert_eq!(unseen(&city.facts(&spec.path)), [""; 0]);
}
