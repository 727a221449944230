//! `hd demo`: the whole product on a real repository. A repository with an origin is made, raiders are charged in
//! parallel, their commits pass the gate and land, and the city stays for a look.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cli::answer;
use crate::cli::args::Demo;
use crate::cli::city::{self, City};
use crate::cli::context::Context;
use crate::cli::error::{CliError, Doing};
use crate::cli::output::{self, Style};
use crate::cli::render::event;
use crate::control::client::{Client, Flow};
use crate::control::protocol::answers::{Event, NotedRelic};
use crate::control::protocol::args::{Charge, Events, RelicCreate, Stop};
use crate::control::protocol::{ControlError, Exit, Op, OpName};
use crate::domain::event::EventType;

use super::supervisor::{self, Lives};

mod project;

use project::{Project, RIG, Task};

/// The limit of the whole demo.
const LIMIT: Duration = Duration::from_secs(300);

/// The events that the demo shows; `hd events` has the rest.
const SHOWN: &[EventType] = &[
    EventType::RaiderCharged,
    EventType::RaiderRespawned,
    EventType::RaiderDone,
    EventType::RaiderMerged,
    EventType::RaiderMergeFailed,
    EventType::RaiderNuked,
    EventType::RaiderStuck,
    EventType::MrTesting,
    EventType::MrMerging,
    EventType::MrConflict,
    EventType::AgentCrashed,
    EventType::AgentQuarantined,
    EventType::EscalationRaised,
    EventType::RelicClosed,
];

pub(super) fn run(args: &Demo, context: &Context) -> Result<(), CliError> {
    let root = place(args.dir.as_deref())?;
    let project = Project::make(&root, args.raiders)?;
    let tasks = project::tasks(args.raiders);
    output::message(&format!(
        "hd: a city, a repository and its origin are in {}",
        root.display()
    ));
    let city = city::at(&root)?;
    let lives = if args.keep {
        Lives::Detached
    } else {
        Lives::WithUs
    };
    let mut supervisor = supervisor::start(&city, lives, &[])?;
    supervisor.ready(&city)?;
    output::message(&format!(
        "hd: the supervisor runs; {} tasks, each with its own raider",
        tasks.len()
    ));
    let landed = land(&city, &tasks, context.style);
    let stopped = if args.keep {
        Ok(())
    } else {
        stop(&city).and_then(|()| supervisor.wait())
    };
    let missing = project.missing(&tasks)?;
    report(&project, args.keep)?;
    landed?;
    stopped?;
    if missing.is_empty() {
        return Ok(());
    }
    Err(CliError::new(
        Exit::MergeFailed,
        format!("not on main: {}", missing.join(", ")),
    ))
}

/// Returns an empty directory: the given one, or a new one that stays.
fn place(dir: Option<&Path>) -> Result<PathBuf, CliError> {
    let Some(dir) = dir else {
        let temp = tempfile::Builder::new().prefix("horde-demo-").tempdir();
        return temp
            .doing("a temporary directory")?
            .keep()
            .canonicalize()
            .doing("it");
    };
    fs::create_dir_all(dir).doing(dir.display())?;
    if fs::read_dir(dir).doing(dir.display())?.next().is_some() {
        return Err(CliError::usage(format!("{} is not empty", dir.display())));
    }
    dir.canonicalize().doing(dir.display())
}

/// Makes the relics, charges all of them at once, and shows events until each has ended.
fn land(city: &City, tasks: &[Task], style: Style) -> Result<(), CliError> {
    let (happened, happenings) = mpsc::channel();
    let mut stream = Client::connect(&city.socket)?;
    thread::spawn(move || {
        let events = Op::Events(Events {
            follow: true,
            since: Some(0),
            kind: None,
        });
        // The end of the stream closes the channel, and its receiver sees that.
        let _ended = stream.stream(&events, |event| match happened.send(event) {
            Ok(()) => Ok::<_, ControlError>(Flow::Continue),
            Err(_) => Ok(Flow::Stop),
        });
    });
    let relics = tasks.iter().map(|task| create(city, task));
    let relics = relics.collect::<Result<Vec<_>, _>>()?;
    thread::scope(|scope| {
        let charges: Vec<_> = relics
            .iter()
            .map(|relic| scope.spawn(|| charge(city, relic)))
            .collect();
        let charge = |charge: thread::ScopedJoinHandle<'_, _>| match charge.join() {
            Ok(charged) => charged,
            Err(_) => Err(CliError::failed("a charge failed inside")),
        };
        charges.into_iter().try_for_each(charge)
    })?;
    wait(&happenings, relics, style)
}

