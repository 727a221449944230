//! A look that hangs, most likely at a directory that does not answer.

use super::{WitnessArgs, inbox};
use crate::actors::records::escalations;
use crate::domain::ids::RigName;
use crate::domain::message::{self, Escalation};
use crate::domain::problem::ProblemKind;
use crate::ports::relics::{StoreError, Txn};

/// Calls a person about a look that hangs.
pub(super) async fn call(args: &WitnessArgs) {
    let body = Escalation::high(
        message::witness(&args.rig),
        ProblemKind::LookHangs,
        "until it finishes, messages and zombies of this rig are not handled; check for a \
            disk or a network mount that does not answer",
    );
    or_warn!(inbox::raise(args, body).await, rig = %args.rig,
        "the escalation about a hanging look could not be stored; no person is called");
}

/// Closes the escalation about a hanging look, also that of an earlier witness.
///
/// # Errors
/// The store's.
pub(super) fn close(txn: &mut dyn Txn, rig: &RigName) -> Result<(), StoreError> {
    let witness = message::witness(rig);
    escalations::close_matching(txn, &[ProblemKind::LookHangs], |who, _| who == witness)
}
