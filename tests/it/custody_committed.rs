//! Outcome files that came with a commit, and not from the session: after a merge, a rebase, and what git leaves in a sandbox.

use std::fs;
use std::path::Path;

use horde_supervisor::domain::ids::Oid;
use horde_supervisor::ports::repo::{Committed, Repo};

use crate::support::city::City;
use crate::support::git::{commit_all, git, rev, try_git, write};

const NAME: &str = ".horde-outcome";

/// Returns where a text is committed as the outcome of Toast's sandbox.
fn of(city: &City, text: &str) -> Committed {
    let sandbox = city.root().join(&city.spec(1).path);
    let bytes = Some(text.as_bytes());
    city.repo.committed(&sandbox, NAME, bytes).unwrap()
}

/// Pushes an outcome file to the target, as another raider did that committed its own.
fn target_gets(city: &City, text: &str) {
    write(&city.checkout(), NAME, text);
    git(&city.checkout(), &["add", "-f", NAME]);
    git(&city.checkout(), &["commit", "-qm", "outcome"]);
    git(&city.checkout(), &["push", "-q", "origin", "main"]);
    city.repo.fetch_target("main").unwrap();
}

/// The supervisor itself advises `git rm --cached`, which leaves the file of the repository in the sandbox.
#[test]
fn outcome_file_that_the_session_takes_out_of_git_is_no_word_of_the_session() {
    let city = City::with(|checkout| write(checkout, NAME, "passed"));
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    git(&sandbox, &["rm", "-q", "--cached", NAME]);
    assert_eq!(of(&city, "passed"), Committed::Before);
    git(&sandbox, &["commit", "-qm", "not ours"]);
    assert_eq!(of(&city, "passed"), Committed::Known);
    assert_eq!(of(&city, "passed anew"), Committed::Known);
    // A text that the branch itself has committed since.
    git(&sandbox, &["commit", "-q", "--allow-empty", "-m", "more"]);
    write(&sandbox, NAME, "stuck");
    git(&sandbox, &["add", "-f", NAME]);
    git(&sandbox, &["commit", "-qm", "stuck"]);
    assert_eq!(of(&city, "stuck"), Committed::OnBranch);
    git(&sandbox, &["rm", "-q", "--cached", NAME]);
    git(&sandbox, &["commit", "-qm", "taken out"]);
    assert_eq!(of(&city, "stuck"), Committed::Known);
}

#[test]
fn outcome_file_of_the_target_stays_the_repositorys_after_a_merge_and_a_rebase() {
    for bring in [
        &["merge", "-q", "--no-edit", "origin/main"][..],
        &["rebase", "-q", "origin/main"],
    ] {
        let city = City::new();
        let sandbox = city.sandbox();
        write(&sandbox, "README", "by the agent\n");
        commit_all(&sandbox, "work");
        target_gets(&city, "passed");
        git(&sandbox, &["fetch", "-q", "origin"]);
        git(&sandbox, bring);
        assert_eq!(fs::read_to_string(sandbox.join(NAME)).unwrap(), "passed");
        assert_eq!(of(&city, "passed"), Committed::Before, "{bring:?}");
        let any = city.repo.committed(&sandbox, NAME, None).unwrap();
        assert_eq!(any, Committed::Before);
        // The target moves on; the agent knows it before the supervisor.
        write(&city.checkout(), "README", "later\n");
        git(&city.checkout(), &["commit", "-qam", "later"]);
        git(&city.checkout(), &["push", "-q", "origin", "main"]);
        git(&sandbox, &["fetch", "-q", "origin"]);
        assert_eq!(of(&city, "passed"), Committed::Before, "{bring:?}");
        city.repo.fetch_target("main").unwrap();
        assert_eq!(of(&city, "passed"), Committed::Before, "{bring:?}");
        write(&sandbox, NAME, "stuck");
        git(&sandbox, &["commit", "-qam", "stuck"]);
        assert_eq!(of(&city, "stuck"), Committed::OnBranch);
    }
}

