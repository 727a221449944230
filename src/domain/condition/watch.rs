//! The state of one session between looks: what its screen shows, what its harness reports, and what of both was told.

use std::time::Duration;

use jiff::Timestamp;

use super::draft::Draft;
use super::proof::Proof;
use super::{APART, AccountNews, Condition, Report, Sighting, is_short};
use crate::domain::account::AccountReport;

/// Output may still be on its way to the screen for this long after it was noted.
const SETTLED: Duration = Duration::from_secs(2);

/// The state of one session between looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    /// Token of the session.
    token: String,
    /// The provider's last terminal activity at the last look.
    activity: Option<Timestamp>,
    /// Time of the last look; none when the screen could not be seen then.
    seen: Option<Timestamp>,
    /// Set once the screen was seen.
    was_seen: bool,
    /// The condition that the screen shows.
    screen: Option<Condition>,
    /// The last condition that the harness reported, and when.
    reported: Option<(Condition, Timestamp)>,
    /// Set when the screen has shown a question since the last report.
    drawn: bool,
    /// The dialog that the last look showed.
    asks: Option<Condition>,
    /// The text that a person has begun to type beside the dialog.
    draft: Draft,
    /// When the harness reported the end of the turn; none while the agent is at work.
    turn_over: Option<Timestamp>,
    /// A problem of the screen that the supervisor itself found.
    odd: Option<Condition>,
    /// The reason why the first prompt is kept back.
    untyped: Option<Condition>,
    /// A text of a limit or login that is over and may still be on the screen, and the number of such texts then: a
    /// higher number means a new text.
    past: Option<(Condition, usize)>,
    /// The limit of the session whose end has come, while the session has not gone on yet.
    waited: Option<Condition>,
    /// The number of texts of limits and logins on the screen.
    marks: usize,
    /// See [`Sighting::picture`].
    picture: u64,
    /// Set when a condition is still to be told.
    owed: bool,
    told: Option<Timestamp>,
    /// The condition that was told last, until its end is told.
    open: Option<Condition>,
    /// The trouble that the account was told of last.
    account: Option<AccountReport>,
    /// Set when the condition was seen to begin.
    fresh: bool,
    /// Set when the agent was at work at the last look or report.
    works: bool,
    /// Evidence that the account serves the session again.
    proof: Proof,
}

/// A reported question and each of its choices are cut to this number of characters.
const MOST_TEXT: usize = 1000;
/// The maximum number of reported choices.
const MOST_CHOICES: usize = 32;
/// This long after a report, the screen shows what the report was about.
const SHOWN_BY: Duration = Duration::from_secs(3);

impl Watch {
    /// Starts to watch a session whose screen was not seen yet.
    #[must_use]
    pub fn new(token: &str) -> Self {
        Self {
            token: token.to_owned(),
            activity: None,
            seen: None,
            was_seen: false,
            screen: None,
            reported: None,
            drawn: false,
            asks: None,
            draft: Draft::default(),
            turn_over: None,
            odd: None,
            untyped: None,
            past: None,
            waited: None,
            marks: 0,
            picture: 0,
            owed: false,
            told: None,
            open: None,
            account: None,
            fresh: false,
            works: false,
            proof: Proof::default(),
        }
    }

    /// Returns true when this is the state of the session with that token.
    #[must_use]
    pub fn is_of(&self, token: &str) -> bool {
        self.token == token
    }

    /// Returns the token of the session.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Returns true when nothing was written since the last look, so that the screen is as it was.
    #[must_use]
    pub fn is_fresh(&self, activity: Option<Timestamp>) -> bool {
        let (Some(seen), Some(last)) = (self.seen, self.activity) else {
            return false;
        };
        let settled = Duration::try_from(seen.duration_since(last)).unwrap_or_default() >= SETTLED;
        settled && activity == Some(last) && !self.owes_account()
    }

    /// Returns true when the account is still to be told of a condition or of its end.
    fn owes_account(&self) -> bool {
        let told_of = self.condition().and_then(AccountReport::of);
        match self.account {
            None => told_of.is_some(),
            Some(_) => told_of.is_none() && self.proof.is_pending(),
        }
    }

