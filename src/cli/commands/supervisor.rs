//! Finding and starting `horde-supervisor`, and waiting until it answers.
#![expect(
    clippy::disallowed_methods,
    reason = "starts the supervisor, and waits for it in real time"
)]

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::OFlags;
use serde_json::Value;

use crate::cli::city::City;
use crate::cli::environment;
use crate::cli::error::{CliError, Doing};
use crate::control::client::Client;
use crate::control::protocol::args::Nothing;
use crate::control::protocol::{Exit, Op};
use crate::regular;

/// The limit for a new supervisor to answer.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// The limit for another supervisor that holds the city to answer.
const OTHER_LIMIT: Duration = Duration::from_secs(10);
/// The pause between two checks whether it answers.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The supervisor's exit code for "another one holds this city".
const HELD_BY_ANOTHER: i32 = 4;

/// The program: beside this one, else in the `PATH`.
pub(super) fn program() -> Result<PathBuf, CliError> {
    let own = env::current_exe().doing("this program's own path")?;
    let beside = own.with_file_name("horde-supervisor");
    if written(&beside) < written(&own) {
        build(&own)?;
    }
    if beside.is_file() {
        return Ok(beside);
    }
    environment::places("horde-supervisor")
        .into_iter()
        .find(|file| file.is_file())
        .ok_or_else(|| {
            CliError::failed("horde-supervisor is neither beside hd nor in the PATH")
                .hint("install both with `cargo install --path .`")
        })
}

/// Returns the time of the file's last write; none if it is missing.
fn written(file: &Path) -> Option<SystemTime> {
    file.metadata().and_then(|found| found.modified()).ok()
}

/// Builds `horde-supervisor` under `cargo run --bin hd`, which builds only `hd`: the other program is missing or out of
/// date then.
fn build(own: &Path) -> Result<(), CliError> {
    let manifest = environment::raw("CARGO_MANIFEST_DIR");
    let (Some(cargo), Some(manifest)) = (environment::raw("CARGO"), manifest) else {
        return Ok(());
    };
    if Path::new(&manifest) != Path::new(env!("CARGO_MANIFEST_DIR")) {
        // Cargo runs another project's program, which runs `hd`.
        return Ok(());
    }
    let profile = own.parent().and_then(Path::file_name).unwrap_or_default();
    let profile = if profile == "debug" {
        "dev".as_ref()
    } else {
        profile
    };
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--bin", "horde-supervisor", "--bin"])
        .args(["horde-session", "--profile"])
        .arg(profile)
        .arg("--manifest-path")
        .arg(Path::new(&manifest).join("Cargo.toml"))
        .status()
        .doing("cargo")?;
    if status.success() {
        Ok(())
    } else {
        Err(CliError::failed("horde-supervisor could not be built"))
    }
}

/// Becomes the supervisor. Returns only when that fails.
pub(super) fn become_it(city: &City, words: &[&str]) -> Result<(), CliError> {
    let error = Command::new(program()?).arg(&city.root).args(words).exec();
    Err(error).doing("horde-supervisor")
}

/// The lifetime of a supervisor in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lives {
    /// Independent of this terminal.
    Detached,
    /// Ends with this program: on Ctrl-C and in every other case.
    WithUs,
}

/// A supervisor running in the background.
pub(super) struct Background {
    child: Child,
    /// The path of its log.
    pub log: PathBuf,
    /// The size of the log before this start.
    logged: u64,
}

/// Starts it, logging to `.horde/supervisor.log`.
pub(super) fn start(city: &City, lives: Lives, words: &[&str]) -> Result<Background, CliError> {
    let mut command = Command::new(program()?);
    command.args(words);
    start_by(command, city, lives)
}

/// Starts it with this environment and nothing else.
pub(super) fn start_in(
    env: &BTreeMap<String, String>,
    city: &City,
    lives: Lives,
) -> Result<Background, CliError> {
    let mut command = Command::new(program()?);
    command.env_clear().envs(env);
    start_by(command, city, lives)
}

