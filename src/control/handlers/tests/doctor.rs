//! `doctor`: objects without an owner are found, told apart from owned ones, and removed without loss.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ask, dispatch};
use crate::actors::directory::NotInForce;
use crate::control::protocol::{ErrorKind, Op};
use crate::control::rights::CallerRole;
use crate::control::server::Caller;
use crate::control::snapshot::Published;
use crate::domain::city::RestartType;
use crate::domain::event::EventType;
use crate::domain::ids::{Generation, Incarnation, RelicId, SessionId, SlotName};
use crate::ports::repo::{Repo, RepoError, SandboxSpec};
use crate::ports::sessions::{SessionSpec, Sessions};
use crate::ports::tasks::Leftovers;
use crate::testing::hang::Hang;
use crate::testing::world::{Scenario, TestCity, raider};

async fn doctor(city: &TestCity, fix: bool) -> Value {
    ask(city, "doctor", json!({ "fix": fix })).await.unwrap()
}

/// Returns kind and subject of each finding, and whether it was fixed.
fn finding_keys(answer: &Value) -> Vec<(&str, &str, bool)> {
    fn text<'a>(finding: &'a Value, key: &str) -> &'a str {
        finding[key].as_str().unwrap()
    }
    let findings = answer["findings"].as_array().unwrap().iter();
    let told = findings.map(|it| (text(it, "kind"), text(it, "subject"), it["fixed"] == true));
    told.collect()
}

/// Makes a sandbox without a hook.
fn stray(city: &TestCity, name: &str) {
    let path = city.world.city.sandbox(&raider(name));
    let spec = SandboxSpec {
        raider: raider(name),
        relic: RelicId::new("gt-90").unwrap(),
        incarnation: Incarnation(1),
        branch: format!("raider/{name}/gt-90-1"),
        base: city.parts.repo.tip(),
        path,
        task_dir: "/tasks".into(),
        copy: Vec::new(),
    };
    city.parts.repo.make_sandbox(&spec).unwrap();
}

fn orphan(city: &TestCity, id: &str) -> SessionId {
    let id = SessionId::new(id).unwrap();
    let spec = SessionSpec {
        id: id.clone(),
        generation: Generation(1),
        incarnation: Incarnation(1),
        argv: vec!["agent".into()],
        env: Default::default(),
        cwd: "/".into(),
        output_limit: 0,
        meta: Default::default(),
    };
    city.parts.sessions.start(&spec).unwrap();
    id
}

#[tokio::test(start_paused = true)]
async fn a_city_at_work_has_nothing_wrong_with_it() {
    let scenario = Scenario::new().agent("mayor", RestartType::Permanent);
    let city = scenario.start().await;
    let charged = city.worker("a").await;
    let repo = &city.parts.repo;
    repo.leave_branch("raider/Toast/side-work", true);
    repo.leave_branch(&format!("raider/Rust/{}-7", charged.relic), true);
    for fix in [false, true] {
        let answer = doctor(&city, fix).await;
        let git = "git version 2.47.3";
        assert_eq!(answer["ok"], true);
        assert_eq!(answer["findings"], json!([]));
        assert_eq!(answer["git"], git);
    }
    assert_eq!(city.parts.sessions.running().len(), 2);
    assert_eq!(repo.count("drop_branch"), 0);
}

