//! Outcome files whose declaration is refused: the session is told the reason and the way out, and nothing else.

use std::path::PathBuf;
use std::time::Duration;

use crate::actors::mail::Charged;
use crate::domain::facts::GitFacts;
use crate::testing::world::{Scenario, TestCity};

const PASSED: &str = r#"{"outcome":"passed"}"#;

fn dir(city: &TestCity, charged: &Charged) -> PathBuf {
    let city = &city.world.city;
    city.task_dir(&charged.raider, &charged.relic, charged.incarnation)
}

/// The whole text that a session was told.
fn typed_text(city: &TestCity, charged: &Charged) -> String {
    format!("{:?}", city.parts.sessions.sent(&charged.session))
}

#[tokio::test(start_paused = true)]
async fn session_on_another_branch_is_told_so_and_how_to_get_back() {
    let (city, charged) = Scenario::at_work().await;
    let renamed = |facts: &mut GitFacts| facts.branch = Some("wip".to_owned());
    city.parts.repo.change(&charged.raider.name, renamed);
    city.parts
        .tasks
        .write_outcome(&dir(&city, &charged), PASSED);
    city.pass(Duration::from_secs(5)).await;
    let told = typed_text(&city, &charged);
    assert!(told.contains("the sandbox is on wip"), "{told}");
    assert!(told.contains("git "), "{told}");
    assert!(!told.contains("no commit of its own"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn session_without_commits_is_told_so_and_of_no_change() {
    let (city, charged) = Scenario::at_work().await;
    let none = |facts: &mut GitFacts| facts.ahead = 0;
    city.parts.repo.change(&charged.raider.name, none);
    city.parts
        .tasks
        .write_outcome(&dir(&city, &charged), PASSED);
    city.pass(Duration::from_secs(5)).await;
    let told = typed_text(&city, &charged);
    assert!(told.contains("no commit of its own"), "{told}");
    assert!(told.contains("no_change"), "{told}");
}

/// On a mount whose clock is ahead, a file that is being written seems to come from the future.
#[tokio::test(start_paused = true)]
async fn half_of_a_file_that_seems_written_in_a_second_is_no_mistake_yet() {
    let (city, charged) = Scenario::at_work().await;
    let dir = dir(&city, &charged);
    let second = Duration::from_secs(1);
    city.parts
        .tasks
        .stamp(&dir, city.world.clock.now() + second);
    city.parts.tasks.write_outcome(&dir, r#"{"outcome":"#);
    city.pass(second).await;
    assert_eq!(typed_text(&city, &charged), "[]");
    city.pass(second * 5).await;
    assert!(typed_text(&city, &charged).contains("could not be understood"));
}
