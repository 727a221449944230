//! Branches that raiders left behind.

use std::time::Duration;

use crate::domain::event::EventType;
use crate::domain::relic::RelicStatus;
use crate::testing::world::Scenario;

const PATROL: Duration = Duration::from_secs(31);

/// A supervisor that was killed during removals had left them until a person said `hd doctor --fix`.
#[tokio::test(start_paused = true)]
async fn a_patrol_deletes_the_branches_of_raiders_that_are_gone_and_whose_relics_are_closed() {
    let city = Scenario::new().start().await;
    let working = city.worker("a").await;
    let (open, closed) = (city.relic("open").await, city.relic("closed").await);
    let own = closed.clone();
    city.store(move |txn| {
        let mut relic = txn.relic(&own)?;
        relic.status = RelicStatus::Closed;
        txn.put_relic(&relic)
    })
    .await;
    let left = [
        format!("raider/Ghost/{closed}-1"),
        "raider/Ghost/gt-99-1".to_owned(),
    ];
    let stay = [
        (format!("raider/Ghost/{open}-1"), true),
        (format!("raider/{}/{closed}-1", working.raider.name), true),
        (format!("raider/Ghost/{closed}-fix"), true),
        ("raider/Ghost/side-work".to_owned(), true),
        ("raider/Ghost/gt-98-1".to_owned(), false),
    ];
    let repo = &city.parts.repo;
    left.iter().for_each(|name| repo.leave_branch(name, true));
    for (name, reachable) in &stay {
        repo.leave_branch(name, *reachable);
    }
    city.pass(PATROL).await;
    let told = city.events(EventType::BranchDropped).await;
    let told: Vec<_> = told
        .iter()
        .map(|it| (it.data["branch"].as_str().unwrap(), it.cause.as_str()))
        .collect();
    let wanted = left.each_ref().map(|name| (name.as_str(), "recovered"));
    assert_eq!(told, wanted);
    city.pass(PATROL * 3).await;
    assert_eq!(repo.count("drop_branch"), left.len());
}