    /// Records what a look at the screen showed.
    pub fn observe(&mut self, sighting: Sighting, activity: Option<Timestamp>, now: Timestamp) {
        let before = self.shown().cloned();
        let was_known = self.condition().is_some();
        let is_new = sighting.marks > self.marks;
        self.proof.observe(&sighting, now);
        if sighting.picture != self.picture {
            self.moves();
        }
        (self.marks, self.picture) = (sighting.marks, sighting.picture);
        // A past text that left the screen and comes back counts as new.
        self.past = self.past.take().filter(|_| sighting.marks > 0);
        if let Some((_, marks)) = &mut self.past {
            *marks = sighting.marks.min(*marks);
        }
        // An agent that has gone on still shows the text of its limit.
        let is_past = |seen: &Condition| {
            let mut past = self.past.iter();
            past.any(|(past, marks)| {
                sighting.marks <= *marks && (past.word(), past.text()) == (seen.word(), seen.text())
            })
        };
        let was_at = self.screen.as_ref().or(self.waited.as_ref());
        let was_at = was_at.is_some_and(|it| matches!(it, Condition::RateLimited { .. }));
        let waits = sighting.ending.clone().filter(|it| !is_past(it));
        let waits = waits.filter(|_| !self.was_seen || was_at);
        let ending = sighting.ending.filter(|_| self.is_limited(now));
        let shown = sighting.condition.or(ending);
        let shown = shown.filter(|seen| !is_past(seen));
        self.drawn |= sighting.asks.is_some();
        self.asks.clone_from(&sighting.asks);
        self.draft.observe(self.asks.is_some(), sighting.begun, now);
        self.turn_over.take_if(|_| sighting.works);
        // The dialog was drawn, and is no longer on the screen.
        let has_gone = self.drawn && sighting.asks.is_none();
        let shown = shown.or(sighting.asks);
        // A submitted prompt may be refused again: until that is known the condition stays, although a spinner hides
        // its text.
        let tried = self.proof.is_tried(now) && sighting.works && sighting.marks > 0;
        let before_it = self.screen.take_if(|_| tried);
        let before_it = before_it.filter(|before| AccountReport::of(before).is_some());
        let shown = shown.or(before_it).map(|seen| match is_new {
            true => seen,
            false => self.as_first_read(seen),
        });
        if let Some((reported, at)) = &self.reported {
            let age = Duration::try_from(now.duration_since(*at)).unwrap_or_default();
            // A program that waits for the end of its limit looks like one at work.
            let waits = sighting.works && reported.until().is_some_and(|until| until > now);
            let is_over = age >= SHOWN_BY || has_gone && reported.word() == "needs_input";
            if sighting.goes_on && !waits && is_over {
                self.reported = None;
            }
        }
        if !was_known {
            // An agent at work may redraw old text.
            self.fresh =
                self.seen.is_some() && self.past.is_none() && !self.works && !sighting.works;
        }
        (self.waited, self.was_seen) = (waits, true);
        (self.screen, self.activity, self.seen) = (shown, activity, Some(now));
        self.works = sighting.works;
        self.owe(before.as_ref());
    }

    /// Returns true when the session is at a limit that is not over. The program itself waits out a limit that ends
    /// soon, so such a limit is no condition of a session that was not at a limit before.
    fn is_limited(&self, now: Timestamp) -> bool {
        let until = self.condition().and_then(Condition::until);
        until.is_some_and(|until| until > now)
    }

    /// Returns the condition with the end of the limit that was read when its text first appeared: a text like `try
    /// again in 5m` stays on the screen as it is, and would name a later time at each look.
    fn as_first_read(&self, seen: Condition) -> Condition {
        let same = |known: &&Condition| {
            known.until().is_some() && (known.word(), known.text()) == (seen.word(), seen.text())
        };
        self.screen.as_ref().filter(same).cloned().unwrap_or(seen)
    }

