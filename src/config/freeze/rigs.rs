//! `[[rigs]]`, with `[rigs.raiders]` and `[rigs.witness]`.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::Context;
use super::cost;
use super::forge;
use super::harness::Harnesses;
use crate::config::diagnostics::Diagnostic;
use crate::config::document::{Node, SourceSpan, Value};
use crate::config::reader::{Reader, Report};
use crate::config::shape::Shape;
use crate::config::values::{
    Parsed, branch, choice, complain, duration, filled, flag, integer, list, name, optional,
    some_duration, text,
};
use crate::domain::city::{OnCompact, RaiderPolicy, Rig, RigSource, WitnessPolicy};
use crate::domain::ids::{HarnessName, RelicId, RigName, SlotName};
use crate::domain::slots;
use crate::in_time::in_time;

/// The limit for a look at the path of a rig.
pub(super) const LOOK_LIMIT: Duration = Duration::from_secs(5);

/// Folders of the city that are not rigs.
const RESERVED: &[&str] = &["automations", "rituals"];

/// A rig, as far as it could be read: checks across rigs need the names of invalid ones, too.
#[derive(Debug)]
pub struct ReadRig {
    /// Its name.
    pub name: Option<RigName>,
    /// The place of the name.
    pub name_at: SourceSpan,
    /// Prefix of relic ids, with its place (that of the name, when the prefix was derived).
    pub prefix: Option<(String, SourceSpan)>,
    /// The pool, with places; empty when it is the built-in one.
    pub names: Vec<(SlotName, SourceSpan)>,
    /// The repository, when that could be read.
    pub source: Option<RigSource>,
    /// Set when the automations that the repository carries may run, with the place of that setting.
    pub trust: (bool, SourceSpan),
    /// The rig, if all of it is valid.
    pub rig: Option<Rig>,
}

/// `[[rigs]]`.
pub fn all(reader: &mut Reader<'_>, context: &Context<'_>, harnesses: &Harnesses) -> Vec<ReadRig> {
    let rigs = reader.sections("rigs", "rigs").into_iter();
    rigs.map(|rig| one(rig, context, harnesses)).collect()
}

fn one(mut reader: Reader<'_>, context: &Context<'_>, harnesses: &Harnesses) -> ReadRig {
    let name = reader.get("name", rig_name);
    let source = source(&mut reader, context);
    let prefix = prefix(&mut reader, name.as_ref());
    let default_branch = reader.get("default_branch", optional(branch));
    let suspended = reader.get("suspended", flag);
    let trust = reader.get("trust_automations", flag).unwrap_or(false);
    let trust = (trust, reader.place("trust_automations"));
    let mut names = Vec::new();
    let raiders = reader
        .section("raiders", "rigs.raiders")
        .and_then(|raiders| raider_policy(raiders, harnesses, &mut names));
    let witness = reader
        .section("witness", "rigs.witness")
        .and_then(witness_policy);
    let forge = reader
        .section("forge", "rigs.forge")
        .and_then(forge::policy);
    let name_at = reader.place("name");
    if let (Some(name), Some(RigSource::Path(path))) = (&name, &source) {
        apart(name, path, &reader.place("path"), context, reader.report);
    }
    reader.finish();
    let frozen = || {
        Some(Rig {
            name: name.clone()?,
            source: source.clone()?,
            prefix: prefix.as_ref().map(|(prefix, _)| prefix.clone())?,
            default_branch: default_branch?,
            suspended: suspended?,
            draining: false,
            raiders: raiders?,
            witness: witness?,
            forge: forge?,
        })
    };
    ReadRig {
        rig: frozen(),
        name,
        name_at,
        prefix,
        names,
        source,
        trust,
    }
}

fn rig_name(node: &Node) -> Parsed<RigName> {
    let rig: RigName = name(node)?;
    if RESERVED.contains(&rig.as_str()) {
        let message = format!("\"{rig}\" cannot name a rig: the city has a folder of that name");
        return complain(node, message);
    }
    Ok(rig)
}

fn source(reader: &mut Reader<'_>, context: &Context<'_>) -> Option<RigSource> {
    let path = reader.get("path", optional(|node| repository(node, context)));
    let remote = reader.get("remote", optional(remote));
    match (path?, remote?) {
        (Some(path), None) => Some(RigSource::Path(path)),
        (None, Some(remote)) => Some(RigSource::Remote(remote)),
        (Some(_), Some(_)) => {
            let error = Diagnostic::error("a rig has a `path` or a `remote`, not both")
                .at(&reader.place("remote"))
                .related(&reader.place("path"), "the path");
            reader.report.add(error);
            None
        }
        (None, None) => {
            let error = Diagnostic::error("this rig has neither `path` nor `remote`")
                .at(&reader.place("name"))
                .hint(
                    "path = \"~/src/repo\" for a repository of this machine, \
                     or remote = \"git@host:org/repo.git\"",
                );
            reader.report.add(error);
            None
        }
    }
}

