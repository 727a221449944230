//! Work that hangs, and what goes on beside it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::*;
use crate::domain::ids::RigName;
use crate::ports::repo::RepoError;
use crate::testing::hang::Hang;
use crate::testing::world::{Scenario, TestCity};

type Asked = tokio::task::JoinHandle<Result<(), RepoError>>;

fn horde() -> RigName {
    RigName::new("horde").unwrap()
}

fn ask(city: &TestCity, kind: WorkKind) -> Asked {
    let world = Arc::clone(&city.world);
    tokio::spawn(
        async move { repo_for(&world, &horde(), kind, |repo| repo.tips(&[]).map(drop)).await },
    )
}

/// A disk that hangs holds the threads of one budget, however often it is asked.
#[tokio::test(start_paused = true)]
async fn rig_that_hangs_uses_up_its_own_budget_and_counts_as_unseen() {
    let city = Scenario::new().start().await;
    let hang = Hang::default();
    let door = hang.door();
    city.parts.repo.interlude("tips", move || door.enter());
    let mut asked: Vec<Asked> = (0..20).map(|_| ask(&city, WorkKind::Files)).collect();
    city.until("its threads hang", || hang.entered() == 8).await;
    assert_eq!(unseen_rigs(&city.world), []);
    tokio::time::advance(Duration::from_secs(16)).await;
    for refused in asked.drain(8..) {
        let refused = refused.await.unwrap();
        assert!(matches!(refused, Err(RepoError::Unseen(_))), "{refused:?}");
    }
    assert_eq!(hang.entered(), 8);
    assert_eq!(unseen_rigs(&city.world)[0].0, horde());
    // Everything else goes on, with the rig's other budgets too.
    list(&city.world).await.unwrap();
    let (rig, kind) = (horde(), WorkKind::Network);
    let branch = repo_for(&city.world, &rig, kind, |repo| repo.default_branch());
    branch.await.unwrap();
    hang.release();
    for done in asked {
        done.await.unwrap().unwrap();
    }
    assert_eq!(unseen_rigs(&city.world), []);
}

#[tokio::test(start_paused = true)]
async fn task_files_of_a_rig_that_hang_keep_no_other_rig_waiting() {
    let city = Scenario::new().start().await;
    let hang = Hang::default();
    let ask = || {
        let (world, door) = (Arc::clone(&city.world), hang.door());
        let work = move |_: &dyn TaskFiles| {
            door.enter();
            Ok(())
        };
        tokio::spawn(async move { tasks(&world, Owner::Rig(horde()), work).await })
    };
    let mut asked: Vec<_> = (0..33).map(|_| ask()).collect();
    city.until("its threads hang", || hang.entered() == 32)
        .await;
    tokio::time::advance(Duration::from_secs(61)).await;
    asked.pop().unwrap().await.unwrap().unwrap_err();
    assert_eq!(unseen_rigs(&city.world)[0].0, horde());
    let other = Owner::Rig(RigName::new("other").unwrap());
    for owner in [other, Owner::City] {
        tasks(&city.world, owner, |_| Ok(())).await.unwrap();
    }
    hang.release();
    for done in asked {
        done.await.unwrap().unwrap();
    }
    assert_eq!(unseen_rigs(&city.world), []);
}

#[tokio::test(start_paused = true)]
async fn short_work_on_a_rig_is_given_up_after_its_limit() {
    let city = Scenario::new().start().await;
    let hang = Hang::default();
    let door = hang.door();
    city.parts.repo.interlude("tips", move || door.enter());
    let world = Arc::clone(&city.world);
    let asked =
        tokio::spawn(async move { repo(&world, &horde(), |repo| repo.tips(&[]).map(drop)).await });
    city.until("it hangs", || hang.entered() == 1).await;
    tokio::time::advance(Duration::from_secs(151)).await;
    let late = asked.await.unwrap();
    assert!(matches!(late, Err(RepoError::Timeout { .. })), "{late:?}");
    assert_eq!(unseen_rigs(&city.world).len(), 1, "its thread still hangs");
}

#[tokio::test(start_paused = true)]
async fn caller_that_cannot_be_read_keeps_no_other_waiting() {
    let city = Scenario::new().start().await;
    let hang = Hang::default();
    let door = hang.door();
    let read = |pid: u32, door: Option<crate::testing::hang::Door>| {
        let world = Arc::clone(&city.world);
        tokio::spawn(async move {
            let read = move |_: &dyn Sessions, _: &dyn Runner| {
                if let Some(door) = door {
                    door.enter();
                }
                pid
            };
            caller(&world, pid, read).await
        })
    };
    let hung: Vec<_> = (0..20).map(|_| read(7, Some(door.clone()))).collect();
    city.until("its reader hangs", || hang.entered() == 1).await;
    assert_eq!(read(8, None).await.unwrap(), Some(8));
    tokio::time::advance(Duration::from_secs(11)).await;
    for unread in hung {
        assert_eq!(unread.await.unwrap(), None);
    }
    assert_eq!(hang.entered(), 1, "one thread for a caller");
    assert_eq!(read(8, None).await.unwrap(), Some(8));
    hang.release();
}

