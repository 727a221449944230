//! Compares the in-process merge with `git merge-tree` over random edits, renames, directory renames, removals,
//! additions and mode changes: the results must never contradict. `HD_MERGE_FUZZ=<pairs>` sets the number of pairs,
//! `HD_MERGE_FUZZ_SEED=<n>` the seed.

use git2::FileMode;

use super::commands::Commands;
use super::engine::{Engine, InProcess, Joined};
use super::lab::{Files, Lab};
use crate::testing::tier::by_tier;

/// A small random generator: tests must be repeatable from their seed alone.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap() % bound
    }

    fn path(&mut self, files: &Files) -> Option<String> {
        let at = self.below(files.len().max(1));
        files.keys().nth(at).cloned()
    }

    fn directory(&mut self, files: &Files) -> String {
        let path = self.path(files).unwrap_or_default();
        let mut ends: Vec<usize> = path.match_indices('/').map(|(at, _)| at).collect();
        ends.push(0);
        path[..ends[self.below(ends.len())]].to_owned()
    }

    fn content(&mut self, words: &str) -> Vec<u8> {
        let lines = 1 + self.below(14);
        let line = |at| format!("{words} line {at}\n");
        (0..lines).map(line).collect::<String>().into_bytes()
    }
}

fn base(random: &mut Random) -> Files {
    let paths = [
        "README",
        "LICENSE",
        "src/lib.rs",
        "src/a/one.rs",
        "src/a/two.rs",
        "src/a/deep/x.rs",
        "src/a/deep/y.rs",
        "src/b/one.rs",
        "src/b/two.rs",
        "docs/intro",
        "docs/guide",
        "tool",
    ];
    let mut files = Files::new();
    for (at, path) in paths.into_iter().enumerate() {
        if random.below(6) > 0 {
            // A few files share their content, so that renames are ambiguous.
            let content = random.content(&format!("file {}", at % 9));
            files.insert(path.to_owned(), (content, FileMode::Blob));
        }
    }
    files
}

/// Moves everything below one directory into another.
fn rename_directory(files: &mut Files, from: &str, to: &str) {
    let inside = |path: &str| from.is_empty() || path.starts_with(&format!("{from}/"));
    let moved: Vec<String> = files.keys().filter(|path| inside(path)).cloned().collect();
    for path in moved {
        let rest = path[from.len()..].trim_start_matches('/').to_owned();
        let target = format!("{to}/{rest}").trim_start_matches('/').to_owned();
        if let Some(file) = files.remove(&path) {
            files.insert(target, file);
        }
    }
}

/// Removes files in place of directories.
fn drop_shadowed(files: &mut Files) {
    let paths: Vec<String> = files.keys().cloned().collect();
    for path in &paths {
        let prefix = format!("{path}/");
        if paths.iter().any(|other| other.starts_with(&prefix)) {
            files.remove(path);
        }
    }
}

fn edit(random: &mut Random, content: &mut Vec<u8>) {
    let mut lines: Vec<String> = String::from_utf8_lossy(content)
        .lines()
        .map(str::to_owned)
        .collect();
    let at = random.below(lines.len().max(1));
    match random.below(4) {
        0 if !lines.is_empty() => drop(lines.remove(at)),
        1 => lines.insert(at, format!("inserted {}", random.below(5))),
        2 => lines.push(format!("appended {}", random.below(5))),
        _ if lines.is_empty() => lines.push("new".to_owned()),
        _ => lines[at] = format!("changed {}", random.below(5)),
    }
    *content = lines
        .into_iter()
        .map(|line| line + "\n")
        .collect::<String>()
        .into_bytes();
}

fn mutate(random: &mut Random, files: &mut Files) {
    let Some(path) = random.path(files) else {
        return;
    };
    let name = ["n1", "n2", "src/n1", "src/a/n2", "lib/n3", "docs/n1"][random.below(6)];
    match random.below(20) {
        0..=7 => {
            if let Some((content, _)) = files.get_mut(&path) {
                edit(random, content);
            }
        }
        8 | 9 => {
            if let Some(mut file) = files.remove(&path) {
                if random.below(2) == 0 {
                    edit(random, &mut file.0);
                }
                files.insert(name.to_owned(), file);
            }
        }
        10 => drop(files.remove(&path)),
        11 => {
            let from = random.directory(files);
            files.retain(|path, _| from.is_empty() || !path.starts_with(&format!("{from}/")));
        }
        12 => {
            let from = random.directory(files);
            let to = ["lib", "src/c", "docs", ""][random.below(4)];
            rename_directory(files, &from, to);
        }
        13..=16 => {
            let inside = random.directory(files);
            let path = format!("{inside}/{}", ["new", "n1", "more"][random.below(3)]);
            let content = random.content("added");
            files.insert(
                path.trim_start_matches('/').to_owned(),
                (content, FileMode::Blob),
            );
        }
        17 => {
            if let Some((_, mode)) = files.get_mut(&path) {
                *mode = FileMode::BlobExecutable;
            }
        }
        18 => drop(files.insert(path, (b"README".to_vec(), FileMode::Link))),
        _ => drop(files.insert(path, (vec![0, 1, 2, 0], FileMode::Blob))),
    }
    drop_shadowed(files);
}

pub(super) fn number(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value
        .and_then(|value| value.parse().ok())
        .unwrap_or(default)
}

#[test]
fn the_pruned_merge_never_contradicts_git() {
    let lab = Lab::new();
    let pruned = InProcess::open(lab.dir()).unwrap();
    let git = Commands::new(lab.dir(), false);
    let mut random = Random::new(number("HD_MERGE_FUZZ_SEED", 7));
    let pairs = number("HD_MERGE_FUZZ", by_tier(100, 3000));
    let (mut decided, mut conflicts) = (0, 0);
    for pair in 0..pairs {
        let start = base(&mut random);
        let (mut ours, mut theirs) = (start.clone(), start.clone());
        if random.below(4) == 0 {
            // Both do the same first, so that equal subtrees hide changes.
            mutate(&mut random, &mut ours);
            theirs.clone_from(&ours);
        }
        for side in [&mut ours, &mut theirs] {
            for _ in 0..=random.below(3) {
                mutate(&mut random, side);
            }
        }
        let base = lab.commit(&start, &[]);
        let ours = lab.commit(&ours, &[&base]);
        let theirs = lab.commit(&theirs, &[&base]);
        let answer = git.join(None, &ours, &theirs).unwrap();
        conflicts += u64::from(matches!(answer, Joined::Conflict(_)));
        match pruned.join_pruned(&base, &ours, &theirs).unwrap() {
            Ok(tree) => {
                decided += 1;
                assert_eq!(
                    Joined::Tree(tree),
                    answer,
                    "pair {pair}: {base} {ours} {theirs}"
                );
            }
            Err(_) => assert_eq!(pruned.join(None, &ours, &theirs).unwrap(), answer),
        }
    }
    // Otherwise nothing was tested.
    assert!(
        decided * 10 > pairs,
        "{decided} of {pairs} were decided in process"
    );
    assert!(conflicts * 20 > pairs, "{conflicts} of {pairs} conflict");
}
