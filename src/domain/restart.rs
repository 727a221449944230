//! Restart intensity, quarantine and back-off of one child.
//!
//! ```text
//!   running ── death, at most max_restarts in the window ──► backoff ── delay over ──► running
//!   running ── death, more than max_restarts in the window ──► quarantined
//!   quarantined ── oldest death left the window, released, or configuration changed ──► running
//! ```
//!
//! Names and meaning are OTP's, but the limit is per child, and reaching it quarantines that child
//! instead of ending the supervisor (`health-patrol.md`, crash loop quarantine; `rules.md`,
//! restart). Deaths are counted, not starts.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;

/// A reading of the monotonic clock: time since some fixed instant.
pub type Mono = Duration;

/// `max_restarts`, `restart_window`, `restart_backoff`, `stable_after`.
#[derive(Debug, Clone, PartialEq)]
pub struct RestartPolicy {
    /// The maximum number of deaths within the window that are answered by a restart; 0 is unlimited.
    pub max_restarts: u32,
    /// The time for which a death counts.
    pub window: Duration,
    /// Delay before the restart that answers a death.
    pub backoff: Backoff,
    /// A session healthy this long clears the history.
    pub stable_after: Option<Duration>,
    /// Persistence of the counted deaths.
    pub history: History,
}

impl RestartPolicy {
    /// Returns true when counted deaths outlive the supervisor; with unlimited restarts none are counted.
    #[must_use]
    pub fn outlives(&self) -> bool {
        self.history == History::Persistent && self.max_restarts > 0
    }
}

/// `restart_history`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum History {
    /// Forgotten with the supervisor (`health-patrol.md`, invariant: crash tracking resets).
    Memory,
    /// Kept in the store.
    Persistent,
}

/// The deaths that count against one child, as stored. They belong to the agent or slot, never to one of its sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeathRecord {
    /// Name of the child.
    pub child: String,
    /// The raider's incarnation, or the fingerprint of the agent's configuration: another value has no history.
    pub made_from: String,
    /// Set while a session should run and has had no planned end: if it runs no more, it died.
    pub open: bool,
    /// Wall-clock times of the deaths, the oldest first.
    pub at: Vec<Timestamp>,
}

impl DeathRecord {
    /// Returns true when there is nothing to store.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        !self.open && self.at.is_empty()
    }
}

/// Delay before a restart, by the number of deaths in the window.
#[derive(Debug, Clone, PartialEq)]
pub struct Backoff {
    /// After the first death.
    pub first: Duration,
    /// After the second.
    pub initial: Duration,
    /// The most.
    pub max: Duration,
    /// Growth from the third death on.
    pub multiplier: f64,
    /// Part of the delay that is random, 0 to 1.
    pub jitter: f64,
}

impl Backoff {
    /// Returns the delay after the `deaths`-th death in the window (1 for the first). `random` is in
    /// 0..1 and decides the jitter; the result never exceeds `max`.
    #[must_use]
    pub fn delay(&self, deaths: u32, random: f64) -> Duration {
        let base = match deaths {
            0 | 1 => return self.first.min(self.max),
            n => {
                let factor = self
                    .multiplier
                    .powi(i32::try_from(n - 2).unwrap_or(i32::MAX));
                (self.initial.as_secs_f64() * factor).min(self.max.as_secs_f64())
            }
        };
        // Jitter takes away, so that `max` stays a true maximum.
        Duration::from_secs_f64(base * (1.0 - self.jitter * random))
    }
}

/// The answer to a death.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a death must be answered"]
pub enum Answer {
    /// Start again after this delay.
    Restart {
        /// The delay.
        after: Duration,
    },
    /// Do not start again before this reading of the clock.
    Quarantine {
        /// When the oldest counted death leaves the window.
        until: Mono,
    },
}

/// The counted deaths of one child. Holds at most `max_restarts + 1` instants, none when unlimited.
#[derive(Debug, Clone, Default)]
pub struct DeathWindow {
    deaths: VecDeque<Mono>,
    quarantined_until: Option<Mono>,
    /// Deaths in a row for back-off when nothing is counted.
    unlimited_streak: u32,
    last_death: Option<Mono>,
}