/// Checks that the repository is not in the folder of the rig's name in the city, which holds the city's own files of
/// the rig.
fn apart(name: &RigName, path: &Path, at: &SourceSpan, context: &Context<'_>, report: &Report) {
    let folder = context.root.join(name.as_str());
    let folder = folder.canonicalize().unwrap_or(folder);
    if path.starts_with(&folder) {
        let message = format!(
            "the city keeps its own files of rig \"{name}\" in {}",
            folder.display()
        );
        let hint = "move the repository out of it, or give the rig another name";
        report.add(Diagnostic::error(message).at(at).hint(hint));
    }
}

fn repository(node: &Node, context: &Context<'_>) -> Parsed<PathBuf> {
    let path = context
        .resolve(&text(node)?)
        .or_else(|why| complain(node, why))?;
    let named = path.clone();
    // The disk of one rig may hang, and the others must start: the preparation of the rig reports it.
    let Some(found) = in_time(LOOK_LIMIT, move || look(&named)) else {
        return Ok(path);
    };
    let (path, around) = match found {
        Found::Repository(path) => return Ok(path),
        Found::Nothing => {
            return complain(node, format!("there is no directory {}", path.display()));
        }
        Found::NoDirectory(path) => {
            return complain(node, format!("{} is not a directory", path.display()));
        }
        Found::Directory(path, around) => (path, around),
    };
    let error = Diagnostic::error(format!("{} is not a git repository", path.display()));
    let error = error.at(&node.place);
    Err(vec![match around {
        Some(top) => error.hint(format!("it lies within the repository {}", top.display())),
        None => error,
    }])
}

/// The entry at the path of a rig, with its real path.
enum Found {
    Nothing,
    NoDirectory(PathBuf),
    /// A directory that is no repository, and the repository around it.
    Directory(PathBuf, Option<PathBuf>),
    Repository(PathBuf),
}

fn look(path: &Path) -> Found {
    let Ok(path) = path.canonicalize() else {
        return Found::Nothing;
    };
    if !path.is_dir() {
        return Found::NoDirectory(path);
    }
    if is_repository(&path) {
        return Found::Repository(path);
    }
    let around = path.ancestors().find(|ancestor| is_repository(ancestor));
    let around = around.map(Path::to_owned);
    Found::Directory(path, around)
}

/// Returns whether the path is a repository: a checkout has `.git` (a file in a worktree), a bare repository has git's
/// files at the top.
fn is_repository(path: &Path) -> bool {
    let bare = || {
        ["HEAD", "objects", "refs"]
            .iter()
            .all(|part| path.join(part).exists())
    };
    path.join(".git").exists() || bare()
}

fn remote(node: &Node) -> Parsed<String> {
    let remote = filled(node)?;
    // git would take the first for an option, and run the second as a program.
    if remote.starts_with('-') || remote.contains("::") {
        return complain(
            node,
            format!("{remote:?} is not the address of a repository"),
        );
    }
    Ok(remote)
}

fn prefix(reader: &mut Reader<'_>, rig: Option<&RigName>) -> Option<(String, SourceSpan)> {
    let configured = reader.get(
        "prefix",
        optional(|node| {
            let prefix = text(node)?;
            RelicId::new(format!("{prefix}-1")).or_else(|error| {
                complain(node, format!("invalid prefix {prefix:?}: {}", error.why))
            })?;
            Ok(prefix)
        }),
    );
    match configured? {
        Some(prefix) => Some((prefix, reader.place("prefix"))),
        None => rig.map(|rig| (derived_prefix(rig), reader.place("name"))),
    }
}

/// Derives the prefix: the first letter of each word (`bright-lights`: `bl`), or the first two letters of a single
/// word.
fn derived_prefix(rig: &RigName) -> String {
    let words: Vec<&str> = rig
        .as_str()
        .split(['-', '_'])
        .filter(|word| !word.is_empty())
        .collect();
    let letters: String = match words.as_slice() {
        [word] => word.chars().take(2).collect(),
        words => words
            .iter()
            .filter_map(|word| word.chars().next())
            .collect(),
    };
    letters.to_lowercase()
}

