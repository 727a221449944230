//! Totems: a ritual at work on a relic. Its steps are child relics `<id>.1`, `<id>.2` ..., each open until it is done,
//! and ready when every relic that it depends on is closed.
//!
//! ```text
//!   ready steps ──► the present one (the first) ──(step done)──► closed ──► the next ones are ready
//!                                                                   └─ the next begins in a fresh session: handoff
//! ```

pub mod orders;

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::ids::{RelicId, RitualName, StepName};
use super::relic::{Relic, RelicStatus};

/// A totem as it is stored, without its relics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TotemRow {
    /// The relic that it is on.
    pub relic: RelicId,
    /// The ritual that it was made from. The ritual may have changed since.
    pub ritual: RitualName,
    /// The values of the ritual's variables.
    pub vars: BTreeMap<String, String>,
    /// When it was started.
    pub started: Timestamp,
    /// The caller that started it.
    pub by: Option<String>,
    /// Its steps, in the order of the ritual.
    pub steps: Vec<StepRow>,
}

/// A step as it is stored, without its relic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRow {
    /// Its relic.
    pub relic: RelicId,
    /// Its id within the ritual.
    pub name: StepName,
    /// Set when it begins in a fresh session.
    pub fresh_session: bool,
}

/// A totem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Totem {
    /// The stored row.
    pub row: TotemRow,
    /// Its steps, in the same order as in the row.
    pub steps: Vec<Step>,
}

/// A step with its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its id within the ritual.
    pub name: StepName,
    /// Set when it begins in a fresh session.
    pub fresh_session: bool,
    /// Its relic.
    pub relic: Relic,
    /// The relics that must still be closed first.
    pub waits_for: Vec<RelicId>,
}

impl Step {
    /// Returns true when it is done.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.relic.status == RelicStatus::Closed
    }

    /// Returns true when it can be worked on.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.relic.status == RelicStatus::Open && self.waits_for.is_empty()
    }
}

/// The reason why a step cannot be closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotDone {
    /// The totem has no such step.
    NoSuchStep,
    /// The step waits for these relics.
    Waits(RelicId, Vec<RelicId>),
    /// It begins in a fresh session, after this step.
    NotBegun(RelicId, RelicId),
    /// No step was named, and none is ready; these wait.
    NoneReady(Vec<RelicId>),
    /// No step was named, and all are done.
    AllDone,
}

