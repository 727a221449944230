//! Identities. Each is a checked newtype, so that a raider's name can never be passed where a branch is wanted, and no
//! outside text reaches a path or a ref unchecked.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The reason why a text is not an identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid {kind} {text:?}: {why}")]
pub struct InvalidId {
    /// The expected kind ("rig name", "relic id", ...).
    pub kind: &'static str,
    /// The text as given.
    pub text: String,
    /// The rule it breaks.
    pub why: &'static str,
}

/// Checks a name: letters, digits, `-` and `_`, starting with a letter or digit, at most 48 bytes. That is safe in a
/// path, a git ref, a tmux target and a socket name.
///
/// # Errors
/// [`InvalidId`] with the rule that is broken.
pub fn check_name(kind: &'static str, text: &str) -> Result<(), InvalidId> {
    let bad = |why| {
        Err(InvalidId {
            kind,
            text: text.to_owned(),
            why,
        })
    };
    if text.is_empty() {
        return bad("it is empty");
    }
    if text.len() > 48 {
        return bad("it is longer than 48 bytes");
    }
    if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return bad("it must start with a letter or a digit");
    }
    if !text
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    {
        return bad("only letters, digits, '-' and '_' are allowed");
    }
    Ok(())
}

/// Returns true if the text is the short name of a branch, safe in a ref and on a command line.
#[must_use]
pub fn is_branch_name(text: &str) -> bool {
    let bad_char = |c: char| c.is_ascii_control() || c.is_whitespace() || "~^:?*[\\".contains(c);
    let bad_part = |part: &str| {
        part.is_empty() || part.starts_with('.') || part.ends_with(".lock") || part.ends_with('.')
    };
    // `refs/remotes/origin/HEAD` leads to another branch.
    let bad = text.starts_with('-')
        || matches!(text, "@" | "HEAD")
        || text.contains("..")
        || text.contains("@{")
        || text.contains(bad_char)
        || text.split('/').any(bad_part);
    !bad
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $check:path) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks the text and wraps it.
            ///
            /// # Errors
            /// [`InvalidId`] with the rule that the text breaks.
            pub fn new(text: impl Into<String>) -> Result<Self, InvalidId> {
                let text = text.into();
                $check($kind, &text)?;
                Ok(Self(text))
            }

            /// Returns the text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;
            fn try_from(text: String) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }
    };
}

name_type!(
    /// The name of a rig: one git repository under management.
    RigName,
    "rig name",
    check_name
);
name_type!(
    /// A slot's name from the rig's pool (`Toast`), held from charge until nuke.
    SlotName,
    "raider name",
    check_name
);
name_type!(
    /// The name of a standing agent from `[[agents]]`.
    AgentName,
    "agent name",
    check_name
);
name_type!(
    /// The name of a harness (`claude`, `codex`, or any `[harness.X]`).
    HarnessName,
    "harness name",
    check_name
);
name_type!(
    /// The name of an agent identity: `<harness>[/<model>]`, or one that `[identities]` gives.
    IdentityName,
    "identity",
    check_identity
);
name_type!(
    /// The name of an automation, which is that of its folder.
    AutomationName,
    "automation name",
    check_name
);
name_type!(
    /// A session's id: the name of its directory and of its terminal.
    SessionId,
    "session id",
    check_name
);

name_type!(
    /// A ritual's name: that of its file in `rituals/`, without `.toml`.
    RitualName,
    "ritual name",
    check_name
);

name_type!(
    /// The id of a step within its ritual (`design`, `review`).
    StepName,
    "step id",
    check_name
);

name_type!(
    /// A relic's id, `<prefix>-<number>`, with `.n` for steps of a totem (`gt-7`, `gt-7.2`).
    RelicId,
    "relic id",
    check_relic
);
name_type!(
    /// A git object id in full (40 or 64 lower-case hex digits).
    Oid,
    "object id",
    check_oid
);

/// Words that follow `hd cv` as verbs.
const CV_VERBS: [&str; 3] = ["export", "import", "help"];

