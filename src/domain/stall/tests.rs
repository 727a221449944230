//! The rules of stalling one by one, and complete lives of sessions.

use proptest::prelude::*;

use super::*;

const AFTER: Duration = Duration::from_secs(100);
const POLICY: Policy = Policy {
    after: AFTER,
    nudges: 2,
};

fn at(seconds: u64) -> Mono {
    Duration::from_secs(seconds)
}

fn wall(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn marks(output: i64, git: &str) -> Marks {
    Marks {
        session: "one".into(),
        output: Some(wall(output)),
        git: Some(git.into()),
        relic: "open".into(),
        picture: None,
    }
}

fn depth(changes: &str, cpu_ms: u64) -> Depth {
    Depth {
        changes: changes.into(),
        cpu: Duration::from_millis(cpu_ms),
    }
}

/// Observes the cheap marks, and the costly marks when asked to.
fn see(
    watch: &mut Watch,
    (cheap, deep): (Marks, Depth),
    steps: Option<&Steps>,
    now: Mono,
) -> (Progress, Verdict) {
    let progress = watch.compare(cheap, false, now);
    match watch.judge(&POLICY, steps, now) {
        Verdict::Deeper => {
            let deeper = watch.look_deeper(deep, now);
            (progress.max(deeper), watch.judge(&POLICY, steps, now))
        }
        verdict => (progress, verdict),
    }
}

/// Returns the first step against a silent session after observations at these instants: (when, output, git, changes,
/// CPU in milliseconds).
fn first_step(seen: &[(u64, i64, &str, &str, u64)]) -> Option<u64> {
    let mut watch = Watch::new(marks(0, "a"), at(0));
    let mut last = (0, 0, "a", "", 0);
    for now in 1..=400 {
        if let Some(change) = seen.iter().rfind(|change| change.0 <= now) {
            last = *change;
        }
        let (_, output, git, changes, cpu) = last;
        let sight = (marks(output, git), depth(changes, cpu));
        match see(&mut watch, sight, None, at(now)).1 {
            Verdict::Fresh { .. } => {}
            Verdict::Nudge(1) => return Some(now),
            verdict => panic!("{verdict:?}"),
        }
    }
    None
}

#[test]
fn every_channel_counts_and_silence_is_never_judged_early() {
    // The deeper look begins after a tenth.
    assert_eq!(first_step(&[]), Some(110));
    assert_eq!(first_step(&[(50, 9, "a", "", 0)]), Some(160), "output");
    assert_eq!(first_step(&[(50, 0, "b", "", 0)]), Some(160), "HEAD");
    // Changes that only a deeper look shows are seen when the step is due.
    assert_eq!(first_step(&[(50, 0, "a", "f", 0)]), Some(210), "dirty set");
    assert_eq!(first_step(&[(50, 0, "a", "", 2500)]), Some(210), "CPU");
    assert_eq!(first_step(&[(50, 0, "a", "", 1900)]), Some(110), "it idles");
}

#[test]
fn the_relic_is_a_channel_and_a_person_at_the_terminal_is_a_sign() {
    let mut watch = Watch::new(marks(0, "a"), at(0));
    let mut other = marks(0, "a");
    other.relic = "blocked".into();
    assert_eq!(watch.compare(other.clone(), false, at(90)), Progress::Work);
    assert_eq!(watch.compare(other.clone(), true, at(180)), Progress::Sign);
    assert_eq!(watch.compare(other, false, at(181)), Progress::None);
    assert_eq!(watch.silence(at(181)), at(1));
}

fn steps(nudges: u32, ended: Option<&str>, called: bool) -> Steps {
    Steps {
        nudges,
        ended: ended.map(ToOwned::to_owned),
        called,
        ..Steps::none(Incarnation(1), wall(0))
    }
}

#[test]
fn each_step_follows_from_those_before_it() {
    let next = |steps: &Steps| next_step(&POLICY, Some(steps), "one");
    assert_eq!(next_step(&POLICY, None, "one"), Verdict::Nudge(1));
    assert_eq!(next(&steps(0, None, false)), Verdict::Nudge(1));
    assert_eq!(next(&steps(1, None, false)), Verdict::Nudge(2));
    assert_eq!(next(&steps(2, None, false)), Verdict::Restart);
    assert_eq!(next(&steps(2, Some("one"), false)), Verdict::Restart);
    assert_eq!(next(&steps(2, Some("other"), false)), Verdict::Escalate);
    assert_eq!(next(&steps(0, Some("other"), false)), Verdict::Escalate);
    assert_eq!(next(&steps(2, Some("other"), true)), Verdict::Called);
    let never = Policy {
        nudges: 0,
        ..POLICY
    };
    assert_eq!(next_step(&never, None, "one"), Verdict::Restart);
}

/// The echo of a nudge, or a greeting, takes no step back; work does, and so does lasting activity.
#[test]
fn signs_recover_once_they_went_on_and_work_at_once() {
    let mut watch = Watch::new(marks(0, "a"), at(0));
    watch.stepped(at(110));
    let recovers = |progress, now| watch.recovers(progress, &POLICY, at(now));
    assert!(!recovers(Progress::None, 400));
    assert!(!recovers(Progress::Sign, 111));
    assert!(recovers(Progress::Sign, 210));
    assert!(recovers(Progress::Work, 111));
}

fn wait(until: i64, session: &str) -> Wait {
    Wait {
        session: session.into(),
        at: wall(0),
        until: wall(until),
        reason: "CI".into(),
    }
}

#[test]
fn a_declared_wait_is_no_silence_whatever_the_clock_does() {
    let silent_at = |declared: Option<Wait>, jump: i64| {
        let mut watch = Watch::new(marks(0, "a"), at(0));
        (1..=1000).find(|now| {
            let shown = i64::try_from(*now).unwrap() + if *now > 50 { jump } else { 0 };
            watch.waits(declared.as_ref(), wall(shown), at(*now));
            let sight = (marks(0, "a"), depth("", 0));
            let verdict = see(&mut watch, sight, None, at(*now)).1;
            !matches!(verdict, Verdict::Fresh { .. })
        })
    };
    assert_eq!(silent_at(None, 0), Some(110));
    let declared = || Some(wait(300, "one"));
    assert_eq!(silent_at(declared(), 0), Some(410));
    assert_eq!(silent_at(declared(), 100_000), Some(410));
    assert_eq!(silent_at(declared(), -100_000), Some(410));
    assert_eq!(silent_at(Some(wait(300, "another")), 0), Some(110));
    // Time stamps in the future do not prolong the declared wait.
    let mut watch = Watch::new(marks(0, "a"), at(0));
    watch.waits(declared().as_ref(), wall(-9000), at(0));
    let until = at(310);
    assert_eq!(
        watch.judge(&POLICY, None, at(200)),
        Verdict::Fresh { until }
    );
}

/// The events of a session in one second: output, a commit, a saved file, CPU in milliseconds.
type Tick = (bool, bool, bool, u64);

fn tick(busy: f64) -> impl Strategy<Value = Tick> {
    let rare = |p: f64| prop::bool::weighted(p * busy);
    (rare(0.02), rare(0.01), rare(0.01), 0..=10_u64)
}

/// Lives through the ticks with a look per second; returns the time of each step, and of each recovery.
fn live(ticks: &[Tick]) -> Vec<(u64, Option<Verdict>)> {
    let mut watch = Watch::new(marks(0, "0"), at(0));
    let (mut output, mut commits, mut saved, mut cpu) = (0, 0, 0, 0);
    let (mut done, mut history) = (None::<Steps>, Vec::new());
    for (now, tick) in (1..).zip(ticks) {
        output += i64::from(tick.0);
        commits += u32::from(tick.1);
        saved += u32::from(tick.2);
        cpu += tick.3;
        let mut cheap = marks(output, &commits.to_string());
        // A fresh session follows an ended session.
        if let Some(ended) = done.as_ref().and_then(|steps| steps.ended.as_ref()) {
            cheap.session = format!("after {ended}");
            if watch.session() == ended {
                watch = Watch::new(cheap.clone(), at(now));
            }
        }
        let sight = (cheap, depth(&saved.to_string(), cpu));
        let (progress, verdict) = see(&mut watch, sight, done.as_ref(), at(now));
        if done.is_some() && watch.recovers(progress, &POLICY, at(now)) {
            done = None;
            history.push((now, None));
        }
        let steps = done.clone();
        let steps = steps.unwrap_or_else(|| Steps::none(Incarnation(1), wall(0)));
        let ended = Some(watch.session().to_owned());
        match verdict {
            Verdict::Fresh { .. } | Verdict::Deeper | Verdict::Spins => continue,
            Verdict::Nudge(nudges) => done = Some(Steps { nudges, ..steps }),
            Verdict::Restart => done = Some(Steps { ended, ..steps }),
            Verdict::Escalate => {
                let called = true;
                done = Some(Steps { called, ..steps });
            }
            Verdict::Called => {
                watch.again(at(now));
                continue;
            }
        }
        watch.stepped(at(now));
        history.push((now, Some(verdict)));
    }
    history
}

proptest! {
    // A case is a life of 25 minutes, second by second.
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Steps come in order, each once until the session recovers, and after a whole silence each.
    #[test]
    fn steps_are_taken_once_and_in_order(ticks in prop::collection::vec(tick(1.0), 0..1500)) {
        let order = [Verdict::Nudge(1), Verdict::Nudge(2), Verdict::Restart, Verdict::Escalate];
        let mut taken = 0;
        for (now, step) in live(&ticks) {
            let Some(step) = step else {
                taken = 0;
                continue;
            };
            prop_assert_eq!(Some(&step), order.get(taken), "{} {:?}", now, step);
            taken += 1;
            let from = usize::try_from(now).unwrap().saturating_sub(99);
            let before = &ticks[from..usize::try_from(now).unwrap()];
            prop_assert!(before.len() >= 99 && before.iter().all(|tick| !(tick.0 || tick.1 || tick.2)));
        }
    }

    /// More progress never makes a session more stalled: a session with progress in time gets no nudge, even if it is
    /// slow.
    #[test]
    fn raider_with_progress_in_time_is_left_alone(
        mut ticks in prop::collection::vec(tick(0.0), 1500),
        channel in 0..3,
    ) {
        for tick in ticks.iter_mut().step_by(100) {
            match channel {
                0 => tick.0 = true,
                1 => tick.1 = true,
                _ => tick.2 = true,
            }
        }
        prop_assert_eq!(live(&ticks), vec![]);
    }

    /// A silent session is nudged, and in the end a person is called.
    #[test]
    fn silent_raider_goes_through_every_step(ticks in prop::collection::vec(tick(0.0), 1500)) {
        prop_assert_eq!(live(&ticks).len(), 4);
    }
}

/// The screen of a session that writes to its terminal all the time, and its costly marks.
struct Spinner {
    picture: u64,
    changes: &'static str,
    cpu_s: u64,
    runs: bool,
}

/// Returns the times at which a person is called to a session that is observed each second.
fn called(until: u64, what: impl Fn(u64) -> Spinner) -> Vec<u64> {
    let marks = |now: u64| Marks {
        picture: Some(what(now).picture),
        ..marks(i64::try_from(now).unwrap(), "a")
    };
    let mut watch = Watch::new(marks(0), at(0));
    let mut called = Vec::new();
    for now in 1..=until {
        watch.compare(marks(now), false, at(now));
        // The last output counts for this very second; the next look is a moment later.
        let moment = at(now) + AFTER / WORTH - Duration::from_secs(1);
        match watch.judge(&POLICY, None, moment) {
            Verdict::Spins => {
                let Spinner { changes, cpu_s, .. } = what(now);
                let depth = depth(changes, cpu_s * 1000);
                if watch
                    .still
                    .sounded(depth, what(now).runs, &POLICY, at(now))
                    .is_some()
                {
                    called.push(now);
                }
            }
            verdict => assert!(
                matches!(verdict, Verdict::Fresh { .. }),
                "{now}: {verdict:?}"
            ),
        }
    }
    called
}

#[test]
fn session_that_only_spins_is_no_stall_and_a_person_is_called_once() {
    let spins = |_| Spinner {
        picture: 1,
        changes: "",
        cpu_s: 0,
        runs: false,
    };
    let first = called(2_000, spins);
    assert_eq!(first.len(), 1, "{first:?}");
    assert!((100..=110).contains(&first[0]), "{first:?}");
    // A command of its own may take its time.
    let runs = |now| Spinner {
        runs: true,
        ..spins(now)
    };
    let first = called(2_000, runs);
    assert_eq!(first.len(), 1, "{first:?}");
    assert!((300..=310).contains(&first[0]), "{first:?}");
}

/// Observations from the wait do not count after its end.
#[test]
fn session_that_declared_a_wait_spins_from_its_end_on() {
    let marks = |now: u64| Marks {
        picture: Some(1),
        ..marks(i64::try_from(now).unwrap(), "a")
    };
    let mut watch = Watch::new(marks(0), at(0));
    let declared = wait(1000, "one");
    let mut called = Vec::new();
    for now in 1..=2_000 {
        watch.compare(marks(now), false, at(now));
        watch.waits(Some(&declared), wall(i64::try_from(now).unwrap()), at(now));
        let moment = at(now) + AFTER / WORTH - Duration::from_secs(1);
        if watch.judge(&POLICY, None, moment) == Verdict::Spins {
            let sounded = watch.still.sounded(depth("", 0), false, &POLICY, at(now));
            called.extend(sounded.map(|_| now));
        }
    }
    assert_eq!(called.len(), 1, "{called:?}");
    assert!((1090..=1120).contains(&called[0]), "{called:?}");
}

#[test]
fn session_that_spins_and_does_something_is_left_alone() {
    let nobody: Vec<u64> = Vec::new();
    let shows = |now| Spinner {
        picture: now / 80,
        changes: "",
        cpu_s: 0,
        runs: false,
    };
    assert_eq!(called(2_000, shows), nobody, "new text on its screen");
    let writes = |now| Spinner {
        picture: 1,
        changes: ["a", "b", "c"][usize::try_from(now / 40 % 3).unwrap()],
        cpu_s: 0,
        runs: false,
    };
    assert_eq!(called(2_000, writes), nobody, "new files");
    let computes = |now| Spinner {
        picture: 1,
        changes: "",
        cpu_s: now / 2,
        runs: false,
    };
    assert_eq!(called(2_000, computes), nobody, "half a processor");
    let draws = |now| Spinner {
        picture: 1,
        changes: "",
        cpu_s: now / 10,
        runs: false,
    };
    assert_eq!(called(150, draws).len(), 1, "a spinner takes some");
}

#[test]
fn spinner_that_goes_on_is_reported_once() {
    let mut still = SpinnerWatch::new(Some(1), at(0));
    assert!(!still.goes_on());
    still.observe(Some(2), true, false, at(1));
    assert!(still.goes_on(), "an earlier supervisor may have called");
    assert!(!still.goes_on());
    still.observe(Some(2), true, false, at(51));
    assert_eq!(still.sounded(depth("", 0), false, &POLICY, at(51)), None);
    assert!(
        still
            .sounded(depth("", 0), false, &POLICY, at(101))
            .is_some()
    );
    assert!(!still.is_due(&POLICY, at(101)), "once");
    still.was_not_called();
    assert!(still.is_due(&POLICY, at(101)), "the call failed");
    assert!(
        still
            .sounded(depth("", 0), false, &POLICY, at(101))
            .is_some()
    );
    assert!(!still.goes_on());
    still.observe(None, true, false, at(102));
    assert!(still.goes_on(), "what cannot be seen may have gone on");
}

#[test]
fn session_that_writes_nothing_does_not_spin() {
    let mut still = SpinnerWatch::new(Some(1), at(0));
    for now in (30..=600).step_by(30) {
        still.observe(Some(1), now == 300, false, at(now));
        let called = still.sounded(depth("", 0), false, &POLICY, at(now));
        assert_eq!(called, None, "{now}");
    }
}
