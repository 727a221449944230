//! Tests of the commits that are fit to land.

mod task_links;

use std::path::PathBuf;

use super::super::testing::Rigged;
use super::*;
use crate::testing::tier::{by_tier, sampled};

/// Writes an object of this text.
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

/// Writes a tree with an entry of this name, in a directory.
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

/// Returns the fault, and checks that both implementations agree.
fn fault_text(rigged: &Rigged, head: &Oid) -> Option<String> {
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

/// Makes a rig that has fetched its remote.
fn fetched() -> Rigged {
    let rigged = Rigged::new();
    let fetch = rigged.repo.git().args(["fetch", "-q", "origin"]);
    fetch.run().unwrap();
    rigged
}

#[test]
fn entry_that_some_file_system_takes_for_a_repository_is_refused() {
    let rigged = fetched();
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
        let why = fault_text(&rigged, &odd).unwrap();
        assert!(why.starts_with(odd.short()), "{why}");
        // Also if a later commit removes the entry.
        let after = commit_on(&rigged, &own, &odd, BY);
        assert!(
            fault_text(&rigged, &after)
                .unwrap()
                .starts_with(odd.short())
        );
    }
    // git does not walk such a tree.
    let nameless = tree_faults(&[&b"100644 \0"[..], &[1; 20]].concat(), &rigged.base);
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
        assert_eq!(fault_text(&rigged, &fine), None, "{}", bytes::lossy(name));
    }
}

#[test]
fn commit_whose_author_is_garbled_is_refused() {
    let rigged = fetched();
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
        let why = fault_text(&rigged, &commit(author));
        assert!(why.is_some_and(|why| why.contains("author")), "{author}");
    }
    for author in [BY, "A B <> 0 -1200", "\u{fe}. <a b@c> 1700000000 +0545"] {
        assert_eq!(fault_text(&rigged, &commit(author)), None, "{author}");
    }
    let head = format!("tree {tree}\nparent {}\nauthor {BY}\n\nx\n", rigged.base);
    let why = fault_text(&rigged, &write(&rigged, "commit", head));
    assert!(why.is_some_and(|why| why.contains("committer")));
}

/// The fault is on the remote already, and a commit that changes a file beside it did not cause it.
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

/// An agent had landed a tree that no remote with `fsckObjects` takes, by entries that the project has elsewhere.
#[test]
fn entry_of_the_project_excuses_no_fault_of_the_tree_that_has_it() {
    let rigged = Rigged::new();
    let blob = |text: &str| raw_id(write(&rigged, "blob", text).as_str());
    let (one, other) = (blob("1\n"), blob("2\n"));
    let entry = |mode: &str, name: &str, id: &[u8]| {
        [mode.as_bytes(), b" ", name.as_bytes(), b"\0", id].concat()
    };
    let plain = [
        entry("100644", ".gitmodules", &one),
        entry("100644", "a", &other),
        entry("100644", "b", &one),
    ];
    let plain = write(&rigged, "tree", plain.concat());
    let base = commit_on(&rigged, plain.as_str(), &rigged.base, BY);
    rigged.foreign_push("main", &base);
    let fetched = rigged.repo.git().args(["fetch", "-q", "origin"]).run();
    fetched.unwrap();
    let forms = [
        vec![entry("0100644", "a", &other), entry("100644", "b", &one)],
        vec![entry("100644", "b", &one), entry("100644", "b", &one)],
        vec![entry("100644", "b", &one), entry("100644", "b", &other)],
        vec![entry("120000", ".gitmodules", &one)],
    ];
    for (nth, form) in forms.into_iter().enumerate() {
        let tree = write(&rigged, "tree", form.concat());
        let head = commit_on(&rigged, tree.as_str(), &base, BY);
        let fits = check(&rigged.repo, &PathBuf::from("/none"), &head, "main");
        assert!(
            matches!(fits, Err(RepoError::Rejected(_))),
            "{nth}: {fits:?}"
        );
    }
}

