//! Agent identities (`raider-lifecycle.md`, identity): named roles that outlive slots and sessions. The identity of a
//! session is `<harness>[/<model>]`, or the name that `[identities]` gives to it. Both parts come from the
//! configuration, never from an agent.

use std::collections::BTreeMap;

use super::ids::{HarnessName, IdentityName};

/// The identity of work whose harness is not known: it was done before identities were recorded.
pub const UNKNOWN: &str = "unknown";
/// The longest part of a model's name that an identity has.
const MODEL_MAX: usize = 40;

/// The harness, and the model if one is named, that an identity stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// The harness.
    pub harness: HarnessName,
    /// The model as the command of the harness names it; a name that ends in `*` matches all names with that beginning.
    /// None matches every model.
    pub model: Option<String>,
}

impl Pattern {
    /// Returns how closely the pattern fits; none when it does not.
    fn fits(&self, harness: &HarnessName, model: Option<&str>) -> Option<(usize, bool)> {
        if self.harness != *harness {
            return None;
        }
        match (&self.model, model) {
            (None, _) => Some((0, false)),
            (Some(wanted), Some(model)) => match wanted.strip_suffix('*') {
                Some(start) => model.starts_with(start).then_some((start.len() + 1, false)),
                None => (wanted == model).then_some((wanted.len() + 1, true)),
            },
            (Some(_), None) => None,
        }
    }
}

/// `[identities]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identities(pub BTreeMap<IdentityName, Pattern>);

impl Identities {
    /// Returns the identity of a harness: the name whose pattern fits most closely, else `<harness>[/<model>]`.
    #[must_use]
    pub fn of(&self, harness: &HarnessName, command: &[String]) -> String {
        let model = model(command);
        let fitting = self.0.iter().filter_map(|(name, pattern)| {
            let fit = pattern.fits(harness, model)?;
            Some((fit, name))
        });
        match fitting.max_by_key(|(fit, _)| *fit) {
            Some((_, name)) => name.to_string(),
            None => default_name(harness, model),
        }
    }
}

/// Programs whose option `-m` names the model; elsewhere it has other meanings.
const SHORT: [&str; 3] = ["codex", "gemini", "opencode"];

/// Returns the model that the command of a harness names: the value of its last `--model`, or `-m` where the program has
/// that.
fn model(command: &[String]) -> Option<&str> {
    let mut found = None;
    let mut words = command.iter().map(String::as_str);
    let program = words.next()?;
    let program = program.rsplit('/').next().unwrap_or(program);
    while let Some(word) = words.next() {
        if word == "--" {
            break;
        }
        if word == "--model" || word == "-m" && SHORT.contains(&program) {
            found = words.next();
        } else if let Some(model) = word.strip_prefix("--model=") {
            found = Some(model);
        }
    }
    found.filter(|model| !model.is_empty() && !model.contains(['{', '}']))
}

/// Returns the name of an identity that `[identities]` does not name. Characters that a name cannot have become `-`.
fn default_name(harness: &HarnessName, model: Option<&str>) -> String {
    let Some(model) = model else {
        return harness.to_string();
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+@".contains(c);
    let model: String = model
        .chars()
        .take(MODEL_MAX)
        .map(|c| if plain(c) { c } else { '-' })
        .collect();
    let model = model.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    match model {
        "" => harness.to_string(),
        model => format!("{harness}/{model}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(identities: &Identities, harness: &str, command: &[&str]) -> String {
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        identities.of(&HarnessName::new(harness).unwrap(), &command)
    }

    #[test]
    fn identity_is_the_harness_and_the_model_that_its_command_names() {
        let cases: &[(&[&str], &str)] = &[
            (&["claude"], "claude"),
            (&["claude", "--model", "opus-4.5"], "claude/opus-4.5"),
            (&["claude", "--model=opus"], "claude/opus"),
            (
                &["/usr/bin/codex", "-m", "a/b:free[1m]"],
                "claude/a-b-free-1m-",
            ),
            (&["gemini", "-m", "one", "--model", "two"], "claude/two"),
            (&["aider", "-m", "a message"], "claude"),
            (&[], "claude"),
            (&["claude", "--model", "{model}"], "claude"),
            (&["claude", "--model"], "claude"),
            (&["claude", "--", "--model", "x"], "claude"),
            (&["claude", "--model", "--"], "claude"),
            (&["claude", "--model", "\u{1b}[31m"], "claude/31m"),
        ];
        for (command, wanted) in cases {
            let name = of(&Identities::default(), "claude", command);
            assert_eq!(name, *wanted, "{command:?}");
            assert!(IdentityName::new(name).is_ok(), "{command:?}");
        }
    }

    #[test]
    fn closest_pattern_names_the_identity() {
        let pattern = |harness: &str, model: Option<&str>| Pattern {
            harness: HarnessName::new(harness).unwrap(),
            model: model.map(str::to_owned),
        };
        let named = [
            ("any", pattern("claude", None)),
            ("family", pattern("claude", Some("opus*"))),
            ("exact", pattern("claude", Some("opus-4"))),
            ("other", pattern("codex", None)),
        ];
        let named = named.map(|(name, pattern)| (IdentityName::new(name).unwrap(), pattern));
        let identities = Identities(named.into_iter().collect());
        let claude = |model: &str| of(&identities, "claude", &["claude", "--model", model]);
        assert_eq!(of(&identities, "claude", &["claude"]), "any");
        assert_eq!(claude("haiku"), "any");
        assert_eq!(claude("opus-5"), "family");
        assert_eq!(claude("opus-4"), "exact");
        assert_eq!(of(&identities, "pi", &["pi"]), "pi");
    }

    #[test]
    fn name_of_an_identity_is_safe_to_print_and_is_no_verb() {
        for good in ["claude", "claude/opus-4.5", "reviewer", "a+b@c/d_e"] {
            assert!(IdentityName::new(good).is_ok(), "{good}");
        }
        let long = "x".repeat(97);
        for bad in [
            "",
            "/",
            "a/",
            "/a",
            "a//b",
            "-a",
            "a b",
            "a:b",
            "a\nb",
            "ä",
            "export",
            "import",
            &long,
            "a\u{1b}[31m",
            "../x",
        ] {
            assert!(IdentityName::new(bad).is_err(), "{bad:?}");
        }
    }
}