impl DeathWindow {
    /// Counts a death at `now` and returns the answer.
    pub fn on_death(&mut self, policy: &RestartPolicy, now: Mono, random: f64) -> Answer {
        self.prune(policy, now);
        if policy.max_restarts == 0 {
            let fresh = self
                .last_death
                .is_none_or(|last| now.saturating_sub(last) >= policy.window);
            self.unlimited_streak = if fresh {
                1
            } else {
                self.unlimited_streak.saturating_add(1)
            };
            self.last_death = Some(now);
            return Answer::Restart {
                after: policy.backoff.delay(self.unlimited_streak, random),
            };
        }
        self.deaths.push_back(now);
        while self.deaths.len() > policy.max_restarts as usize + 1 {
            self.deaths.pop_front();
        }
        let count = u32::try_from(self.deaths.len()).unwrap_or(u32::MAX);
        if count > policy.max_restarts {
            // The front exists: one was just pushed.
            let oldest = self.deaths.front().copied().unwrap_or(now);
            let until = oldest + policy.window;
            self.quarantined_until = Some(until);
            return Answer::Quarantine { until };
        }
        Answer::Restart {
            after: policy.backoff.delay(count, random),
        }
    }

    /// Counts the death of a child that was tried again after its quarantine although no person acted: it is
    /// quarantined for a whole window again. Otherwise its older deaths, which are about to leave the window one by
    /// one, would each allow another try.
    pub fn on_relapse(&mut self, policy: &RestartPolicy, now: Mono) -> Answer {
        self.deaths = std::iter::repeat_n(now, policy.max_restarts as usize + 1).collect();
        let until = now + policy.window;
        self.quarantined_until = Some(until);
        Answer::Quarantine { until }
    }

    /// Restores the deaths that an earlier supervisor counted; `now` and `mono` are the present readings of both
    /// clocks. A death stamped in the future counts as one of now, so that a wall clock that was set back quarantines
    /// no child for longer than one window.
    #[must_use]
    pub fn restored(at: &[Timestamp], policy: &RestartPolicy, now: Timestamp, mono: Mono) -> Self {
        let age = |at: &Timestamp| Duration::try_from(now.duration_since(*at)).unwrap_or_default();
        let most = policy.max_restarts as usize + 1;
        let newest = &at[at.len().saturating_sub(most)..];
        let mut window = Self {
            deaths: newest
                .iter()
                .map(|at| mono.saturating_sub(age(at)))
                .collect(),
            ..Self::default()
        };
        window.deaths.make_contiguous().sort_unstable();
        window.prune(policy, mono);
        if window.deaths.len() == most {
            window.quarantined_until = window.deaths.front().map(|oldest| *oldest + policy.window);
        }
        window
    }

    /// Holds the child until then, as an earlier supervisor decided, with as many deaths as that takes; but never for
    /// longer than one window, whatever the wall clock did since.
    pub fn hold(&mut self, policy: &RestartPolicy, until: Mono, now: Mono) {
        let until = until.min(now + policy.window);
        if until <= now || policy.max_restarts == 0 {
            return;
        }
        let most = policy.max_restarts as usize + 1;
        if self.deaths.len() < most {
            let death = until.saturating_sub(policy.window);
            self.deaths = std::iter::repeat_n(death, most).collect();
        }
        self.quarantined_until = Some(until);
    }

    /// Returns the counted deaths.
    pub fn counted(&mut self, policy: &RestartPolicy, mono: Mono) -> Vec<Mono> {
        self.prune(policy, mono);
        self.deaths.iter().copied().collect()
    }

    /// Returns the end of the quarantine, if the child is quarantined.
    #[must_use]
    pub fn quarantined_until(&self, now: Mono) -> Option<Mono> {
        self.quarantined_until.filter(|until| *until > now)
    }

    /// Returns the number of deaths that count now.
    pub fn count(&mut self, policy: &RestartPolicy, now: Mono) -> u32 {
        self.prune(policy, now);
        if policy.max_restarts == 0 {
            return if self.last_death.is_some() {
                self.unlimited_streak
            } else {
                0
            };
        }
        u32::try_from(self.deaths.len()).unwrap_or(u32::MAX)
    }

    /// Returns the time from the oldest to the newest death that counts.
    pub fn span(&mut self, policy: &RestartPolicy, now: Mono) -> Duration {
        self.prune(policy, now);
        let ends = self.deaths.front().zip(self.deaths.back());
        ends.map_or(Duration::ZERO, |(oldest, newest)| {
            newest.saturating_sub(*oldest)
        })
    }

