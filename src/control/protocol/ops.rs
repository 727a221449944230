//! The operations: verb paths of `hd` with dots, each with its arguments. There is a single table, and the compiler
//! makes every reader cover all of it.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor, value::Error as Stop};
use serde_json::{Map, Value};

use super::args;
use super::errors::{ControlError, unknown};

/// The right that an operation needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Read only.
    Look,
    /// Escalate to a person, or use drums: a session or errand about itself and in its own name, an operator about any
    /// subject.
    Call,
    /// Act on the caller's own session.
    Own,
    /// Create or move work.
    Work,
    /// Act on other children, or on the city.
    Operate,
}

/// The time that the answer of an operation may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// It looks something up or orders something.
    Quick,
    /// It waits for work on sessions or repositories.
    Slow,
}

/// The answers of the table to: does this operation run only with a person's consent?
mod consent {
    use crate::control::protocol::args::Consent;

    /// It destroys nothing.
    pub(super) fn free<T>(_: &T) -> bool {
        true
    }

    /// It destroys something.
    pub(super) fn needed<T: Consent>(args: &T) -> bool {
        args.is_given()
    }

    /// It destroys something in some states, which only its handler knows.
    pub(super) fn by_handler<T: Consent>(_: &T) -> bool {
        true
    }
}

macro_rules! ops {
    ($($text:literal => $name:ident($args:ident), $need:ident, $pace:ident, $consent:ident;)+) => {
        /// An operation with its arguments.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each is the verb of `hd` that its arguments document")]
        pub enum Op { $($name(args::$args)),+ }

        /// An operation's name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "each is the verb of `hd` that it is spelled like")]
        pub enum OpName { $($name),+ }

        impl OpName {
            /// Every operation.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the name as it stands in a request.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }

            /// Returns the right that it needs.
            #[must_use]
            pub fn need(self) -> Need {
                match self { $(Self::$name => Need::$need),+ }
            }

            /// Returns the time that its answer may take.
            #[must_use]
            pub fn pace(self) -> Pace {
                match self { $(Self::$name => Pace::$pace),+ }
            }

            /// Returns the names of its arguments, including aliases.
            #[must_use]
            pub fn keys(self) -> &'static [&'static str] {
                match self { $(Self::$name => keys::<args::$args>()),+ }
            }
        }

        impl Op {
            /// Checks the arguments of an operation.
            ///
            /// # Errors
            /// `bad_request` that names the argument.
            pub fn parse(name: OpName, args: Map<String, Value>) -> Result<Self, ControlError> {
                match name { $(OpName::$name => Ok(Self::$name(read(name, args)?))),+ }
            }

            /// Returns its name.
            #[must_use]
            pub fn name(&self) -> OpName {
                match self { $(Self::$name(_) => OpName::$name),+ }
            }

            /// Returns true when it may run: it needs no consent here, or has it.
            fn is_consented(&self) -> bool {
                match self { $(Self::$name(args) => consent::$consent(args)),+ }
            }

            /// Returns its arguments as they go over the wire.
            #[must_use]
            pub fn args(&self) -> Map<String, Value> {
                match self { $(Self::$name(args) => write(args)),+ }
            }
        }
    };
}

