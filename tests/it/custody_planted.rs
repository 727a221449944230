//! Malformed entries that agents plant in the list of stash entries, which all sandboxes of a rig share: they stop no other
//! raider.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use horde_supervisor::ports::repo::Repo;
use horde_supervisor::testing::eventually;

use crate::support::city::City;
use crate::support::git::{commit_all, git, rev, write};

/// More than are looked at in one go.
const MANY: usize = 130;

/// A rig with the sandboxes of Toast and Nux.
fn two(city: &City) -> [std::path::PathBuf; 2] {
    let (toast, nux) = (city.spec(1), city.spec_of("Nux", 1));
    for spec in [&toast, &nux] {
        city.repo.make_sandbox(spec).unwrap();
    }
    [toast.path, nux.path]
}

/// Writes an object as plumbing does, whatever it says.
fn plant(sandbox: &Path, kind: &str, bytes: &[u8]) -> String {
    let file = sandbox.join("../../planted");
    fs::write(&file, bytes).unwrap();
    let file = file.display().to_string();
    let made = git(
        sandbox,
        &["hash-object", "-t", kind, "-w", "--literally", &file],
    );
    fs::remove_file(&file).unwrap();
    made
}

/// A commit with this tree and these parents, whatever they are.
fn odd_commit(sandbox: &Path, tree: &str, parents: &[&str]) -> String {
    let parents: String = parents.iter().map(|id| format!("parent {id}\n")).collect();
    let by = "A <a@example.invalid> 1 +0000";
    let text = format!("tree {tree}\n{parents}author {by}\ncommitter {by}\n\nodd\n");
    plant(sandbox, "commit", text.as_bytes())
}

/// The bytes of an id.
fn raw(id: &str) -> Vec<u8> {
    let digits = (0..id.len()).step_by(2);
    digits
        .map(|at| u8::from_str_radix(&id[at..at + 2], 16).unwrap())
        .collect()
}

/// Puts an entry into the list, as an agent can with an editor.
fn list(city: &City, id: &str, message: &str) {
    let log = city.repo.theirs().join("logs/refs/stash");
    let mut text = fs::read_to_string(&log).unwrap_or_default();
    let zero = "0".repeat(id.len());
    text += &format!("{zero} {id} A <a@example.invalid> 1 +0000\t{message}\n");
    fs::write(log, text).unwrap();
}

/// A stash entry that its raider makes. Returns its commit.
fn stash(sandbox: &Path, text: &str) -> String {
    write(sandbox, "README", text);
    git(sandbox, &["stash", "push", "-q"]);
    rev(sandbox, "stash@{0}")
}

/// Returns the objects that the pins of stash entries hold.
fn pinned(city: &City) -> BTreeSet<String> {
    let list = ["for-each-ref", "--format=%(parent)", "refs/horde/stash"];
    let told = git(city.repo.repo_dir(), &list);
    told.split_whitespace().map(str::to_owned).collect()
}

/// Toast is finished with a commit of which nothing is wrong, and ours can be asked and filled.
fn toast_lands(city: &City, sandbox: &Path) {
    write(sandbox, "mine", "mine\n");
    let head = commit_all(sandbox, "mine");
    let facts = city.facts(sandbox);
    assert_eq!((facts.ahead, facts.head.as_str()), (1, &*head));
    assert!(facts.is_committed(), "{facts:?}");
    write(&city.checkout(), "more", "more\n");
    commit_all(&city.checkout(), "more");
    git(&city.checkout(), &["push", "-q", "origin", "main"]);
    city.repo.fetch_target("main").unwrap();
    git(
        city.repo.repo_dir(),
        &["rev-list", "--objects", "--quiet", "--all"],
    );
}

