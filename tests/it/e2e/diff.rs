//! `hd diff`: what a raider changed, before and after it has pushed (`contract.md`, section 2.3).

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::support::git::write;
use crate::support::live::{City, until};
use crate::support::pty::{shown, terminal};

fn paths(diff: &Value) -> Vec<&str> {
    let files = diff["files"].as_array().unwrap();
    files
        .iter()
        .filter_map(|file| file["path"].as_str())
        .collect()
}

/// A raider's uncommitted work is shown; after the push the head of its merge request, whose sum `hd mq show` prints; after the
/// landing the commit is named.
#[test]
fn diff_shows_the_work_of_a_raider_and_of_its_merge_request() {
    let city = City::new();
    let relic = city.work(
        "show it",
        &[
            "commit a.txt",
            "echo unsaved > b.txt",
            "try diff hd --json diff Toast",
            "await go",
            "commit b.txt",
            "outcome reviewing",
            "forever",
        ],
    );
    let diff = city.wait_tried("diff").json();
    assert_eq!(paths(&diff), ["a.txt", "b.txt"], "{diff}");
    assert!(
        diff["text"].as_str().unwrap().contains("+unsaved"),
        "{diff}"
    );
    city.sign("go");
    let request = || city.hd(&["mq", "list"]).json()[0].clone();
    until("it waits for a person", || {
        request()["state"] == "reviewing"
    });
    let id = request()["id"].as_str().unwrap().to_owned();
    for name in [&id, &relic] {
        let diff = city.hd(&["diff", name]).json();
        assert_eq!(paths(&diff), ["a.txt", "b.txt"], "{diff}");
        assert_eq!(diff["head"], request()["head"]);
    }
    let text = city.hd_text(&["diff", &id]);
    assert!(text.out.contains("+++ b/a.txt"), "{}", text.out);
    let shown = city.hd(&["mq", "show", &id]).json();
    assert_eq!(shown["changes"]["files"], 2, "{shown}");
    assert_eq!(city.hd(&["mq", "approve", &id]).code, 0);
    city.wait_status(&relic, "closed");
    let landed = city.hd(&["diff", &id]).error(1);
    assert!(
        landed["message"]
            .as_str()
            .unwrap()
            .contains("has landed on main"),
        "{landed}"
    );
    city.hd(&["diff", "gt-99"]).error(4);
    city.hd(&["diff", "Nobody"]).error(4);
}

/// On a terminal the diff is in the user's pager, with colours; nothing of it is printed beside.
#[test]
fn diff_on_a_terminal_is_shown_in_the_pager() {
    let city = City::new();
    let steps = ["commit a.txt", "echo unsaved > b.txt", "sign up", "forever"];
    city.work("page it", &steps);
    city.wait_sign("up");
    write(
        city.root(),
        "pager",
        "cat >\"$PAGED.new\"\nmv \"$PAGED.new\" \"$PAGED\"\necho paged\n",
    );
    let paged = city.root().join("paged");
    let (mut seat, end) = terminal();
    let on = || Stdio::from(end.try_clone().unwrap());
    let mut hd = city.program("hd");
    hd.args(["diff", "Toast"]).env("TERM", "xterm");
    hd.env_remove("NO_COLOR").env_remove("GIT_PAGER");
    hd.env("PAGED", &paged);
    let pager = format!("sh {}", city.root().join("pager").display());
    hd.env("PAGER", pager);
    let mut hd = hd.stdin(on()).stdout(on()).stderr(on()).spawn().unwrap();
    let seen = shown(&mut seat, "paged");
    assert!(hd.wait().unwrap().success());
    assert!(!seen.contains("unsaved"), "{seen}");
    let text = fs::read_to_string(&paged).unwrap();
    assert!(
        text.contains("b/b.txt") && text.contains("unsaved"),
        "{text}"
    );
    assert!(text.contains("\u{1b}[3"), "it has colours: {text:?}");
    // In a pipe it is printed, whatever the pager.
    fs::remove_file(&paged).unwrap();
    let printed = city.hd_text(&["diff", "Toast"]).out;
    assert!(printed.contains("+unsaved") && !paged.exists(), "{printed}");
}
