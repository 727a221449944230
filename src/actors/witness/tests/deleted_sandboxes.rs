//! A sandbox whose directory was deleted: git still has what was staged in it, and more.

use super::{GROWN, PATROL, unhook};
use crate::actors::mail::Charged;
use crate::actors::mail::NukeTarget;
use crate::actors::refusal::RefusalKind;
use crate::actors::sagas::nuke;
use crate::domain::answers::Would;
use crate::domain::cause::Cause;
use crate::domain::ids::{Incarnation, Oid};
use crate::domain::other_work::OtherWork;
use crate::ports::repo::{PinnedStashes, RepoError};
use crate::testing::world::{Scenario, TestCity};

const REBASE: &str = "a rebase in progress";

/// Starts with a raider whose sandbox had this other work, and is gone.
async fn robbed(scenario: Scenario, special: OtherWork) -> (TestCity, Charged) {
    let city = scenario.start().await;
    let charged = city.charged("a").await;
    let name = charged.raider.name.clone();
    let change = |facts: &mut crate::domain::facts::GitFacts| facts.other_work.push(special);
    city.parts.repo.change(&name, change);
    city.parts.repo.lose(&name);
    (city, charged)
}

/// A repair would bring it back: it is lost only on explicit request.
#[tokio::test(start_paused = true)]
async fn unfinished_work_in_the_git_directory_of_a_missing_sandbox_is_at_risk() {
    let (city, charged) = robbed(Scenario::new(), OtherWork::unfinished(REBASE)).await;
    let refused = city.nuke(&charged.raider, false).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::WorkAtRisk, "{refused}");
    assert_eq!(refused.losses, [REBASE]);
    assert!(refused.hint.unwrap().contains("hd raider repair"));
    let hook = city.hook(&charged.raider).await.unwrap();
    let target = NukeTarget::of(&hook, Cause::Operator);
    for (salvage, would) in [(false, Would::Refuse), (true, Would::Salvage)] {
        let told = nuke::rehearse(&city.world, &target, salvage).await;
        assert_eq!(told.unwrap().would, would);
    }
    assert_eq!(city.parts.repo.count("salvage"), 0);
    let nuked = city.nuke(&charged.raider, true).await.unwrap();
    assert!(nuked.salvage.is_some());
    assert_eq!(city.parts.repo.count("salvage"), 1);
    assert!(city.hook(&charged.raider).await.is_none());
}

/// A patrol does not lose it either.
#[tokio::test(start_paused = true)]
async fn a_release_after_done_keeps_it_and_calls_a_person() {
    let (city, charged) = {
        let (city, charged) = Scenario::at_work().await;
        (city, charged)
    };
    let name = charged.raider.name.clone();
    city.completed(&charged.raider).await.unwrap();
    city.parts.repo.change(&name, |facts| {
        facts.other_work.push(OtherWork::unfinished(REBASE))
    });
    city.parts.repo.lose(&name);
    city.pass(PATROL * 3).await;
    assert!(
        city.hook(&charged.raider).await.is_some(),
        "its slot is kept"
    );
    assert_eq!(city.parts.repo.count("forget_sandbox"), 0);
    let called = city.escalations().await;
    assert!(
        called.iter().any(|call| call.body.contains(REBASE)),
        "{called:?}"
    );
}

/// Commits that its agent left behind do not prevent the removal, and are salvaged.
#[tokio::test(start_paused = true)]
async fn commits_that_were_left_behind_are_saved_unasked() {
    let left = OtherWork::left_behind("abc");
    let (city, charged) = robbed(Scenario::new(), left).await;
    let nuked = city.nuke(&charged.raider, false).await.unwrap();
    assert!(nuked.salvage.is_some());
    assert_eq!(city.parts.repo.count("salvage"), 1);
}

/// Stash entries outlive the sandbox whose directory is gone: they stay pinned, and the answer names them.
#[tokio::test(start_paused = true)]
async fn pinned_stash_entries_of_a_missing_sandbox_are_named() {
    let city = Scenario::new().start().await;
    let charged = city.charged("a").await;
    let entry = Oid::new("e".repeat(40)).unwrap();
    for raider in [Some(charged.raider.clone()), None] {
        city.parts.repo.pin_stashes(PinnedStashes {
            incarnation: raider.is_some().then_some(Incarnation(1)),
            raider,
            ids: vec![entry.clone()],
        });
    }
    city.parts.repo.lose(&charged.raider.name);
    let nuked = city.nuke(&charged.raider, false).await.unwrap();
    assert_eq!((nuked.salvage, nuked.stashes), (None, vec![entry]));
}

/// Without room for them, everything stays.
#[tokio::test(start_paused = true)]
async fn gone_sandbox_stays_without_room_for_its_work() {
    let rebase = (OtherWork::unfinished(REBASE), true);
    for (special, salvage) in [rebase, (OtherWork::left_behind("abc"), false)] {
        let full = Scenario::new().with(|city| city.retention.salvage_max = Some(0));
        let (city, charged) = robbed(full, special).await;
        let refused = city.nuke(&charged.raider, salvage).await.unwrap_err();
        assert_eq!(refused.kind, RefusalKind::NoRoom, "{refused}");
        assert!(city.hook(&charged.raider).await.is_some());
        assert_eq!(city.parts.repo.count("forget_sandbox"), 0);
    }
}

/// A clean sandbox is removed as before.
#[tokio::test(start_paused = true)]
async fn where_nothing_is_left_the_slot_is_free() {
    let city = Scenario::new().start().await;
    let charged = city.charged("a").await;
    city.parts.repo.lose(&charged.raider.name);
    unhook(&city, &charged).await;
    city.pass(GROWN).await;
    assert_eq!(city.parts.repo.count("salvage"), 0);
    assert!(city.escalations().await.is_empty());
}

/// A machine crash may leave a registration that git cannot read: the refusal names the remedy, not only the failure.
#[tokio::test(start_paused = true)]
async fn unreadable_git_directory_of_a_missing_sandbox_is_at_risk_until_repair() {
    let (city, charged) = robbed(Scenario::new(), OtherWork::unfinished(REBASE)).await;
    let torn = RepoError::Failed("fatal: index file corrupt".into());
    city.parts.repo.break_op("remains", torn);
    for salvage in [false, true] {
        let refused = city.nuke(&charged.raider, salvage).await.unwrap_err();
        assert_eq!(refused.kind, RefusalKind::WorkAtRisk, "{refused}");
        assert!(refused.losses[0].contains("index file corrupt"));
        assert!(refused.hint.unwrap().contains("hd raider repair"));
    }
    city.parts.repo.mend("remains");
    city.nuke(&charged.raider, true).await.unwrap();
}

/// Staged files outlive the directory, too.
#[tokio::test(start_paused = true)]
async fn staged_files_of_a_missing_sandbox_are_at_risk_and_kept() {
    let city = Scenario::new().start().await;
    let charged = city.charged("a").await;
    city.parts.repo.dirty(&charged.raider.name, "staged.txt");
    city.parts.repo.lose(&charged.raider.name);
    let refused = city.nuke(&charged.raider, false).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::WorkAtRisk, "{refused}");
    assert!(refused.losses[0].contains("staged.txt"), "{refused:?}");
    let nuked = city.nuke(&charged.raider, true).await.unwrap();
    assert!(nuked.salvage.is_some());
}
