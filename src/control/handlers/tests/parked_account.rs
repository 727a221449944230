//! Texts that people may send to agents of a parked account.

use std::time::Duration;

use serde_json::json;

use super::{PATROL, ask};
use crate::actors::conversation;
use crate::control::protocol::ErrorKind;
use crate::domain::city::City;
use crate::domain::ids::ChildId;
use crate::domain::question::Pattern;
use crate::ports::sessions::Sessions;
use crate::testing::world::Scenario;

const MINUTE: Duration = Duration::from_secs(60);

fn looks(city: &mut City) {
    for harness in city.harnesses.values_mut() {
        let limit = Pattern::new(r"at your limit(?: until (?P<until>\S+))?");
        harness.patterns.limit = limit.into_iter().collect();
        harness.patterns.input = Pattern::new("^> ").into_iter().collect();
        harness.resume = vec!["--resume".into(), "{session_id}".into()];
    }
}

/// Contract 2.3, exit 9: a long limit has ended the session; a session that waits for its turn gets no input.
#[tokio::test(start_paused = true)]
async fn text_for_an_agent_that_is_held_is_refused_as_parked_until_its_turn() {
    let city = Scenario::new().with(looks).start().await;
    let (ended, kept) = (city.worker("one").await, city.worker("two").await);
    let sessions = &city.parts.sessions;
    let id = ChildId::Raider(ended.raider.clone());
    let handle = city.view(&id).await.unwrap().session.unwrap().handle;
    sessions
        .set_meta(&handle, conversation::CONVERSATION, "c-1")
        .unwrap();
    let now = city.world.clock.now();
    let screen = format!("at your limit until {}\n> ", now + MINUTE * 300);
    sessions.show(&ended.session, Some(&screen));
    sessions.set_last_activity(&ended.session, Some(now));
    city.pass(PATROL * 3).await;
    assert!(!city.runs(&ended.session) && city.runs(&kept.session));
    let send = async |name: &str| {
        let args = json!({ "name": name, "text": "Go on" });
        ask(&city, "send", args).await
    };
    for name in [ended.raider.name.as_str(), kept.raider.name.as_str()] {
        let refused = send(name).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Parked, "{name}: {refused:?}");
        assert!(refused.message.contains("at your limit"), "{refused:?}");
    }
    assert!(sessions.sent(&kept.session).is_empty());
}