#[tokio::test(start_paused = true)]
async fn unowned_leftovers_are_found_and_then_mended() {
    let city = Scenario::new().start().await;
    let working = city.worker("a").await;
    let ghost = orphan(&city, "gt-horde-Ghost");
    stray(&city, "Rust");
    city.parts.repo.leave_branch("raider/Ghost/gt-99-1", true);
    let trash = vec!["/trash/a".into()];
    let outbox = vec![("/outbox/1-2.refused".into(), None)];
    city.parts.tasks.litter(Leftovers { trash, outbox });
    let wrong = |fixed| {
        [
            ("orphan_session", ghost.as_str(), fixed),
            ("stray_sandbox", "horde/raiders/Rust", fixed),
            ("stray_branch", "horde raider/Ghost/gt-99-1", fixed),
            ("trash", "trash", fixed),
            ("outbox", "/outbox/1-2.refused", fixed),
        ]
    };
    let seen = doctor(&city, false).await;
    assert_eq!(finding_keys(&seen), wrong(false));
    assert_eq!(seen["ok"], false);
    assert!(
        city.parts.sessions.running().contains(&ghost),
        "a look changes nothing"
    );
    let mended = doctor(&city, true).await;
    assert_eq!(finding_keys(&mended), wrong(true), "{mended}");
    assert_eq!(mended["ok"], true);
    assert_eq!(doctor(&city, false).await["findings"], json!([]));
    assert_eq!(city.parts.sessions.running(), [working.session]);
    assert_eq!(city.parts.repo.names(), [working.raider.name.to_string()]);
    assert_eq!(city.events(EventType::AgentOrphanStopped).await.len(), 1);
    assert_eq!(city.events(EventType::RaiderNuked).await.len(), 1);
    assert_eq!(city.events(EventType::BranchDropped).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn leftovers_with_work_are_not_mended_away() {
    let city = Scenario::new().start().await;
    stray(&city, "Rust");
    city.parts
        .repo
        .dirty(&SlotName::new("Rust").unwrap(), "half");
    city.parts.repo.leave_branch("raider/Ghost/gt-99-1", false);
    let answer = doctor(&city, true).await;
    assert_eq!(answer["ok"], false);
    for finding in answer["findings"].as_array().unwrap() {
        assert_eq!(finding["fixable"], false, "{finding}");
        assert!(
            finding["hint"].as_str().unwrap().contains("kept"),
            "{finding}"
        );
    }
    assert_eq!(finding_keys(&answer).len(), 2);
    assert_eq!(city.parts.repo.names(), ["Rust"]);
    assert_eq!(city.parts.repo.count("drop_branch"), 0);
    assert!(city.parts.repo.salvages().is_empty());
}

/// The first look found nothing to lose; then the agent wrote something before the removal.
#[tokio::test(start_paused = true)]
async fn a_stray_sandbox_is_judged_again_when_it_is_removed() {
    let city = Scenario::new().start().await;
    stray(&city, "Rust");
    let repo = std::sync::Arc::downgrade(&city.parts.repo);
    city.parts.repo.interlude("discard_sandbox", move || {
        let repo = repo.upgrade().unwrap();
        repo.dirty(&SlotName::new("Rust").unwrap(), "late");
    });
    let answer = doctor(&city, true).await;
    assert_eq!(
        finding_keys(&answer),
        [("stray_sandbox", "horde/raiders/Rust", false)]
    );
    assert_eq!(city.parts.repo.names(), ["Rust"]);
    let sagas = city.store(|txn| txn.sagas(None)).await;
    assert!(sagas.is_empty(), "{sagas:?}");
}

/// An object that cannot be read at present may have an owner, so it is left alone.
#[tokio::test(start_paused = true)]
async fn unobservable_session_is_reported_and_left_alone() {
    let city = Scenario::new().start().await;
    let ghost = orphan(&city, "gt-horde-Ghost");
    city.parts.sessions.hide(&ghost, Some("no answer"));
    let answer = doctor(&city, true).await;
    assert_eq!(finding_keys(&answer), [("unseen", ghost.as_str(), false)]);
    city.parts.sessions.blind(Some("no sessions"));
    let answer = doctor(&city, true).await;
    assert_eq!(finding_keys(&answer), [("unseen", "sessions", false)]);
    assert!(city.parts.sessions.stops().is_empty());
}

/// A program that cannot be looked for is not called missing, and hides no other finding.
#[tokio::test(start_paused = true)]
async fn a_program_that_cannot_be_looked_for_is_not_called_missing() {
    let scenario = Scenario::new().agent("mayor", RestartType::Permanent);
    let scenario = scenario.agent("crew", RestartType::Permanent);
    let scenario = scenario.with(|city| {
        city.agents[0].command[0] = "/is-not-seen/claude".into();
        city.agents[1].command[0] = "/is-not-there/claude".into();
    });
    let answer = doctor(&scenario.start().await, false).await;
    let wrong = [
        ("program", "agent crew", false),
        ("unseen", "agent mayor", false),
    ];
    assert_eq!(finding_keys(&answer), wrong);
    let says = answer["findings"][1]["says"].as_str().unwrap();
    assert!(says.contains("input/output error"), "{says}");
}

#[tokio::test(start_paused = true)]
async fn caller_with_read_rights_may_not_mend() {
    let city = Scenario::new().start().await;
    stray(&city, "Rust");
    let toast = city.worker("a").await.session;
    let asked = |who: CallerRole, fix: bool| {
        let caller = Caller::stand_in(None, who);
        let args = json!({ "fix": fix }).as_object().unwrap().clone();
        let op = Op::parse("doctor".parse().unwrap(), args).unwrap();
        let world = city.world.newest();
        async move { dispatch(&Published::default(), &world, caller, op).await }
    };
    for who in [CallerRole::Raider(toast), CallerRole::Unrecognised] {
        assert_eq!(asked(who.clone(), false).await.unwrap()["ok"], false);
        let refused = asked(who, true).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden);
    }
    city.pass(Duration::from_secs(1)).await;
    assert_eq!(city.parts.repo.discarded(), []);
}

/// The sandbox holds a slot; no owner can be read.
#[tokio::test(start_paused = true)]
async fn a_sandbox_that_cannot_be_read_is_named_and_kept() {
    let city = Scenario::new().start().await;
    stray(&city, "Rust");
    let damaged = RepoError::Failed("its gitdir is damaged".into());
    city.parts.repo.break_op("provenance", damaged);
    let answer = doctor(&city, true).await;
    assert_eq!(
        finding_keys(&answer),
        [("unseen", "horde/raiders/Rust", false)]
    );
    let says = answer["findings"][0]["says"].as_str().unwrap();
    assert!(says.contains("its gitdir is damaged"), "{says}");
    let nuke = json!({ "name": "Rust", "salvage": true, "yes": true });
    let refused = ask(&city, "raider.nuke", nuke).await.unwrap_err();
    assert!(
        refused.message.contains("its gitdir is damaged"),
        "{refused:?}"
    );
    assert_eq!(city.parts.repo.names(), ["Rust"]);
}

/// The sandboxes of a rig are named even if another rig cannot be read.
#[tokio::test(start_paused = true)]
async fn a_rig_that_cannot_be_read_hides_only_its_own_sandboxes() {
    let city = Scenario::new().with(|city| {
        let mut other = city.rigs[0].clone();
        other.name = "broken".parse().unwrap();
        city.rigs.insert(0, other);
    });
    let city = city.start().await;
    stray(&city, "Rust");
    let nuke = |name: &str| json!({ "name": name, "dry_run": true });
    for name in ["Rust", "horde/Rust"] {
        let looked = ask(&city, "raider.nuke", nuke(name)).await.unwrap();
        assert_eq!(looked["raider"], "horde/raiders/Rust");
        assert_eq!(looked["safe"], true);
    }
    let unknown = ask(&city, "raider.nuke", nuke("broken/Rust")).await;
    let unknown = unknown.unwrap_err();
    assert!(unknown.message.contains("broken"), "{unknown:?}");
}

/// Consent to the removal of one incarnation is no consent to that of the next.
#[tokio::test(start_paused = true)]
async fn a_nuke_of_an_incarnation_that_is_gone_is_refused() {
    let city = Scenario::new().start().await;
    let charged = city.charged("a").await;
    let look = json!({ "name": "Toast", "dry_run": true });
    let seen = ask(&city, "raider.nuke", look).await.unwrap();
    assert_eq!(seen["incarnation"], 1);
    city.nuke(&charged.raider, false).await.unwrap();
    let again = city.charge(&charged.relic).await.unwrap();
    assert_eq!((&again.raider, again.incarnation.0), (&charged.raider, 2));
    let nuke = |n: u64| json!({ "name": "Toast", "incarnation": n, "yes": true });
    let refused = ask(&city, "raider.nuke", nuke(1)).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict);
    assert!(city.runs(&again.session));
    ask(&city, "raider.nuke", nuke(2)).await.unwrap();
    assert!(city.parts.repo.names().is_empty());
}

