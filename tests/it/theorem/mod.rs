//! The salvage theorem (`product.md`, promise 1): whatever form the work of a raider has, and whatever is done to its
//! sandbox, every byte that was tracked, staged, untracked or stashed can be reached from a ref afterwards, and a
//! restore gives the same HEAD, index and files.
//!
//! The sagas, the witness and the forge are the real ones on real repositories; sessions are fakes,
//! and time stands still. A case is one generated sandbox times one operation (a completion, a nuke, a
//! repair, a conflict that musters a fresh raider, a removal by the patrol) or one death of the daemon at
//! a step of it, with all of its bytes compared; refusals, which must change nothing, are not counted.
//!
//! `cargo test` takes one in [`SAMPLE`] of all pairs of a form and an end; a sample has every end and more than a third of the forms, and
//! as many seeds in a row take all pairs. A pair is several cases. The long tier has every form meet every end, twice.
//! Other forms are added by chance: the seed is the clock's and is printed, `HORDE_SEED` repeats it,
//! `HORDE_CASE=Sparse,Repair` restricts the run to these, and `HORDE_CASES=100000` has the long tier go on with the
//! next seeds until that number of cases is reached. It reports progress after each round: `--nocapture` shows that.

mod cases;
mod ends;
mod forms;
mod index;
mod lab;
mod look;
mod reach;

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use self::ends::{Case, End, Tally};
use self::forms::Form;
use self::lab::Lab;
use crate::support::again::again;
use crate::support::git::git;
use horde_supervisor::ports::repo::Repo;
use horde_supervisor::testing::tier;

/// The number of threads that share the cases: the machine has more than one core.
const SHARDS: usize = 4;

/// The ratio of a sample: one pair in so many. Odd, so that the seeds of a pair are odd and even ones; with more than 9, some
/// samples have less than [`SAMPLED`] cases.
const SAMPLE: usize = 9;

/// The least number of cases of a sample.
const SAMPLED: usize = 200;

/// The number of rounds of the long tier, unless more are asked for.
const ROUNDS: u64 = 2;

/// The least number of cases of those rounds.
const CASES: usize = 2_000;

/// Cases per repository: a repository becomes slower with its contents, and a new one is cheaper than an eleventh case.
const PER_LAB: usize = 10;

/// The part of a round that is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Sample,
    All,
}

/// Returns the cases of a round: of every form with every end, or a sample of these.
fn round(seed: u64, part: Part) -> Vec<Case> {
    let only = std::env::var("HORDE_CASE").unwrap_or_default();
    let mut cases = Vec::new();
    for (number, &form) in Form::ALL.iter().enumerate() {
        for (nth, &end) in End::ALL.iter().enumerate() {
            let place = number + nth + (seed % SAMPLE as u64) as usize;
            let taken = part == Part::All || place.is_multiple_of(SAMPLE);
            if taken && format!("{form:?},{end:?}").contains(&only) {
                let pair = (number * End::ALL.len() + nth) as u64;
                let seed = seed.wrapping_mul(1_000_003).wrapping_add(pair);
                cases.push(Case { form, end, seed });
            }
        }
    }
    cases
}

/// Tests a round, and returns the failed cases.
fn test(seed: u64, part: Part, tally: &mut Tally) -> Vec<Case> {
    eprintln!("HORDE_SEED={seed}");
    test_all(round(seed, part), tally)
}

/// Tests these cases, and returns the failed ones.
fn test_all(cases: Vec<Case>, tally: &mut Tally) -> Vec<Case> {
    let mut shards: Vec<VecDeque<Case>> = vec![VecDeque::new(); SHARDS];
    for (number, case) in cases.into_iter().enumerate() {
        shards[number % SHARDS].push_back(case);
    }
    let tested = |mut left: VecDeque<Case>| {
        let (mut tally, mut failed) = (Tally::default(), Vec::new());
        while !left.is_empty() {
            let some = AssertUnwindSafe(|| in_one_lab(&mut left, &mut tally));
            // The next cases are tested all the same, in another lab.
            if let Err(case) = catch_unwind(some).map_err(|_| left.pop_front()) {
                eprintln!("failed: {case:?}");
                failed.extend(case);
            }
        }
        (tally, failed)
    };
    let mut failed = Vec::new();
    std::thread::scope(|scope| {
        let shards = shards.into_iter();
        let shards: Vec<_> = shards.map(|left| scope.spawn(|| tested(left))).collect();
        for shard in shards {
            let (tested, lost) = shard.join().expect("a shard ends");
            tally.add(tested);
            failed.extend(lost);
        }
    });
    failed
}

