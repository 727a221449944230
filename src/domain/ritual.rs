//! Rituals: templates of multi-step work. A totem is made from one ([`super::totem`]).
//!
//! ```text
//!   rituals/<name>.toml ──► Ritual ──(variables, relic)──► steps of a totem
//! ```
//!
//! Texts name variables as `{{name}}`. Braces around anything but a name stay as they are.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ids::{RitualName, StepName};
use super::suggest::closest;

/// The maximum number of steps of a ritual.
pub const STEPS_MAX: usize = 64;
/// The maximum length of a step's title, in bytes.
pub const TITLE_MAX: usize = 200;
/// The maximum length of a step's body, in bytes.
pub const BODY_MAX: usize = 8 * 1024;
/// The maximum length of a variable's value, in bytes.
pub const VALUE_MAX: usize = 4 * 1024;
/// The maximum length of all titles and bodies of a totem, in bytes.
const TEXT_MAX: usize = 128 * 1024;

/// The variables that every ritual has, with the text that each stands for.
pub const GIVEN: &[(&str, &str)] = &[
    ("relic", "the id of the relic"),
    ("title", "the title of the relic"),
    ("rig", "the name of the rig"),
];

/// A ritual.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ritual {
    /// Its name.
    pub name: RitualName,
    /// Its purpose.
    pub description: String,
    /// The file that defines it; none for a built-in one.
    pub file: Option<PathBuf>,
    /// Its variables with their defaults; none where a value must be given.
    pub vars: BTreeMap<String, Option<String>>,
    /// Its steps, in the order of the file. Each needs only steps of the same ritual, without a cycle.
    pub steps: Vec<RitualStep>,
}

/// A step of a ritual.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RitualStep {
    /// Its id within the ritual.
    #[schemars(with = "String")]
    pub id: StepName,
    /// The title, in one line.
    pub title: String,
    /// The instructions.
    pub body: String,
    /// The steps that must be done first.
    #[schemars(with = "Vec<String>")]
    pub needs: Vec<StepName>,
    /// Set when it begins in a fresh session.
    pub fresh_session: bool,
}

/// The relic that a totem is made for.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Its id.
    pub relic: &'a str,
    /// Its title.
    pub title: &'a str,
    /// Its rig.
    pub rig: &'a str,
}

/// The reason why a ritual cannot be started with these variables: a lowercase fragment, and advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongVariables {
    /// The reason.
    pub why: String,
    /// The way out.
    pub hint: String,
}

/// Returns true for the name of a variable: lower-case letters, digits and `_`, beginning with a letter.
#[must_use]
pub fn is_variable(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.len() <= 48 && name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(fits)
}

/// Splits a text at its variables: plain text and names in turn.
fn parts(text: &str) -> Vec<(&str, Option<&str>)> {
    let mut found = Vec::new();
    let (mut rest, mut from) = (text, 0);
    while let Some(open) = rest[from..].find("{{").map(|at| at + from) {
        let Some(close) = rest[open..].find("}}").map(|at| at + open) else {
            break;
        };
        let name = rest[open + 2..close].trim();
        if is_variable(name) {
            found.push((&rest[..open], Some(name)));
            (rest, from) = (&rest[close + 2..], 0);
        } else {
            from = open + 1;
        }
    }
    found.push((rest, None));
    found
}

/// Returns the names of the variables in a text.
#[must_use]
pub fn variables(text: &str) -> Vec<&str> {
    let found = parts(text).into_iter();
    found.filter_map(|(_, name)| name).collect()
}

fn filled(text: &str, values: &BTreeMap<&str, &str>) -> String {
    let mut out = String::new();
    for (plain, name) in parts(text) {
        out.push_str(plain);
        if let Some(name) = name {
            out.push_str(values.get(name).copied().unwrap_or_default());
        }
    }
    out
}

/// Returns the steps on a cycle of needs, in order, the first one again at the end; none without a cycle.
#[must_use]
pub fn cycle(steps: &[(StepName, Vec<StepName>)]) -> Option<Vec<StepName>> {
    let needs_of = |id: &StepName| {
        let step = steps.iter().find(|(own, _)| own == id);
        Ok::<_, std::convert::Infallible>(step.map_or_else(Vec::new, |(_, needs)| needs.clone()))
    };
    steps.iter().find_map(|(id, _)| {
        let Ok(path) = super::deps::path(id, id, needs_of);
        path
    })
}

