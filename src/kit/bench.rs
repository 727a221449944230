//! A city with a supervisor and a scripted model, to test a harness between them.

use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;

use super::kit_dir::{KitDir, LOGGED_OUT, RIG};
use super::model::{Heard, Model, Scenario, Step};
use super::outcome::Ended;
use super::programs::Program;
use crate::control::client::{Client, Flow};
use crate::control::protocol::args::{
    Charge, Events, HarnessRef, InRig, Logs, Named, Nothing, RaiderNuke, RelicCreate, RelicRef,
    Status,
};
use crate::control::protocol::{ControlError, ErrorKind, Op};
use crate::domain::terminal_log::of_last_session;

/// Interval between two looks at a condition.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Interval at which a long wait is reported.
const SILENT: Duration = Duration::from_secs(10);
/// Timeout for the removal of a case's raiders.
const CLEAR_LIMIT: Duration = Duration::from_secs(60);

/// The maximum size of a terminal recording.
const RECORD_MAX: u64 = 512 * 1024;
/// Delay after which a known condition is on the screen.
const DRAWN: Duration = Duration::from_secs(2);
/// Replaces the directories of the machine in recordings.
const PLAIN: &str = "/srv/kit/";

/// The test bench that cases act on.
#[derive(Debug)]
pub struct Bench {
    /// The files.
    pub place: KitDir,
    /// The model.
    pub model: Model,
    /// The facts about the program.
    pub program: Program,
    /// The `hd` that sessions run.
    pub hd: PathBuf,
    /// Timeout for a single step of the program.
    pub limit: Duration,
    /// Set when the harness is configured to resume conversations.
    pub resumes: bool,
    /// Set when the program reports at its start that it has no login.
    pub says_logged_out: bool,
    /// The directory for terminal recordings, if there are any.
    pub record: Option<PathBuf>,
    /// Set when a case does not wait for the end of a limit, and for a park only for a moment.
    pub short: bool,
    /// Reports a long wait to a person.
    pub tell: fn(&str),
}

/// A raider at work on the relic of a case.
#[derive(Debug, Clone)]
pub struct Raider {
    /// Its name.
    pub name: String,
    /// Its relic.
    pub relic: String,
    /// The marker of its scenario.
    pub marker: String,
    /// The number of the last event before it.
    since: u64,
}

/// A wait for a condition.
#[derive(Debug, Clone, Copy)]
pub struct Wait<'a> {
    /// Description, for the failure.
    pub what: &'a str,
    /// The timeout.
    pub within: Duration,
    /// The raiders whose trouble ends the wait.
    pub of: &'a [&'a Raider],
    /// The condition that is expected, and is therefore no trouble.
    pub besides: &'a str,
}

impl Bench {
    /// Calls the supervisor.
    pub fn call(&self, op: &Op) -> Result<Value, ControlError> {
        Client::connect(&self.place.socket)?.call(op)
    }

    /// Calls the supervisor; a refusal fails the case.
    pub fn ask(&self, op: &Op) -> Result<Value, Ended> {
        self.call(op).map_err(|error| refused(op, &error))
    }

    /// Makes a relic whose agent meets this scenario, and charges it to a raider.
    pub fn begin(&self, name: &str, marker: &str, steps: Vec<Step>) -> Result<Raider, Ended> {
        self.begin_with(name, marker, "Do what the model says.", steps)
    }

    /// As [`Self::begin`], but with a given body of the relic.
    pub fn begin_with(
        &self,
        name: &str,
        marker: &str,
        body: &str,
        steps: Vec<Step>,
    ) -> Result<Raider, Ended> {
        self.model.play(Scenario {
            marker: marker.to_owned(),
            steps,
        });
        let relic = self.relic(marker, body)?;
        self.charge(name, marker, &relic, None)
    }

