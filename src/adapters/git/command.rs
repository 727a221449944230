//! The only builder of `git` commands: argv only, fixed settings, no terminal, own process group, limits of time and
//! output. Nothing else in the project spawns `git`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Seek as _};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::collect::collect;
use super::locks;
use crate::adapters::{keeper, runs, standstill};
use crate::domain::url_text::without_passwords;
use crate::ports::repo::RepoError;

/// The limit for reading settings, in which a pipe in the place of a file is never read to its end.
pub(super) const READ_LIMIT: Duration = Duration::from_secs(15);
/// Limit of a local command.
pub const LOCAL: Duration = Duration::from_secs(120);
/// Limit of a command that talks to a remote.
pub const NETWORK: Duration = Duration::from_secs(300);
/// Limit of a command that writes a work tree.
pub const CHECKOUT: Duration = Duration::from_secs(600);

/// Settings for every command, whatever the user's configuration is.
const FIXED: &[&str] = &[
    "core.fsmonitor=false",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
    "core.quotePath=false",
    "color.ui=false",
    "log.showSignature=false",
    "safe.bareRepository=all",
    "protocol.ext.allow=never",
];

/// Disables hooks, unless [`Git::hooks`] names a directory of them.
const NO_HOOKS: &str = "core.hooksPath=/dev/null";

/// Makes git read objects as they are, without replacements or other parents, and ignore the machine's attributes.
const PLAIN: &[(&str, &str)] = &[
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    // A file that cannot exist: git warns of grafts if the file is there, even an empty one.
    ("GIT_GRAFT_FILE", "/dev/null/none"),
    ("GIT_ATTR_NOSYSTEM", "1"),
];

/// The inherited variables: those that git and its credential helpers need.
const INHERITED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "SSH_AUTH_SOCK",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSL_CAINFO",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
];

/// The variables that locate the configuration of the user and of the machine: only [`Git::as_user`] inherits them.
const USERS: &[&str] = &[
    "XDG_CONFIG_HOME",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
];

/// Subcommands that run no other program: hooks are disabled for them.
const READERS: &[&str] = &[
    "config",
    "for-each-ref",
    "ls-files",
    "merge-base",
    "rev-parse",
    "symbolic-ref",
    "update-ref",
    "version",
    "worktree",
];

/// The configuration that a command reads in addition to its repository's.
#[derive(Debug)]
enum Besides {
    Nothing,
    /// A file with the settings that were taken over from the user.
    File(PathBuf),
    /// The configuration of the user and of the machine, as it is now, the machine's through a file that includes it.
    User {
        machine: Option<PathBuf>,
    },
}

/// A finished command.
#[derive(Debug)]
pub struct Output {
    /// The exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error, as text.
    pub stderr: String,
}

impl Output {
    /// Returns standard output as text, without its last newline.
    #[must_use]
    pub fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.stdout);
        text.strip_suffix('\n').unwrap_or(&text).to_owned()
    }

    /// Returns true if it ended with code 0.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.code == Some(0)
    }
}

/// A `git` command being built.
#[derive(Debug)]
pub struct Git {
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    hooks: OsString,
    besides: Besides,
    stdin: Input,
    stdout: Option<File>,
    /// Set where its output is for people, and a long one loses its middle.
    is_chatty: bool,
    limit: Duration,
    /// The repository whose stale locks are removed.
    heals: Option<PathBuf>,
    /// The reason why it must not run.
    refused: Option<RepoError>,
}

/// Standard input of a command.
#[derive(Debug)]
enum Input {
    Nothing,
    Bytes(Vec<u8>),
    File(File),
}

