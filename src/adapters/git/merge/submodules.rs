//! Tests of submodules in a merge: in each case the forge's result is that of `git merge-tree`, in a repository that has
//! none of the submodule's commits.

use git2::FileMode;

use super::lab::{Files, Lab, files};
use super::merge_in;
use super::tests::request;
use crate::adapters::git::command::Git;
use crate::domain::merge::{LandStyle, MergeOutcome};

const ONE: char = '1';
const TWO: char = '2';
const THREE: char = '3';

/// An entry at the path of the submodule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Nothing,
    /// A submodule at a commit.
    Commit(char),
    /// A regular file.
    File,
    /// A directory with a file in it.
    Directory,
    Link,
}

use At::{Commit, Directory, File, Link, Nothing};

/// The result of plain git.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// A clean merge, with this at the path.
    Clean(At),
    Conflict,
}

use Wanted::{Clean, Conflict};

/// The entry at the base, on one side, on the other side, and the result. Each is tested in both directions.
const CASES: &[(At, At, At, Wanted)] = &[
    // Its commit is changed on one side, on both, on both to the same.
    (Commit(ONE), Commit(TWO), Commit(ONE), Clean(Commit(TWO))),
    (Commit(ONE), Commit(TWO), Commit(THREE), Conflict),
    (Commit(ONE), Commit(TWO), Commit(TWO), Clean(Commit(TWO))),
    // It is added.
    (Nothing, Commit(ONE), Nothing, Clean(Commit(ONE))),
    (Nothing, Commit(ONE), Commit(ONE), Clean(Commit(ONE))),
    (Nothing, Commit(ONE), Commit(TWO), Conflict),
    (Nothing, Commit(ONE), File, Conflict),
    (Nothing, Commit(ONE), Directory, Conflict),
    // It is removed.
    (Commit(ONE), Nothing, Commit(ONE), Clean(Nothing)),
    (Commit(ONE), Nothing, Nothing, Clean(Nothing)),
    (Commit(ONE), Nothing, Commit(TWO), Conflict),
    // It is replaced, or replaces something.
    (Commit(ONE), File, Commit(ONE), Clean(File)),
    (Commit(ONE), File, Commit(TWO), Conflict),
    (Commit(ONE), Link, Commit(ONE), Clean(Link)),
    (Commit(ONE), Directory, Commit(ONE), Clean(Directory)),
    (File, Commit(ONE), File, Clean(Commit(ONE))),
    (File, Commit(ONE), Nothing, Conflict),
    (Directory, Commit(ONE), Directory, Clean(Commit(ONE))),
];

fn commit_id(digit: char) -> String {
    digit.to_string().repeat(40)
}

/// Returns a tree with this at the path, and the file of a side.
fn with(at: At, side: Option<&str>) -> Files {
    let mut all = files(&[("kept", "kept\n")]);
    if let Some(side) = side {
        all.extend(files(&[(side, &format!("only {side} has this\n"))]));
    }
    let mut put = |path: &str, content: &str, mode| {
        all.insert(path.to_owned(), (content.as_bytes().to_vec(), mode));
    };
    match at {
        Nothing => {}
        Commit(digit) => put("lib", &commit_id(digit), FileMode::Commit),
        File => put("lib", "a file\n", FileMode::Blob),
        Directory => put("lib/file", "a file\n", FileMode::Blob),
        Link => put("lib", "kept", FileMode::Link),
    }
    all
}

/// Returns the mode and the id at the path in a tree.
fn found(lab: &Lab, tree: &str) -> Option<(i32, String)> {
    let tree = git2::Oid::from_str(tree).unwrap();
    let tree = lab.repo().find_tree(tree).unwrap();
    let entry = tree.get_name("lib")?;
    Some((entry.filemode(), entry.id().to_string()))
}

#[test]
fn submodules_merge_as_git_merges_them() {
    let lab = Lab::new();
    for &(base, one, other, wanted) in CASES {
        let start = lab.commit(&with(base, None), &[]);
        let [one, other] = [(one, "one"), (other, "other")].map(|(at, side)| {
            let commit = lab.commit(&with(at, Some(side)), &[&start]);
            (at, commit)
        });
        for (onto, head) in [(&one, &other), (&other, &one)] {
            let what = format!("{base:?}: {:?} onto {:?}", head.0, onto.0);
            let git = Git::in_dir(lab.dir()).args(["merge-tree", "--write-tree", "--no-messages"]);
            let plain = git
                .args([onto.1.as_str(), head.1.as_str()])
                .output()
                .unwrap();
            let plainly_clean = match plain.code {
                Some(0) => true,
                Some(1) => false,
                _ => panic!("{what}: {}", plain.stderr),
            };
            assert_eq!(plainly_clean, wanted != Conflict, "{what}: git itself");
            for style in LandStyle::ALL.iter().copied() {
                let made = merge_in(lab.dir(), &request(style, &onto.1, &head.1)).unwrap();
                match (made, wanted) {
                    (MergeOutcome::Clean { tip, tree }, Clean(at)) => {
                        assert_eq!(tree.as_str(), plain.text(), "{what}, {style:?}");
                        assert_eq!(lab.tree(&tip), tree.as_str());
                        let alone = lab.commit(&with(at, None), &[]);
                        let alone = found(&lab, &lab.tree(&alone));
                        assert_eq!(found(&lab, tree.as_str()), alone, "{what}, {style:?}");
                    }
                    (MergeOutcome::Conflict(paths), Conflict) => {
                        let named = paths.iter().any(|path| path.starts_with("lib"));
                        assert!(named, "{what}, {style:?}: {paths:?}");
                    }
                    (made, _) => panic!("{what}, {style:?}: {made:?}, not {wanted:?}"),
                }
            }
        }
    }
}
