//! `hd init`: writes a commented `city.toml` for a repository, beside it and never into it unless
//! asked.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::cli::args::Init;
use crate::cli::context::Context;
use crate::cli::environment;
use crate::cli::error::{CliError, Doing};
use crate::cli::output;
use crate::cli::render::show;
use crate::config;
use crate::domain::city::RigSource;
use crate::domain::doctor::Finding;
use crate::domain::ids::RigName;
use crate::domain::suggest::closest;

use super::harness::inspect::{Machine, inspect, missing};

/// The programs that are looked for in the `PATH`; the first found is the harness. Each is a preset's name with its
/// program.
const KNOWN: &[(&str, &str)] = &[
    ("claude", "claude"),
    ("codex", "codex"),
    ("gemini", "gemini"),
    ("opencode", "opencode"),
    ("copilot", "copilot"),
    ("pi", "pi"),
    ("cursor", "cursor-agent"),
    ("amp", "amp"),
    ("aider", "aider"),
    ("goose", "goose"),
];

/// The harness of the new file when none of the known programs is in the `PATH`.
const DEFAULT: &str = "claude";

pub(super) fn run(args: &Init, context: &Context) -> Result<(), CliError> {
    let harness = match &args.harness {
        Some(named) => Some(preset(named)?),
        None => on_path().map(ToOwned::to_owned),
    };
    let here = env::current_dir().doing("the working directory")?;
    let rig = match &args.rig {
        Some(path) => Some(path.canonicalize().doing(path.display())?),
        None => repository(&here),
    };
    let dir = place(args, &here, rig.as_deref())?;
    fs::create_dir_all(&dir).doing(dir.display())?;
    let dir = dir.canonicalize().doing(dir.display())?;
    let file = dir.join(config::FILE);
    let rig_name = rig.as_deref().map(|path| rig_name(path, &dir));
    let text = config::init_text(&config::Init {
        workspace: name_of(&dir, "city"),
        rig: rig_name.clone().zip(rig.clone().map(RigSource::Path)),
        harness: harness.clone().unwrap_or_else(|| DEFAULT.to_owned()),
    });
    write_new(&file, &text)?;
    if let Err(error) = config::write_schema(&dir) {
        output::message(&format!(
            "hd: the schema for editors is not written, the supervisor tries again: {error}"
        ));
    }
    if args.here {
        exclude(&dir, rig_name.as_deref())?;
    }
    let findings = harness.as_deref().map(|harness| examined(&file, harness));
    let findings = findings.unwrap_or_default();
    let result = json!({
        "city": dir,
        "file": file,
        "rig": rig_name,
        "harness": harness,
        "findings": findings,
    });
    context.print(&result, |_, style| {
        let wrote = format!("wrote {}", file.display());
        match findings.is_empty() {
            true => wrote,
            false => format!("{wrote}\n{}", show::findings(&findings, style)),
        }
    })?;
    next_steps(&dir, harness.as_deref(), rig.is_some());
    Ok(())
}

/// Checks the name of a preset; suggests the nearest one.
fn preset(named: &str) -> Result<String, CliError> {
    let presets = config::presets();
    if presets.iter().any(|preset| preset == named) {
        return Ok(named.to_owned());
    }
    let all = || presets.iter().map(String::as_str);
    let hint = match closest(named, all()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!(
            "there are {}; another program gets a [harness.<name>] in city.toml",
            all().collect::<Vec<_>>().join(", ")
        ),
    };
    Err(CliError::usage(format!("there is no preset {named}")).hint(hint))
}

/// Returns the findings that keep the new city's harness from starting without a person.
fn examined(file: &Path, harness: &str) -> Vec<Finding> {
    let Ok(loaded) = config::load(file, &config::Env::of_process()) else {
        return Vec::new();
    };
    let mut all = loaded.city.harnesses.values();
    let Some(harness) = all.find(|one| one.name.as_str() == harness) else {
        return Vec::new();
    };
    let looked = inspect(&loaded, harness, &Machine::here());
    let missing = missing(harness, &looked);
    missing.into_iter().chain(looked.findings).collect()
}

fn write_new(file: &Path, text: &str) -> Result<(), CliError> {
    match OpenOptions::new().write(true).create_new(true).open(file) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(CliError::failed(
            format!("{} exists already", file.display()),
        )
        .hint("`hd init` never overwrites a city")),
        opened => opened
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .doing(file.display()),
    }
}

fn next_steps(dir: &Path, harness: Option<&str>, rig: bool) {
    for line in without_agent(harness) {
        output::message(&line);
    }
    let dir = dir.to_string_lossy();
    output::message("next:");
    output::message(&format!("  cd {}", shell_words::quote(&dir)));
    if !rig {
        output::message("  hd rig add PATH   # your repository: a directory or a URL");
    }
    output::message("  hd up -d");
    output::message("  hd run \"what is to be done\"");
}

/// Returns advice for the case that no coding agent was found.
fn without_agent(harness: Option<&str>) -> Vec<String> {
    if harness.is_some() {
        return Vec::new();
    }
    let programs: Vec<&str> = KNOWN.iter().map(|(_, program)| *program).collect();
    vec![
        format!(
            "hd: no coding agent is in the PATH; these were looked for: {}",
            programs.join(", ")
        ),
        format!(
            "hd: city.toml names {DEFAULT}. Install it, or another one of them, and set `harness` in city.toml to it"
        ),
        "hd: a program of your own gets a [harness.NAME] with its `command`; `hd harness list` \
        lists all, and `hd harness test NAME` tests one"
            .to_owned(),
    ]
}

