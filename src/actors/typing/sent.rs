//! The fate of typed input: an input that its holder did not confirm may have been taken all the same.

use super::super::refusal::Refusal;
use super::super::world::World;
use super::{press, view};
use crate::domain::screen::{Fate, Inputs, ScreenView};
use crate::domain::unsubmitted::Unsubmitted;
use crate::ports::sessions::{Input, SessionError, SessionHandle};

/// Why a text was not submitted, and its fate.
#[derive(Debug)]
pub enum Undelivered {
    /// Nothing was typed.
    Refused(Refusal),
    /// Pasted, now or before: it may stand in the program's input line.
    Pasted {
        /// The text in the input line.
        stands: Unsubmitted,
        /// Set when it was pasted now.
        anew: bool,
        /// Why it was not submitted.
        why: Refusal,
    },
    /// The text or its Enter was sent, and the terminal has not answered.
    Unanswered {
        /// The text in the input line, if Enter was sent.
        stands: Option<Unsubmitted>,
        /// Set when it was pasted now.
        anew: bool,
        /// The fate of the input.
        sent: Unanswered,
    },
}

/// The known facts about an input that was sent and not confirmed.
#[derive(Debug)]
pub struct Unanswered {
    /// The input that the terminal had taken before.
    pub before: Option<Inputs>,
    /// Its fate, by an immediate observation.
    pub fate: Fate,
    /// Set when it waits in the terminal, which takes the rest as its program reads.
    pub waits: bool,
    /// The holder's error.
    pub why: Refusal,
}

/// Sends an input, and observes its fate if it is not confirmed.
pub(super) async fn put(
    world: &World,
    handle: &SessionHandle,
    before: &ScreenView,
    input: Input,
) -> Result<(), Unanswered> {
    let Err(why) = press(world, handle, input).await else {
        return Ok(());
    };
    let now = view(world, handle).await.unwrap_or_default();
    let fate = Inputs::fate(before.inputs, now.inputs);
    match fate {
        Fate::Taken => Ok(()),
        Fate::Untouched | Fate::Unknown => Err(Unanswered {
            before: before.inputs,
            fate,
            waits: fate == Fate::Unknown && now.is_full(),
            why: why.into(),
        }),
    }
}

impl Unanswered {
    /// Builds the refusal of a text that was pasted in this way without Enter: sending it again loses nothing.
    pub(super) fn of_a_paste(self) -> Refusal {
        let mut why = self.why;
        if self.fate == Fate::Unknown {
            let said = "the text, or a part of it, was typed, but not submitted";
            why.message = format!("{said}: {}", why.message);
            why.hint =
                Some("repeat the same `hd send` to submit it if it is in the input line".into());
        }
        why
    }
}

impl From<Refusal> for Undelivered {
    fn from(why: Refusal) -> Self {
        Self::Refused(why)
    }
}

impl From<SessionError> for Undelivered {
    fn from(error: SessionError) -> Self {
        Self::Refused(error.into())
    }
}

impl From<Undelivered> for Refusal {
    fn from(undelivered: Undelivered) -> Self {
        match undelivered {
            Undelivered::Refused(why) | Undelivered::Pasted { why, .. } => why,
            Undelivered::Unanswered { sent, .. } => sent.into(),
        }
    }
}

impl From<Unanswered> for Refusal {
    /// Warns that a text that is sent again may arrive twice.
    fn from(sent: Unanswered) -> Self {
        let (message, hint) = match (sent.fate, sent.waits) {
            (Fate::Untouched | Fate::Taken, _) => return sent.why,
            (Fate::Unknown, true) => (
                "a part of the text was typed; the rest is typed when the program reads",
                "do not send it again: `hd peek NAME` shows its progress",
            ),
            (Fate::Unknown, false) => (
                "the text was sent, but it is unknown whether it was typed",
                "check with `hd peek NAME`, and send it again only if it is missing",
            ),
        };
        let said = format!("{message}: {}", sent.why.message);
        Self::new(sent.why.kind, said).hint(hint)
    }
}
