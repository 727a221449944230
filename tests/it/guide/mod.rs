//! Commands of the README and of the pages in docs/guide, run as they stand there, each in a city in which a reader would
//! run it. A new command in a page fails its test until the test runs it, or names why it cannot.

mod service;
mod work;

use std::path::Path;
use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;

use crate::support::live::{City, LIMIT, Ran};

/// Commands of all pages that no test can run, by their beginning.
const ELSEWHERE: &[&str] = &[
    // They install, or build for minutes; `.ci/run` runs `cargo test`, and `cli_demo` runs the demo.
    "cargo ",
    // Its terminal is tested in `e2e::attach`.
    "hd attach",
];

/// The commands of a page that have not been run yet.
pub struct Page {
    name: &'static str,
    text: String,
    left: Vec<String>,
}

impl Page {
    /// Reads the commands of a page; its name is that of the file.
    pub fn open(name: &'static str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        let mut left = commands(&text);
        left.retain(|command| !ELSEWHERE.iter().any(|begin| command.starts_with(begin)));
        assert!(!left.is_empty(), "{name} has commands");
        Self { name, text, left }
    }

    /// Returns the only example of TOML with this line.
    pub fn toml(&self, line: &str) -> String {
        let (before, after) = self.text.split_once(line).unwrap();
        let begin = before.rfind("```toml\n").unwrap() + "```toml\n".len();
        let end = after.find("```").unwrap();
        format!("{}{line}{}", &before[begin..], &after[..end])
    }

    /// Takes the first command that begins so, with some of its words replaced.
    pub fn take(&mut self, begin: &str, replaced: &[(&str, &str)]) -> String {
        let found = self.left.iter().position(|line| line.starts_with(begin));
        let found = found.unwrap_or_else(|| panic!("{}: {begin} in {:?}", self.name, self.left));
        let mut command = self.left.remove(found);
        for (old, new) in replaced {
            assert!(command.contains(old), "{old} in {command}");
            command = command.replace(old, new);
        }
        command
    }

    /// Runs it in the directory of the city; it must succeed.
    pub fn run(&mut self, city: &City, begin: &str, replaced: &[(&str, &str)]) -> String {
        let command = self.take(begin, replaced);
        run(city, city.root(), &command)
    }

    /// Takes the first command that begins so, if there is one.
    pub fn take_if(&mut self, begin: &str) -> Option<String> {
        let is_there = self.left.iter().any(|line| line.starts_with(begin));
        is_there.then(|| self.take(begin, &[]))
    }

    /// Runs a command that goes on until it is ended, until its output has this text. Meanwhile something happens in the
    /// city.
    pub fn watch(&mut self, (city, dir): (&City, &Path), begin: &str, wanted: &str) {
        let command = self.take(begin, &[]);
        let seen = city.root().join("seen.log").display().to_string();
        let script = format!(
            "{command} >{seen} & pid=$!; until grep -q {wanted} {seen}; do hd relic create more; done; kill $pid"
        );
        let limit = LIMIT.as_secs();
        run(city, dir, &format!("timeout {limit} sh -c '{script}'"));
    }

    /// Checks that each command was run, but for those that begin so.
    pub fn end(self, but: &[&str]) {
        for begin in but {
            let known = self.left.iter().any(|line| line.starts_with(begin));
            assert!(known, "{} has {begin}", self.name);
        }
        let mut left = self.left;
        left.retain(|line| !but.iter().any(|begin| line.starts_with(begin)));
        assert!(
            left.is_empty(),
            "no test runs these of {}: {left:#?}",
            self.name
        );
    }
}

/// Returns the lines of the examples of a kind (`sh`, `toml`).
fn examples<'text>(text: &'text str, kind: &str) -> Vec<&'text str> {
    let mut found = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(begun) => is_inside = begun == kind,
            None if is_inside => found.push(line),
            None => {}
        }
    }
    found
}

/// Returns the commands of the shell examples of a page, without their comments.
fn commands(text: &str) -> Vec<String> {
    let code = |line: &str| {
        line.split(" #")
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    let found = examples(text, "sh").into_iter().map(code);
    found
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect()
}

/// Makes a shell with our programs in its `PATH`.
fn shell(city: &City, dir: &Path, command: &str) -> Command {
    let programs = cargo_bin("hd");
    let path = std::env::var("PATH").unwrap();
    let own = city.root().join("home/bin");
    let path = format!(
        "{}:{}:{path}",
        own.display(),
        programs.parent().unwrap().display()
    );
    let hd = city.program("hd");
    let set = hd.get_envs().filter_map(|(key, value)| Some((key, value?)));
    let mut shell = Command::new("sh");
    shell.env_clear().envs(set).env("PATH", path);
    shell
        .args(["-c", command])
        .current_dir(dir)
        .stdin(Stdio::null());
    shell
}

/// Runs a line of a shell, which must succeed. Returns its output.
pub fn run(city: &City, dir: &Path, command: &str) -> String {
    let ran = try_to(city, dir, command);
    assert_eq!(ran.code, 0, "{command}: {ran:?}");
    ran.out
}

/// Runs a line of a shell.
pub fn try_to(city: &City, dir: &Path, command: &str) -> Ran {
    // A reader answers yes on the terminal, where there is one.
    let consents = format!("hd() {{ command hd --yes \"$@\"; }}; {command}");
    let output = shell(city, dir, &consents).output().unwrap();
    Ran {
        code: output.status.code().expect("an exit code"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Every page with commands has a test.
#[test]
fn commands_of_every_page_are_run() {
    let sources = [include_str!("work.rs"), include_str!("service.rs")].concat();
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guide");
    let pages = std::fs::read_dir(guide).unwrap();
    let names = pages.map(|page| format!("docs/guide/{}", page.unwrap().file_name().display()));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in names.chain(["README.md".to_owned()]) {
        let text = std::fs::read_to_string(root.join(&name)).unwrap();
        let is_run = sources.contains(&format!("Page::open(\"{name}\")"));
        assert!(is_run || commands(&text).is_empty(), "no test runs {name}");
    }
}
