//! Drums: mail between raiders, agents and people. Texts are bounded, and so is the number of drums that wait in a
//! mailbox: a sender that repeats itself is refused and cannot fill the mailbox for others.
//!
//! ```text
//!   sent ──► read (its text was shown to its receiver) ──► acknowledged (it leaves the inbox)
//! ```
//!
//! A raider's mail belongs to its work: the mailbox is that of the relic on its hook. The next raider of the relic finds
//! it; the next raider of the slot, on other work, does not.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ids::{AgentName, RelicId};

/// The address of people.
pub const PEOPLE: &str = "operator";
/// The sender of what the supervisor mails itself (`[notify] mail_to`).
pub const SUPERVISOR: &str = "supervisor";
/// The longest subject, in characters.
pub const SUBJECT_MAX: usize = 200;
/// The longest body, in bytes.
pub const BODY_MAX: usize = 16 * 1024;
/// The number of drums that may wait in a mailbox.
pub const WAITING_MAX: u64 = 200;
/// The number of drums of one sender that may wait in a mailbox.
pub const WAITING_OF_ONE_MAX: u64 = 20;
/// The number of acknowledged drums that a mailbox keeps.
pub const KEPT_MAX: u64 = 500;
/// The number of drums that one answer lists.
pub const LISTED_MAX: usize = 100;
/// The number of drums that `rally` lists.
pub const RALLIED_MAX: usize = 10;

/// A place where drums wait.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mailbox {
    /// That of people.
    People,
    /// That of a standing agent, a pool member or a whole pool.
    Agent(AgentName),
    /// That of the raider which works on this relic.
    Work(RelicId),
}

impl fmt::Display for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::People => f.write_str(PEOPLE),
            Self::Agent(name) => write!(f, "agent/{name}"),
            Self::Work(relic) => write!(f, "relic/{relic}"),
        }
    }
}

impl FromStr for Mailbox {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("{text:?} is no mailbox");
        match text.split_once('/') {
            None if text == PEOPLE => Ok(Self::People),
            Some(("agent", name)) => AgentName::new(name).map(Self::Agent).map_err(|_| unknown()),
            Some(("relic", id)) => RelicId::new(id).map(Self::Work).map_err(|_| unknown()),
            _ => Err(unknown()),
        }
    }
}

impl Serialize for Mailbox {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Mailbox {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// A drum to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDrum {
    /// The receiver's mailbox.
    pub mailbox: Mailbox,
    /// The receiver's name at that time.
    pub to: String,
    /// The sender's name.
    pub from: String,
    /// The sender's mailbox; none for a sender that takes no replies.
    pub reply_to: Option<Mailbox>,
    /// The subject.
    pub subject: String,
    /// The text.
    pub body: String,
    /// The drum that it replies to.
    pub answers: Option<u64>,
}

/// A drum without its text, as lists have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DrumHead {
    /// Its number.
    pub id: u64,
    /// The mailbox that it waits in: `operator`, `agent/NAME` or `relic/ID`.
    #[schemars(with = "String")]
    pub mailbox: Mailbox,
    /// The sender, recognised by its process.
    pub from: String,
    /// The receiver's name when it was sent.
    pub to: String,
    /// The mailbox that a reply goes to; null for a sender that takes none.
    #[schemars(with = "Option<String>")]
    pub reply_to: Option<Mailbox>,
    /// The subject, in the sender's words.
    pub subject: String,
    /// The drum that it replies to.
    pub answers: Option<u64>,
    /// When it was sent.
    pub sent: Timestamp,
    /// When a live session was told of it.
    pub delivered: Option<Timestamp>,
    /// When its receiver read it.
    pub read: Option<Timestamp>,
    /// When it was acknowledged.
    pub acked: Option<Timestamp>,
}

/// A drum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Drum {
    /// Everything but its text.
    #[serde(flatten)]
    pub head: DrumHead,
    /// The text, in the sender's words.
    pub body: String,
}

/// The number of drums that wait in a mailbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// All that are not acknowledged.
    pub all: u64,
    /// The part of them that one sender sent.
    pub of_sender: u64,
}

/// The reason why a drum cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsendable {
    /// The subject is empty.
    #[error("the subject is empty")]
    NoSubject,
    /// The subject has several lines.
    #[error("the subject has more than one line")]
    SubjectLines,
    /// The subject is too long.
    #[error("the subject is longer than {SUBJECT_MAX} characters")]
    SubjectLength,
    /// The text is too long.
    #[error("the text is longer than {} KiB", BODY_MAX / 1024)]
    BodyLength,
}

