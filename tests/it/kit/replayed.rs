//! The kit on recordings of the real programs' terminals (`tests/data/harness/<program>-<version>/kit-*.raw`), which
//! `tests/real-agents/run --record` makes: an agent shows them instead of the program, and the patterns of the
//! program's preset read them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use horde_supervisor::testing::tier::{by_tier, sampled};
use serde_json::Value;

use super::agent;

/// The cases that a recording can replace.
const CASES: [&str; 3] = ["question", "limit", "login"];

/// The behaviour of programs at a limit, as the agent imitates it; the others wait for text. aider ends after a while,
/// which the recording does not show. A hook alone reports a limit of copilot: no screen shows it.
const LIMITS: [(&str, &str); 6] = [
    ("aider", "waits"),
    ("claude", "menu"),
    ("copilot", "reports"),
    ("gemini", "menu"),
    ("opencode", "waits"),
    ("pi", "waits"),
];
/// Copilot's menu is used with arrows, and a recording does not react to them.
const UNSHOWN: [(&str, &str); 1] = [("copilot", "question")];

/// Returns whether the end of a limit is skipped. A limit of less than a minute is not believed, so its end is minutes
/// away, which only the long tier waits for. In `cargo test` the model takes requests again as soon as the limit and
/// its end were seen, and a person resumes the account.
fn is_short() -> bool {
    by_tier(true, false)
}

/// The keys of a preset by which its screens are read and answered.
const KEYS: [&str; 6] = [
    "needs_input_patterns",
    "input_patterns",
    "working_patterns",
    "rate_limit_patterns",
    "auth_patterns",
    "limit_answer",
];

fn hd(dir: &Path, words: &[&str]) -> Command {
    let mut hd = super::hd(dir, std::env::var_os("PATH").unwrap());
    hd.args(words);
    // A program shows the end of a limit in the zone of its machine.
    hd.env("TZ", "UTC");
    hd
}

/// Makes a city with a harness that shows these recordings, and reads its screens as the preset does.
fn city(root: &Path, preset: &str, screens: &Path) {
    fs::write(root.join("city.toml"), "[workspace]\nname = \"x\"\n").unwrap();
    let shown = hd(root, &["--json", "harness", "show", preset]).output();
    let shown: Value = serde_json::from_slice(&shown.unwrap().stdout).unwrap();
    let exe = std::env::current_exe().unwrap();
    let mut limits = LIMITS.iter();
    let limit = limits.find(|(program, _)| *program == preset);
    let limit = limit.map_or("text", |(_, form)| form);
    let limit = match limit {
        "waits" if is_short() => "retries",
        form => form,
    };
    let hooks = match limit {
        "reports" => preset,
        _ => "",
    };
    let mut harness = serde_json::json!({
        "command": [exe, "--exact", agent::TEST, "--nocapture", "--test-threads=1"],
        "prompt": "file",
        "hooks": hooks,
        "env": {agent::ROLE: "", agent::SCREENS: screens, agent::LIMIT: limit},
    });
    for key in KEYS {
        harness[key] = shown["settings"][key].clone();
    }
    // The agent's own input line, which appears after the recorded dialog.
    let input = harness["input_patterns"].as_array_mut();
    input.unwrap().push("^>( |$)".into());
    let city = serde_json::json!({"workspace": {"name": "x"}, "harness": {"replayed": harness}});
    fs::write(root.join("city.toml"), toml::to_string(&city).unwrap()).unwrap();
}

/// Runs the cases of a program that have recordings, and returns those that failed.
fn wrong(program: &Path) -> Vec<String> {
    let name = program.file_name().unwrap().to_string_lossy().into_owned();
    let (preset, _version) = name.split_once('-').unwrap();
    let recorded = |case: &&str| {
        program.join(format!("kit-{case}.raw")).is_file() && !UNSHOWN.contains(&(preset, case))
    };
    let cases: Vec<_> = CASES.into_iter().filter(recorded).collect();
    if cases.is_empty() {
        return Vec::new();
    }
    let temp = horde_supervisor::testing::scratch();
    city(temp.path(), preset, program);
    let mut words = vec!["--json", "harness", "test", "replayed"];
    words.extend(cases.iter().flat_map(|case| ["--case", case]));
    words.extend(is_short().then_some("--short"));
    let output = hd(temp.path(), &words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let told: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{name}: {error}: {said}"));
    let tried = told["cases"].as_array().unwrap();
    assert_eq!(tried.len(), cases.len(), "{name}");
    let failed = tried.iter().filter(|case| case["result"] != "held");
    failed.map(|case| format!("{name}: {case:#}")).collect()
}

#[test]
fn recorded_screens_of_the_real_programs_hold_in_the_kit() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/harness");
    let mut programs: Vec<PathBuf> = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("kit-login.raw").is_file())
        .collect();
    // A seed takes the same ones again.
    programs.sort();
    assert!(
        programs.len() >= 5,
        "the recordings are there: {programs:?}"
    );
    let wrong: Vec<_> = thread::scope(|scope| {
        let tried: Vec<_> = sampled(&programs, 4)
            .map(|program| scope.spawn(|| wrong(program)))
            .collect();
        let ended = tried.into_iter().flat_map(|one| one.join().unwrap());
        ended.collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
