//! A caller in a raider's session may act only as that raider, and commands that the supervisor runs on an agent's work
//! may only read; both are recognised by their processes (`contract.md`, 2.4; `rules.md`, security and flags).

use std::fs;
use std::os::unix::fs::PermissionsExt;

use assert_cmd::cargo::cargo_bin;
use serde_json::{Value, json};

use crate::support::git::write;
use crate::support::live::{City, until};
use crate::support::plan::Plan;

/// Returns the state of the city by read-only requests, to compare before and after.
fn state_of(city: &City) -> Value {
    let ask = |op: &str| city.ask(op, json!({})).unwrap();
    let raiders: Vec<_> = city.raiders().iter().map(|one| one["id"].clone()).collect();
    json!([
        raiders,
        ask("relic.list"),
        ask("agent.list"),
        ask("auto.list"),
        ask("salvage.list")
    ])
}

/// Asserts that each of these was forbidden, and that the journal has as many refusals of this subject.
fn assert_forbidden(city: &City, subject: &str, names: &[&str], prefix: &str) {
    for name in names {
        let error = city.wait_tried(&format!("{prefix}{name}")).error(1);
        assert_eq!(error["kind"], "forbidden", "{name}: {error}");
    }
    until("every refusal is told", || {
        city.happened("control.forbidden", subject).len() == names.len()
    });
}

/// Forbidden with any arguments, recorded in the journal, and without effect; looking is allowed.
#[test]
fn an_agent_may_not_act_on_others_or_on_the_city() {
    let mut city = City::made(&Plan::new().agent("mayor", "exec sleep 1000", ""));
    let own = "gate = \"manual\"\nexec = \"true\"\n";
    write(city.root(), "automations/own/automation.toml", own);
    city.start();
    let other = city.work("stay", &["sign other", "forever"]);
    let relic = city.work(
        "try",
        &[
            "sign ready",
            "await go",
            "try nuke hd --json raider nuke Toast --yes",
            "try own hd --json raider nuke Shadow --yes",
            "try unknown hd --json raider nuke Nobody --yes",
            "try stop hd --json stop",
            "try reload hd --json reload",
            "try approve hd --json mq approve gt-1",
            "try prune hd --json salvage prune --yes",
            "try auto hd --json auto run own",
            "try agent hd --json agent stop mayor",
            "try run hd --json run x -d",
            "try send hd --json send Toast hello",
            // Neither another session nor an empty environment hides the caller.
            "try aside setsid -w hd --json stop",
            "try bare env -i \"$(command -v hd)\" --city \"$HD_CITY\" --json stop",
            "try look hd --json status",
            // A name in the environment gives no rights.
            "try hook env HD_ACTOR=horde/raiders/Toast HD_RAIDER=Toast hd --json hook",
            "sign tried",
            "forever",
        ],
    );
    city.wait_sign("other");
    city.wait_sign("ready");
    let before = state_of(&city);
    city.sign("go");
    city.wait_sign("tried");
    let refused = [
        "nuke", "own", "unknown", "stop", "reload", "approve", "prune", "auto", "agent", "run",
        "send", "aside", "bare",
    ];
    assert_forbidden(&city, "gt-horde-Shadow", &refused, "");
    assert_eq!(city.wait_tried("look").json()["city"], "e2e");
    let hook = city.wait_tried("hook").json();
    assert_eq!(
        hook["relic"]["id"],
        relic.as_str(),
        "its own, not the other's {other}"
    );
    assert_eq!(state_of(&city), before);
}

