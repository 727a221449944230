//! The layers of the architecture, and the parts of the library that each may name.

use super::source::Source;
use super::{below, expect_none};

/// A part of the library: a module path under `crate`. The longest matching path applies.
struct Layer {
    at: &'static str,
    /// The layers that it may name besides itself. `control` means all of it.
    may: &'static [&'static str],
    /// Crates that it may not name at all.
    never: &'static [&'static str],
}

/// The crates and modules that pure code must not use: time, files, processes, threads, logs.
const IMPURE: &[&str] = &[
    "tokio",
    "ractor",
    "nix",
    "rustix",
    "libc",
    "tracing",
    "git2",
    "rusqlite",
    "notify",
    "tempfile",
    "std::fs",
    "std::process",
    "std::env",
    "std::net",
    "std::thread",
    "std::os::unix::net",
    "std::time::Instant",
    "std::time::SystemTime",
    "Timestamp::now",
    "Zoned::now",
];

/// The crates and modules that only adapters (and the programs around them) touch.
const THE_WORLD: &[&str] = &[
    "git2",
    "rusqlite",
    "nix",
    "rustix",
    "notify",
    "std::fs",
    "std::process",
];

/// The server asks the kernel for the peer of a socket, and makes the socket's file.
const ALL_BUT_SOCKETS: &[&str] = &["git2", "rusqlite", "notify", "std::process::Command"];

/// Crates of the daemon's machinery, which the command line and the wire must not use.
const DAEMON_ONLY: &[&str] = &["ractor", "git2", "rusqlite", "notify"];

/// The table. Arrows of the architecture point at the modules that a module may name, and are transitive: ports name
/// domain, so a module that names ports may name domain.
#[rustfmt::skip]
const LAYERS: &[Layer] = &[
    Layer { at: "domain", may: &[], never: IMPURE },
    Layer { at: "ports", may: &["domain"], never: IMPURE },
    Layer { at: "regular", may: &[], never: DAEMON_ONLY },
    Layer { at: "in_time", may: &[], never: DAEMON_ONLY },
    Layer { at: "startup", may: &[], never: DAEMON_ONLY },
    Layer { at: "adapters", may: &["domain", "ports", "regular", "in_time"], never: &["ractor"] },
    Layer { at: "actors", may: &["domain", "ports"], never: THE_WORLD },
    Layer { at: "config", may: &["domain", "regular", "in_time"], never: DAEMON_ONLY },
    Layer { at: "control::protocol", may: &["domain"], never: DAEMON_ONLY },
    Layer { at: "control::codec", may: &["domain", "control::protocol"], never: DAEMON_ONLY },
    Layer { at: "control::client", may: &["domain", "control::protocol", "control::codec"], never: DAEMON_ONLY },
    Layer { at: "control", may: &["domain", "ports", "actors", "regular"], never: ALL_BUT_SOCKETS },
    Layer { at: "kit", may: &["domain", "config", "control::protocol", "control::codec", "control::client"], never: DAEMON_ONLY },
    Layer { at: "cli", may: &["domain", "config", "control::protocol", "control::codec", "control::client", "kit", "regular"], never: DAEMON_ONLY },
    Layer { at: "faults", may: &["domain", "actors"], never: &[] },
    Layer { at: "telemetry", may: &["domain", "regular"], never: DAEMON_ONLY },
    Layer { at: "daemon", may: &["domain", "ports", "adapters", "actors", "control", "config", "faults", "regular", "telemetry"], never: &[] },
];

fn is_in(path: &str, module: &str) -> bool {
    path == module
        || path
            .strip_prefix(module)
            .is_some_and(|rest| rest.starts_with("::"))
}

fn layer_of(module: &str) -> Option<&'static Layer> {
    let fitting = LAYERS.iter().filter(|layer| is_in(module, layer.at));
    fitting.max_by_key(|layer| layer.at.len())
}

/// Returns the module of a file: `src/control/handlers/mod.rs` is `control::handlers`.
pub(super) fn module_of(name: &str) -> String {
    let path = name.trim_start_matches("src/").trim_end_matches(".rs");
    path.trim_end_matches("/mod").replace('/', "::")
}

/// Returns the paths that a line names, as from the crate's root.
pub(super) fn named(line: &str, module: &str) -> Vec<String> {
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (index, _) in line.match_indices(start) {
            let inside = line[..index].chars().next_back();
            if inside.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$' || c == ':') {
                continue;
            }
            let mut rest = &line[index..];
            let mut base: Vec<&str> = module.split("::").collect();
            match rest.strip_prefix("crate::") {
                Some(after) => (base, rest) = (Vec::new(), after),
                None => {
                    while let Some(after) = rest.strip_prefix("super::") {
                        base.pop();
                        rest = after;
                    }
                }
            }
            found.extend(expand(&base, rest));
        }
    }
    found
}

