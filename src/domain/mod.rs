//! PURE decisions and the words they are made of: no tokio, files, processes, clock, environment
//! or logging. Facts come in, actions and verdicts go out; time is an argument.

pub mod age;
pub mod agents;
pub mod automation;
pub mod cause;
pub mod city;
pub mod cv;
pub mod doctor;
pub mod escalation;
pub mod event;
pub mod facts;
pub mod gates;
pub mod harness;
pub mod holder_wire;
pub mod ids;
pub mod merge;
pub mod message;
pub mod notify;
pub mod nuke;
pub mod outcome;
pub mod pools;
pub mod prompt;
pub mod question;
pub mod raider;
pub mod reconcile;
pub mod relic;
pub mod reload;
pub mod restart;
pub mod saga;
pub mod session_env;
pub mod slots;
pub mod stall;
pub mod suggest;
pub mod terminal_log;
pub mod wisp;
pub mod zombie;
