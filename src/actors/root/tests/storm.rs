//! Random faults during random reconfigurations: in the end exactly what the configuration asks for runs, and never
//! more than one process of a name.
//!
//! [`Model`] says what is asked for; it knows the rules of `product.md` and `health-patrol.md` and nothing of the
//! code. CI runs always the same few rounds; the long tier runs others for some minutes. The seed is printed, and
//! `HORDE_SEED` repeats it.

mod acts;
mod model;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proptest::test_runner::TestError;

use self::acts::{Act, act, edit};
use self::model::{Asked, Model};
use crate::domain::ids::SessionId;
use crate::testing::seeded;
use crate::testing::tier::{by_tier, is_long};
use crate::testing::world::TestCity;

pub(super) const WINDOW: Duration = Duration::from_secs(300);
const PATROL: Duration = Duration::from_secs(31);

async fn weather(before: &[Act], acts: &[Act]) {
    let mut model = Model::default();
    for edit in before {
        edit.edits(&mut model);
    }
    let mut city = model.scenario().start().await;
    for act in acts {
        city = act.befall(city, &mut model).await;
    }
    city = calm(city, &mut model).await;
    let asked = model.asked(&city).await;
    check(&city, &asked);
    at_most_once(&city, acts);
    // Idempotence: a converged city is left alone.
    let before = doings(&city).await;
    city.pass(PATROL * 3).await;
    assert_eq!(doings(&city).await, before, "a patrol did something");
    city.root.kill();
}

/// Clears all faults, and lets enough time pass for everything to come back.
async fn calm(city: TestCity, model: &mut Model) -> TestCity {
    let city = Act::Clear.befall(city, model).await;
    // Longer than any quarantine, and than a drain after that.
    city.pass(WINDOW * 3).await;
    city
}

fn check(city: &TestCity, asked: &Asked) {
    let running = city.parts.sessions.running();
    let seen = || format!("running {running:#?}\nasked {asked:#?}");
    for (session, argv) in &asked.may {
        if running.contains(session) {
            let starts = city.parts.sessions.starts();
            let last = starts.iter().rfind(|spec| spec.id == *session).unwrap();
            assert_eq!(last.argv[..argv.len()], argv[..], "{session} {}", seen());
        }
    }
    for session in &running {
        let allowed = asked.may.contains_key(session);
        assert!(allowed, "no child is to have {session}: {}", seen());
    }
    for session in &asked.must {
        assert!(
            running.contains(session),
            "{session} is missing: {}",
            seen()
        );
    }
    for (pool, members) in &asked.pools {
        let present = running.iter().filter(|id| pool.contains(id)).count();
        assert!(
            members.contains(&present),
            "{members:?} of a pool: {}",
            seen()
        );
    }
}

/// Checks over the whole history that no process began while another of the same name ran.
fn at_most_once(city: &TestCity, acts: &[Act]) {
    let mut alive: BTreeMap<SessionId, String> = BTreeMap::new();
    for (handle, began) in city.parts.sessions.history() {
        if began {
            let other = alive.insert(handle.id.clone(), handle.token.clone());
            assert_eq!(other, None, "{} ran twice", handle.id);
        } else {
            assert_eq!(
                alive.remove(&handle.id),
                Some(handle.token),
                "{}",
                handle.id
            );
        }
    }
    // A start left behind by a killed child or daemon may succeed late: the next one finds it.
    let left = |act: &Act| matches!(act, Act::KillChildren | Act::Restart(_));
    if !acts.iter().any(left) {
        assert_eq!(
            city.parts.sessions.doubles(),
            0,
            "starts beside a running one"
        );
    }
}

async fn doings(city: &TestCity) -> (u64, usize, usize) {
    let sessions = &city.parts.sessions;
    let seq = city.store(|txn| txn.last_seq()).await;
    (seq, sessions.starts().len(), sessions.stops().len())
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test waits for real work, in real time"
)]
fn each_wanted_child_runs_once_after_any_edits_and_failures() {
    let mut seed = seeded::first();
    let until = Instant::now() + Duration::from_secs(240);
    loop {
        let before = proptest::collection::vec(edit(), 0..20);
        let acts = proptest::collection::vec(act(), 1..40);
        let result = seeded::runner(seed, by_tier(6, 12)).run(&(before, acts), |(before, acts)| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()
                .unwrap();
            runtime.block_on(weather(&before, &acts));
            Ok(())
        });
        match result {
            Ok(()) => {}
            Err(TestError::Fail(why, acts)) => panic!("HORDE_SEED={seed}: {why}\n{acts:#?}"),
            Err(TestError::Abort(why)) => panic!("{why}"),
        }
        if !is_long() || Instant::now() > until {
            return;
        }
        seed += 1;
    }
}
