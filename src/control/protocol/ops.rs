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

macro_rules! ops {
    ($($text:literal => $name:ident($args:ident), $need:ident, $pace:ident;)+) => {
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

            /// Returns its arguments as they go over the wire.
            #[must_use]
            pub fn args(&self) -> Map<String, Value> {
                match self { $(Self::$name(args) => write(args)),+ }
            }
        }
    };
}

ops! {
    "ping" => Ping(Nothing), Look, Quick;
    "status" => Status(Status), Look, Quick;
    "metrics" => Metrics(Nothing), Look, Quick;
    "cost" => Cost(Cost), Look, Quick;
    "cv" => Cv(Cv), Look, Slow;
    "cv.export" => CvExport(CvExport), Look, Slow;
    "cv.import" => CvImport(CvImport), Operate, Quick;
    "cv.forget" => CvForget(CvForget), Operate, Slow;
    "stop" => Stop(Stop), Operate, Slow;
    "reload" => Reload(Reload), Operate, Quick;
    "run" => Run(Run), Work, Slow;
    "charge" => Charge(Charge), Work, Slow;
    "charge.pause" => ChargePause(InRigFlag), Operate, Quick;
    "charge.resume" => ChargeResume(InRigFlag), Operate, Quick;
    "done" => Done(Done), Own, Slow;
    "handoff" => Handoff(Handoff), Own, Slow;
    "wait" => Wait(Wait), Own, Quick;
    "review" => Review(Review), Own, Slow;
    "hook-event" => HookEvent(HookEvent), Own, Quick;
    "rally" => Rally(Nothing), Look, Quick;
    "hook" => Hook(Nothing), Own, Quick;
    "relic.create" => RelicCreate(RelicCreate), Work, Quick;
    "relic.show" => RelicShow(RelicRef), Look, Quick;
    "relic.list" => RelicList(RelicList), Look, Quick;
    "relic.close" => RelicClose(RelicClose), Work, Quick;
    "relic.reopen" => RelicReopen(RelicReopen), Work, Quick;
    "relic.edit" => RelicEdit(RelicEdit), Work, Quick;
    "relic.cancel" => RelicCancel(RelicCancel), Work, Slow;
    "relic.dep.add" => RelicDepAdd(RelicDep), Work, Quick;
    "relic.dep.remove" => RelicDepRemove(RelicDep), Work, Quick;
    "relic.dep.list" => RelicDepList(RelicDepList), Look, Quick;
    "relic.ready" => RelicReady(RelicReady), Look, Quick;
    "relic.export" => RelicExport(Nothing), Look, Quick;
    "relic.import" => RelicImport(RelicImport), Work, Quick;
    "diff" => Diff(Diff), Look, Slow;
    "ritual.list" => RitualList(Nothing), Look, Quick;
    "ritual.show" => RitualShow(RitualRef), Look, Quick;
    "totem.start" => TotemStart(TotemStart), Work, Quick;
    "totem.show" => TotemShow(RelicRef), Look, Quick;
    "step.done" => StepDone(StepDone), Own, Slow;
    "raider.list" => RaiderList(InRig), Look, Quick;
    "raider.show" => RaiderShow(Named), Look, Quick;
    "raider.nuke" => RaiderNuke(RaiderNuke), Operate, Slow;
    "raider.repair" => RaiderRepair(RaiderRepair), Operate, Slow;
    "raider.suspend" => RaiderSuspend(Named), Operate, Quick;
    "raider.resume" => RaiderResume(Named), Operate, Quick;
    // `attach` leads to a terminal that takes input.
    "attach" => Attach(Named), Operate, Quick;
    "peek" => Peek(Named), Look, Quick;
    "send" => Send(Send), Operate, Quick;
    "answer" => Answer(Answer), Operate, Quick;
    "logs" => Logs(Logs), Look, Quick;
    "agent.list" => AgentList(Nothing), Look, Quick;
    "agent.start" => AgentStart(Named), Operate, Slow;
    "agent.stop" => AgentStop(Named), Operate, Slow;
    "agent.restart" => AgentRestart(Restart), Operate, Slow;
    "agent.suspend" => AgentSuspend(Named), Operate, Quick;
    "agent.resume" => AgentResume(Named), Operate, Quick;
    "agent.unquarantine" => AgentUnquarantine(Named), Operate, Quick;
    "harness.resume" => HarnessResume(HarnessRef), Operate, Quick;
    "mq.list" => MqList(InRig), Look, Quick;
    "mq.show" => MqShow(MrRef), Look, Quick;
    "mq.retry" => MqRetry(MrRef), Operate, Quick;
    "mq.approve" => MqApprove(MqApprove), Operate, Quick;
    "mq.reject" => MqReject(MqReject), Operate, Quick;
    "mq.pr" => MqPr(MqPr), Operate, Slow;
    "auto.list" => AutoList(Nothing), Look, Quick;
    "auto.run" => AutoRun(AutoRef), Operate, Quick;
    "auto.history" => AutoHistory(AutoHistory), Look, Quick;
    "auto.enable" => AutoEnable(AutoRef), Operate, Quick;
    "auto.disable" => AutoDisable(AutoRef), Operate, Quick;
    "events" => Events(Events), Look, Quick;
    "why" => Why(Named), Look, Quick;
    "salvage.list" => SalvageList(InRig), Look, Quick;
    "salvage.stashes" => SalvageStashes(InRig), Look, Quick;
    "salvage.show" => SalvageShow(SalvageRef), Look, Quick;
    "salvage.restore" => SalvageRestore(SalvageRestore), Operate, Slow;
    "salvage.prune" => SalvagePrune(SalvagePrune), Operate, Slow;
    "escalate" => Escalate(Escalate), Call, Quick;
    "escalations" => Escalations(Nothing), Look, Quick;
    "escalations.ack" => EscalationsAck(EscalationRef), Operate, Quick;
    "drums.send" => DrumsSend(DrumsSend), Call, Slow;
    "drums.inbox" => DrumsInbox(DrumsInbox), Call, Quick;
    "drums.read" => DrumsRead(DrumRef), Call, Quick;
    "drums.reply" => DrumsReply(DrumsReply), Call, Slow;
    "drums.ack" => DrumsAck(DrumsAck), Call, Quick;
    "config.show" => ConfigShow(Nothing), Look, Quick;
    "doctor" => Doctor(Doctor), Look, Quick;
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
    /// Refuses a destructive operation without consent (`rules.md`, flags). Closing a hooked relic needs consent too,
    /// but only its handler knows whether the relic is hooked.
    ///
    /// # Errors
    /// `bad_request`.
    pub fn consented(&self) -> Result<(), ControlError> {
        let given = match self {
            Self::RaiderNuke(nuke) => nuke.yes || nuke.dry_run,
            Self::RaiderRepair(repair) => repair.yes,
            Self::MqReject(reject) => reject.yes,
            Self::RelicCancel(cancel) => cancel.yes,
            Self::SalvagePrune(prune) => prune.yes,
            Self::CvForget(forget) => forget.yes,
            _ => true,
        };
        if given {
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
