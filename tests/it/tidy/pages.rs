//! Documents compared with the program: generated pages, verbs, options, events, exit codes, and links between pages.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use horde_supervisor::control::protocol::Exit;
use horde_supervisor::domain::event::EventType;
use horde_supervisor::testing::json_schema::violations;

use super::{expect_none, files, root};

/// A document: its path from the root of the package, and its text.
pub struct Page {
    pub name: String,
    pub text: String,
}

/// Returns README.md and its neighbours, and the pages below docs/. The seeds describe other systems word for word: they name
/// what is not there.
pub fn pages() -> Vec<Page> {
    let beside = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root().join(name));
    let below = files("docs").into_iter();
    let own = below.filter(|path| !path.starts_with(root().join("docs/seeds")));
    let markdown = own.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    let read = |path: PathBuf| Page {
        name: path.strip_prefix(root()).unwrap().display().to_string(),
        text: std::fs::read_to_string(&path).unwrap(),
    };
    beside.into_iter().chain(markdown).map(read).collect()
}

fn page(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

/// Returns the lines outside fenced blocks, and the blocks with the word behind their fence.
fn split(text: &str) -> (String, Vec<(String, String)>) {
    let (mut prose, mut blocks) = (String::new(), Vec::new());
    let mut open: Option<(String, String)> = None;
    for line in text.lines() {
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(kind)) => open = Some((kind.trim().to_owned(), String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some((_, block)), None) => *block += &format!("{line}\n"),
            (None, None) => prose += &format!("{line}\n"),
        }
    }
    (prose, blocks)
}

