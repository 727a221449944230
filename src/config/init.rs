//! The `city.toml` that `hd init` writes: short, commented, and valid.

use std::path::PathBuf;

use super::schema::SCHEMA_FILE;
use crate::domain::city::RigSource;

/// The answers and guesses that the file is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Init {
    /// `[workspace] name`.
    pub workspace: String,
    /// The rig: its name and repository; none leaves an example in comments.
    pub rig: Option<(String, RigSource)>,
    /// The harness of the workers.
    pub harness: String,
}

/// Returns the text of the file. Its first line names the schema, for the editors that look for it there.
#[must_use]
pub fn init_text(init: &Init) -> String {
    let workspace = quoted(&init.workspace);
    let harness = quoted(&init.harness);
    let example = (
        "my-repo".to_owned(),
        RigSource::Path(PathBuf::from("~/src/my-repo")),
    );
    let (rig, source) = init.rig.as_ref().unwrap_or(&example);
    let source = match source {
        RigSource::Path(path) => format!("path = {}", quoted(&path.to_string_lossy())),
        RigSource::Remote(remote) => format!("remote = {}", quoted(remote)),
    };
    let rig = format!(
        r#"[[rigs]]
name = {rig}
{source}

[rigs.raiders]
harness = {harness}           # claude, codex, gemini, opencode, pi ... or your own [harness.<name>]
max = 4                      # raiders at work at the same time
# auto_charge = true         # charge ready relics to free slots automatically
# setup = ["npm ci"]         # runs in every fresh worktree
# copy = [".env"]            # untracked files that every worktree needs

[rigs.forge]
# Commands that must succeed before work lands on the default branch. Without gates everything lands.
gates = [
  # {{ name = "test", run = "cargo test", timeout = "30m" }},
]
# style = "squash"           # rebase (default), squash or merge
# review = "human"           # nothing lands before a person approves
"#,
        rig = quoted(rig),
    );
    let rig = match init.rig {
        Some(_) => rig,
        None => commented(&rig),
    };
    format!(
        r#"#:schema ./{SCHEMA_FILE}
# A city: the repositories that agents work on, and how they are supervised.
# `hd config check` reports the errors of this file, `hd config show` prints every key and default.

[workspace]
name = {workspace}

# One [[rigs]] per repository. Your checkout is left alone: raiders work in worktrees of a copy
# beside this file.
{rig}
# The number of deaths of a raider's sessions before its quarantine:
# [daemon]
# max_restarts = 5
# restart_window = "1h"

# Your own harness: any program that works in the directory it is started in.
# [harness.mine]
# command = ["my-agent", "--yes", "{{prompt}}"]
# env_pass = ["MY_API_KEY"]  # sessions inherit nothing else that is secret

# A standing agent, beside the raiders:
# [[agents]]
# name = "scout"
# harness = {harness}
# prompt = "Read the open issues and file the ready ones with `hd relic create`."
# dir = {workspace_dir}
"#,
        workspace_dir = quoted("."),
    )
}

/// Returns the presets of harnesses that have a command.
#[must_use]
pub fn presets() -> Vec<String> {
    let defaults: toml::Table = super::DEFAULTS.parse().unwrap_or_default();
    let harnesses = defaults.get("harness").and_then(toml::Value::as_table);
    let all = harnesses.into_iter().flatten();
    let runs = all.filter(|(_, preset)| preset.get("command").is_some());
    runs.map(|(name, _)| name.clone()).collect()
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn commented(text: &str) -> String {
    let line = |line: &str| match line {
        "" => "#\n".to_owned(),
        line => format!("# {line}\n"),
    };
    text.lines().map(line).collect()
}
