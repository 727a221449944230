//! `[automations]`, and the folders of automations: `automations/<name>/automation.toml` beside `city.toml`,
//! `.horde/automations/<name>/automation.toml` in a trusted rig.

mod action;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::tz::TimeZone;

use super::agents::ReadAgent;
use super::rigs::{LOOK_LIMIT, ReadRig};
use super::{Context, Files};
use crate::config::diagnostics::Diagnostic;
use crate::config::document::{self, Node, Source, SourceSpan};
use crate::config::reader::{Reader, Report};
use crate::config::templates;
use crate::config::values::{
    Parsed, choice, complain, filled, flag, integer, list, optional, some_duration, text,
};
use crate::domain::automation::{Automation, AutomationId};
use crate::domain::city::{DaemonPolicy, RigSource};
use crate::domain::gates::cron::{CatchUp, Schedule};
use crate::domain::gates::event::Pattern;
use crate::domain::gates::{Gate, GateKind};
use crate::domain::ids::{AutomationName, RigName, RitualName};
use crate::domain::ritual::Ritual;
use crate::domain::suggest::closest;
use crate::in_time::in_time;
use crate::regular;

/// The file that makes a folder an automation.
const FILE: &str = "automation.toml";

/// Keys that only some gates use, with those gates.
const GATED: &[(&str, &[GateKind])] = &[
    ("schedule", &[GateKind::Cron]),
    ("timezone", &[GateKind::Cron]),
    ("catch_up", &[GateKind::Cron]),
    ("interval", &[GateKind::Cooldown, GateKind::Condition]),
    ("check", &[GateKind::Condition]),
    ("on", &[GateKind::Event]),
];

/// The earlier sections that automations refer to.
pub struct Earlier<'a> {
    rigs: &'a [ReadRig],
    agents: &'a [ReadAgent],
    rituals: &'a BTreeMap<RitualName, Ritual>,
    daemon: Option<&'a DaemonPolicy>,
}

impl<'a> Earlier<'a> {
    /// Makes it of what was read so far.
    pub fn new(
        rigs: &'a [ReadRig],
        agents: &'a [ReadAgent],
        rituals: &'a BTreeMap<RitualName, Ritual>,
        daemon: Option<&'a DaemonPolicy>,
    ) -> Self {
        Self {
            rigs,
            agents,
            rituals,
            daemon,
        }
    }
}

/// Values of `[automations]` and of earlier sections.
struct EarlierValues {
    skip: Vec<(String, SourceSpan)>,
    max_timeout: Option<Duration>,
    patrol_interval: Option<Duration>,
}

/// Returns every automation that is not skipped.
pub fn all(
    reader: &mut Reader<'_>,
    context: &Context<'_>,
    files: &mut Files<'_>,
    earlier: &Earlier<'_>,
) -> Vec<Automation> {
    let (report, rigs) = (reader.report, earlier.rigs);
    let known = known(reader, earlier.daemon);
    let own = context.root.join("automations");
    let mut folders = found(&own, None, context.root, report);
    files.searched.push(own);
    for rig in rigs.iter().filter(|rig| rig.trust.0) {
        folders.extend(carried(rig, files.searched, report));
    }
    complain_about_skip(&known, &folders, report);
    folders.retain(|folder| !known.skips(&folder.id));
    let read = folders.iter().filter_map(|folder| {
        let node = folder.open(files, report)?;
        let reader = Reader::open("automation", &node, report)?;
        one(reader, folder, &known, earlier)
    });
    read.collect()
}

fn known(reader: &mut Reader<'_>, daemon: Option<&DaemonPolicy>) -> EarlierValues {
    let mut known = EarlierValues {
        skip: Vec::new(),
        max_timeout: None,
        patrol_interval: daemon.map(|daemon| daemon.patrol_interval),
    };
    if let Some(mut section) = reader.section("automations", "automations") {
        let skip = section.get("skip", list(filled)).unwrap_or_default();
        known.skip = skip
            .into_iter()
            .zip(section.element_places("skip"))
            .collect();
        let max = section.get("max_timeout", optional(some_duration));
        known.max_timeout = max.flatten();
        section.finish();
    }
    known
}

impl EarlierValues {
    fn skips(&self, id: &AutomationId) -> bool {
        self.skip.iter().any(|(name, _)| means(name, id))
    }
}

fn means(name: &str, id: &AutomationId) -> bool {
    name == id.name.as_str() || name == id.to_string()
}

