//! Requests to the daemon of a city, its journal, and the signs that its agents give and wait for.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use horde_supervisor::control::client::{Client, Flow};
use horde_supervisor::control::protocol::{ControlError, Op};
use serde_json::{Map, Value, json};

use super::{City, Ran, until, wait};
use crate::support::git::write;

/// Device, inode and time of change of a socket's file: the next file may have the inode of one that is gone.
pub type SocketFile = (u64, u64, i64, i64);

/// The requests that tests repeat until something is so.
const LOOKS: [&str; 6] = [
    "agent.list",
    "raider.list",
    "relic.list",
    "relic.show",
    "status",
    "mq.list",
];

impl City {
    /// Connects to the supervisor.
    pub fn client(&self) -> Result<Client, ControlError> {
        Client::connect(&self.socket())
    }

    fn socket(&self) -> PathBuf {
        self.root.join(".horde/control.sock")
    }

    /// Makes a request to the supervisor.
    pub fn op(name: &str, args: Value) -> Op {
        let args: Map<_, _> = serde_json::from_value(args).unwrap();
        Op::parse(name.parse().unwrap(), args).unwrap()
    }

    /// Sends a request without a process in between.
    pub fn ask(&self, op: &str, args: Value) -> Result<Value, ControlError> {
        let request = Self::op(op, args);
        match LOOKS.contains(&op) {
            true => self.look(|client| client.call(&request)),
            false => self.client()?.call(&request),
        }
    }

    /// Sends a request that only reads, on the connection of the last one: a test looks hundreds of times until something is
    /// so, and the supervisor identifies the process behind each connection.
    fn look<T>(
        &self,
        call: impl Fn(&mut Client) -> Result<T, ControlError>,
    ) -> Result<T, ControlError> {
        let Ok(mut kept) = self.looks.try_lock() else {
            return call(&mut self.client()?);
        };
        // A supervisor that was started since made another file, and so did a test that replaced it.
        let file = fs::symlink_metadata(self.socket())
            .map(|it| (it.dev(), it.ino(), it.ctime(), it.ctime_nsec()));
        let same = |(_, of): &(Client, SocketFile)| file.as_ref().is_ok_and(|file| file == of);
        let again = kept.take().filter(same);
        let was_idle = again.is_some();
        let mut client = match again {
            Some((client, _)) => client,
            None => self.client()?,
        };
        let mut answer = call(&mut client);
        // The supervisor closes idle connections for others.
        let is_closed =
            |error: &ControlError| error.message.contains("an idle connection was closed");
        if was_idle && answer.as_ref().is_err_and(is_closed) {
            client = self.client()?;
            answer = call(&mut client);
        }
        // After an error, a late answer may be on its way.
        *kept = file
            .ok()
            .filter(|_| answer.is_ok())
            .map(|file| (client, file));
        answer
    }

    fn journal(&self, args: Value) -> Vec<Value> {
        let op = Self::op("events", args);
        let read = |client: &mut Client| {
            let mut events = Vec::new();
            client.stream(&op, |event| {
                events.push(event);
                Ok::<_, ControlError>(Flow::Continue)
            })?;
            Ok(events)
        };
        self.look(read).unwrap()
    }

    /// Sends a request that must succeed.
    pub fn answer(&self, op: &str, args: Value) -> Value {
        let answer = self.ask(op, args);
        answer.unwrap_or_else(|error| panic!("{op}: {error:?}"))
    }

    /// Returns every event of the journal, in order.
    pub fn events(&self) -> Vec<Value> {
        self.journal(json!({}))
    }

    /// Returns the events of a type, about any subject.
    pub fn all_of(&self, kind: &str) -> Vec<Value> {
        self.journal(json!({ "type": kind }))
    }

    /// Returns the events of a type about a subject.
    pub fn happened(&self, kind: &str, subject: &str) -> Vec<Value> {
        let mut events = self.all_of(kind);
        events.retain(|event| event["subject"] == subject);
        events
    }

    /// Waits for the n-th event of a type about a subject.
    pub fn wait_event(&self, n: usize, kind: &str, subject: &str) -> Value {
        wait(&format!("{kind} of {subject}, {n}"), || {
            self.happened(kind, subject).into_iter().nth(n - 1)
        })
    }

