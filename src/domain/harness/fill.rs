//! Placeholders in `command`, `reduced`, `resume` and `env` of a harness.

use std::collections::BTreeMap;

/// The prompt, or the path of its file.
pub const PROMPT: &str = "{prompt}";

/// The place of the `resume` arguments in `command` or `reduced`; without it they come first.
pub const RESUME: &str = "{resume}";

/// Values of the placeholders of one session, without `{prompt}`, which is put in last, so that nothing in it is
/// replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fill(BTreeMap<&'static str, String>);

words! {
    /// A placeholder, as it is written.
    Placeholder {
        /// `{sandbox}`: the raider's worktree, or the agent's working directory.
        Sandbox => "{sandbox}",
        /// `{city}`: the city's directory.
        City => "{city}",
        /// `{rig}`: the name of the rig; empty for an agent.
        Rig => "{rig}",
        /// `{hd}`: the absolute path of `hd`.
        Hd => "{hd}",
        /// `{hd_dir}`: the directory of `hd`.
        HdDir => "{hd_dir}",
        /// `{session_id}`: the harness's own id of the resumed conversation.
        SessionId => "{session_id}",
        /// `{hooks}`: the file, or the text of the configuration, that makes the harness report.
        Hooks => "{hooks}",
        /// `{hooks_dir}`: the directory of the configuration that makes the harness report.
        HooksDir => "{hooks_dir}",
        /// `{hooks_trust}`: the setting that makes the harness run these hooks without asking.
        HooksTrust => "{hooks_trust}",
        /// `{rules}`: the file that lists what the harness may run without asking.
        Rules => "{rules}",
        /// `{gitdir}`: the worktree's own directory of git.
        GitDir => "{gitdir}",
        /// `{gitcommon}`: the directory of git that all worktrees share.
        GitCommon => "{gitcommon}",
    }
}

/// All placeholders, with their meaning.
pub const PLACEHOLDERS: &[(&str, &str)] = &[
    (
        PROMPT,
        "the prompt, or the path of the file that holds it where `prompt = \"file\"`",
    ),
    (
        RESUME,
        "the `resume` arguments when a conversation is resumed, else nothing",
    ),
    (
        "{sandbox}",
        "the raider's worktree, or the agent's working directory",
    ),
    ("{city}", "the city's directory"),
    ("{rig}", "the name of the rig; empty for a standing agent"),
    ("{hd}", "the absolute path of hd"),
    ("{hd_dir}", "the directory of hd"),
    (
        "{session_id}",
        "the harness's id of the conversation that is resumed",
    ),
    (
        "{hooks}",
        "the file, or the text, that makes the harness report its state",
    ),
    (
        "{hooks_dir}",
        "the directory that makes the harness report its state",
    ),
    (
        "{hooks_trust}",
        "the setting that makes the harness run these hooks without asking",
    ),
    (
        "{rules}",
        "the file of commands that the harness may run without asking",
    ),
    ("{gitdir}", "the worktree's own directory of git"),
    (
        "{gitcommon}",
        "the directory of git that all worktrees share",
    ),
];

impl Fill {
    /// Sets a value.
    pub fn set(&mut self, place: Placeholder, value: impl Into<String>) {
        self.0.insert(place.as_str(), value.into());
    }

    /// Returns the text with every placeholder that has a value replaced, in one pass: placeholders within values stay.
    #[must_use]
    pub fn put_in(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            let (before, after) = rest.split_at(at);
            out.push_str(before);
            let mut known = self.0.iter();
            match known.find(|(name, _)| after.starts_with(**name)) {
                Some((name, value)) => {
                    out.push_str(value);
                    rest = &after[name.len()..];
                }
                None => {
                    out.push('{');
                    rest = &after[1..];
                }
            }
        }
        out.push_str(rest);
        out
    }

    /// As [`Self::put_in`], but for several texts.
    #[must_use]
    pub fn put_in_all(&self, texts: &[String]) -> Vec<String> {
        texts.iter().map(|text| self.put_in(text)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_once_and_other_braces_stay() {
        let mut fill = Fill::default();
        fill.set(Placeholder::Sandbox, "/s/{city}");
        fill.set(Placeholder::City, "/c");
        let text = r#"{"a":"{sandbox}"} {city}{rig} {x} {prompt}"#;
        assert_eq!(
            fill.put_in(text),
            r#"{"a":"/s/{city}"} /c{rig} {x} {prompt}"#
        );
        let names: std::collections::BTreeSet<_> = Placeholder::ALL
            .iter()
            .map(|place| place.as_str())
            .collect();
        assert_eq!(names.len(), Placeholder::ALL.len());
        let told = |name: &&str| PLACEHOLDERS.iter().any(|(known, _)| known == name);
        assert!(names.iter().all(told), "each is explained");
    }
}
