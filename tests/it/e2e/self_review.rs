//! The self-review loop: at most `max_reviews` failed rounds, then the outcome is `stuck` (`agent-lifecycle.md`,
//! section 4).

use crate::support::live::City;

/// Rounds are recorded and shown; a pass after a failed round lets the work land.
#[test]
fn rounds_of_self_review_are_recorded_and_shown() {
    let city = City::new();
    let relic = city.work(
        "review it",
        &[
            "commit a.txt",
            "try first hd --json review failed -m 'no test of the flag'",
            "commit b.txt",
            "try second hd --json review passed",
            "try rally hd --json rally",
            "await go",
            "hd done",
        ],
    );
    let first = city.wait_tried("first").json();
    assert_eq!(
        (&first["round"], &first["verdict"], &first["left"]),
        (&1.into(), &"failed".into(), &1.into())
    );
    let second = city.wait_tried("second").json();
    assert_eq!((&second["round"], &second["left"]), (&2.into(), &1.into()));
    let rally = city.wait_tried("rally").json();
    assert_eq!(rally["self_reviews"][0]["note"], "no test of the flag");
    assert_eq!(rally["self_reviews_left"], 1);
    city.sign("go");
    city.wait_status(&relic, "closed");
    let mr = &city.hd(&["mq", "list"]).json()[0]["id"];
    let shown = city.hd(&["mq", "show", mr.as_str().unwrap()]).json();
    let rounds = shown["self_reviews"].as_array().unwrap();
    let verdicts: Vec<_> = rounds.iter().map(|round| &round["verdict"]).collect();
    assert_eq!(verdicts, ["failed", "passed"]);
    assert_eq!(
        city.happened("raider.reviewed", "horde/raiders/Toast")
            .len(),
        2
    );
}

/// After the last failed round neither another round, nor `hd done`, nor the outcome `passed` completes the work.
#[test]
fn after_the_last_failed_round_the_outcome_must_be_stuck() {
    let city = City::new();
    let relic = city.work(
        "never good enough",
        &[
            "commit a.txt",
            "hd review failed",
            "hd review failed -m 'still wrong'",
            "try third hd --json review passed",
            "try finish hd --json done",
            "try later hd --json done --status deferred --reason later",
            "try blank hd --json review stuck",
            "outcome passed",
            "await go",
            "hd review stuck -m 'the two requirements contradict each other'",
            "forever",
        ],
    );
    let third = city.wait_tried("third").error(1);
    assert_eq!(third["kind"], "conflict", "{third}");
    let finish = city.wait_tried("finish").error(2);
    assert!(
        finish["hint"].as_str().unwrap().contains("hd review stuck"),
        "{finish}"
    );
    city.wait_tried("later").error(2);
    city.wait_tried("blank").error(2);
    // The outcome file is refused too, and the session is told why.
    let told = city.wait_event(1, "raider.nudged", "horde/raiders/Toast");
    assert!(
        told["data"]["why"]
            .as_str()
            .unwrap()
            .contains("self-reviews"),
        "{told}"
    );
    assert_eq!(city.status_of(&relic), "hooked");
    city.sign("go");
    city.wait_status(&relic, "blocked");
    let stuck = city.wait_event(1, "raider.stuck", "horde/raiders/Toast");
    assert!(stuck["data"].to_string().contains("contradict"), "{stuck}");
    let last = city.wait_event(3, "raider.reviewed", "horde/raiders/Toast");
    assert_eq!(last["data"]["verdict"], "stuck", "{last}");
    assert!(!city.landed().contains(&"a.txt".to_owned()));
}

/// The next raider on the relic begins its own rounds.
#[test]
fn a_fresh_raider_begins_with_no_failed_rounds() {
    let city = City::new();
    let relic = city.work(
        "twice",
        &[
            "[ $n != 1 ] || { commit a.txt; hd review failed; hd review failed; hd review stuck -m why; forever; }",
            "commit b.txt",
            "hd review failed",
            "hd review passed",
            "hd done",
        ],
    );
    city.wait_status(&relic, "blocked");
    city.wait_no_raiders();
    assert_eq!(city.hd(&["relic", "reopen", &relic]).code, 0);
    // The first incarnation of another slot has the same number.
    let again = city.hd(&["charge", &relic, "horde", "--name", "Nux"]);
    assert_eq!(again.code, 0, "{again:?}");
    city.wait_status(&relic, "closed");
    assert!(city.landed().contains(&"b.txt".to_owned()));
}
