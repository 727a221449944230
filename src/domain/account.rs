//! Accounts: one login and one limit that the sessions of a harness share (`contract.md`, 2.4, `condition`; exit 9).
//!
//! ```text
//!            a limit, a login             the limit's time, or its end is seen,
//!            is told                      or a person says so
//!   open ─────────────────────► parked ──────────────────────────► releasing ──► open
//!     ▲                           ▲      one child after another,      │
//!     └───────────────────────────┼──────────────────────────────────────  all had their turn
//!                                 └────────────────────────────────────┘
//!                                   it is told again
//! ```
//!
//! While an account is parked, none of its sessions is started or nudged. A limit has one clock for all its sessions. A
//! login has none: it ends when one of its sessions goes on, or when a person says so.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::asker::Asker;
use super::cause::Cause;
use super::ids::ChildId;

mod report;

pub use self::report::AccountReport;
use self::report::is_near;

/// The first wait when the harness does not report the end of its limit; it doubles each time.
const GUESS: Duration = Duration::from_secs(15 * 60);
/// The longest such wait.
const GUESS_MOST: Duration = Duration::from_secs(60 * 60);
/// A time of the day that has passed reads as the next day's.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// After its session ended a park, a child can neither park the account nor end another park for this long.
const HASTY: Duration = Duration::from_secs(10 * 60);
/// Ends that are closer to each other count as the same.
const NEAR: Duration = Duration::from_secs(60);
const NEAR_SIGNED: jiff::SignedDuration = jiff::SignedDuration::from_secs(60);
/// The longest known limits last a week; a later end is not trusted.
const LATEST: Duration = Duration::from_secs(8 * 24 * 60 * 60);
/// Interval between the turns of two children: all at once would hit the next limit.
const APART: Duration = Duration::from_secs(5);
/// An account is open when it had no further trouble for this long after the last turn.
const SETTLES: Duration = Duration::from_secs(60);

/// The reason why an account is parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It is at a limit.
    RateLimited,
    /// It wants a login.
    Auth,
}

impl Why {
    /// Returns the cause of events that the park brings about.
    #[must_use]
    pub fn cause(self) -> Cause {
        match self {
            Self::RateLimited => Cause::RateLimit,
            Self::Auth => Cause::Login,
        }
    }

    /// Returns the word in `status`, the same as for conditions of sessions.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::Auth => "auth",
        }
    }
}

/// A parked account, as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Park {
    /// The reason.
    pub why: Why,
    /// The text of the harness.
    pub text: String,
    /// The child whose session told it.
    pub told_by: String,
    /// When the park began.
    pub since: Timestamp,
    /// When its sessions are resumed; none for a login.
    pub until: Option<Timestamp>,
    /// The number of guesses; 0 when the harness reported `until`.
    #[serde(default)]
    pub guesses: u32,
    /// The caller that ended it early, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_by: Option<Asker>,
}

/// The turns in which the children of an account go on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Release {
    /// The time of each child's turn, and true when it is over.
    turns: Vec<(ChildId, Timestamp, bool)>,
    /// When the account is open again.
    over: Timestamp,
    /// Set when its first child tries if a guessed time was right.
    is_trial: bool,
}

/// An action that an account needs now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Due {
    /// Its time has come: call [`Account::release`] with the children, the most urgent first.
    Release,
    /// Let these children go on.
    Turns(Vec<ChildId>),
    /// It is open again.
    Open,
}

/// The state that outlives the process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The park, if the account is parked.
    pub park: Option<Park>,
    /// When the last limit ended.
    #[serde(default)]
    pub last_end: Option<Timestamp>,
}

/// The effect of a session's report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportEffect {
    /// The park begins, or its end changes.
    Parked,
    /// The trouble was known.
    Known,
    /// The child ended a park a moment ago: its report counts only if it is repeated later.
    Hasty,
    /// The text of a limit that is over: a time of the day that has passed reads as tomorrow's.
    Old,
}

/// An account.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    park: Option<Park>,
    /// When the last limit ended.
    last_end: Option<Timestamp>,
    /// Set when the park may end before its time.
    over: bool,
    release: Option<Release>,
    /// The child whose session last ended a park, and when.
    ended_by: Option<(String, Timestamp)>,
}

impl Account {
    /// Restores an account from its stored state.
    #[must_use]
    pub fn stored(record: Record) -> Self {
        Self {
            park: record.park,
            last_end: record.last_end,
            ..Self::default()
        }
    }

    /// Returns the park, until its children begin to go on.
    #[must_use]
    pub fn parked(&self) -> Option<&Park> {
        self.park.as_ref().filter(|_| self.release.is_none())
    }

    /// Returns the state that outlives the process.
    #[must_use]
    pub fn record(&self) -> Record {
        Record {
            park: self.park.clone(),
            last_end: self.last_end,
        }
    }