/// Returns the texts in single backticks.
fn quoted(prose: &str) -> Vec<String> {
    let odd = prose.split('`').skip(1).step_by(2);
    odd.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

/// Returns the names by which a page's headings can be linked to.
fn anchors(text: &str) -> BTreeSet<String> {
    let (prose, _) = split(text);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    let slug = |heading: &str| {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = |c: &char| c.is_alphanumeric() || [' ', '-', '_'].contains(c);
        text.chars()
            .filter(kept)
            .collect::<String>()
            .replace(' ', "-")
    };
    headings.map(slug).collect()
}

/// Returns the targets of a page's links.
fn links(prose: &str) -> Vec<&str> {
    let after = prose.split("](").skip(1);
    after
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
        .collect()
}

fn dead_links(page: &Page) -> Vec<String> {
    let (prose, _) = split(&page.text);
    let here = root().join(&page.name);
    let dead = |target: &&str| {
        if target.contains("://") {
            return false;
        }
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let to = match path {
            "" => here.clone(),
            _ => here.parent().unwrap_or(Path::new("")).join(path),
        };
        let Ok(text) = std::fs::read_to_string(&to) else {
            return !to.is_dir();
        };
        !anchor.is_empty() && !anchors(&text).contains(anchor)
    };
    let found = links(&prose).into_iter().filter(dead);
    found
        .map(|target| format!("{} links to {target}, which is not there", page.name))
        .collect()
}

/// Users copy the examples of configuration, so each must be valid TOML.
#[test]
fn examples_of_toml_parse() {
    let mut broken = Vec::new();
    let mut count = 0;
    for page in pages() {
        for (kind, block) in split(&page.text).1 {
            if kind != "toml" {
                continue;
            }
            count += 1;
            if let Err(error) = block.parse::<toml::Table>() {
                broken.push(format!("{}: {error}\n{block}", page.name));
            }
        }
    }
    expect_none("examples of TOML parse", &broken);
    assert!(count > 20, "the examples were not found");
}

/// Examples are parts of a `city.toml`, so each may leave out what is required. Those with a description are automations and rituals.
#[test]
fn examples_of_a_city_are_valid() {
    let schema = horde_supervisor::config::schema();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for page in pages()
        .iter()
        .filter(|page| !page.name.starts_with("docs/reference/"))
    {
        let blocks = split(&page.text).1.into_iter();
        for (_, block) in blocks.filter(|(kind, _)| kind == "toml") {
            let mut table: toml::Table = block.parse().unwrap_or_default();
            // `[rigs.forge]` without the `[[rigs]]` that it belongs to.
            if let Some(rig @ toml::Value::Table(_)) = table.get_mut("rigs") {
                *rig = vec![rig.clone()].into();
            }
            if table.contains_key("description") {
                continue;
            }
            count += 1;
            let found = violations(&schema, &serde_json::to_value(&table).unwrap());
            let found = found.iter().filter(|found| !found.contains(": required "));
            wrong.extend(found.map(|found| format!("{}: {found}", page.name)));
        }
    }
    expect_none("examples of city.toml are valid", &wrong);
    assert!(count > 10, "the examples were not found");
}

#[test]
fn links_in_documents_lead_somewhere() {
    let dead: Vec<_> = pages().iter().flat_map(dead_links).collect();
    expect_none("relative links and their anchors exist", &dead);
}

#[test]
fn the_readme_is_short() {
    let lines = page("README.md").lines().count();
    assert!(lines <= 150, "README.md has {lines} lines; 150 are enough");
}

#[test]
fn generated_pages_match_the_program() {
    for name in ["verbs", "city-toml", "causes"] {
        let script = root().join("docs/reference/generate");
        let hd = env!("CARGO_BIN_EXE_hd");
        let made = Command::new(script).args([hd, name]).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let made = String::from_utf8(made.stdout).unwrap();
        let path = format!("docs/reference/{name}.md");
        assert!(
            made == page(&path),
            "{path} is old: run `docs/reference/generate {hd}`"
        );
    }
}

#[test]
fn every_event_is_described_and_no_other() {
    let text = page("docs/reference/events.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let described: BTreeSet<_> = rows.filter_map(|row| row.split('`').next()).collect();
    let known: BTreeSet<_> = EventType::ALL.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(described, known, "docs/reference/events.md");
}

#[test]
fn every_exit_code_is_described() {
    let text = page("docs/reference/exit-codes.md");
    let codes = Exit::TABLE.lines().skip(1);
    let missing: Vec<_> = codes
        .flat_map(|line| line.split('·'))
        .filter_map(|code| code.trim().split_once(' '))
        .map(|(number, meaning)| format!("| {number} | {meaning} |"))
        .filter(|row| !text.contains(row))
        .collect();
    expect_none("docs/reference/exit-codes.md has these rows", &missing);
}

/// The verbs of `hd` with their help, by their path, and other names of verbs.
struct Verbs {
    help: BTreeMap<String, String>,
    aliases: BTreeSet<String>,
}

impl Verbs {
    /// Reads docs/reference/verbs.md, which another test compares with the program.
    fn read() -> Self {
        let text = page("docs/reference/verbs.md");
        let mut help = BTreeMap::new();
        for section in text.split("\n#").skip(1) {
            let (heading, body) = section.split_once('\n').unwrap_or((section, ""));
            if let Some(path) = heading.trim_start_matches(['#', ' ']).strip_prefix("hd ") {
                help.insert(path.to_owned(), body.to_owned());
            }
        }
        let aliases = text.split("[alias: ").skip(1);
        let aliases = aliases.filter_map(|rest| rest.split(']').next());
        Self {
            help,
            aliases: aliases.map(ToOwned::to_owned).collect(),
        }
    }

    /// Returns the error in a call of `hd`, given the words behind it.
    fn wrong(&self, words: &[String]) -> Option<String> {
        const GLOBAL: &[&str] = &["--json", "--yes", "--help", "--version", "--city"];
        let mut rest = words;
        while let Some(first) = rest.first() {
            match first.as_str() {
                "--city" => rest = rest.get(2..).unwrap_or_default(),
                word if word == "--" || GLOBAL.contains(&word) => rest = &rest[1..],
                _ => break,
            }
        }
        let verb = rest.first()?;
        let is_placeholder = verb.chars().all(|c| c.is_ascii_uppercase());
        if is_placeholder || self.aliases.contains(verb) {
            return None;
        }
        let two = rest.iter().take(2).cloned().collect::<Vec<_>>().join(" ");
        let help = self.help.get(&two).or_else(|| self.help.get(verb));
        let Some(help) = help else {
            return Some(format!("hd {verb} is no verb"));
        };
        let is_group = help.contains("\nCommands:\n") && !self.help.contains_key(&two);
        if let Some(second) = rest.get(1).filter(|_| is_group && verb != "hook") {
            let is_word = second.chars().all(|c| c.is_ascii_lowercase() || c == '-');
            if is_word && !second.starts_with('-') {
                return Some(format!("hd {two} is no verb"));
            }
        }
        let mut options = rest.iter().filter_map(|word| word.split('=').next());
        let unknown = |word: &&str| {
            word.starts_with("--")
                && word.len() > 2
                && !GLOBAL.contains(word)
                && !help.contains(word)
        };
        let option = options.find(unknown)?;
        Some(format!("hd {two} has no option {option}"))
    }
}

/// Returns the calls of `hd` in a line of a shell, each as the words behind it.
fn calls(line: &str) -> Vec<Vec<String>> {
    let code = line.split(" #").next().unwrap_or_default();
    let Ok(words) = shell_words::split(code) else {
        return Vec::new();
    };
    let ends =
        |word: &String| ["&&", "||", "|"].contains(&word.as_str()) || word.starts_with(['>', '<']);
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| &words[before]);
        let begins = before.is_none_or(|word| ends(word) || word == "--bin");
        if word == "hd" && begins {
            let rest = words[index + 1..].iter();
            found.push(rest.take_while(|word| !ends(word)).cloned().collect());
        }
    }
    found
}

