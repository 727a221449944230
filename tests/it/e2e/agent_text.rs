//! Text of agents reaches people as plain text: titles, names of files, output of gates, terminals.

use horde_supervisor::domain::shown::is_hidden;
use serde_json::json;

use crate::support::live::{City, Ran};
use crate::support::plan::Plan;

/// For `printf`: sets the clipboard, moves the cursor, begins a control with one byte, turns the text round, hides a
/// character.
const NASTY: &str = r"N\033]52;c;eA==\007\033[2J\010\177\302\2335n\342\200\256\342\200\213Y";
const TITLE: &str = "T\u{1b}]0;x\u{7}\u{1b}[2J\u{7f}\u{9b}5n\u{202e}\u{2066}\u{200b}Z";

fn assert_safe(words: &[&str], ran: &Ran) {
    for said in [&ran.out, &ran.err] {
        let hidden = said
            .chars()
            .find(|c| !matches!(c, '\n' | '\t') && is_hidden(*c));
        assert_eq!(hidden, None, "hd {words:?}: {said:?}");
    }
}

fn outputs(city: &City, words: &[&str]) -> [Ran; 2] {
    let ran = [city.hd_text(words), city.hd(words)];
    ran.iter().for_each(|ran| assert_safe(words, ran));
    ran
}

/// Whichever verb shows it, to a person or as JSON, on standard output or as an error.
/// Case views of an adversary: control characters in the views of `hd`.
#[test]
fn text_of_an_agent_never_steers_the_terminal_of_a_person() {
    let gate = format!(
        r#"[{{ name = "test", run = '''[ ! -e a.txt ] || {{ printf "{NASTY}"; exit 1; }}''', retries = 0 }}]"#
    );
    let talk = format!("printf \"{NASTY}\\n\"; sleep 1000");
    let plan = Plan::new().set("forge", "gates", &gate);
    let city = plan
        .set("forge", "rework_attempts", "0")
        .agent("talk", &talk, "")
        .start();
    let stays = city.work(
        TITLE,
        &[
            &format!("printf '{NASTY}' >\"$(printf '{NASTY}')\""),
            &format!("printf '{NASTY}\\n'"),
            "sign ready",
            "forever",
        ],
    );
    city.wait_sign("ready");
    let fails = city.work(
        TITLE,
        &[
            "commit a.txt",
            &format!("hd done --reason \"$(printf '{NASTY}')\""),
        ],
    );
    city.wait_status(&fails, "blocked");
    for words in [
        &["status"][..],
        &["events"],
        &["why", "Toast"],
        &["peek", "Toast"],
        &["peek", "talk"],
        &["logs", "Toast"],
        &["logs", "talk"],
        &["raider", "list"],
        &["raider", "show", "Toast"],
        &["relic", "list"],
        &["relic", "show", &stays],
        &["relic", "show", &fails],
        &["mq", "list"],
        &["escalations"],
        &["raider", "nuke", "Toast", "--dry-run"],
        &["doctor"],
    ] {
        outputs(&city, words);
    }
    let refused = outputs(&city, &["raider", "nuke", "Toast", "--yes"]);
    for ran in refused {
        assert_eq!(ran.code, 5, "{ran:?}");
        assert!(ran.err.contains('N') && ran.err.contains('Y'), "{ran:?}");
    }
    let title = city.hd(&["relic", "show", &stays]).json()["title"].clone();
    assert_eq!(title, json!(TITLE), "JSON means the same");
    let shown = city.hd_text(&["relic", "show", &stays]).out;
    assert!(shown.contains("\\x1b]0;x\\x07"), "{shown}");
}
