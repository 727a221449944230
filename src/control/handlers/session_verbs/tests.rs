//! Tests of the verbs of a raider's session.

use serde_json::json;

use super::*;
use crate::actors::accounts;
use crate::control::protocol::ErrorKind;
use crate::control::rights::CallerRole;
use crate::domain::account::{AccountReport, Why};
use crate::domain::event::EventType;
use crate::testing::hang::Hang;
use crate::testing::world::Scenario;

const PID: u32 = 4242;

/// Weakness W14 of an earlier system: the lock of an identity held the pid of the command that had asked for it. That had
/// ended, so the lock was always stale, and any session could take the identity.
#[tokio::test(start_paused = true)]
async fn identity_outlives_the_command_that_asked_for_it_and_no_other_session_takes_it() {
    let (city, charged) = Scenario::at_work().await;
    let other = city.worker("other").await;
    let speaks = async |pid, session: &SessionId| {
        let caller = Caller::stand_in(pid, CallerRole::Raider(session.clone()));
        rally(&city.world, &caller).await
    };
    city.parts.sessions.place(PID, &charged.session);
    let first = speaks(PID, &charged.session).await.unwrap();
    assert_eq!(first["raider"], charged.raider.to_string());
    // That command has ended; its pid is that of a process of another session now.
    city.parts.sessions.place(PID, &other.session);
    let late = speaks(PID, &charged.session).await.unwrap_err();
    assert_eq!(late.kind, ErrorKind::Forbidden, "{late}");
    // The identity is that of the session, which lives: its next command has it.
    city.parts.sessions.place(PID + 1, &charged.session);
    let next = speaks(PID + 1, &charged.session).await.unwrap();
    assert_eq!(next["raider"], first["raider"]);
    let own = speaks(PID, &other.session).await.unwrap();
    assert_eq!(own["raider"], other.raider.to_string());
    // Nor does the supervisor start another session with this identity while it lives.
    city.pass(std::time::Duration::from_secs(300)).await;
    assert_eq!(city.starts(&charged.session), 1);
    assert_eq!(city.parts.sessions.doubles(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_connection_speaks_for_the_session_it_was_opened_in_only() {
    let (city, charged) = Scenario::at_work().await;
    let session = charged.session.clone();
    let caller = Caller::stand_in(PID, CallerRole::Raider(session.clone()));
    // A process of an earlier session of this name belongs to no running session.
    let late = hook(&city.world, &caller).await.unwrap_err();
    assert_eq!(late.kind, ErrorKind::Forbidden);
    city.parts.sessions.place(PID, &session);
    let own = hook(&city.world, &caller).await.unwrap();
    assert_eq!(own["hook"]["relic"], charged.relic.as_str());
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_a_day_at_most() {
    let (city, charged) = Scenario::at_work().await;
    city.parts.sessions.place(PID, &charged.session);
    let caller = Caller::stand_in(PID, CallerRole::Raider(charged.session.clone()));
    let declare = async |duration: &str| {
        let (duration, reason) = (duration.into(), "a build".into());
        wait(&city.world, &caller, args::Wait { duration, reason }).await
    };
    declare("24h").await.unwrap();
    for long in ["24h 1s", "8000h"] {
        let refused = declare(long).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::BadRequest);
    }
}

/// A note is stored, journalled and typed into a prompt, which may be an argument of a command.
#[tokio::test(start_paused = true)]
async fn notes_and_reasons_of_a_raider_are_16_kib_at_most() {
    let (city, charged) = Scenario::at_work().await;
    city.parts.sessions.place(PID, &charged.session);
    let caller = Caller::stand_in(PID, CallerRole::Raider(charged.session.clone()));
    let long = "x".repeat(16 * 1024 + 1);
    let note = args::Handoff {
        message: Some(long.clone()),
        ..args::Handoff::default()
    };
    let status = json!({ "status": "escalated", "reason": long });
    let duration = "10m".to_owned();
    for refused in [
        handoff(&city.world, &caller, note).await,
        done(
            &city.world,
            &caller,
            &serde_json::from_value(status).unwrap(),
        )
        .await,
        wait(
            &city.world,
            &caller,
            args::Wait {
                duration,
                reason: long,
            },
        )
        .await,
    ] {
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::BadRequest);
        assert!(refused.message.contains("16 KiB"), "{refused}");
    }
    city.settle().await;
    assert_eq!(city.starts(&charged.session), 1);
    assert!(city.events(EventType::RaiderHandoff).await.is_empty());
}

/// A disk that hangs kept the verbs of a session waiting.
#[tokio::test(start_paused = true)]
async fn sessions_verb_waits_half_a_minute_for_git_and_goes_on_without_its_answer() {
    for verb in ["rally", "handoff"] {
        let (city, charged) = Scenario::at_work().await;
        city.parts.sessions.place(PID, &charged.session);
        let caller = Caller::stand_in(PID, CallerRole::Raider(charged.session.clone()));
        let hang = Hang::default();
        let door = hang.door();
        city.parts.repo.interlude("measure", move || door.enter());
        let asked = async {
            match verb {
                "rally" => rally(&city.world, &caller).await,
                _ => handoff(&city.world, &caller, args::Handoff::default()).await,
            }
        };
        let time = async {
            city.until("git hangs", || hang.entered() > 0).await;
            tokio::time::advance(FACTS_LIMIT + std::time::Duration::from_secs(1)).await;
        };
        let (told, ()) = tokio::join!(asked, time);
        let told = told.unwrap();
        if verb == "rally" {
            let unknown = told["git"]["unknown"].as_str().unwrap();
            assert!(unknown.contains("30s"), "{unknown}");
        }
        hang.release();
        city.settle().await;
        let handed_off = city.events(EventType::RaiderHandoff).await.len();
        assert_eq!(handed_off, usize::from(verb == "handoff"));
    }
}

/// A session that completes shows that the limit on its screen was none (an old log, say). The session ends then,
/// so no other could tell that.
#[tokio::test(start_paused = true)]
async fn session_that_completes_ends_the_park_that_it_told_of() {
    let (city, charged) = Scenario::at_work().await;
    city.parts.sessions.place(PID, &charged.session);
    let caller = Caller::stand_in(PID, CallerRole::Raider(charged.session.clone()));
    let harness = city.world.city.harnesses.keys().next().unwrap();
    let trouble = AccountReport {
        why: Why::RateLimited,
        text: "at your limit".to_owned(),
        until: None,
        fresh: false,
    };
    let child = ChildId::Raider(charged.raider.clone());
    accounts::report_trouble(&city.world, &child, harness, trouble);
    assert!(accounts::refuse_parked(&city.world, harness).is_err());
    let args = serde_json::from_value(json!({ "status": "completed" })).unwrap();
    done(&city.world, &caller, &args).await.unwrap();
    city.settle().await;
    assert!(accounts::refuse_parked(&city.world, harness).is_ok());
    assert_eq!(city.events(EventType::AccountResumed).await.len(), 1);
}

/// The session's own login is in its memory: it tells nothing about the login of another session.
#[tokio::test(start_paused = true)]
async fn session_that_completes_does_not_end_the_login_that_another_one_waits_for() {
    let (city, charged) = Scenario::at_work().await;
    let other = city.worker("b").await;
    city.parts.sessions.place(PID, &charged.session);
    let caller = Caller::stand_in(PID, CallerRole::Raider(charged.session.clone()));
    let harness = city.world.city.harnesses.keys().next().unwrap();
    let trouble = AccountReport {
        why: Why::Auth,
        text: "please log in".to_owned(),
        until: None,
        fresh: true,
    };
    accounts::report_trouble(
        &city.world,
        &ChildId::Raider(other.raider),
        harness,
        trouble,
    );
    let args = serde_json::from_value(json!({ "status": "completed" })).unwrap();
    done(&city.world, &caller, &args).await.unwrap();
    city.settle().await;
    assert!(accounts::refuse_parked(&city.world, harness).is_err());
}

/// The session of a slot keeps its name over incarnations.
#[tokio::test(start_paused = true)]
async fn late_process_of_an_earlier_incarnation_has_no_rights() {
    let city = Scenario::new().start().await;
    let earlier = city.worker("a").await;
    city.parts.sessions.place(PID, &earlier.session);
    let caller = Caller::stand_in(PID, CallerRole::Raider(earlier.session.clone()));
    city.nuke(&earlier.raider, true).await.unwrap();
    let next = city.worker("b").await;
    assert_eq!(next.session, earlier.session);
    let args = serde_json::from_value(json!({ "status": "completed" })).unwrap();
    let note = args::Handoff::default();
    for refused in [
        done(&city.world, &caller, &args).await,
        handoff(&city.world, &caller, note).await,
        hook(&city.world, &caller).await,
        rally(&city.world, &caller).await,
    ] {
        assert_eq!(refused.unwrap_err().kind, ErrorKind::Forbidden);
    }
    city.settle().await;
    assert!(city.events(EventType::RaiderDone).await.is_empty());
    assert_eq!(city.starts(&next.session), 2);
    assert!(city.runs(&next.session));
}
