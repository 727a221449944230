//! Tasks of `run`: a text, or the fields of a relic.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::read::not_blank;

/// A task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Task {
    /// A text, whose first line is the title.
    Text(String),
    /// The fields of a relic.
    Fields(TaskFields),
}

impl<'de> Deserialize<'de> for Task {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match Value::deserialize(from)? {
            Value::String(text) => Ok(Self::Text(text)),
            fields @ Value::Object(_) => TaskFields::deserialize(fields)
                .map(Self::Fields)
                .map_err(D::Error::custom),
            _ => Err(D::Error::custom(
                "a task is a text, or an object with the fields of a relic",
            )),
        }
    }
}

/// The fields of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskFields {
    /// The title, in one line.
    pub title: String,
    /// The rest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// Larger is more urgent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: i64,
    /// Words to find it by.
    #[serde(default, alias = "label", skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Relics that must be closed first.
    #[serde(default, alias = "dep", skip_serializing_if = "Vec::is_empty")]
    pub deps: Vec<String>,
    /// An existing branch that the work begins on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The person or agent that does it: it is not charged then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignee: Option<String>,
    /// The harness of its raiders, in place of that of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harness: Option<String>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it by reference"
)]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl Task {
    /// Returns its fields.
    #[must_use]
    pub fn into_fields(self) -> TaskFields {
        match self {
            Self::Fields(fields) => fields,
            Self::Text(text) => {
                let text = text.trim();
                let (title, body) = text.split_once('\n').unwrap_or((text, ""));
                TaskFields {
                    title: title.to_owned(),
                    body: body.trim().to_owned(),
                    ..TaskFields::default()
                }
            }
        }
    }

    /// Reads the lines of a file: a task in each, as a text or as the fields in JSON. Empty lines and those that begin with `#` are left
    /// out.
    ///
    /// # Errors
    /// The number of the wrong line, with the reason.
    pub fn read_lines(text: &str) -> Result<Vec<Self>, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut tasks = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let task = match line.starts_with('{') {
                true => serde_json::from_str(line)
                    .map(Self::Fields)
                    .map_err(|error| {
                        let why = error.to_string();
                        // The position is that in the line, whose number is told.
                        let end = why.rfind(" at line ").unwrap_or(why.len());
                        why[..end].to_owned()
                    }),
                false => Ok(Self::Text(line.to_owned())),
            };
            tasks.push(task.map_err(|why| format!("line {}: {why}", at + 1))?);
        }
        Ok(tasks)
    }
}

/// Reads a task of the command line.
pub(super) fn task(text: &str) -> Result<Task, String> {
    not_blank(text).map(Task::Text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_line_of_a_text_is_the_title() {
        let fields = Task::Text(" title\n\nthe rest\n".to_owned()).into_fields();
        assert_eq!((&*fields.title, &*fields.body), ("title", "the rest"));
    }

    #[test]
    fn file_has_a_task_in_each_line() {
        let text = "# tasks\nadd a flag\n\n{\"title\":\"fix it\",\"priority\":4,\"labels\":[\"ui\"],\"deps\":[\"gt-1\"]}\n";
        let tasks = Task::read_lines(text).unwrap();
        let fields = TaskFields {
            title: "fix it".to_owned(),
            priority: 4,
            labels: vec!["ui".to_owned()],
            deps: vec!["gt-1".to_owned()],
            ..TaskFields::default()
        };
        let expected = [Task::Text("add a flag".to_owned()), Task::Fields(fields)];
        assert_eq!(tasks, expected);
        for wrong in [
            "x\n{\"titel\":\"y\"}",
            "x\n{\"title\":\"y\"",
            "x\n{\"body\":\"y\"}",
        ] {
            let why = Task::read_lines(wrong).unwrap_err();
            assert!(why.starts_with("line 2: "), "{why}");
        }
    }
}
