//! Real git for tests, without any configuration of the machine.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::LazyLock;

/// Directories above which libgit2 looks for no repository.
const NO_CEILINGS: [&str; 0] = [];

/// The path of git. To look a name up in an environment that is not its own, the standard library first copies the
/// whole process, which takes longer than most commands.
static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
    let path = std::env::var_os("PATH").expect("a PATH");
    let mut places = std::env::split_paths(&path).map(|dir| dir.join("git"));
    places.find(|place| place.is_file()).expect("git")
});

fn command(dir: &Path) -> Command {
    let mut command = Command::new(&*PROGRAM);
    command
        .arg("-C")
        .arg(dir)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").expect("a PATH"))
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_EDITOR", "true")
        .env("LC_ALL", "C")
        .env("GIT_AUTHOR_NAME", "Ada")
        .env("GIT_AUTHOR_EMAIL", "ada@example.invalid")
        .env("GIT_COMMITTER_NAME", "Ada")
        .env("GIT_COMMITTER_EMAIL", "ada@example.invalid");
    command
}

/// Runs git and returns its output, also of a failure.
pub fn try_git(dir: &Path, args: &[&str]) -> Output {
    command(dir).args(args).output().expect("git runs")
}

/// Runs git, which must succeed. Returns its output without the last newline.
pub fn git(dir: &Path, args: &[&str]) -> String {
    let output = try_git(dir, args);
    assert!(
        output.status.success(),
        "git {args:?} in {}: {}",
        dir.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim_end_matches('\n').to_owned()
}

/// Runs git with this input and returns its output, also of a failure.
pub fn try_feed_git(dir: &Path, args: &[&str], input: &str) -> Output {
    let mut child = command(dir)
        .args(args)
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("git runs");
    let mut pipe = child.stdin.take().expect("a pipe");
    // It may end before it has read all.
    drop(pipe.write_all(input.as_bytes()));
    drop(pipe);
    child.wait_with_output().expect("ended")
}

/// Runs git with this input; it must succeed.
pub fn feed_git(dir: &Path, args: &[&str], input: &str) {
    let output = try_feed_git(dir, args, input);
    assert!(
        output.status.success(),
        "git {args:?} in {}: {}",
        dir.display(),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Runs git with a terminal for its output, at which it starts a pager, and with the editors of its configuration.
/// Returns how it ended.
pub fn git_on_terminal(dir: &Path, args: &[&str]) -> ExitStatus {
    // The output is less than a terminal holds without a reader.
    let (_seat, end) = super::pty::terminal();
    let mut git = command(dir);
    git.args(args).env("TERM", "xterm").env_remove("GIT_EDITOR");
    git.stdin(Stdio::null())
        .stdout(end.try_clone().expect("a terminal"))
        .stderr(end);
    git.status().expect("git runs")
}

/// Returns the object that a revision names.
pub fn rev(dir: &Path, name: &str) -> String {
    // A process costs milliseconds. libgit2 cannot open every repository.
    let here = git2::Repository::open_ext(dir, git2::RepositoryOpenFlags::empty(), NO_CEILINGS);
    let found = here.and_then(|repo| Ok(repo.revparse_single(name)?.id().to_string()));
    found.unwrap_or_else(|_| git(dir, &["rev-parse", "--verify", name]))
}

/// Writes a file and its directories.
pub fn write(dir: &Path, name: &str, content: impl AsRef<[u8]>) {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
    std::fs::write(path, content).expect("a file");
}

/// Commits everything that is in the work tree.
pub fn commit_all(dir: &Path, message: &str) -> String {
    git(dir, &["add", "-A"]);
    let commit = ["-c", "maintenance.auto=false", "commit", "--quiet"];
    git(dir, &[&commit[..], &["-m", message]].concat());
    rev(dir, "HEAD")
}
