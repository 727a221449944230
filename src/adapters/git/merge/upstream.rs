//! Tests of work and a target that share changes (picked, squashed, reverted or changed there), and of contents that
//! other diff algorithms merge differently. In each case the forge's result is git's.

use git2::{FileMode, MergeFileInput, merge_file};

use super::fuzz::Random;
use super::lab::{Files, Lab, files};
use super::tests::request;
use super::{merge_in, source};
use crate::adapters::git::command::Git;
use crate::domain::ids::Oid;
use crate::domain::merge::{LandStyle, MergeOutcome};
use crate::testing::tier::by_tier;

const LINES: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";

fn land(lab: &Lab, style: LandStyle, onto: &Oid, head: &Oid) -> MergeOutcome {
    merge_in(lab.dir(), &request(style, onto, head)).unwrap()
}

/// Returns the tree of `git merge-tree`; none if it conflicts.
fn plain(lab: &Lab, onto: &Oid, head: &Oid) -> Option<String> {
    let git = Git::in_dir(lab.dir()).args(["-c", "merge.renormalize=false", "merge-tree"]);
    let output = git
        .args(["--write-tree", onto.as_str(), head.as_str()])
        .output()
        .unwrap();
    assert!(matches!(output.code, Some(0 | 1)), "{}", output.stderr);
    output.ok().then(|| output.text())
}

fn assert_conflicts(lab: &Lab, onto: &Oid, head: &Oid, path: &str) {
    assert_eq!(plain(lab, onto, head), None);
    for style in LandStyle::ALL.iter().copied() {
        let outcome = land(lab, style, onto, head);
        assert_eq!(
            outcome,
            MergeOutcome::Conflict(vec![path.to_owned()]),
            "{style:?}"
        );
    }
}

fn assert_lands_as_git(lab: &Lab, onto: &Oid, head: &Oid) -> String {
    let wanted = plain(lab, onto, head).unwrap();
    for style in LandStyle::ALL.iter().copied() {
        match land(lab, style, onto, head) {
            MergeOutcome::Clean { tree, .. } => assert_eq!(tree.as_str(), wanted, "{style:?}"),
            other => panic!("{style:?}: {other:?}"),
        }
    }
    wanted
}

/// Makes another person's commit on the target: not the branch's commit with the same files.
fn theirs(lab: &Lab, files: &Files, parent: &Oid) -> Oid {
    lab.commit_as(
        "Upstream <up@example.invalid>",
        "theirs\n",
        files,
        &[parent],
    )
}

fn one(path: &str, text: &str) -> Files {
    files(&[(path, text)])
}

/// Case B1-white-space-python of an adversary: a patch of Python that equals one of the target but for white space.
#[test]
fn white_space_equal_python_patch_conflicts_where_git_does() {
    let lab = Lab::new();
    let start = "def f(x):\n    if x:\n        a()\n    return x\n";
    let base = lab.commit(&one("f.py", start), &[]);
    let inside = start.replace("a()\n", "a()\n        b()\n");
    let outside = start.replace("a()\n", "a()\n    b()\n");
    let main = lab.commit(&one("f.py", &inside), &[&base]);
    let head = lab.commit(&one("f.py", &outside), &[&base]);
    assert_conflicts(&lab, &main, &head, "f.py");
}

/// Case B1-white-space-yaml of an adversary: the same in YAML.
#[test]
fn white_space_equal_yaml_patch_conflicts_where_git_does() {
    let lab = Lab::new();
    let start = "web:\n  image: app\n  env:\n    A: 1\n";
    let base = lab.commit(&one("f.yml", start), &[]);
    let main = lab.commit(&one("f.yml", &format!("{start}    port: 80\n")), &[&base]);
    let head = lab.commit(&one("f.yml", &format!("{start}  port: 80\n")), &[&base]);
    assert_conflicts(&lab, &main, &head, "f.yml");
}

/// A target with the work, and one with the work and more.
#[test]
fn nothing_is_left_only_where_the_merge_gives_the_targets_tree() {
    let lab = Lab::new();
    let start = files(&[("a", LINES), ("b", "b\n")]);
    let base = lab.commit(&start, &[]);
    let mut changed = start.clone();
    changed.extend(one("a", &LINES.replace('5', "five")));
    let head = lab.commit(&changed, &[&base]);
    let squashed = theirs(&lab, &changed, &base);
    changed.extend(one("b", "later\n"));
    let later = lab.commit(&changed, &[&squashed]);
    for onto in [&head, &squashed, &later] {
        for style in LandStyle::ALL.iter().copied() {
            assert_eq!(
                land(&lab, style, onto, &head),
                MergeOutcome::Nothing,
                "{style:?}"
            );
        }
    }
}