    /// Begins with a harness that has no login and therefore sends no request to its model.
    pub fn begin_logged_out(&self, name: &str, marker: &str) -> Result<Raider, Ended> {
        let relic = self.relic(marker, "Do what the model says.")?;
        self.charge(name, marker, &relic, Some(LOGGED_OUT.to_owned()))
    }

    /// Makes a relic.
    pub fn relic(&self, marker: &str, body: &str) -> Result<String, Ended> {
        let create = Op::RelicCreate(RelicCreate {
            title: format!("A case of the kit, {marker}"),
            body: body.to_owned(),
            rig: Some(RIG.to_owned()),
            priority: 0,
            label: Vec::new(),
            dep: Vec::new(),
            parent: None,
            branch: None,
            assignee: None,
            harness: None,
        });
        let relic = self.ask(&create)?;
        let relic = relic.get("id").and_then(Value::as_str);
        let relic = relic.ok_or_else(|| Ended::failed("the supervisor returned no relic"))?;
        Ok(relic.to_owned())
    }

    fn charge(
        &self,
        name: &str,
        marker: &str,
        relic: &str,
        harness: Option<String>,
    ) -> Result<Raider, Ended> {
        let charge = Op::Charge(Charge {
            relic: relic.to_owned(),
            rig: None,
            harness,
            name: Some(name.to_owned()),
            target: None,
        });
        let status = self.ask(&Op::Status(Status::default()))?;
        let since = status.get("seq").and_then(Value::as_u64);
        self.ask(&charge)?;
        Ok(Raider {
            since: since.unwrap_or_default(),
            name: name.to_owned(),
            relic: relic.to_owned(),
            marker: marker.to_owned(),
        })
    }

    /// Returns the raider as the supervisor shows it; none when it is gone.
    pub fn shown(&self, raider: &Raider) -> Result<Option<Value>, Ended> {
        let all = self.ask(&Op::RaiderList(InRig::default()))?;
        let mut all = all.as_array().into_iter().flatten();
        let found = all.find(|row| {
            row["name"] == raider.name.as_str() && row["hook"] == raider.relic.as_str()
        });
        Ok(found.cloned())
    }

