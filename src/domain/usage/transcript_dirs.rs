//! The places where programs write their transcripts. A transcript elsewhere is not read: its path is only the claim of
//! a process in the session.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Format;
use crate::domain::harness::hooks::Hooks;
use crate::domain::unattended::{CLAUDE, CODEX, COPILOT, GEMINI, PI};

/// Returns the format of a program's transcripts, by its hooks, or else by its file name.
#[must_use]
pub fn format(hooks: Hooks, program: &str) -> Option<Format> {
    match (hooks, program.rsplit('/').next()) {
        (Hooks::Claude, _) => Some(Format::Claude),
        (Hooks::Codex, _) => Some(Format::Codex),
        (Hooks::Gemini, _) => Some(Format::Gemini),
        (Hooks::Copilot, _) => Some(Format::Copilot),
        (Hooks::Pi, _) | (Hooks::None, Some("pi")) => Some(Format::Pi),
        (Hooks::Opencode, _) => Some(Format::Opencode),
        (Hooks::None, _) => None,
    }
}

/// Returns the directory that contains all transcripts of a program, given the environment of its sessions and the
/// directory of the supervisor's own files for them.
#[must_use]
pub fn root(format: Format, env: &BTreeMap<String, String>, own: &Path) -> PathBuf {
    match format {
        Format::Claude => CLAUDE.of(env).join("projects"),
        Format::Codex => CODEX.of(env).join("sessions"),
        Format::Gemini => GEMINI.of(env).join("tmp"),
        Format::Copilot => COPILOT.of(env).join("session-state"),
        Format::Pi => PI.of(env).join("sessions"),
        Format::Opencode => own.to_owned(),
    }
}

/// Returns the transcript of a conversation: the named file, or else the place where the program writes it.
#[must_use]
pub fn transcript(
    format: Format,
    root: &Path,
    conversation: &str,
    named: Option<&str>,
) -> Option<PathBuf> {
    match (format, named) {
        (_, Some(named)) => Some(PathBuf::from(named)),
        // The id must be a single name: it must not lead elsewhere.
        (Format::Copilot, None) if !conversation.contains(['/', '\0']) && conversation != ".." => {
            Some(root.join(conversation).join("events.jsonl"))
        }
        _ => None,
    }
}

/// Returns the directory of pi's transcripts for a working directory.
#[must_use]
pub fn pi(root: &Path, dir: &Path) -> PathBuf {
    let text = dir.to_string_lossy();
    let name = text.trim_start_matches('/').replace(['/', '\\', ':'], "-");
    root.join(format!("--{name}--"))
}
