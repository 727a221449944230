//! Compares the forge's merges of whole trees of real code, in every style, with plain `git merge-tree`. `cargo test`
//! runs 70 cases, the long tier 10,000; `HD_DIFFERENTIAL=<cases>` and `HORDE_SEED=<n>` run others.

use std::path::{Path, PathBuf};

use git2::FileMode;

use super::commands::able;
use super::engine::{Engine, InProcess, Joined};
use super::fuzz::{Random, number};
use super::lab::{Files, Lab};
use super::merge_in;
use super::source;
use super::tests::request;
use crate::adapters::git::command::Git;
use crate::adapters::git::rig::oid;
use crate::domain::ids::Oid;
use crate::domain::merge::{LandStyle, MergeOutcome};
use crate::testing::{seeded, tier::by_tier};

/// The number of cases that share a repository: their objects are loose.
const PER_LAB: u64 = 400;

/// The result of plain git.
#[derive(Debug, PartialEq, Eq)]
enum Plain {
    Tree(String),
    Conflict,
}

/// A repository of its own on the same objects, without the lab's settings.
struct Oracle {
    dir: tempfile::TempDir,
}

impl Oracle {
    fn new(objects: &[PathBuf]) -> Self {
        let dir = crate::testing::scratch();
        let init = Git::in_dir(dir.path()).args(["init", "-q", "--bare"]);
        init.run().unwrap();
        let lines: String = objects
            .iter()
            .map(|path| format!("{}\n", path.display()))
            .collect();
        std::fs::write(dir.path().join("objects/info/alternates"), lines).unwrap();
        Self { dir }
    }

