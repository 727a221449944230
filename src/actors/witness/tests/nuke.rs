//! Nuke: never unsaved work, and never half.

use crate::actors::mail::NukeTarget;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::actors::effects;
use crate::actors::mail::ChildState;
use crate::actors::refusal::RefusalKind;
use crate::actors::sagas::nuke;
use crate::domain::answers::Would;
use crate::domain::cause::Cause;
use crate::domain::event::EventType;
use crate::domain::facts::Probed;
use crate::domain::ids::{ChildId, Generation, Oid};
use crate::domain::nuke::{Evidence, Judgement, LastSession, judge};
use crate::domain::relic::RelicStatus;
use crate::domain::saga::FaultPoint;
use crate::ports::repo::{Repo, RepoError, SalvageRecord};
use crate::testing::fake_repo::FakeRepo;
use crate::testing::world::Scenario;

const PATROL: Duration = Duration::from_secs(31);

#[tokio::test(start_paused = true)]
async fn unsaved_work_is_refused_and_the_session_runs_on() {
    let (city, charged) = Scenario::at_work().await;
    let error = city.nuke(&charged.raider, false).await.unwrap_err();
    assert_eq!(error.kind, RefusalKind::WorkAtRisk);
    assert!(city.runs(&charged.session));
    assert!(
        city.parts.sessions.stops().is_empty(),
        "nothing was touched"
    );
    assert_eq!(city.sagas().await, 0);
}

#[tokio::test(start_paused = true)]
async fn salvage_saves_it_and_frees_slot_and_relic() {
    let (city, charged) = Scenario::at_work().await;
    city.parts.repo.dirty(&charged.raider.name, "wip.txt");
    let nuked = city.nuke(&charged.raider, true).await.unwrap();
    assert!(nuked.salvage.is_some());
    assert_eq!(city.parts.repo.salvages().len(), 1);
    assert!(city.parts.repo.names().is_empty());
    assert!(!city.runs(&charged.session));
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Open);
    city.charge(&charged.relic).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_changes_at_the_last_moment_is_kept_and_worked_on() {
    let (city, charged) = Scenario::at_work().await;
    let (repo, name) = (city.parts.repo.clone(), charged.raider.name.clone());
    city.parts
        .repo
        .interlude("discard_sandbox", move || repo.dirty(&name, "late.txt"));
    city.nuke(&charged.raider, true).await.unwrap_err();
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    assert_eq!(city.sagas().await, 0);
    city.settle().await;
    let id = ChildId::Raider(charged.raider);
    assert_eq!(city.state(&id).await, Some(ChildState::Running));
}

