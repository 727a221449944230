//! Who may ask what (`2-contract.md`, 2.4; `4-rules.md`, security). A pure table, looked at before
//! the arguments are.
//!
//! ```text
//!              look   call   own   work   operate
//!   operator    ✓      ✓      ·      ✓       ✓       a person or program outside every session
//!   raider      ✓      ✓      ✓      ·       ·       inside a raider's session: only as that raider
//!   agent       ✓      ✓      ✓*     ✓       ·       inside a standing agent's session (*: handoff; done ends a drain)
//!   invisible   ✓      ·      ·      ·       ·       its process cannot be seen
//! ```

use crate::domain::ids::SessionId;

use super::protocol::{ControlError, OpName};

/// Who calls, recognised by the process and never by what it says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Who {
    /// Nobody's session.
    Operator,
    /// A process of a raider's session.
    Raider(SessionId),
    /// A process of a standing agent's session.
    Agent(SessionId),
    /// It cannot be told.
    Invisible,
}

impl Who {
    /// The session that the caller is in.
    #[must_use]
    pub fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Raider(session) | Self::Agent(session) => Some(session),
            Self::Operator | Self::Invisible => None,
        }
    }
}

/// What an operation takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// It only reads.
    Look,
    /// It calls a person: a session about itself, an operator about anybody.
    Call,
    /// It acts on the caller's own session.
    Own,
    /// It makes or moves work.
    Work,
    /// It acts on others, or on the city.
    Operate,
}

fn need(op: OpName) -> Need {
    match op {
        OpName::Ping
        | OpName::Status
        | OpName::Metrics
        | OpName::Rally
        | OpName::Hook
        | OpName::RelicShow
        | OpName::RelicList
        | OpName::RaiderList
        | OpName::RaiderShow
        | OpName::Peek
        | OpName::Logs
        | OpName::AgentList
        | OpName::MqList
        | OpName::MqShow
        | OpName::AutoList
        | OpName::AutoHistory
        | OpName::Events
        | OpName::Why
        | OpName::SalvageList
        | OpName::SalvageShow
        | OpName::Escalations
        | OpName::ConfigShow => Need::Look,
        OpName::Escalate => Need::Call,
        OpName::Done | OpName::Handoff => Need::Own,
        OpName::Run
        | OpName::Charge
        | OpName::RelicCreate
        | OpName::RelicClose
        | OpName::RelicReopen => Need::Work,
        // The terminal that `attach` leads to can be typed into.
        OpName::Attach
        | OpName::Send
        | OpName::Stop
        | OpName::RaiderNuke
        | OpName::RaiderRepair
        | OpName::AgentStart
        | OpName::AgentStop
        | OpName::AgentRestart
        | OpName::AgentSuspend
        | OpName::AgentResume
        | OpName::AgentUnquarantine
        | OpName::RaiderSuspend
        | OpName::RaiderResume
        | OpName::Reload
        | OpName::MqRetry
        | OpName::MqApprove
        | OpName::MqReject
        | OpName::EscalationsAck
        | OpName::AutoRun
        | OpName::AutoEnable
        | OpName::AutoDisable
        | OpName::SalvageRestore
        | OpName::SalvagePrune => Need::Operate,
    }
}

/// Whether the caller may ask for the operation.
///
/// # Errors
/// `forbidden`, with the reason.
pub fn check(who: &Who, op: OpName) -> Result<(), ControlError> {
    let need = need(op);
    let allowed = match who {
        Who::Operator => need != Need::Own,
        Who::Raider(_) => matches!(need, Need::Look | Need::Call | Need::Own),
        Who::Agent(_) => need != Need::Operate,
        Who::Invisible => need == Need::Look,
    };
    if allowed {
        return Ok(());
    }
    Err(match who {
        Who::Operator => ControlError::forbidden(format!(
            "{op} is called from inside a session, and this process is in none"
        ))
        .hint("a raider calls it; to act on one from outside see `hd raider --help`"),
        Who::Raider(session) => ControlError::forbidden(format!(
            "a raider may act only as itself, and {op} is not its own ({session})"
        ))
        .hint("done, handoff, escalate, hook, rally and what only reads are yours"),
        Who::Agent(session) => {
            ControlError::forbidden(format!("{op} is not an agent's to do ({session})"))
                .hint("ask a person to do it")
        }
        Who::Invisible => ControlError::forbidden(format!(
            "{op} changes something, and the calling process cannot be seen"
        ))
        .hint("call from the same pid namespace as the supervisor"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::protocol::ErrorKind;

    fn allowed(who: &Who) -> Vec<&'static str> {
        let all = OpName::ALL.iter().copied();
        all.filter(|op| check(who, *op).is_ok())
            .map(OpName::as_str)
            .collect()
    }

    #[test]
    fn a_raider_acts_only_as_itself() {
        let raider = Who::Raider(SessionId::new("gt-horde-Toast").unwrap());
        let mut expected = allowed(&Who::Invisible);
        expected.extend(["done", "handoff", "escalate"]);
        let (mut may, mut expected) = (allowed(&raider), expected);
        may.sort_unstable();
        expected.sort_unstable();
        assert_eq!(may, expected);
        assert!(check(&raider, OpName::AutoRun).is_err());
        let error = check(&raider, OpName::RaiderNuke).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Forbidden);
    }

    #[test]
    fn who_cannot_be_seen_only_looks() {
        assert_eq!(
            allowed(&Who::Invisible),
            [
                "ping",
                "status",
                "metrics",
                "rally",
                "hook",
                "relic.show",
                "relic.list",
                "raider.list",
                "raider.show",
                "peek",
                "logs",
                "agent.list",
                "mq.list",
                "mq.show",
                "auto.list",
                "auto.history",
                "events",
                "why",
                "salvage.list",
                "salvage.show",
                "escalations",
                "config.show"
            ]
        );
    }

    #[test]
    fn an_operator_does_all_but_speak_for_a_session() {
        let operator = allowed(&Who::Operator);
        let missing: Vec<_> = OpName::ALL
            .iter()
            .map(|op| op.as_str())
            .filter(|op| !operator.contains(op))
            .collect();
        assert_eq!(missing, ["done", "handoff"]);
    }

    #[test]
    fn an_agent_makes_work_and_ends_nothing() {
        let agent = Who::Agent(SessionId::new("city-mayor").unwrap());
        for op in [
            OpName::Charge,
            OpName::RelicCreate,
            OpName::Handoff,
            OpName::Done,
            OpName::Escalate,
        ] {
            assert!(check(&agent, op).is_ok(), "{op}");
        }
        for op in [
            OpName::RaiderNuke,
            OpName::Stop,
            OpName::Send,
            OpName::Reload,
            OpName::SalvagePrune,
            OpName::EscalationsAck,
        ] {
            assert!(check(&agent, op).is_err(), "{op}");
        }
    }
}
