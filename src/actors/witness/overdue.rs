//! A look that does not come to an end: a directory that does not answer, most likely.

use super::super::refusal::Refusal;
use super::super::shaman;
use super::{WitnessArgs, inbox};
use crate::domain::message::{self, Escalation, Severity};

const PROBLEM: &str = "its look at the raiders does not come to an end";

/// Calls a person.
pub(super) async fn call(args: &WitnessArgs) {
    let body = Escalation {
        agent: message::witness(&args.rig),
        relic: None,
        problem: PROBLEM.to_owned(),
        severity: Severity::High,
        evidence:
            "until it does, nothing of this rig is noticed: neither messages nor zombies; look for \
                   a disk or a network mount that does not answer"
                .to_owned(),
    };
    report(args, inbox::raise(args, body).await);
}

/// It has come to its end after all.
pub(super) async fn over(args: &WitnessArgs) {
    let who = message::witness(&args.rig);
    let settled = args
        .world
        .store
        .run(move |txn| shaman::no_more(txn, &who, PROBLEM));
    report(args, settled.await.map_err(Refusal::from));
}

fn report(args: &WitnessArgs, told: Result<(), Refusal>) {
    if let Err(error) = told {
        tracing::warn!(rig = %args.rig, %error, "a look that takes long could not be told of");
    }
}