/// HEAD, index and the history of the branch forget it, and the file stays.
#[test]
fn outcome_file_that_git_has_brought_and_forgotten_is_not_taken_for_the_sessions() {
    let forget: [&[&[&str]]; 4] = [
        &[
            &["merge", "-q", "--no-edit", "origin/side"],
            &["reset", "-q", "HEAD~1"],
        ],
        &[&["cherry-pick", "-n", "origin/side"], &["reset", "-q"]],
        &[
            &["checkout", "-q", "origin/side", "--", NAME],
            &["reset", "-q"],
        ],
        &[
            &["merge", "-q", "--no-edit", "origin/side"],
            &["checkout", "-q", "--orphan", "new"],
            &["rm", "-rq", "--cached", "."],
        ],
    ];
    for commands in forget {
        let city = City::new();
        let sandbox = city.sandbox();
        write(&sandbox, "README", "by the agent\n");
        commit_all(&sandbox, "work");
        let checkout = city.checkout();
        git(&checkout, &["checkout", "-q", "-b", "side"]);
        write(&checkout, NAME, "passed");
        git(&checkout, &["add", "-f", NAME]);
        git(&checkout, &["commit", "-qm", "outcome"]);
        git(&checkout, &["push", "-q", "origin", "side"]);
        git(&sandbox, &["fetch", "-q", "origin"]);
        for command in commands {
            git(&sandbox, command);
        }
        assert_eq!(fs::read_to_string(sandbox.join(NAME)).unwrap(), "passed");
        assert_eq!(of(&city, "passed"), Committed::Known, "{commands:?}");
        // With conversions, git gives a file a text that it does not have.
        assert_eq!(of(&city, "passed anew"), Committed::Known, "{commands:?}");
    }
}

/// The advice to take it out of git would remove it from the target with the landing.
#[test]
fn outcome_file_that_the_agent_fetched_before_the_supervisor_is_the_repositorys() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&city.checkout(), NAME, "passed");
    git(&city.checkout(), &["add", "-f", NAME]);
    git(&city.checkout(), &["commit", "-qm", "outcome"]);
    git(&city.checkout(), &["push", "-q", "origin", "main"]);
    git(&sandbox, &["fetch", "-q", "origin", "main"]);
    git(&sandbox, &["rebase", "-q", "FETCH_HEAD"]);
    assert_eq!(of(&city, "passed"), Committed::Before);
}

/// While git writes files, index and HEAD are the old ones.
#[test]
fn outcome_file_that_a_merge_is_bringing_is_no_word_of_the_session() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "by the agent\n");
    commit_all(&sandbox, "work");
    write(&city.checkout(), "README", "by a person\n");
    target_gets(&city, "passed");
    git(&city.checkout(), &["commit", "-qam", "readme"]);
    git(&city.checkout(), &["push", "-q", "origin", "main"]);
    git(&sandbox, &["fetch", "-q", "origin"]);
    let merge = try_git(&sandbox, &["merge", "-q", "--no-edit", "origin/main"]);
    assert!(!merge.status.success(), "a conflict");
    assert_eq!(of(&city, "passed"), Committed::Before);
    assert_eq!(of(&city, "stuck"), Committed::Known);
    git(&sandbox, &["merge", "--abort"]);
    let lock = git(
        &sandbox,
        &[
            "rev-parse",
            "--path-format=absolute",
            "--git-path",
            "index.lock",
        ],
    );
    fs::write(&lock, "").unwrap();
    assert_eq!(of(&city, "stuck"), Committed::Unsettled);
    let any = || city.repo.committed(&sandbox, NAME, None).unwrap();
    assert_eq!(any(), Committed::Unsettled);
    // A git that was killed leaves its lock for ever.
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    fs::File::open(&lock).unwrap().set_modified(past).unwrap();
    assert_eq!(of(&city, "stuck"), Committed::Known);
    assert_eq!(any(), Committed::No);
}

