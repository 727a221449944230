//! Writes the files of an index that are missing in the work tree, including conflicts.

use std::collections::{BTreeMap, BTreeSet};

use super::bytes::{self, RelPath};
use super::command::{CHECKOUT, Git};
use crate::ports::repo::RepoError;

/// Writes missing files; existing ones stay as they are.
pub(super) fn fill_missing(git: impl Fn() -> Git) -> Result<(), RepoError> {
    let listed = git().args(["ls-files", "--deleted", "-z"]).run()?;
    let missing: BTreeSet<RelPath> = bytes::split(&listed.stdout).map(<[u8]>::to_vec).collect();
    let stages = unmerged(git())?;
    let of = |wanted: &[&[u8]]| {
        let of = |path: &&RelPath| {
            let stages = stages.get(*path).map_or(&[][..], Vec::as_slice);
            wanted.contains(&stages)
        };
        missing.iter().filter(of).collect::<Vec<_>>()
    };
    write(git(), &["checkout-index"], &of(&[&[]]))?;
    // With conflict markers: a file without them would count as the solution.
    let merge = [
        "checkout",
        "--merge",
        "--pathspec-from-file=-",
        "--pathspec-file-nul",
    ];
    write(git(), &merge, &of(&[&[1, 2, 3], &[2, 3]]))?;
    let (ours, theirs) = (of(&[&[1, 2], &[2]]), of(&[&[1, 3], &[3]]));
    write(git(), &["checkout-index", "--stage=2"], &ours)?;
    write(git(), &["checkout-index", "--stage=3"], &theirs)
}

/// Returns the existing stages of each unmerged path, in order.
fn unmerged(git: Git) -> Result<BTreeMap<RelPath, Vec<u8>>, RepoError> {
    let listed = git.args(["ls-files", "-u", "-z"]).run()?;
    let mut stages: BTreeMap<RelPath, Vec<u8>> = BTreeMap::new();
    for line in bytes::split(&listed.stdout) {
        let tab = line.iter().position(|byte| *byte == b'\t');
        if let Some((facts, path)) = tab.map(|tab| (&line[..tab], &line[tab + 1..])) {
            let stage = facts.last().map_or(0, |digit| digit.wrapping_sub(b'0'));
            stages.entry(path.to_vec()).or_default().push(stage);
        }
    }
    Ok(stages)
}

fn write(git: Git, how: &[&str], paths: &[&RelPath]) -> Result<(), RepoError> {
    if paths.is_empty() {
        return Ok(());
    }
    let mut git = git.args(how);
    if how[0] == "checkout-index" {
        git = git.args(["-z", "--stdin"]);
    }
    let list = bytes::join(paths.iter().map(|path| path.as_slice()));
    git.env("GIT_LITERAL_PATHSPECS", "1")
        .stdin(list)
        .limit(CHECKOUT)
        .run()
        .map(drop)
}
