//! Tests of the styles, on real repositories.

use super::commands::{Able, Commands, able};
use super::engine::Engine;
use super::lab::{Files, Lab, files};
use super::{merge_in, styles};
use crate::adapters::git::command::Git;
use crate::adapters::git::rig::oid;
use crate::domain::ids::Oid;
use crate::domain::merge::{LandStyle, MergeOutcome};
use crate::ports::repo::{LandRequest, Signature};
use crate::testing::program;

pub(super) fn request(style: LandStyle, onto: &Oid, head: &Oid) -> LandRequest {
    LandRequest {
        head: head.clone(),
        began: Vec::new(),
        onto: onto.clone(),
        style,
        title: "Add the thing (gt-1)".into(),
        trailers: vec!["Horde-MR: gt-2".into()],
        committer: Signature {
            name: "Forge".into(),
            email: "forge@example.invalid".into(),
        },
    }
}

fn clean(lab: &Lab, style: LandStyle, onto: &Oid, head: &Oid) -> (Oid, Oid) {
    match merge_in(lab.dir(), &request(style, onto, head)).unwrap() {
        MergeOutcome::Clean { tip, tree } => (tip, tree),
        other => panic!("{style:?}: {other:?}"),
    }
}

fn parents(lab: &Lab, commit: &Oid) -> Vec<Oid> {
    let body = lab.body(commit);
    let lines = body.lines().take_while(|line| !line.is_empty());
    lines
        .filter_map(|line| line.strip_prefix("parent "))
        .map(|id| Oid::new(id).unwrap())
        .collect()
}

fn with(base: &Files, changes: &[(&str, &str)]) -> Files {
    let mut all = base.clone();
    all.extend(files(changes));
    all
}

/// The features of git 2.39, the oldest supported version.
const OLD: Able = Able {
    attributes: false,
    merge_base: false,
};

const LINES: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";

/// `base ── main` (line 1 changed, a file added) and `base ── one ── two` (line 9, a file).
struct Forked {
    lab: Lab,
    base: Oid,
    main: Oid,
    one: Oid,
    two: Oid,
}

fn forked() -> Forked {
    let lab = Lab::new();
    let start = files(&[("shared", LINES), ("dir/kept", "kept\n")]);
    let base = lab.commit(&start, &[]);
    let ours = with(
        &start,
        &[("shared", &LINES.replace('1', "one")), ("dir/main", "m\n")],
    );
    let main = lab.commit(&ours, &[&base]);
    let first = with(&start, &[("shared", &LINES.replace('9', "nine"))]);
    let one = lab.commit_as("Ann <ann@x>", "first\n", &first, &[&base]);
    let second = with(&first, &[("dir/work", "w\n")]);
    let two = lab.commit_as("Bob <bob@x>", "second\n\nwhy\n", &second, &[&one]);
    Forked {
        lab,
        base,
        main,
        one,
        two,
    }
}

#[test]
fn a_rebase_keeps_authors_dates_and_messages_and_marks_the_last_commit() {
    let Forked { lab, main, two, .. } = forked();
    let (tip, tree) = clean(&lab, LandStyle::Rebase, &main, &two);
    let body = lab.body(&tip);
    assert!(body.starts_with(&format!("tree {tree}\n")), "{body}");
    assert!(
        body.contains("\nauthor Bob <bob@x> 1700000000 +0200\n"),
        "{body}"
    );
    assert!(
        body.contains("\ncommitter Forge <forge@example.invalid> "),
        "{body}"
    );
    assert!(
        body.ends_with("\n\nsecond\n\nwhy\n\nHorde-MR: gt-2\n"),
        "{body}"
    );
    let first = parents(&lab, &tip).pop().unwrap();
    assert!(lab.body(&first).ends_with("\n\nfirst\n"));
    assert_eq!(parents(&lab, &first), [main]);
    let landed = lab.files(&tip);
    assert_eq!(
        landed["shared"],
        LINES.replace('1', "one").replace('9', "nine")
    );
    assert_eq!(
        landed.keys().collect::<Vec<_>>(),
        ["dir/kept", "dir/main", "dir/work", "shared"]
    );
}

#[test]
fn a_squash_is_one_commit_and_a_merge_joins_two() {
    let Forked { lab, main, two, .. } = forked();
    let (rebased, tree) = clean(&lab, LandStyle::Rebase, &main, &two);
    let (squashed, squashed_tree) = clean(&lab, LandStyle::Squash, &main, &two);
    let (merged, merged_tree) = clean(&lab, LandStyle::Merge, &main, &two);
    assert_eq!((&tree, &tree), (&squashed_tree, &merged_tree));
    assert_ne!(rebased, squashed);
    let body = lab.body(&squashed);
    assert!(
        body.contains("\nauthor Ann <ann@x> 1700000000 +0200\n"),
        "{body}"
    );
    assert!(
        body.ends_with(
            "\n\nAdd the thing (gt-1)\n\n* first\n* second\n\n\
             Co-authored-by: Bob <bob@x>\nHorde-MR: gt-2\n"
        ),
        "{body}"
    );
    assert_eq!(parents(&lab, &squashed), std::slice::from_ref(&main));
    assert_eq!(parents(&lab, &merged), [main, two]);
}

