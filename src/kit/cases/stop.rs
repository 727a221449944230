//! The case of a supervisor that stops in the middle of a command.

use std::fs;
use std::time::Duration;

use super::{FIRST, no_commands, step};
use crate::control::protocol::Op;
use crate::control::protocol::args::Stop;
use crate::kit::bench::{Bench, Wait};
use crate::kit::model::Step;
use crate::kit::outcome::Ended;

/// Timeout of a stop: the grace of a session, and time to clean up.
const STOP_LIMIT: Duration = Duration::from_secs(30);

pub(super) fn run(bench: &Bench) -> Result<Option<String>, Ended> {
    if !bench.program.runs_commands {
        return Err(no_commands());
    }
    let sign = bench.place.sandbox(FIRST).join("kit-stop.sign");
    let file = sign.to_string_lossy();
    let command = format!("touch {}; sleep 600", shell_words::quote(&file));
    let raider = bench.begin(FIRST, "kit-stop", vec![Step::Run(command)])?;
    let what = "it runs a command";
    bench.wait(step(bench, what, &[&raider]), || {
        Ok(sign.exists().then_some(()))
    })?;
    let stop = Op::Stop(Stop {
        keep_sessions: false,
    });
    // The end of the supervisor may cut the answer off.
    let _answer = bench.ask(&stop);
    let wait = Wait {
        what: "the supervisor ends",
        within: STOP_LIMIT,
        of: &[],
        besides: "",
    };
    bench.wait(wait, || Ok((!bench.is_up()).then_some(())))?;
    let left = left(bench);
    if left.is_empty() {
        return Ok(None);
    }
    Err(Ended::failed(format!(
        "these processes still run: {}",
        left.join(", ")
    )))
}

/// Lists the processes whose environment names the city: its sessions started them.
fn left(bench: &Bench) -> Vec<String> {
    let city = format!("HD_CITY={}", bench.place.city.display());
    let Ok(all) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let all = all.filter_map(Result::ok).map(|entry| entry.path());
    let of_city = all.filter(|process| {
        // Processes of other users cannot be read, and those that just ended have no environment.
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|variable| variable == city.as_bytes())
    });
    let command = |process: std::path::PathBuf| {
        let words = fs::read(process.join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        let pid = process.file_name().unwrap_or_default().to_string_lossy();
        format!("{pid} ({})", words.trim())
    };
    of_city.map(command).collect()
}
