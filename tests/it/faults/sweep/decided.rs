//! Stories in which a person decides about the work: it is cancelled, or rejected and then approved.

use horde_supervisor::control::protocol::{ControlError, ErrorKind};
use horde_supervisor::domain::saga::FaultPoint;
use serde_json::{Value, json};

use super::{Case, accept, assert_salvaged, charge, charge_again, until_gone};
use crate::faults::plan;
use crate::support::live::{City, wait};

/// The supervisor may be killed after it has ended the session and before it has noted the order: then another one starts.
const CHANGE: &str = "grep -q changed README || echo changed >> README";

/// Cancelled work ends closed, and nothing takes it up again.
pub(super) fn cancel(case: Case) {
    let mut city = City::made(&plan());
    let script = |name: &str| format!("echo precious > new; {CHANGE}; sign {name}; forever");
    let relics = case.begin(&mut city, script);
    relics.iter().for_each(|(name, _)| city.wait_sign(name));
    let raiders = city.raiders();
    let cancel = |city: &City, relic: &str| {
        let args = json!({ "relic": relic, "reason": "not needed", "yes": true });
        city.ask("relic.cancel", args)
    };
    for (_, relic) in &relics {
        accept(cancel(&city, relic), ErrorKind::Unavailable);
    }
    case.crash(&mut city);
    for (_, relic) in &relics {
        until_gone("the relic is cancelled", || cancel(&city, relic));
    }
    city.assert_quiet();
    assert_salvaged(&city, &raiders);
    for (_, relic) in &relics {
        let refused = city.ask("charge", charge(relic)).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Conflict, "{refused:?}");
        assert_eq!(city.status_of(relic), "closed");
        assert_eq!(city.happened("relic.closed", relic).len(), 1);
        let updated = city.happened("relic.updated", relic);
        let reopened = updated
            .iter()
            .any(|event| event["data"]["status"] == "open");
        assert!(!reopened, "{updated:?}");
        let mut charged = city.all_of("raider.charged");
        charged.retain(|event| event["data"]["relic"] == relic.as_str());
        assert_eq!(charged.len(), 1, "{charged:?}");
    }
    city.stop();
}

/// The part of a review in which the daemon dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// The work is submitted for the first time.
    Submitted,
    /// It is submitted again, after its rejection.
    Again,
    /// It is approved.
    Approved,
}

/// Returns true where each review passes the point twice.
pub(super) fn is_passed_twice(point: FaultPoint) -> bool {
    use FaultPoint as P;
    matches!(
        point,
        P::DoneIntentBefore
            | P::DoneIntentAfter
            | P::DonePushBefore
            | P::DonePushAfter
            | P::DoneSubmitBefore
            | P::DoneSubmitAfter
    )
}

fn when(case: Case) -> When {
    use FaultPoint as P;
    match case.point {
        P::LandIntentBefore
        | P::LandIntentAfter
        | P::LandPushBefore
        | P::LandPushAfter
        | P::MergedCloseBefore
        | P::MergedCloseAfter => When::Approved,
        _ if case.nth > case.raiders => When::Again,
        _ => When::Submitted,
    }
}

/// Rejected work goes back to its live session, and lands when a person approves it.
pub(super) fn review(case: Case) {
    let mut city = City::made(&plan().set("forge", "review", r#""human""#));
    let relics = case.begin(&mut city, reviewed);
    let when = when(case);
    if when == When::Submitted {
        case.crash(&mut city);
        charge_again(&city, &relics);
    }
    let submitted = |city: &City, earlier: &[Value]| -> Vec<Value> {
        let all = relics.iter();
        all.map(|(_, relic)| for_review(city, relic, earlier))
            .collect()
    };
    let first = submitted(&city, &[]);
    for (_, relic) in &relics {
        // Adopted by the daemon that was started again.
        city.wait_session(relic, 1);
    }
    for mr in &first {
        let args = || json!({ "mr": mr, "note": "more is missing", "yes": true });
        let rejected = once_submitted(|| city.ask("mq.reject", args()));
        assert!(rejected["back_to"].is_string(), "{rejected}");
    }
    city.sign("rejected");
    if when == When::Again {
        case.crash(&mut city);
    }
    let second = submitted(&city, &first);
    let approve = |city: &City, mr: &Value| city.ask("mq.approve", json!({ "mr": mr }));
    for mr in &second {
        if when == When::Approved {
            accept(approve(&city, mr), ErrorKind::Unavailable);
        } else {
            once_submitted(|| approve(&city, mr));
        }
    }
    if when == When::Approved {
        case.crash(&mut city);
        for mr in &second {
            once_submitted(|| approve(&city, mr));
        }
    }
    city.assert_landed(&relics);
    for (name, relic) in &relics {
        assert!(city.landed().contains(&format!("more-{name}")));
        assert_eq!(city.sessions_of(relic), 1, "the session stayed");
        let states: Vec<_> = city
            .mrs(relic)
            .iter()
            .map(|mr| mr["state"].clone())
            .collect();
        assert_eq!(states, ["rejected", "merged"]);
    }
    // A rejected head that landed with other commits under it is kept.
    let salvages = city.answer("salvage.list", json!({}));
    let mut kept = salvages.as_array().expect("a list").iter();
    assert!(
        kept.all(|salvage| salvage["reason"] == "superseded"),
        "{salvages}"
    );
    city.stop();
}

/// Returns the commands of a session that is reviewed: it adds to its work when that was rejected. A `hd done` that finds
/// no supervisor is repeated.
fn reviewed(name: &str) -> String {
    format!(
        "mkdir -p work; echo '{name}' > work/{name}; git add work/{name}\n\
         git diff --cached --quiet || git commit -q -m 'Work on {name}'\n\
         until hd done || [ -e $signs/rejected ]; do sleep 0.05; done\n\
         await rejected\n\
         commit more-{name}\n\
         until hd done; do sleep 0.05; done\n\
         forever"
    )
}

/// Repeats a decision that is refused while the work is being submitted.
fn once_submitted(mut decide: impl FnMut() -> Result<Value, ControlError>) -> Value {
    wait("the decision is accepted", || match decide() {
        Ok(decided) => Some(decided),
        Err(refused) => {
            accept(Err(refused), ErrorKind::Conflict);
            None
        }
    })
}

/// Waits until a merge request of the relic, other than these, waits for a person. Returns its id.
fn for_review(city: &City, relic: &str, earlier: &[Value]) -> Value {
    wait(&format!("{relic} waits for its review"), || {
        let mut mrs = city.mrs(relic).into_iter();
        let waits = mrs.find(|mr| mr["state"] == "reviewing" && !earlier.contains(&mr["id"]))?;
        Some(waits["id"].clone())
    })
}
