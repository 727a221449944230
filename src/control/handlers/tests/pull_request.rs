//! `hd mq pr`: a pull request through the rig's command.

use std::path::Path;

use super::*;
use crate::actors::sagas::pull_request;
use crate::domain::asker::Asker;
use crate::domain::pull_request::PrCommand;
use crate::domain::self_review::{Round, Verdict};

fn command() -> PrCommand {
    let words = [
        "gh",
        "--title",
        "{title}",
        "--body-file",
        "{body_file}",
        "{branch}",
    ];
    PrCommand::new(words.map(str::to_owned).into()).unwrap()
}

async fn city(command: Option<PrCommand>) -> (TestCity, RelicId) {
    let scenario = Scenario::new().rig(|rig| {
        rig.forge.review_human = true;
        rig.forge.pr = command;
    });
    let city = scenario.start().await;
    let relic = submitted(&city).await;
    (city, relic)
}

/// Records a round of self-review of the submitted work.
async fn reviewed(city: &TestCity, relic: &RelicId, note: &str) {
    let mr = city.mr(relic).await.unwrap();
    let round = Round {
        relic: mr.relic,
        raider: mr.raider,
        incarnation: mr.incarnation,
        round: 1,
        verdict: Verdict::Passed,
        note: Some(note.to_owned()),
        at: city.world.clock.now(),
    };
    city.store(move |txn| txn.add_self_review(&round)).await;
}

/// The texts of the relic and the notes of its raider reach the command as variables and a file.
#[tokio::test(start_paused = true)]
async fn pull_request_is_opened_once_and_its_address_is_shown() {
    let (city, relic) = city(Some(command())).await;
    reviewed(&city, &relic, "a test of the flag is there").await;
    let line = command().line();
    let printed = "Creating pull request\nhttps://host/pr/7\n";
    city.parts.runner.set_output(&line, printed);
    let said = ask(&city, "mq.pr", json!({ "mr": relic })).await.unwrap();
    assert_eq!(
        (&said["url"], &said["already"]),
        (&json!("https://host/pr/7"), &json!(false))
    );
    let mr = city.mr(&relic).await.unwrap();
    let ran = city.parts.runner.started(&line);
    let env = &ran[0].env;
    assert_eq!(env["HD_PR_BRANCH"], mr.branch);
    assert_eq!(env["HD_PR_TITLE"], city.relic_now(&relic).await.title);
    let text = city.parts.tasks.beside(Path::new(&env["HD_PR_BODY_FILE"]));
    let text = text.unwrap();
    for part in [relic.as_str(), "- passed: a test of the flag is there"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // By its raider, again: it is known.
    let again = ask(&city, "mq.pr", json!({ "mr": "Toast" })).await.unwrap();
    assert_eq!(
        (&again["url"], &again["already"]),
        (&json!("https://host/pr/7"), &json!(true))
    );
    assert_eq!(city.parts.runner.started(&line).len(), 1);
    let shown = ask(&city, "mq.show", json!({ "mr": mr.id })).await.unwrap();
    assert_eq!(shown["pr"], "https://host/pr/7");
    assert_eq!(city.events(EventType::MrPrOpened).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn command_that_fails_or_prints_no_address_opens_nothing() {
    let (city, relic) = city(Some(command())).await;
    let line = command().line();
    for (output, code, expected) in [
        ("no such repository", 1, "exited with 1: no such repository"),
        ("created", 0, "printed no address: created"),
    ] {
        city.parts.runner.set_output(&line, output);
        city.parts
            .runner
            .let_go(&line, Duration::from_secs(1), code);
        let refused = ask(&city, "mq.pr", json!({ "mr": relic }))
            .await
            .unwrap_err();
        assert!(refused.message.contains(expected), "{refused}");
    }
    assert_eq!(city.mr(&relic).await.unwrap().pr, None);
}

#[tokio::test(start_paused = true)]
async fn rig_without_a_command_says_how_to_set_one() {
    let (city, relic) = city(None).await;
    let refused = ask(&city, "mq.pr", json!({ "mr": relic }))
        .await
        .unwrap_err();
    assert!(refused.hint.unwrap().contains("[rigs.forge] pr = "));
    // The work has ended: there is nothing to open.
    let reject = json!({ "mr": city.mr(&relic).await.unwrap().id, "note": "no", "yes": true });
    ask(&city, "mq.reject", reject).await.unwrap();
    let refused = ask(&city, "mq.pr", json!({ "mr": relic }))
        .await
        .unwrap_err();
    assert!(refused.message.contains("has ended"), "{refused}");
}

/// Both calls found the former one, and the second waited for its turn.
#[tokio::test(start_paused = true)]
async fn calls_for_another_pull_request_at_the_same_time_open_one() {
    let (city, relic) = city(Some(command())).await;
    let line = command().line();
    city.parts.runner.set_output(&line, "https://host/pr/7");
    let seen = city.mr(&relic).await.unwrap();
    for already in [false, true] {
        let opened = pull_request::open(&city.world, seen.clone(), true, &Asker::person()).await;
        let opened = opened.unwrap();
        assert_eq!(opened.already, already);
        assert_eq!(opened.mr.pr.as_deref(), Some("https://host/pr/7"));
    }
    assert_eq!(city.parts.runner.started(&line).len(), 1);
}

/// The branch's next merge request has the address of a pull request that a person closed at the host.
#[tokio::test(start_paused = true)]
async fn pull_request_that_was_closed_at_the_host_is_opened_anew() {
    let (city, relic) = city(Some(command())).await;
    let line = command().line();
    for (args, url, already) in [
        (json!({ "mr": relic }), "https://host/pr/7", false),
        (json!({ "mr": relic }), "https://host/pr/7", true),
        (
            json!({ "mr": relic, "anew": true }),
            "https://host/pr/8",
            false,
        ),
        (json!({ "mr": relic }), "https://host/pr/8", true),
    ] {
        if !already {
            city.parts.runner.set_output(&line, url);
        }
        let said = ask(&city, "mq.pr", args).await.unwrap();
        assert_eq!(
            (&said["url"], &said["already"]),
            (&json!(url), &json!(already))
        );
    }
    assert_eq!(city.parts.runner.started(&line).len(), 2);
    assert_eq!(city.events(EventType::MrPrOpened).await.len(), 2);
}
