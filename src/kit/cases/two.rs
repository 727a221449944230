//! The case of two raiders at once.

use super::{FIRST, LAND_LIMIT, SECOND, commits, finishes, wait_at_gate, works};
use crate::kit::bench::{Bench, Raider};
use crate::kit::model::Step;
use crate::kit::outcome::Ended;

pub(super) fn run(bench: &Bench) -> Result<Option<String>, Ended> {
    if !bench.program.runs_commands {
        let first = bench.begin(FIRST, "kit-first", works(bench, FIRST, "kit-first"))?;
        let second = bench.begin(SECOND, "kit-second", works(bench, SECOND, "kit-second"))?;
        bench.wait_landed(&first, LAND_LIMIT)?;
        bench.wait_landed(&second, LAND_LIMIT)?;
        return Ok(None);
    }
    let first = begin(bench, FIRST, "kit-first")?;
    let second = begin(bench, SECOND, "kit-second")?;
    for raider in [&first, &second] {
        wait_at_gate(bench, raider, "both are at work")?;
        identity(bench, raider)?;
    }
    bench.model.release(&second.marker);
    bench.wait_landed(&second, LAND_LIMIT)?;
    if bench.shown(&first)?.is_none() {
        return Err(Ended::failed(
            "the `hd done` of one raider ended the other one",
        ));
    }
    bench.model.release(&first.marker);
    bench.wait_landed(&first, LAND_LIMIT)?;
    Ok(None)
}

fn begin(bench: &Bench, name: &str, marker: &str) -> Result<Raider, Ended> {
    // Twice, because some programs occasionally lose the output of a command.
    let identity = || Step::Run("printenv HD_RAIDER HD_RELIC; pwd -P".to_owned());
    let mut steps = vec![identity(), identity(), Step::Wait];
    steps.extend(commits(bench, name, marker));
    steps.extend(finishes(bench));
    bench.begin(name, marker, steps)
}

/// Checks that a raider's commands have its own identity, and run in its sandbox.
fn identity(bench: &Bench, raider: &Raider) -> Result<(), Ended> {
    let heard = bench.heard(&raider.marker);
    let said: Vec<_> = heard.into_iter().filter_map(|heard| heard.result).collect();
    let sandbox = bench.place.sandbox(&raider.name);
    let words = [
        raider.name.as_str(),
        &raider.relic,
        &sandbox.to_string_lossy(),
    ];
    if said
        .iter()
        .any(|said| words.iter().all(|word| said.contains(word)))
    {
        return Ok(());
    }
    let why = format!(
        "the commands of {} do not report {}, but: {}",
        raider.name,
        words.join(", "),
        said.join("; ")
    );
    Err(bench.failed(raider, why))
}
