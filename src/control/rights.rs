//! The rights of callers (`contract.md`, 2.4; `rules.md`, security): a pure table, checked before the arguments are
//! read.
//!
//! ```text
//!                 look   call   own   work   operate
//!   operator       ✓      ✓      ·      ✓       ✓       a person or program outside every session
//!   raider         ✓      ✓      ✓      ·       ·       inside a raider's session: only as that raider
//!   agent, read    ✓      ✓      ✓*     ·       ·       inside a standing agent's session, as `rights` of that
//!          work    ✓      ✓      ✓*     ✓       ·       agent says at this moment (*: only AGENTS_OWN)
//!          all     ✓      ✓      ✓*     ✓       ✓
//!   errand, read   ✓      ·      ·      ·       ·       run by the supervisor on what agents wrote: gate, set-up
//!           work   ✓      ✓      ·      ✓       ·       an automation that a rig's repository carries
//!   invisible      ✓      ·      ·      ·       ·       its process cannot be seen, or what it is cannot be told
//! ```
//!
//! Commands that the supervisor runs for the city's owner (the city's automations, the checks of pools) have the rights
//! of an operator. Handlers check more, which depends on the arguments or on records: `docs/architecture.md`, Rights.

use crate::domain::city::Rights;
use crate::domain::ids::SessionId;

use super::protocol::{ControlError, Need, OpName};

/// The caller, recognised by its process and never by its words.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CallerRole {
    /// A process outside every session.
    Operator,
    /// A process of a raider's session.
    Raider(SessionId),
    /// A process of a standing agent's session.
    Agent(SessionId),
    /// A process that the supervisor started for itself, with its rights.
    OwnCommand(Rights),
    /// A process that cannot be recognised.
    Unrecognised,
}

impl CallerRole {
    /// Returns the session that the caller is in.
    #[must_use]
    pub fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Raider(session) | Self::Agent(session) => Some(session),
            Self::Operator | Self::OwnCommand(_) | Self::Unrecognised => None,
        }
    }

    /// Returns the caller's name in the journal.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Raider(session) | Self::Agent(session) => session.as_str(),
            Self::Operator => "operator",
            Self::OwnCommand(_) => "errand",
            Self::Unrecognised => "invisible",
        }
    }
}

/// The operations on its own session that a standing agent may call; the others are for raiders, which work on a relic
/// in a sandbox. `docs/guide/trust.md` lists them.
pub const AGENTS_OWN: &[OpName] = &[
    OpName::Done,
    OpName::Handoff,
    OpName::HookEvent,
    OpName::Hook,
    OpName::StepDone,
];

/// Returns whether these rights suffice for an operation on anything but the caller's own session.
fn grants(rights: Rights, need: Need) -> bool {
    match need {
        Need::Look => true,
        Need::Own => false,
        Need::Work | Need::Call => rights >= Rights::Work,
        Need::Operate => rights >= Rights::All,
    }
}

/// Returns the word of `rights` in `city.toml`.
fn level(rights: Rights) -> &'static str {
    match rights {
        Rights::Read => "read",
        Rights::Work => "work",
        Rights::All => "all",
    }
}

/// Checks that the caller may ask for the operation. An agent's rights are read for each request, because a reload
/// changes them.
///
/// # Errors
/// `forbidden`, with the reason.
pub fn check(
    who: &CallerRole,
    op: OpName,
    rights_of: impl FnOnce(&SessionId) -> Rights,
) -> Result<(), ControlError> {
    allow(who, op, op.need(), rights_of)
}

/// Checks that the caller may have the operation act where it otherwise only reads, such as `doctor --fix`.
///
/// # Errors
/// `forbidden`, with the reason.
pub fn check_acting(
    who: &CallerRole,
    op: OpName,
    rights_of: impl FnOnce(&SessionId) -> Rights,
) -> Result<(), ControlError> {
    allow(who, op, Need::Operate, rights_of)
}

