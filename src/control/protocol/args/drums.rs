//! Arguments of `drums.*`.

use clap::Args;
use serde::{Deserialize, Serialize, Serializer};

use super::is_default;
use super::read::{count, numbers};

/// `drums.send`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct DrumsSend {
    /// The receiver: a raider (`Toast`, `horde/Toast`), an agent, a pool or a member of it, or `operator` for people
    pub to: String,
    /// The subject, in one line
    #[arg(short, long)]
    #[serde(alias = "s")]
    pub subject: String,
    /// The text; without it, or with `-`, it is read from standard input
    #[arg(short, long, value_name = "TEXT")]
    #[serde(
        default,
        alias = "m",
        alias = "body",
        skip_serializing_if = "Option::is_none"
    )]
    pub message: Option<String>,
    /// Tell the receiver's session now, if its program waits for text and no person types; otherwise the drum waits
    /// for `hd rally`
    #[arg(long)]
    #[serde(default, skip_serializing_if = "is_default")]
    pub deliver: bool,
}

/// `drums.inbox`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct DrumsInbox {
    /// Another mailbox than your own: a raider, an agent, a pool, or `operator`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Acknowledged drums, too
    #[arg(long)]
    #[serde(default, skip_serializing_if = "is_default")]
    pub all: bool,
}

/// The number of a drum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct DrumRef {
    /// The number of the drum
    #[arg(value_parser = count)]
    pub id: u64,
}

/// `drums.ack`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct DrumsAck {
    /// The numbers of the drums
    #[arg(required = true, value_name = "ID", value_parser = count)]
    #[serde(
        alias = "ids",
        deserialize_with = "numbers",
        serialize_with = "one_or_all"
    )]
    pub id: Vec<u64>,
}

/// Writes a single number as such: that is how one drum was acknowledged from the beginning.
fn one_or_all<S: Serializer>(ids: &[u64], into: S) -> Result<S::Ok, S::Error> {
    match ids {
        [only] => only.serialize(into),
        several => several.serialize(into),
    }
}

/// `drums.reply`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct DrumsReply {
    /// The number of the drum
    #[arg(value_parser = count)]
    pub id: u64,
    /// Another subject than that of the drum
    #[arg(short, long)]
    #[serde(default, alias = "s", skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The text; without it, or with `-`, it is read from standard input
    #[arg(short, long, value_name = "TEXT")]
    #[serde(
        default,
        alias = "m",
        alias = "body",
        skip_serializing_if = "Option::is_none"
    )]
    pub message: Option<String>,
    /// Tell the receiver's session now, as with `send`
    #[arg(long)]
    #[serde(default, skip_serializing_if = "is_default")]
    pub deliver: bool,
}
