//! Records that several actors read and write: functions on a transaction that wait for nothing.

pub mod agent_hooks;
pub mod agent_work;
pub mod auto_charge;
pub mod automation_chains;
pub mod automation_work;
pub mod automations;
pub mod drums;
pub mod escalations;
pub mod failures;
pub mod handoffs;
pub mod hooks;
pub mod identities;
pub mod identity_sums;
pub(in crate::actors) mod key_values;
pub mod operator_orders;
pub mod outcome_notices;
pub mod quarantine;
pub mod raider_notes;
pub mod rework;
pub mod self_reviews;
pub mod session_ages;
pub mod slots;
pub mod stalls;
pub mod totems;
pub mod void_outcomes;