/// Takes some of the cases, one after the other.
fn in_one_lab(left: &mut VecDeque<Case>, tally: &mut Tally) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut lab = Lab::new().await;
        for _ in 0..PER_LAB {
            let Some(case) = left.front() else { break };
            cases::run(&mut lab, *case, tally).await;
            left.pop_front();
        }
        lab.city().root.kill();
    });
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Returns the seed that is asked for, or a fresh one.
fn first_seed() -> u64 {
    let clock = || std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    number("HORDE_SEED").unwrap_or_else(clock)
}

/// Returns whether only some cases are asked for.
fn is_filtered() -> bool {
    std::env::var_os("HORDE_CASE").is_some()
}

#[test]
fn nothing_is_lost_in_a_sample() {
    let (seed, mut tally) = (first_seed(), Tally::default());
    let failed = test(seed, Part::Sample, &mut tally);
    assert!(failed.is_empty(), "HORDE_SEED={seed}: {failed:#?}");
    let total = tally.total();
    eprintln!("{total} cases");
    assert!(total >= SAMPLED || is_filtered(), "only {total} cases");
}

#[test]
#[ignore = "long tier: the theorem in full"]
fn nothing_is_lost() {
    let wanted = number("HORDE_CASES").unwrap_or_default();
    let (mut seed, mut tally, mut failed) = (first_seed(), Tally::default(), Vec::new());
    let (last, began) = (seed.wrapping_add(ROUNDS), Instant::now());
    while seed < last || (tally.total() as u64) < wanted {
        failed.extend(test(seed, Part::All, &mut tally));
        let (total, minutes) = (tally.total(), began.elapsed().as_secs_f64() / 60.0);
        let (pace, failures) = (total as f64 / minutes, failed.len());
        eprintln!(
            "{total} cases, {failures} failures, {minutes:.1} min, {pace:.0} cases per minute"
        );
        seed = seed.wrapping_add(1);
    }
    assert!(failed.is_empty(), "{failed:#?}");
    eprintln!("{} cases", tally.total());
    for case in round(last, Part::All) {
        let times = tally.ended((case.form, case.end));
        assert!(
            times >= ROUNDS as usize,
            "{case:?} was tested {times} times"
        );
    }
    if !is_filtered() {
        for (end, steps) in [(End::Nuke, ends::NUKE), (End::Done, ends::DONE)] {
            assert!(tally.has_died_at(end, steps), "not all steps of {end:?}");
        }
        assert!(tally.total() >= CASES, "only {} cases", tally.total());
    }
}

/// Consecutive seeds fill each other's gaps, and none leaves out an end or many forms. Each pair meets odd and even seeds,
/// by which a case chooses between two acts.
#[test]
fn a_few_samples_are_the_whole() {
    let pairs = |cases: Vec<Case>| -> BTreeSet<_> {
        cases.iter().map(|case| (case.form, case.end)).collect()
    };
    let parities = |cases: Vec<Case>| -> BTreeSet<_> {
        let parity = |case: &Case| (case.form, case.end, case.seed % 2);
        cases.iter().map(parity).collect()
    };
    let (mut met, mut met_by_parity) = (BTreeSet::new(), BTreeSet::new());
    for seed in 7..7 + 2 * SAMPLE as u64 {
        let sample = pairs(round(seed, Part::Sample));
        let forms: BTreeSet<_> = sample.iter().map(|(form, _)| *form).collect();
        let ends: BTreeSet<_> = sample.iter().map(|(_, end)| *end).collect();
        let many = forms.len() * 3 >= Form::ALL.len();
        assert!(is_filtered() || (many && ends.len() == End::ALL.len()));
        if seed < 7 + SAMPLE as u64 {
            met.extend(sample);
        }
        met_by_parity.extend(parities(round(seed, Part::Sample)));
    }
    assert_eq!(met, pairs(round(0, Part::All)));
    assert_eq!(met_by_parity.len(), 2 * met.len());
}

