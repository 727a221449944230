//! A malformed commit that only the reflog names holds up nothing, and what can be read of it is saved.

use std::fs;

use horde_supervisor::domain::ids::Incarnation;
use horde_supervisor::domain::nuke::only_left_behind;
use horde_supervisor::ports::repo::Repo as _;

use crate::support::city::{City, permit, toast};
use crate::support::git::{commit_all, git, rev, write};

/// An agent made a commit with plumbing whose tree has an odd mode, and reset to the commit before.
#[test]
fn malformed_commit_in_the_reflog_holds_up_nothing_and_is_saved_as_far_as_it_can_be_read() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "src/a.txt", "work\n");
    let head = commit_all(&sandbox, "work");
    let literally = |kind: &str, text: &[u8]| {
        let file = city.root().join("object");
        fs::write(&file, text).unwrap();
        let file = file.display().to_string();
        let made = ["hash-object", "-w", "--literally", "-t", kind, &file];
        git(&sandbox, &made).trim().to_owned()
    };
    let raw = |id: &str| -> Vec<u8> {
        let two = |at: usize| u8::from_str_radix(&id[at..at + 2], 16).unwrap();
        (0..id.len()).step_by(2).map(two).collect()
    };
    let blob = literally("blob", b"only here\n");
    let whole = [b"100644 in\0", &raw(&blob)[..]].concat();
    let whole = literally("tree", &whole);
    let absent = "5".repeat(40);
    let tree = [
        b"abc f\0",
        &raw(&blob)[..],
        b"40000 dir\0",
        &raw(&whole),
        b"100644 gone\0",
        &raw(&absent),
    ];
    let tree_text = tree.concat();
    let tree = literally("tree", &tree_text);
    let by = "A <a@x> 1 +0000";
    let text = format!("tree {tree}\nparent {head}\nauthor {by}\ncommitter {by}\n\nodd\n");
    let odd = literally("commit", text.as_bytes());
    let log = rev(&sandbox, "HEAD");
    let file = git(&sandbox, &["rev-parse", "--git-path", "logs/HEAD"]);
    let file = sandbox.join(file.trim());
    let mut lines = fs::read_to_string(&file).unwrap();
    lines.push_str(&format!(
        "{log} {odd} {by}\tcommit: odd\n{odd} {log} {by}\treset: moving\n"
    ));
    fs::write(&file, lines).unwrap();

    let facts = city.facts(&sandbox);
    assert!(facts.is_committed() && !facts.is_clean(), "{facts:?}");
    let told = facts
        .special
        .iter()
        .any(|it| it.contains(&odd[..10]) && it.contains("damaged"));
    assert!(told, "{facts:?}");
    assert!(!only_left_behind(&facts), "the head is in no remote yet");
    let record = city
        .repo
        .salvage(&sandbox, &toast(), Incarnation(1))
        .unwrap();
    let meta = record.refs.iter().find(|it| it.ends_with("/meta")).unwrap();
    let ours = city.repo.repo_dir();
    let manifest = git(
        ours,
        &["cat-file", "blob", &format!("{meta}:manifest.json")],
    );
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let damaged = &manifest["damaged"][0];
    assert_eq!(damaged["commit"], odd);
    assert_eq!(damaged["unread"], serde_json::json!([absent]));
    let kept = |nth: usize, kind: &str, id: &str| {
        let saved = &damaged["bytes"][nth];
        assert_eq!((&saved["kind"], &saved["id"]), (&kind.into(), &id.into()));
        let blob = saved["blob"].as_str().unwrap().to_owned();
        let size = git(ours, &["cat-file", "-s", &format!("{meta}:blobs/{blob}")]);
        size.trim().parse::<usize>().unwrap()
    };
    assert_eq!(kept(0, "commit", &odd), text.len());
    assert_eq!(kept(1, "tree", &tree), tree_text.len());
    for path in [format!("blobs/{blob}"), format!("trees/{whole}/in")] {
        let text = git(ours, &["cat-file", "blob", &format!("{meta}:{path}")]);
        assert_eq!(text, "only here\n", "{path}");
    }
    let to = city.root().join("back");
    city.repo.restore(&record, &to).unwrap();
    let permit = permit(&city.spec(1), &city.facts(&sandbox));
    city.repo
        .discard_sandbox(&permit, &city.trash(), &|| Ok(()))
        .unwrap();
}