fn check_identity(kind: &'static str, text: &str) -> Result<(), InvalidId> {
    let bad = |why| {
        Err(InvalidId {
            kind,
            text: text.chars().take(128).collect(),
            why,
        })
    };
    if text.len() > 96 {
        return bad("it is longer than 96 bytes");
    }
    if CV_VERBS.contains(&text) {
        return bad("it is a verb of `hd cv`");
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.+@".contains(c);
    let part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric()) && part.chars().all(allowed)
    };
    if !text.split('/').all(part) {
        return bad(
            "each part between '/' must start with a letter or a digit and has only letters, \
             digits, '-', '_', '.', '+' and '@'",
        );
    }
    Ok(())
}

fn check_relic(kind: &'static str, text: &str) -> Result<(), InvalidId> {
    let bad = || InvalidId {
        kind,
        text: text.to_owned(),
        why: "it must look like gt-12 or gt-12.3",
    };
    let (prefix, rest) = text.rsplit_once('-').ok_or_else(bad)?;
    check_name(kind, prefix)?;
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let is_number = rest.len() <= 24 && rest.split('.').all(digits);
    is_number.then_some(()).ok_or_else(bad)
}

fn check_oid(kind: &'static str, text: &str) -> Result<(), InvalidId> {
    let mut bytes = text.bytes();
    let hex = bytes.all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let is_whole = hex && matches!(text.len(), 40 | 64);
    is_whole.then_some(()).ok_or_else(|| InvalidId {
        kind,
        text: text.to_owned(),
        why: "it must be 40 or 64 hex digits",
    })
}

impl RelicId {
    /// Returns the part before the number: the rig's prefix.
    #[must_use]
    pub fn prefix(&self) -> &str {
        self.0.rsplit_once('-').map_or("", |(prefix, _)| prefix)
    }

    /// Returns the id with this prefix and number.
    #[must_use]
    pub fn numbered(prefix: &str, number: u64) -> Self {
        Self(format!("{prefix}-{number}"))
    }
}

impl Oid {
    /// Returns the first ten digits, for people.
    #[must_use]
    pub fn short(&self) -> &str {
        &self.0[..10]
    }
}

/// Grows with each charge of a slot and is persisted; fences actions on a sandbox or session.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
pub struct Incarnation(pub u64);

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Grows with each session of one child, so that a message about an ended session is recognised.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
pub struct Generation(pub u64);

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A raider's full address, `horde/raiders/Toast`; also its name in attribution.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RaiderId {
    /// The rig it works on.
    pub rig: RigName,
    /// Its slot.
    pub name: SlotName,
}

impl RaiderId {
    /// Makes the raider of this slot in this rig.
    #[must_use]
    pub fn new(rig: RigName, name: SlotName) -> Self {
        Self { rig, name }
    }

    /// Returns `gt-<rig>-<Name>` (`rules.md`, names; `raider-lifecycle.md`, slot layer).
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        SessionId(format!("gt-{}-{}", self.rig, self.name))
    }

    /// Returns `raider/<Name>/<relic>-<incarnation>` (`rules.md`, names).
    #[must_use]
    pub fn branch(&self, relic: &RelicId, incarnation: Incarnation) -> String {
        format!("raider/{}/{}-{}", self.name, relic, incarnation)
    }

    /// Returns the relic and incarnation that [`RaiderId::branch`] was made from; none when the branch does not belong
    /// to this raider.
    #[must_use]
    pub fn of_branch(&self, branch: &str) -> Option<(RelicId, Incarnation)> {
        let rest = branch.strip_prefix("raider/")?;
        let work = rest.strip_prefix(self.name.as_str())?.strip_prefix('/')?;
        let (relic, incarnation) = work.rsplit_once('-')?;
        let found = (
            RelicId::new(relic).ok()?,
            Incarnation(incarnation.parse().ok()?),
        );
        (self.branch(&found.0, found.1) == branch).then_some(found)
    }
}

