//! Outcome files that came with a commit, and not from the session: after a merge, a rebase, and what git leaves in a sandbox.

use std::fs;
use std::path::Path;

use horde_supervisor::domain::ids::Oid;
use horde_supervisor::ports::repo::{Committed, Repo};

use crate::support::city::City;
use crate::support::git::{commit_all, git, rev, try_git, write};

pub const NAME: &str = ".horde-outcome";

/// Returns where a text is committed as the outcome of Toast's sandbox.
pub fn of(city: &City, text: &str) -> Committed {
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
pub fn committed(dir: &Path) {
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

/// No session of the rig could declare its outcome by such a file any more.
#[test]
fn directory_of_the_name_that_another_raider_committed_makes_no_file_the_repositorys() {
    let city = City::new();
    let sandbox = city.sandbox();
    let nux = city.spec_of("Nux", 1);
    city.repo.make_sandbox(&nux).unwrap();
    let other = nux.path;
    fs::remove_file(other.join(NAME)).unwrap();
    write(&other, &format!("{NAME}/x"), "x");
    git(&other, &["add", "-f", NAME]);
    git(&other, &["commit", "-qm", "directory"]);
    write(&sandbox, NAME, "passed");
    assert_eq!(of(&city, "passed"), Committed::No);
}
