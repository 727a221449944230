//! Pages on work: relics, rituals, reviews, drums, questions, escalations, salvage.

use std::fs;

use crate::support::git::write;
use crate::support::live::{City, until};
use crate::support::plan::Plan;

use super::{Page, run};

/// Makes a city in which Toast works on `gt-1`.
fn toast() -> City {
    let city = City::new();
    at_work(&city);
    city
}

fn at_work(city: &City) -> String {
    let relic = city.work("work", &["sign ready", "cat"]);
    city.wait_sign("ready");
    relic
}

/// Returns the merge request of a relic that waits for a person.
fn in_review(city: &City, title: &str) -> String {
    let relic = city.work(title, &["commit a.txt", "outcome reviewing", "forever"]);
    let mut found = None;
    until("it is in review", || {
        let all = city.hd(&["mq", "list"]).json();
        let mut all = all.as_array().unwrap().iter();
        found = all
            .find(|mr| mr["relic"] == *relic && mr["state"] == "reviewing")
            .cloned();
        found.is_some()
    });
    found.unwrap()["id"].as_str().unwrap().to_owned()
}

#[test]
fn page_on_relics() {
    let mut page = Page::open("docs/guide/relics.md");
    let city = City::new();
    for title in ["one", "two", "three", "four", "five"] {
        run(&city, city.root(), &format!("hd relic create {title}"));
    }
    write(city.root(), "task.md", "with tests\n");
    page.run(&city, "hd relic create", &[]);
    page.run(&city, "hd relic create", &[]);
    for command in [
        "list", "show", "ready", "edit", "edit", "dep", "close", "reopen",
    ] {
        page.run(&city, &format!("hd relic {command}"), &[]);
    }
    page.run(&city, "hd cancel", &[]);
    for command in [
        "hd charge pause",
        "hd relic ready",
        "hd why gt-2",
        "hd charge resume",
    ] {
        page.run(&city, command, &[]);
    }
    run(&city, city.root(), "hd relic export backup.jsonl");
    page.run(&city, "hd relic import backup.jsonl", &[]);
    let issue = r#"[{"number": 7, "title": "t", "body": "b", "labels": [], "state": "OPEN", "assignees": [],
        "createdAt": "2026-01-01T00:00:00Z", "closedAt": null, "url": "https://example.invalid/7"}]"#;
    write(city.root(), "issues.json", issue);
    page.run(&city, "hd relic import issues.json", &[]);
    // The first two need programs of others; the formats are tested in `e2e::relics`. `hd run` is run for
    // `docs/guide/own-repository.md`.
    page.end(&["bd export", "gh issue", "hd run"]);
}

#[test]
fn page_on_rituals() {
    let mut page = Page::open("docs/guide/rituals.md");
    let mut city = City::made(&Plan::new());
    write(
        city.root(),
        "rituals/update-deps.toml",
        page.toml("# rituals/update-deps.toml, beside city.toml"),
    );
    city.start();
    for command in [
        "ritual list",
        "ritual show",
        "relic create",
        "totem start",
        "charge",
        "totem show",
    ] {
        page.run(&city, &format!("hd {command}"), &[]);
    }
    page.end(&[]);
}

#[test]
fn page_on_reviews() {
    let mut page = Page::open("docs/guide/review.md");
    let city = City::new();
    let request = in_review(&city, "look at it");
    page.run(&city, "hd mq list", &[]);
    page.run(&city, "hd mq show", &[("pr-4", &request)]);
    page.run(&city, "hd diff", &[("pr-4", &request)]);
    page.run(&city, "hd mq approve", &[("pr-4", &request)]);
    let other = in_review(&city, "and at this");
    page.run(&city, "hd mq reject", &[("pr-4", &other)]);
    // They are called from inside of a session: `e2e::self_review`.
    page.end(&["hd review"]);
}

#[test]
fn page_on_drums() {
    let mut page = Page::open("docs/guide/drums.md");
    let city = Plan::new().agent("mayor", "exec sleep 1000", "").start();
    at_work(&city);
    page.run(&city, "hd drums send Toast", &[]);
    page.run(&city, "hd drums send mayor", &[]);
    page.run(&city, "hd drums inbox mayor", &[]);
    let sent = city.hd(&[
        "drums",
        "send",
        "operator",
        "-s",
        "a question",
        "-m",
        "which one",
    ]);
    assert_eq!(sent.json()["id"], 3);
    for command in ["inbox", "read", "reply", "ack"] {
        page.run(&city, &format!("hd drums {command}"), &[]);
    }
    page.end(&[]);
}