/// Complains about a skipped name that matches nothing: it is most likely misspelled.
fn complain_about_skip(known: &EarlierValues, folders: &[Folder], report: &Report) {
    for (name, place) in &known.skip {
        if folders.iter().any(|folder| means(name, &folder.id)) {
            continue;
        }
        let warning = Diagnostic::warning(format!("there is no automation \"{name}\" to skip"));
        let names: Vec<_> = folders.iter().map(|folder| folder.id.to_string()).collect();
        report.add(match closest(name, names.iter().map(String::as_str)) {
            Some(near) => warning.at(place).hint(format!("did you mean \"{near}\"?")),
            None => warning.at(place),
        });
    }
}

/// The folder of an automation.
struct Folder {
    id: AutomationId,
    path: PathBuf,
    /// The working directory of its commands.
    dir: PathBuf,
}

impl Folder {
    /// Reads its file, over the template of automations.
    fn open(&self, files: &mut Files<'_>, report: &Report) -> Option<Node> {
        let path = self.path.join(FILE);
        let text = regular::read_text(&path)
            .map_err(|error| report.add(cannot_read(&path, &error)))
            .ok()?;
        let index = files.sources.len();
        let parsed = document::parse(&text, index);
        files.sources.push(Source { path, text });
        match parsed {
            Ok(mut node) => {
                templates::lay_over(files.templates.get("automations"), &mut node);
                Some(node)
            }
            Err(errors) => {
                errors.into_iter().for_each(|error| report.add(error));
                None
            }
        }
    }

    /// Reads a command. If its first word is a file of the folder, that file is run, in whichever directory the command
    /// works.
    fn command(&self, node: &Node) -> Parsed<String> {
        let line = filled(node)?;
        let line = line.trim();
        let (word, rest) = line.split_at(line.find(char::is_whitespace).unwrap_or(line.len()));
        let plain = |c: char| c.is_ascii_alphanumeric() || "./_-".contains(c);
        let (script, plain) = (self.path.join(word), word.chars().all(plain));
        let there = script.is_file();
        if plain && word.contains('/') && !there {
            return complain(node, format!("there is no file {}", script.display()));
        }
        if !plain && !there {
            return Ok(line.to_owned());
        }
        // Decided when it runs: the file may be written after this configuration was read.
        let script = shell_words::quote(&script.to_string_lossy()).into_owned();
        Ok(format!(
            "if [ ! -f {script} ]; then\n{line}\nelif [ -x {script} ]; then\n{script}{rest}\n\
             else\nsh {script}{rest}\nfi"
        ))
    }
}

/// Returns the error for a file or folder that cannot be read.
pub(super) fn cannot_read(path: &Path, error: &std::io::Error) -> Diagnostic {
    Diagnostic::error(format!("cannot read {}: {error}", path.display()))
}

/// Returns the automations below a folder, by name. Folders without an `automation.toml` hold something else.
fn found(folder: &Path, rig: Option<&RigName>, dir: &Path, report: &Report) -> Vec<Folder> {
    let named = folder.to_owned();
    // Without them, their marks would be lost: the disk is waited for.
    let in_time = in_time(LOOK_LIMIT, move || entries(&named));
    let entries = in_time.unwrap_or_else(|| {
        tracing::warn!(folder = %folder.display(), "the configuration is not read yet: the folder of automations does not answer");
        entries(folder)
    });
    let entries = match entries {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            report.add(cannot_read(folder, &error));
            return Vec::new();
        }
    };
    let mut folders = Vec::new();
    for (path, is_automation) in entries {
        match is_automation {
            Ok(true) => {}
            // Also a plain file beside them.
            Ok(false) => continue,
            Err(error) if error.kind() == ErrorKind::NotADirectory => continue,
            Err(error) => {
                report.add(cannot_read(&path, &error));
                continue;
            }
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match AutomationName::new(name) {
            Ok(name) => {
                let (rig, dir) = (rig.cloned(), dir.to_owned());
                let id = AutomationId { rig, name };
                folders.push(Folder { id, path, dir });
            }
            Err(error) => {
                let message = format!("{}: {error}", path.display());
                report.add(Diagnostic::error(message));
            }
        }
    }
    folders
}

/// Returns the entries of a folder, by name, and whether each is an automation.
fn entries(folder: &Path) -> io::Result<BTreeMap<PathBuf, io::Result<bool>>> {
    let look = |entry: fs::DirEntry| {
        let path = entry.path();
        let is_automation = path.join(FILE).try_exists();
        (path, is_automation)
    };
    fs::read_dir(folder)?.map(|entry| entry.map(look)).collect()
}

