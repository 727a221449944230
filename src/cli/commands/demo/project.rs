//! The project of the demo: a bare origin, a checkout of it, and a city whose agent is a script.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cli::error::{CliError, Doing};
use crate::config;

/// The scripted agent.
const AGENT: &str = include_str!("agent.sh");
/// The program of the project.
const GREET: &str = include_str!("greet.sh");
/// Its gate.
const CHECK: &str = include_str!("check.sh");
/// The name of the rig.
pub(super) const RIG: &str = "greetings";

/// A further task, for `hd run`.
pub(super) const MORE: &str = "Teach greet.sh german";

/// The tasks: a greeting in each language.
const LANGUAGES: &[(&str, &str)] = &[
    ("french", "Bonjour"),
    ("spanish", "Hola"),
    ("norwegian", "Hei"),
    ("swahili", "Hujambo"),
    ("icelandic", "Halló"),
    ("welsh", "Helo"),
    ("finnish", "Terve"),
    ("italian", "Ciao"),
    ("basque", "Kaixo"),
    ("hawaiian", "Aloha"),
    ("polish", "Cześć"),
    ("turkish", "Merhaba"),
];

/// A piece of work.
pub(super) struct Task {
    pub language: &'static str,
    pub title: String,
    pub body: String,
}

/// Returns this number of tasks.
pub(super) fn tasks(count: u16) -> Vec<Task> {
    let tasks = LANGUAGES.iter().take(count.into());
    tasks
        .map(|(language, greeting)| Task {
            language,
            title: format!("Teach greet.sh {language}"),
            body: format!(
                "Add the greeting, a test for it and a page about it.\n\n\
                 language: {language}\ngreeting: {greeting}\n"
            ),
        })
        .collect()
}

/// The demo's directories.
pub(super) struct Project {
    pub root: PathBuf,
    pub origin: PathBuf,
}

impl Project {
    /// Makes everything in an empty directory.
    pub fn make(root: &Path, raiders: u16) -> Result<Self, CliError> {
        let origin = root.join("origin.git");
        let checkout = root.join("checkout");
        git(
            root,
            &[
                "init",
                "--quiet",
                "--bare",
                "--initial-branch=main",
                "origin.git",
            ],
        )?;
        git(root, &["clone", "--quiet", "origin.git", "checkout"])?;
        git(&checkout, &["checkout", "--quiet", "-B", "main"])?;
        git(&checkout, &["config", "user.name", "Demo"])?;
        git(&checkout, &["config", "user.email", "demo@example.invalid"])?;
        for (file, text) in [
            (
                "README.md",
                "# Greetings\n\n`sh greet.sh LANGUAGE NAME` greets; `sh check.sh` checks.\n",
            ),
            ("greet.sh", GREET),
            ("check.sh", CHECK),
            ("greetings/english", "Hello\n"),
            ("tests/english", "Hello, Ada!\n"),
            (
                "docs/english.md",
                "# english\n\nSay \"Hello\" by `sh greet.sh english NAME`.\n",
            ),
        ] {
            write(&checkout.join(file), text)?;
        }
        git(&checkout, &["add", "."])?;
        git(
            &checkout,
            &[
                "commit",
                "--quiet",
                "-m",
                "A program that greets, in one language",
            ],
        )?;
        git(&checkout, &["push", "--quiet", "origin", "main"])?;
        write(&root.join("agent.sh"), AGENT)?;
        write(&root.join(config::FILE), &city(root, raiders))?;
        Ok(Self {
            root: root.to_owned(),
            origin,
        })
    }

    /// Returns the log of the origin's main branch, a line per commit, the newest first.
    pub fn log(&self) -> Result<String, CliError> {
        let format = "--format=%h  %<(24,trunc)%an %s";
        git(&self.origin, &["log", "--first-parent", format, "main"])
    }

    /// Returns the tasks that have not landed on the origin's main branch.
    pub fn missing(&self, tasks: &[Task]) -> Result<Vec<&'static str>, CliError> {
        let files = git(&self.origin, &["ls-tree", "-r", "--name-only", "main"])?;
        let landed = |task: &&Task| {
            let all = [
                format!("greetings/{}", task.language),
                format!("tests/{}", task.language),
                format!("docs/{}.md", task.language),
            ];
            all.iter()
                .all(|file| files.lines().any(|line| line == file))
        };
        let missing = tasks.iter().filter(|task| !landed(task));
        Ok(missing.map(|task| task.language).collect())
    }
}

