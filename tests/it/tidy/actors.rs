//! The order of the parts of `src/actors/`: each names only those before it, so that there is no circle, and actors
//! never name each other: they exchange messages in `mail/`.

use std::collections::BTreeSet;

use super::layers::{named, statements};
use super::source::Source;
use super::{below, expect_none};

/// An order of parts. Each names only those of lines before its own.
struct Order {
    /// The module that holds the parts.
    at: &'static str,
    /// The parts, from the lowest to the highest. Parts of one line never name each other.
    lines: &'static [&'static [&'static str]],
    /// Parts of one line that are one idea.
    together: &'static [[&'static str; 2]],
}

#[rustfmt::skip]
const ACTORS: Order = Order {
    at: "actors::",
    lines: &[
        &["refusal", "metrics", "claims", "thread_budgets"],
        &["mail", "boards"],
        &["store", "remotes"],
        // One idea in two files: everything that each part is handed.
        &["world", "directory"],
        &["effects"],
        &["ask", "look_timer", "records"],
        &["rig_settings", "ground", "glances", "usage", "conversation", "last_end"],
        &["sandboxes", "sandbox_faults", "sandbox_links", "briefs", "gates", "typing"],
        &["declared"],
        &["outbox", "compaction"],
        // One idea in two files: conditions of sessions, and of the accounts that they use.
        &["conditions", "accounts"],
        &["prompting"],
        &["session", "sagas"],
        &["root", "witness", "forge", "shaman", "config", "retention", "dispatcher"],
        &["doctor"],
    ],
    together: &[
        ["world", "directory"],
        ["conditions", "accounts"],
        // The tasks of retention run at the pace of the dispatcher.
        ["dispatcher", "retention"],
    ],
};

#[rustfmt::skip]
const SAGAS: Order = Order {
    at: "actors::sagas::",
    lines: &[
        &["prune", "land"],
        &["closing"],
        &["nuke"],
        &["done", "charge"],
        &["rejection", "repair", "pull_request"],
    ],
    together: &[],
};

/// The actors. `src/control/` names none of them: it sends messages through `ask`, and uses the parts that they share.
const PEERS: &[&str] = &[
    "root",
    "witness",
    "forge",
    "shaman",
    "dispatcher",
    "config",
    "retention",
    "session",
];

impl Order {
    fn rank(&self, part: &str) -> Option<usize> {
        self.lines.iter().position(|line| line.contains(&part))
    }

    /// `actors::witness::look` is of the part `witness`.
    fn part<'a>(&self, path: &'a str) -> Option<&'a str> {
        path.strip_prefix(self.at)?.split("::").next()
    }

    fn may(&self, from: &str, to: &str) -> bool {
        let together = |pair: &[&str; 2]| pair.contains(&from) && pair.contains(&to);
        from == to || self.rank(to) < self.rank(from) || self.together.iter().any(together)
    }

    fn broken(&self, source: &Source) -> Vec<String> {
        let module = super::layers::module_of(&source.name);
        let Some(from) = self.part(&module) else {
            return Vec::new();
        };
        if self.rank(from).is_none() {
            return vec![format!("{} is in no line of the order", source.name)];
        }
        let mut found = Vec::new();
        for (number, line) in statements(source) {
            let paths = named(&line, &module);
            let parts: BTreeSet<&str> = paths.iter().filter_map(|path| self.part(path)).collect();
            let wrong = |to: &&str| self.rank(to).is_some() && !self.may(from, to);
            found.extend(
                parts
                    .into_iter()
                    .filter(wrong)
                    .map(|to| format!("{}:{number} names {to}, which {from} may not", source.name)),
            );
        }
        found
    }
}

#[test]
fn actors_have_no_circle_and_never_name_each_other() {
    let broken: Vec<_> = below("src/actors/")
        .flat_map(|source| ACTORS.broken(source))
        .collect();
    expect_none(
        "a part of actors/ names only parts below it (tests/it/tidy/actors.rs)",
        &broken,
    );
}

#[test]
fn sagas_have_no_circle() {
    let broken: Vec<_> = below("src/actors/sagas/")
        .flat_map(|source| SAGAS.broken(source))
        .collect();
    expect_none(
        "a saga names only sagas below it (tests/it/tidy/actors.rs)",
        &broken,
    );
}