    /// Returns true when its sessions may run.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.park.is_none()
    }

    /// Returns true when all of its state may be forgotten.
    #[must_use]
    pub fn is_forgotten(&self, now: Timestamp) -> bool {
        let old = |end: Timestamp| end.checked_add(DAY + NEAR).is_ok_and(|gone| gone < now);
        let ended = self.ended_by.as_ref().map(|(_, at)| *at);
        let hasty = ended.is_some_and(|at| now.duration_since(at).unsigned_abs() < HASTY);
        self.park.is_none() && !hasty && self.last_end.is_none_or(old)
    }

    /// Returns true when a session reports yesterday's limit: a time of the day that has passed reads as tomorrow's.
    fn is_old(&self, trouble: &AccountReport, now: Timestamp) -> bool {
        if trouble.fresh {
            return false;
        }
        let park = self.park.as_ref().and_then(|park| park.until);
        let mut ends = self.last_end.into_iter().chain(park);
        trouble.until.is_some_and(|until| {
            ends.any(|end| {
                let next = end.checked_add(DAY).unwrap_or(Timestamp::MAX);
                is_near(until, next) && now.duration_since(end) >= -NEAR_SIGNED
            })
        })
    }

    /// Returns the park while no new work may begin: after a guessed time, the first child tries alone.
    #[must_use]
    pub fn closed(&self) -> Option<&Park> {
        let tried = |release: &Release| release.is_trial;
        let is_closed = self.release.as_ref().is_none_or(tried);
        self.park.as_ref().filter(|_| is_closed)
    }

    /// Returns the park that holds this child.
    #[must_use]
    pub fn holding(&self, child: &ChildId) -> Option<&Park> {
        self.holds(child).and(self.park.as_ref())
    }

    /// Returns the reason why no session of this child may be started or told anything now.
    #[must_use]
    pub fn holds(&self, child: &ChildId) -> Option<Why> {
        let park = self.park.as_ref()?;
        let waits = match &self.release {
            None => true,
            Some(release) => release.waits(child),
        };
        waits.then_some(park.why)
    }

    /// Forgets a child that ended its work, and may have gone on before its turn. The next child of its name has no
    /// turn to wait for, and ended no park.
    pub fn forget(&mut self, child: &ChildId) {
        let name = child.to_string();
        self.ended_by = self.ended_by.take().filter(|(by, _)| *by != name);
        let turns = self
            .release
            .iter_mut()
            .flat_map(|release| &mut release.turns);
        for (_, _, had) in turns.filter(|(waiting, _, _)| waiting == child) {
            *had = true;
        }
    }

    /// Returns the turn of this child; none when it is over.
    #[must_use]
    pub fn turn(&self, child: &ChildId) -> Option<Timestamp> {
        let mut turns = self.release.as_ref()?.turns.iter();
        let (_, at, _) = turns.find(|(waiting, _, had)| waiting == child && !had)?;
        Some(*at)
    }

    /// Returns true when this child ended a park a moment ago: a session must not open and close the account at will.
    fn is_hasty(&self, child: &ChildId, now: Timestamp) -> bool {
        let ended = self.ended_by.as_ref();
        ended.is_some_and(|(by, at)| {
            *by == child.to_string() && now.duration_since(*at).unsigned_abs() < HASTY
        })
    }

    /// Records that a session goes on although its account is parked. That ends the park when the same session reported
    /// it, and any park for a login, which may have been made in any session. Returns false when the park stays.
    pub fn went_on(&mut self, child: &ChildId, now: Timestamp) -> bool {
        let name = child.to_string();
        let is_its = |park: &Park| park.why == Why::Auth || park.told_by == name;
        if self.is_hasty(child, now) || !self.parked().is_some_and(is_its) {
            return false;
        }
        let ended = self.ended(now);
        if ended {
            self.ended_by = Some((name, now));
        }
        ended
    }

    /// Records the trouble that a session reports.
    pub fn report(
        &mut self,
        child: &ChildId,
        trouble: AccountReport,
        now: Timestamp,
    ) -> ReportEffect {
        if self.is_old(&trouble, now) {
            // This text is the reason for which a child that waits for its turn is told to go on, so it is not old.
            return match self.holds(child) {
                Some(_) => ReportEffect::Known,
                None => ReportEffect::Old,
            };
        }
        if self.parked().is_none() && self.is_hasty(child, now) {
            return ReportEffect::Hasty;
        }
        // A screen may show anything. An end that is too far away is replaced by a guess, and so is an end that has
        // passed or is about to.
        let latest = now.checked_add(LATEST).unwrap_or(Timestamp::MAX);
        let earliest = now.checked_add(NEAR).unwrap_or(Timestamp::MAX);
        let told = trouble.until;
        let told = told.filter(|until| (earliest..=latest).contains(until));
        let guesses = match (&self.park, &self.release) {
            // The screens of children that wait for their turn still show the old text.
            (Some(_), Some(release)) if release.waits(child) => return ReportEffect::Known,
            (Some(park), None) => {
                let login = (park.why, trouble.why) == (Why::RateLimited, Why::Auth);
                let known = park.until.filter(|_| park.guesses == 0);
                let later = match (told, known) {
                    // Only a clearly later end counts, so that a session cannot put the end off again and again.
                    (Some(until), Some(known)) => {
                        let left = known.duration_since(now).unsigned_abs();
                        until > known
                            && until.duration_since(known).unsigned_abs() >= NEAR.max(left / 4)
                    }
                    (Some(_), None) => true,
                    (None, _) => false,
                };
                if !login && (park.why != trouble.why || !later) {
                    return ReportEffect::Known;
                }
                0
            }
            (Some(park), Some(_)) => park.guesses,
            (None, _) => 0,
        };
        let guess = || {
            let wait = GUESS.saturating_mul(1 << guesses.min(8)).min(GUESS_MOST);
            now.checked_add(wait).unwrap_or(Timestamp::MAX)
        };
        let (until, guesses) = match (trouble.why, told) {
            (Why::Auth, _) => (None, 0),
            (Why::RateLimited, Some(until)) => (Some(until), 0),
            (Why::RateLimited, None) => (Some(guess()), guesses + 1),
        };
        let since = self.park.as_ref().map_or(now, |park| park.since);
        self.park = Some(Park {
            why: trouble.why,
            text: trouble.text,
            told_by: child.to_string(),
            since,
            until,
            guesses,
            resumed_by: None,
        });
        (self.release, self.over) = (None, false);
        ReportEffect::Parked
    }

    /// Ends the park, because the trouble is over: all children go on now. Returns false when it was open.
    pub fn ended(&mut self, now: Timestamp) -> bool {
        if self.release.is_some() {
            return false;
        }
        let Some(park) = &mut self.park else {
            return false;
        };
        // Stored this way, the park is over for the next supervisor too.
        park.until = Some(park.until.map_or(now, |until| until.min(now)));
        self.over = true;
        true
    }

    /// Ends the park on the order of a caller. Returns false when it was open.
    pub fn resumed(&mut self, now: Timestamp, by: Asker) -> bool {
        let ended = self.ended(now);
        if let Some(park) = self.park.as_mut().filter(|_| ended) {
            park.resumed_by = Some(by);
        }
        ended
    }

    /// Returns the action that is due now.
    pub fn due(&mut self, now: Timestamp) -> Option<Due> {
        let park = self.park.as_ref()?;
        let Some(release) = &mut self.release else {
            let due = self.over || park.until.is_some_and(|until| until <= now);
            return due.then_some(Due::Release);
        };
        let mut turns = Vec::new();
        for (child, at, had) in &mut release.turns {
            if !*had && *at <= now {
                *had = true;
                turns.push(child.clone());
            }
        }
        if !turns.is_empty() {
            return Some(Due::Turns(turns));
        }
        if release.over > now {
            return None;
        }
        let last_end = match park.why {
            Why::RateLimited if park.guesses == 0 => park.until,
            Why::RateLimited | Why::Auth => self.last_end,
        };
        *self = Self {
            last_end,
            ended_by: self.ended_by.take(),
            ..Self::default()
        };
        Some(Due::Open)
    }

    /// Returns when [`Account::due`] has its next action.
    #[must_use]
    pub fn next(&self) -> Option<Timestamp> {
        let park = self.park.as_ref()?;
        match &self.release {
            None if self.over => Some(park.since),
            None => park.until,
            Some(release) => {
                let turns = release.turns.iter().filter(|(_, _, had)| !had);
                turns.map(|(_, at, _)| *at).chain([release.over]).min()
            }
        }
    }

    /// Gives each of these children its turn, in their order, with jitter. After a guessed time the first tries alone,
    /// and the others follow once the account would be open again.
    pub fn release(&mut self, children: &[ChildId], now: Timestamp, random: &dyn Fn() -> f64) {
        let Some(park) = &self.park else { return };
        let tries_alone = park.guesses > 0 && !self.over;
        let after = |wait: Duration| now.checked_add(wait).unwrap_or(Timestamp::MAX);
        let (mut turns, mut wait) = (Vec::new(), Duration::ZERO);
        for (place, child) in children.iter().enumerate() {
            let jitter = APART.mul_f64(random().clamp(0.0, 1.0));
            turns.push((child.clone(), after(wait + jitter), false));
            wait += match place {
                0 if tries_alone => SETTLES,
                _ => APART,
            };
        }
        let over = after(wait + SETTLES);
        // With no child to try, the next work tries.
        let is_trial = tries_alone && !turns.is_empty();
        self.release = Some(Release {
            turns,
            over,
            is_trial,
        });
        self.over = false;
    }
}

impl Release {
    /// Returns true while the child's turn is still to come.
    fn waits(&self, child: &ChildId) -> bool {
        let mut turns = self.turns.iter();
        turns.any(|(waiting, _, had)| waiting == child && !had)
    }
}

#[cfg(test)]
mod tests;
