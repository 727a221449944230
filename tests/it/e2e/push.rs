//! A remote that refuses a raider's branch: an operator is called, and has a way out.

use std::fs;

use serde_json::json;

use crate::support::git::git;
use crate::support::live::{City, until};
use crate::support::program;

const TOAST: &str = "horde/raiders/Toast";

/// The remote has a rule about the names of branches.
#[test]
fn a_branch_that_the_remote_forbids_is_escalated_and_can_be_given_up() {
    let city = City::new();
    let hook = city.origin().join("hooks/update");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    let rule = "case $1 in refs/heads/raider/*) echo not that name >&2; exit 1;; esac";
    program::script(&hook, rule);
    let steps = [
        "[ $n = 1 ] || { await lifted; commit b.txt; hd done; forever; }",
        "commit a.txt",
        "hd done",
        "forever",
    ];
    let relic = city.work("be refused", &steps);
    until("a person is told", || {
        city.ask("status", json!({})).unwrap()["escalations"] == 1
    });
    let told = city.hd(&["escalations"]).json().to_string();
    assert!(
        told.contains("not that name") && told.contains("--salvage"),
        "{told}"
    );
    let refused = city.hd(&["raider", "nuke", "Toast", "--yes"]).error(1);
    assert_eq!(refused["kind"], "conflict");
    city.hd(&["raider", "nuke", "Toast", "--salvage", "--yes"])
        .json();
    city.wait_no_raiders();
    assert_eq!(city.status_of(&relic), "open");
    assert_eq!(city.happened("raider.done_withdrawn", TOAST).len(), 1);
    assert_eq!(
        city.hd(&["salvage", "list"])
            .json()
            .as_array()
            .unwrap()
            .len(),
        1
    );
    fs::remove_file(&hook).unwrap();
    city.sign("lifted");
    city.charge(&relic);
    city.wait_status(&relic, "closed");
}

/// Imitates the hook of `git lfs install`, as far as files go: uploads each file that a pushed pointer names from the
/// repository that it runs in, and refuses the push if a file is missing.
const LFS_HOOK: &str = r#"
while read -r _ head _ _; do
    for blob in $(git ls-tree -r "$head" | awk '{print $3}'); do
        sum=$(git cat-file blob "$blob" | sed -n 's/^oid sha256://p')
        [ -n "$sum" ] || continue
        at=$(git rev-parse --git-dir)/lfs/objects/$(echo "$sum" | cut -c1-2)/$(echo "$sum" | cut -c3-4)/$sum
        [ -f "$at" ] || { echo "lfs object $sum is missing" >&2; exit 1; }
        cp "$at" "STORE/$sum" || exit 1
    done
done
"#;

/// The file is in the repository of the agents, but the push runs from the supervisor's own.
#[test]
fn file_that_an_agent_gave_to_lfs_is_uploaded_by_the_users_hook() {
    let city = City::new();
    let store = city.root().join("lfs-store");
    fs::create_dir_all(&store).unwrap();
    let checkout = city.root().join("horde-checkout");
    let hook = checkout.join(".git/hooks/pre-push");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    program::script(
        &hook,
        &LFS_HOOK.replace("STORE", &store.display().to_string()),
    );
    let sum = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
    let place = format!("$(git rev-parse --git-common-dir)/lfs/objects/58/91/{sum}");
    let make = format!("mkdir -p \"$(dirname \"{place}\")\" && echo hello >\"{place}\"");
    let pointer = format!(
        "printf 'version https://git-lfs.github.com/spec/v1\\noid sha256:{sum}\\nsize 6\\n' >picture.lfs"
    );
    let commit = "git add picture.lfs && git commit -q -m picture";
    let relic = city.work("paint", &[&make, &pointer, commit, "hd done"]);
    city.wait_status(&relic, "closed");
    assert_eq!(fs::read_to_string(store.join(sum)).unwrap(), "hello\n");
    let landed = git(&city.origin(), &["show", "main:picture.lfs"]);
    assert!(landed.contains(sum), "{landed}");
    assert_eq!(city.happened("raider.push_blocked", TOAST).len(), 0);
}