/// It was pinned as a parent of a commit, and git walked no ref of ours from then on.
#[test]
fn object_that_is_no_commit_in_the_list_of_stash_entries_is_kept_and_stops_nothing() {
    let city = City::new();
    let [sandbox, nux] = two(&city);
    let entry = stash(&nux, "of Nux\n");
    let blob = plant(&nux, "blob", b"only there\n");
    git(&nux, &["tag", "-a", "-m", "only there", "tag", &blob]);
    let tag = rev(&nux, "tag");
    let tree = rev(&nux, "HEAD^{tree}");
    for id in [&tree, &blob, &tag] {
        let made = ["update-ref", "--create-reflog", "refs/stash", id];
        git(&nux, &made);
        list(&city, id, &format!("On {}: x", city.spec(1).branch));
    }
    city.repo.progress(&nux).unwrap();
    assert_eq!(city.facts(&sandbox).stashes, Vec::<String>::new());
    let held = pinned(&city);
    assert!(held.contains(&entry), "{held:?}");
    for id in [&tree, &blob, &tag] {
        assert!(!held.contains(id), "{held:?}");
        git(city.repo.repo_dir(), &["cat-file", "-e", id]);
    }
    toast_lands(&city, &sandbox);
}

/// None of what git says of these was known, so that no entry was pinned, and the raider that one names was not judged.
#[test]
fn entry_that_git_cannot_follow_stops_neither_other_entries_nor_the_raider_that_it_names() {
    let city = City::new();
    let [sandbox, nux] = two(&city);
    let (tree, head) = (rev(&nux, "HEAD^{tree}"), rev(&nux, "HEAD"));
    let blob = rev(&nux, "HEAD:README");
    let own = plant(&nux, "blob", b"of no commit\n");
    let link = [&b"100644 a\0"[..], &raw(&head)].concat();
    let named = b"x\nfatal: write error: No space left on device\n";
    let named = [&b"100644 "[..], named, &b"\0"[..], &raw(&head)].concat();
    let (link, named) = (plant(&nux, "tree", &link), plant(&nux, "tree", &named));
    let bad = [
        odd_commit(&nux, &tree, &[&blob]),
        odd_commit(&nux, &tree, &[&tree]),
        odd_commit(&nux, &own, &[&head]),
        odd_commit(&nux, &head, &[&head]),
        odd_commit(&nux, &link, &[&head]),
        odd_commit(&nux, &named, &[&head]),
        odd_commit(&nux, &"12".repeat(20), &[&head]),
        plant(&nux, "commit", b"no commit at all\n"),
    ];
    let entry = stash(&nux, "of Nux\n");
    for (n, id) in bad.iter().enumerate() {
        let message = match n % 2 {
            0 => format!("On {}: x", city.spec(1).branch),
            _ => "x".to_owned(),
        };
        list(&city, id, &message);
    }
    city.repo.progress(&nux).unwrap();
    let held = pinned(&city);
    assert!(held.contains(&entry), "{held:?}");
    assert!(bad.iter().all(|id| !held.contains(id)), "{held:?}");
    write(&sandbox, "mine", "mine\n");
    let head = commit_all(&sandbox, "mine");
    let facts = city.facts(&sandbox);
    assert_eq!((facts.ahead, facts.head.as_str()), (1, &*head));
    let is_told = |id: &String| facts.other_work.iter().any(|line| line.contains(&id[..8]));
    assert!(bad.iter().step_by(2).all(is_told), "{facts:?}");
    let facts = city.facts(&nux);
    assert!(
        !facts.other_work.iter().any(|line| line.contains("damaged")),
        "{facts:?}"
    );
}

