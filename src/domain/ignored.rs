//! Files that ignore rules hide and no tool makes again (`.env`, an editor's settings). They block no removal, and no
//! salvage keeps them, so a person is told of them before and after.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The maximum number that is named; the others are counted.
const NAMED: usize = 20;

/// The ignored files of one sandbox, in the form for answers and events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ignored {
    /// The first paths, where a directory counts as one; none where they are unknown.
    #[serde(rename = "ignored", default)]
    named: Option<Vec<String>>,
    /// The number of further paths.
    #[serde(rename = "ignored_more", default, skip_serializing_if = "is_none")]
    more: usize,
    /// The reason why they are unknown.
    #[serde(
        rename = "ignored_unknown",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    unknown: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_none(more: &usize) -> bool {
    *more == 0
}

impl Ignored {
    /// Records a complete list.
    #[must_use]
    pub fn known(mut paths: impl Iterator<Item = String>) -> Self {
        Self {
            named: Some(paths.by_ref().take(NAMED).collect()),
            more: paths.count(),
            unknown: None,
        }
    }

    /// Records that they could not be listed: there may be any.
    #[must_use]
    pub fn unknown(why: impl ToString) -> Self {
        Self {
            unknown: Some(why.to_string()),
            ..Self::default()
        }
    }

    /// Returns true when the files are known.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.named.is_some()
    }

    /// Adds its fields to a JSON object.
    #[must_use]
    pub fn beside(&self, mut object: Value) -> Value {
        if let (Value::Object(all), Ok(Value::Object(own))) =
            (&mut object, serde_json::to_value(self))
        {
            all.extend(own);
        }
        object
    }

    /// Returns a line for people; none when there are no such files, or nothing was recorded.
    #[must_use]
    pub fn line(&self) -> Option<String> {
        let which = match (&self.named, &self.unknown) {
            (Some(named), _) if named.is_empty() => return None,
            (Some(named), _) if self.more == 0 => named.join(", "),
            (Some(named), _) => format!("{} and {} more", named.join(", "), self.more),
            (None, Some(why)) => format!("their names are unknown ({why})"),
            (None, None) => return None,
        };
        Some(format!(
            "ignored files, which salvage does not keep: {which}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn some_are_named_and_the_others_counted() {
        let of = |count: usize| Ignored::known((0..count).map(|n| format!("{n}.key")));
        let json = |ignored: &Ignored| serde_json::to_value(ignored).unwrap();
        assert_eq!(of(0).line(), None);
        assert_eq!(json(&of(0)), json!({ "ignored": [] }));
        let two = "ignored files, which salvage does not keep: 0.key, 1.key";
        assert_eq!(of(2).line().unwrap(), two);
        let many = of(NAMED + 3);
        assert!(many.line().unwrap().ends_with("19.key and 3 more"));
        assert_eq!(json(&many)["ignored"].as_array().unwrap().len(), NAMED);
        assert_eq!(json(&many)["ignored_more"], 3);
    }

    /// A list that could not be made is not an empty one.
    #[test]
    fn unknown_ignored_files_are_not_an_empty_list() {
        let unseen = Ignored::unknown("git took too long");
        assert!(!unseen.is_known() && Ignored::known(std::iter::empty()).is_known());
        let line = unseen.line().unwrap();
        assert!(line.contains("unknown") && line.contains("git took too long"));
        let json = serde_json::to_value(&unseen).unwrap();
        assert_eq!(
            json,
            json!({ "ignored": null, "ignored_unknown": "git took too long" })
        );
        assert_eq!(serde_json::from_value::<Ignored>(json).unwrap(), unseen);
    }
}
