//! What is remembered of one session from look to look: what it shows, what it reports, and what of that
//! was told.

use std::time::Duration;

use jiff::Timestamp;

use super::draft::Draft;
use super::proof::Proof;
use super::{APART, AccountNews, Condition, Report, Sighting, is_short};
use crate::domain::account::Trouble;

/// Output may still be on its way to the screen this long after it was noted.
const SETTLED: Duration = Duration::from_secs(2);

/// What is remembered of one session from look to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    /// Which session it is.
    token: String,
    /// What the provider knew of its terminal when the screen was seen.
    activity: Option<Timestamp>,
    /// When it was seen; none when it could not be.
    seen: Option<Timestamp>,
    /// Its screen was seen before.
    was_seen: bool,
    /// What the screen shows.
    screen: Option<Condition>,
    /// What the harness reported last, and when.
    reported: Option<(Condition, Timestamp)>,
    /// The screen has shown a question since.
    drawn: bool,
    /// The dialog that the last look showed.
    asks: Option<Condition>,
    /// What a person has begun to type beside it.
    draft: Draft,
    /// Since when its turn is over, as its harness reported.
    turn_over: Option<Timestamp>,
    /// What the supervisor itself found wrong with its screen.
    odd: Option<Condition>,
    /// Why its first prompt is kept back.
    untyped: Option<Condition>,
    /// A text of a limit or login that is over and may still be on the screen, and how many such texts
    /// were there: one more is a new one.
    past: Option<(Condition, usize)>,
    /// The limit that it was at, or showed when it was seen first, whose time has come. It did not go on yet.
    waited: Option<Condition>,
    /// How many the screen shows.
    marks: usize,
    /// See [`Sighting::picture`].
    picture: u64,
    /// A condition that was not told yet.
    owed: bool,
    told: Option<Timestamp>,
    /// What was told last, until its end is told.
    open: Option<Condition>,
    /// What the account was told of last.
    account: Option<Trouble>,
    /// The condition was seen to begin.
    fresh: bool,
    /// Whether the agent was seen at work, or heard to be, last.
    works: bool,
    /// Whether the account serves it again.
    proof: Proof,
}

/// A reported question and each of its choices are cut after so many characters.
const MOST_TEXT: usize = 1000;
/// So many reported choices are taken.
const MOST_CHOICES: usize = 32;
/// A screen that is seen so long after a report shows what it was about.
const SHOWN_BY: Duration = Duration::from_secs(3);

impl Watch {
    /// A session whose screen was not seen yet.
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

    /// Whether it is this session that is remembered.
    #[must_use]
    pub fn is_of(&self, token: &str) -> bool {
        self.token == token
    }

    /// Which session is remembered.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Whether the screen is as it was when it was seen: nothing was written since.
    #[must_use]
    pub fn is_fresh(&self, activity: Option<Timestamp>) -> bool {
        let (Some(seen), Some(last)) = (self.seen, self.activity) else {
            return false;
        };
        let settled = Duration::try_from(seen.duration_since(last)).unwrap_or_default() >= SETTLED;
        settled && activity == Some(last) && !self.owes_account()
    }

    /// Whether its account is still to be told of a condition, or of its end.
    fn owes_account(&self) -> bool {
        let told_of = self.condition().and_then(Trouble::of);
        match self.account {
            None => told_of.is_some(),
            Some(_) => told_of.is_none() && self.proof.is_pending(),
        }
    }