ops! {
    "ping" => Ping(Nothing), Look, Quick, free;
    "status" => Status(Status), Look, Quick, free;
    "metrics" => Metrics(Nothing), Look, Quick, free;
    "cost" => Cost(Cost), Look, Quick, free;
    "cv" => Cv(Cv), Look, Slow, free;
    "cv.export" => CvExport(CvExport), Look, Slow, free;
    "cv.import" => CvImport(CvImport), Operate, Quick, free;
    "cv.forget" => CvForget(CvForget), Operate, Slow, needed;
    "stop" => Stop(Stop), Operate, Slow, free;
    "reload" => Reload(Reload), Operate, Quick, free;
    "run" => Run(Run), Work, Slow, free;
    "charge" => Charge(Charge), Work, Slow, free;
    "charge.pause" => ChargePause(InRigFlag), Operate, Quick, free;
    "charge.resume" => ChargeResume(InRigFlag), Operate, Quick, free;
    "done" => Done(Done), Own, Slow, free;
    "handoff" => Handoff(Handoff), Own, Slow, free;
    "wait" => Wait(Wait), Own, Quick, free;
    "review" => Review(Review), Own, Slow, free;
    "hook-event" => HookEvent(HookEvent), Own, Quick, free;
    "rally" => Rally(Nothing), Look, Quick, free;
    "hook" => Hook(Nothing), Own, Quick, free;
    "relic.create" => RelicCreate(RelicCreate), Work, Quick, free;
    "relic.show" => RelicShow(RelicRef), Look, Quick, free;
    "relic.list" => RelicList(RelicList), Look, Quick, free;
    "relic.close" => RelicClose(RelicClose), Work, Quick, by_handler;
    "relic.reopen" => RelicReopen(RelicReopen), Work, Quick, free;
    "relic.edit" => RelicEdit(RelicEdit), Work, Quick, free;
    "relic.cancel" => RelicCancel(RelicCancel), Work, Slow, needed;
    "relic.dep.add" => RelicDepAdd(RelicDep), Work, Quick, free;
    "relic.dep.remove" => RelicDepRemove(RelicDep), Work, Quick, free;
    "relic.dep.list" => RelicDepList(RelicDepList), Look, Quick, free;
    "relic.ready" => RelicReady(RelicReady), Look, Quick, free;
    "relic.export" => RelicExport(Nothing), Look, Quick, free;
    "relic.import" => RelicImport(RelicImport), Work, Quick, free;
    "diff" => Diff(Diff), Look, Slow, free;
    "ritual.list" => RitualList(Nothing), Look, Quick, free;
    "ritual.show" => RitualShow(RitualRef), Look, Quick, free;
    "totem.start" => TotemStart(TotemStart), Work, Quick, free;
    "totem.show" => TotemShow(RelicRef), Look, Quick, free;
    "step.done" => StepDone(StepDone), Own, Slow, free;
    "raider.list" => RaiderList(InRig), Look, Quick, free;
    "raider.show" => RaiderShow(Named), Look, Quick, free;
    "raider.nuke" => RaiderNuke(RaiderNuke), Operate, Slow, needed;
    "raider.repair" => RaiderRepair(RaiderRepair), Operate, Slow, needed;
    "raider.suspend" => RaiderSuspend(Named), Operate, Quick, free;
    "raider.resume" => RaiderResume(Named), Operate, Quick, free;
    // `attach` leads to a terminal that takes input.
    "attach" => Attach(Named), Operate, Quick, free;
    "peek" => Peek(Named), Look, Quick, free;
    "send" => Send(Send), Operate, Quick, free;
    "answer" => Answer(Answer), Operate, Quick, free;
    "logs" => Logs(Logs), Look, Quick, free;
    "agent.list" => AgentList(Nothing), Look, Quick, free;
    "agent.start" => AgentStart(Named), Operate, Slow, free;
    "agent.stop" => AgentStop(Named), Operate, Slow, free;
    "agent.restart" => AgentRestart(Restart), Operate, Slow, free;
    "agent.suspend" => AgentSuspend(Named), Operate, Quick, free;
    "agent.resume" => AgentResume(Named), Operate, Quick, free;
    "agent.unquarantine" => AgentUnquarantine(Named), Operate, Quick, free;
    "harness.resume" => HarnessResume(HarnessRef), Operate, Quick, free;
    "mq.list" => MqList(InRig), Look, Quick, free;
    "mq.show" => MqShow(MrRef), Look, Quick, free;
    "mq.retry" => MqRetry(MrRef), Operate, Quick, free;
    "mq.approve" => MqApprove(MqApprove), Operate, Quick, free;
    "mq.reject" => MqReject(MqReject), Operate, Quick, needed;
    "mq.pr" => MqPr(MqPr), Operate, Slow, free;
    "auto.list" => AutoList(Nothing), Look, Quick, free;
    "auto.run" => AutoRun(AutoRef), Operate, Quick, free;
    "auto.history" => AutoHistory(AutoHistory), Look, Quick, free;
    "auto.enable" => AutoEnable(AutoRef), Operate, Quick, free;
    "auto.disable" => AutoDisable(AutoRef), Operate, Quick, free;
    "events" => Events(Events), Look, Quick, free;
    "why" => Why(Named), Look, Quick, free;
    "salvage.list" => SalvageList(InRig), Look, Quick, free;
    "salvage.stashes" => SalvageStashes(InRig), Look, Quick, free;
    "salvage.show" => SalvageShow(SalvageRef), Look, Quick, free;
    "salvage.restore" => SalvageRestore(SalvageRestore), Operate, Slow, free;
    "salvage.prune" => SalvagePrune(SalvagePrune), Operate, Slow, needed;
    "escalate" => Escalate(Escalate), Call, Quick, free;
    "escalations" => Escalations(Nothing), Look, Quick, free;
    "escalations.ack" => EscalationsAck(EscalationRef), Operate, Quick, free;
    "drums.send" => DrumsSend(DrumsSend), Call, Slow, free;
    "drums.inbox" => DrumsInbox(DrumsInbox), Call, Quick, free;
    "drums.read" => DrumsRead(DrumRef), Call, Quick, free;
    "drums.reply" => DrumsReply(DrumsReply), Call, Slow, free;
    "drums.ack" => DrumsAck(DrumsAck), Call, Quick, free;
    "config.show" => ConfigShow(Nothing), Look, Quick, free;
    "doctor" => Doctor(Doctor), Look, Quick, free;
}