/// The user's own configuration says that links are files and that modes mean nothing. Each end meets a form of
/// links and modes; in `cargo test` one in three of them.
/// Case A90 of an adversary: the user's own configuration keeps neither links nor modes.
#[test]
fn nothing_is_lost_where_the_users_git_keeps_neither_links_nor_modes() {
    let dir = horde_supervisor::testing::scratch();
    let (file, nowhere) = (dir.path().join("gitconfig"), dir.path().join("config"));
    fs::write(&file, "[core]\n\tsymlinks = false\n\tfileMode = false\n").unwrap();
    let variables = [
        ("GIT_CONFIG_GLOBAL", file.as_os_str()),
        ("XDG_CONFIG_HOME", nowhere.as_os_str()),
    ];
    let test = nothing_is_lost_where_the_users_git_keeps_neither_links_nor_modes;
    if !again(test, &variables) {
        return;
    }
    let (seed, mut tally) = (first_seed(), Tally::default());
    eprintln!("HORDE_SEED={seed}");
    let forms = [Form::UserNoModes, Form::NoModes, Form::Symlink, Form::Modes];
    let ends = tier::sampled((seed..).zip(End::ALL), 3);
    let cases = ends.map(|(seed, &end)| {
        let form = forms[(seed % forms.len() as u64) as usize];
        Case { form, end, seed }
    });
    let cases: Vec<Case> = cases.collect();
    let failed = test_all(cases.clone(), &mut tally);
    assert!(failed.is_empty(), "HORDE_SEED={seed}: {failed:#?}");
    for case in cases {
        assert_eq!(tally.ended((case.form, case.end)), 1, "{case:?}");
    }
}

/// verifyCommitOnMain: work that was squashed onto the target is not at risk, and is still salvaged: its commit has
/// another id there.
#[tokio::test(start_paused = true)]
async fn work_squashed_onto_the_target_holds_up_no_removal() {
    let lab = Lab::new().await;
    let relic = lab.city().relic("a").await;
    let charged = lab.city().charge(&relic).await.unwrap();
    let agent = forms::Agent {
        dir: &charged.sandbox,
        text: b"mine, ".to_vec(),
        library: &charged.sandbox,
    };
    agent.make(Form::Ahead);
    lab.city().nuke(&charged.raider, false).await.unwrap_err();
    lab.move_target("work", b"mine, ahead\n");
    let nuked = lab.city().nuke(&charged.raider, false).await.unwrap();
    assert!(nuked.salvage.is_some());
    assert!(!charged.sandbox.exists());
}

/// A commit that only a raider's branch on the remote has may lose that branch when a person tidies up. It outlives
/// that, and the next start, which forgets refs that the remote no longer has.
#[tokio::test(start_paused = true)]
async fn commits_only_on_a_raiders_remote_branch_are_kept_as_well() {
    let lab = Lab::new().await;
    for held in [false, true] {
        let relic = lab.city().relic("a").await;
        let charged = lab.city().charge(&relic).await.unwrap();
        let agent = forms::Agent {
            dir: &charged.sandbox,
            text: format!("{held}, ").into_bytes(),
            library: &charged.sandbox,
        };
        agent.make(Form::Ahead);
        let head = lab.repo.facts(&charged.sandbox, "main").unwrap().head;
        let branch = charged.raider.branch(&relic, charged.incarnation);
        lab.repo.push_branch(&branch, &head, None).unwrap();
        let name = format!("refs/heads/{branch}");
        git(&lab.path("origin.git"), &["update-ref", "-d", &name]);
        if held {
            lab.repo.pin(&relic, &head).unwrap();
        }
        let nuked = lab.city().nuke(&charged.raider, false).await.unwrap();
        assert_eq!(nuked.salvage.is_none(), held, "a pin is enough");
        lab.repo.prepare().unwrap();
        assert!(lab.repo.holds(&head, "main").unwrap());
    }
}
