//! Which commits are fit to land.

use std::path::PathBuf;

use super::super::testing::Rigged;
use super::*;

/// A commit of this text.
fn write(rigged: &Rigged, kind: &str, text: impl Into<Vec<u8>>) -> Oid {
    let hash = ["hash-object", "--literally", "-w", "--stdin", "-t", kind];
    let made = rigged.repo.git().args(hash).stdin(text.into());
    oid(&made.run().unwrap().text()).unwrap()
}

fn raw_id(id: &str) -> Vec<u8> {
    let digits = id
        .as_bytes()
        .chunks(2)
        .map(|two| std::str::from_utf8(two).unwrap());
    digits
        .map(|two| u8::from_str_radix(two, 16).unwrap())
        .collect()
}

/// A tree with an entry of this name, in a directory.
fn tree_with(rigged: &Rigged, name: &[u8]) -> Oid {
    let blob = write(rigged, "blob", "x\n");
    let inner = [b"100644 ", name, b"\0", &raw_id(blob.as_str())].concat();
    let inner = write(rigged, "tree", inner);
    let outer = [b"40000 dir\0", &raw_id(inner.as_str())[..]].concat();
    write(rigged, "tree", outer)
}

const BY: &str = "Ada <ada@example.invalid> 1 +0000";

fn commit_on(rigged: &Rigged, tree: &str, parent: &Oid, author: &str) -> Oid {
    let head = format!("tree {tree}\nparent {parent}\nauthor {author}\ncommitter {BY}\n");
    write(rigged, "commit", format!("{head}\nwork\n"))
}

/// Both ways of looking say the same.
fn told(rigged: &Rigged, head: &Oid) -> Option<String> {
    let old = [rigged.base.clone()];
    let by_git = by_git(&rigged.repo, head, &old).unwrap();
    let known = |id: &Oid| is_known(&rigged.repo, id, &old).unwrap();
    assert!(!by_git.iter().any(|(id, _)| known(id)), "{by_git:?}");
    let fits = check(&rigged.repo, &PathBuf::from("/none"), head, "main");
    match fits {
        Ok(()) => {
            let new = |(_, fault): &(Oid, Fault)| !is_old(&rigged.repo, fault, &old).unwrap();
            assert!(!by_git.iter().any(new), "{by_git:?}");
            None
        }
        Err(RepoError::Rejected(why)) => {
            let (_, fault) = &by_git[0];
            assert!(why.ends_with(&fault.why), "{why} and {fault:?}");
            Some(why)
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn entry_that_some_file_system_takes_for_a_repository_is_refused() {
    let rigged = Rigged::new();
    rigged
        .repo
        .git()
        .args(["fetch", "-q", "origin"])
        .run()
        .unwrap();
    let bad: [&[u8]; 12] = [
        b".git",
        b".GiT",
        b"git~1",
        b"GIT~1",
        b".git . ",
        b".git::$INDEX_ALLOCATION",
        b".git:x",
        b".git\\x",
        b"x\\.git",
        ".g\u{200c}it".as_bytes(),
        b".",
        b"..",
    ];
    let own = rigged.tree(&rigged.base);
    for name in bad {
        let tree = tree_with(&rigged, name);
        let odd = commit_on(&rigged, tree.as_str(), &rigged.base, BY);
        let why = told(&rigged, &odd).unwrap();
        assert!(why.starts_with(odd.short()), "{why}");
        // And where a later commit takes it away.
        let after = commit_on(&rigged, &own, &odd, BY);
        assert!(told(&rigged, &after).unwrap().starts_with(odd.short()));
    }
    // git goes down no such tree.
    let nameless = tree_faults(&[&b"100644 \0"[..], &[1; 20]].concat(), 20);
    assert!(nameless[0].why.contains("without a name"), "{nameless:?}");
    for name in [
        &b".gitignore"[..],
        b".git~1",
        b"git",
        b".gitx",
        b"git~2",
        b"..x",
        b"a\\b",
    ] {
        let tree = tree_with(&rigged, name);
        let fine = commit_on(&rigged, tree.as_str(), &rigged.base, BY);
        assert_eq!(told(&rigged, &fine), None, "{}", bytes::lossy(name));
    }
}

#[test]
fn commit_whose_author_is_garbled_is_refused() {
    let rigged = Rigged::new();
    rigged
        .repo
        .git()
        .args(["fetch", "-q", "origin"])
        .run()
        .unwrap();
    let tree = rigged.tree(&rigged.base);
    let commit = |author| commit_on(&rigged, &tree, &rigged.base, author);
    for author in [
        "",
        "Ada",
        "<a@b> 1 +0000",
        "Ada<a@b> 1 +0000",
        "A>da <a@b> 1 +0000",
        "Ada <a@b 1 +0000",
        "Ada <a@b>1 +0000",
        "Ada <a@b> x +0000",
        "Ada <a@b> 01 +0000",
        "Ada <a@b> 1",
        "Ada <a@b> 1 0000",
        "Ada <a@b> 99999999999999999999 +0000",
        "Ada <a<@b> 1 +0000",
    ] {
        let why = told(&rigged, &commit(author));
        assert!(why.is_some_and(|why| why.contains("author")), "{author}");
    }
    for author in [BY, "A B <> 0 -1200", "\u{fe}. <a b@c> 1700000000 +0545"] {
        assert_eq!(told(&rigged, &commit(author)), None, "{author}");
    }
    let head = format!("tree {tree}\nparent {}\nauthor {BY}\n\nx\n", rigged.base);
    let why = told(&rigged, &write(&rigged, "commit", head));
    assert!(why.is_some_and(|why| why.contains("committer")));
}

/// It is on the remote already, and whoever changes a file beside it did not make it.
#[test]
fn fault_that_the_project_has_already_is_no_matter_of_a_branch() {
    let rigged = Rigged::new();
    let odd = tree_with(&rigged, b"GIT~1");
    let base = commit_on(&rigged, odd.as_str(), &rigged.base, "no author");
    rigged.foreign_push("main", &base);
    rigged
        .repo
        .git()
        .args(["fetch", "-q", "origin"])
        .run()
        .unwrap();
    // In the same directory, and elsewhere.
    let listed = rigged.repo.git().args(["ls-tree", "-r", odd.as_str()]);
    let blob = listed.run().unwrap().text();
    let blob = blob.split([' ', '\t']).nth(2).unwrap().to_owned();
    let entry = |name: &[u8]| [b"100644 ", name, b"\0", &raw_id(&blob)].concat();
    let inner = [entry(b"GIT~1"), entry(b"a")].concat();
    let inner = write(&rigged, "tree", inner);
    let outer = [b"40000 dir\0", &raw_id(inner.as_str())[..]].concat();
    let beside = write(&rigged, "tree", outer);
    let beside = commit_on(&rigged, beside.as_str(), &base, BY);
    let fits = |head: &Oid| check(&rigged.repo, &PathBuf::from("/none"), head, "main");
    assert_eq!(fits(&base), Ok(()));
    assert_eq!(fits(&beside), Ok(()));
    let new = tree_with(&rigged, b"..");
    let new = commit_on(&rigged, new.as_str(), &beside, BY);
    assert!(matches!(fits(&new), Err(RepoError::Rejected(_))));
}
