//! A default branch that changes at the remote: new charges follow it when nothing would be missing, open work keeps its
//! target.

use crate::support::git::{git, rev};
use crate::support::live::until;
use crate::support::plan::Plan;

#[test]
fn renamed_default_branch_is_followed_by_new_charges_and_holds_what_was_open() {
    let city = Plan::new().start();
    let open = city.work(
        "open",
        &["sign at-work", "await go", "commit open.txt", "hd done"],
    );
    city.wait_sign("at-work");
    let start = rev(&city.origin(), "main");
    git(&city.origin(), &["branch", "-q", "-m", "main", "trunk"]);
    git(
        &city.origin(),
        &["symbolic-ref", "HEAD", "refs/heads/trunk"],
    );
    let next = city.work("next", &["commit next.txt", "hd done"]);
    city.wait_status(&next, "closed");
    let files = git(&city.origin(), &["ls-tree", "--name-only", "trunk"]);
    assert!(files.contains("next.txt"), "{files}");
    let changed = city.wait_event(1, "rig.default_branch", "horde");
    let data = &changed["data"];
    assert_eq!(
        (&data["from"], &data["to"]),
        (&"main".into(), &"trunk".into())
    );
    assert_eq!(data["followed"], true);
    until("a person is called", || {
        city.hd_text(&["escalations"])
            .out
            .contains("from main to trunk")
    });
    // The work that was open is held, with the reason.
    city.sign("go");
    until("its merge request says why it is held", || {
        let queue = city.hd(&["mq", "list"]).json();
        let mut rows = queue.as_array().unwrap().iter();
        rows.any(|row| {
            row["relic"] == open.as_str()
                && row["note"]
                    .as_str()
                    .is_some_and(|note| note.contains("its target main does not exist"))
        })
    });
    git(&city.origin(), &["branch", "-q", "main", &start]);
    let mr = city.hd(&["mq", "list"]).json();
    let mr = mr
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["relic"] == open.as_str())
        .unwrap()["id"]
        .clone();
    assert_eq!(city.hd(&["mq", "retry", mr.as_str().unwrap()]).code, 0);
    city.wait_status(&open, "closed");
    let files = git(&city.origin(), &["ls-tree", "--name-only", "main"]);
    assert!(files.contains("open.txt"), "{files}");
}
