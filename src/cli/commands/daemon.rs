//! `hd up`, `hd stop` and `hd ping`: the supervisor itself.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::cli::args::Up;
use crate::cli::city::City;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::output::{self, Style};
use crate::cli::render::{outcome_lines, show};
use crate::control::client;
use crate::control::protocol::answers::{Pong, Reloaded};
use crate::control::protocol::args::{self, Nothing};
use crate::control::protocol::{Exit, Op, OpName};

use super::supervisor::{self, Lives};

/// The limit for the process to exit after all of its children have ended.
const GONE_LIMIT: Duration = Duration::from_secs(30);

pub(super) fn up(args: &Up, context: &mut Context) -> Result<(), CliError> {
    let city = context.city()?;
    if let Ok(answer) = supervisor::ping(&city) {
        output::message("hd: the supervisor runs already");
        return context.print_raw(OpName::Ping, &answer, runs);
    }
    let words: &[&str] = match args.accept_store {
        true => &["--accept-store"],
        false => &[],
    };
    if !args.detach {
        return supervisor::become_it(&city, words);
    }
    let mut background = supervisor::start(&city, Lives::Detached, words)?;
    let answer = background.ready(&city)?;
    match background.is_answer_of_this(&answer) {
        true => output::message(&format!(
            "hd: the supervisor has started; its log is {}",
            background.log.display()
        )),
        false => output::message("hd: the supervisor runs already"),
    }
    context.print_raw(OpName::Ping, &answer, runs)
}

/// Stops the supervisor, and returns when its process has ended: the city is free for the next then.
pub(super) fn stop(args: args::Stop, context: &mut Context) -> Result<(), CliError> {
    let mut client = match context.client() {
        Ok(client) => client,
        Err(error) => return Err(with_sessions(error, &context.city()?)),
    };
    let process = client.peer_pid().and_then(watch);
    let op = Op::Stop(args);
    let result = client.call(&op)?;
    if process.is_some_and(|process| !gone(&process)) {
        return Err(CliError::new(
            Exit::TimedOut,
            "the supervisor has stopped its work, but its process still exists",
        ));
    }
    context.print_raw(op.name(), &result, show::stopped)
}

/// Adds that sessions run although there is no supervisor: the one that started them was killed, or left them running.
fn with_sessions(mut error: CliError, city: &City) -> CliError {
    let is_away =
        error.exit == Exit::Unreachable && !client::is_foreign(&city.socket) && city.is_free();
    let sessions = if is_away { city.sessions() } else { 0 };
    if sessions > 0 {
        let said = match sessions {
            1 => "1 session of an earlier supervisor still runs".to_owned(),
            many => format!("{many} sessions of an earlier supervisor still run"),
        };
        error.message = format!("{}; {said}", error.message);
        error.hint = Some("`hd up -d` takes them over, and then `hd stop` ends them".to_owned());
    }
    error
}

pub(super) fn ping(context: &mut Context) -> Result<(), CliError> {
    context.show(&Op::Ping(Nothing {}), pong)
}

/// Reloads and tells the effect on each agent; an invalid configuration gives exit code 2.
pub(super) fn reload(args: args::Reload, context: &mut Context) -> Result<(), CliError> {
    let told: Reloaded = context.show_and_return(&Op::Reload(args), outcome_lines::reloaded)?;
    if !told.errors.is_empty() {
        let message = "the configuration is not applied; the previous one stays in force";
        return Err(CliError::new(Exit::Usage, message));
    }
    Ok(())
}

fn runs(pong: &Pong, _: Style) -> String {
    format!("the supervisor runs (pid {})", pong.pid)
}

fn pong(pong: &Pong, _: Style) -> String {
    format!("pong (pid {})", pong.pid)
}

fn watch(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

fn gone(process: &OwnedFd) -> bool {
    let limit = Timespec {
        tv_sec: i64::try_from(GONE_LIMIT.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: 0,
    };
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    poll(&mut fds, Some(&limit)).is_ok_and(|ready| ready > 0)
}