#[test]
fn documents_call_hd_by_verbs_and_options_that_it_has() {
    // Lists features that do not exist.
    const WISHES: &str = "docs/guide/not-there-yet.md";
    let verbs = Verbs::read();
    let mut wrong = Vec::new();
    for page in pages().iter().filter(|page| page.name != WISHES) {
        let (prose, blocks) = split(&page.text);
        let shell = blocks.iter().filter(|(kind, _)| kind == "sh");
        let lines = shell.flat_map(|(_, block)| block.lines().map(ToOwned::to_owned));
        let inline = quoted(&prose)
            .into_iter()
            .filter(|code| code.starts_with("hd "));
        let called = lines.chain(inline).flat_map(|line| calls(&line));
        let broken = called.filter_map(|words| verbs.wrong(&words));
        wrong.extend(broken.map(|why| format!("{}: {why}", page.name)));
    }
    expect_none("documents name verbs and options of `hd`", &wrong);
}

#[test]
fn a_wrong_call_is_caught() {
    let verbs = Verbs::read();
    let wrong = |line: &str| {
        calls(line)
            .iter()
            .filter_map(|words| verbs.wrong(words))
            .count()
    };
    assert_eq!(wrong("hd status --watch   # a screen"), 0);
    assert_eq!(
        wrong("hd --city a/b raider nuke Toast --salvage && hd ping"),
        0
    );
    assert_eq!(wrong("cargo run --release --bin hd -- demo"), 0);
    assert_eq!(wrong("hd completions bash > file"), 0);
    assert_eq!(wrong("hd stauts"), 1);
    assert_eq!(wrong("hd raider nuk Toast"), 1);
    assert_eq!(wrong("hd stop --gently"), 1);
}

#[test]
fn a_dead_link_is_caught() {
    let count = |text: &str| {
        let page = Page {
            name: "docs/x.md".to_owned(),
            text: text.to_owned(),
        };
        dead_links(&page).len()
    };
    assert_eq!(
        count("[a](faults.md) [b](../README.md#security) [c](https://a.example)"),
        0
    );
    assert_eq!(count("[a](guide)"), 0);
    assert_eq!(count("[a](nowhere.md)"), 1);
    assert_eq!(count("[a](../README.md#nothing-of-that-name)"), 1);
    assert_eq!(count("```\n[a](nowhere.md)\n```"), 0);
}