/// Programs that agents write run in gates and set-up commands, outside every session.
#[test]
fn gates_and_set_ups_only_look() {
    let hd = cargo_bin("hd");
    let tries = |who: &str| format!("sh ../../../tries.sh {who} {} $PWD/../../..", hd.display());
    let gates = format!("[{{ name = \"test\", run = {:?} }}]", tries("gate"));
    let setup = format!("[{:?}]", tries("setup"));
    let plan = Plan::new().agent("mayor", "exec sleep 1000", "");
    let plan = plan.set("forge", "gates", &gates);
    let mut city = City::made(&plan.set("raiders", "setup", &setup));
    write(city.root(), "tries.sh", include_str!("../support/tries.sh"));
    let own = "gate = \"manual\"\nexec = \"true\"\n";
    write(city.root(), "automations/own/automation.toml", own);
    city.start();
    let relic = city.work("change", &["commit a.txt", "hd done"]);
    city.wait_status(&relic, "closed");
    let refused = [
        "stop", "nuke", "approve", "reload", "prune", "auto", "agent", "create", "done", "bare",
        "aside", "orphan",
    ];
    for who in ["setup-", "gate-"] {
        for name in refused {
            let error = city.wait_tried(&format!("{who}{name}")).error(1);
            assert_eq!(error["kind"], "forbidden", "{who}{name}: {error}");
        }
        assert_eq!(city.wait_tried(&format!("{who}look")).json()["city"], "e2e");
    }
    until("every refusal is told", || {
        city.happened("control.forbidden", "errand").len() == 2 * refused.len()
    });
    let relics = city.ask("relic.list", json!({})).unwrap();
    assert_eq!(relics.as_array().unwrap().len(), 1);
    assert!(city.happened("agent.stopped", "mayor").is_empty());
    assert!(city.happened("automation.fired", "own").is_empty());
}

/// The city's automations are its owner's programs; agents can write those of a repository.
#[test]
fn automations_of_the_city_have_their_owners_rights_and_those_of_a_rig_work_rights() {
    let hd = cargo_bin("hd");
    let mut city = City::made(&Plan::new());
    let toml = fs::read_to_string(city.root().join("city.toml")).unwrap();
    let trusting = "prefix = \"gt\"\ntrust_automations = true\n";
    write(
        city.root(),
        "city.toml",
        toml.replace("prefix = \"gt\"\n", trusting),
    );
    for (folder, name) in [
        ("automations", "of-city"),
        ("horde-checkout/.horde/automations", "of-rig"),
    ] {
        let signs = city.root().join("signs");
        let script = format!(
            "#!/bin/sh\nfor op in reload 'relic create made'; do\n\
             {} --json --city {} $op >/dev/null; echo $? >>{}/{name}\ndone\n",
            hd.display(),
            city.root().display(),
            signs.display()
        );
        write(city.root(), &format!("{name}.sh"), &script);
        let exec = city.root().join(format!("{name}.sh"));
        let toml = format!("gate = \"manual\"\nexec = \"sh {}\"\n", exec.display());
        write(
            city.root(),
            &format!("{folder}/{name}/automation.toml"),
            &toml,
        );
    }
    city.start();
    for (name, codes) in [("of-city", "0\n0\n"), ("of-rig", "1\n0\n")] {
        assert_eq!(city.hd(&["auto", "run", name, "--wait"]).code, 0);
        let told = fs::read_to_string(city.root().join("signs").join(name)).unwrap();
        assert_eq!(told, codes, "{name}");
    }
}

/// `rights` of an agent apply at once: the running session continues.
#[test]
fn agent_has_the_rights_of_the_present_configuration() {
    let script = "for n in 1 2 3; do until [ -e signs/go-$n ]; do sleep 0.05; done; \
        for op in 'relic create made' 'reload --dry-run' status; do \
        hd --json $op >/dev/null 2>&1; printf '%s ' $? >>signs/new-$n; done; \
        mv signs/new-$n signs/told-$n; done; sleep 1000";
    let mayor = |rights: &str| Plan::new().agent("mayor", script, &format!("rights = {rights:?}"));
    let mut city = City::made(&mayor("read"));
    city.start();
    for (n, rights, codes) in [
        (1, "read", "1 1 0 "),
        (2, "work", "0 1 0 "),
        (3, "all", "0 0 0 "),
    ] {
        write(city.root(), "city.toml", mayor(rights).toml());
        let told = city.hd(&["reload"]).json();
        assert_ne!(told["actions"][0]["action"], "restart", "{told}");
        city.sign(&format!("go-{n}"));
        city.wait_sign(&format!("told-{n}"));
        let told = fs::read_to_string(city.root().join(format!("signs/told-{n}"))).unwrap();
        assert_eq!(told, codes, "{rights}");
    }
    let refused = city.happened("control.forbidden", "e2e-mayor");
    assert_eq!(refused.len(), 3);
    assert_eq!(city.happened("agent.started", "mayor").len(), 1);
}