/// Pushes to a remote that checks objects. Returns true if it accepts.
fn is_taken(rigged: &Rigged, head: &Oid) -> bool {
    let url = rigged.repo.push_url().unwrap();
    let check = "--receive-pack=git -c receive.fsckObjects=true receive-pack";
    let push = rigged.repo.git().args(["push", "-q", check, &url]);
    let pushed = push.arg(format!("{head}:refs/heads/{head}")).output();
    pushed.unwrap().ok()
}

/// Makes trees with plumbing, odd ones and others.
fn trees(rigged: &Rigged) -> Vec<Vec<u8>> {
    let blob = write(rigged, "blob", "x\n");
    let dir = [b"100644 a\0", &raw_id(blob.as_str())[..]].concat();
    let dir = write(rigged, "tree", dir);
    let entry = |mode: &str, name: &[u8], id: &str| {
        [mode.as_bytes(), b" ", name, b"\0", &raw_id(id)].concat()
    };
    let file = |name: &[u8]| entry("100644", name, blob.as_str());
    let modules = |name: &[u8], text: &str| {
        let blob = write(rigged, "blob", text);
        entry("100644", name, blob.as_str())
    };
    let option = "[submodule \"x\"]\n\turl = -x\n";
    let sound = "[submodule \"x\"]\n\turl = https://a/b\n\tpath = x\n";
    vec![
        file(b"a"),
        [file(b"b"), file(b"a")].concat(),
        [file(b"a"), file(b"a")].concat(),
        [file(b"a"), entry("40000", b"a", dir.as_str())].concat(),
        [file(b"a"), file(b"a.b"), entry("40000", b"a", dir.as_str())].concat(),
        [entry("40000", b"a", dir.as_str()), file(b"a.b")].concat(),
        [file(b"a.b"), entry("40000", b"a", dir.as_str())].concat(),
        entry("040000", b"a", dir.as_str()),
        entry("160000", b"a", &"0".repeat(40)),
        entry("160000", b"a", &"1".repeat(40)),
        entry("100664", b"a", blob.as_str()),
        file(&[b'a'; 4096]),
        file(&[b'a'; 4097]),
        file(".g\u{200c}it".as_bytes()),
        file(b"GIT~1 x"),
        file(b"a:.git"),
        modules(b".gitmodules", sound),
        modules(b".gitmodules", option),
        modules(b".gitmodules", "[submodule \"..\"]\n\turl = https://a/b\n"),
        modules(b".gitmodules", "[submodule \"x\"]\n\tupdate = !x\n"),
        modules(b".gitmodules", "[submodule \"x\"]\n\tpath = -x\n"),
        modules(b".gitmodules", "no [list\n"),
        modules(b".GitModules", option),
        modules(b"GITMOD~1", option),
        modules(b"gi7eba~1", option),
        modules(".gitmod\u{200c}ules".as_bytes(), option),
        modules(b"gitmodules", option),
        entry("120000", b".gitmodules", blob.as_str()),
        entry("120000", b".gitattributes", blob.as_str()),
        entry("40000", b".gitmodules", dir.as_str()),
        modules(b".gitattributes", &"a".repeat(3_000)),
        modules(b".gitattributes", "* text\n"),
    ]
}

/// Names of `.git`, and others like it: a byte that is no UTF-8 ends a name.
const DOT_GIT: &[&[u8]] = &[
    b".git\xff",
    b".GIT\xffabc",
    b".git\xed\xa0\x80",
    b".git\xef\xbf\xbe",
    b".git\xef\xbf\xbfx",
    b".git\xf0\x9f\xbf\xbe",
    b".git\xc0\xaf",
    b".git\xc3\xa9",
    b".g\xe2\x80\x8cit\xc0",
    b".gi\xfft",
    b"git\xff",
    b"git~1\xff",
    b".git\x01",
];

