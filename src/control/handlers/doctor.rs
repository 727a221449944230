//! `doctor`: findings about the city. A caller with read rights gets the findings; only a caller with full rights may
//! have them fixed.

use std::sync::Arc;

use serde_json::Value;

use super::{caller, rights_of, to_json};
use crate::actors::doctor;
use crate::actors::world::World;
use crate::control::protocol::args::Doctor;
use crate::control::protocol::{ControlError, OpName, answers};
use crate::control::rights;
use crate::control::server::Caller;
use crate::domain::unattended;

pub(super) async fn doctor(
    world: &Arc<World>,
    caller: &Caller,
    args: Doctor,
) -> Result<Value, ControlError> {
    if args.fix {
        let rights_of = |session: &_| rights_of(world, session);
        rights::check_acting(&caller.who, OpName::Doctor, rights_of)?;
    }
    let asker = match args.fix {
        true => Some(caller::asker(world, caller).await),
        false => None,
    };
    let findings = doctor::run(world, asker.as_ref()).await?;
    let ok = findings.iter().all(|finding| finding.fixed);
    to_json(&answers::Doctor {
        ok,
        findings,
        git: doctor::git(world).await,
        environment: unattended::shown(&world.env),
    })
}
