//! The number of commands that automations run at once, and commands that cannot be ended.

use super::*;

/// Automations of this owner ("" for the city) that all are due at once, each with a command that takes an hour.
fn many(owner: &str, count: usize) -> Vec<Automation> {
    let all = (0..count).map(|number| {
        let mut one = automation(&format!("{owner}a{number}"), cooldown(24 * 3600));
        one.timeout = secs(7200);
        one.action = Action::Exec(format!("{owner}work"));
        one
    });
    all.collect()
}

async fn started(all: &[Automation]) -> TestCity {
    let city = start(&[]).await;
    for line in ["work", "horde/work"] {
        city.parts.runner.let_go(line, secs(3600), 0);
    }
    let all = all.to_vec();
    city.reload(move |city| city.automations = all).await;
    city.world.directory.tell_dispatcher(DispatcherMsg::Look);
    city.pass(secs(2)).await;
    city
}

#[tokio::test(start_paused = true)]
async fn automations_of_a_rig_run_within_its_budget_and_hold_up_no_others() {
    let all = [many("horde/", 160), many("", 3)].concat();
    let city = started(&all).await;
    assert_eq!(count(&city, "horde/work"), 64);
    assert_eq!(count(&city, "work"), 3);
    assert_eq!(city.events(EventType::AutomationFired).await.len(), 163);
    let waits = || {
        let board = &city.world.directory.automations;
        let waits = all.iter().filter(|one| board.waits_for_place(&one.id));
        waits.count()
    };
    assert_eq!(waits(), 96, "`hd auto list` tells which");
    city.pass_hours(secs(3600)).await;
    assert_eq!(count(&city, "horde/work"), 128, "as places come free");
    assert_eq!(waits(), 32);
    city.pass_hours(secs(2 * 3600)).await;
    assert_eq!(count(&city, "horde/work"), 160);
    let completed = city.events(EventType::AutomationCompleted).await;
    assert_eq!(completed.len(), 163);
}

#[tokio::test(start_paused = true)]
async fn run_that_waits_for_a_place_ends_with_the_supervisor_and_never_starts() {
    let all = many("", 80);
    let city = started(&all).await;
    assert_eq!(count(&city, "work"), 64);
    let runner = Arc::clone(&city.parts.runner);
    city.stop(StopMode::KeepSessions).await;
    assert_eq!(runner.started("work").len(), 64);
}

/// A command in an uninterruptible wait of the kernel, which neither its timeout nor KILL ends.
#[tokio::test(start_paused = true)]
async fn run_whose_command_cannot_be_ended_is_over_and_keeps_its_place() {
    let mut often = automation("often", cooldown(10));
    often.timeout = secs(20);
    let city = start(&[]).await;
    let hang = city.parts.runner.hang("often");
    city.reload(move |city| city.automations = vec![often])
        .await;
    city.world.directory.tell_dispatcher(DispatcherMsg::Look);
    city.pass(secs(60)).await;
    assert_eq!(city.events(EventType::AutomationFailed).await, []);
    city.pass(secs(30)).await;
    assert_eq!(
        causes(&city, EventType::AutomationFailed).await,
        ["timeout"]
    );
    city.pass_hours(secs(24 * 3600)).await;
    assert_eq!(count(&city, "often"), 64);
    drop(hang);
    city.pass(secs(60)).await;
    assert!(count(&city, "often") > 64);
}