    fn git(&self) -> Git {
        Git::in_dir(self.dir.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("HOME", self.dir.path())
            .env("XDG_CONFIG_HOME", self.dir.path())
    }

    fn merge(&self, base: Option<&Oid>, ours: &Oid, theirs: &Oid) -> Plain {
        let git = self.git().arg(format!("--attr-source={ours}"));
        let git = git.args(["merge-tree", "--write-tree", "--no-messages"]);
        let git = git.args(base.map(|base| format!("--merge-base={base}")));
        let output = git.args([ours.as_str(), theirs.as_str()]).output().unwrap();
        match output.code {
            Some(0) => Plain::Tree(output.text()),
            Some(1) => Plain::Conflict,
            _ => panic!("{}", output.stderr),
        }
    }

    /// Applies one commit after the other, like a rebase that reapplies them all.
    fn rebase(&self, lab: &Lab, onto: &Oid, commits: &[(Oid, Oid)]) -> Plain {
        let (mut tip, mut tree) = (onto.clone(), lab.tree(onto));
        for (parent, commit) in commits {
            match self.merge(Some(parent), &tip, commit) {
                Plain::Conflict => return Plain::Conflict,
                Plain::Tree(same) if same == tree => {}
                Plain::Tree(next) => {
                    tip = lab.commit_tree(&next, &[&tip]);
                    tree = next;
                }
            }
        }
        Plain::Tree(tree)
    }
}

/// Settings of a user that differ from git's defaults: none of them may matter.
fn contrary(lab: &Lab) {
    let mut config = lab.repo().config().unwrap();
    for (key, value) in [
        ("merge.renames", "false"),
        ("merge.directoryRenames", "true"),
        ("merge.renormalize", "true"),
        ("merge.default", "union"),
        ("merge.renameLimit", "1"),
        ("diff.renames", "false"),
        ("diff.algorithm", "minimal"),
    ] {
        config.set_str(key, value).unwrap();
    }
}

/// Makes one side's next state.
fn work(random: &mut Random, files: &mut Files) {
    let paths: Vec<String> = files.keys().cloned().collect();
    for _ in 0..1 + random.below(2) {
        let path = &paths[random.below(paths.len())];
        let Some((mut content, mode)) = files.remove(path) else {
            continue;
        };
        match random.below(14) {
            0 => {}
            1 => {
                source::edit_file(random, &mut content);
                files.insert(format!("moved/{path}"), (content, mode));
            }
            2 => drop(files.insert(path.clone(), (content, FileMode::BlobExecutable))),
            3 => {
                files.insert(path.clone(), (content, mode));
                let text = format!("{}\n", source::go(random).join("\n"));
                let added = format!(
                    "{}new{}.go",
                    ["", "pkg/", "cmd/"][random.below(3)],
                    random.below(3)
                );
                files.insert(added, (text.into_bytes(), FileMode::Blob));
            }
            _ => {
                source::edit_file(random, &mut content);
                files.insert(path.clone(), (content, mode));
            }
        }
    }
}

/// Makes a target and a branch, some of them with a common change.
fn forked(lab: &Lab, random: &mut Random) -> (Oid, Vec<(Oid, Oid)>) {
    let start = source::tree(random);
    let base = lab.commit(&start, &[]);
    let (mut ours, mut theirs) = (start.clone(), start);
    if random.below(8) == 0 {
        work(random, &mut ours);
        theirs.clone_from(&ours);
    }
    work(random, &mut ours);
    let onto = lab.commit(&ours, &[&base]);
    let (mut commits, mut parent) = (Vec::new(), base);
    for _ in 0..1 + random.below(3) {
        work(random, &mut theirs);
        let commit = lab.commit(&theirs, &[&parent]);
        commits.push((parent, commit.clone()));
        parent = commit;
    }
    (onto, commits)
}

#[test]
fn forge_lands_the_tree_that_git_makes() {
    // An older git cannot be told what attributes contain, so there is nothing to compare with.
    if !able().attributes {
        return;
    }
    let seed = seeded::first();
    let cases = number("HD_DIFFERENTIAL", by_tier(70, 10_000));
    eprintln!("HORDE_SEED={seed}");
    let mut random = Random::new(seed);
    let (mut decided, mut conflicts, mut lab, mut oracle) = (0, 0, None, None);
    for case in 0..cases {
        if case % PER_LAB == 0 {
            let next = Lab::new();
            contrary(&next);
            oracle = Some(Oracle::new(&[next.dir().join("objects")]));
            lab = Some(next);
        }
        let (lab, oracle) = (lab.as_ref().unwrap(), oracle.as_ref().unwrap());
        let (onto, commits) = forked(lab, &mut random);
        let head = &commits.last().unwrap().1;
        let style = LandStyle::ALL[random.below(LandStyle::ALL.len())];
        let plain = match style {
            LandStyle::Rebase => oracle.rebase(lab, &onto, &commits),
            LandStyle::Squash | LandStyle::Merge => oracle.merge(None, &onto, head),
        };
        let made = match merge_in(lab.dir(), &request(style, &onto, head)).unwrap() {
            MergeOutcome::Clean { tip, tree } => {
                assert_eq!(lab.tree(&tip), tree.as_str());
                assert_ne!(lab.tree(&onto), tree.as_str(), "there is something to land");
                Plain::Tree(tree.to_string())
            }
            MergeOutcome::Nothing => Plain::Tree(lab.tree(&onto)),
            MergeOutcome::Conflict(_) => Plain::Conflict,
            MergeOutcome::Unrelated => panic!("they have a base"),
        };
        conflicts += u64::from(plain == Plain::Conflict);
        assert_eq!(
            made, plain,
            "seed {seed}, case {case}, {style:?}: {onto} {head}"
        );
        let pruned = InProcess::open(lab.dir()).unwrap();
        let base = &commits[0].0;
        decided += u64::from(pruned.join_pruned(base, &onto, head).unwrap().is_ok());
    }
    println!("seed {seed}: {cases} cases, {conflicts} conflicts, {decided} decided in process");
    // Otherwise only one of the two implementations would have been tested.
    assert!(
        decided * 10 > cases,
        "seed {seed}: {decided} of {cases} were decided in process"
    );
    assert!(
        conflicts * 20 > cases,
        "seed {seed}: {conflicts} of {cases} conflict"
    );
}

/// Replays this project's own commits elsewhere in its history.
#[test]
fn own_history_is_replayed_as_git_does() {
    // An older git cannot be told what attributes contain, so there is nothing to compare with.
    if !able().attributes {
        return;
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ask = |args: &[&str]| {
        let output = Git::in_dir(here).args(args).output().unwrap();
        output.ok().then(|| output.text())
    };
    let args = [
        "rev-parse",
        "--path-format=absolute",
        "--git-path",
        "objects",
    ];
    // Sources without history, or with a part of it, have nothing to replay.
    let (Some(objects), Some(shallow)) =
        (ask(&args), ask(&["rev-parse", "--is-shallow-repository"]))
    else {
        return;
    };
    let list = ask(&[
        "rev-list",
        "--first-parent",
        "--no-merges",
        "--max-count=300",
        "HEAD",
    ]);
    let commits: Vec<Oid> = list
        .unwrap()
        .lines()
        .map(|line| oid(line).unwrap())
        .collect();
    if shallow != "false" || commits.len() < 100 {
        return;
    }
    let lab = Lab::new();
    contrary(&lab);
    std::fs::write(
        lab.dir().join("objects/info/alternates"),
        format!("{objects}\n"),
    )
    .unwrap();
    let oracle = Oracle::new(&[lab.dir().join("objects"), objects.into()]);
    let seed = seeded::first();
    let mut random = Random::new(seed);
    let engine = InProcess::open(lab.dir()).unwrap();
    for _ in 0..by_tier(30, 1_000) {
        let at = random.below(commits.len() - 40);
        let onto = &commits[at + random.below(39)];
        let commit = engine.commit(&commits[at]).unwrap();
        let base = engine.commit(&commit.parents[0]).unwrap();
        let made = match engine.join(Some(&base), onto, &commit.id).unwrap() {
            Joined::Tree(tree) => Plain::Tree(tree.to_string()),
            Joined::Conflict(_) => Plain::Conflict,
        };
        let plain = oracle.merge(Some(&base.id), onto, &commit.id);
        assert_eq!(made, plain, "seed {seed}: {} onto {onto}", commit.id);
    }
}
