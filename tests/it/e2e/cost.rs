//! Tokens and money of a session whose harness reports its transcript, and a spent budget.

use crate::support::live::until;
use crate::support::plan::Plan;

/// A harness that writes a transcript as claude does, and reports it.
const SPENDER: &str = r#"
[harness.spender]
command = ["sh", "-c", '''
dir="$CLAUDE_CONFIG_DIR/projects/p"; mkdir -p "$dir"
echo '{"message":{"id":"m1","model":"dear-1","usage":{"input_tokens":1000000,"output_tokens":500000}},"type":"assistant"}' >"$dir/c.jsonl"
printf '{"hook_event_name":"SessionStart","session_id":"c","transcript_path":"%s"}' "$dir/c.jsonl" | hd hook-event claude
echo '{"hook_event_name":"Stop"}' | hd hook-event claude
exec sleep 600''']
prompt = "file"
hooks = "claude"
env = { CLAUDE_CONFIG_DIR = "{city}/settings" }
prices = { "dear-*" = { input = 2.0, output = 4.0 } }
budget = { usd_per_day = 3.5 }
"#;

#[test]
fn cost_of_a_session_is_told_and_a_spent_budget_parks_new_work() {
    let city = Plan::new()
        .set("raiders", "harness", "\"spender\"")
        .add(SPENDER)
        .start();
    let relic = city.relic("first", &[]);
    city.charge(&relic);
    let cost = || city.hd(&["cost", "--by", "relic"]).json();
    until("the transcript is read", || {
        cost()["total"]["input"] == 1_000_000
    });
    let told = cost();
    assert_eq!(told["rows"][0]["key"], relic.as_str(), "{told}");
    assert_eq!(told["rows"][0]["usd"], 4.0, "{told}");
    let status = city.hd(&["status"]).json();
    assert_eq!(status["usage"]["today"]["usd"], 4.0);
    let raider = &status["rigs"][0]["raiders"][0];
    assert_eq!(raider["usage"]["relic"]["output"], 500_000);
    let metrics = city.hd(&["metrics"]).json();
    let text = metrics["text"].as_str().unwrap();
    assert!(
        text.contains("horde_cost_today_usd{harness=\"spender\"} 4\n"),
        "{text}"
    );

    assert!(text.contains("horde_rig_cost_today_usd{rig=\"horde\"} 4\n"));
    let by_session = city.hd(&["cost", "--by", "session"]).json();
    assert_eq!(by_session["rows"][0]["usd"], 4.0, "{by_session}");
    let spent = &status["budgets"][0];
    assert_eq!(
        (&spent["of"], &spent["parks"]),
        (&"harness spender".into(), &true.into())
    );
    let screen = city.hd_text(&["status"]);
    let said = "! the budget of harness spender is spent: 4.00 of 3.50 USD today; new work is charged after ";
    assert!(screen.out.contains(said), "{screen:?}");

    let second = city.relic("second", &[]);
    let refused = city.hd(&["charge", &second, "horde"]).error(9);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("harness spender is spent"), "{message}");
    assert_eq!(city.status_of(&second), "open");
    city.hd(&["charge", &second, "horde", "--harness", "script"])
        .json();
}