impl fmt::Display for RaiderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/raiders/{}", self.rig, self.name)
    }
}

impl FromStr for RaiderId {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let bad = || InvalidId {
            kind: "raider",
            text: text.to_owned(),
            why: "it must look like <rig>/raiders/<Name>",
        };
        let (rig, rest) = text.split_once('/').ok_or_else(bad)?;
        let name = rest.strip_prefix("raiders/").ok_or_else(bad)?;
        Ok(Self {
            rig: RigName::new(rig)?,
            name: SlotName::new(name)?,
        })
    }
}

impl TryFrom<String> for RaiderId {
    type Error = InvalidId;
    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<RaiderId> for String {
    fn from(id: RaiderId) -> String {
        id.to_string()
    }
}

/// A child that owns a session: a raider, or a standing agent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildId {
    /// A raider.
    Raider(RaiderId),
    /// A standing agent.
    Agent(AgentName),
}

impl ChildId {
    /// Returns the id of its session; agents carry the workspace's name (`rules.md`, names).
    #[must_use]
    pub fn session_id(&self, workspace: &str) -> SessionId {
        match self {
            Self::Raider(raider) => raider.session_id(),
            Self::Agent(agent) => SessionId(format!("{workspace}-{agent}")),
        }
    }
}

impl fmt::Display for ChildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Raider(raider) => raider.fmt(f),
            Self::Agent(agent) => agent.fmt(f),
        }
    }
}

/// Returns the group of `hd`'s verbs for the child of this name: `raider`, whose name contains its rig, or `agent`.
#[must_use]
pub fn verb_group(name: &str) -> &'static str {
    match name.contains('/') {
        true => "raider",
        false => "agent",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_escape_a_path_or_a_ref_are_refused() {
        for bad in ["", ".", "..", "a/b", "a b", "-x", "a.b", "a:b", "a\n", "ä"] {
            assert!(SlotName::new(bad).is_err(), "{bad:?} was accepted");
            assert!(RigName::new(bad).is_err(), "{bad:?} was accepted");
        }
        assert!(SlotName::new("x".repeat(49)).is_err());
    }

    #[test]
    fn relic_ids_have_a_prefix_and_a_number() {
        for good in ["gt-1", "gt-12.3", "my-rig-7"] {
            assert_eq!(RelicId::new(good).unwrap().as_str(), good);
        }
        for bad in ["gt", "gt-", "gt-x", "-1", "gt-1.", "../gt-1", "gt-1/2"] {
            assert!(RelicId::new(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn child_is_stored_as_its_kind_and_its_name() {
        let raider = ChildId::Raider("horde/raiders/Toast".parse().unwrap());
        let agent = ChildId::Agent(AgentName::new("mayor").unwrap());
        let json = serde_json::to_string(&[raider, agent]).unwrap();
        assert_eq!(
            json,
            r#"[{"raider":"horde/raiders/Toast"},{"agent":"mayor"}]"#
        );
    }

    #[test]
    fn a_raider_is_addressed_and_named_as_the_rules_say() {
        let toast: RaiderId = "horde/raiders/Toast".parse().unwrap();
        assert_eq!(toast.session_id().as_str(), "gt-horde-Toast");
        let relic = RelicId::new("gt-1").unwrap();
        assert_eq!(toast.branch(&relic, Incarnation(2)), "raider/Toast/gt-1-2");
        assert_eq!(
            toast.of_branch("raider/Toast/gt-1.2-3"),
            Some((RelicId::new("gt-1.2").unwrap(), Incarnation(3)))
        );
        for other in [
            "main",
            "raider/Ash/gt-1-2",
            "raider/Toast/gt-1",
            "raider/Toast/gt-1-+2",
        ] {
            assert_eq!(toast.of_branch(other), None, "{other}");
        }
        assert_eq!(toast.to_string(), "horde/raiders/Toast");
        assert!("horde/Toast".parse::<RaiderId>().is_err());
    }
}