/// Case B1-squashed-then-changed of an adversary: the branch was squashed onto the target, and changed there.
#[test]
fn work_that_was_squashed_upstream_and_changed_there_conflicts() {
    let lab = Lab::new();
    let base = lab.commit(&one("a", LINES), &[]);
    let first = lab.commit(&one("a", &LINES.replace('4', "four")), &[&base]);
    let all = LINES.replace('4', "four").replace('5', "five");
    let head = lab.commit(&one("a", &all), &[&first]);
    let squashed = theirs(&lab, &one("a", &all), &base);
    let main = lab.commit(&one("a", &all.replace("five", "cinq")), &[&squashed]);
    assert_conflicts(&lab, &main, &head, "a");
}

/// Reverted work is not on the target: landed again, it is there; or it conflicts.
/// Case B1-again-after-revert of an adversary: work that landed, was reverted, and comes again.
#[test]
fn work_that_was_reverted_lands_again_or_conflicts_and_is_never_taken_for_landed() {
    let lab = Lab::new();
    let base = lab.commit(&one("a", LINES), &[]);
    let work = LINES.replace('5', "five");
    let head = lab.commit(&one("a", &work), &[&base]);
    let landed = theirs(&lab, &one("a", &work), &base);
    let reverted = lab.commit(&one("a", LINES), &[&landed]);
    assert_lands_as_git(&lab, &reverted, &head);
    let later = lab.commit(&one("a", &LINES.replace('5', "cinq")), &[&reverted]);
    assert_conflicts(&lab, &later, &head, "a");
}

/// Case B1-picked-then-reverted of an adversary: a commit was picked onto the target and reverted there.
#[test]
fn commit_that_was_cherry_picked_then_reverted_lands_with_the_rest_of_its_branch() {
    let lab = Lab::new();
    let base = lab.commit(&one("a", LINES), &[]);
    let picked = LINES.replace('5', "five");
    let first = lab.commit(&one("a", &picked), &[&base]);
    let head = lab.commit(&one("a", &picked.replace('9', "nine")), &[&first]);
    let on_main = theirs(&lab, &one("a", &picked), &base);
    let main = lab.commit(&one("a", LINES), &[&on_main]);
    let tree = assert_lands_as_git(&lab, &main, &head);
    assert_eq!(tree, lab.tree(&head));
}

/// `git rebase` leaves merge commits out, and with them the changes that only they contain.
/// Case B1-merge-commit of an adversary: a merge commit with a file of its own, or with a resolution.
/// Case B1-target-merged-in of an adversary: the target was merged into the branch.
#[test]
fn changes_of_a_merge_commit_land_with_a_rebase() {
    let lab = Lab::new();
    let base = lab.commit(&one("a", LINES), &[]);
    let main = lab.commit(&one("a", &LINES.replace('5', "main")), &[&base]);
    let ours = lab.commit(&one("a", &LINES.replace('5', "branch")), &[&base]);
    let both = files(&[("a", &LINES.replace('5', "both")), ("evil", "evil\n")]);
    let merge = lab.commit(&both, &[&ours, &main]);
    // Also with main merged into the branch, and later commits.
    let mut later = both.clone();
    later.extend(one("more", "m\n"));
    let head = lab.commit(&later, &[&merge]);
    for head in [&merge, &head] {
        let tree = assert_lands_as_git(&lab, &main, head);
        assert_eq!(tree, lab.tree(head));
    }
}

/// This case ended in a bug of git's, with attributes and without.
/// Case B1-renormalize of an adversary: `merge.renormalize` with and without attributes.
#[test]
fn renormalizing_settings_of_the_user_change_no_merge() {
    for attributes in ["", "* text=auto\n", "*.txt text eol=crlf\n"] {
        let lab = Lab::new();
        let mut config = lab.repo().config().unwrap();
        config.set_str("merge.renormalize", "true").unwrap();
        let tree = |text: &str| {
            let mut tree = one("a.txt", &text.replace('\n', "\r\n"));
            if !attributes.is_empty() {
                tree.extend(one(".gitattributes", attributes));
            }
            tree
        };
        let base = lab.commit(&tree(LINES), &[]);
        let main = lab.commit(&tree(&LINES.replace('1', "one")), &[&base]);
        let head = lab.commit(&tree(&LINES.replace('9', "nine")), &[&base]);
        assert_lands_as_git(&lab, &main, &head);
    }
}

type Make = fn(&mut Random) -> Vec<String>;

fn repeated(random: &mut Random) -> Vec<String> {
    (0..24)
        .map(|_| ["a", "b"][random.below(2)].to_owned())
        .collect()
}