#[test]
fn line_ends_and_bytes_that_are_no_text_do_not_hide_a_committed_outcome() {
    let city = City::with(|checkout| {
        write(checkout, ".gitattributes", format!("{NAME} eol=crlf\n"));
        write(checkout, NAME, b"passed\n\xff\n");
    });
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    let bytes = fs::read(sandbox.join(NAME)).unwrap();
    assert_eq!(bytes, b"passed\r\n\xff\r\n");
    let found = city.repo.committed(&sandbox, NAME, Some(&bytes)).unwrap();
    assert_eq!(found, Committed::Before);
}

#[test]
fn keyword_that_git_fills_in_does_not_hide_a_committed_outcome() {
    let city = City::with(|checkout| {
        write(checkout, ".gitattributes", format!("{NAME} ident\n"));
        write(checkout, NAME, "passed $Id$ and $Id: open\n");
    });
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    let bytes = fs::read(sandbox.join(NAME)).unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(text.starts_with("passed $Id: "), "{text}");
    let found = city.repo.committed(&sandbox, NAME, Some(&bytes)).unwrap();
    assert_eq!(found, Committed::Before);
}

#[test]
fn encoding_of_a_file_does_not_hide_a_committed_outcome() {
    let attributes = format!("{NAME} text working-tree-encoding=UTF-16LE-BOM\n");
    let city = City::with(|checkout| {
        write(checkout, ".gitattributes", attributes);
        write(checkout, NAME, wide("\u{feff}passed\n"));
    });
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    let found = || {
        let bytes = fs::read(sandbox.join(NAME)).unwrap();
        city.repo.committed(&sandbox, NAME, Some(&bytes)).unwrap()
    };
    assert_eq!(
        fs::read(sandbox.join(NAME)).unwrap(),
        wide("\u{feff}passed\n")
    );
    assert_eq!(found(), Committed::Before);
    write(&sandbox, NAME, wide("\u{feff}stuck\n"));
    assert_eq!(found(), Committed::Known);
    git(&sandbox, &["add", NAME]);
    assert_eq!(found(), Committed::Known, "staged");
    git(&sandbox, &["commit", "-qm", "stuck"]);
    assert_eq!(found(), Committed::OnBranch);
    git(&sandbox, &["rm", "-q", "--cached", NAME]);
    git(&sandbox, &["commit", "-qm", "taken out"]);
    assert_eq!(found(), Committed::Known);
    // The list is gone, and the file may be from before.
    git(&sandbox, &["rm", "-q", ".gitattributes"]);
    git(&sandbox, &["commit", "-qm", "no attributes"]);
    assert_eq!(found(), Committed::Known);
}