    /// Takes in what the screen shows.
    pub fn saw(&mut self, sighting: Sighting, activity: Option<Timestamp>, now: Timestamp) {
        let before = self.shown().cloned();
        let was_known = self.condition().is_some();
        let is_new = sighting.marks > self.marks;
        self.proof.saw(&sighting, now);
        if sighting.picture != self.picture {
            self.moves();
        }
        (self.marks, self.picture) = (sighting.marks, sighting.picture);
        // Texts that have left the screen come back as new ones.
        self.past = self.past.take().filter(|_| sighting.marks > 0);
        if let Some((_, marks)) = &mut self.past {
            *marks = sighting.marks.min(*marks);
        }
        // The text of a limit stays on the screen of an agent that has gone on.
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
        self.draft.saw(self.asks.is_some(), sighting.begun, now);
        self.turn_over.take_if(|_| sighting.works);
        // A dialog that was drawn, and has gone.
        let has_gone = self.drawn && sighting.asks.is_none();
        let shown = shown.or(sighting.asks);
        // A prompt that was submitted is refused again, as far as is known: its spinner hides the text of before.
        let tried = self.proof.is_tried(now) && sighting.works && sighting.marks > 0;
        let before_it = self.screen.take_if(|_| tried);
        let before_it = before_it.filter(|before| Trouble::of(before).is_some());
        let shown = shown.or(before_it).map(|seen| match is_new {
            true => seen,
            false => self.as_first_read(seen),
        });
        if let Some((reported, at)) = &self.reported {
            let age = Duration::try_from(now.duration_since(*at)).unwrap_or_default();
            // A program that waits for the end of a limit by itself looks as if it worked.
            let waits = sighting.works && reported.until().is_some_and(|until| until > now);
            let is_over = age >= SHOWN_BY || has_gone && reported.word() == "needs_input";
            if sighting.goes_on && !waits && is_over {
                self.reported = None;
            }
        }
        if !was_known {
            // What an agent at work redraws may be old.
            self.fresh =
                self.seen.is_some() && self.past.is_none() && !self.works && !sighting.works;
        }
        (self.waited, self.was_seen) = (waits, true);
        (self.screen, self.activity, self.seen) = (shown, activity, Some(now));
        self.works = sighting.works;
        self.owe(before.as_ref());
    }

    /// Whether it is at a limit that is not over. One that ends soon is waited out by the program itself, so it is no
    /// condition of a session that was not at it before.
    fn is_limited(&self, now: Timestamp) -> bool {
        let until = self.condition().and_then(Condition::until);
        until.is_some_and(|until| until > now)
    }

    /// The end of a limit as it was read when its text came up: a text like `try again in 5m` stays on the
    /// screen as it is, and would name a later time at each look.
    fn as_first_read(&self, seen: Condition) -> Condition {
        let same = |known: &&Condition| {
            known.until().is_some() && (known.word(), known.text()) == (seen.word(), seen.text())
        };
        self.screen.as_ref().filter(same).cloned().unwrap_or(seen)
    }