/// Contents (Go code and repeated lines) that libgit2 merges differently from git, or that git finds in conflict.
/// Each kind must occur, or nothing was tested.
/// Case B1-repeated-lines of an adversary: repeated lines changed on both sides.
/// Case B1-conflict-of-git of an adversary: code of which git makes a conflict.
/// Case B1-other-function of an adversary: a line that another diff algorithm puts into another function.
#[test]
fn lines_land_in_the_function_where_git_puts_them() {
    let kinds: [Make; 2] = [source::go, repeated];
    // This seed finds both kinds sooner.
    let mut random = Random::new(by_tier(3, 11));
    for make in kinds {
        let (lab, mut differ, mut conflict) = (Lab::new(), 0, 0);
        for _ in 0..6_000 {
            if differ > 0 && conflict > 0 {
                break;
            }
            let start = make(&mut random);
            let mut sides = [start.clone(), start.clone()];
            for side in &mut sides {
                for _ in 0..2 {
                    source::edit(&mut random, side);
                }
            }
            let [base, ours, theirs] =
                [&start, &sides[0], &sides[1]].map(|lines| lines.join("\n") + "\n");
            let Some(other) = by_libgit2([&base, &ours, &theirs]) else {
                continue;
            };
            let base = lab.commit(&one("x.go", &base), &[]);
            let onto = lab.commit(&one("x.go", &ours), &[&base]);
            let head = lab.commit(&one("x.go", &theirs), &[&base]);
            let other = lab.tree(&lab.commit(&one("x.go", &other), &[]));
            match plain(&lab, &onto, &head) {
                Some(tree) if tree == other => {}
                Some(tree) if tree != lab.tree(&onto) => {
                    differ += 1;
                    assert_lands_as_git(&lab, &onto, &head);
                }
                Some(_) => {}
                None => {
                    conflict += 1;
                    assert_conflicts(&lab, &onto, &head, "x.go");
                }
            }
        }
        assert!(differ > 0 && conflict > 0, "{differ} {conflict}");
    }
}

/// Returns libgit2's merge of the contents, if it finds no conflict.
fn by_libgit2([base, ours, theirs]: [&String; 3]) -> Option<String> {
    let input = |text: &'_ String| text.clone().into_bytes();
    let contents = [input(base), input(ours), input(theirs)];
    let [base, ours, theirs] = contents.each_ref().map(|content| {
        let mut input = MergeFileInput::new();
        input.content(content);
        input
    });
    let merged = merge_file(&base, &ours, &theirs, None).ok()?;
    merged
        .is_automergeable()
        .then(|| String::from_utf8(merged.content().to_vec()).unwrap())
}

#[test]
fn squash_shows_a_latin_1_subject_and_author_as_they_were_meant() {
    let lab = Lab::new();
    let base = lab.commit(&one("a", LINES), &[]);
    let tree = lab.tree(&lab.commit(&one("a", "new\n"), &[]));
    let body = |encoding: &[u8]| {
        let mut body = format!("tree {tree}\nparent {base}\n").into_bytes();
        for role in ["author", "committer"] {
            body.extend(format!("{role} J").into_bytes());
            body.extend(b"\xf6rg <j@x> 1700000000 +0200\n");
        }
        body.extend(encoding);
        body.extend(b"\ngr\xfc\xdfe\n\nCo-authored-by: Bj\xf6rn <b@x>\n");
        lab.store(&body)
    };
    for encoding in [&b"encoding ISO-8859-1\n"[..], b""] {
        let head = body(encoding);
        let MergeOutcome::Clean { tip, .. } = land(&lab, LandStyle::Squash, &base, &head) else {
            panic!("it lands");
        };
        let text = lab.body(&tip);
        assert!(
            text.contains("\nauthor Jörg <j@x> 1700000000 +0200\n"),
            "{text}"
        );
        assert!(text.contains("* grüße\n"), "{text}");
        assert!(text.contains("\nCo-authored-by: Björn <b@x>\n"), "{text}");
        assert!(!text.contains("encoding"), "{text}");
    }
}

/// git also merges modes, links and submodules that one side alone changed.
#[test]
fn modes_and_links_land_as_git_merges_them() {
    let lab = Lab::new();
    let start = files(&[("run", "x\n"), ("to", "a\n"), ("other", LINES)]);
    let base = lab.commit(&start, &[]);
    let mut ours = start.clone();
    ours.extend(one("other", &LINES.replace('1', "one")));
    let onto = lab.commit(&ours, &[&base]);
    let mut theirs = start;
    theirs.insert("run".into(), (b"x\n".to_vec(), FileMode::BlobExecutable));
    theirs.insert("to".into(), (b"run".to_vec(), FileMode::Link));
    let head = lab.commit(&theirs, &[&base]);
    assert_lands_as_git(&lab, &onto, &head);
}