    /// Waits for the first event of a type, about any subject.
    pub fn wait_first(&self, kind: &str) -> Value {
        wait(kind, || self.all_of(kind).into_iter().next())
    }

    /// Makes a relic whose agent does these lines.
    pub fn relic(&self, title: &str, steps: &[&str]) -> String {
        self.relic_in("horde", title, steps)
    }

    /// Makes such a relic in another rig.
    pub fn relic_in(&self, rig: &str, title: &str, steps: &[&str]) -> String {
        let args = json!({ "title": title, "body": body(steps), "rig": rig });
        let relic = self.ask("relic.create", args).unwrap();
        relic["id"].as_str().expect("an id").to_owned()
    }

    /// Charges a relic, which must succeed. Returns the raider's full id.
    pub fn charge(&self, relic: &str) -> String {
        let charged = self.hd(&["charge", relic, "horde"]).json();
        charged["raider"].as_str().expect("a raider").to_owned()
    }

    /// Makes a relic and charges it. Returns its id.
    pub fn work(&self, title: &str, steps: &[&str]) -> String {
        let relic = self.relic(title, steps);
        self.charge(&relic);
        relic
    }

    /// Returns a relic's status.
    pub fn status_of(&self, relic: &str) -> String {
        let shown = self.ask("relic.show", json!({ "relic": relic })).unwrap();
        shown["status"].as_str().expect("a status").to_owned()
    }

    /// Waits until a relic has a status.
    pub fn wait_status(&self, relic: &str, status: &str) {
        until(&format!("{relic} is {status}"), || {
            self.status_of(relic) == status
        });
    }

    /// Returns all raiders, as `raider list` shows them.
    pub fn raiders(&self) -> Vec<Value> {
        let raiders = self.ask("raider.list", json!({})).unwrap();
        raiders.as_array().expect("a list").clone()
    }

    /// Waits until the raider of a relic has a session of at least this generation, and returns the raider.
    pub fn wait_session(&self, relic: &str, generation: u64) -> Value {
        wait(&format!("session {generation} of {relic}"), || {
            let mut raiders = self.raiders().into_iter();
            let raider = raiders.find(|raider| raider["hook"] == relic)?;
            let up = raider["session"]["generation"].as_u64()? >= generation;
            up.then_some(raider)
        })
    }

    /// Waits until no raider is left.
    pub fn wait_no_raiders(&self) {
        until("no raider is left", || self.raiders().is_empty());
    }

    /// Gives a sign to agents.
    pub fn sign(&self, name: &str) {
        write(&self.root, &format!("signs/{name}"), "");
    }

    /// Waits for a sign of an agent.
    pub fn wait_sign(&self, name: &str) {
        until(&format!("the sign {name}"), || {
            self.root.join("signs").join(name).exists()
        });
    }

    /// Waits for the end of a command that an agent tried.
    pub fn wait_tried(&self, name: &str) -> Ran {
        self.wait_sign(name);
        let read = |file: String| fs::read_to_string(self.root.join("signs").join(file)).unwrap();
        Ran {
            code: read(name.to_owned()).parse().unwrap(),
            out: read(format!("{name}.out")),
            err: read(format!("{name}.err")),
        }
    }

    /// Waits for the n-th session of a relic, and returns its prompt.
    pub fn wait_prompt(&self, relic: &str, n: usize) -> String {
        let path = self.root.join(format!("seen/{relic}.{n}/prompt"));
        wait(&format!("prompt {n} of {relic}"), || {
            fs::read_to_string(&path).ok()
        })
    }

    /// Returns the number of sessions that a relic has had.
    pub fn sessions_of(&self, relic: &str) -> usize {
        let seen = fs::read_dir(self.root.join("seen")).unwrap();
        let names = seen.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| name.rsplit_once('.').is_some_and(|(of, _)| of == relic))
            .count()
    }
}

/// Returns the body of a relic whose agent does these lines.
pub fn body(steps: &[&str]) -> String {
    steps.iter().map(|step| format!("$ {step}\n")).collect()
}

/// Returns the process of a raider's session, as `raider list` shows it.
pub fn session_pid(raider: &Value) -> u32 {
    let pid = raider["session"]["pid"].as_u64();
    pid.and_then(|pid| pid.try_into().ok()).expect("a pid")
}