/// Explains why `raider done` and `raider reset` do not exist, and what to do instead (`product.md`).
#[must_use]
pub fn no_such_transition(verb: &str) -> ControlError {
    let instead = if verb == "done" {
        "a raider declares its own completion: `hd done` inside its session; to end one from \
         outside, use `hd raider nuke NAME`, which refuses to lose work"
    } else {
        "to start over, use `hd raider nuke NAME` (refuses to lose work) and then `hd charge \
        RELIC RIG`; for a broken sandbox `hd raider repair NAME`; for a fresh session `hd agent restart NAME --fresh`"
    };
    ControlError::bad_request(format!(
        "the state of a raider cannot be set from outside: there is no `hd raider {verb}`"
    ))
    .hint(instead)
}

/// Returns today's word for an older group of verbs.
fn older_group(group: &str) -> Option<&'static str> {
    match group {
        "polecat" => Some("raider"),
        "sling" => Some("charge"),
        "formula" => Some("ritual"),
        "molecule" => Some("totem"),
        "mail" => Some("drums"),
        _ => None,
    }
}

impl FromStr for OpName {
    type Err = ControlError;

    /// Parses a name or its alias (`sling`, `prime`, `nudge`, `cancel`, `polecat.*`, `formula.*`, `molecule.*`, `mail.*`).
    fn from_str(text: &str) -> Result<Self, ControlError> {
        let renamed = match text {
            "sling" => "charge".to_owned(),
            "prime" => "rally".to_owned(),
            "nudge" => "send".to_owned(),
            "hook.show" => "hook".to_owned(),
            "cancel" => "relic.cancel".to_owned(),
            _ => {
                let group = text.split_once('.');
                let older = group.and_then(|(group, verb)| Some((older_group(group)?, verb)));
                older.map_or_else(
                    || text.to_owned(),
                    |(group, verb)| format!("{group}.{verb}"),
                )
            }
        };
        if let Some(verb @ ("done" | "reset")) = renamed.strip_prefix("raider.") {
            return Err(no_such_transition(verb));
        }
        let found = Self::ALL.iter().find(|op| op.as_str() == renamed);
        found.copied().ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|op| op.as_str()).collect();
            unknown("op", text, &known)
        })
    }
}

impl fmt::Display for OpName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Op {
    /// Refuses a destructive operation without consent (`rules.md`, flags).
    ///
    /// # Errors
    /// `bad_request`.
    pub fn consented(&self) -> Result<(), ControlError> {
        if self.is_consented() {
            return Ok(());
        }
        let name = self.name();
        Err(
            ControlError::bad_request(format!("{name} needs confirmation"))
                .hint("pass --yes (on the socket: \"yes\": true)"),
        )
    }
}

fn read<T: DeserializeOwned>(name: OpName, args: Map<String, Value>) -> Result<T, ControlError> {
    let known = keys::<T>();
    if let Some(key) = args.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(unknown(&format!("argument of {name}"), key, known));
    }
    serde_path_to_error::deserialize(Value::Object(args)).map_err(|error| {
        let (path, why) = (error.path().to_string(), error.inner().to_string());
        // The path is a dot where the whole is at fault.
        let message = match path == "." || why.contains(&path) {
            true => format!("{name}: {why}"),
            false => format!("{name}: {path}: {why}"),
        };
        ControlError::bad_request(message)
    })
}

fn write<T: Serialize>(args: &T) -> Map<String, Value> {
    match serde_json::to_value(args) {
        Ok(Value::Object(args)) => args,
        other => unreachable!("arguments are a struct of plain values, not {other:?}"),
    }
}

/// Returns the field names of a struct, as its `Deserialize` reports them to a deserializer.
fn keys<T: DeserializeOwned>() -> &'static [&'static str] {
    struct Ask(&'static [&'static str]);
    impl<'de> Deserializer<'de> for &mut Ask {
        type Error = Stop;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Stop> {
            Err(Stop::custom("not a struct"))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, Stop> {
            self.0 = fields;
            Err(Stop::custom("only the names are wanted"))
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
            option unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier
            ignored_any
        }
    }
    let mut ask = Ask(&[]);
    // Always stops with an error, by design: only the names are read.
    let _stopped = T::deserialize(&mut ask);
    ask.0
}
