//! Dialogs of programs that read keys: no text is typed into one by accident, and `hd answer` takes the choice that a
//! person means (issue "nothing types blindly").

use std::path::Path;

use serde_json::{Value, json};

use crate::support::live::{City, until};
use crate::support::plan::Plan;

fn menu() -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/menu.sh");
    format!(
        "\n[harness.menu]\ncommand = [\"sh\", {script:?}]\n\
         [[agents]]\nname = \"mayor\"\nharness = \"menu\"\nprompt = \"p\"\n"
    )
}

fn mayor(city: &City) -> Value {
    city.ask("agent.list", json!({})).unwrap()[0].clone()
}

fn screen(city: &City) -> String {
    let peek = city.ask("peek", json!({ "name": "mayor" })).unwrap();
    peek["text"].as_str().unwrap().to_owned()
}

/// Without the patterns of any harness: the menu is recognised by its looks.
#[test]
fn menu_is_shown_within_seconds_refuses_text_and_is_answered_by_its_keys() {
    for provider in ["holder", "tmux"] {
        if provider == "tmux" && !crate::support::tmux::is_there() {
            continue;
        }
        // The patrol would find the dialog much later: the change of the screen is noticed.
        let city = Plan::new()
            .set("daemon", "patrol_interval", r#""1h""#)
            .set("session", "provider", &format!("{provider:?}"))
            .add(&menu())
            .start();
        until("the menu is shown", || {
            mayor(&city)["condition"] == "needs_input"
        });
        let asking = mayor(&city);
        assert_eq!(asking["detail"], "Allow this tool? rm -rf ./build");
        let choices = json!(["Allow once", "Always allow", "Deny"]);
        assert_eq!(asking["choices"], choices);

        let refused = city.hd(&["send", "mayor", "3"]);
        assert_eq!(refused.code, 7, "{refused:?}");
        for said in ["Allow this tool?", "Deny", "hd answer mayor"] {
            assert!(refused.err.contains(said), "{refused:?}");
        }
        assert!(screen(&city).contains("> Allow once"), "nothing was typed");

        assert_eq!(city.hd(&["answer", "mayor", "Perhaps"]).code, 2);
        let answered = city.hd(&["answer", "mayor", "Deny"]);
        assert_eq!(answered.code, 0, "{answered:?}");
        until("the third choice was taken", || {
            screen(&city).contains("chosen: 3")
        });
        until("the condition is over", || {
            mayor(&city)["condition"].is_null()
        });
        let told = city.wait_event(1, "raider.answered", "mayor");
        assert_eq!(told["data"]["answer"], "Deny");

        assert_eq!(city.hd(&["answer", "mayor", "1"]).code, 4);
        assert_eq!(city.hd(&["send", "mayor", "hello"]).code, 0);
        until("it has the text", || screen(&city).contains("hello"));
    }
}

#[test]
fn keys_are_typed_whatever_is_on_the_screen() {
    let city = Plan::new().add(&menu()).start();
    until("the menu is shown", || {
        mayor(&city)["condition"] == "needs_input"
    });
    assert_eq!(city.hd(&["send", "mayor", "--keys", "Down Enter"]).code, 0);
    until("the second choice was taken", || {
        screen(&city).contains("chosen: 2")
    });
    let wrong = city.hd(&["send", "mayor", "--keys", "Dwon"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert_eq!(city.hd(&["send", "mayor"]).code, 2);
    assert_eq!(city.hd(&["send", "mayor", "x", "--keys", "Up"]).code, 2);
}

/// A stall nudge's Enter would choose the marked row, and that would land.
#[test]
fn stalled_raider_that_shows_a_menu_is_not_nudged() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/menu.sh");
    let city = Plan::new()
        .set("daemon", "patrol_interval", r#""100ms""#)
        .set("raiders", "stall_after", r#""500ms""#)
        .set("raiders", "harness", r#""menu""#)
        .add(&format!(
            "\n[harness.menu]\ncommand = [\"sh\", {script:?}]\n"
        ))
        .start();
    city.work("a", &[]);
    let raider = || city.ask("raider.list", json!({})).unwrap()[0].clone();
    until("the menu is shown", || {
        raider()["condition"] == "needs_input"
    });
    // Patrols see a silence of many times `stall_after`.
    let patrol = || {
        let status = city.ask("status", json!({})).unwrap();
        let at = &status["rigs"][0]["witness"]["last_patrol"];
        at.as_str().unwrap().parse::<jiff::Timestamp>().unwrap()
    };
    let shown = patrol();
    until("five seconds of patrols went by", || {
        patrol().duration_since(shown).as_secs() >= 5
    });
    assert_eq!(raider()["state"], "working");
    let peek = city.ask("peek", json!({ "name": "Toast" })).unwrap();
    let screen = peek["text"].as_str().unwrap();
    assert!(screen.contains("> Allow once"), "{screen}");
    assert!(
        city.happened("raider.nudged", "horde/raiders/Toast")
            .is_empty()
    );
}
