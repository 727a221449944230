//! Conversations that are compacted: the text that their sessions are told.

use super::accounts::{MINUTE, PATROL, child, city, harness, looks, show};
use crate::actors::claims::ClaimKey;
use crate::actors::{accounts, conditions};
use crate::domain::account::{AccountReport, Why};
use crate::domain::city::{OnCompact, RestartType};
use crate::domain::condition::Report;
use crate::domain::ids::ChildId;
use crate::ports::sessions::Input;
use crate::testing::world::{Scenario, agent};

/// A session whose conversation is compacted is told the state of its task, once.
#[tokio::test(start_paused = true)]
async fn shortened_conversation_is_followed_by_a_rally() {
    let city = city().await;
    let charged = city.worker("one").await;
    show(&city, &charged.session, "> ");
    city.pass(PATROL).await;
    let view = city.view(&child(&charged)).await.unwrap();
    let handle = view.session.unwrap().handle;
    for _ in 0..2 {
        assert!(conditions::report(&city.world, &handle, &Report::Compacts));
    }
    city.pass(MINUTE).await;
    let sent = city.parts.sessions.sent(&charged.session);
    let of_it = |input: &&Input| matches!(input, Input::Submit(text) | Input::Paste(text) if text.contains("was compacted"));
    assert_eq!(sent.iter().filter(of_it).count(), 1, "{sent:?}");
    // At a limit nothing is typed; afterwards it is, in time.
    let limit = AccountReport {
        why: Why::RateLimited,
        text: "at your limit".to_owned(),
        until: city.world.clock.now().checked_add(MINUTE * 40).ok(),
        fresh: true,
    };
    accounts::report_trouble(
        &city.world,
        &ChildId::Agent("other".parse().unwrap()),
        &harness(&city),
        limit,
    );
    assert!(conditions::report(&city.world, &handle, &Report::Compacts));
    let times = || {
        let sent = city.parts.sessions.sent(&charged.session);
        sent.iter().filter(of_it).count()
    };
    city.pass_hours(MINUTE * 39).await;
    assert_eq!(times(), 1);
    city.pass(MINUTE * 5).await;
    assert_eq!(times(), 2);
}

/// Other text was being typed for too long: without a retry the agent would not know its task.
#[tokio::test(start_paused = true)]
async fn rally_after_a_shortened_conversation_is_typed_again_when_it_was_refused() {
    let city = city().await;
    let charged = city.worker("one").await;
    show(&city, &charged.session, "> ");
    city.pass(PATROL).await;
    let view = city.view(&child(&charged)).await.unwrap();
    let handle = view.session.unwrap().handle;
    let other = ClaimKey::Typing(handle.token.clone());
    let other = city.world.claims.claim(other).unwrap();
    assert!(conditions::report(&city.world, &handle, &Report::Compacts));
    city.pass(MINUTE * 2).await;
    drop(other);
    city.pass(MINUTE).await;
    let sent = city.parts.sessions.sent(&charged.session);
    let of_it = |input: &&Input| matches!(input, Input::Submit(text) | Input::Paste(text) if text.contains("was compacted"));
    assert_eq!(sent.iter().filter(of_it).count(), 1, "{sent:?}");
}

/// `[rigs.raiders] on_compact`: it hands off while it still remembers, or nothing is typed.
#[tokio::test(start_paused = true)]
async fn session_gets_the_rigs_instructions_after_a_compaction() {
    for (on_compact, words) in [
        (OnCompact::Handoff, Some("handoff -m")),
        (OnCompact::Nothing, None),
    ] {
        let scenario = Scenario::new().with(looks);
        let scenario = scenario.rig(|rig| rig.raiders.on_compact = on_compact);
        let city = scenario.start().await;
        let charged = city.worker("one").await;
        show(&city, &charged.session, "> ");
        city.pass(PATROL).await;
        let view = city.view(&child(&charged)).await.unwrap();
        let handle = view.session.unwrap().handle;
        assert!(conditions::report(&city.world, &handle, &Report::Compacts));
        city.pass(MINUTE).await;
        let sent = city.parts.sessions.sent(&charged.session);
        let said = |words: &str| {
            sent.iter().any(|input| matches!(input, Input::Submit(text) | Input::Paste(text) if text.contains(words)))
        };
        match words {
            Some(words) => assert!(said(words) && !said("was compacted"), "{sent:?}"),
            None => assert!(sent.is_empty(), "{sent:?}"),
        }
    }
}

/// A standing agent loses its context as well: `on_compact` of `[[agents]]` says what it is told.
#[tokio::test(start_paused = true)]
async fn standing_agent_is_told_after_a_compaction_as_its_configuration_says() {
    for (on_compact, words) in [
        (OnCompact::Rally, Some("prints your name, your work")),
        (OnCompact::Handoff, Some("handoff -m")),
        (OnCompact::Nothing, None),
    ] {
        let scenario = Scenario::new().agent("mayor", RestartType::Permanent);
        let scenario = scenario.with(looks).with(|city| {
            city.agents[0].harness = city.harnesses.keys().next().cloned();
            city.agents[0].on_compact = on_compact;
        });
        let city = scenario.start().await;
        let id = agent("mayor");
        let session = city.session(&id);
        show(&city, &session, "> ");
        city.pass(PATROL).await;
        let handle = city.view(&id).await.unwrap().session.unwrap().handle;
        assert!(conditions::report(&city.world, &handle, &Report::Compacts));
        city.pass(MINUTE).await;
        let sent = city.parts.sessions.sent(&session);
        match words {
            Some(words) => {
                let of_it = |input: &&Input| matches!(input, Input::Submit(text) | Input::Paste(text) if text.contains(words));
                assert_eq!(sent.iter().filter(of_it).count(), 1, "{sent:?}");
            }
            None => assert!(sent.is_empty(), "{sent:?}"),
        }
    }
}