/// Names of `.gitmodules`, and others like it.
const MODULES: &[&[u8]] = &[
    b"a\\.gitmodules",
    b"a\\b\\.GITMODULES . ",
    b"a\\gitmod~1",
    b"a\\~1000000",
    b"a\\.gitmodules\\x",
    b".gitmodules\\x",
    b".gitmodules:x",
    b".gitmodules. :x",
    b".gitmodules\xff",
    b".gitmodules.x",
    b"~1000000",
    b"~1000000. ",
    b"~10000000",
    b"~0000000",
    b"g~100000",
    b"G~999999",
    b"gi~10000",
    b"gi7~1000",
    b"GI7EB~10",
    b"gi7eba~1",
    b"gi7eba~0",
    b"gi7ebax1",
    b"gi7d29~1",
    b"gitmod~4",
    b"gitmod~5",
    b"gitmod~1x",
    b"gitmod~1 .",
    b"gx~10000",
];

/// Names of `.gitattributes`, and others like it.
const ATTRIBUTES: &[&[u8]] = &[
    b"~1000000",
    b"g~100000",
    b"gi7d29~1",
    b"gi7d~123",
    b"gi7e~123",
    b"gitatt~2",
    b"GITATT~9",
    b"a\\.gitattributes",
    b".gitattributes\xff",
    b".GITATTRIBUTES",
    b".gitattributes ...",
];

/// Makes trees whose names are compared by the rules of file systems.
fn folded_names(rigged: &Rigged) -> Vec<Vec<u8>> {
    let long = "a".repeat(3_000);
    let option = "[submodule \"x\"]\n\turl = -x\n";
    let mut trees = Vec::new();
    for (names, text) in [(DOT_GIT, "x\n"), (MODULES, option), (ATTRIBUTES, &long)] {
        let blob = write(rigged, "blob", text);
        let with = |name: &&[u8]| [b"100644 ", *name, b"\0", &raw_id(blob.as_str())].concat();
        trees.extend(names.iter().map(with));
    }
    trees
}

/// Makes trees of entries whose mode, kind and object do not go together.
fn kinds(rigged: &Rigged) -> Vec<Vec<u8>> {
    let blob = write(rigged, "blob", "x\n");
    let entry = |mode: &str, name: &[u8], id: &Oid| {
        [mode.as_bytes(), b" ", name, b"\0", &raw_id(id.as_str())].concat()
    };
    let dir = write(rigged, "tree", entry("100644", b"a", &blob));
    let odd = write(rigged, "tree", entry("100644", b".git", &blob));
    let none = Oid::new("3".repeat(40)).unwrap();
    vec![
        entry("40755", b"s", &odd),
        entry("40755", b"s", &dir),
        [entry("100644", b"s.c", &blob), entry("40755", b"s", &dir)].concat(),
        [entry("40755", b"s", &dir), entry("100644", b"s.c", &blob)].concat(),
        entry("100644", b"f", &dir),
        entry("120000", b"f", &dir),
        entry("40000", b"s", &blob),
        entry("160000", b"f", &blob),
        entry("100000", b"f", &blob),
        entry("140000", b"f", &none),
        entry("0", b"f", &none),
        entry("1", b"f", &none),
        entry("777777100644", b"f", &blob),
        entry("777777040000", b"s", &odd),
        entry("abc", b"f", &blob),
        entry("", b"f", &blob),
        entry("160000", b".gitmodules", &none),
        entry("160000", b".gitattributes", &none),
        entry("160000", b"a\\.gitmodules", &none),
        entry("40000", b".gitattributes", &dir),
        entry("120000", b"a\\.gitmodules", &blob),
        entry("120000", b"a\\.gitattributes", &blob),
        entry("120000", b".gitignore", &blob),
        entry("120000", b".mailmap", &blob),
    ]
}