/// Returns the directory of the new city.
fn place(args: &Init, here: &Path, rig: Option<&Path>) -> Result<PathBuf, CliError> {
    if let Some(dir) = &args.dir {
        return Ok(dir.clone());
    }
    if args.here {
        return rig.map(Path::to_owned).ok_or_else(|| {
            CliError::usage("--here needs a repository, and this directory is not one")
        });
    }
    let inside = repository(here);
    Ok(
        match inside.as_deref().map(|inside| (inside, inside.parent())) {
            Some((inside, Some(parent))) => parent.join(format!("{}-city", name_of(inside, "rig"))),
            _ => here.to_owned(),
        },
    )
}

/// The repository that a directory is in: its top, or the repository itself where it is bare.
fn repository(dir: &Path) -> Option<PathBuf> {
    let is_bare = |dir: &Path| {
        let has = |name: &str| dir.join(name).is_dir();
        dir.join("HEAD").is_file() && has("objects") && has("refs")
    };
    let mut above = dir.ancestors();
    let found = above.find(|dir| dir.join(".git").exists() || is_bare(dir));
    found.map(Path::to_owned)
}

/// Makes a name from a directory's: characters that names may not have become `-`.
pub(super) fn name_of(dir: &Path, otherwise: &str) -> String {
    let name = dir
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    let name = name.strip_suffix(".git").unwrap_or(&name);
    let allowed = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' {
            c
        } else {
            '-'
        }
    };
    let name: String = name.chars().map(allowed).take(40).collect();
    let name = name.trim_matches(['-', '_']);
    match RigName::new(name) {
        Ok(name) => name.to_string(),
        Err(_) => otherwise.to_owned(),
    }
}

/// Returns the rig's name. It is also the name of the rig's directory in the city, so it must be free there.
pub(super) fn rig_name(rig: &Path, city: &Path) -> String {
    let name = name_of(rig, "rig");
    if city.join(&name).exists() {
        format!("{name}-rig")
    } else {
        name
    }
}

/// Returns the first known program in the PATH.
fn on_path() -> Option<&'static str> {
    let there = |program: &str| {
        environment::places(program)
            .iter()
            .any(|file| file.is_file())
    };
    let found = KNOWN.iter().find(|(_, program)| there(program));
    found.map(|(name, _)| *name)
}

/// Excludes the city's files from the repository around them. A linked worktree shares the excludes of its repository.
fn exclude(dir: &Path, rig: Option<&str>) -> Result<(), CliError> {
    let git = git_dir(&dir.join(".git"))?;
    let info = git.join("info");
    fs::create_dir_all(&info).doing(info.display())?;
    let path = info.join("exclude");
    let before = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read.doing(path.display())?,
    };
    let mut wanted = vec![format!("/{}", config::FILE), "/.horde/".to_owned()];
    wanted.extend(rig.map(|rig| format!("/{rig}/")));
    let missing: Vec<_> = wanted
        .iter()
        .filter(|line| !before.lines().any(|there| there == line.as_str()))
        .map(String::as_str)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let gap = if before.is_empty() || before.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    let after = format!("{before}{gap}{}\n", missing.join("\n"));
    fs::write(&path, after).doing(path.display())
}

/// Returns the directory with the excludes: `.git`, or the common one that a `.git` file leads to.
fn git_dir(git: &Path) -> Result<PathBuf, CliError> {
    if git.is_dir() {
        return Ok(git.to_owned());
    }
    let text = fs::read_to_string(git).doing(git.display())?;
    let named = text.trim().strip_prefix("gitdir: ").unwrap_or_default();
    let linked = git.parent().unwrap_or(Path::new("")).join(named);
    match fs::read_to_string(linked.join("commondir")) {
        Ok(common) => Ok(linked.join(common.trim())),
        // A submodule has a directory of its own.
        Err(_) => Ok(linked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_give_names_that_are_allowed() {
        let name = |dir: &str| name_of(Path::new(dir), "rig");
        assert_eq!(name("/src/my.tool"), "my-tool");
        assert_eq!(name("/src/tool.git"), "tool");
        assert_eq!(name("/src/_x y_"), "x-y");
        assert_eq!(name("/"), "rig");
        assert_eq!(name("/src/日本"), "rig");
    }

    #[test]
    fn excludes_are_added_once_and_nothing_is_lost() {
        let temp = crate::testing::scratch();
        let info = temp.path().join(".git/info");
        fs::create_dir_all(&info).unwrap();
        fs::write(info.join("exclude"), "*.log").unwrap();
        exclude(temp.path(), Some("tool")).unwrap();
        exclude(temp.path(), Some("tool")).unwrap();
        let text = fs::read_to_string(info.join("exclude")).unwrap();
        assert_eq!(text, "*.log\n/city.toml\n/.horde/\n/tool/\n");
    }

    #[test]
    fn a_linked_worktree_leads_to_its_repository() {
        let temp = crate::testing::scratch();
        let linked = temp.path().join("repo/.git/worktrees/w");
        fs::create_dir_all(&linked).unwrap();
        fs::write(linked.join("commondir"), "../..\n").unwrap();
        let file = temp.path().join("w.git");
        fs::write(&file, format!("gitdir: {}\n", linked.display())).unwrap();
        let found = git_dir(&file).unwrap().canonicalize().unwrap();
        assert_eq!(found, temp.path().join("repo/.git").canonicalize().unwrap());
    }
}