fn create(city: &City, task: &Task) -> Result<String, CliError> {
    let create = Op::RelicCreate(RelicCreate {
        title: task.title.clone(),
        body: task.body.clone(),
        rig: Some(RIG.to_owned()),
        priority: 0,
        label: Vec::new(),
        dep: Vec::new(),
        parent: None,
        branch: None,
        assignee: None,
        harness: None,
    });
    let relic = Client::connect(&city.socket)?.call(&create)?;
    let made: NotedRelic = answer::read(create.name(), &relic)?;
    Ok(made.relic.id.to_string())
}

fn charge(city: &City, relic: &str) -> Result<(), CliError> {
    let charge = Op::Charge(Charge {
        relic: relic.to_owned(),
        rig: None,
        harness: None,
        name: None,
        target: None,
    });
    Client::connect(&city.socket)?.call(&charge)?;
    Ok(())
}

/// Waits until every relic is closed, or one needs a person.
#[expect(
    clippy::disallowed_methods,
    reason = "the supervisor is waited for, in real time"
)]
fn wait(
    happenings: &mpsc::Receiver<Value>,
    relics: Vec<String>,
    style: Style,
) -> Result<(), CliError> {
    let deadline = Instant::now() + LIMIT;
    let mut open: BTreeSet<String> = relics.into_iter().collect();
    while !open.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        let happened = match happenings.recv_timeout(left) {
            Ok(happened) => happened,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let seconds = LIMIT.as_secs();
                let message = format!("some tasks had not landed after {seconds} s");
                return Err(CliError::new(Exit::TimedOut, message));
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(CliError::new(
                    Exit::Unreachable,
                    "the supervisor ended the stream",
                ));
            }
        };
        let happened: Event = answer::read(OpName::Events, &happened)?;
        let kind = happened.known();
        if kind.is_some_and(|kind| SHOWN.contains(&kind)) {
            output::line(&event::event(&happened, style))?;
        }
        match kind {
            Some(EventType::RelicClosed) => {
                open.remove(&happened.subject);
            }
            Some(EventType::EscalationRaised) => {
                return Err(CliError::new(
                    Exit::NeedsHuman,
                    "something waits for a person",
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

fn stop(city: &City) -> Result<(), CliError> {
    let stop = Op::Stop(Stop {
        keep_sessions: false,
    });
    Client::connect(&city.socket)?.call(&stop)?;
    Ok(())
}

fn report(project: &Project, kept: bool) -> Result<(), CliError> {
    output::line(&format!("\non main of {}:", project.origin.display()))?;
    output::line(&project.log()?)?;
    let root = project.root.display();
    let own = env::current_exe().unwrap_or_else(|_| "hd".into());
    let hd = own.display();
    let mut lines = vec!["\nwhere to look:".to_owned()];
    if kept {
        lines.push(format!("  {hd} --city {root} status"));
        lines.push(format!("  {hd} --city {root} stop"));
    } else {
        lines[0] =
            "\nwhere to look (it has stopped; the first command starts it again):".to_owned();
        lines.push(format!("  {hd} --city {root} up -d"));
        lines.push(format!("  {hd} --city {root} status"));
    }
    lines.push(format!("  {hd} --city {root} events"));
    lines.push(format!("  {hd} --city {root} relic list"));
    lines.push(format!("  {hd} --city {root} run \"{}\"", project::MORE));
    if !kept {
        lines.push(format!("  {hd} --city {root} stop"));
    }
    lines.push(format!("  {root}/agent.sh      the scripted agent"));
    lines.push(format!("  {root}/city.toml     the city"));
    output::line(&lines.join("\n"))
}