fn names_an_actor(source: &Source) -> Vec<String> {
    let module = super::layers::module_of(&source.name);
    let mut found = Vec::new();
    for (number, line) in statements(source) {
        let paths = named(&line, &module);
        let parts = paths.iter().filter_map(|path| ACTORS.part(path));
        let peers = parts.filter(|part| PEERS.contains(part));
        found.extend(peers.map(|peer| format!("{}:{number} names {peer}", source.name)));
    }
    found
}

#[test]
fn control_names_no_actor() {
    let broken: Vec<_> = below("src/control/").flat_map(names_an_actor).collect();
    expect_none("src/control/ names no actor", &broken);
    let text = "use crate::actors::{ask, witness::stall};";
    let caught = names_an_actor(&Source::new("src/control/x.rs", text));
    assert_eq!(caught.len(), 1, "{caught:?}");
}

#[test]
fn an_actor_that_names_another_is_caught() {
    let count = |name: &str, text: &str| ACTORS.broken(&Source::new(name, text)).len();
    let root = "use crate::actors::root::RootMsg;";
    assert_eq!(count("src/actors/witness/x.rs", root), 1);
    assert_eq!(
        count("src/actors/mail/x.rs", "use super::super::world::World;"),
        1
    );
    assert_eq!(
        count(
            "src/actors/sagas/x.rs",
            "use crate::actors::{ask, witness};"
        ),
        1
    );
    assert_eq!(
        count(
            "src/actors/witness/x.rs",
            "use crate::actors::mail::RootMail;"
        ),
        0
    );
    assert_eq!(count("src/actors/novel.rs", ""), 1);
}

#[test]
fn saga_that_names_one_above_it_is_caught() {
    let count = |name: &str, text: &str| SAGAS.broken(&Source::new(name, text)).len();
    assert_eq!(
        count("src/actors/sagas/nuke/x.rs", "use super::super::done;"),
        1
    );
    assert_eq!(
        count("src/actors/sagas/land.rs", "use super::{nuke, pack};"),
        1
    );
    assert_eq!(count("src/actors/sagas/done.rs", "use super::charge;"), 1);
    assert_eq!(
        count("src/actors/sagas/done.rs", "use super::{land, pack};"),
        0
    );
    assert_eq!(count("src/actors/sagas/novel.rs", ""), 1);
}

/// The actors that never work with an outdated configuration: the root applies each new one, the store has none, and a
/// child has the settings that its session was started with.
const WITHOUT_RELOAD: &[&str] = &["RootActor", "StoreActor", "ChildActor"];

/// Returns the actors of a file that handle messages without the newest configuration.
fn outdated(source: &Source) -> Vec<String> {
    const ACTOR: &str = "impl Actor for ";
    let lines: Vec<_> = source.shipped().collect();
    let mut found = Vec::new();
    for (index, (number, line)) in lines.iter().enumerate() {
        let Some((_, after)) = line.split_once(ACTOR) else {
            continue;
        };
        let name = after.trim_end_matches([' ', '{']);
        let body = lines[index..].iter().map(|(_, line)| *line);
        let body = body.take_while(|line| *line != "}");
        let handle = body.skip_while(|line| !line.contains("async fn handle("));
        let mut handle = handle.skip(1).take_while(|line| *line != "    }");
        if !WITHOUT_RELOAD.contains(&name) && !handle.any(|line| line.contains(".newest()")) {
            let name = &source.name;
            found.push(format!(
                "{name}:{number} handles messages with an outdated world"
            ));
        }
    }
    found
}

#[test]
fn each_actor_handles_a_message_with_the_newest_configuration() {
    let actors = below("src/actors/").filter(|source| source.code.contains("impl Actor for "));
    assert!(actors.count() >= WITHOUT_RELOAD.len() + 5);
    let outdated: Vec<_> = below("src/actors/").flat_map(outdated).collect();
    expect_none(
        "an actor takes `.newest()` of its world in `handle`",
        &outdated,
    );
}

#[test]
fn actor_with_an_outdated_configuration_is_caught() {
    let actor = |body: &str| {
        let text = format!(
            "impl Actor for NovelActor {{\n    async fn handle(\n    ) {{\n{body}\n    }}\n}}\n\
             fn other() {{\n    world.newest();\n}}\n"
        );
        outdated(&Source::new("src/actors/novel.rs", &text)).len()
    };
    assert_eq!(actor("        look();"), 1);
    assert_eq!(actor("        novel.world = novel.world.newest();"), 0);
}