/// Checks the texts of a drum; returns the subject without blanks around it.
///
/// # Errors
/// [`Unsendable`].
pub fn check_texts(subject: &str, body: &str) -> Result<String, Unsendable> {
    let subject = subject.trim();
    if subject.is_empty() {
        return Err(Unsendable::NoSubject);
    }
    if subject.contains(['\n', '\r', '\u{2028}', '\u{2029}']) {
        return Err(Unsendable::SubjectLines);
    }
    if subject.chars().count() > SUBJECT_MAX {
        return Err(Unsendable::SubjectLength);
    }
    if body.len() > BODY_MAX {
        return Err(Unsendable::BodyLength);
    }
    Ok(subject.to_owned())
}

/// Returns the reason why the mailbox takes no further drum of this sender; none while it does.
#[must_use]
pub fn is_full(waiting: Waiting) -> Option<String> {
    let Waiting { all, of_sender } = waiting;
    if of_sender >= WAITING_OF_ONE_MAX {
        return Some(format!("{of_sender} drums of this sender wait there"));
    }
    (all >= WAITING_MAX).then(|| format!("{all} drums wait there"))
}

/// Returns the subject of a reply.
#[must_use]
pub fn reply_subject(subject: &str) -> String {
    let text = match subject.starts_with("Re: ") {
        true => subject.to_owned(),
        false => format!("Re: {subject}"),
    };
    text.chars().take(SUBJECT_MAX).collect()
}

/// Returns the line that is typed into a live session. It has no words of the sender: what is typed counts as a person's.
#[must_use]
pub fn notice(hd: &str, id: u64, from: &str) -> String {
    format!("Drum {id} from {from} has arrived: read it with `{hd} drums read {id}`.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mailboxes_are_written_and_read_back() {
        let agent = Mailbox::Agent(AgentName::new("mayor").unwrap());
        let work = Mailbox::Work(RelicId::new("gt-1").unwrap());
        for (mailbox, text) in [
            (Mailbox::People, "operator"),
            (agent, "agent/mayor"),
            (work, "relic/gt-1"),
        ] {
            assert_eq!(mailbox.to_string(), text);
            assert_eq!(text.parse(), Ok(mailbox));
        }
        for text in ["", "mayor", "agent/", "agent/../x", "relic/", "x/y"] {
            assert!(text.parse::<Mailbox>().is_err(), "{text}");
        }
    }

    #[test]
    fn texts_of_a_drum_are_bounded() {
        let long = "x".repeat(SUBJECT_MAX);
        assert_eq!(check_texts(" hello ", ""), Ok("hello".to_owned()));
        assert_eq!(check_texts(&long, &"x".repeat(BODY_MAX)), Ok(long.clone()));
        for (subject, body, refused) in [
            (" \t", "", Unsendable::NoSubject),
            ("a\nb", "", Unsendable::SubjectLines),
            ("a\u{2028}b", "", Unsendable::SubjectLines),
            (&format!("{long}x"), "", Unsendable::SubjectLength),
            ("a", &"x".repeat(BODY_MAX + 1), Unsendable::BodyLength),
        ] {
            assert_eq!(check_texts(subject, body), Err(refused));
        }
    }

    #[test]
    fn full_mailbox_and_repetitive_sender_are_refused() {
        let full = |all, of_sender| is_full(Waiting { all, of_sender }).is_some();
        assert!(!full(0, 0));
        assert!(!full(WAITING_MAX - 1, WAITING_OF_ONE_MAX - 1));
        assert!(full(WAITING_MAX, 0));
        assert!(full(WAITING_OF_ONE_MAX, WAITING_OF_ONE_MAX));
    }

    #[test]
    fn subject_of_a_reply_is_marked_once_and_stays_bounded() {
        assert_eq!(reply_subject("the tests"), "Re: the tests");
        assert_eq!(reply_subject("Re: the tests"), "Re: the tests");
        let longest = reply_subject(&"x".repeat(SUBJECT_MAX));
        assert!(check_texts(&longest, "").is_ok());
    }

    #[test]
    fn notice_in_a_terminal_has_no_words_of_the_sender() {
        let text = notice("/bin/hd", 7, "horde/raiders/Toast");
        let expected =
            "Drum 7 from horde/raiders/Toast has arrived: read it with `/bin/hd drums read 7`.";
        assert_eq!(text, expected);
    }
}