impl Totem {
    /// Returns the steps that can be worked on now, in their order.
    pub fn ready(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| step.is_ready())
    }

    /// Returns the step to work on now: the first that is ready.
    #[must_use]
    pub fn present(&self) -> Option<&Step> {
        self.ready().next()
    }

    /// Returns the steps that are not done, in their order.
    pub fn open(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| !step.is_done())
    }

    /// Returns true when this step was done, and not only closed with the relic of the totem.
    #[must_use]
    pub fn was_done(step: &Step, relic: &Relic) -> bool {
        // Closing a relic gives its open steps its own time.
        step.is_done() && (relic.closed.is_none() || step.relic.closed != relic.closed)
    }

    /// Returns true when every step is done.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.open().next().is_none()
    }

    /// Returns the number of the steps that are done.
    #[must_use]
    pub fn done(&self) -> usize {
        self.steps.len() - self.open().count()
    }

    /// Returns the step of this id: that of its relic, or its id within the ritual.
    #[must_use]
    pub fn step(&self, id: &str) -> Option<&Step> {
        let is_it = |step: &&Step| step.relic.id.as_str() == id || step.name.as_str() == id;
        self.steps.iter().find(is_it)
    }

    /// Returns the step to close: the named one, else the present one. A step that is done already is returned, too.
    ///
    /// # Errors
    /// [`NotDone`].
    pub fn to_close(&self, id: Option<&str>) -> Result<&Step, NotDone> {
        let Some(id) = id else {
            return self.present().ok_or_else(|| {
                match self.open().map(|step| step.relic.id.clone()).collect() {
                    waiting if !self.is_finished() => NotDone::NoneReady(waiting),
                    _ => NotDone::AllDone,
                }
            });
        };
        let step = self.step(id).ok_or(NotDone::NoSuchStep)?;
        let id = step.relic.id.clone();
        match self.present().map(|present| &present.relic.id) {
            // Its session begins when it is the present one.
            Some(present) if step.is_ready() && step.fresh_session && *present != id => {
                Err(NotDone::NotBegun(id, present.clone()))
            }
            _ if step.is_done() || step.is_ready() => Ok(step),
            _ => Err(NotDone::Waits(id, step.waits_for.clone())),
        }
    }

    /// Returns true when the session is cycled after a step: another step is present now, and begins in a fresh
    /// session.
    #[must_use]
    pub fn cycles_after(&self, present_before: Option<&RelicId>) -> bool {
        let now = self.present();
        now.is_some_and(|now| now.fresh_session && Some(&now.relic.id) != present_before)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::records;

    pub fn id(number: usize) -> RelicId {
        RelicId::new(format!("gt-1.{number}")).unwrap()
    }

    /// A totem of these steps: done, numbers of the steps that each needs, fresh session.
    pub fn totem(steps: &[(bool, &[usize], bool)]) -> Totem {
        let is_done = |number: usize| steps[number - 1].0;
        let step = |(at, (done, needs, fresh)): (usize, &(bool, &[usize], bool))| {
            let mut relic = records::relic(id(at + 1).as_str());
            if *done {
                relic.status = RelicStatus::Closed;
            }
            let waits = needs.iter().filter(|need| !is_done(**need));
            Step {
                name: StepName::new(format!("s{}", at + 1)).unwrap(),
                fresh_session: *fresh,
                relic,
                waits_for: waits.map(|need| id(*need)).collect(),
            }
        };
        Totem {
            row: TotemRow {
                relic: RelicId::new("gt-1").unwrap(),
                ritual: RitualName::new("work").unwrap(),
                vars: BTreeMap::new(),
                started: Timestamp::UNIX_EPOCH,
                by: None,
                steps: Vec::new(),
            },
            steps: steps.iter().enumerate().map(step).collect(),
        }
    }

    fn present(totem: &Totem) -> Option<String> {
        totem.present().map(|step| step.relic.id.to_string())
    }

    #[test]
    fn the_present_step_is_the_first_that_is_ready() {
        let first = totem(&[(false, &[], false), (false, &[1], false)]);
        assert_eq!(present(&first).as_deref(), Some("gt-1.1"));
        let second = totem(&[(true, &[], false), (false, &[1], false)]);
        assert_eq!(present(&second).as_deref(), Some("gt-1.2"));
        let later_first = totem(&[(false, &[2], false), (false, &[], false)]);
        assert_eq!(present(&later_first).as_deref(), Some("gt-1.2"));
        let finished = totem(&[(true, &[], false)]);
        assert_eq!((present(&finished), finished.is_finished()), (None, true));
    }

    #[test]
    fn a_step_is_closed_when_it_is_ready_and_again_without_effect() {
        let totem = totem(&[
            (true, &[], false),
            (false, &[1], false),
            (false, &[2], false),
        ]);
        let close = |id| totem.to_close(id).map(|step| step.relic.id.to_string());
        assert_eq!(close(None), Ok("gt-1.2".to_owned()));
        assert_eq!(close(Some("gt-1.2")), Ok("gt-1.2".to_owned()));
        assert_eq!(close(Some("s2")), Ok("gt-1.2".to_owned()));
        assert_eq!(close(Some("gt-1.1")), Ok("gt-1.1".to_owned()));
        assert_eq!(
            close(Some("gt-1.3")),
            Err(NotDone::Waits(id(3), vec![id(2)]))
        );
        assert_eq!(close(Some("gt-2")), Err(NotDone::NoSuchStep));
    }

    #[test]
    fn step_in_a_fresh_session_is_closed_only_when_it_is_the_present_one() {
        let mut both = totem(&[(false, &[], false), (false, &[], true)]);
        let early = both.to_close(Some("gt-1.2")).err();
        assert_eq!(early, Some(NotDone::NotBegun(id(2), id(1))));
        assert!(both.to_close(None).is_ok());
        both.steps[0].relic.status = RelicStatus::Closed;
        assert!(both.cycles_after(Some(&id(1))));
        assert!(both.to_close(Some("gt-1.2")).is_ok());
    }

    #[test]
    fn without_a_ready_step_the_answer_says_why() {
        assert_eq!(
            totem(&[(true, &[], false)]).to_close(None).err(),
            Some(NotDone::AllDone)
        );
        let mut blocked = totem(&[(false, &[], false)]);
        blocked.steps[0]
            .waits_for
            .push(RelicId::new("gt-9").unwrap());
        let why = blocked.to_close(None).err();
        assert_eq!(why, Some(NotDone::NoneReady(vec![id(1)])));
    }

    #[test]
    fn the_session_cycles_before_a_step_that_begins_in_a_fresh_one() {
        let at_second = totem(&[(true, &[], false), (false, &[1], true)]);
        assert!(at_second.cycles_after(Some(&id(1))));
        // It was present before: its session has begun.
        assert!(!at_second.cycles_after(Some(&id(2))));
        let same_session = totem(&[(true, &[], false), (false, &[1], false)]);
        assert!(!same_session.cycles_after(Some(&id(1))));
        assert!(!totem(&[(true, &[], false)]).cycles_after(Some(&id(1))));
    }
}
