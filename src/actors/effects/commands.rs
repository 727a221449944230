//! The supervisor's own commands: those of automations, notices, pools and pull requests. Each has a place of the budget
//! of its owner, from before it starts until its thread has ended.
//!
//! ```text
//!  command ─► place ─► runs ─┬─ ends ──────────────────────────► result, place given back
//!                │           ├─ timeout ─► the runner ends it ─► result, place given back
//!                │           └─ cannot be ended ───────────────► result after OVERTIME; the place stays taken
//!                └─ none becomes free ─────────────────────────► did not run
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::{Owner, WorkKind, budgeted};
use crate::actors::thread_budgets::ThreadPermit;
use crate::actors::world::World;
use crate::domain::city::{Agent, Rights};
use crate::domain::session_env;
use crate::ports::runner::{Command, Ended, Runner, Running};

/// The time after its timeout in which a runner must have ended a command. It is longer than the runner's own patience
/// with leftovers before the start, with TERM, and with KILL.
const OVERTIME: Duration = Duration::from_secs(60);
/// The timeout for the end of leftovers.
const LEFTOVERS: Duration = Duration::from_secs(60);

/// Starts a command as soon as its budget has a place. A command that waits in vain counts as not run; one that cannot
/// be ended counts as timed out, and keeps its place.
pub fn command(world: &World, owner: Owner, kind: WorkKind, command: Command) -> Running {
    command_noting(world, owner, kind, command, || {})
}

/// Does the same as [`command`], and calls `has_place` when the command has its place.
pub fn command_noting(
    world: &World,
    owner: Owner,
    kind: WorkKind,
    command: Command,
    has_place: impl FnOnce() + Send + 'static,
) -> Running {
    let (stop, stopped) = watch::channel(false);
    let (tell, told) = oneshot::channel();
    let (budgets, runner) = (world.thread_budgets.clone(), Arc::clone(&world.runner));
    tokio::spawn(async move {
        let place = tokio::select! {
            biased;
            () = asked(stopped.clone()) => Err(Ended { stopped: true, ..Ended::default() }),
            place = budgets.take(&owner, kind) => place.map_err(|spent| failed(spent.to_string())),
        };
        match place {
            Ok(place) => {
                has_place();
                carry_out(&*runner, command, place, stopped, tell).await;
            }
            // The caller may have stopped waiting.
            Err(ended) => drop(tell.send(ended)),
        }
    });
    Running {
        stop: Arc::new(move || {
            stop.send_replace(true);
        }),
        end: Box::pin(async move {
            let panicked = |_| failed("the runner of commands panicked".to_owned());
            told.await.unwrap_or_else(panicked)
        }),
    }
}

/// Completes when the command is to stop.
async fn asked(mut stopped: watch::Receiver<bool>) {
    if stopped.wait_for(|stop| *stop).await.is_err() {
        // No caller is left that could ask.
        std::future::pending::<()>().await;
    }
}

fn failed(why: String) -> Ended {
    Ended {
        why: Some(why),
        ..Ended::default()
    }
}

async fn carry_out(
    runner: &dyn Runner,
    command: Command,
    place: ThreadPermit,
    stopped: watch::Receiver<bool>,
    tell: oneshot::Sender<Ended>,
) {
    let (name, limit) = (command.name.clone(), command.limit + OVERTIME);
    let running = runner.start(command);
    let stop = running.stop;
    let mut end = running.end;
    let ending = async {
        tokio::select! {
            ended = &mut end => return ended,
            () = asked(stopped) => stop(),
        }
        (&mut end).await
    };
    if let Ok(ended) = tokio::time::timeout(limit, ending).await {
        drop(place);
        // The caller may have stopped waiting.
        drop(tell.send(ended));
        return;
    }
    tracing::error!(
        command = name,
        "a command did not end within {OVERTIME:?} after its timeout; it counts as timed out, and its thread is lost \
        until it ends"
    );
    let late = format!("it did not end within {OVERTIME:?} after its timeout");
    drop(tell.send(Ended {
        timed_out: true,
        ..failed(late)
    }));
    drop(end.await);
    drop(place);
}

/// Ends the leftovers of a command whose supervisor was killed.
///
/// # Errors
/// The processes that could not be ended, or that this takes too long.
pub async fn end_leftovers(
    world: &World,
    owner: Owner,
    kind: WorkKind,
    record: PathBuf,
) -> Result<(), String> {
    let runner = Arc::clone(&world.runner);
    let ending = budgeted(world, owner, kind, move || runner.end_leftovers(&record));
    match tokio::time::timeout(LEFTOVERS, ending).await {
        Ok(Ok(Some(ended))) => ended,
        Ok(Ok(None)) => Err("the runner of commands panicked".to_owned()),
        Ok(Err(refused)) => Err(refused.to_string()),
        Err(_) => Err(format!("they did not end within {LEFTOVERS:?}")),
    }
}

/// Returns the environment of the supervisor's own commands: what a session inherits, and the city's location, but no
/// session's identity.
pub fn errand_env(world: &World, pass: &[String]) -> BTreeMap<String, String> {
    let mut env = session_env::inherited(&world.env, pass);
    let path = session_env::path(&world.bin_dir, env.get("PATH"));
    let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
    env.insert("PATH".into(), path);
    env.insert("HD_CITY".into(), text(&world.city.root));
    env.insert("HD_SOCKET".into(), text(&world.socket));
    env
}

/// Returns the size that a pool's check asks for: the number on the last line that it prints.
///
/// # Errors
/// The check failed, took too long, or printed no number.
pub async fn pool_size(world: &World, agent: &Agent) -> Result<u32, String> {
    let Some(pool) = &agent.pool else {
        return Err("it is not a pool".into());
    };
    let Some(line) = pool.check.clone() else {
        return Ok(pool.min);
    };
    let mut env = errand_env(world, &agent.env_pass);
    env.extend(agent.env.clone());
    let record = world
        .city
        .state_dir()
        .join("pools")
        .join(agent.name.as_str());
    let check = Command {
        line,
        dir: agent.dir.clone(),
        env,
        stdin: None,
        limit: pool.check_interval,
        record,
        alone: true,
        rights: Rights::All,
        name: format!("pool/{}", agent.name),
    };
    let ended = command(world, Owner::City, WorkKind::Checks, check)
        .end
        .await;
    let said = ended.tail.trim().lines().last().unwrap_or_default().trim();
    match (&ended.why, ended.timed_out, ended.code) {
        (Some(why), _, _) => Err(why.clone()),
        (None, true, _) => Err(format!("no answer within {:?}", pool.check_interval)),
        (None, false, Some(0)) => said
            .parse()
            .map_err(|_| format!("{said:?} is not a number of members")),
        (None, false, _) => Err(format!("it failed: {said}")),
    }
}