    /// Takes in what the harness reports.
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
                // A session may report anything, and people are sent it.
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
            // Whether the prompt is refused is still to come.
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
            // The end of a turn may be what the limit or the question led to.
            Report::Waits | Report::Ended => {
                self.works = false;
                self.answered();
            }
            Report::Started { .. } | Report::Compacts => {}
        }
        self.owe(before.as_ref());
    }

    /// Takes in what the supervisor found wrong with its screen, or that this is over.
    pub fn set_odd(&mut self, odd: Option<Condition>) {
        let before = self.shown().cloned();
        self.odd = odd;
        self.owe(before.as_ref());
    }

    /// Takes in why its first prompt is kept back, or that this is over.
    pub fn set_untyped(&mut self, untyped: Option<Condition>) {
        let before = self.shown().cloned();
        self.untyped = untyped;
        self.owe(before.as_ref());
    }

    /// Something happens: it shows no mere spinner.
    pub fn moves(&mut self) {
        self.odd
            .take_if(|odd| matches!(odd, Condition::Spins { .. }));
    }

    /// When the screen is to be looked at again although nothing is written to it: a question that was reported may be
    /// over before it was seen.
    #[must_use]
    pub fn look_again(&self, now: Timestamp) -> Option<Duration> {
        let (_, at) = self.reported.as_ref()?;
        let age = Duration::try_from(now.duration_since(*at)).unwrap_or_default();
        SHOWN_BY.checked_sub(age).filter(|left| !left.is_zero())
    }

    /// Returns the question that the harness reports, which its screen may not show yet.
    #[must_use]
    pub fn reported_question(&self) -> Option<&str> {
        let (condition, _) = self.reported.as_ref()?;
        (condition.word() == "needs_input").then(|| condition.text())
    }

    /// What can be answered to the dialog that is open, as far as is known.
    #[must_use]
    pub fn choices(&self) -> &[String] {
        match &self.asks {
            Some(Condition::NeedsInput { choices, .. }) => choices,
            Some(_) | None => &[],
        }
    }

    /// Since when its turn is over and nothing has followed, where its harness reports that.
    #[must_use]
    pub fn turn_over(&self) -> Option<Timestamp> {
        self.turn_over
    }

    /// When a person typed last into a line that stands in the input, where `begun` is what the holder says of that.
    /// What they typed at a dialog was for that.
    #[must_use]
    pub fn typed_last(&self, begun: Option<Timestamp>) -> Option<Timestamp> {
        self.draft.typed_last(begun)
    }

    /// What stood in the input was submitted.
    pub fn submitted(&mut self) {
        self.draft.submitted();
    }

    /// Returns what stands for the screen ([`Sighting::picture`]), if it could be seen.
    #[must_use]
    pub fn picture(&self) -> Option<u64> {
        self.seen.map(|_| self.picture)
    }

    /// The question that the harness reported was answered.
    pub fn answered(&mut self) {
        self.reported
            .take_if(|(condition, _)| condition.word() == "needs_input");
    }

    /// The limit or login that is shown is over, whatever stays on the screen.
    pub fn pass(&mut self) {
        self.put_past();
        (self.account, self.waited) = (None, None);
    }

    /// What the session is told of at its turn: the limit or login that it is in, or the limit whose end it has not
    /// gone on after.
    #[must_use]
    pub fn trouble(&self) -> Option<Trouble> {
        let in_it = self.shown().and_then(Trouble::of);
        in_it.or_else(|| self.waited.as_ref().and_then(Trouble::of))
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

    /// What the account of the session is to be told of: a limit or a login that it was not told of, or
    /// that it is over. The text of it may go from a screen before, and a prompt that was submitted says nothing: it
    /// is over when that is proven ([`Proof`]).
    pub fn tell_account(&mut self) -> Option<AccountNews> {
        if self.condition().is_some() && !self.is_known() {
            // What stood there before its screen was hidden may be over.
            return None;
        }
        let now = self.condition().and_then(Trouble::of).map(|now| Trouble {
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

    /// The screen could not be seen: what it shows is not known any more.
    pub fn missed(&mut self) {
        self.seen = None;
    }

    /// The condition, as far as it is known. What the screen shows of a question is more exact than
    /// the report of it.
    #[must_use]
    pub fn condition(&self) -> Option<&Condition> {
        self.screen
            .as_ref()
            .or(self.reported.as_ref().map(|(condition, _)| condition))
    }

    /// What people are shown: the condition, or what the supervisor found wrong with its screen. The latter keeps nothing
    /// from being done.
    #[must_use]
    pub fn shown(&self) -> Option<&Condition> {
        let found = self.untyped.as_ref().or(self.odd.as_ref());
        self.condition().or(found)
    }

    /// Whether a condition is known to hold.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.condition().is_some() && (self.seen.is_some() || self.reported.is_some())
    }

    /// Whether it must not be disturbed: a condition holds, or it cannot be seen that none does.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.condition().is_some() || self.seen.is_none()
    }

    /// The condition, when people are to be told of it now. They are told once.
    pub fn tell(&mut self, now: Timestamp) -> Option<Condition> {
        let since = |told: Timestamp| Duration::try_from(now.duration_since(told));
        // After a clock that went back, too.
        let early = |told| since(told).is_ok_and(|since| since < APART);
        if !self.owed || self.told.is_some_and(early) {
            return None;
        }
        (self.owed, self.told) = (false, Some(now));
        self.open = self.shown().cloned();
        self.open.clone()
    }

    /// The condition that people were told of and that is over; it is told once.
    pub fn tell_end(&mut self) -> Option<Condition> {
        let over = self.shown().is_none() && self.seen.is_some();
        self.open.take_if(|_| over)
    }
}