#[tokio::test(start_paused = true)]
async fn branch_in_the_place_of_the_raiders_branches_is_found() {
    let city = Scenario::new().start().await;
    assert_eq!(doctor(&city, false).await["ok"], true);
    city.parts.repo.push_of_person("raider");
    let answer = doctor(&city, false).await;
    assert_eq!(finding_keys(&answer), [("repository", "horde", false)]);
    let says = answer["findings"][0]["says"].as_str().unwrap();
    assert!(says.contains("has a branch raider"), "{says}");
}

#[tokio::test(start_paused = true)]
async fn target_that_the_remote_does_not_have_is_found() {
    let scenario = |push| {
        Scenario::new().rig(move |rig| {
            rig.forge.target = Some("nobranch".to_owned());
            rig.forge.push = push;
        })
    };
    let city = scenario(true).start().await;
    let answer = doctor(&city, false).await;
    assert_eq!(finding_keys(&answer), [("repository", "horde", false)]);
    let says = answer["findings"][0]["says"].as_str().unwrap();
    assert!(says.contains("has no branch nobranch"), "{says}");
    let away = RepoError::Remote("it is away".to_owned());
    city.parts.repo.fail("remote_head", away);
    assert_eq!(doctor(&city, false).await["ok"], true, "the remote is away");
    let hang = Hang::default();
    let door = hang.door();
    let repo = &city.parts.repo;
    repo.interlude("remote_head", move || door.enter());
    let waits = async {
        city.until("the remote is asked", || hang.entered() == 2)
            .await;
        tokio::time::advance(Duration::from_secs(20)).await;
    };
    let (answer, ()) = tokio::join!(doctor(&city, false), waits);
    assert_eq!(answer["ok"], true, "the remote hangs");
    assert_eq!(hang.entered(), 2);
    hang.release();
    let city = scenario(false).start().await;
    assert_eq!(doctor(&city, false).await["ok"], true, "nothing is pushed");
}

/// Keys that take effect at the next start are no problem.
#[tokio::test(start_paused = true)]
async fn refused_configuration_is_a_finding_and_a_pending_key_is_none() {
    let city = Scenario::new().start().await;
    for (why, findings) in [
        (NotInForce::AtNextStart("[daemon] socket".to_owned()), 0),
        (NotInForce::Refused("the name is another".to_owned()), 1),
    ] {
        city.world.directory.set_reload_error(Some(why));
        let answer = doctor(&city, false).await;
        let config = ("config", city.world.city.name.as_str(), false);
        assert_eq!(finding_keys(&answer), vec![config; findings]);
    }
}