impl Git {
    /// Makes a command that runs in the directory (a work tree, or a bare repository). git does not search for a
    /// repository above it: a sandbox with a broken link must not count as part of its parent.
    #[must_use]
    pub fn in_dir(dir: &Path) -> Self {
        let mut env = Vec::new();
        if let Some(parent) = dir.parent().filter(|parent| parent.is_absolute()) {
            env.push(("GIT_CEILING_DIRECTORIES".into(), parent.into()));
        }
        let mut args: Vec<OsString> = vec!["-C".into(), dir.into()];
        for setting in FIXED {
            args.extend(["-c".into(), OsString::from(setting)]);
        }
        Self {
            args,
            env,
            hooks: NO_HOOKS.into(),
            besides: Besides::Nothing,
            stdin: Input::Nothing,
            stdout: None,
            is_chatty: false,
            limit: LOCAL,
            heals: None,
            refused: None,
        }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env
            .push((key.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Sets its standard input.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Input::Bytes(bytes.into());
        self
    }

    /// Sets a file as its standard input.
    #[must_use]
    pub fn stdin_file(mut self, file: File) -> Self {
        self.stdin = Input::File(file);
        self
    }

    /// Sets a file as its standard output.
    #[must_use]
    pub fn stdout_file(mut self, file: File) -> Self {
        self.stdout = Some(file);
        self
    }

    /// Lets it run the hooks of a directory. Without this, it runs none.
    #[must_use]
    pub fn hooks(mut self, dir: &Path) -> Self {
        self.hooks = "core.hooksPath=".into();
        self.hooks.push(dir);
        self
    }

    /// Lets it read the current configuration of the user and of the machine. Only for commands that talk to a
    /// remote, sign, ask for the user's own settings, or work in the user's own checkout: a filter or a merge driver
    /// that is added there later must not run anywhere else.
    #[must_use]
    pub fn as_user(mut self) -> Self {
        self.besides = Besides::User { machine: None };
        self
    }

    /// As [`Git::as_user`], with a file in the place of the configuration of the machine, which git reads first.
    #[must_use]
    pub fn as_user_with(mut self, machine: PathBuf) -> Self {
        self.besides = Besides::User {
            machine: Some(machine),
        };
        self
    }

    /// Lets it read a file instead of the user's configuration.
    #[must_use]
    pub fn besides(mut self, file: PathBuf) -> Self {
        self.besides = Besides::File(file);
        self
    }

    /// Leaves out the middle of a long output, which a hook may print.
    #[must_use]
    pub fn chatty(mut self) -> Self {
        self.is_chatty = true;
        self
    }

    /// Sets its timeout (default [`LOCAL`]).
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Lets it retry after a failure on a stale lock of this repository, which a killed git left. Only for a
    /// repository that the supervisor alone writes.
    #[must_use]
    pub fn heals(mut self, repo: &Path) -> Self {
        self.heals = Some(repo.to_owned());
        self
    }

    /// Makes it fail with this error instead of running, because its input is not safe to open.
    #[must_use]
    pub fn refused(mut self, why: RepoError) -> Self {
        self.refused = Some(why);
        self
    }

    /// Runs it and returns its output with any exit code.
    ///
    /// # Errors
    /// When it was refused, could not be started, or reached its timeout.
    pub fn output(mut self) -> Result<Output, RepoError> {
        if let Some(why) = self.refused.take() {
            return Err(why);
        }
        let output = self.once()?;
        let repo = self.heals.as_deref().filter(|_| !output.ok());
        match repo.is_some_and(|repo| locks::clear_stale(repo, &output.stderr)) {
            true => self.once(),
            false => Ok(output),
        }
    }

    /// Returns the file from its beginning, for every run of the command.
    fn rewound(&self, file: &File) -> Result<Stdio, RepoError> {
        let mut again = file;
        let rewound = match again.rewind() {
            // A pipe has no beginning: a second run of the command fails.
            Err(error) if error.kind() == ErrorKind::NotSeekable => Ok(()),
            rewound => rewound,
        };
        let input = rewound.and_then(|()| file.try_clone());
        let input = input.map_err(|error| {
            RepoError::Failed(format!("{}: its file: {error}", self.describe()))
        })?;
        Ok(input.into())
    }

    /// Returns the process to be started, with the environment and the settings of this command, for a conversation with
    /// git. It leads the process group that git is in. It is git itself if git runs no other program.
    pub(super) fn command(&self) -> Command {
        standstill::pass();
        let mut command = match self.is_anchored() {
            true => keeper::anchored(&program()),
            false => Command::new(program()),
        };
        command
            .args(&self.args[..2])
            .arg("-c")
            .arg(&self.hooks)
            .args(&self.args[2..])
            .env_clear();
        let inherited = match self.besides {
            Besides::User { .. } => [INHERITED, USERS].concat(),
            Besides::Nothing | Besides::File(_) => INHERITED.to_vec(),
        };
        for name in inherited {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        let global = match &self.besides {
            Besides::Nothing => Some(Path::new("/dev/null")),
            Besides::File(file) => Some(file.as_path()),
            Besides::User { machine } => {
                if let Some(file) = machine {
                    // What the user says of the machine's settings is in the file.
                    command
                        .env("GIT_CONFIG_SYSTEM", file)
                        .env("GIT_CONFIG_NOSYSTEM", "0");
                }
                None
            }
        };
        if let Some(global) = global {
            command
                .env("GIT_CONFIG_GLOBAL", global)
                .env("GIT_CONFIG_NOSYSTEM", "1")
                // git also searches there for the user's attributes and ignore rules.
                .env("XDG_CONFIG_HOME", "/dev/null");
        }
        command
            .env("LC_ALL", "C")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_EDITOR", "true")
            .env("GIT_ASKPASS", "true")
            // Not with GIT_SSH_COMMAND, which would override the user's core.sshCommand.
            .env("SSH_ASKPASS", "true")
            .env("SSH_ASKPASS_REQUIRE", "force")
            .envs(PLAIN.iter().copied())
            .envs(runs::errand().map(|city| (runs::ERRAND, city)))
            .envs(self.env.iter().map(|(key, value)| (key, value)))
            .process_group(0);
        command
    }

    fn is_of_user(&self) -> bool {
        matches!(self.besides, Besides::User { .. })
    }

    /// Returns true if git runs below an anchor.
    fn is_anchored(&self) -> bool {
        runs::errand().is_some() && self.leaves_processes()
    }

    /// Returns true if git may run programs that leave processes behind: those of the user's configuration, of the
    /// user's repository, or of a remote that is a directory.
    fn leaves_processes(&self) -> bool {
        let own = self.args.iter().skip(2 + 2 * FIXED.len());
        let mut words = own.filter_map(|arg| arg.to_str()).peekable();
        // `-c setting` stands before the subcommand.
        while words.next_if(|word| *word == "-c").is_some() {
            words.next();
        }
        let runs_none = words.next().is_some_and(|word| READERS.contains(&word));
        self.is_of_user() && !runs_none
    }

    fn once(&self) -> Result<Output, RepoError> {
        let what = self.describe();
        let mut command = self.command();
        let stdout = match &self.stdout {
            Some(file) => self.rewound(file)?,
            None => Stdio::piped(),
        };
        let (stdin, bytes) = match &self.stdin {
            Input::Nothing => (Stdio::null(), None),
            Input::Bytes(bytes) => (Stdio::piped(), Some(bytes.clone())),
            Input::File(file) => (self.rewound(file)?, None),
        };
        command.stdin(stdin).stdout(stdout).stderr(Stdio::piped());
        let child = command
            .spawn()
            .map_err(|error| RepoError::Failed(format!("git cannot be run: {error}")))?;
        let collected = collect(child, bytes, self.limit, self.is_chatty);
        standstill::pass();
        let collected = collected.map_err(|error| RepoError::Failed(format!("{what}: {error}")))?;
        let Some(status) = collected.status else {
            let limit = self.limit;
            return Err(RepoError::Timeout { what, limit });
        };
        if self.is_anchored() && status.code() == Some(keeper::NOT_STARTED.into()) {
            let why = String::from_utf8_lossy(&collected.stderr);
            return Err(RepoError::Failed(why.trim().to_owned()));
        }
        Ok(Output {
            code: status.code(),
            stdout: collected.stdout,
            stderr: String::from_utf8_lossy(&collected.stderr).into_owned(),
        })
    }

    /// Runs it. Any exit code but 0 is an error with git's message.
    ///
    /// # Errors
    /// As [`Git::output`], or [`RepoError::Git`].
    pub fn run(self) -> Result<Output, RepoError> {
        let what = self.describe();
        let output = self.output()?;
        if output.ok() {
            return Ok(output);
        }
        Err(RepoError::Git {
            command: what,
            code: output.code,
            stderr: output.stderr.trim().to_owned(),
        })
    }

    /// Formats the command without its fixed settings, for messages.
    fn describe(&self) -> String {
        let shown = self.args.iter().skip(2 + 2 * FIXED.len());
        let words: Vec<_> = shown.map(|arg| arg.to_string_lossy()).collect();
        without_passwords(&format!("git {}", words.join(" ")))
    }
}

/// Returns the program by its path. For a name and an environment that is not its own, the standard library would
/// fork this whole process first, which takes longer than most commands.
pub(crate) fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|dir| dir.join("git"));
    let found = places.find(|place| place.is_absolute() && place.is_file());
    found.unwrap_or_else(|| "git".into())
}

#[cfg(test)]
mod tests;