/// The commits of a sandbox that was removed by hand are measured by its branch.
#[tokio::test(start_paused = true)]
async fn commits_of_a_sandbox_that_is_gone_are_no_less_precious() {
    let (city, charged) = Scenario::at_work().await;
    city.parts.repo.lose(&charged.raider.name);
    let error = city.nuke(&charged.raider, false).await.unwrap_err();
    assert_eq!(error.kind, RefusalKind::WorkAtRisk);
    assert_eq!(error.losses.len(), 1);
    assert!(city.runs(&charged.session), "nothing was touched");
    let nuked = city.nuke(&charged.raider, true).await.unwrap();
    let entries = city.store(|txn| txn.salvages()).await;
    assert_eq!(entries.len(), 1);
    // The next raider is told where it is.
    let id = nuked.salvage.unwrap();
    let context = city.relic_now(&charged.relic).await.context.unwrap();
    assert!(
        context.contains(&format!("kept as salvage {id}")),
        "{context}"
    );
    assert!(city.hook(&charged.raider).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn unmeasurable_sandbox_is_kept() {
    let (city, charged) = Scenario::at_work().await;
    let broken = RepoError::Failed("index is damaged".into());
    city.parts.repo.break_op("measure", broken);
    let error = city.nuke(&charged.raider, false).await.unwrap_err();
    assert_eq!(error.kind, RefusalKind::WorkAtRisk);
    city.parts
        .repo
        .break_op("salvage", RepoError::Failed("too".into()));
    city.nuke(&charged.raider, true).await.unwrap_err();
    assert_eq!(city.parts.repo.names(), ["Toast"]);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_will_not_end_holds_up_its_own_raider_only() {
    let city = Scenario::new().start().await;
    let (stuck, other) = (city.worker("a").await, city.worker("b").await);
    let closed = stuck.relic.clone();
    city.store(move |txn| {
        let mut relic = txn.relic(&closed)?;
        relic.status = RelicStatus::Closed;
        txn.put_relic(&relic)
    })
    .await;
    city.parts.sessions.hide(&stuck.session, Some("deaf"));
    city.pass(PATROL * 2).await;
    city.completed(&other.raider).await.unwrap();
    city.pass(PATROL).await;
    assert_eq!(city.status(&other.relic).await, RelicStatus::Closed);
    let free = city.parts.repo.names();
    assert_eq!(free, ["Toast"], "the other's sandbox is gone");
}

/// The trash may hold gigabytes: the slot does not wait for its removal.
#[tokio::test(start_paused = true)]
async fn the_slot_is_free_before_the_trash_is_emptied() {
    let (city, charged) = Scenario::at_work().await;
    let tasks = Arc::clone(&city.parts.tasks);
    assert_eq!(tasks.emptied(), 1, "what an earlier life left");
    let (release, full) = channel::<()>();
    let full = Mutex::new(full);
    tasks.when_emptied(move || {
        // The sender never sends: it is dropped.
        let _released = full.lock().unwrap().recv();
    });
    city.nuke(&charged.raider, true).await.unwrap();
    assert!(city.hook(&charged.raider).await.is_none());
    let other = city.worker("b").await;
    city.nuke(&other.raider, true).await.unwrap();
    assert_eq!(tasks.emptied(), 1, "it is still being emptied");
    drop(release);
    let emptied = || tasks.emptied() == 3;
    city.until("what came meanwhile goes as well", emptied)
        .await;
}

#[tokio::test(start_paused = true)]
async fn interrupted_nuke_still_names_where_the_work_is() {
    let once = AtomicBool::new(true);
    let fault = move |point| {
        if point == FaultPoint::NukeReleaseBefore && once.swap(false, Ordering::SeqCst) {
            panic!("at {point:?}");
        }
    };
    let city = Scenario::new().fault(Arc::new(fault)).start().await;
    let charged = city.worker("a").await;
    city.nuke(&charged.raider, true).await.unwrap_err();
    city.pass(PATROL).await;
    assert!(city.hook(&charged.raider).await.is_none());
    let finished = city.parts.repo.count("forget_sandbox");
    assert_eq!(finished, 1, "the removal may have been half done");
    let nuked = city.events(EventType::RaiderNuked).await;
    assert_eq!(nuked.len(), 1);
    let id = &city.parts.repo.salvages()[0].id;
    assert_eq!(nuked[0].data["salvage"], id.as_str());
}

/// The permit is for the session that had ended, not for a later one.
#[tokio::test(start_paused = true)]
async fn a_permit_is_no_permit_any_more_when_a_session_has_come() {
    let city = Scenario::new().start().await;
    let charged = city.charged("a").await;
    let path = city.world.city.sandbox(&charged.raider);
    let facts = city.parts.repo.facts(&path, "main").unwrap();
    for session in [
        None,
        Some(LastSession {
            token: "an earlier one".to_owned(),
            generation: Generation(0),
        }),
    ] {
        let judged = judge(Evidence {
            raider: charged.raider.clone(),
            incarnation: charged.incarnation,
            sandbox: path.clone(),
            session: Probed::Known(session),
            session_runs: false,
            git: Probed::Known(facts.clone()),
            salvaged: None,
            cause: Cause::Operator,
            detected: city.world.clock.now(),
        });
        let Judgement::Permit(permit) = judged else {
            panic!("{judged:?}");
        };
        let stale = effects::discard(&city.world, *permit).await.unwrap_err();
        assert!(matches!(stale, RepoError::PermitStale(_)), "{stale}");
    }
    assert_eq!(city.parts.repo.names(), ["Toast"]);
}

const HOUR: Duration = Duration::from_secs(3600);

/// "Skip", and "none lingers".
#[tokio::test(start_paused = true)]
async fn a_finished_sandbox_that_holds_something_is_kept_for_so_long_and_salvaged_then() {
    let city = Scenario::new().rig(|rig| rig.witness.keep_dirty = HOUR);
    let city = city.start().await;
    let charged = city.worker("a").await;
    let name = charged.raider.name.clone();
    city.parts
        .repo
        .change(&name, |facts| facts.stashes.push("wip".into()));
    city.completed(&charged.raider).await.unwrap();
    city.pass_hours(HOUR - PATROL * 2).await;
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    let mut told = city.escalations().await;
    told.retain(|escalation| escalation.status != RelicStatus::Closed);
    assert_eq!(told.len(), 1);
    assert!(city.parts.repo.salvages().is_empty());
    // The present configuration applies.
    city.reload(|city| city.rigs[0].witness.keep_dirty = 2 * HOUR)
        .await;
    city.pass(PATROL * 4).await;
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    city.reload(|city| city.rigs[0].witness.keep_dirty = HOUR)
        .await;
    city.pass(PATROL * 2).await;
    assert!(city.parts.repo.names().is_empty());
    assert_eq!(city.parts.repo.salvages().len(), 1);
    let nuked = city.events(EventType::RaiderNuked).await;
    assert_eq!(nuked[0].cause, "kept_long_enough");
    assert!(city.hook(&charged.raider).await.is_none());
}

/// "has_unpushed: escalate": its commits do not depend on the sandbox while a person is awaited.
#[tokio::test(start_paused = true)]
async fn unpushed_commits_of_work_that_is_over_are_saved_at_once_and_the_sandbox_stays() {
    let (city, charged) = Scenario::at_work().await;
    let closed = charged.relic.clone();
    city.store(move |txn| {
        let mut relic = txn.relic(&closed)?;
        relic.status = RelicStatus::Closed;
        relic.closed = Some(txn.now());
        txn.put_relic(&relic)
    })
    .await;
    city.pass(PATROL * 3).await;
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    assert_eq!(city.escalations().await.len(), 1);
    assert_eq!(city.parts.repo.count("salvage"), 1, "once");
    assert_eq!(city.store(|txn| txn.salvages()).await.len(), 1);
}

/// "Commits alone take no room": they are salvaged although the rest does not fit, and the rest once it does.
#[tokio::test(start_paused = true)]
async fn unpushed_commits_are_saved_where_there_is_no_room_for_the_rest() {
    let full = Scenario::new().with(|city| city.retention.salvage_max = Some(0));
    let city = full.start().await;
    let charged = city.worker("a").await;
    city.parts.repo.dirty(&charged.raider.name, "wip.txt");
    super::close(&city, &charged).await;
    city.pass(PATROL * 3).await;
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    let head = city.parts.repo.salvages();
    assert!(!head.is_empty() && head.iter().all(|kept| kept.bytes == 0));
    assert_eq!(city.store(|txn| txn.salvages()).await.len(), 1);
    assert_eq!(city.parts.repo.count("salvage"), 0);
    city.reload(|city| city.retention.salvage_max = None).await;
    city.pass(PATROL * 3).await;
    assert_eq!(city.parts.repo.count("salvage"), 1, "once");
}

/// Holds for commits of its own branch, too, when HEAD is elsewhere.
#[tokio::test(start_paused = true)]
async fn commits_that_head_has_left_are_saved_where_there_is_no_room_for_the_rest() {
    let full = Scenario::new().with(|city| city.retention.salvage_max = Some(0));
    let city = full.start().await;
    let charged = city.worker("a").await;
    let name = &charged.raider.name;
    let left = Oid::new("e".repeat(40)).unwrap();
    city.parts.repo.dirty(name, "wip.txt");
    city.parts.repo.leave(name, &left);
    super::close(&city, &charged).await;
    city.pass(PATROL * 3).await;
    let kept = city.parts.repo.salvages();
    let names = |kept: &SalvageRecord| kept.refs.iter().any(|name| name.ends_with(left.as_str()));
    assert!(kept.iter().any(names), "{kept:?}");
}

/// The raider's own merge request lands during the salvage, which is outside the sandbox.
#[tokio::test(start_paused = true)]
async fn a_target_that_moves_during_salvage_changes_nothing() {
    let (city, charged) = Scenario::at_work().await;
    let name = charged.raider.name.clone();
    city.parts.repo.dirty(&name, "wip.txt");
    let (repo, slot) = (std::sync::Arc::clone(&city.parts.repo), name);
    city.parts.repo.interlude("salvage", move || {
        repo.change(&slot, |facts| {
            facts.ahead += 1;
            facts.merge_base = Some(facts.head.clone());
        });
    });
    let nuked = city.nuke(&charged.raider, true).await.unwrap();
    assert!(nuked.salvage.is_some());
    assert!(city.parts.repo.names().is_empty());
}

/// At the judgement it is as before, but each salvage holds a state in between.
#[tokio::test(start_paused = true)]
async fn sandbox_that_changes_each_time_it_is_saved_is_kept() {
    let (city, charged) = Scenario::at_work().await;
    let name = charged.raider.name.clone();
    city.parts.repo.dirty(&name, "wip.txt");
    let (repo, slot) = (Arc::clone(&city.parts.repo), name.clone());
    let number = AtomicUsize::new(0);
    city.parts.repo.interlude("salvage", move || {
        let number = number.fetch_add(1, Ordering::Relaxed);
        repo.dirty(&slot, &format!("other{number}.txt"));
    });
    let refused = city.nuke(&charged.raider, true).await.unwrap_err();
    assert!(
        refused.message.contains("while it was saved"),
        "{refused:?}"
    );
    assert_eq!(city.parts.repo.names(), [name.as_str()]);
    // The next attempt saves the present state.
    city.parts.repo.interlude("salvage", || {});
    city.nuke(&charged.raider, true).await.unwrap();
    assert!(city.parts.repo.names().is_empty());
}

/// A salvage that saves a missing file makes its commit whole, which git then tells otherwise.
#[tokio::test(start_paused = true)]
async fn sandbox_that_changed_once_while_it_was_saved_is_saved_again() {
    let (city, charged) = Scenario::at_work().await;
    let name = charged.raider.name.clone();
    city.parts.repo.dirty(&name, "wip.txt");
    let (repo, slot) = (Arc::clone(&city.parts.repo), name);
    let is_first = AtomicBool::new(true);
    city.parts.repo.interlude("salvage", move || {
        if is_first.swap(false, Ordering::Relaxed) {
            repo.dirty(&slot, "other.txt");
        }
    });
    city.nuke(&charged.raider, true).await.unwrap();
    assert!(city.parts.repo.names().is_empty());
    assert_eq!(city.parts.repo.salvages().len(), 2);
}

/// Holds for a rehearsal and for the nuke itself.
#[tokio::test(start_paused = true)]
async fn a_session_that_cannot_be_seen_makes_no_nuke_safe() {
    let city = Scenario::new().start().await;
    let relic = city.relic("a").await;
    let charged = city.charge(&relic).await.unwrap();
    let target = NukeTarget {
        raider: charged.raider.clone(),
        incarnation: charged.incarnation,
        target: "main".into(),
        cause: Cause::Operator,
        relic: Some(relic),
        detected: None,
        done: false,
        asker: None,
        cancel: None,
    };
    nuke::check(&city.world, &target).await.unwrap();
    city.parts.sessions.hide(&charged.session, Some("deaf"));
    let refused = nuke::check(&city.world, &target).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Unavailable, "{refused}");
    city.nuke(&charged.raider, false).await.unwrap_err();
    assert_eq!(city.parts.repo.names(), ["Toast"]);
}

/// A salvage that always times out is retried for ever, destroys nothing, and is escalated once.
#[tokio::test(start_paused = true)]
async fn a_nuke_that_does_not_get_on_calls_a_person_once_and_goes_on_trying() {
    for hooked in [true, false] {
        let (city, charged) = Scenario::at_work().await;
        let limit = Duration::from_secs(120);
        let late = RepoError::Timeout {
            what: "salvage".into(),
            limit,
        };
        city.parts.repo.break_op("salvage", late);
        city.nuke(&charged.raider, true).await.unwrap_err();
        if !hooked {
            super::unhook(&city, &charged).await;
        }
        assert!(city.escalations().await.is_empty(), "it may pass");
        city.pass_hours(HOUR).await;
        let escalations = city.escalations().await;
        assert_eq!(escalations.len(), 1, "{escalations:?}");
        assert!(escalations[0].body.contains("salvage"), "{escalations:?}");
        assert_eq!(city.events(EventType::EscalationRaised).await.len(), 1);
        assert_eq!(city.parts.repo.names(), ["Toast"]);
        assert_eq!(city.sagas().await, 1);
        city.parts.repo.mend("salvage");
        city.pass(PATROL * 2).await;
        assert!(city.parts.repo.names().is_empty());
        assert_eq!(city.parts.repo.salvages().len(), 1);
        let settled = city.relic_now(&escalations[0].id).await;
        assert_eq!(settled.status, RelicStatus::Closed, "hooked: {hooked}");
    }
}

/// A decision about work in progress is not applied to finished work.
#[tokio::test(start_paused = true)]
async fn a_completion_that_came_while_a_nuke_was_prepared_is_not_undone() {
    let city = Scenario::new().rig(|rig| rig.forge.review_human = true);
    let city = city.start().await;
    let charged = city.worker("a").await;
    let open = city.hook(&charged.raider).await.unwrap();
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    let target = NukeTarget::of(&open, Cause::TooManyDeaths);
    let judged = nuke::permitted(&city.world, target).await.unwrap();
    let late = nuke::begin(&city.world, &judged).await;
    assert_eq!(late.err().unwrap().kind, RefusalKind::Conflict);
    assert_eq!(city.sagas().await, 0);
    let now = city.hook(&charged.raider).await.unwrap();
    let target = NukeTarget::of(&now, Cause::Operator);
    let judged = nuke::permitted(&city.world, target).await.unwrap();
    let begun = nuke::begin(&city.world, &judged).await;
    assert!(begun.is_ok());
}

/// An unreadable sandbox cannot be salvaged: its session is not affected by the attempt, and the remedy is named, also
/// by the rehearsal.
#[tokio::test(start_paused = true)]
async fn a_sandbox_that_cannot_be_read_is_not_salvaged_and_works_on() {
    let (city, charged) = Scenario::at_work().await;
    let broken = RepoError::Failed("its .git link is broken".into());
    city.parts.repo.break_op("measure", broken);
    let refused = city.nuke(&charged.raider, true).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::WorkAtRisk, "{refused}");
    assert!(refused.hint.unwrap().contains("repair"));
    assert_eq!(city.starts(&charged.session), 1);
    assert!(city.runs(&charged.session));
    let hook = city.hook(&charged.raider).await.unwrap();
    let target = NukeTarget::of(&hook, Cause::Operator);
    let would = nuke::rehearse(&city.world, &target, true).await.unwrap();
    assert_eq!(would.would, Would::Refuse);
    assert!(would.hint.unwrap().contains("repair"));
    // `--salvage` is not proposed for it either.
    let refused = city.nuke(&charged.raider, false).await.unwrap_err();
    let would = nuke::rehearse(&city.world, &target, false).await.unwrap();
    for hint in [refused.hint.unwrap(), would.hint.unwrap()] {
        assert!(
            hint.contains("repair") && !hint.contains("salvage"),
            "{hint}"
        );
    }
    // A slow sandbox is neither broken nor at risk.
    let slow = RepoError::Timeout {
        what: "git status".into(),
        limit: PATROL,
    };
    city.parts.repo.break_op("measure", slow);
    let refused = city.nuke(&charged.raider, true).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Timeout, "{refused}");
    assert!(city.runs(&charged.session));
}