fn start_by(mut command: Command, city: &City, lives: Lives) -> Result<Background, CliError> {
    let state = city.root.join(".horde");
    match DirBuilder::new().mode(0o700).create(&state) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(error).doing(state.display());
        }
        _ => {}
    }
    let found = fs::symlink_metadata(&state).doing(state.display())?;
    if !found.is_dir() {
        let what = regular::kind(&found);
        return Err(CliError::failed(format!(
            "{} is {what}, not a directory",
            state.display()
        )));
    }
    let log = city.log();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = OpenOptions::new();
    let options = options.create(true).append(true).mode(0o600);
    let file = options.custom_flags(flags.bits().cast_signed()).open(&log);
    let file = file.doing(log.display())?;
    let found = file.metadata().doing(log.display())?;
    regular::regular(&found).doing(log.display())?;
    let logged = file.metadata().doing(log.display())?.len();
    command
        .arg(&city.root)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(file);
    match lives {
        Lives::Detached => detach(&mut command),
        Lives::WithUs => bind(&mut command),
    }
    let child = command.spawn().doing("horde-supervisor")?;
    Ok(Background { child, log, logged })
}

fn detach(command: &mut Command) {
    // SAFETY: between fork and exec only `setsid` is called, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| Ok(rustix::process::setsid().map(drop)?));
    }
}

/// Has the kernel stop the supervisor, gracefully, when this program has ended.
fn bind(command: &mut Command) {
    // SAFETY: between fork and exec only `prctl` is called, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            let signal = Some(rustix::process::Signal::TERM);
            Ok(rustix::process::set_parent_process_death_signal(signal)?)
        });
    }
}

impl Background {
    /// Waits until the supervisor answers, and returns its answer to a ping. Where another one holds the city, this one ends by
    /// itself after a moment, and the answer is that of the other.
    pub fn ready(&mut self, city: &City) -> Result<Value, CliError> {
        let deadline = Instant::now() + READY_LIMIT;
        loop {
            let answer = ping(city);
            if let Ok(answer) = &answer
                && self.is_answer_of_this(answer)
            {
                return Ok(answer.clone());
            }
            if let Some(status) = self.child.try_wait().doing("horde-supervisor")? {
                let of_another = match status.code() {
                    Some(HELD_BY_ANOTHER) => answer_of_another(city),
                    _ => None,
                };
                return of_another.ok_or_else(|| self.ended(status.code()));
            }
            if Instant::now() >= deadline {
                let seconds = READY_LIMIT.as_secs();
                let message = format!("the supervisor does not answer after {seconds} s");
                return Err(CliError::new(Exit::TimedOut, message)
                    .hint(format!("see {}", self.log.display())));
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Returns true if the answer to a ping came from the supervisor that was started here.
    pub fn is_answer_of_this(&self, answer: &Value) -> bool {
        answer["pid"] == self.child.id()
    }

    fn ended(&self, code: Option<i32>) -> CliError {
        // The hint names the log, in case it cannot be read here.
        let log = fs::read(&self.log).unwrap_or_default();
        let from = usize::try_from(self.logged).unwrap_or(usize::MAX);
        let written = String::from_utf8_lossy(log.get(from..).unwrap_or_default());
        let said = last_words(&written);
        match code {
            Some(2) => CliError::usage(format!("the configuration is invalid\n{said}"))
                .hint("`hd config check` shows all errors"),
            Some(HELD_BY_ANOTHER) => {
                CliError::failed(format!("another supervisor holds this city\n{said}"))
            }
            _ => CliError::failed(format!("the supervisor ended at once\n{said}"))
                .hint(format!("see {}", self.log.display())),
        }
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Result<(), CliError> {
        let status = self.child.wait().doing("horde-supervisor")?;
        if status.success() {
            Ok(())
        } else {
            Err(CliError::failed(format!(
                "the supervisor ended with {status}"
            )))
        }
    }
}

/// Returns the lines for people from the log of a supervisor that ended at once: plain lines and errors.
fn last_words(written: &str) -> String {
    const MOST: usize = 40;
    let plain = |line: &str| match serde_json::from_str::<Value>(line) {
        Ok(logged) if logged.is_object() => {
            let word = |key| logged.get(key).and_then(Value::as_str);
            let said = [word("message"), word("error")].into_iter().flatten();
            let said = said.collect::<Vec<_>>().join(": ");
            (word("level") == Some("error")).then_some(said)
        }
        _ => Some(line.to_owned()),
    };
    let lines: Vec<_> = written.lines().filter_map(plain).take(MOST).collect();
    lines.join("\n")
}

/// Returns the answer of the supervisor that holds the city. It may still be starting, as this one was.
fn answer_of_another(city: &City) -> Option<Value> {
    let deadline = Instant::now() + OTHER_LIMIT;
    loop {
        if let Ok(answer) = ping(city) {
            return Some(answer);
        }
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Asks whether the city's supervisor lives.
pub(super) fn ping(city: &City) -> Result<Value, CliError> {
    Ok(Client::connect(&city.socket)?.call(&Op::Ping(Nothing {}))?)
}