    /// Returns the screen of a raider, if it has one.
    pub fn screen(&self, raider: &Raider) -> Option<String> {
        let name = raider.name.clone();
        let peeked = self.ask(&Op::Peek(Named { name })).ok()?;
        let text = peeked.get("text").and_then(Value::as_str)?.trim_end();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// Writes the terminal output of a raider so far to `kit-NAME.raw`, if its screen shows this text.
    pub fn record(&self, raider: &Raider, name: &str, shown: &str) -> Result<(), Ended> {
        let Some(dir) = &self.record else {
            return Ok(());
        };
        // Hooks are faster than the screen.
        thread::sleep(DRAWN);
        if !self.screen(raider).unwrap_or_default().contains(shown) {
            return Ok(());
        }
        let logs = self.ask(&Op::Logs(Logs {
            name: raider.name.clone(),
            bytes: Some(RECORD_MAX),
            raw: true,
        }))?;
        let log = logs.get("text").and_then(Value::as_str).unwrap_or_default();
        let mut text = String::from_utf8_lossy(of_last_session(log.as_bytes())).into_owned();
        let places = [self.place.root(), self.hd.parent()];
        let places = places.into_iter().flatten().flat_map(Path::ancestors);
        // The directories right below `/` name no machine.
        for place in places.filter(|place| place.components().count() > 2) {
            let place = place.to_string_lossy();
            text = text.replace(place.as_ref(), &plain(place.len()));
        }
        let written = fs::create_dir_all(dir)
            .and_then(|()| fs::write(dir.join(format!("kit-{name}.raw")), text));
        written.map_err(|error| Ended::failed(format!("{}: {error}", dir.display())))
    }

    /// Returns a failure with the screen of this raider.
    pub fn failed(&self, raider: &Raider, why: impl Into<String>) -> Ended {
        Ended::Failed {
            why: why.into(),
            screen: self.screen(raider),
            late: false,
        }
    }

    /// Returns the requests of this scenario so far.
    pub fn heard(&self, marker: &str) -> Vec<Heard> {
        let mut heard = self.model.heard();
        heard.retain(|heard| heard.marker.as_deref() == Some(marker));
        heard
    }

    /// Waits until `look` finds something. Ends earlier when one of the raiders is in trouble.
    pub fn wait<T>(
        &self,
        wait: Wait<'_>,
        mut look: impl FnMut() -> Result<Option<T>, Ended>,
    ) -> Result<T, Ended> {
        let began = Instant::now();
        let deadline = began + wait.within;
        let mut tell = began + SILENT;
        loop {
            if let Some(found) = look()? {
                return Ok(found);
            }
            for raider in wait.of {
                if let Some(trouble) = self.trouble(raider, wait.besides)? {
                    return Err(self.failed(raider, format!("{}: {trouble}", wait.what)));
                }
            }
            if Instant::now() >= deadline {
                let seconds = wait.within.as_secs();
                let why = format!("{}: not within {seconds} s", wait.what);
                return Err(Ended::Failed {
                    why,
                    screen: wait.of.first().and_then(|raider| self.screen(raider)),
                    late: true,
                });
            }
            if Instant::now() >= tell {
                tell = Instant::now() + SILENT;
                (self.tell)(&format!(
                    "waiting: {} ({} s of at most {} s)",
                    wait.what,
                    began.elapsed().as_secs(),
                    wait.within.as_secs()
                ));
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Returns the trouble that keeps a raider from going on by itself.
    fn trouble(&self, raider: &Raider, besides: &str) -> Result<Option<String>, Ended> {
        const CONDITIONS: &[&str] = &[
            "needs_input",
            "rate_limited",
            "auth",
            "unrecognised",
            "push_blocked",
        ];
        let Some(shown) = self.shown(raider)? else {
            return Ok(None);
        };
        let word = |key: &str| shown.get(key).and_then(Value::as_str).unwrap_or_default();
        let condition = word("condition");
        if condition != besides && CONDITIONS.contains(&condition) {
            return Ok(Some(format!("it is `{condition}`: {}", word("detail"))));
        }
        if !word("quarantined_until").is_empty() {
            return Ok(Some("its sessions died too often".to_owned()));
        }
        Ok(None)
    }

    /// Waits until the model received a request that fits.
    pub fn wait_heard(
        &self,
        wait: Wait<'_>,
        marker: &str,
        fits: impl Fn(&Heard) -> bool,
    ) -> Result<Heard, Ended> {
        self.wait(wait, || Ok(self.heard(marker).into_iter().find(&fits)))
    }

    /// Waits until the work of a raider has landed.
    pub fn wait_landed(&self, raider: &Raider, within: Duration) -> Result<(), Ended> {
        let wait = Wait {
            what: "the work lands",
            within,
            of: &[raider],
            besides: "",
        };
        self.wait_landing(raider, wait)
    }

    /// As [`Self::wait_landed`], but with a given wait.
    pub fn wait_landing(&self, raider: &Raider, wait: Wait<'_>) -> Result<(), Ended> {
        let relic = Op::RelicShow(RelicRef {
            relic: raider.relic.clone(),
        });
        self.wait(wait, || {
            let shown = self.ask(&relic)?;
            match shown.get("status").and_then(Value::as_str) {
                Some("closed") => Ok(Some(())),
                Some("blocked" | "deferred") => {
                    Err(self.failed(raider, "the relic is blocked: its work failed"))
                }
                _ => Ok(None),
            }
        })?;
        let files = ["ls-tree", "-r", "--name-only", "main"];
        let files = self.place.git(&self.place.origin, &files);
        let files = files.map_err(|error| Ended::failed(error.to_string()))?;
        let wanted = file_of(&raider.marker);
        if files.lines().any(|file| file == wanted) {
            return Ok(());
        }
        Err(Ended::failed(format!(
            "the relic is closed, but {wanted} is not on main"
        )))
    }

    /// Returns the events of a type about a raider since it was charged.
    pub fn events(&self, kind: &str, raider: &Raider) -> Result<Vec<Value>, Ended> {
        let op = Op::Events(Events {
            follow: false,
            since: Some(raider.since),
            kind: Some(kind.to_owned()),
        });
        let subject = format!("{RIG}/raiders/{}", raider.name);
        let mut events = Vec::new();
        let mut client =
            Client::connect(&self.place.socket).map_err(|error| refused(&op, &error))?;
        let streamed = client.stream(&op, |event| {
            if event["subject"] == subject.as_str() {
                events.push(event);
            }
            Ok::<_, ControlError>(Flow::Continue)
        });
        streamed.map_err(|error| refused(&op, &error))?;
        Ok(events)
    }

    /// Removes the raiders that a case left, with their sandboxes.
    pub fn clear(&self) -> Result<(), Ended> {
        let deadline = Instant::now() + CLEAR_LIMIT;
        loop {
            let all = self.ask(&Op::RaiderList(InRig::default()))?;
            let names = all.as_array().into_iter().flatten();
            let names: Vec<_> = names.filter_map(|row| row["name"].as_str()).collect();
            if names.is_empty() && self.resume_accounts()? {
                return Ok(());
            }
            for name in &names {
                let nuke = Op::RaiderNuke(RaiderNuke {
                    name: (*name).to_owned(),
                    salvage: true,
                    dry_run: false,
                    incarnation: None,
                    yes: true,
                });
                // The nuke of a raider that is just landing is refused, and the raider is gone at the next look.
                let _refused = self.ask(&nuke);
            }
            if Instant::now() >= deadline {
                let names = names.join(", ");
                return Err(Ended::failed(format!(
                    "these raiders are not removed: {names}"
                )));
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Returns the end of the limit as the harness reported it; none where it is guessed.
    pub fn end_of_limit(&self) -> Result<Option<Timestamp>, Ended> {
        // At the first look, the screen may have been drawn only in part.
        thread::sleep(DRAWN);
        let status = self.ask(&Op::Status(Status::default()))?;
        let parked = status["accounts"].as_array().into_iter().flatten();
        let told = parked.filter(|account| account["guessed"] == false);
        let mut ends = told.filter_map(|account| account["until"].as_str()?.parse().ok());
        Ok(ends.next())
    }

    /// Resumes the accounts that a case has parked, as a person does; returns true when none is.
    pub fn resume_accounts(&self) -> Result<bool, Ended> {
        let status = self.ask(&Op::Status(Status::default()))?;
        let parked = status["accounts"].as_array().into_iter().flatten();
        let mut open = true;
        for harness in parked.filter_map(|account| account["harness"].as_str()) {
            open = false;
            let name = harness.to_owned();
            self.ask(&Op::HarnessResume(HarnessRef { name }))?;
        }
        Ok(open)
    }

    /// Returns true when the supervisor answers.
    pub fn is_up(&self) -> bool {
        self.ask(&Op::Ping(Nothing {})).is_ok()
    }
}

/// Returns a placeholder for a directory of the machine. It has the same length, since programs place text by its
/// width.
fn plain(length: usize) -> String {
    PLAIN
        .chars()
        .chain(iter::repeat('0'))
        .take(length)
        .collect()
}

/// Returns the file that the scenario of this marker writes.
pub fn file_of(marker: &str) -> String {
    format!("{marker}.txt")
}

fn refused(op: &Op, error: &ControlError) -> Ended {
    let name = op.name();
    match error.kind {
        ErrorKind::Unavailable => Ended::failed(format!("{name}: the supervisor has ended")),
        _ => Ended::failed(format!("{name}: {}", error.message)),
    }
}
