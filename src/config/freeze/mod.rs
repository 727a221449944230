//! From the merged document to [`City`]: reads every section, checks across sections, and freezes. One file per
//! section.

mod across;
mod agents;
mod automations;
mod cost;
mod daemon;
mod forge;
mod groups;
mod harness;
mod identities;
mod notify;
mod rigs;
mod rituals;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use super::diagnostics::Diagnostic;
use super::document::{Node, Source, Table};
use super::reader::{Reader, Report};
use super::values::{Parsed, command, complain};
use super::{Env, values};
use crate::domain::budget::{self, Budget};
use crate::domain::city::City;

/// The context that freezing needs besides the document.
#[derive(Debug)]
pub struct Context<'a> {
    /// The directory that holds `city.toml`.
    pub root: &'a Path,
    /// The few values taken from the environment.
    pub env: &'a Env,
    /// Every path that the configuration has named so far.
    pub named: &'a RefCell<Vec<PathBuf>>,
}

impl Context<'_> {
    /// Resolves a path of the configuration: `~` is the home directory, relative paths start at the city.
    fn resolve(&self, path: &str) -> Result<PathBuf, String> {
        let resolved = match path.strip_prefix('~') {
            None => self.root.join(path),
            Some("") => self.home()?.to_owned(),
            Some(rest) => {
                let relative = rest.strip_prefix('/');
                let others = "only `~` itself is expanded, not the home of another user";
                self.home()?.join(relative.ok_or(others)?)
            }
        };
        self.named.borrow_mut().push(resolved.clone());
        Ok(resolved)
    }

    /// Reads a program and its arguments. `~` in the program is the home directory; a relative path of one stays as it is, and
    /// starts at the directory that the program is started in.
    fn program(&self, node: &Node) -> Parsed<Vec<String>> {
        let mut words = command(node)?;
        if let Some(program) = words.first_mut()
            && program.starts_with('~')
        {
            let path = self.resolve(program).or_else(|why| complain(node, why))?;
            *program = path.display().to_string();
        }
        Ok(words)
    }

    fn home(&self) -> Result<&Path, String> {
        let home = self.env.home.as_deref();
        home.ok_or_else(|| "`~` cannot be expanded: HOME is not set".to_owned())
    }
}

/// The context that automations and rituals are read with: each is a file of its own.
#[derive(Debug)]
pub struct Files<'a> {
    /// Every file so far; those of automations are added.
    pub sources: &'a mut Vec<Source>,
    /// The templates that they start from.
    pub templates: &'a Table,
    /// The directories that were searched for them.
    pub searched: &'a mut Vec<PathBuf>,
    /// The patterns of files that were read.
    pub patterns: &'a mut Vec<String>,
}

/// The result of freezing a document.
#[derive(Debug)]
pub struct Frozen {
    /// The city; its revision is still empty.
    pub city: City,
    /// Files that agents' prompts were read from, with their texts.
    pub prompt_files: Vec<(PathBuf, String)>,
}

/// Reads and checks everything. `None` when a necessary setting is invalid; the report has the errors.
pub fn freeze(
    root: &Node,
    context: &Context<'_>,
    files: &mut Files<'_>,
    report: &Report,
) -> Option<Frozen> {
    let mut reader = Reader::open("", root, report)?;
    let workspace = workspace(&mut reader);
    let daemon = reader.section("daemon", "daemon").and_then(daemon::daemon);
    let session = reader
        .section("session", "session")
        .and_then(daemon::session);
    let retention = reader
        .section("retention", "retention")
        .and_then(daemon::retention);
    let harnesses = harness::all(&mut reader, context);
    let identities = identities::all(&mut reader, &harnesses);
    let rigs = rigs::all(&mut reader, context, &harnesses);
    let provider = session.as_ref().map(|session| session.provider);
    let agents = agents::all(
        &mut reader,
        context,
        &harnesses,
        &rigs,
        daemon.as_ref(),
        provider,
    );
    let notify = reader.section("notify", "notify");
    let notify = notify.and_then(|section| self::notify::notify(section, &agents));
    let groups = groups::all(&mut reader, &agents);
    let rituals = rituals::all(context.root, files, report);
    let earlier = automations::Earlier::new(&rigs, &agents, &rituals, daemon.as_ref());
    let automations = automations::all(&mut reader, context, files, &earlier);
    reader.finish();
    groups::check_agents(&agents, report);
    across::check(
        workspace.as_ref().map(|(name, ..)| name.as_str()),
        &rigs,
        &agents,
        report,
    );
    let prompt_files = (agents.iter().filter_map(|a| a.prompt_file.clone())).collect();
    let (name, suspended, budget) = workspace?;
    let frozen = Frozen {
        city: City {
            root: context.root.to_owned(),
            name,
            revision: String::new(),
            daemon: daemon?,
            session: session?,
            retention: retention?,
            notify: notify?,
            harnesses: harnesses.into_frozen(),
            rigs: rigs.into_iter().filter_map(|rig| rig.rig).collect(),
            agents: agents.into_iter().filter_map(|agent| agent.agent).collect(),
            groups,
            suspended,
            budget,
            automations,
            identities: identities?,
            rituals,
        },
        prompt_files,
    };
    for blind in budget::blind(&frozen.city) {
        report.add(Diagnostic::warning(blind.says()).hint(blind.hint()));
    }
    across::check_idle(&frozen.city.rigs, report);
    Some(frozen)
}

fn workspace(reader: &mut Reader<'_>) -> Option<(String, bool, Option<Budget>)> {
    let mut reader = reader.section("workspace", "workspace")?;
    let name = reader.get("name", |node| {
        let name = values::filled(node)?;
        crate::domain::ids::check_name("workspace name", &name)
            .or_else(|error| values::complain(node, error.to_string()))?;
        Ok(name)
    });
    let suspended = reader.get("suspended", values::flag);
    let budget = cost::budget(&mut reader);
    reader.finish();
    Some((name?, suspended?, budget?))
}