fn raider_policy(
    mut reader: Reader<'_>,
    harnesses: &Harnesses,
    names: &mut Vec<(SlotName, SourceSpan)>,
) -> Option<RaiderPolicy> {
    let harness = reader.get("harness", name);
    if let Some(harness) = &harness {
        harnesses.find(harness, &reader.place("harness"), reader.report);
    }
    let routes = routes(&mut reader, harnesses);
    let pool: Option<Vec<SlotName>> = reader.get("names", list(slot));
    let places = reader.element_places("names");
    names.extend(pool.iter().flatten().cloned().zip(places));
    let max = reader.get("max", integer(1));
    let auto_charge = reader.get("auto_charge", flag);
    let respawn_reduced = reader.get(
        "respawn_permissions",
        choice(&[("reduced", true), ("full", false)], &[]),
    );
    let on_compact = reader.get("on_compact", choice(OnCompact::WORDS, &[]));
    let stall_after = reader.get("stall_after", optional(some_duration));
    let max_session = reader.get("max_session", optional(some_duration));
    let nudges = reader.get("nudges", integer(0));
    let max_reviews = reader.get("max_reviews", integer(1));
    let setup = reader.get("setup", list(filled));
    let copy = reader.get("copy", list(inner_path));
    let idle_timeout = reader.get("idle_timeout", optional(some_duration));
    let budget = cost::budget(&mut reader);
    reader.finish();
    Some(RaiderPolicy {
        harness: harness?,
        routes: routes?,
        names: pool.map(or_theme)?,
        max: max?,
        auto_charge: auto_charge?,
        respawn_reduced: respawn_reduced?,
        on_compact: on_compact?,
        stall_after: stall_after?,
        max_session: max_session?,
        nudges: nudges?,
        max_reviews: max_reviews?,
        setup: setup?,
        copy: copy?,
        idle_timeout: idle_timeout?,
        budget: budget?,
    })
}

/// Reads the harnesses by label: a name, or a list of different names. None when one of them is invalid.
fn routes(
    reader: &mut Reader<'_>,
    harnesses: &Harnesses,
) -> Option<BTreeMap<String, Vec<HarnessName>>> {
    let mut routes = BTreeMap::new();
    let mut valid = true;
    let several = Shape::OneOrMore(Box::new(Shape::Name));
    for (label, _, node) in reader.named("routes", several) {
        let items = match &node.value {
            Value::Array(items) => items.iter().collect(),
            _ => vec![node],
        };
        match candidates(node, &items) {
            Ok(named) => {
                for (harness, item) in named.iter().zip(items) {
                    harnesses.find(harness, &item.place, reader.report);
                }
                routes.insert(label.to_owned(), named);
            }
            Err(errors) => {
                errors
                    .into_iter()
                    .for_each(|error| reader.report.add(error));
                valid = false;
            }
        }
    }
    valid.then_some(routes)
}

fn candidates(node: &Node, items: &[&Node]) -> Parsed<Vec<HarnessName>> {
    let mut named: Vec<HarnessName> = Vec::with_capacity(items.len());
    for item in items {
        let harness = name::<HarnessName>(item)?;
        if named.contains(&harness) {
            return complain(item, format!("\"{harness}\" is listed twice"));
        }
        named.push(harness);
    }
    if named.is_empty() {
        return complain(node, "expected the name of a harness, or a list of names");
    }
    Ok(named)
}

fn or_theme(pool: Vec<SlotName>) -> Vec<SlotName> {
    if !pool.is_empty() {
        return pool;
    }
    let theme = slots::THEME.iter();
    theme.filter_map(|name| SlotName::new(*name).ok()).collect()
}

fn slot(node: &Node) -> Parsed<SlotName> {
    let slot: SlotName = name(node)?;
    if slots::is_role(slot.as_str()) {
        let message = format!("\"{slot}\" is the name of a role and is never given to a raider");
        return complain(node, message);
    }
    Ok(slot)
}

/// Reads a path that stays within the repository, and outside git's own folder.
fn inner_path(node: &Node) -> Parsed<String> {
    let path = filled(node)?;
    let stays = Path::new(&path)
        .components()
        .all(|part| matches!(part, Component::Normal(name) if name != ".git"));
    if !stays {
        let message = format!("{path:?} must be a path within the repository, outside `.git`");
        return complain(node, message);
    }
    Ok(path)
}

fn witness_policy(mut reader: Reader<'_>) -> Option<WitnessPolicy> {
    let done_intent_timeout = reader.get("done_intent_timeout", some_duration);
    let spawn_grace = reader.get("spawn_grace", duration);
    let keep_dirty = reader.get("keep_dirty", some_duration);
    let review_hold = reader.get("review_hold", duration);
    reader.finish();
    Some(WitnessPolicy {
        spawn_grace: spawn_grace?,
        done_intent_timeout: done_intent_timeout?,
        keep_dirty: keep_dirty?,
        review_hold: review_hold?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_derived_from_the_words_of_the_name() {
        let cases = [
            ("horde", "ho"),
            ("x", "x"),
            ("bright-lights", "bl"),
            ("my_Big-repo", "mbr"),
            ("a-", "a"),
        ];
        for (rig, prefix) in cases {
            assert_eq!(derived_prefix(&RigName::new(rig).unwrap()), prefix, "{rig}");
        }
    }
}
