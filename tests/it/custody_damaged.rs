//! A malformed commit that only the reflog names holds up nothing, and what can be read of it is saved.

use std::fs;
use std::path::Path;

use horde_supervisor::domain::ids::{Incarnation, Oid};
use horde_supervisor::ports::repo::Repo as _;

use crate::support::city::{City, permit, toast};
use crate::support::git::{commit_all, git, write};

/// A malformed commit, and its parts.
struct Odd {
    commit: String,
    text: String,
    /// A tree with an odd mode, a whole directory, and a file that is nowhere.
    tree: String,
    tree_text: Vec<u8>,
    whole: String,
    blob: String,
    absent: String,
}

/// Writes an object as plumbing does, whatever it says.
fn literally(city: &City, sandbox: &Path, kind: &str, text: &[u8]) -> String {
    let file = city.root().join("object");
    fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    let made = ["hash-object", "-w", "--literally", "-t", kind, &file];
    git(sandbox, &made).trim().to_owned()
}

/// Makes a commit with plumbing, and writes it into the reflog as if HEAD had been at it.
fn leave_behind(city: &City, sandbox: &Path, head: &str, parent: &str) -> Odd {
    let literally = |kind: &str, text: &[u8]| literally(city, sandbox, kind, text);
    let raw = |id: &str| -> Vec<u8> {
        let two = |at: usize| u8::from_str_radix(&id[at..at + 2], 16).unwrap();
        (0..id.len()).step_by(2).map(two).collect()
    };
    let blob = literally("blob", b"only here\n");
    let whole = literally("tree", &[b"100644 in\0", &raw(&blob)[..]].concat());
    let absent = "5".repeat(40);
    let (odd, dir, gone) = (raw(&blob), raw(&whole), raw(&absent));
    let tree = [
        &b"abc f\0"[..],
        &odd,
        b"40000 dir\0",
        &dir,
        b"100644 gone\0",
        &gone,
    ];
    let tree_text = tree.concat();
    let tree = literally("tree", &tree_text);
    let by = "A <a@x> 1 +0000";
    let text = format!("tree {tree}\nparent {parent}\nauthor {by}\ncommitter {by}\n\nodd\n");
    let commit = literally("commit", text.as_bytes());
    let log = git(sandbox, &["rev-parse", "--git-path", "logs/HEAD"]);
    let log = sandbox.join(log.trim());
    let mut lines = fs::read_to_string(&log).unwrap();
    lines.push_str(&format!("{head} {commit} {by}\tcommit: odd\n"));
    lines.push_str(&format!("{commit} {head} {by}\treset: moving\n"));
    fs::write(&log, lines).unwrap();
    Odd {
        commit,
        text,
        tree,
        tree_text,
        whole,
        blob,
        absent,
    }
}

/// An agent made a commit with plumbing whose tree has an odd mode, and reset to the commit before.
#[test]
fn malformed_commit_in_the_reflog_is_saved_as_far_as_it_can_be_read() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "src/a.txt", "work\n");
    let head = commit_all(&sandbox, "work");
    let odd = leave_behind(&city, &sandbox, &head, &head);
    let facts = city.facts(&sandbox);
    assert!(facts.is_committed() && !facts.is_clean(), "{facts:?}");
    let is_named = |line: &str| line.contains(&odd.commit[..10]) && line.contains("damaged");
    assert!(facts.other_work.iter().any(|it| is_named(it)), "{facts:?}");
    let record = city.repo.salvage(&sandbox, &toast(), Incarnation(1));
    let record = record.unwrap();
    let commit = Oid::new(odd.commit.clone()).unwrap();
    assert_eq!(record.work.damaged, [commit], "people are told of the loss");
    let again = city.repo.salvage(&sandbox, &toast(), Incarnation(1));
    assert_eq!(again.unwrap().work, record.work);
    let meta = record.refs.iter().find(|it| it.ends_with("/meta")).unwrap();
    let read = |what: &str, path: &str| {
        let name = format!("{meta}:{path}");
        git(city.repo.repo_dir(), &["cat-file", what, &name])
    };
    let manifest = read("blob", "manifest.json");
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let damaged = &manifest["damaged"][0];
    assert_eq!(damaged["commit"], odd.commit);
    assert_eq!(damaged["unread"], serde_json::json!([odd.absent]));
    let kept = [
        ("commit", &odd.commit, odd.text.len()),
        ("tree", &odd.tree, odd.tree_text.len()),
    ];
    let bytes = damaged["bytes"].as_array().unwrap();
    for (kind, id, size) in kept {
        let saved = bytes.iter().find(|it| it["id"] == **id).unwrap();
        assert_eq!(saved["kind"], kind);
        let blob = format!("blobs/{}", saved["blob"].as_str().unwrap());
        assert_eq!(read("-s", &blob).trim(), size.to_string());
    }
    for path in [
        format!("blobs/{}", odd.blob),
        format!("trees/{}/in", odd.whole),
    ] {
        assert_eq!(read("blob", &path).trim(), "only here", "{path}");
    }
    let to = city.root().join("back");
    city.repo.restore(&record, &to).unwrap();
    let permit = permit(&city.spec(1), &city.facts(&sandbox));
    let discarded = city
        .repo
        .discard_sandbox(&permit, &city.trash(), &|| Ok(()));
    discarded.unwrap();
}

/// A pull moves a branch by many commits with one line of its reflog: those before a damaged tip were lost.
#[test]
fn ancestors_of_a_damaged_commit_are_saved_beyond_a_damaged_parent() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "src/a.txt", "work\n");
    let head = commit_all(&sandbox, "work");
    let make = |parent: &str, text: &str| {
        let tree = git(&sandbox, &["rev-parse", "HEAD^{tree}"]);
        let made = ["commit-tree", "-p", parent, "-m", text, tree.trim()];
        git(&sandbox, &made).trim().to_owned()
    };
    let first = make(&head, "first");
    let second = make(&first, "second");
    let (by, absent) = ("A <a@x> 1 +0000", "6".repeat(40));
    let text = format!("tree {absent}\nparent {second}\nauthor {by}\ncommitter {by}\n\nhalf\n");
    let half = literally(&city, &sandbox, "commit", text.as_bytes());
    let odd = leave_behind(&city, &sandbox, &head, &half);
    let record = city.repo.salvage(&sandbox, &toast(), Incarnation(1));
    let record = record.unwrap();
    let meta = record.refs.iter().find(|it| it.ends_with("/meta")).unwrap();
    let saved = git(city.repo.repo_dir(), &["rev-list", meta]);
    for id in [&first, &second] {
        assert!(saved.contains(id), "{saved}");
    }
    let manifest = format!("{meta}:manifest.json");
    let manifest = git(city.repo.repo_dir(), &["cat-file", "blob", &manifest]);
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let damaged = &manifest["damaged"][0];
    let bytes = damaged["bytes"].as_array().unwrap();
    for id in [&odd.commit, &half] {
        assert!(bytes.iter().any(|saved| saved["id"] == **id), "{damaged}");
    }
    let unread = serde_json::json!([absent, odd.absent]);
    assert_eq!(damaged["unread"], unread);
}