/// It was of no sandbox for ever: of a note that cannot be read it cannot be told what its raider made.
#[test]
fn entry_that_comes_to_light_while_a_note_cannot_be_read_finds_its_owner_later() {
    let city = City::new();
    let [sandbox, _] = two(&city);
    git(&sandbox, &["checkout", "-q", "--detach"]);
    write(&sandbox, "more", "more\n");
    commit_all(&sandbox, "more");
    let entry = stash(&sandbox, "of Toast\n");
    let note = city.repo.repo_dir().join("horde/notes/Nux.json");
    let text = fs::read(&note).unwrap();
    fs::write(&note, "no note").unwrap();
    city.repo.progress(&sandbox).unwrap();
    assert_eq!(city.facts(&sandbox).stashes, Vec::<String>::new());
    fs::write(&note, text).unwrap();
    let list = [
        "for-each-ref",
        "--format=%(parent)",
        "refs/horde/stash/horde/Toast/",
    ];
    // A look that left something is repeated after a pause.
    eventually("the entry is pinned as Toast's", || {
        city.repo.progress(&sandbox).unwrap();
        let own = git(city.repo.repo_dir(), &list);
        own.contains(&entry).then_some(())
    });
    assert_eq!(city.facts(&sandbox).stashes.len(), 1);
}

/// An agent can make more of them than are looked at in one go.
#[test]
#[ignore = "long tier: large lists"]
fn many_entries_that_git_cannot_follow_hide_none_for_long() {
    let city = City::new();
    let [sandbox, nux] = two(&city);
    let (tree, blob) = (rev(&nux, "HEAD^{tree}"), rev(&nux, "HEAD:README"));
    let entry = stash(&sandbox, "of Toast\n");
    let by = "A <a@example.invalid>";
    let texts = (0..MANY).map(|n| {
        format!(
            "tree {tree}\nparent {blob}\nauthor {by} {n} +0000\ncommitter {by} {n} +0000\n\nx\n"
        )
    });
    for id in texts.map(|text| plant(&nux, "commit", text.as_bytes())) {
        list(&city, &id, "x");
    }
    // A look that left some is repeated after a pause.
    eventually("the entry is pinned", || {
        city.repo.progress(&nux).unwrap();
        pinned(&city).contains(&entry).then_some(())
    });
}

/// A list of 200 MB had stopped every measurement of the rig, and one of 20,000 lines had cost minutes.
#[test]
#[ignore = "long tier: large lists"]
fn list_of_stash_entries_of_any_length_stops_nothing() {
    let city = City::new();
    let [toast, nux] = two(&city);
    let zero = "0".repeat(40);
    let line =
        |n: usize| format!("{zero} {n:040x} A <a@example.invalid> 1 +0000\tWIP on main: x\n");
    let log = city.repo.theirs().join("logs/refs/stash");
    fs::create_dir_all(log.parent().unwrap()).unwrap();
    let many: String = (1..20_000).map(line).collect();
    fs::write(&log, many).unwrap();
    let entry = stash(&toast, "mine\n");
    city.repo.progress(&nux).unwrap();
    let pinned = ["rev-list", "--glob=refs/horde/stash"];
    let pinned = git(city.repo.repo_dir(), &pinned);
    assert!(pinned.contains(&entry), "{pinned}");
    // Its entry is far from the end when the list is looked at.
    let late = stash(&toast, "late\n");
    let by = format!("{late} {} <", city.spec(1).raider);
    let listed = fs::read_to_string(&log).unwrap();
    fs::write(&log, listed.replace(&format!("{late} Ada <"), &by)).unwrap();
    let large: String = (1..350_000).map(line).collect();
    let mut list = fs::OpenOptions::new().append(true).open(&log).unwrap();
    list.write_all(large.as_bytes()).unwrap();
    city.repo.progress(&nux).unwrap();
    let pinned = ["rev-list", "--glob=refs/horde/stash"];
    let pinned = git(city.repo.repo_dir(), &pinned);
    assert!(pinned.contains(&late), "{pinned}");
    let facts = city.facts(&nux);
    assert!(facts.is_clean(), "{facts:?}");
    assert!(!log.exists());
    assert!(city.repo.theirs().join("logs-refs-stash.aside").exists());
    let own = city.facts(&toast);
    assert!(!own.is_clean(), "its entry is kept: {own:?}");
    git(&nux, &["stash", "list"]);
}