/// Returns the automations that a rig's repository carries.
fn carried(rig: &ReadRig, searched: &mut Vec<PathBuf>, report: &Report) -> Vec<Folder> {
    match (&rig.name, &rig.source) {
        (Some(name), Some(RigSource::Path(path))) => {
            let folder = path.join(".horde/automations");
            let found = found(&folder, Some(name), path, report);
            searched.push(folder);
            found
        }
        (_, Some(RigSource::Remote(_))) => {
            let message = "a rig without a `path` carries no automations on this machine";
            report.add(Diagnostic::error(message).at(&rig.trust.1));
            Vec::new()
        }
        // The error in the rig was reported there.
        (_, None) | (None, _) => Vec::new(),
    }
}

fn one(
    mut reader: Reader<'_>,
    folder: &Folder,
    known: &EarlierValues,
    earlier: &Earlier<'_>,
) -> Option<Automation> {
    let description = reader.get("description", text);
    let exec = reader.get("exec", optional(|node| folder.command(node)));
    let action = action::of(&mut reader, exec, folder.id.rig.as_ref(), earlier);
    let gate = gate(&mut reader, folder, known);
    let timeout = reader.get("timeout", some_duration);
    let retries = reader.get("retries", integer(0));
    let enabled = reader.get("enabled", flag);
    reader.finish();
    let timeout = timeout?;
    Some(Automation {
        id: folder.id.clone(),
        description: description?,
        action: action?,
        gate: gate?,
        timeout: known.max_timeout.map_or(timeout, |max| max.min(timeout)),
        retries: retries?,
        enabled: enabled?,
        dir: folder.dir.clone(),
    })
}

fn gate(reader: &mut Reader<'_>, folder: &Folder, known: &EarlierValues) -> Option<Gate> {
    let kinds: Vec<_> = GateKind::ALL
        .iter()
        .map(|kind| (kind.as_str(), *kind))
        .collect();
    let kind = reader.get("gate", choice(kinds, &[]));
    let zone = reader.get("timezone", zone);
    let schedule = reader.get(
        "schedule",
        optional(|node| {
            // The invalid zone was reported already; the pattern is checked all the same.
            let zone = zone.clone().unwrap_or(TimeZone::UTC);
            Schedule::parse(&text(node)?, zone).or_else(|why| complain(node, why))
        }),
    );
    let catch_ups = &[("none", CatchUp::None), ("last", CatchUp::Last)];
    let catch_up = reader.get("catch_up", choice(catch_ups, &[]));
    let interval = reader.get("interval", optional(some_duration));
    let check = reader.get("check", optional(|node| folder.command(node)));
    let on = reader.get("on", optional(pattern));
    let kind = kind?;
    for (key, gates) in GATED {
        if !reader.place(key).is_default() && !gates.contains(&kind) {
            let gates: Vec<_> = gates.iter().map(|gate| gate.as_str()).collect();
            let gates = gates.join("\" and \"");
            reader.complain(key, format!("`{key}` is for the gate \"{gates}\" only"));
        }
    }
    match kind {
        GateKind::Cooldown => Some(Gate::Cooldown {
            interval: needed(reader, kind, "interval", interval?)?,
        }),
        GateKind::Cron => Some(Gate::Cron {
            schedule: needed(reader, kind, "schedule", schedule?)?,
            catch_up: catch_up?,
        }),
        GateKind::Condition => {
            let check = needed(reader, kind, "check", check?)?;
            let patrol = known.patrol_interval?;
            let interval = interval?.unwrap_or(patrol);
            Some(Gate::Condition {
                check,
                interval,
                every: interval.min(patrol),
            })
        }
        GateKind::Event => Some(Gate::Event {
            on: needed(reader, kind, "on", on?)?,
        }),
        GateKind::Manual => Some(Gate::Manual),
    }
}

/// Returns the value, or reports that the gate needs it.
fn needed<T>(reader: &Reader<'_>, gate: GateKind, key: &str, value: Option<T>) -> Option<T> {
    if value.is_none() {
        reader.complain("gate", format!("the gate \"{gate}\" needs `{key}`"));
    }
    value
}

fn zone(node: &Node) -> Parsed<TimeZone> {
    let name = text(node)?;
    if name.is_empty() {
        return Ok(TimeZone::system());
    }
    TimeZone::get(&name).or_else(|_| complain(node, format!("there is no time zone {name:?}")))
}

fn pattern(node: &Node) -> Parsed<Pattern> {
    let on = text(node)?;
    Pattern::parse(&on).map_err(|near| {
        let error = Diagnostic::error(format!("no event has the type {on:?}")).at(&node.place);
        vec![match near {
            Some(near) => error.hint(format!("did you mean \"{near}\"?")),
            None => error.hint("a type such as \"raider.merged\", or \"raider.*\""),
        }]
    })
}
