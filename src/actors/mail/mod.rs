//! Messages between actors: one file per receiver, and shared types. No behaviour, so that an actor can message another
//! without depending on it.

mod child;
mod child_ref;
mod config;
mod dispatcher;
mod forge;
mod requests;
mod root;
mod shaman;
mod witness;

pub use self::child::{
    ChildSpec, ChildView, How, SessionView, Work, Written, agent_spec, raider_spec,
};
pub use self::child_ref::{ChildRef, incarnation};
pub use self::config::{Applied, ConfigMsg, HeldRigs, Outcome};
pub use self::dispatcher::DispatcherMsg;
pub use self::forge::{ForgeMsg, LandOutcome, LaneTurn};
pub use self::requests::{
    Accepted, BatchedCharge, Cancel, ChargeBatch, ChargeRequest, DoneRequest, NukeTarget,
};
pub use self::root::{Order, PoolView, Reload, RootMail, StopEnd, StopMode};
pub use self::shaman::ShamanMsg;
pub use self::witness::WitnessMsg;
pub use crate::domain::answers::{Charged, Nuked, Reloaded};
pub use crate::domain::child::{ChildState, EndRefused};

/// The address of an actor, for senders that do not depend on it.
pub type Address<M> = ractor::DerivedActorRef<M>;