    /// Clears the history: an operator released the child, its spec changed, or it was healthy for `stable_after`.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    fn prune(&mut self, policy: &RestartPolicy, now: Mono) {
        // An entry exactly `window` old has left the window.
        while self
            .deaths
            .front()
            .is_some_and(|death| now.saturating_sub(*death) >= policy.window)
        {
            self.deaths.pop_front();
        }
        if self.quarantined_until.is_some_and(|until| until <= now) {
            self.quarantined_until = None;
        }
        if self
            .last_death
            .is_some_and(|last| now.saturating_sub(last) >= policy.window)
        {
            self.last_death = None;
            self.unlimited_streak = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn policy(max: u32) -> RestartPolicy {
        RestartPolicy {
            max_restarts: max,
            window: Duration::from_secs(3600),
            backoff: Backoff {
                first: Duration::ZERO,
                initial: Duration::from_secs(1),
                max: Duration::from_secs(30),
                multiplier: 2.0,
                jitter: 0.0,
            },
            stable_after: None,
            history: History::Persistent,
        }
    }

    const fn at(seconds: u64) -> Mono {
        Duration::from_secs(seconds)
    }

    /// `jitter`: children that die at the same moment do not come back at the same moment, and never later than without
    /// it.
    #[test]
    fn jitter_takes_its_part_of_the_delay_away() {
        let whole = policy(5).backoff;
        let backoff = Backoff {
            jitter: 0.5,
            ..whole
        };
        for deaths in 2..40 {
            let most = whole.delay(deaths, 0.0);
            let delays = [0.0, 0.25, 0.5, 1.0].map(|random| backoff.delay(deaths, random));
            assert_eq!((delays[0], delays[3]), (most, most / 2));
            assert!(delays.is_sorted_by(|sooner, later| sooner > later));
        }
    }

    /// `health-patrol.md`: "exceeds `max_restarts` within `restart_window`".
    #[test]
    fn n_restarts_pass_and_the_next_death_quarantines() {
        let mut window = DeathWindow::default();
        for death in 0..5 {
            let answer = window.on_death(&policy(5), at(death), 0.0);
            assert!(
                matches!(answer, Answer::Restart { .. }),
                "death {death}: {answer:?}"
            );
        }
        let answer = window.on_death(&policy(5), at(10), 0.0);
        assert_eq!(answer, Answer::Quarantine { until: at(3600) });
        assert_eq!(window.quarantined_until(at(3599)), Some(at(3600)));
    }

    /// `health-patrol.md`, invariant: quarantine auto-expires.
    #[test]
    fn a_promised_quarantine_is_held_until_its_time_and_never_for_more_than_a_window() {
        let mut window = DeathWindow::default();
        window.hold(&policy(5), at(9000), at(8000));
        assert_eq!(window.quarantined_until(at(8999)), Some(at(9000)));
        assert_eq!(window.quarantined_until(at(9000)), None);
        assert_eq!(window.count(&policy(5), at(8000)), 6);
        window.hold(&policy(5), at(90_000), at(8000));
        assert_eq!(window.quarantined_until(at(8000)), Some(at(11_600)));
        let mut over = DeathWindow::default();
        over.hold(&policy(5), at(7000), at(8000));
        assert_eq!(over.quarantined_until(at(8000)), None);
        over.hold(&policy(0), at(9000), at(8000));
        assert_eq!(over.quarantined_until(at(8000)), None);
    }

    #[test]
    fn quarantine_ends_when_the_oldest_death_leaves_the_window() {
        let mut window = DeathWindow::default();
        let _ = window.on_death(&policy(1), at(0), 0.0);
        let _ = window.on_death(&policy(1), at(100), 0.0);
        assert_eq!(window.quarantined_until(at(3600)), None);
        assert_eq!(window.count(&policy(1), at(3600)), 1);
        let answer = window.on_death(&policy(1), at(3601), 0.0);
        assert_eq!(answer, Answer::Quarantine { until: at(3700) });
    }

    #[test]
    fn a_relapse_rests_for_a_whole_window_also_after_a_restart_of_the_supervisor() {
        let mut window = DeathWindow::default();
        for death in 0..3 {
            let _ = window.on_death(&policy(2), at(death), 0.0);
        }
        let answer = window.on_relapse(&policy(2), at(3600));
        assert_eq!(answer, Answer::Quarantine { until: at(7200) });
        let stamps = window.counted(&policy(2), at(3600));
        assert_eq!(stamps, [at(3600); 3]);
        let stamps = [wall(0); 3];
        let window = DeathWindow::restored(&stamps, &policy(2), wall(100), at(9000));
        assert_eq!(window.quarantined_until(at(9000)), Some(at(9000 + 3500)));
    }

    #[test]
    fn zero_is_unlimited_and_keeps_nothing() {
        let mut window = DeathWindow::default();
        for death in 0..10_000 {
            assert!(matches!(
                window.on_death(&policy(0), at(death / 100), 0.0),
                Answer::Restart { .. }
            ));
        }
        assert_eq!(window.deaths.len(), 0);
    }

    #[test]
    fn backoff_is_first_then_initial_then_grows_to_max() {
        let backoff = policy(0).backoff;
        let delays: Vec<_> = (1..=8).map(|n| backoff.delay(n, 0.0).as_secs()).collect();
        assert_eq!(delays, [0, 1, 2, 4, 8, 16, 30, 30]);
    }

    #[test]
    fn a_release_clears_the_history() {
        let mut window = DeathWindow::default();
        let _ = window.on_death(&policy(1), at(0), 0.0);
        let _ = window.on_death(&policy(1), at(1), 0.0);
        window.clear();
        assert_eq!(window.quarantined_until(at(2)), None);
        assert!(matches!(
            window.on_death(&policy(1), at(2), 0.0),
            Answer::Restart { .. }
        ));
    }

    const fn wall(seconds: i64) -> Timestamp {
        Timestamp::constant(1_000_000 + seconds, 0)
    }

    /// Deaths that an earlier supervisor counted, by the wall clock; their number now; the seconds until a quarantine
    /// ends, if there is one.
    #[test]
    fn restored_deaths_count_as_if_the_supervisor_had_never_ended() {
        let table: &[(&[i64], u32, Option<u64>)] = &[
            (&[], 0, None),
            (&[-3601], 0, None),
            (&[-3600], 0, None),
            (&[-3599], 1, None),
            (&[-50, -20], 2, None),
            (&[-4000, -20], 1, None),
            // More than max: quarantined until the oldest leaves.
            (&[-100, -50, -20], 3, Some(3500)),
            (&[-3599, -50, -20], 3, Some(1)),
            (&[-3600, -50, -20], 2, None),
            // max_restarts is smaller now: the newest count.
            (&[-300, -200, -100, -50, -20], 3, Some(3500)),
            // The wall clock was put back: they happened now.
            (&[9_000_000, 9_000_001], 2, None),
            (&[9_000_000, 9_000_001, 9_000_002], 3, Some(3600)),
            (&[-20, 9_000_000, 9_000_001], 3, Some(3580)),
        ];
        let mono = at(9_000);
        for (deaths, count, left) in table {
            let stamps: Vec<_> = deaths.iter().map(|death| wall(*death)).collect();
            let mut window = DeathWindow::restored(&stamps, &policy(2), wall(0), mono);
            assert_eq!(window.count(&policy(2), mono), *count, "{deaths:?}");
            let until = left.map(|left| mono + Duration::from_secs(left));
            assert_eq!(window.quarantined_until(mono), until, "{deaths:?}");
        }
    }

    #[test]
    fn where_restarts_are_unlimited_nothing_outlives_the_supervisor() {
        assert!(policy(1).outlives());
        assert!(!policy(0).outlives());
        let memory = RestartPolicy {
            history: History::Memory,
            ..policy(1)
        };
        assert!(!memory.outlives());
    }

    proptest! {
        /// `health-patrol.md`, invariant: crash tracking is bounded; and quarantine exactly when
        /// more than max deaths lie in the window.
        #[test]
        fn quarantine_iff_more_than_max_deaths_in_the_window(
            max in 1u32..6,
            gaps in proptest::collection::vec(0u64..2000, 1..60),
        ) {
            let policy = policy(max);
            let mut window = DeathWindow::default();
            let mut history: Vec<u64> = Vec::new();
            let mut now = 0;
            for gap in gaps {
                now += gap;
                history.push(now);
                let counted = history.iter().filter(|t| now - **t < 3600).count();
                let answer = window.on_death(&policy, at(now), 0.5);
                let quarantined = matches!(answer, Answer::Quarantine { .. });
                prop_assert_eq!(quarantined, counted > max as usize);
                prop_assert!(window.deaths.len() <= max as usize + 1);
                if let Answer::Quarantine { until } = answer {
                    prop_assert!(until > at(now));
                }
            }
        }

        #[test]
        fn a_delay_never_exceeds_the_maximum(deaths in 0u32..200, random in 0.0f64..1.0) {
            let mut backoff = policy(0).backoff;
            backoff.jitter = 0.5;
            prop_assert!(backoff.delay(deaths, random) <= backoff.max);
        }
    }
}
