//! Branches that raiders left behind.

use std::time::Duration;

use crate::domain::event::EventType;
use crate::domain::ids::{Incarnation, RaiderId, SlotName};
use crate::domain::relic::RelicStatus;
use crate::ports::repo::{Repo, SandboxSpec};
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
    let left = [format!("raider/Ghost/{closed}-1")];
    // A sandbox without hook holds its slot.
    let lone = RaiderId::new(working.raider.rig.clone(), SlotName::new("Lone").unwrap());
    let spec = SandboxSpec {
        raider: lone.clone(),
        relic: closed.clone(),
        incarnation: Incarnation(2),
        branch: lone.branch(&closed, Incarnation(2)),
        base: city.parts.repo.tip(),
        path: city.world.city.sandbox(&lone),
        task_dir: "/tasks".into(),
        copy: Vec::new(),
    };
    city.parts.repo.make_sandbox(&spec).unwrap();
    city.parts.repo.dirty(&lone.name, "half");
    let stay = [
        // The store may be older than the branch.
        ("raider/Ghost/gt-99-1".to_owned(), true),
        (format!("raider/Lone/{closed}-1"), true),
        (format!("raider/Ghost/{open}-1"), true),
        (format!("raider/{}/{closed}-1", working.raider.name), true),
        (format!("raider/Ghost/{closed}-fix"), true),
        ("raider/Ghost/side-work".to_owned(), true),
        (format!("raider/Ghost/{closed}-01"), true),
        (format!("raider/Ghost/{closed}-2"), false),
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
    // The one that no ref reaches is tried once.
    assert_eq!(repo.count("drop_branch"), left.len() + 1);
}
