//! Pages on the city: its set-up, its configuration, its life as a service; automations and harnesses.

use std::fs;
use std::path::PathBuf;

use crate::support::git::write;
use crate::support::live::City;
use crate::support::plan::Plan;
use crate::support::program;
use crate::support::repository::repository;

use super::{Page, run, try_to};

/// Makes a city in which Toast works on a relic, and answers what it is sent.
fn toast() -> City {
    let city = City::new();
    city.work("work", &["echo at work", "sign ready", "cat"]);
    city.wait_sign("ready");
    city
}

/// A coding agent that does nothing; `hd init` finds it by its name.
const AGENT: &str = "#!/bin/sh\n[ \"$1\" != --version ] || { echo '2.1.0 (Claude Code)'; exit; }\nexec sleep 1000\n";

fn install_agent(place: &City) {
    let bin = place.root().join("home/bin");
    fs::create_dir(&bin).unwrap();
    program::script(&bin.join("claude"), AGENT);
}

/// Runs the commands of a page that make a city around `~/src/project` and start it. Returns its directory.
fn set_up(page: &mut Page, place: &City) -> PathBuf {
    let src = place.root().join("home/src");
    fs::create_dir_all(&src).unwrap();
    repository(&src.join("project"), Some("origin.git"), |checkout| {
        write(checkout, "README", "hello\n");
    });
    install_agent(place);
    page.take("cd ~/src/project", &[]);
    let init = page.take("hd init", &[]);
    run(place, &src.join("project"), &init);
    let city = src.join("project-city");
    assert_eq!(page.take("cd ../project-city", &[]), "cd ../project-city");
    if let Some(check) = page.take_if("hd config check") {
        run(place, &city, &check);
    }
    run(place, &city, &page.take("hd up -d", &[]));
    let doctor = try_to(place, &city, &page.take("hd doctor", &[]));
    assert!(doctor.out.contains("claude"), "{doctor:?}");
    city
}

#[test]
fn readme() {
    let mut page = Page::open("README.md");
    let place = City::made(&Plan::new());
    let city = set_up(&mut page, &place);
    run(
        &place,
        &city,
        &page.take("hd run", &[("hd run", "hd run -d")]),
    );
    page.watch((&place, &city), "hd status --watch", "Toast");
    for command in ["hd why Toast", "hd mq list", "hd escalations", "hd stop"] {
        run(&place, &city, &page.take(command, &[]));
    }
    page.end(&[]);
}

#[test]
fn page_on_your_own_repository() {
    let mut page = Page::open("docs/guide/own-repository.md");
    let place = City::made(&Plan::new());
    let city = set_up(&mut page, &place);
    for command in ["mkdir", "hd completions", "hd man"] {
        run(&place, &city, &page.take(command, &[]));
    }
    write(&city, "tasks.txt", "one\ntwo\n");
    run(
        &place,
        &city,
        &page.take("hd run \"add", &[("hd run", "hd run -d")]),
    );
    for command in [
        "hd run -d \"fix",
        "hd run -d -f",
        "hd relic create",
        "hd relic list",
    ] {
        run(&place, &city, &page.take(command, &[]));
    }
    let relic = run(
        &place,
        &city,
        "hd relic create another --json | sed -n 's/.*\"id\": *\"\\([^\"]*\\)\".*/\\1/p' | head -1",
    );
    // All slots are taken; one of them is freed.
    run(&place, &city, "hd raider nuke Toast --yes");
    let charge = page.take("hd charge", &[("pr-3", relic.trim())]);
    run(&place, &city, &charge);
    page.watch((&place, &city), "hd status --watch", "Toast");
    page.watch((&place, &city), "hd events -f", "relic.created");
    for command in [
        "hd peek",
        "hd logs",
        "hd why",
        "hd stop",
        "hd up -d",
        "hd stop --keep",
    ] {
        run(&place, &city, &page.take(command, &[]));
    }
    run(&place, &city, "hd up -d && hd stop");
    // Its agent has neither an input line nor a dialog: the page on questions, `e2e::agents`.
    page.end(&["hd answer", "hd send"]);
}

#[test]
fn page_on_configuration() {
    let mut page = Page::open("docs/guide/configuration.md");
    let city = City::new();
    page.run(&city, "hd reload", &[]);
    page.run(&city, "hd reload --dry-run", &[]);
    let copy = tempfile::tempdir_in(city.root().parent().unwrap()).unwrap();
    let toml = fs::read_to_string(city.root().join("city.toml")).unwrap();
    let beside = format!(
        "path = \"../{}/",
        city.root().file_name().unwrap().display()
    );
    write(copy.path(), "city.toml", toml.replace("path = \"", &beside));
    let replaced = [("COPY", copy.path().to_str().unwrap())];
    page.run(&city, "hd --city COPY", &replaced);
    page.end(&[]);
}

#[test]
fn page_on_automations() {
    let mut page = Page::open("docs/guide/automations.md");
    let automation = page.toml("# automations/changelog/automation.toml");
    let mut city = City::made(&Plan::new());
    write(
        city.root(),
        "automations/changelog/automation.toml",
        automation,
    );
    city.start();
    for command in ["list", "run", "history", "disable", "enable"] {
        page.run(&city, &format!("hd auto {command}"), &[]);
    }
    assert!(city.root().join("merged.jsonl").exists());
    page.end(&[]);
}

#[test]
fn page_on_the_doctor() {
    let mut page = Page::open("docs/guide/doctor.md");
    let city = toast();
    for command in ["status", "why", "events", "logs"] {
        page.run(&city, &format!("hd {command}"), &[]);
    }
    page.end(&[]);
}

#[test]
fn page_on_harnesses() {
    let mut page = Page::open("docs/guide/harnesses.md");
    let place = City::made(&Plan::new());
    install_agent(&place);
    for command in ["list", "show", "setup"] {
        page.run(&place, &format!("hd harness {command}"), &[]);
    }
    // They need the program itself, and an account that is parked: `tests/it/kit`, `e2e::accounts`.
    page.end(&["hd harness test", "hd harness resume"]);
}

#[test]
fn page_on_the_service() {
    let mut page = Page::open("docs/guide/service.md");
    let mut city = toast();
    page.run(&city, "hd config systemd", &[]);
    let place = city.root().join("metrics");
    fs::create_dir(&place).unwrap();
    let (root, place) = (
        city.root().display().to_string(),
        place.display().to_string(),
    );
    let words = [
        ("~/city", root.as_str()),
        ("/var/lib/node_exporter", place.as_str()),
    ];
    page.run(&city, "hd --city ~/city metrics", &words);
    page.run(&city, "hd stop --keep-sessions", &[]);
    assert!(city.ended().success());
    page.run(&city, "hd up -d", &[]);
    let adopted = page.run(&city, "hd events --type agent.adopted", &[]);
    assert!(adopted.contains("Toast"), "{adopted}");
    run(&city, city.root(), "hd stop");
    page.end(&[]);
}