    /// Records what the harness reports.
    pub fn reported(&mut self, report: &Report, now: Timestamp) {
        let before = self.shown().cloned();
        self.proof.hears();
        self.moves();
        self.turn_over = match report {
            Report::Answers | Report::Waits => self.turn_over.or(Some(now)),
            Report::Started { .. } | Report::Compacts => self.turn_over,
            _ => None,
        };
        match report {
            Report::Asks { question, choices } => {
                // A session may report anything, and its text is sent to people.
                let cut = |text: &String| text.chars().take(MOST_TEXT).collect();
                let condition = Condition::NeedsInput {
                    question: cut(question),
                    choices: choices.iter().take(MOST_CHOICES).map(cut).collect(),
                };
                self.reported = Some((condition, now));
                self.drawn = false;
            }
            Report::Limited { until, .. } if is_short(*until, now) && !self.is_limited(now) => {}
            Report::Limited { text, until } => {
                (self.fresh, self.past) = (true, None);
                let (text, until) = (text.clone(), *until);
                self.reported = Some((Condition::RateLimited { text, until }, now));
            }
            Report::Auth { text } => {
                self.past = None;
                self.reported = Some((Condition::Auth { text: text.clone() }, now));
            }
            // The account may still refuse the prompt.
            Report::Begins => {
                self.works = true;
                self.waited = None;
                self.answered();
                self.draft.submitted();
                self.proof.begins(now);
            }
            Report::Answered => {
                self.works = true;
                self.answered();
            }
            Report::Works | Report::Answers => {
                self.works = *report == Report::Works;
                (self.reported, self.waited) = (None, None);
                self.put_past();
                self.proof.answers();
            }
            // The limit or the question may be the reason why the turn ended.
            Report::Waits | Report::Ended => {
                self.works = false;
                self.answered();
            }
            Report::Started { .. } | Report::Compacts => {}
        }
        self.owe(before.as_ref());
    }

    /// Sets or clears the problem that the supervisor found with the screen.
    pub fn set_odd(&mut self, odd: Option<Condition>) {
        let before = self.shown().cloned();
        self.odd = odd;
        self.owe(before.as_ref());
    }

    /// Sets or clears the reason why the first prompt is kept back.
    pub fn set_untyped(&mut self, untyped: Option<Condition>) {
        let before = self.shown().cloned();
        self.untyped = untyped;
        self.owe(before.as_ref());
    }

    /// Records that something happened, which clears `spins`.
    pub fn moves(&mut self) {
        self.odd
            .take_if(|odd| matches!(odd, Condition::Spins { .. }));
    }

    /// Returns the time after which the screen is worth a look even if nothing was written: a reported question may be
    /// over before its screen was seen.
    #[must_use]
    pub fn look_again(&self, now: Timestamp) -> Option<Duration> {
        let (_, at) = self.reported.as_ref()?;
        let age = Duration::try_from(now.duration_since(*at)).unwrap_or_default();
        SHOWN_BY.checked_sub(age).filter(|left| !left.is_zero())
    }

    /// Returns the question that the harness reports; the screen may not show it yet.
    #[must_use]
    pub fn reported_question(&self) -> Option<&str> {
        let (condition, _) = self.reported.as_ref()?;
        (condition.word() == "needs_input").then(|| condition.text())
    }

    /// Returns the known choices of the open dialog.
    #[must_use]
    pub fn choices(&self) -> &[String] {
        match &self.asks {
            Some(Condition::NeedsInput { choices, .. }) => choices,
            Some(_) | None => &[],
        }
    }

    /// Returns when the harness reported the end of the turn, if nothing has followed since.
    #[must_use]
    pub fn turn_over(&self) -> Option<Timestamp> {
        self.turn_over
    }

    /// Returns when a person last typed into a line that stands in the input. `begun` is the holder's time of that
    /// line. Text typed at a dialog does not count.
    #[must_use]
    pub fn typed_last(&self, begun: Option<Timestamp>) -> Option<Timestamp> {
        self.draft.typed_last(begun)
    }

    /// Records that the text in the input was submitted.
    pub fn submitted(&mut self) {
        self.draft.submitted();
    }

    /// Returns the fingerprint of the screen ([`Sighting::picture`]), if the screen could be seen.
    #[must_use]
    pub fn picture(&self) -> Option<u64> {
        self.seen.map(|_| self.picture)
    }

