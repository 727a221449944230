//! The operations: verb paths of `hd` with dots, each with its arguments. There is a single table, and the compiler
//! makes every reader cover all of it.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor, value::Error as Stop};
use serde_json::{Map, Value};

use super::args;
use super::errors::{ControlError, unknown};

macro_rules! ops {
    ($($text:literal => $name:ident($args:ident)),+ $(,)?) => {
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
    "ping" => Ping(Nothing),
    "status" => Status(Nothing),
    "metrics" => Metrics(Nothing),
    "cost" => Cost(Cost),
    "stop" => Stop(Stop),
    "reload" => Reload(Reload),
    "run" => Run(Run),
    "charge" => Charge(Charge),
    "done" => Done(Done),
    "handoff" => Handoff(Handoff),
    "wait" => Wait(Wait),
    "hook-event" => HookEvent(HookEvent),
    "rally" => Rally(Nothing),
    "hook" => Hook(Nothing),
    "relic.create" => RelicCreate(RelicCreate),
    "relic.show" => RelicShow(RelicRef),
    "relic.list" => RelicList(RelicList),
    "relic.close" => RelicClose(RelicClose),
    "relic.reopen" => RelicReopen(RelicRef),
    "raider.list" => RaiderList(InRig),
    "raider.show" => RaiderShow(Named),
    "raider.nuke" => RaiderNuke(RaiderNuke),
    "raider.repair" => RaiderRepair(RaiderRepair),
    "raider.suspend" => RaiderSuspend(Named),
    "raider.resume" => RaiderResume(Named),
    "attach" => Attach(Named),
    "peek" => Peek(Named),
    "send" => Send(Send),
    "answer" => Answer(Answer),
    "logs" => Logs(Logs),
    "agent.list" => AgentList(Nothing),
    "agent.start" => AgentStart(Named),
    "agent.stop" => AgentStop(Named),
    "agent.restart" => AgentRestart(Restart),
    "agent.suspend" => AgentSuspend(Named),
    "agent.resume" => AgentResume(Named),
    "agent.unquarantine" => AgentUnquarantine(Named),
    "harness.resume" => HarnessResume(HarnessRef),
    "mq.list" => MqList(InRig),
    "mq.show" => MqShow(MrRef),
    "mq.retry" => MqRetry(MrRef),
    "mq.approve" => MqApprove(MqApprove),
    "mq.reject" => MqReject(MqReject),
    "auto.list" => AutoList(Nothing),
    "auto.run" => AutoRun(AutoRef),
    "auto.history" => AutoHistory(AutoHistory),
    "auto.enable" => AutoEnable(AutoRef),
    "auto.disable" => AutoDisable(AutoRef),
    "events" => Events(Events),
    "why" => Why(Named),
    "salvage.list" => SalvageList(InRig),
    "salvage.stashes" => SalvageStashes(InRig),
    "salvage.show" => SalvageShow(SalvageRef),
    "salvage.restore" => SalvageRestore(SalvageRestore),
    "salvage.prune" => SalvagePrune(SalvagePrune),
    "escalate" => Escalate(Escalate),
    "escalations" => Escalations(Nothing),
    "escalations.ack" => EscalationsAck(EscalationRef),
    "config.show" => ConfigShow(Nothing),
    "doctor" => Doctor(Doctor),
}

/// Explains why `raider done` and `raider reset` do not exist, and what to do instead (`1-product.md`).
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

impl FromStr for OpName {
    type Err = ControlError;

    /// Parses a name or its older alias (`sling`, `prime`, `polecat.*`).
    fn from_str(text: &str) -> Result<Self, ControlError> {
        let renamed = match text {
            "sling" => "charge".to_owned(),
            "prime" => "rally".to_owned(),
            "hook.show" => "hook".to_owned(),
            _ => text
                .strip_prefix("polecat.")
                .map_or_else(|| text.to_owned(), |verb| format!("raider.{verb}")),
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
    /// Refuses a destructive operation without consent (`4-rules.md`, flags). Closing a hooked relic needs consent too,
    /// but only its handler knows whether the relic is hooked.
    ///
    /// # Errors
    /// `bad_request`.
    pub fn consented(&self) -> Result<(), ControlError> {
        let given = match self {
            Self::RaiderNuke(nuke) => nuke.yes || nuke.dry_run,
            Self::RaiderRepair(repair) => repair.yes,
            Self::MqReject(reject) => reject.yes,
            Self::SalvagePrune(prune) => prune.yes,
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
    serde_json::from_value(Value::Object(args))
        .map_err(|error| ControlError::bad_request(format!("{name}: {error}")))
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