#[test]
fn commit_is_refused_exactly_where_a_remote_that_checks_refuses_it() {
    let rigged = Rigged::new();
    let fetch = ["fetch", "-q", "origin"];
    rigged.repo.git().args(fetch).run().unwrap();
    let on = |tree: Vec<u8>| {
        let tree = write(&rigged, "tree", tree);
        commit_on(&rigged, tree.as_str(), &rigged.base, BY)
    };
    let own = rigged.tree(&rigged.base);
    let by = |author: &str| commit_on(&rigged, &own, &rigged.base, author);
    let head = format!("tree {own}\nparent {}\nauthor {BY}\n", rigged.base);
    let commits = [
        format!("{head}committer {BY}\n\na\0b\n"),
        format!("{head}author {BY}\ncommitter {BY}\n\nx\n"),
        format!("{head}committer {BY}\nfoo bar\n\nx\n"),
        format!("{head}committer {BY}\n"),
        format!("{head}committer {BY}"),
        format!("{head}committer {BY}\n\nx\n").replace(&own, &own.to_ascii_uppercase()),
        format!("{head}committer {BY}\n\nx\n").replace(
            rigged.base.as_str(),
            &rigged.base.as_str().to_ascii_uppercase(),
        ),
    ];
    let authors = [
        "Ada <a>  1 +0000",
        "Ada <a>\t1 +0000",
        "Ada <a> 1\t+0000",
        "Ada <a> 1  +0000",
    ];
    let mut odd = trees(&rigged);
    odd.extend(folded_names(&rigged));
    odd.extend(kinds(&rigged));
    let mut heads: Vec<Oid> = odd.into_iter().map(on).collect();
    heads.extend(commits.map(|text| write(&rigged, "commit", text)));
    heads.extend(authors.map(by));
    assert_eq!(heads.len(), 119);
    let (mut refused, mut differ) = (0, Vec::new());
    for head in sampled(&heads, 3) {
        let fits = check(&rigged.repo, &PathBuf::from("/none"), head, "main");
        let taken = is_taken(&rigged, head);
        if fits.is_ok() != taken {
            let show = ["cat-file", "-p", &format!("{head}^{{tree}}")];
            let shown = rigged.repo.git().args(show).output().unwrap().stdout;
            differ.push(format!(
                "taken: {taken}, {fits:?}, {}",
                bytes::lossy(&shown)
            ));
        }
        refused += usize::from(fits.is_err());
        // The same of many commits, which git follows.
        if let Ok(faults) = by_git(&rigged.repo, head, std::slice::from_ref(&rigged.base))
            && !faults.iter().any(|(_, fault)| fault.asked.is_some())
            && faults.is_empty() != taken
        {
            differ.push(format!("taken: {taken}, by git: {faults:?}"));
        }
    }
    assert!(differ.is_empty(), "{differ:#?}");
    assert!(refused > by_tier(10, 60), "{refused}");
}

/// The forge cannot merge such a head, and its raider would be gone by then.
#[test]
fn head_without_common_history_is_refused_where_the_target_has_any() {
    let rigged = Rigged::new();
    let fetch = ["fetch", "-q", "origin"];
    rigged.repo.git().args(fetch).run().unwrap();
    let tree = rigged.tree(&rigged.base);
    let head = format!("tree {tree}\nauthor {BY}\ncommitter {BY}\n\nalone\n");
    let alone = write(&rigged, "commit", head);
    let after = commit_on(&rigged, &tree, &alone, BY);
    let fits = |head: &Oid, target| check(&rigged.repo, &PathBuf::from("/none"), head, target);
    for head in [&alone, &after] {
        let Err(RepoError::Rejected(why)) = fits(head, "main") else {
            panic!("{:?}", fits(head, "main"));
        };
        assert!(why.contains("shares no history with main"), "{why}");
    }
    assert_eq!(fits(&alone, "new"), Ok(()), "no commit is on that");
    // A merge commit brings both roots.
    let both = [
        "commit-tree",
        "-m",
        "both",
        "-p",
        rigged.base.as_str(),
        "-p",
        alone.as_str(),
        &tree,
    ];
    let both = oid(&rigged.repo.git().args(both).run().unwrap().text()).unwrap();
    assert_eq!(fits(&both, "main"), Ok(()));
}
