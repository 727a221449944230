//! `[[agents]]`: standing children.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Context;
use super::harness::Harnesses;
use super::rigs::{LOOK_LIMIT, ReadRig};
use crate::config::diagnostics::Diagnostic;
use crate::config::document::{Node, SourceSpan};
use crate::config::fingerprint;
use crate::config::reader::Reader;
use crate::config::values;
use crate::config::values::{
    Parsed, choice, complain, duration, environment, filled, flag, integer, list, name, optional,
    some_duration, text,
};
use crate::domain::city::{
    Agent, AgentPrompt, DaemonPolicy, Harness, OnCompact, Pool, PromptMode, Provider, RestartType,
    RigSource, Rights,
};
use crate::domain::harness::fill::Fill;
use crate::domain::harness::{Start, launch};
use crate::domain::ids::{AgentName, HarnessName};
use crate::in_time::in_time;
use crate::regular;

/// An agent, as far as it could be read.
#[derive(Debug)]
pub struct ReadAgent {
    /// Its name.
    pub name: Option<AgentName>,
    /// The place of the name.
    pub name_at: SourceSpan,
    /// The agents that it depends on, with places.
    pub depends_on: Vec<(AgentName, SourceSpan)>,
    /// Set for a pool.
    pub is_pool: bool,
    /// The file that its prompt comes from, with its text.
    pub prompt_file: Option<(PathBuf, String)>,
    /// The agent, if all of it is valid.
    pub agent: Option<Agent>,
}

/// Values of earlier sections.
struct EarlierSections<'a> {
    context: &'a Context<'a>,
    harnesses: &'a Harnesses,
    rigs: &'a [ReadRig],
    shutdown_timeout: Option<Duration>,
    provider: Option<Provider>,
}

/// `[[agents]]`.
pub fn all(
    reader: &mut Reader<'_>,
    context: &Context<'_>,
    harnesses: &Harnesses,
    rigs: &[ReadRig],
    daemon: Option<&DaemonPolicy>,
    provider: Option<Provider>,
) -> Vec<ReadAgent> {
    let known = EarlierSections {
        context,
        harnesses,
        rigs,
        shutdown_timeout: daemon.map(|daemon| daemon.shutdown_timeout),
        provider,
    };
    let agents = reader.sections("agents", "agents").into_iter();
    agents.map(|agent| one(agent, &known)).collect()
}

fn one(mut reader: Reader<'_>, known: &EarlierSections<'_>) -> ReadAgent {
    let name: Option<AgentName> = reader.get("name", name);
    let name_at = reader.place("name");
    let mut prompt_file = None;
    let runs = runs(&mut reader, known, &mut prompt_file);
    let dir = reader.get("dir", |node| directory(node, known));
    let own_env = reader.get("env", environment);
    let process_names = reader.get("process_names", list(filled));
    let on_compact = reader.get("on_compact", choice(OnCompact::WORDS, &[]));
    let restart = restart(&mut reader);
    let rights = rights(&mut reader);
    let shutdown_timeout = reader.get("shutdown_timeout", optional(duration));
    let idle_timeout = reader.get("idle_timeout", optional(some_duration));
    let depends_on = reader.get("depends_on", list(values::name::<AgentName>));
    let needs = depends_on.iter().flatten().cloned();
    let needs = needs.zip(reader.element_places("depends_on")).collect();
    let suspended = reader.get("suspended", flag);
    let pool = pool(&mut reader);
    reader.finish();
    let is_pool = matches!(pool, None | Some(Some(_)));
    let frozen = || {
        let runs = runs?;
        let mut env = runs.env;
        env.extend(own_env?);
        let prompt = runs.harness.is_some().then(|| AgentPrompt {
            text: runs.prompt.clone(),
            file: runs.prompt_file,
        });
        let mut agent = Agent {
            name: name.clone()?,
            command: runs.command,
            prompt,
            first_input: runs.first_input,
            harness: runs.harness,
            process_names: process_names?,
            on_compact: on_compact?,
            dir: dir?,
            env,
            env_pass: runs.env_pass,
            restart: restart?,
            rights: rights?,
            shutdown_timeout: shutdown_timeout?.or(known.shutdown_timeout)?,
            idle_timeout: idle_timeout?,
            depends_on: depends_on?,
            suspended: suspended?,
            pool: pool?,
            drain_timeout: Duration::ZERO,
            fingerprint: String::new(),
        };
        agent.fingerprint = fingerprint::agent(&agent, &runs.prompt, known.provider?);
        Some(agent)
    };
    ReadAgent {
        agent: frozen(),
        name,
        name_at,
        depends_on: needs,
        is_pool,
        prompt_file,
    }
}