/// With the socket away no process can be recognised: an intent in the outbox must fit the raider that it names.
#[test]
fn another_raiders_done_is_not_taken_from_the_outbox() {
    let mut city = City::new();
    let other = city.work("stay", &["commit a.txt", "sign other", "forever"]);
    let forged = r#"printf '{"v":1,"op":"done","args":{},"raider":"%s","rig":"horde","incarnation":1,"relic":"gt-1","session":"%s","cwd":"%s","pid":1,"at":"2026-01-31T12:00:00Z"}' "#;
    let toast = r#"horde/raiders/Toast gt-horde-Toast "$PWD" >"$HD_CITY/.horde/outbox/1.json""#;
    let own = r#"for file in "$HD_CITY"/.horde/outbox/*.json; do sed -e "s,$HD_RAIDER,Toast,g" -e "s,$HD_RELIC,gt-1,g" "$file" >"$HD_CITY/.horde/outbox/3.new" && rm "$file"; done"#;
    let place = r#"mv "$HD_CITY/.horde/outbox/3.new" "$HD_CITY/.horde/outbox/3.json""#;
    let half = r#"horde/raiders/Toast "$HD_SESSION" "$HD_CITY/horde/raiders/Toast" >"$HD_CITY/.horde/outbox/2.json""#;
    city.work(
        "forge",
        &[
            "sign ready",
            "await down",
            "try named env HD_ACTOR=horde/raiders/Toast HD_RAIDER=Toast hd --json done",
            // The raider's own intent, with its signature, in the name of the other.
            "try own hd --json done",
            own,
            place,
            &format!("{forged}{toast}"),
            &format!("{forged}{half}"),
            "sign forged",
            "forever",
        ],
    );
    city.wait_sign("other");
    city.wait_sign("ready");
    city.kill();
    city.sign("down");
    city.wait_sign("forged");
    assert_eq!(city.wait_tried("named").code, 3, "it is not written down");
    city.start();
    for n in 1..=3 {
        let told = city.wait_event(n, "control.forbidden", "horde/raiders/Toast");
        assert!(told["data"]["outbox"].is_string(), "{told}");
    }
    for name in ["1.refused", "2.refused", "3.refused"] {
        assert!(city.root().join(".horde/outbox").join(name).exists());
    }
    assert_eq!(city.status_of(&other), "hooked");
    assert!(
        city.happened("raider.done", "horde/raiders/Toast")
            .is_empty()
    );
}

/// A hook of git also runs agents' programs, and may leave a process without parent, group and environment. It is
/// known after the supervisor that ran the hook was killed, too.
#[test]
fn process_left_behind_by_a_git_hook_has_read_rights() {
    let mut city = City::made(&Plan::new());
    let (root, hd) = (city.root().display().to_string(), cargo_bin("hd"));
    let signs = format!("{root}/signs");
    let stray = format!(
        "until [ -e {signs}/landed ]; do sleep 0.05; done; \
         {} --json --city {root} stop >{signs}/stray.out 2>{signs}/stray.err; \
         printf %s $? >{signs}/stray.new; mv {signs}/stray.new {signs}/stray",
        hd.display()
    );
    // Each push runs the hook; a single stray is enough.
    let hook = format!(
        "#!/bin/sh\nmkdir {signs}/once 2>/dev/null || exit 0\n\
         (setsid env -i /bin/sh -c 'PATH=/usr/bin:/bin; {stray}' >/dev/null 2>&1 </dev/null &)\n"
    );
    let path = city.root().join("horde-checkout/.git/hooks/pre-push");
    write(city.root(), "horde-checkout/.git/hooks/pre-push", &hook);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    city.start();
    let relic = city.work("change", &["commit a.txt", "hd done"]);
    city.wait_status(&relic, "closed");
    city.kill();
    city.start();
    city.sign("landed");
    let error = city.wait_tried("stray").error(1);
    assert_eq!(error["kind"], "forbidden", "{error}");
    city.wait_event(1, "control.forbidden", "errand");
}

/// A question in the agent's terminal would call a person, for a decision that the agent may not take.
#[test]
fn agent_is_asked_for_no_consent() {
    let city = City::new();
    let other = city.work("stay", &["sign other", "forever"]);
    city.wait_sign("other");
    // The agent's own terminal is at both ends.
    let close = format!("hd relic close {other} || [ $? = 2 ] && sign refused");
    let relic = city.work("try", &[&close, "forever"]);
    city.wait_sign("refused");
    assert_eq!(city.status_of(&other), "hooked");
    assert_eq!(city.status_of(&relic), "hooked");
}