/// The report of the ground came ten seconds late for every rig.
#[tokio::test(start_paused = true)]
async fn look_at_a_rig_that_hangs_does_not_delay_the_report_of_the_ground() {
    let city = Scenario::new().start().await;
    let hang = Hang::default();
    let door = hang.door();
    city.parts.repo.interlude("tips", move || door.enter());
    let asked: Vec<Asked> = (0..8).map(|_| ask(&city, WorkKind::Files)).collect();
    city.until("its threads hang", || hang.entered() == 8).await;
    let world = Arc::clone(&city.world);
    let look = tokio::spawn(async move { look_at_repositories(&world).await });
    // It begins to wait.
    tokio::task::yield_now().await;
    tokio::time::advance(Duration::from_secs(2)).await;
    city.until("the patrol goes on", || look.is_finished())
        .await;
    hang.release();
    for done in asked {
        done.await.unwrap().unwrap();
    }
}

/// Each patrol added a look, until the rig had no place for other work.
#[tokio::test(start_paused = true)]
async fn rig_that_hangs_is_looked_at_once_at_a_time() {
    let city = Scenario::new().start().await;
    let hang = Hang::default();
    let door = hang.door();
    city.parts.repo.interlude("ready", move || door.enter());
    for looks in 1..3 {
        let world = Arc::clone(&city.world);
        let look = tokio::spawn(async move { look_at_repositories(&world).await });
        city.until("its look hangs", || hang.entered() == 1).await;
        tokio::time::advance(Duration::from_secs(11)).await;
        city.until("the patrol goes on", || look.is_finished())
            .await;
        assert_eq!(hang.entered(), 1, "{looks}");
    }
    hang.release();
    let key = ClaimKey::Ground(horde());
    let is_free = || !city.world.claims.is_claimed(&key);
    city.until("it has ended", is_free).await;
}

/// A killed command made its saga clean up by path, in the directory that was there then.
#[tokio::test(start_paused = true)]
async fn nothing_begins_once_the_directory_of_the_city_was_replaced() {
    let is_gone = Arc::new(AtomicBool::new(false));
    let gone = Arc::clone(&is_gone);
    let mut scenario = Scenario::new();
    scenario.displaced = Arc::new(move || {
        let is_gone = gone.load(Ordering::Relaxed);
        is_gone.then(|| "another directory is at /city".to_owned())
    });
    let city = scenario.start().await;
    let charged = city.worker("a").await;
    let spec = city.parts.sessions.starts().remove(0);
    let touched = || {
        let sessions = &city.parts.sessions;
        (
            city.parts.repo.calls().len(),
            city.parts.tasks.emptied(),
            (sessions.starts().len(), sessions.stops().len()),
        )
    };
    // The looks that the charge has caused end first.
    city.settle().await;
    let before = touched();
    is_gone.store(true, Ordering::Relaxed);
    let world = &city.world;
    let held = repo(world, &horde(), |repo| repo.tips(&[]).map(drop)).await;
    assert!(matches!(&held, Err(RepoError::Held(why)) if why.contains("another directory")));
    let sandbox = (PathBuf::from("/city/horde/raiders/Toast"), Vec::new());
    let refused = set_up(world, &horde(), sandbox, BTreeMap::new()).await;
    assert!(refused.unwrap_err().why.contains("another directory"));
    tasks(world, Owner::City, |_| Ok(())).await.unwrap_err();
    facts(world, &charged.session).await.unwrap_err();
    list(world).await.unwrap_err();
    let handle = SessionHandle {
        id: charged.session.clone(),
        token: "any".into(),
    };
    stop(world, handle, Duration::ZERO).await.unwrap_err();
    let unread = user_email(world, &horde()).await;
    assert!(matches!(unread, Err(RepoError::Held(_))), "{unread:?}");
    city.parts.repo.hold(Some("its repository is missing"));
    assert_eq!(prepare_held(world).len(), 1);
    empty_trash(world);
    let claims = [ClaimKey::Prepare(horde()), ClaimKey::Trash];
    let are_free = || claims.iter().all(|key| !world.claims.is_claimed(key));
    city.until("both have ended", are_free).await;
    let late = start(world, spec, Duration::from_secs(60)).await;
    assert!(matches!(&late, Err(StartError::Provider(why)) if why.contains("another directory")));
    assert_eq!(touched(), before);
}
