//! What becomes of what is typed: an input that its holder does not answer for may have been taken all the same.

use super::super::refusal::Refusal;
use super::super::world::World;
use super::{press, view};
use crate::domain::screen::{Fate, Inputs, ScreenView};
use crate::domain::unsubmitted::Unsubmitted;
use crate::ports::sessions::{Input, SessionError, SessionHandle};

/// Why a text was not submitted, and what became of it.
#[derive(Debug)]
pub enum Undelivered {
    /// Nothing of it was typed.
    Refused(Refusal),
    /// It was pasted, now or before: it may stand in the program's input line.
    Pasted {
        /// What stands there.
        stands: Unsubmitted,
        /// It was pasted now.
        anew: bool,
        /// Why it was not submitted.
        why: Refusal,
    },
    /// It was sent, or the Enter behind it, and its terminal has not answered.
    Unanswered {
        /// What stands in the input line, where Enter was sent.
        stands: Option<Unsubmitted>,
        /// It was pasted now.
        anew: bool,
        /// What became of it.
        sent: Unanswered,
    },
}

/// What is known of an input that was sent and not answered for.
#[derive(Debug)]
pub struct Unanswered {
    /// What the terminal had taken before.
    pub before: Option<Inputs>,
    /// What became of it, as a look at once saw it.
    pub fate: Fate,
    /// It waits in the terminal, which takes the rest as its program reads.
    pub waits: bool,
    /// What the holder said.
    pub why: Refusal,
}

/// Sends an input, and looks at what became of it if that is not answered.
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
    /// The refusal of a text that was pasted so, and whose Enter was not sent: it is not lost if it is sent again.
    pub(super) fn of_a_paste(self) -> Refusal {
        let mut why = self.why;
        if self.fate == Fate::Unknown {
            let said = "the text, or a part of it, was typed and not submitted";
            why.message = format!("{said}: {}", why.message);
            why.hint = Some(
                "the same `hd send` again submits it where it stands in the input line".into(),
            );
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
    /// A text that is sent again is there twice.
    fn from(sent: Unanswered) -> Self {
        let (message, hint) = match (sent.fate, sent.waits) {
            (Fate::Untouched | Fate::Taken, _) => return sent.why,
            (Fate::Unknown, true) => (
                "a part of it was typed, and the rest is typed when the program reads",
                "do not send it again: `hd peek NAME` shows what becomes of it",
            ),
            (Fate::Unknown, false) => (
                "it was sent, and whether it was typed is not known",
                "`hd peek NAME` shows whether it was: send it again only if it was not",
            ),
        };
        let said = format!("{message}: {}", sent.why.message);
        Self::new(sent.why.kind, said).hint(hint)
    }
}
