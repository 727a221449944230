//! A limit of one session parks its account: no new work starts, and all sessions go on when the limit is over.

use serde_json::{Value, json};

use crate::support::live::{City, until};
use crate::support::plan::Plan;

/// Reports that it is at its limit, and does its task when it is told that the limit is over.
const LIMITED: &str = r#"
[harness.limited]
command = ["sh", "-c", "echo 'at your limit until in 5h'; while read -r line; do case $line in *'limit of your account is over'*) echo a >a && git add a && git commit -qm a && hd done;; esac; done"]
prompt = "arg"
rate_limit_patterns = ['at your limit until (?P<until>in \d+h)']
"#;

fn accounts(city: &City) -> Value {
    city.ask("status", json!({})).unwrap()["accounts"].clone()
}

#[test]
fn limit_parks_the_account_until_a_person_says_that_it_is_over() {
    let city = Plan::new()
        .set("raiders", "harness", r#""limited""#)
        .add(LIMITED)
        .start();
    let relic = city.work("a", &[]);
    until("the account is parked", || {
        accounts(&city)[0]["condition"] == "rate_limited"
    });
    let parked = accounts(&city)[0].clone();
    assert_eq!(parked["account"], "limited");
    assert_eq!(parked["guessed"], false);
    let refused = city.hd(&["run", "-d", "b"]);
    assert_eq!(refused.code, 9, "{refused:?}");
    for said in [
        "was created",
        "at a limit until",
        "hd harness resume limited",
    ] {
        assert!(refused.err.contains(said), "{refused:?}");
    }
    // A text would only meet the limit, and prove nothing.
    let name = city.ask("raider.list", json!({})).unwrap()[0]["name"].clone();
    let sent = city.hd(&["send", name.as_str().unwrap(), "hello"]);
    assert_eq!(sent.code, 9, "{sent:?}");
    for said in ["at a limit until", "hd harness resume limited", "--keys"] {
        assert!(sent.err.contains(said), "{sent:?}");
    }
    assert_eq!(accounts(&city)[0], parked);
    let status = city.hd_text(&["status"]);
    assert!(
        status.out.contains("account limited: at a limit until"),
        "{status:?}"
    );
    assert_eq!(city.hd(&["harness", "resume", "limitd"]).code, 4);
    let resumed = city.hd(&["harness", "resume", "limited"]);
    assert_eq!(resumed.code, 0, "{resumed:?}");
    // The session has its turn within seconds, and lands.
    city.wait_event(1, "relic.closed", &relic);
    assert_eq!(accounts(&city), json!([]));
}
