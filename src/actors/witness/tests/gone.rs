//! A sandbox whose directory was deleted: git still has what was staged in it, and more.

use super::{GROWN, PATROL, unhook};
use crate::actors::mail::Charged;
use crate::actors::mail::NukeTarget;
use crate::actors::refusal::RefusalKind;
use crate::actors::sagas::nuke;
use crate::domain::cause::Cause;
use crate::domain::ids::{Incarnation, Oid};
use crate::domain::other_work::OtherWork;
use crate::ports::repo::{PinnedStashes, RepoError};
use crate::testing::world::{Scenario, Town};

const REBASE: &str = "a rebase in progress";

/// Starts with a raider whose sandbox had this other work, and is gone.
async fn robbed(scenario: Scenario, special: OtherWork) -> (Town, Charged) {
    let town = scenario.start().await;
    let charged = town.charged("a").await;
    let name = charged.raider.name.clone();
    let change = |facts: &mut crate::domain::facts::GitFacts| facts.special.push(special);
    town.parts.repo.change(&name, change);
    town.parts.repo.lose(&name);
    (town, charged)
}

/// A repair would bring it back: it is lost only on explicit request.
#[tokio::test(start_paused = true)]
async fn unfinished_work_in_the_git_directory_of_a_missing_sandbox_is_at_risk() {
    let (town, charged) = robbed(Scenario::new(), OtherWork::unfinished(REBASE)).await;
    let refused = town.nuke(&charged.raider, false).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::WorkAtRisk, "{refused}");
    assert_eq!(refused.losses, [REBASE]);
    assert!(refused.hint.unwrap().contains("hd raider repair"));
    let hook = town.hook(&charged.raider).await.unwrap();
    let target = NukeTarget::of(&hook, Cause::Operator);
    for (salvage, would) in [(false, nuke::Would::Refuse), (true, nuke::Would::Salvage)] {
        let told = nuke::rehearse(&town.world, &target, salvage).await;
        assert_eq!(told.unwrap().would, would);
    }
    assert_eq!(town.parts.repo.count("salvage"), 0);
    let nuked = town.nuke(&charged.raider, true).await.unwrap();
    assert!(nuked.salvage.is_some());
    assert_eq!(town.parts.repo.count("salvage"), 1);
    assert!(town.hook(&charged.raider).await.is_none());
}

/// A patrol does not lose it either.
#[tokio::test(start_paused = true)]
async fn a_release_after_done_keeps_it_and_calls_a_person() {
    let (town, charged) = {
        let (town, charged) = Scenario::at_work().await;
        (town, charged)
    };
    let name = charged.raider.name.clone();
    town.completed(&charged.raider).await.unwrap();
    town.parts.repo.change(&name, |facts| {
        facts.special.push(OtherWork::unfinished(REBASE))
    });
    town.parts.repo.lose(&name);
    town.pass(PATROL * 3).await;
    assert!(
        town.hook(&charged.raider).await.is_some(),
        "its slot is kept"
    );
    assert_eq!(town.parts.repo.count("forget_sandbox"), 0);
    let called = town.escalations().await;
    assert!(
        called.iter().any(|call| call.body.contains(REBASE)),
        "{called:?}"
    );
}

/// Commits that its agent left behind do not prevent the removal, and are salvaged.
#[tokio::test(start_paused = true)]
async fn commits_that_were_left_behind_are_saved_unasked() {
    let left = OtherWork::left_behind("abc");
    let (town, charged) = robbed(Scenario::new(), left).await;
    let nuked = town.nuke(&charged.raider, false).await.unwrap();
    assert!(nuked.salvage.is_some());
    assert_eq!(town.parts.repo.count("salvage"), 1);
}

/// Stash entries outlive the sandbox whose directory is gone: they stay pinned, and the answer names them.
#[tokio::test(start_paused = true)]
async fn pinned_stash_entries_of_a_missing_sandbox_are_named() {
    let town = Scenario::new().start().await;
    let charged = town.charged("a").await;
    let entry = Oid::new("e".repeat(40)).unwrap();
    for raider in [Some(charged.raider.clone()), None] {
        town.parts.repo.pin_stashes(PinnedStashes {
            incarnation: raider.is_some().then_some(Incarnation(1)),
            raider,
            ids: vec![entry.clone()],
        });
    }
    town.parts.repo.lose(&charged.raider.name);
    let nuked = town.nuke(&charged.raider, false).await.unwrap();
    assert_eq!((nuked.salvage, nuked.stashes), (None, vec![entry]));
}

/// Without room for them, everything stays.
#[tokio::test(start_paused = true)]
async fn without_room_it_stays() {
    let rebase = (OtherWork::unfinished(REBASE), true);
    for (special, salvage) in [rebase, (OtherWork::left_behind("abc"), false)] {
        let full = Scenario::new().with(|city| city.retention.salvage_max = Some(0));
        let (town, charged) = robbed(full, special).await;
        let refused = town.nuke(&charged.raider, salvage).await.unwrap_err();
        assert_eq!(refused.kind, RefusalKind::NoRoom, "{refused}");
        assert!(town.hook(&charged.raider).await.is_some());
        assert_eq!(town.parts.repo.count("forget_sandbox"), 0);
    }
}

/// A clean sandbox is removed as before.
#[tokio::test(start_paused = true)]
async fn where_nothing_is_left_the_slot_is_free() {
    let town = Scenario::new().start().await;
    let charged = town.charged("a").await;
    town.parts.repo.lose(&charged.raider.name);
    unhook(&town, &charged).await;
    town.pass(GROWN).await;
    assert_eq!(town.parts.repo.count("salvage"), 0);
    assert!(town.escalations().await.is_empty());
}

/// A machine crash may leave a registration that git cannot read: the refusal names the remedy, not only the failure.
#[tokio::test(start_paused = true)]
async fn unreadable_git_directory_of_a_missing_sandbox_is_at_risk_until_repair() {
    let (town, charged) = robbed(Scenario::new(), OtherWork::unfinished(REBASE)).await;
    let torn = RepoError::Failed("fatal: index file corrupt".into());
    town.parts.repo.break_op("remains", torn);
    for salvage in [false, true] {
        let refused = town.nuke(&charged.raider, salvage).await.unwrap_err();
        assert_eq!(refused.kind, RefusalKind::WorkAtRisk, "{refused}");
        assert!(refused.losses[0].contains("index file corrupt"));
        assert!(refused.hint.unwrap().contains("hd raider repair"));
    }
    town.parts.repo.mend("remains");
    town.nuke(&charged.raider, true).await.unwrap();
}

/// Staged files outlive the directory, too.
#[tokio::test(start_paused = true)]
async fn staged_files_of_a_missing_sandbox_are_at_risk_and_kept() {
    let town = Scenario::new().start().await;
    let charged = town.charged("a").await;
    town.parts.repo.dirty(&charged.raider.name, "staged.txt");
    town.parts.repo.lose(&charged.raider.name);
    let refused = town.nuke(&charged.raider, false).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::WorkAtRisk, "{refused}");
    assert!(refused.losses[0].contains("staged.txt"), "{refused:?}");
    let nuked = town.nuke(&charged.raider, true).await.unwrap();
    assert!(nuked.salvage.is_some());
}
