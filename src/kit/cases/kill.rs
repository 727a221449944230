//! The case of a program that is killed in the middle of its work.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{FIRST, LAND_LIMIT, commits, finishes, step, wait_at_gate};
use crate::kit::bench::{Bench, Raider, file_of};
use crate::kit::model::Step;
use crate::kit::outcome::Ended;

pub(super) fn run(bench: &Bench) -> Result<Option<String>, Ended> {
    let marker = "kit-kill";
    let work = commits(bench, FIRST, marker);
    let gate = work.len().min(1);
    let mut steps = work;
    // A program that runs no commands is killed before it does anything.
    let gate = if bench.program.runs_commands { gate } else { 0 };
    steps.insert(gate, Step::Wait);
    steps.extend(finishes(bench));
    let raider = bench.begin(FIRST, marker, steps)?;
    wait_at_gate(bench, &raider, "it is in the middle of its work")?;
    let before = bench.heard(marker).len();
    kill(bench, &raider)?;
    let again = bench.wait(
        step(bench, "another session asks its model", &[&raider]),
        || Ok(bench.heard(marker).into_iter().nth(before)),
    )?;
    bench.model.release(marker);
    bench.wait_landed(&raider, LAND_LIMIT)?;
    // The prompt of the killed session, and that of the next one.
    let file = file_of(marker);
    // Some programs list the files of the directory in their first message.
    let prompts = again.user.iter().map(|text| text.replace(&file, ""));
    let prompts = prompts.filter(|text| text.contains(marker));
    let goes_on = again.step >= Some(gate) && gate > 0 || prompts.count() > 1;
    let went_back = again.step < Some(gate);
    Ok(match (goes_on, bench.resumes) {
        (false, true) => {
            return Err(Ended::failed(
                "its work landed, but the next session started a new conversation, although `resume` is configured",
            ));
        }
        (false, false) => Some("a new conversation: it has no `resume`".to_owned()),
        // Programs write their conversations with a delay.
        (true, _) => went_back.then(|| "its last turn before the kill was lost".to_owned()),
    })
}

fn kill(bench: &Bench, raider: &Raider) -> Result<(), Ended> {
    let shown = bench.shown(raider)?.unwrap_or_default();
    let pid = shown.pointer("/session/pid").and_then(Value::as_i64);
    let pid = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    let pid = pid.ok_or_else(|| bench.failed(raider, "it has no session to kill"))?;
    let killed = kill_process(pid, Signal::KILL);
    killed.map_err(|error| bench.failed(raider, format!("it cannot be killed: {error}")))
}