/// A sandbox without room for its salvage does not lose its session either.
#[tokio::test(start_paused = true)]
async fn without_room_for_salvage_the_session_goes_on() {
    let city = Scenario::new()
        .with(|city| city.retention.salvage_max = Some(0))
        .start()
        .await;
    let charged = city.worker("a").await;
    city.parts.repo.dirty(&charged.raider.name, "notes.txt");
    let refused = city.nuke(&charged.raider, true).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::NoRoom, "{refused}");
    assert_eq!(city.starts(&charged.session), 1);
    assert!(city.runs(&charged.session));
}

/// After a crash between the two there are the recorded salvage and the sandbox.
#[tokio::test(start_paused = true)]
async fn salvage_is_on_record_before_the_sandbox_goes() {
    let repo: Arc<OnceLock<Arc<FakeRepo>>> = Arc::default();
    let there = Arc::new(Mutex::new(Vec::new()));
    let (own, seen) = (Arc::clone(&repo), Arc::clone(&there));
    let scenario = Scenario::new().fault(Arc::new(move |point| {
        if point == FaultPoint::NukeSalvageAfter {
            let names = own.get().map(|repo| repo.names());
            seen.lock().unwrap().extend(names);
        }
    }));
    let city = scenario.start().await;
    assert!(repo.set(Arc::clone(&city.parts.repo)).is_ok(), "once");
    let charged = city.worker("a").await;
    city.parts.repo.dirty(&charged.raider.name, "wip.txt");
    city.nuke(&charged.raider, true).await.unwrap();
    assert_eq!(*there.lock().unwrap(), [["Toast"]]);
    assert!(city.parts.repo.names().is_empty());
}