impl Ritual {
    /// Returns its variables with the values of a totem: those given, else the defaults.
    ///
    /// # Errors
    /// A name that the ritual does not know, a missing or unsuitable value.
    pub fn values(
        &self,
        given: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>, WrongVariables> {
        let name = &self.name;
        for (key, value) in given {
            if !self.vars.contains_key(key) {
                return Err(self.unknown(key));
            }
            if value.len() > VALUE_MAX || value.contains('\0') {
                return Err(WrongVariables {
                    why: format!("the value of {key} is not a text of at most {VALUE_MAX} bytes"),
                    hint: "put longer texts into the body of the relic".to_owned(),
                });
            }
        }
        let mut values = BTreeMap::new();
        for (key, default) in &self.vars {
            let value = given.get(key).or(default.as_ref());
            let Some(value) = value.filter(|value| default.is_some() || !value.trim().is_empty())
            else {
                return Err(WrongVariables {
                    why: format!("the ritual {name} needs a value of {key}"),
                    hint: format!("give --var {key}=VALUE"),
                });
            };
            values.insert(key.clone(), value.clone());
        }
        Ok(values)
    }

    fn unknown(&self, key: &str) -> WrongVariables {
        let known = || self.vars.keys().map(String::as_str);
        let is_given = GIVEN.iter().any(|(name, _)| *name == key);
        let hint = match closest(key, known()) {
            _ if is_given => format!("{key} is taken from the relic"),
            Some(near) => format!("did you mean {near}?"),
            None if self.vars.is_empty() => "it has no variables".to_owned(),
            None => format!("its variables: {}", known().collect::<Vec<_>>().join(", ")),
        };
        WrongVariables {
            why: format!("the ritual {} has no variable {key}", self.name),
            hint,
        }
    }

    /// Returns the steps for a relic, with the variables filled in.
    ///
    /// # Errors
    /// The texts become too long.
    pub fn steps_for(
        &self,
        subject: &Subject<'_>,
        values: &BTreeMap<String, String>,
    ) -> Result<Vec<RitualStep>, WrongVariables> {
        let own = values.iter().map(|(key, value)| (&**key, &**value));
        let mut all: BTreeMap<&str, &str> = own.collect();
        all.insert("relic", subject.relic);
        all.insert("title", subject.title);
        all.insert("rig", subject.rig);
        let mut length = 0;
        let mut steps = Vec::new();
        for step in &self.steps {
            let title = filled(&step.title, &all).replace(['\n', '\r'], " ");
            let body = filled(&step.body, &all);
            length += title.len() + body.len();
            if length > TEXT_MAX || title.len() > TITLE_MAX + VALUE_MAX {
                return Err(WrongVariables {
                    why: format!(
                        "with these variables the steps of {} are longer than {} KiB",
                        self.name,
                        TEXT_MAX / 1024
                    ),
                    hint: "give shorter values".to_owned(),
                });
            }
            steps.push(RitualStep {
                title,
                body,
                ..step.clone()
            });
        }
        Ok(steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> StepName {
        StepName::new(text).unwrap()
    }

    fn step(id: &str, body: &str) -> RitualStep {
        RitualStep {
            id: name(id),
            title: format!("do {id} of {{{{relic}}}}"),
            body: body.to_owned(),
            needs: Vec::new(),
            fresh_session: false,
        }
    }

    fn ritual(vars: &[(&str, Option<&str>)], body: &str) -> Ritual {
        let vars = vars.iter();
        Ritual {
            name: RitualName::new("work").unwrap(),
            description: String::new(),
            file: None,
            vars: vars
                .map(|(key, value)| ((*key).to_owned(), value.map(str::to_owned)))
                .collect(),
            steps: vec![step("one", body)],
        }
    }

    const SUBJECT: Subject<'_> = Subject {
        relic: "gt-1",
        title: "add a flag",
        rig: "horde",
    };

    fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn only_braces_around_a_name_are_a_variable() {
        for (text, names) in [
            ("{{a}} and {{ b_2 }}", vec!["a", "b_2"]),
            ("${{ github.sha }} {{A}} {{}} {{1}} {a}", vec![]),
            ("{{{a}}}", vec!["a"]),
            ("{{ open {{a}}", vec!["a"]),
            ("{{a", vec![]),
            ("é{{a}}é", vec!["a"]),
        ] {
            assert_eq!(variables(text), names, "{text}");
        }
    }

    #[test]
    fn variables_are_filled_in_and_values_are_not_read_again() {
        let ritual = ritual(
            &[("files", Some("all"))],
            "{{files}} of {{title}} in {{rig}}",
        );
        let values = ritual.values(&given(&[("files", "{{relic}}")])).unwrap();
        let steps = ritual.steps_for(&SUBJECT, &values).unwrap();
        assert_eq!(steps[0].body, "{{relic}} of add a flag in horde");
        assert_eq!(steps[0].title, "do one of gt-1");
        let values = ritual.values(&given(&[])).unwrap();
        let steps = ritual.steps_for(&SUBJECT, &values).unwrap();
        assert_eq!(steps[0].body, "all of add a flag in horde");
    }

    #[test]
    fn unknown_missing_and_oversized_values_are_refused() {
        let ritual = ritual(&[("files", None)], "{{files}}");
        let long = "x".repeat(VALUE_MAX + 1);
        for (pairs, says) in [
            (given(&[]), "needs a value of files"),
            (given(&[("files", " ")]), "needs a value of files"),
            (given(&[("fils", "a")]), "no variable fils"),
            (
                given(&[("relic", "gt-2"), ("files", "a")]),
                "no variable relic",
            ),
            (given(&[("files", &long)]), "at most"),
        ] {
            let refused = ritual.values(&pairs).unwrap_err();
            assert!(refused.why.contains(says), "{refused:?}");
        }
        assert!(ritual.values(&given(&[("files", "a")])).is_ok());
    }

    #[test]
    fn texts_that_grow_without_bound_are_refused() {
        let ritual = ritual(&[("a", Some(""))], &"{{a}}".repeat(1000));
        let values = given(&[("a", &"x".repeat(VALUE_MAX))]);
        assert!(ritual.steps_for(&SUBJECT, &values).is_err());
        let values = given(&[("a", "x")]);
        assert!(ritual.steps_for(&SUBJECT, &values).is_ok());
    }

    #[test]
    fn a_cycle_of_needs_is_found_and_named() {
        let steps = |edges: &[(&str, &[&str])]| {
            let edges = edges.iter();
            let needs = |needs: &[&str]| needs.iter().map(|id| name(id)).collect();
            edges
                .map(|(id, of)| (name(id), needs(of)))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            cycle(&steps(&[("a", &[]), ("b", &["a"]), ("c", &["a", "b"])])),
            None
        );
        let found = cycle(&steps(&[("a", &["c"]), ("b", &["a"]), ("c", &["b"])])).unwrap();
        assert_eq!(found, ["a", "c", "b", "a"].map(name));
        let own = cycle(&steps(&[("a", &["a"])])).unwrap();
        assert_eq!(own, ["a", "a"].map(name));
    }
}