fn allow(
    who: &CallerRole,
    op: OpName,
    need: Need,
    rights_of: impl FnOnce(&SessionId) -> Rights,
) -> Result<(), ControlError> {
    let allowed = match who {
        CallerRole::Operator => grants(Rights::All, need),
        CallerRole::Raider(_) => {
            matches!(need, Need::Own | Need::Call) || grants(Rights::Read, need)
        }
        CallerRole::Agent(session) => match need {
            Need::Own => AGENTS_OWN.contains(&op),
            Need::Call => true,
            Need::Look | Need::Work | Need::Operate => grants(rights_of(session), need),
        },
        CallerRole::OwnCommand(rights) => grants(*rights, need),
        CallerRole::Unrecognised => grants(Rights::Read, need),
    };
    if allowed {
        return Ok(());
    }
    Err(match who {
        CallerRole::Operator => ControlError::forbidden(format!(
            "{op} must be called from inside a session, and this process is not in one"
        ))
        .hint(match op {
            OpName::StepDone => "a person closes a step with `hd relic close STEP`",
            _ => "only a session calls it; to act on a raider from outside see `hd raider --help`",
        }),
        CallerRole::Raider(session) => ControlError::forbidden(format!(
            "a raider may act only on itself, and {op} acts on more ({session})"
        ))
        .hint("allowed: done, handoff, wait, step done, review, escalate, hook, rally, drums and all verbs that only read"),
        CallerRole::Agent(session) if need == Need::Own => ControlError::forbidden(format!(
            "only a raider may call {op}, and this is the session of a standing agent ({session})"
        )),
        CallerRole::Agent(session) => {
            ControlError::forbidden(format!("this agent has no right to {op} ({session})"))
                .hint("ask a person to do it, or to raise `rights` of the agent in city.toml")
        }
        CallerRole::OwnCommand(rights) => ControlError::forbidden(format!(
            "a command that the supervisor runs has no right to {op} (its rights: {})",
            level(*rights)
        ))
        .hint("ask a person to do it"),
        CallerRole::Unrecognised => ControlError::forbidden(format!(
            "{op} changes something, and the supervisor cannot see where the calling process comes from: it has ended, \
             runs in another pid namespace, or names a session that it does not belong to"
        ))
        .hint("call it from the pid namespace of the supervisor, without the HD_ variables of a \
        session, and wait for the answer"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::protocol::ErrorKind;

    fn session(name: &str) -> SessionId {
        SessionId::new(name).unwrap()
    }

    fn allowed(who: &CallerRole, rights: Rights) -> Vec<OpName> {
        let all = OpName::ALL.iter().copied();
        all.filter(|op| check(who, *op, |_| rights).is_ok())
            .collect()
    }

    fn needing(needs: &[Need]) -> Vec<OpName> {
        let all = OpName::ALL.iter().copied();
        all.filter(|op| needs.contains(&op.need())).collect()
    }

    #[test]
    fn the_table_holds_for_every_operation() {
        use Need::{Call, Look, Operate, Own, Work};
        let raider = CallerRole::Raider(session("gt-horde-Toast"));
        let agent = CallerRole::Agent(session("city-mayor"));
        let rows: [(&CallerRole, Rights, &[Need]); 8] = [
            (
                &CallerRole::Operator,
                Rights::Read,
                &[Look, Call, Work, Operate],
            ),
            // The rights of an agent mean nothing for a raider.
            (&raider, Rights::All, &[Look, Call, Own]),
            (&agent, Rights::Read, &[Look, Call, Own]),
            (&agent, Rights::Work, &[Look, Call, Own, Work]),
            (&agent, Rights::All, &[Look, Call, Own, Work, Operate]),
            (&CallerRole::OwnCommand(Rights::Read), Rights::All, &[Look]),
            (
                &CallerRole::OwnCommand(Rights::Work),
                Rights::All,
                &[Look, Call, Work],
            ),
            (&CallerRole::Unrecognised, Rights::All, &[Look]),
        ];
        for (who, rights, needs) in rows {
            let is_agent = matches!(who, CallerRole::Agent(_));
            let mut expected = needing(needs);
            expected.retain(|op| !is_agent || op.need() != Own || AGENTS_OWN.contains(op));
            assert_eq!(allowed(who, rights), expected, "{who:?} {rights:?}");
        }
    }

    #[test]
    fn what_an_agent_may_call_on_itself_is_of_that_kind_and_documented() {
        let trust = include_str!("../../docs/guide/trust.md");
        let row = |line: &&str| line.starts_with("| a standing agent's session");
        let row = trust.lines().find(row).unwrap();
        for op in needing(&[Need::Own]) {
            let verb = format!("`{}`", op.as_str().replace('.', " "));
            assert_eq!(row.contains(&verb), AGENTS_OWN.contains(&op), "{verb}");
        }
        assert!(AGENTS_OWN.iter().all(|op| op.need() == Need::Own));
    }

    /// A new operation must be added to this list if it only reads.
    #[test]
    fn these_and_no_others_only_look() {
        let looks: Vec<_> = needing(&[Need::Look])
            .iter()
            .map(|op| op.as_str())
            .collect();
        let expected = [
            "ping",
            "status",
            "metrics",
            "cost",
            "cv",
            "cv.export",
            "rally",
            "relic.show",
            "relic.list",
            "relic.dep.list",
            "relic.ready",
            "relic.export",
            "diff",
            "ritual.list",
            "ritual.show",
            "totem.show",
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
            "salvage.stashes",
            "salvage.show",
            "escalations",
            "config.show",
            "doctor",
        ];
        assert_eq!(looks, expected);
        let own: Vec<_> = needing(&[Need::Own]).iter().map(|op| op.as_str()).collect();
        assert_eq!(
            own,
            [
                "done",
                "handoff",
                "wait",
                "review",
                "hook-event",
                "hook",
                "step.done"
            ]
        );
    }

    #[test]
    fn a_refusal_is_forbidden_and_says_why() {
        let toast = CallerRole::Raider(session("gt-horde-Toast"));
        for who in [
            &toast,
            &CallerRole::OwnCommand(Rights::Read),
            &CallerRole::Unrecognised,
        ] {
            let error = check(who, OpName::RaiderNuke, |_| Rights::All).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Forbidden);
            assert!(error.message.contains("raider.nuke"), "{error}");
            assert!(error.hint.is_some());
        }
    }
}
