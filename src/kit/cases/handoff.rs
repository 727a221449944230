//! The case of a handoff.

use super::{FIRST, LAND_LIMIT, no_commands, step, works};
use crate::kit::bench::Bench;
use crate::kit::model::{Scenario, Step};
use crate::kit::outcome::Ended;

/// The word in the note that identifies the successor's conversation.
const NOTE: &str = "kit-successor";

pub(super) fn run(bench: &Bench) -> Result<Option<String>, Ended> {
    if !bench.program.runs_commands {
        return Err(no_commands());
    }
    let marker = "kit-handoff";
    // The successor's prompt has both words, and the scenario that was added first is used.
    bench.model.play(Scenario {
        marker: NOTE.to_owned(),
        steps: works(bench, FIRST, marker),
    });
    let hd = bench.hd.to_string_lossy();
    let hd = shell_words::quote(&hd);
    let command = format!("{hd} handoff -m 'half of it is done: {NOTE}'");
    let steps = vec![Step::Run(command), Step::Say("Handed off.".to_owned())];
    let raider = bench.begin(FIRST, marker, steps)?;
    let what = "the next session gets the note";
    bench.wait_heard(step(bench, what, &[&raider]), NOTE, |_| true)?;
    bench.wait_landed(&raider, LAND_LIMIT)?;
    let crashes = bench.events("agent.crashed", &raider)?;
    if !crashes.is_empty() {
        return Err(Ended::failed("the handoff counted as a crash"));
    }
    Ok(None)
}