#[test]
fn commits_already_on_the_target_are_kept() {
    let Forked {
        lab,
        base,
        one,
        two,
        ..
    } = forked();
    let (tip, _) = clean(&lab, LandStyle::Rebase, &base, &two);
    assert_ne!(tip, two, "the last one has the trailers");
    assert_eq!(parents(&lab, &tip), [one]);
    let mut plain = request(LandStyle::Rebase, &base, &two);
    plain.trailers.clear();
    let outcome = merge_in(lab.dir(), &plain).unwrap();
    assert!(matches!(outcome, MergeOutcome::Clean { tip, .. } if tip == two));
}

#[test]
fn a_conflict_names_its_paths() {
    let Forked {
        lab, base, main, ..
    } = forked();
    let start = files(&[("shared", LINES), ("dir/kept", "kept\n")]);
    let clash = with(
        &start,
        &[("shared", &LINES.replace('1', "uno")), ("dir/main", "x\n")],
    );
    let head = lab.commit(&clash, &[&base]);
    for style in LandStyle::ALL.iter().copied() {
        let outcome = merge_in(lab.dir(), &request(style, &main, &head)).unwrap();
        let paths = vec!["dir/main".to_owned(), "shared".to_owned()];
        assert_eq!(outcome, MergeOutcome::Conflict(paths), "{style:?}");
    }
}

#[test]
fn resolutions_in_merge_commits_survive_a_rebase() {
    let Forked {
        lab, base, main, ..
    } = forked();
    let start = files(&[("shared", LINES), ("dir/kept", "kept\n")]);
    let one = lab.commit(
        &with(&start, &[("shared", &LINES.replace('1', "uno"))]),
        &[&base],
    );
    let both = with(
        &start,
        &[
            ("shared", &LINES.replace('1', "one uno")),
            ("dir/main", "m\n"),
        ],
    );
    let resolved = lab.commit(&both, &[&one, &main]);
    let (tip, _) = clean(&lab, LandStyle::Rebase, &main, &resolved);
    assert_eq!(parents(&lab, &tip), std::slice::from_ref(&main));
    assert_eq!(lab.files(&tip)["shared"], LINES.replace('1', "one uno"));

    // A merge commit without a resolution in it is left out.
    let one = lab.commit_as("A <a@x>", "one\n", &with(&start, &[("a", "a\n")]), &[&base]);
    let merged = with(
        &start,
        &[
            ("a", "a\n"),
            ("dir/main", "m\n"),
            ("shared", &LINES.replace('1', "one")),
        ],
    );
    let merge = lab.commit(&merged, &[&one, &main]);
    let two = lab.commit_as(
        "A <a@x>",
        "two\n",
        &with(&merged, &[("b", "b\n")]),
        &[&merge],
    );
    let (tip, _) = clean(&lab, LandStyle::Rebase, &main, &two);
    let first = parents(&lab, &tip).pop().unwrap();
    assert!(lab.body(&first).ends_with("\n\none\n"));
    assert_eq!(parents(&lab, &first), [main]);
}

#[test]
fn several_merge_bases_and_union_attributes_are_left_to_git() {
    let Forked {
        lab,
        base,
        main,
        one,
        ..
    } = forked();
    let all = files(&[
        ("shared", &LINES.replace('1', "one").replace('9', "nine")),
        ("dir/kept", "kept\n"),
        ("dir/main", "m\n"),
    ]);
    let ours = lab.commit(&all, &[&main, &one]);
    let theirs = lab.commit(&with(&all, &[("more", "x\n")]), &[&one, &main]);
    let (tip, _) = clean(&lab, LandStyle::Squash, &ours, &theirs);
    assert_eq!(lab.files(&tip)["more"], "x\n");

    let start = files(&[
        (".gitattributes", "*.log merge=union\n"),
        ("a.log", "start\n"),
    ]);
    let base_log = lab.commit(&start, &[&base]);
    let ours = lab.commit(&with(&start, &[("a.log", "start\nours\n")]), &[&base_log]);
    let theirs = lab.commit(&with(&start, &[("a.log", "start\ntheirs\n")]), &[&base_log]);
    let (tip, _) = clean(&lab, LandStyle::Rebase, &ours, &theirs);
    assert_eq!(lab.files(&tip)["a.log"], "start\nours\ntheirs\n");
}

#[test]
fn everything_may_be_removed() {
    let Forked { lab, base, one, .. } = forked();
    let gone = lab.commit(&Files::new(), &[&one]);
    let (tip, _) = clean(&lab, LandStyle::Squash, &base, &gone);
    assert!(lab.files(&tip).is_empty());
}