/// An act in a city with a sandbox, and whether it brings a file of the name to git.
type Act = (&'static str, fn(&City, &Path), bool);

/// Asserts what a text counts for after each of these acts, in a city of its own.
fn assert_named(acts: &[Act]) {
    for (what, act, is_named) in acts {
        let city = City::new();
        let sandbox = city.sandbox();
        act(&city, &sandbox);
        let expected = match is_named {
            true => Committed::Known,
            false => Committed::No,
        };
        assert_eq!(of(&city, "passed anew"), expected, "{what}");
    }
}

/// Filters, encodings, line ends and keywords are configured in a dozen places, and give a file bytes that git does not have.
/// git writes a file of this name only from an entry of this name.
#[test]
fn file_of_a_name_that_a_history_has_is_not_taken_for_the_sessions() {
    assert_named(&[
        ("nothing", |_, _| (), false),
        (
            "attributes without an entry",
            |_, sandbox| {
                let list = format!("{NAME} filter=rot working-tree-encoding=UTF-16\n");
                write(sandbox, ".gitattributes", list);
                commit_all(sandbox, "attributes");
            },
            false,
        ),
        (
            "a branch of the remote",
            |city, sandbox| {
                git(&city.checkout(), &["checkout", "-q", "-b", "side"]);
                committed(&city.checkout());
                git(&city.checkout(), &["push", "-q", "origin", "side"]);
                git(sandbox, &["fetch", "-q", "origin"]);
            },
            true,
        ),
        (
            "a commit that only the reflog names",
            |_, sandbox| {
                committed(sandbox);
                git(sandbox, &["reset", "-q", "--hard", "HEAD~1"]);
            },
            true,
        ),
        (
            "a second parent that a merge left out",
            |_, sandbox| {
                git(sandbox, &["checkout", "-q", "--detach"]);
                committed(sandbox);
                let side = rev(sandbox, "HEAD");
                git(sandbox, &["checkout", "-q", "raider/Toast/gt-1-1"]);
                git(sandbox, &["merge", "-q", "-s", "ours", "--no-edit", &side]);
            },
            true,
        ),
    ]);
}

#[test]
fn file_of_a_name_that_a_stash_or_an_unknown_history_has_is_not_taken_for_the_sessions() {
    assert_named(&[
        (
            "a stash entry with the link",
            |_, sandbox| {
                write(sandbox, "README", "one");
                git(sandbox, &["stash", "push", "-q", "--all"]);
            },
            false,
        ),
        (
            "an older stash entry",
            |_, sandbox| {
                drop(fs::remove_file(sandbox.join(NAME)));
                write(sandbox, NAME, "stuck");
                for text in ["one", "two"] {
                    write(sandbox, "README", text);
                    git(sandbox, &["stash", "push", "-q", "--all"]);
                }
            },
            true,
        ),
        (
            "a history of which only a part was fetched",
            |city, sandbox| {
                let fork = city.root().join("fork");
                git(&city.root(), &["clone", "-q", "checkout", "fork"]);
                for text in ["one", "two"] {
                    write(&fork, "README", text);
                    commit_all(&fork, text);
                }
                let url = format!("file://{}", fork.display());
                let branch = "main:refs/remotes/fork/main";
                git(sandbox, &["fetch", "-q", "--depth=1", &url, branch]);
            },
            true,
        ),
    ]);
}

/// No ref and no reflog of the session has them.
#[test]
fn file_of_a_name_that_only_a_file_of_git_names_is_not_taken_for_the_sessions() {
    assert_named(&[
        (
            "a commit that was fetched without a ref",
            |city, sandbox| {
                git(&city.root(), &["clone", "-q", "checkout", "fork"]);
                let fork = city.root().join("fork");
                committed(&fork);
                let url = fork.display().to_string();
                git(sandbox, &["fetch", "-q", &url, "HEAD"]);
            },
            true,
        ),
        (
            "a detached HEAD of another raider",
            |city, _| {
                let spec = city.spec_of("Nux", 2);
                city.repo.make_sandbox(&spec).unwrap();
                git(&spec.path, &["checkout", "-q", "--detach"]);
                committed(&spec.path);
                let entry = git(&spec.path, &["rev-parse", "--absolute-git-dir"]);
                fs::remove_dir_all(Path::new(&entry).join("logs")).unwrap();
            },
            true,
        ),
        (
            "a ref of one worktree",
            |_, sandbox| {
                let tree = tree_with_outcome(sandbox);
                let commit = git(sandbox, &["commit-tree", "-m", "x", &tree]);
                git(sandbox, &["update-ref", "refs/worktree/mine", &commit]);
            },
            true,
        ),
        (
            "a tag that names a tree",
            |_, sandbox| {
                let tree = tree_with_outcome(sandbox);
                git(sandbox, &["tag", "light", &tree]);
            },
            true,
        ),
        (
            "an annotated tag that names a tree",
            |_, sandbox| {
                let tree = tree_with_outcome(sandbox);
                git(sandbox, &["tag", "-a", "-m", "x", "heavy", &tree]);
            },
            true,
        ),
        (
            "a tag that names another tree",
            |_, sandbox| {
                git(sandbox, &["tag", "light", "HEAD^{tree}"]);
            },
            false,
        ),
    ]);
}

/// A search goes on from what the last one has looked at.
#[test]
fn file_of_a_name_that_git_gets_after_a_search_is_found_by_the_next() {
    let city = City::new();
    let sandbox = city.sandbox();
    assert_eq!(of(&city, "passed anew"), Committed::No);
    write(&sandbox, "README", "work\n");
    commit_all(&sandbox, "work");
    assert_eq!(of(&city, "passed anew"), Committed::No);
    committed(&sandbox);
    git(&sandbox, &["reset", "-q", "--hard", "HEAD~1"]);
    assert_eq!(of(&city, "passed anew"), Committed::Known);
    write(&sandbox, "README", "more\n");
    commit_all(&sandbox, "more");
    assert_eq!(of(&city, "passed anew"), Committed::Known);
}

/// Writes a tree with an outcome file, and returns its id.
fn tree_with_outcome(sandbox: &Path) -> String {
    write(sandbox, "passed", "passed");
    let blob = git(sandbox, &["hash-object", "-w", "passed"]);
    fs::remove_file(sandbox.join("passed")).unwrap();
    let index = sandbox.join("../tree-index");
    let with = |args: &[&str]| {
        let mut git = std::process::Command::new("git");
        let git = git.current_dir(sandbox).env("GIT_INDEX_FILE", &index);
        let made = git.args(args).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        String::from_utf8(made.stdout).unwrap().trim().to_owned()
    };
    with(&[
        "update-index",
        "--add",
        "--cacheinfo",
        &format!("100644,{blob},{NAME}"),
    ]);
    let tree = with(&["write-tree"]);
    fs::remove_file(index).unwrap();
    tree
}

/// A salvage has what sessions wrote, and no git writes files from it.
#[test]
fn outcome_in_a_salvage_is_no_file_of_git() {
    let city = City::new();
    let sandbox = city.sandbox();
    fs::remove_file(sandbox.join(NAME)).unwrap();
    write(&sandbox, NAME, "passed before");
    write(&sandbox, "work.txt", "work");
    let record = city.salvage(&sandbox);
    assert_eq!(
        fs::read_to_string(city.restored(&record).join("work.txt")).unwrap(),
        "work"
    );
    assert_eq!(of(&city, "passed anew"), Committed::No);
    // Only the intent to add it: it is in no tree.
    git(&sandbox, &["add", "-N", "-f", NAME]);
    assert_eq!(of(&city, "passed anew"), Committed::No);
}

/// Commits an outcome file.
fn committed(dir: &Path) {
    drop(fs::remove_file(dir.join(NAME)));
    write(dir, NAME, "passed");
    git(dir, &["add", "-f", NAME]);
    git(dir, &["commit", "-qm", "outcome"]);
}

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// A rework starts on the branch of the raider before.
#[test]
fn outcome_file_of_the_branch_that_work_starts_on_is_the_repositorys() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, NAME, "passed");
    fs::remove_file(sandbox.join(NAME)).unwrap();
    write(&sandbox, NAME, "passed");
    git(&sandbox, &["add", "-f", NAME]);
    git(&sandbox, &["commit", "-qm", "work with an outcome"]);
    let head = Oid::new(rev(&sandbox, "HEAD")).unwrap();
    city.repo
        .push_branch(&city.spec(1).branch, &head, None)
        .unwrap();
    assert_eq!(of(&city, "passed"), Committed::OnBranch);
    let mut next = city.spec_of("Nux", 2);
    next.base = head;
    city.repo.make_sandbox(&next).unwrap();
    let has = |bytes: &[u8]| city.repo.committed(&next.path, NAME, Some(bytes));
    assert_eq!(has(b"passed"), Ok(Committed::Before));
}