fn city(root: &Path, raiders: u16) -> String {
    let quoted = |path: PathBuf| toml::Value::from(path.to_string_lossy().as_ref()).to_string();
    format!(
        r#"# The city of `hd demo`. Its agent is a script; yours would be claude, codex or another.

[workspace]
name = "demo"

[harness.script]
command = ["sh", {agent}]

[[rigs]]
name = "{RIG}"
path = {checkout}
prefix = "gr"

[rigs.raiders]
harness = "script"
max = {raiders}

[rigs.forge]
gates = [{{ name = "check", run = "sh check.sh", timeout = "1m" }}]
"#,
        agent = quoted(root.join("agent.sh")),
        checkout = quoted(root.join("checkout")),
    )
}

fn write(path: &Path, text: &str) -> Result<(), CliError> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).doing(dir.display())?;
    }
    fs::write(path, text).doing(path.display())
}

/// Runs git as in a user's fresh account: no settings of the user change the demo.
#[expect(
    clippy::disallowed_methods,
    reason = "the demo makes its repository with git"
)]
fn git(dir: &Path, args: &[&str]) -> Result<String, CliError> {
    let output = Command::new("git")
        .arg("-C")
        .arg(dir)
        .args([
            "-c",
            "commit.gpgSign=false",
            "-c",
            "core.hooksPath=/dev/null",
        ])
        .args(args)
        .stdin(Stdio::null())
        .output()
        .doing("git")?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(CliError::failed(format!(
        "git {}: {}",
        args.join(" "),
        said.trim()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_is_real_and_its_city_is_right() {
        let temp = crate::testing::scratch();
        let root = temp.path().canonicalize().unwrap();
        let project = Project::make(&root, 3).unwrap();
        assert_eq!(project.log().unwrap().lines().count(), 1);
        let tasks = tasks(3);
        assert_eq!(
            project.missing(&tasks).unwrap(),
            ["french", "spanish", "norwegian"]
        );
        let loaded = config::load(&root, &config::Env::default());
        let loaded = loaded.unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        assert_eq!(loaded.city.rigs[0].raiders.max, 3);
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the demo makes its repository with git"
    )]
    fn the_agent_does_its_task_and_again_after_a_crash() {
        let temp = crate::testing::scratch();
        let root = temp.path().canonicalize().unwrap();
        Project::make(&root, 1).unwrap();
        let sandbox = root.join("checkout");
        let task = &tasks(1)[0];
        // A stand-in for `hd`: the agent must have committed everything before it calls.
        write(
            &root.join("bin/hd"),
            "#!/bin/sh\ngit status --porcelain --untracked-files=no\n",
        )
        .unwrap();
        let chmod = Command::new("chmod")
            .args(["+x", "bin/hd"])
            .current_dir(&root)
            .status();
        assert!(chmod.unwrap().success());
        let path = std::env::var("PATH").unwrap();
        let whole = format!("# gr-1: {}\n\n{}", task.title, task.body);
        // As `hd run` makes it.
        let title = format!("# gr-2: {MORE}\n\nBranch: raider/Toast/gr-2-1\n");
        for (text, language) in [(&whole, "french"), (&whole, "french"), (&title, "german")] {
            write(&sandbox.join("TASK.md"), text).unwrap();
            let work = Command::new("sh")
                .arg(root.join("agent.sh"))
                .current_dir(&sandbox)
                .env("PATH", format!("{}:{path}", root.join("bin").display()))
                .output()
                .unwrap();
            assert!(
                work.status.success(),
                "{}",
                String::from_utf8_lossy(&work.stderr)
            );
            let said = String::from_utf8_lossy(&work.stdout);
            let end = format!("in {language}");
            assert!(said.trim_end().ends_with(&end), "{said}");
        }
        let log = git(&sandbox, &["log", "--format=%s", "main"]).unwrap();
        assert_eq!(log.lines().count(), 7, "{log}");
    }
}
