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

/// A placeholder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// `{sandbox}`: the raider's worktree, or the agent's working directory.
    Sandbox,
    /// `{city}`: the city's directory.
    City,
    /// `{rig}`: the name of the rig; empty for an agent.
    Rig,
    /// `{hd}`: the absolute path of `hd`.
    Hd,
    /// `{hd_dir}`: the directory of `hd`.
    HdDir,
    /// `{session_id}`: the harness's own id of the resumed conversation.
    SessionId,
    /// `{hooks}`: the file, or the text of the configuration, that makes the harness report.
    Hooks,
    /// `{hooks_dir}`: the directory of the configuration that makes the harness report.
    HooksDir,
    /// `{hooks_trust}`: the setting that makes the harness run these hooks without asking.
    HooksTrust,
    /// `{rules}`: the file that lists what the harness may run without asking.
    Rules,
    /// `{gitdir}`: the worktree's own directory of git.
    GitDir,
    /// `{gitcommon}`: the directory of git that all worktrees share.
    GitCommon,
}

impl Place {
    /// All placeholders.
    pub const ALL: &[Self] = &[
        Self::Sandbox,
        Self::City,
        Self::Rig,
        Self::Hd,
        Self::HdDir,
        Self::SessionId,
        Self::Hooks,
        Self::HooksDir,
        Self::HooksTrust,
        Self::Rules,
        Self::GitDir,
        Self::GitCommon,
    ];

    /// Returns the placeholder as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sandbox => "{sandbox}",
            Self::City => "{city}",
            Self::Rig => "{rig}",
            Self::Hd => "{hd}",
            Self::HdDir => "{hd_dir}",
            Self::SessionId => "{session_id}",
            Self::Hooks => "{hooks}",
            Self::HooksDir => "{hooks_dir}",
            Self::HooksTrust => "{hooks_trust}",
            Self::Rules => "{rules}",
            Self::GitDir => "{gitdir}",
            Self::GitCommon => "{gitcommon}",
        }
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
    pub fn set(&mut self, place: Place, value: impl Into<String>) {
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

    /// Does the same for several texts.
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
        fill.set(Place::Sandbox, "/s/{city}");
        fill.set(Place::City, "/c");
        let text = r#"{"a":"{sandbox}"} {city}{rig} {x} {prompt}"#;
        assert_eq!(
            fill.put_in(text),
            r#"{"a":"/s/{city}"} /c{rig} {x} {prompt}"#
        );
        let names: std::collections::BTreeSet<_> =
            Place::ALL.iter().map(|place| place.as_str()).collect();
        assert_eq!(names.len(), Place::ALL.len());
        let told = |name: &&str| PLACEHOLDERS.iter().any(|(known, _)| known == name);
        assert!(names.iter().all(told), "each is explained");
    }
}
