//! The text of a git configuration: read from the output of git, and written.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::bytes;
use crate::domain::plain_path::plain;

/// A key with its value. A key without a value is true.
pub(super) type Setting = (String, Option<String>);

/// Settings, in order.
pub(super) type Settings = Vec<Setting>;

/// Parses the output of `git config --list -z`.
pub(super) fn listed(text: &[u8]) -> Settings {
    bytes::split(text).map(setting).collect()
}

/// A setting, with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    /// `system`, `global`, `local`, `worktree` or another scope.
    pub(super) scope: String,
    /// The file that has it; empty for one that is in no file.
    pub(super) file: PathBuf,
    pub(super) setting: Setting,
}

/// Names the files of these settings for people, each once; git names one by its way from the repository.
pub(super) fn shown_files<'a>(settings: impl IntoIterator<Item = &'a Listed>) -> String {
    let files = settings
        .into_iter()
        .map(|it| plain(&it.file).display().to_string());
    let files: BTreeSet<String> = files.collect();
    files.into_iter().collect::<Vec<_>>().join(", ")
}

/// Parses the output of `git config --list --show-scope --show-origin -z` in a directory.
pub(super) fn with_files(text: &[u8], dir: &Path) -> Vec<Listed> {
    let records: Vec<_> = text.split(|byte| *byte == 0).collect();
    let listed = |record: &[&[u8]]| {
        let file = record[1].strip_prefix(b"file:").map(bytes::path);
        Listed {
            scope: bytes::lossy(record[0]),
            file: file.map_or_else(PathBuf::new, |file| dir.join(file)),
            setting: setting(record[2]),
        }
    };
    records.chunks_exact(3).map(listed).collect()
}

fn setting(record: &[u8]) -> Setting {
    let text = bytes::lossy(record);
    match text.split_once('\n') {
        Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
        None => (text, None),
    }
}

/// Formats the settings in git's file format.
pub(super) fn render(settings: &Settings) -> String {
    let mut text = String::from("# Written by horde-supervisor; changes here are lost.\n");
    for (key, value) in settings {
        let Some((section, rest)) = key.split_once('.') else {
            continue;
        };
        let (sub, name) = rest
            .rsplit_once('.')
            .map_or((None, rest), |(sub, name)| (Some(sub), name));
        match sub {
            Some(sub) => {
                let sub = sub.replace('\\', "\\\\").replace('"', "\\\"");
                text.push_str(&format!("[{section} \"{sub}\"]\n"));
            }
            None => text.push_str(&format!("[{section}]\n")),
        }
        match value {
            Some(value) => text.push_str(&format!("\t{name} = \"{}\"\n", escape(value))),
            None => text.push_str(&format!("\t{name}\n")),
        }
    }
    text
}

fn escape(value: &str) -> String {
    let mut text = String::new();
    for char in value.chars() {
        match char {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            char => text.push(char),
        }
    }
    text
}
