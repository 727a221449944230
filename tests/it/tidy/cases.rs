//! Index of the cases by which an attack with git and processes made an earlier supervisor lose work, land a wrong
//! tree, take orders from an agent or tell an untruth: each has an id, and a test that names it in its doc comment, as in
//! "Case A01 of an adversary". So none of them is lost when tests are moved. A: custody; B: landing; C: other faults of
//! git; words: processes and trust. This is an index: a test of the long tier, which `cargo test` does not run, counts as any
//! other.

use std::collections::BTreeSet;

use super::{all, expect_none};

/// The ids of all cases.
const CASES: &[&str] = &[
    "A01",
    "A04",
    "A08",
    "A08b",
    "A09",
    "A09b",
    "A09c",
    "A09d",
    "A10",
    "A12",
    "A13",
    "A14",
    "A14b",
    "A19",
    "A19b",
    "A19b-ignored",
    "A20",
    "A21",
    "A25",
    "A25c",
    "A30b",
    "A33",
    "A33b",
    "A34",
    "A39",
    "A40",
    "A41",
    "A44",
    "A45",
    "A48",
    "A49",
    "A59",
    "A59b",
    "A61",
    "A65",
    "A72",
    "A73",
    "A79",
    "A81",
    "A83",
    "A84",
    "A90",
    "B1-picked-then-reverted",
    "B1-repeated-lines",
    "B1-conflict-of-git",
    "B1-other-function",
    "B1-merge-commit",
    "B1-target-merged-in",
    "B1-squashed-then-changed",
    "B1-white-space-python",
    "B1-white-space-yaml",
    "B1-again-after-revert",
    "B1-renormalize",
    "B1-unrelated",
    "B2-blob",
    "B2-tree",
    "B3",
    "B4",
    "B5",
    "B8",
    "C15",
    "C16",
    "C19",
    "C20",
    "C23",
    "C24",
    "reused-pid",
    "foreign-socket",
    "git-configuration",
    "tmux-server",
    "task-links",
    "log-path",
    "pretty-log",
    "views",
    "city-moved",
    "modes",
    "many-restarts",
    "state-removed",
    "lock-removed",
    "idle-connections",
    "odd-include",
    "odd-prompt",
    "inherited-signals",
    "few-descriptors",
    "stderr-blocked",
    "session-directory",
    "shared-configuration",
    "no-socket",
];

#[test]
fn each_case_of_an_adversary_has_a_test_that_names_it() {
    let mut named = BTreeSet::new();
    let mut astray = Vec::new();
    for source in all()
        .iter()
        .filter(|source| source.name != "tests/it/tidy/cases.rs")
    {
        let mut open: Vec<String> = Vec::new();
        for line in source.text.lines().map(str::trim) {
            let told = line.strip_prefix("/// Case ");
            let id = told.and_then(|told| told.split_once(" of an adversary: "));
            if let Some((id, what)) = id {
                assert!(!what.is_empty(), "{id} is not described");
                open.push(id.to_owned());
            } else if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                named.extend(open.drain(..));
            } else if !line.starts_with("///") {
                astray.extend(open.drain(..).map(|id| format!("{id} in {}", source.name)));
            }
        }
    }
    expect_none("a case is named by a test", &astray);
    let missing = CASES.iter().filter(|id| !named.contains(**id));
    let missing: Vec<_> = missing.map(|id| (*id).to_owned()).collect();
    expect_none("each case is named by a test", &missing);
    let known = |id: &&String| !CASES.contains(&id.as_str());
    let unknown: Vec<_> = named.iter().filter(known).cloned().collect();
    expect_none("a case has an id of the list", &unknown);
}
