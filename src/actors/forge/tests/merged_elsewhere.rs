//! Work that waits for its review and is merged on the host (issue 17, a branch that was merged elsewhere).

use super::*;
use crate::actors::mail::Charged;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

const PATROL: Duration = Duration::from_secs(31);

async fn waiting() -> (TestCity, Charged, Oid) {
    let city = Scenario::new().rig(|rig| rig.forge.review_human = true);
    let city = city.start().await;
    let charged = city.charged("a").await;
    let head = (city.parts.repo).commit_path(&charged.raider.name, "src/a.rs");
    city.completed(&charged.raider).await.unwrap();
    city.pass(PATROL).await;
    assert!(city.mr(&charged.relic).await.unwrap().awaits_person());
    (city, charged, head)
}

/// With its commits, or squashed; cleaned up as a landing of the forge.
#[tokio::test(start_paused = true)]
async fn branch_that_was_merged_on_the_host_is_cleaned_up_as_merged() {
    for (is_squashed, how) in [(false, "commits"), (true, "changes")] {
        let (city, charged, head) = waiting().await;
        city.parts.repo.merge_on_host(&head, is_squashed);
        city.pass(PATROL * 4).await;
        let mr = city.mr(&charged.relic).await.unwrap();
        assert_eq!(mr.state, MrState::Merged, "{how}");
        assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
        assert!(city.hook(&charged.raider).await.is_none());
        assert!(city.parts.repo.names().is_empty() && !city.runs(&charged.session));
        assert_eq!(city.parts.repo.remote(&mr.branch), None, "its branch");
        let events = city.events(EventType::MrMergedElsewhere).await;
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].data["how"], how);
        let merged = city.events(EventType::RaiderMerged).await;
        assert_eq!(merged[0].data["noop"], true);
        assert!(city.escalations().await.is_empty());
    }
}

/// Design 6.3: nothing is left to land only if the merge gives the tree of the target.
#[tokio::test(start_paused = true)]
async fn work_that_was_merged_and_reverted_waits_on() {
    for is_squashed in [false, true] {
        let (city, charged, head) = waiting().await;
        city.parts.repo.merge_on_host(&head, is_squashed);
        city.parts.repo.revert_on_host(&head);
        city.pass(PATROL * 6).await;
        let mr = city.mr(&charged.relic).await.unwrap();
        assert!(mr.awaits_person(), "{mr:?}");
        assert!(city.runs(&charged.session));
    }
}

/// To merge nothing gives the tree of every target.
#[tokio::test(start_paused = true)]
async fn commits_that_change_nothing_are_not_taken_for_merged() {
    let city = Scenario::new().rig(|rig| rig.forge.review_human = true);
    let city = city.start().await;
    let charged = city.worker("a").await;
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    let head = city.mr(&charged.relic).await.unwrap().head;
    city.parts.repo.merge_on_host(&head, true);
    city.pass(PATROL * 6).await;
    assert!(city.mr(&charged.relic).await.unwrap().awaits_person());
}

/// The remote is asked at a pace, and only while something waits.
#[tokio::test(start_paused = true)]
async fn target_is_fetched_every_two_patrols_while_a_review_waits() {
    let (city, charged, head) = waiting().await;
    let fetches = || city.parts.repo.count("fetch_target");
    let before = fetches();
    city.pass(PATROL * 10).await;
    let asked = fetches() - before;
    assert!((4..=6).contains(&asked), "{asked}");
    // A remote that is away is asked again, and no person is called.
    let away = RepoError::Remote("away".into());
    city.parts.repo.break_op("fetch_target", away);
    city.parts.repo.merge_on_host(&head, false);
    city.pass(PATROL * 4).await;
    assert!(city.mr(&charged.relic).await.unwrap().awaits_person());
    assert!(city.escalations().await.is_empty());
    city.parts.repo.mend("fetch_target");
    city.pass(PATROL * 4).await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
    let before = fetches();
    city.pass(PATROL * 10).await;
    assert_eq!(fetches(), before);
}

/// Unsaved files are kept, as after a landing.
#[tokio::test(start_paused = true)]
async fn unsaved_work_in_the_sandbox_of_merged_work_is_kept_and_told() {
    let (city, charged, head) = waiting().await;
    city.parts.repo.dirty(&charged.raider.name, "tried.txt");
    city.parts.repo.merge_on_host(&head, false);
    city.pass(PATROL * 8).await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    assert!(!city.runs(&charged.session), "its session ends");
    assert_eq!(city.escalations().await.len(), 1);
}

/// The fetch of the target tells of all merge requests that wait; to compare them asks the remote no more.
#[tokio::test(start_paused = true)]
async fn new_tip_of_the_target_is_fetched_once_for_all_that_wait() {
    let (city, _, _) = waiting().await;
    for title in ["b", "c"] {
        let charged = city.charged(title).await;
        (city.parts.repo).commit_path(&charged.raider.name, "src/b.rs");
        city.completed(&charged.raider).await.unwrap();
    }
    city.pass(PATROL * 4).await;
    let (fetched, landed) = (
        city.parts.repo.count("fetch_target"),
        city.parts.repo.count("landed"),
    );
    let other = city.parts.repo.push_of_person("other");
    city.parts.repo.merge_on_host(&other, false);
    city.pass(PATROL * 2).await;
    assert!(city.parts.repo.count("has") > 3, "all are compared again");
    assert_eq!(city.parts.repo.count("fetch_target") - fetched, 1);
    assert_eq!(city.parts.repo.count("landed"), landed);
}