/// `restart`.
fn restart(reader: &mut Reader<'_>) -> Option<RestartType> {
    reader.get(
        "restart",
        choice(
            &[
                ("permanent", RestartType::Permanent),
                ("transient", RestartType::Transient),
                ("temporary", RestartType::Temporary),
            ],
            &[],
        ),
    )
}

/// `rights`.
fn rights(reader: &mut Reader<'_>) -> Option<Rights> {
    reader.get(
        "rights",
        choice(
            &[
                ("read", Rights::Read),
                ("work", Rights::Work),
                ("all", Rights::All),
            ],
            &[],
        ),
    )
}

/// Reads `pool = { ... }`; an empty string, the default, is no pool.
fn pool(reader: &mut Reader<'_>) -> Option<Option<Pool>> {
    let mut pool = reader.optional_section("pool", "agents.pool")?;
    let Some(reader) = &mut pool else {
        return Some(None);
    };
    let min = reader.get("min", integer(0));
    let max = reader.get("max", integer(1));
    let check = reader.get("check", optional(filled));
    let check_interval = reader.get("check_interval", some_duration);
    let drain_timeout = reader.get("drain_timeout", duration);
    if let (Some(min), Some(max)) = (min, max)
        && min > max
    {
        let error = Diagnostic::error("`min` is more than `max`")
            .at(&reader.place("min"))
            .related(&reader.place("max"), "the most");
        reader.report.add(error);
    }
    let frozen = || {
        Some(Pool {
            min: min?,
            max: max?,
            check: check?,
            check_interval: check_interval?,
            drain_timeout: drain_timeout?,
        })
    };
    let frozen = frozen();
    if let Some(reader) = pool {
        reader.finish();
    }
    frozen.map(Some)
}

/// The command of an agent, with the settings that its harness adds.
#[derive(Default)]
struct Runs {
    command: Vec<String>,
    first_input: Option<String>,
    harness: Option<HarnessName>,
    prompt: String,
    prompt_file: PathBuf,
    env: std::collections::BTreeMap<String, String>,
    env_pass: Vec<String>,
}

fn runs(
    reader: &mut Reader<'_>,
    known: &EarlierSections<'_>,
    prompt_file: &mut Option<(PathBuf, String)>,
) -> Option<Runs> {
    let command = reader.get("command", |node| known.context.program(node));
    let harness: Option<Option<HarnessName>> = reader.get("harness", optional(name));
    let prompt = reader.get("prompt", optional(text));
    let file = reader.get("prompt_file", optional(|node| readable(node, known)));
    let (command, harness, prompt, file) = (command?, harness?, prompt?, file?);
    prompt_file.clone_from(&file);
    match (command.is_empty(), harness) {
        (false, None) => {
            for (key, given) in [
                ("prompt", prompt.is_some()),
                ("prompt_file", file.is_some()),
            ] {
                if given {
                    let message = format!("`{key}` needs a `harness`: a command gets no prompt");
                    reader.complain(key, message);
                }
            }
            Some(Runs {
                command,
                ..Runs::default()
            })
        }
        (false, Some(_)) => {
            let error = Diagnostic::error("an agent has a `command` or a `harness`, not both")
                .at(&reader.place("harness"))
                .related(&reader.place("command"), "the command");
            reader.report.add(error);
            None
        }
        (true, None) => {
            let error = Diagnostic::error("this agent has neither `command` nor `harness`")
                .at(&reader.place("name"))
                .hint(
                    "command = [\"program\", \"argument\"], \
                     or harness = \"claude\" with `prompt` or `prompt_file`",
                );
            reader.report.add(error);
            None
        }
        (true, Some(harness)) => {
            let at = reader.place("harness");
            let harness = known.harnesses.find(&harness, &at, reader.report);
            prompted(reader, harness?, prompt, file)
        }
    }
}