/// Expands `a::{b, c::D}` to `a::b` and `a::c::D`, as far as the line goes.
fn expand(base: &[&str], rest: &str) -> Vec<String> {
    let join = |tail: &str| {
        let mut path = base.join("::");
        if !path.is_empty() && !tail.is_empty() {
            path.push_str("::");
        }
        path + tail
    };
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let end = rest.find(|c| !is_path(c)).unwrap_or(rest.len());
    let (head, after) = rest.split_at(end);
    let Some(group) = after.strip_prefix('{') else {
        return vec![join(head.trim_end_matches("::"))];
    };
    let mut depth = 0_usize;
    let mut parts = vec![String::new()];
    for character in group.chars() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(character);
        }
    }
    let parts = parts
        .iter()
        .map(|part| part.trim())
        .filter(|part| !part.is_empty());
    let part = |part: &str| expand(base, &format!("{head}{part}"));
    parts.flat_map(part).collect()
}

/// Joins a `use` over several lines, so that its paths can be read.
pub(super) fn statements(source: &Source) -> Vec<(usize, String)> {
    let mut out: Vec<(usize, String)> = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (number, line) in source.shipped() {
        let (at, mut text) = open.take().unwrap_or((number, String::new()));
        text.push_str(line);
        let is_use = text.split_whitespace().take(2).any(|word| word == "use");
        if is_use && !text.contains(';') {
            open = Some((at, text));
        } else {
            out.push((at, text));
        }
    }
    out.extend(open);
    out
}

fn broken(source: &Source) -> Vec<String> {
    let module = module_of(&source.name);
    let at = |number: usize| format!("{}:{number}", source.name);
    let Some(layer) = layer_of(&module) else {
        let known = ["lib", "testing"].iter().any(|free| is_in(&module, free));
        let free = known || module.starts_with("bin::");
        return if free {
            Vec::new()
        } else {
            vec![format!("{} is in no layer", at(1))]
        };
    };
    let mut found = Vec::new();
    for (number, line) in statements(source) {
        for path in named(&line, &module) {
            let first = path.split("::").next().unwrap_or_default();
            let is_module = LAYERS.iter().any(|known| is_in(known.at, first));
            let allowed = layer
                .may
                .iter()
                .chain([&layer.at])
                .any(|may| is_in(&path, may));
            // A module of which only a part may be named must be named by that part.
            if is_module && !allowed {
                found.push(format!(
                    "{} names {path}, which {} may not",
                    at(number),
                    layer.at
                ));
            }
        }
        for word in layer.never {
            let mut places = line.match_indices(word);
            let whole = |(index, _): (usize, &str)| {
                let before = line[..index].chars().next_back().unwrap_or(' ');
                let after = line[index + word.len()..].chars().next().unwrap_or(' ');
                let of_a_path = word.contains("::") || line[index + word.len()..].starts_with("::");
                let inner = |c: char| c.is_alphanumeric() || c == '_';
                of_a_path
                    && !inner(before)
                    && !inner(after)
                    && (before != ':' || word.contains("::now"))
            };
            if places.any(whole) {
                found.push(format!(
                    "{} names {word}, which {} may not",
                    at(number),
                    layer.at
                ));
            }
        }
    }
    found
}

#[test]
fn arrows_point_one_way() {
    let broken: Vec<_> = below("src/").flat_map(broken).collect();
    expect_none(
        "a module names only what its layer may (tests/it/tidy/layers.rs)",
        &broken,
    );
}

#[test]
fn a_module_that_reaches_across_is_caught() {
    let count = |name: &str, text: &str| broken(&Source::new(name, text)).len();
    assert_eq!(
        count("src/domain/x.rs", "use crate::ports::clock::Clock;"),
        1
    );
    assert_eq!(count("src/domain/x.rs", "use std::fs::File;"), 1);
    assert_eq!(
        count("src/domain/x.rs", "let t = jiff::Timestamp::now();"),
        1
    );
    assert_eq!(
        count(
            "src/actors/x.rs",
            "use crate::{\n    adapters::git,\n    domain::ids,\n};"
        ),
        1
    );
    assert_eq!(
        count(
            "src/actors/sagas/x.rs",
            "use super::super::super::adapters::proc;"
        ),
        1
    );
    assert_eq!(count("src/actors/x.rs", "use crate::control::server;"), 1);
    assert_eq!(
        count("src/cli/x.rs", "use crate::control::{client, handlers};"),
        1
    );
    assert_eq!(count("src/cli/x.rs", "use crate::control;"), 1);
    assert_eq!(
        count(
            "src/control/protocol/x.rs",
            "use super::super::handlers::names;"
        ),
        1
    );
    assert_eq!(count("src/novel.rs", ""), 1);
}

#[test]
fn a_module_that_keeps_to_its_layer_is_left_alone() {
    let count = |name: &str, text: &str| broken(&Source::new(name, text)).len();
    assert_eq!(
        count(
            "src/domain/x.rs",
            "use super::ids::RigName; // crate::ports"
        ),
        0
    );
    assert_eq!(
        count(
            "src/actors/root/x.rs",
            "use super::super::child; use crate::ports::repo;"
        ),
        0
    );
    assert_eq!(
        count(
            "src/cli/x.rs",
            "use crate::control::{client::Client, protocol::Op};"
        ),
        0
    );
    assert_eq!(
        count("src/control/handlers/x.rs", "use crate::actors::ask;"),
        0
    );
    assert_eq!(
        count(
            "src/domain/x.rs",
            "#[cfg(test)]\nmod tests {\n    use std::fs;\n}"
        ),
        0
    );
}