#[test]
fn page_on_questions() {
    const ASKS: &str = r#"
[harness.asks]
command = ["sh", "-c", 'clear; printf "Pick one\n  1. yes\n> 2. no\n"; read -r answer; clear; echo "$answer"; exec sleep 1000']
prompt = "arg"
env = { TERM = "xterm" }
needs_input_patterns = ['^Pick one']

[[agents]]
name = "Toast"
harness = "asks"
prompt = "p"
"#;
    let mut page = Page::open("docs/guide/questions.md");
    for command in ["hd answer Toast 2", "hd send Toast --keys"] {
        let city = Plan::new().add(ASKS).start();
        until("it asks", || {
            let agents = city.hd(&["agent", "list"]).json();
            agents[0]["condition"] == "needs_input"
        });
        page.run(&city, command, &[]);
    }
    // A dialog with several choices: `e2e::dialogs`.
    page.end(&["hd answer Toast 1,3"]);
}

#[test]
fn page_on_escalations() {
    let mut page = Page::open("docs/guide/escalations.md");
    let city = toast();
    page.run(&city, "hd escalate ", &[]);
    for command in [
        "hd escalations",
        "hd relic show",
        "hd escalations ack",
        "hd relic close",
    ] {
        page.run(&city, command, &[]);
    }
    page.end(&[]);
}

#[test]
fn page_on_custody() {
    let mut page = Page::open("docs/guide/custody.md");
    let city = City::new();
    city.work("work", &["echo precious >new", "sign ready", "forever"]);
    city.wait_sign("ready");
    let nuked = city
        .hd(&["raider", "nuke", "Toast", "--salvage", "--yes"])
        .json();
    let id = nuked["salvage"].as_str().unwrap();
    page.run(&city, "hd salvage list", &[]);
    page.run(&city, "hd salvage stashes", &[]);
    for command in ["show", "restore", "prune"] {
        page.run(&city, &format!("hd salvage {command}"), &[("ID", id)]);
    }
    page.end(&[]);
}

#[test]
fn page_on_raiders() {
    let mut page = Page::open("docs/guide/raiders.md");
    let plan = Plan::new().set("daemon", "max_restarts", "1");
    let mut city = City::made(&plan);
    city.start();
    let relic = city.work("fails", &["exit 7"]);
    city.wait_status(&relic, "blocked");
    page.run(&city, "hd raider unquarantine", &[]);
    city.wait_status(&relic, "blocked");
    page.run(&city, "hd relic reopen", &[("pr-1", &relic)]);
    page.run(&city, "hd raider nuke", &[]);
    page.run(&city, "hd relic close", &[("pr-1", &relic)]);
    page.end(&[]);
}

#[test]
fn page_on_identities() {
    let mut page = Page::open("docs/guide/identity.md");
    let mut city = City::made(&Plan::new());
    let named = page.toml("drafts = \"codex\"");
    let routes = page.toml("routes = { ui").replace("gemini", "script");
    let toml = fs::read_to_string(city.root().join("city.toml")).unwrap();
    let toml = toml.replace("[rigs.raiders]\n", &routes);
    write(city.root(), "city.toml", format!("{toml}\n{named}"));
    city.start();
    let relic = city.work("work", &["commit a.txt", "hd done"]);
    city.wait_status(&relic, "closed");
    let own = &[("claude", "script")];
    page.run(&city, "hd cv", &[]);
    let one = &[("claude/opus-4.5", "script")];
    page.run(&city, "hd cv claude/opus-4.5", one);
    page.run(&city, "hd cv claude/opus-4.5 --limit", one);
    page.run(&city, "hd cv --verify", &[]);
    page.run(&city, "hd cv export chains.jsonl", &[]);
    page.run(&city, "hd cv export claude", own);
    page.run(&city, "hd why", &[("pr-1", &relic)]);
    let other = City::new();
    let export = fs::read_to_string(city.root().join("chains.jsonl")).unwrap();
    let (header, rest) = export.split_once('\n').unwrap();
    let renamed = header.replace("\"e2e\"", "\"north\"");
    write(other.root(), "north.jsonl", format!("{renamed}\n{rest}"));
    page.run(&other, "hd cv import north.jsonl", &[]);
    page.run(&other, "hd cv import north.jsonl --as", &[]);
    page.run(&other, "hd cv north:claude", own);
    page.run(&other, "hd cv forget north", &[]);
    page.end(&[]);
}

#[test]
fn page_of_recipes() {
    let mut page = Page::open("docs/guide/recipes.md");
    let city = toast();
    write(city.root(), "task.md", "with tests\n");
    page.run(&city, "hd relic create \"Split", &[]);
    page.run(&city, "hd relic create \"Document", &[("pr-1", "gt-1")]);
    page.run(&city, "hd why Toast", &[]);
    page.run(&city, "hd raider nuke", &[]);
    page.run(
        &city,
        "hd charge",
        &[("pr-1", "gt-1"), ("project", "horde")],
    );
    fs::remove_file(city.root().join("signs/ready")).unwrap();
    let request = in_review(&city, "look at it");
    page.run(&city, "hd mq show", &[("pr-4", &request)]);
    // Only an account that was parked has a story: `e2e::accounts`.
    page.end(&["hd why \"account"]);
}