    /// Records that the question that the harness reported was answered.
    pub fn answered(&mut self) {
        self.reported
            .take_if(|(condition, _)| condition.word() == "needs_input");
    }

    /// Records that the limit or login is over, even if its text stays on the screen.
    pub fn pass(&mut self) {
        self.put_past();
        (self.account, self.waited) = (None, None);
    }

    /// Returns the trouble that concerns the session at its turn: its present limit or login, or the limit that has
    /// ended without the session going on.
    #[must_use]
    pub fn trouble(&self) -> Option<AccountReport> {
        let in_it = self.shown().and_then(AccountReport::of);
        in_it.or_else(|| self.waited.as_ref().and_then(AccountReport::of))
    }

    /// Has the account told again of what the next look finds.
    pub fn forget_account(&mut self) {
        self.account = None;
    }

    fn put_past(&mut self) {
        let marks = self.marks;
        let shown = self.screen.take_if(|shown| shown.word() != "needs_input");
        self.past = shown.map(|shown| (shown, marks)).or(self.past.take());
        self.reported = self
            .reported
            .take()
            .filter(|(condition, _)| condition.word() == "needs_input");
    }

    /// Returns the news for the session's account: a limit or login that it was not told of, or the end of one. A text
    /// that left the screen and a submitted prompt are no proof of the end; see [`Proof`].
    pub fn account_news(&mut self) -> Option<AccountNews> {
        if self.condition().is_some() && !self.is_known() {
            // The condition may have ended while the screen was hidden.
            return None;
        }
        let now = self
            .condition()
            .and_then(AccountReport::of)
            .map(|now| AccountReport {
                fresh: self.fresh,
                ..now
            });
        match (now, &self.account) {
            (Some(now), before) if !before.as_ref().is_some_and(|before| before.is_same(&now)) => {
                self.account = Some(now.clone());
                self.proof.starts_over();
                Some(AccountNews::Told(now))
            }
            (None, Some(before)) if self.proof.is_given(before.why) => {
                self.account = None;
                Some(AccountNews::Over)
            }
            (Some(_) | None, _) => None,
        }
    }

    fn owe(&mut self, before: Option<&Condition>) {
        let same = match (before, self.shown()) {
            (Some(before), Some(now)) => before.is_same(now),
            (before, now) => before.is_none() && now.is_none(),
        };
        self.owed = self.shown().is_some() && (self.owed || !same);
    }

    /// Records that the screen could not be seen, so that its content is unknown.
    pub fn missed(&mut self) {
        self.seen = None;
    }

    /// Returns the known condition. The screen goes before the report, for it shows a question more exactly.
    #[must_use]
    pub fn condition(&self) -> Option<&Condition> {
        self.screen
            .as_ref()
            .or(self.reported.as_ref().map(|(condition, _)| condition))
    }

    /// Returns the condition that people are shown, or else a problem that the supervisor found with the screen or the
    /// first prompt. Such a problem holds nothing up.
    #[must_use]
    pub fn shown(&self) -> Option<&Condition> {
        let found = self.untyped.as_ref().or(self.odd.as_ref());
        self.condition().or(found)
    }

    /// Returns true when a condition is known to hold.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.condition().is_some() && (self.seen.is_some() || self.reported.is_some())
    }

    /// Returns true when the session must not be disturbed: a condition holds, or the screen cannot be seen.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.condition().is_some() || self.seen.is_none()
    }

    /// Returns the condition when people are to be told of it now. Each is told once.
    pub fn due_notice(&mut self, now: Timestamp) -> Option<Condition> {
        let since = |told: Timestamp| Duration::try_from(now.duration_since(told));
        // Also after the clock was set back.
        let early = |told| since(told).is_ok_and(|since| since < APART);
        if !self.owed || self.told.is_some_and(early) {
            return None;
        }
        (self.owed, self.told) = (false, Some(now));
        self.open = self.shown().cloned();
        self.open.clone()
    }

    /// Returns a condition that people were told of and that is over. Each end is told once.
    pub fn end_notice(&mut self) -> Option<Condition> {
        let over = self.shown().is_none() && self.seen.is_some();
        self.open.take_if(|_| over)
    }
}