/// Case B1-unrelated of an adversary: a branch without common history.
#[test]
fn histories_without_a_common_root_are_refused() {
    let Forked { lab, main, .. } = forked();
    let other = lab.commit(&files(&[("x", "x\n")]), &[]);
    for style in LandStyle::ALL.iter().copied() {
        let outcome = merge_in(lab.dir(), &request(style, &main, &other)).unwrap();
        assert_eq!(outcome, MergeOutcome::Unrelated);
    }
}

#[test]
fn the_git_program_alone_comes_to_the_same() {
    let Forked { lab, main, two, .. } = forked();
    for able in [able(), OLD] {
        let git = Commands::new(lab.dir(), false).limited_to(able);
        for style in LandStyle::ALL.iter().copied() {
            let (_, expected) = clean(&lab, style, &main, &two);
            let outcome = styles::land(&git, &request(style, &main, &two));
            match outcome.unwrap() {
                MergeOutcome::Clean { tree, .. } => assert_eq!(tree, expected),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Before 2.41 git merges in a bare repository as if there were no attributes.
#[test]
fn attributes_of_the_target_hold_with_an_old_git_too() {
    let Forked { lab, base, .. } = forked();
    let start = files(&[
        (".gitattributes", "*.log merge=union\n"),
        ("a.log", "start\n"),
        ("deep/.gitattributes", "*.lock -merge\n"),
        ("deep/a.lock", LINES),
        ("a.lock", LINES),
    ]);
    let start_at = lab.commit(&start, &[&base]);
    let joined = |path: &str, ours: &str, theirs: &str| {
        let ours = lab.commit(&with(&start, &[(path, ours)]), &[&start_at]);
        let theirs = lab.commit(&with(&start, &[(path, theirs)]), &[&start_at]);
        let outcomes = [able(), OLD].map(|able| {
            let git = Commands::new(lab.dir(), false).limited_to(able);
            styles::land(&git, &request(LandStyle::Squash, &ours, &theirs)).unwrap()
        });
        let [now, old] = outcomes.map(|outcome| match outcome {
            MergeOutcome::Clean { tree, .. } => Some(tree),
            _ => None,
        });
        assert_eq!(now, old, "{path}");
        now.is_some()
    };
    assert!(joined("a.log", "start\nours\n", "start\ntheirs\n"));
    let (one, nine) = (LINES.replace('1', "one"), LINES.replace('9', "nine"));
    assert!(joined("a.lock", &one, &nine));
    assert!(
        !joined("deep/a.lock", &one, &nine),
        "it is merged as a whole"
    );
}

#[test]
fn a_repository_with_sha256_works() {
    let dir = crate::testing::scratch();
    let git = |args: &[&str]| Git::in_dir(dir.path()).args(args).run().unwrap().text();
    git(&[
        "init",
        "-q",
        "--object-format=sha256",
        "--initial-branch=main",
    ]);
    for (key, value) in [
        ("user.name", "A"),
        ("user.email", "a@x"),
        ("commit.gpgsign", "false"),
    ] {
        git(&["config", key, value]);
    }
    let commit = |file: &str| {
        std::fs::write(dir.path().join(file), "text\n").unwrap();
        git(&["add", "-A"]);
        git(&["commit", "-qm", file]);
        oid(&git(&["rev-parse", "HEAD"])).unwrap()
    };
    let base = commit("base");
    let main = commit("main");
    git(&["checkout", "-q", "-b", "work", base.as_str()]);
    let head = commit("work");
    for style in LandStyle::ALL.iter().copied() {
        match merge_in(dir.path(), &request(style, &main, &head)).unwrap() {
            MergeOutcome::Clean { tip, .. } => {
                assert_eq!(
                    git(&["ls-tree", "--name-only", tip.as_str()]),
                    "base\nmain\nwork"
                );
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn commits_are_signed_where_the_repository_says_so() {
    let Forked {
        lab,
        main,
        two,
        base,
        ..
    } = forked();
    let fake = lab.dir().join("sign");
    let script = "cat >/dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\n\
                  echo '-----BEGIN PGP SIGNATURE-----'";
    program::script(&fake, script);
    let mut config = lab.repo().config().unwrap();
    config
        .set_str("gpg.program", fake.to_str().unwrap())
        .unwrap();
    config.set_str("commit.gpgsign", "true").unwrap();
    for style in LandStyle::ALL.iter().copied() {
        let onto = match style {
            LandStyle::Rebase | LandStyle::Squash => &main,
            LandStyle::Merge => &base,
        };
        let (tip, _) = clean(&lab, style, onto, &two);
        let body = lab.body(&tip);
        assert!(body.contains("\ngpgsig -----BEGIN"), "{body}");
        if style == LandStyle::Rebase {
            assert!(
                body.contains("\nauthor Bob <bob@x> 1700000000 +0200\n"),
                "{body}"
            );
            assert!(lab.body(&parents(&lab, &tip)[0]).contains("\ngpgsig "));
        }
    }
    let git = Commands::new(lab.dir(), true);
    assert!(git.signs());
}
