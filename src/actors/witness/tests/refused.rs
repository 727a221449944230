//! Outcome files whose declaration is refused: the session is told the reason and the way out, and nothing else.

use std::path::PathBuf;
use std::time::Duration;

use crate::actors::mail::Charged;
use crate::domain::facts::GitFacts;
use crate::testing::world::{Scenario, Town};

const PASSED: &str = r#"{"outcome":"passed"}"#;

fn dir(town: &Town, charged: &Charged) -> PathBuf {
    let city = &town.world.city;
    city.task_dir(&charged.raider, &charged.relic, charged.incarnation)
}

/// The whole text that a session was told.
fn typed_text(town: &Town, charged: &Charged) -> String {
    format!("{:?}", town.parts.sessions.sent(&charged.session))
}

#[tokio::test(start_paused = true)]
async fn session_on_another_branch_is_told_so_and_how_to_get_back() {
    let (town, charged) = Scenario::at_work().await;
    let renamed = |facts: &mut GitFacts| facts.branch = Some("wip".to_owned());
    town.parts.repo.change(&charged.raider.name, renamed);
    town.parts
        .tasks
        .write_outcome(&dir(&town, &charged), PASSED);
    town.pass(Duration::from_secs(5)).await;
    let told = typed_text(&town, &charged);
    assert!(told.contains("the sandbox is on wip"), "{told}");
    assert!(told.contains("git "), "{told}");
    assert!(!told.contains("no commit of its own"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn session_without_commits_is_told_so_and_of_no_change() {
    let (town, charged) = Scenario::at_work().await;
    let none = |facts: &mut GitFacts| facts.ahead = 0;
    town.parts.repo.change(&charged.raider.name, none);
    town.parts
        .tasks
        .write_outcome(&dir(&town, &charged), PASSED);
    town.pass(Duration::from_secs(5)).await;
    let told = typed_text(&town, &charged);
    assert!(told.contains("no commit of its own"), "{told}");
    assert!(told.contains("no_change"), "{told}");
}

/// On a mount whose clock is ahead, a file that is being written seems to come from the future.
#[tokio::test(start_paused = true)]
async fn half_of_a_file_that_seems_written_in_a_second_is_no_mistake_yet() {
    let (town, charged) = Scenario::at_work().await;
    let dir = dir(&town, &charged);
    let second = Duration::from_secs(1);
    town.parts
        .tasks
        .stamp(&dir, town.world.clock.now() + second);
    town.parts.tasks.write_outcome(&dir, r#"{"outcome":"#);
    town.pass(second).await;
    assert_eq!(typed_text(&town, &charged), "[]");
    town.pass(second * 5).await;
    assert!(typed_text(&town, &charged).contains("could not be understood"));
}
