//! The salvage theorem (`1-product.md`, promise 1): whatever form the work of a raider has, and
//! whatever is done to its sandbox, every byte that was tracked, staged, untracked or stashed can be
//! reached from a ref afterwards, and a restore gives the same HEAD, index and files.
//!
//! The sagas, the witness and the forge are the real ones on real repositories; sessions are fakes,
//! and time stands still. A case is one generated sandbox times one operation (a completion, a nuke, a
//! repair, a conflict that musters a fresh raider, a removal by the patrol) or one death of the daemon at
//! a step of it, with all of its bytes compared; refusals, which must change nothing, are not counted.
//! Every form meets every end, and other forms come along by chance: `HORDE_SEED` repeats them,
//! `HORDE_SWEEP=long` goes on with other seeds, `HORDE_CASES` says how long, and
//! `HORDE_CASE=Sparse,Repair` takes these only.

mod cases;
mod ends;
mod forms;
mod git;
mod lab;
mod look;
mod reach;

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};

use self::ends::{Case, End, Tally};
use self::forms::Form;
use self::lab::Lab;
use crate::ports::repo::Repo;

/// So many tests share the cases: the machine has more than one core.
const SHARDS: usize = 4;

/// So often every form comes to every end, where nobody asks for more.
const ROUNDS: u64 = 2;

/// A repository becomes slower with what it holds.
const PER_LAB: usize = 45;

/// The least of all shards together.
const CASES: usize = 2_000;

/// With so many cases in a shard a daemon has died at every step.
const LONG: usize = 500;

/// The cases of a round that are this shard's: of every form with every end.
fn round(seed: u64, shard: usize) -> Vec<Case> {
    let only = std::env::var("HORDE_CASE").unwrap_or_default();
    let mut mine = Vec::new();
    // Apart, so that each shard has some that a completion takes.
    let (dirty, other): (Vec<Form>, _) = Form::ALL.iter().partition(|form| ends::is_dirty(**form));
    for forms in [dirty, other] {
        for (number, form) in forms.into_iter().enumerate() {
            for (nth, &end) in End::ALL.iter().enumerate() {
                let named = format!("{form:?},{end:?}").contains(&only);
                if named && (number + nth) % SHARDS == shard {
                    let seed = seed.wrapping_mul(1_000_003).wrapping_add(mine.len() as u64);
                    mine.push(Case { form, end, seed });
                }
            }
        }
    }
    mine
}

fn run(shard: usize) {
    let long = std::env::var("HORDE_SWEEP").is_ok_and(|how| how == "long");
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    let clock = || std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let mut seed = number("HORDE_SEED").unwrap_or_else(|| if long { clock() } else { 1 });
    let wanted = number("HORDE_CASES").unwrap_or(if long { 20_000 } else { 0 });
    let last = seed.wrapping_add(ROUNDS);
    let mut tally = Tally::default();
    let mut failed = Vec::new();
    loop {
        eprintln!("HORDE_SEED={seed}");
        let mut left = VecDeque::from(round(seed, shard));
        while !left.is_empty() {
            let some = AssertUnwindSafe(|| in_one_lab(&mut left, &mut tally));
            // The next cases are tested all the same, elsewhere.
            if let Err(case) = catch_unwind(some).map_err(|_| left.pop_front()) {
                eprintln!("failed: {case:?}");
                failed.extend(case);
            }
        }
        seed = seed.wrapping_add(1);
        if seed >= last && (tally.total() * SHARDS) as u64 >= wanted {
            break;
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    covered(shard, &tally);
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
        lab.town().root.kill();
    });
}

/// Every form met every end, and there were enough cases.
fn covered(shard: usize, tally: &Tally) {
    let mut wanted: BTreeMap<_, usize> = BTreeMap::new();
    for case in round(0, shard) {
        *wanted.entry((case.form, case.end)).or_default() += ROUNDS as usize;
    }
    for (pair, times) in wanted {
        assert!(tally.ended(pair) >= times, "{pair:?} was not tested");
    }
    eprintln!("{} cases", tally.total());
    let all = std::env::var_os("HORDE_CASE").is_none();
    // One round of one shard does not meet every step.
    let long = tally.total() >= LONG;
    for (end, steps) in [(End::Nuke, ends::NUKE), (End::Done, ends::DONE)] {
        assert!(
            tally.has_died_at(end, steps) || !all || !long,
            "not all steps of {end:?}"
        );
    }
    let enough = tally.total() * SHARDS >= CASES;
    assert!(enough || !all, "only {} cases", tally.total());
}

#[test]
fn nothing_is_lost_in_the_first_quarter() {
    run(0);
}

#[test]
fn nothing_is_lost_in_the_second_quarter() {
    run(1);
}

#[test]
fn nothing_is_lost_in_the_third_quarter() {
    run(2);
}

#[test]
fn nothing_is_lost_in_the_fourth_quarter() {
    run(3);
}

/// verifyCommitOnMain: what somebody squashed onto the target is not at risk, and is salvaged all the
/// same: its commit has another name there.
#[tokio::test(start_paused = true)]
async fn what_is_on_the_target_under_another_name_holds_up_nothing() {
    let lab = Lab::new().await;
    let relic = lab.town().relic("a").await;
    let charged = lab.town().charge(&relic).await.unwrap();
    let agent = forms::Agent {
        dir: &charged.sandbox,
        text: b"mine, ".to_vec(),
        library: &charged.sandbox,
    };
    agent.make(Form::Ahead);
    lab.town().nuke(&charged.raider, false).await.unwrap_err();
    lab.move_target("work", b"mine, ahead\n");
    let nuked = lab.town().nuke(&charged.raider, false).await.unwrap();
    assert!(nuked.salvage.is_some());
    assert!(!charged.sandbox.exists());
}

/// What the remote had is not what it has: somebody tidies its branches. The commit outlives that, and
/// the next start, which forgets what is not there any more.
#[tokio::test(start_paused = true)]
async fn what_only_a_raiders_branch_on_the_remote_has_is_kept_as_well() {
    let lab = Lab::new().await;
    for held in [false, true] {
        let relic = lab.town().relic("a").await;
        let charged = lab.town().charge(&relic).await.unwrap();
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
        git::git(&lab.path("origin.git"), &["update-ref", "-d", &name]);
        if held {
            lab.repo.pin(&relic, &head).unwrap();
        }
        let nuked = lab.town().nuke(&charged.raider, false).await.unwrap();
        assert_eq!(nuked.salvage.is_none(), held, "a pin is enough");
        lab.repo.prepare().unwrap();
        assert!(lab.repo.holds(&head, "main").unwrap());
    }
}
