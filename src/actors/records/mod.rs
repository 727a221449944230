//! Records that several actors read and write: functions on a transaction that wait for nothing.

pub mod automations;
pub mod escalations;
pub mod failures;
pub mod operator_orders;
pub mod quarantine;
pub mod slots;