fn prompted(
    reader: &Reader<'_>,
    harness: &Harness,
    prompt: Option<String>,
    file: Option<(PathBuf, String)>,
) -> Option<Runs> {
    let by_file = harness.prompt == PromptMode::File;
    let (path, prompt) = match (prompt, file) {
        (Some(_), None) if by_file => {
            let message = format!(
                "harness \"{}\" reads its prompt from a file: use `prompt_file`",
                harness.name
            );
            reader.complain("prompt", message);
            return None;
        }
        (Some(prompt), None) => (PathBuf::new(), prompt),
        (None, Some((path, text))) => (path, text),
        (Some(_), Some(_)) => {
            let error = Diagnostic::error("an agent has a `prompt` or a `prompt_file`, not both")
                .at(&reader.place("prompt_file"))
                .related(&reader.place("prompt"), "the prompt");
            reader.report.add(error);
            return None;
        }
        (None, None) => {
            let message = "an agent with a harness needs a `prompt` or a `prompt_file`";
            reader.complain("harness", message);
            return None;
        }
    };
    // An agent keeps its permissions after a crash: it was given them for good, not for a single piece of work.
    let start = Start {
        fill: &Fill::default(),
        prompt: &prompt,
        prompt_file: &path,
        reduced: false,
        resumes: false,
    };
    let launch = launch(harness, &start);
    Some(Runs {
        command: launch.argv,
        first_input: launch.first_prompt,
        harness: Some(harness.name.clone()),
        prompt,
        prompt_file: path,
        env: harness.env.clone(),
        env_pass: harness.env_pass.clone(),
    })
}

fn readable(node: &Node, known: &EarlierSections<'_>) -> Parsed<(PathBuf, String)> {
    let path = known.context.resolve(&text(node)?);
    let path = path.or_else(|why| complain(node, why))?;
    let prompt = regular::read_text(&path)
        .or_else(|error| complain(node, format!("cannot read {}: {error}", path.display())))?;
    if prompt.trim().is_empty() {
        return complain(node, format!("{} is empty", path.display()));
    }
    Ok((path, prompt))
}

/// Resolves a directory: the name of a rig stands for its checkout.
fn directory(node: &Node, known: &EarlierSections<'_>) -> Parsed<PathBuf> {
    let dir = text(node)?;
    let named = |rig: &&ReadRig| rig.name.as_ref().is_some_and(|name| name.as_str() == dir);
    if let Some(rig) = known.rigs.iter().find(named) {
        return match &rig.source {
            Some(RigSource::Path(checkout)) => Ok(checkout.clone()),
            Some(RigSource::Remote(_)) => {
                complain(node, format!("rig \"{dir}\" has no `path` to work in"))
            }
            // The error in the rig was reported there.
            None => Err(Vec::new()),
        };
    }
    let path = known.context.resolve(&dir);
    let path = path.or_else(|why| complain(node, why))?;
    let named = path.clone();
    let real = move || {
        named
            .is_dir()
            .then(|| named.canonicalize().unwrap_or(named))
    };
    // A disk that hangs stops the start of its agent alone.
    match in_time(LOOK_LIMIT, real) {
        Some(Some(path)) => Ok(path),
        Some(None) => complain(
            node,
            format!("there is no directory {}", Path::display(&path)),
        ),
        None => Ok(path),
    }
}
