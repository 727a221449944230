//! The text of a git configuration: read from the output of git, and written.

use super::bytes;

/// Keys with their values, in order. A key without a value is true.
pub(super) type Settings = Vec<(String, Option<String>)>;

/// Parses the output of `git config --list -z`.
pub(super) fn listed(text: &[u8]) -> Settings {
    let records = bytes::split(text).map(|record| {
        let text = bytes::lossy(record);
        match text.split_once('\n') {
            Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
            None => (text, None),
        }
    });
    records.collect()
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
