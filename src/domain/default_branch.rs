//! A default branch that another one took the place of at the remote.

use serde::{Deserialize, Serialize};

use super::ids::RigName;

/// A change of the default branch, from the one that the supervisor works with to the one that the remote names now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The branch that the supervisor works with.
    pub from: String,
    /// The branch that the remote's HEAD names.
    pub to: String,
    /// Set when the new branch has every commit of the old one.
    pub contains: bool,
    /// Set when the remote still has the old branch.
    pub kept: bool,
}

impl Change {
    /// Returns true when new charges follow. They do not where commits that landed on the old branch would be missing.
    #[must_use]
    pub fn is_followed(&self) -> bool {
        self.contains
    }

    /// Returns what follows, and what a person can do.
    #[must_use]
    pub fn text(&self, rig: &RigName) -> String {
        let Self { from, to, .. } = self;
        let gone = match self.kept {
            true => "which still exists",
            false => "which no longer exists there",
        };
        let open = match self.kept {
            true => format!("work in progress and merge requests still land on {from}"),
            false => format!(
                "work in progress and merge requests for {from} are held until {from} exists again; to land one elsewhere, \
                 cancel and reopen its relic, and charge it with `hd charge RELIC {rig} --target {to}`"
            ),
        };
        let follows = match self.is_followed() {
            true => format!(
                "{to} has all commits of {from}, so new charges begin on {to} and land there; {open}"
            ),
            false => format!(
                "{to} lacks commits of {from}, so nothing is changed: new charges still use {from}; {open}; set \
                 `default_branch = \"{to}\"` of the rig to follow, or `default_branch = \"{from}\"` to stay"
            ),
        };
        format!(
            "the remote of {rig} has the default branch {to} now instead of {from}, {gone}: {follows}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row: contained, kept; words that the text has.
    #[test]
    fn text_says_what_follows_and_names_both_branches() {
        let rig = RigName::new("horde").unwrap();
        let rows = [
            (
                true,
                true,
                ["new charges begin on trunk", "still land on main"],
            ),
            (
                true,
                false,
                ["new charges begin on trunk", "held until main exists again"],
            ),
            (
                false,
                true,
                ["new charges still use main", "default_branch = \"trunk\""],
            ),
            (
                false,
                false,
                [
                    "trunk lacks commits of main",
                    "hd charge RELIC horde --target trunk",
                ],
            ),
        ];
        for (contains, kept, words) in rows {
            let (from, to) = ("main".to_owned(), "trunk".to_owned());
            let change = Change {
                from,
                to,
                contains,
                kept,
            };
            assert_eq!(change.is_followed(), contains);
            let text = change.text(&rig);
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
        }
    }
}
