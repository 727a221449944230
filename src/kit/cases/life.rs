//! The cases of one raider's life: start, prompt, commit, done.

use super::{FIRST, LAND_LIMIT, commits, step, wait_at_gate, works};
use crate::kit::bench::{Bench, file_of};
use crate::kit::model::Step;
use crate::kit::outcome::Ended;

pub(super) fn start(bench: &Bench) -> Result<Option<String>, Ended> {
    let raider = bench.begin(FIRST, "kit-start", vec![Step::Wait])?;
    wait_at_gate(bench, &raider, "it starts and asks its model")?;
    bench.record(&raider, "working", "")?;
    Ok(None)
}

/// Text with all characters that a shell, a terminal or a template could interpret.
const BODY: &str = "First line: 'single', \"double\", `back`, $HOME, $(id), \\n, {prompt}, {x}, %s.\n\
                    Second line: é, 漢字, “curly”, –, 🙂; a # sign; a \\ at the end \\\n\
                    \n\
                    - a list\n    - indented by four\n\
                    Last line.";

pub(super) fn prompt(bench: &Bench) -> Result<Option<String>, Ended> {
    let marker = "kit-prompt";
    let raider = bench.begin_with(FIRST, marker, BODY, vec![Step::Wait])?;
    wait_at_gate(bench, &raider, "it starts and asks its model")?;
    let heard = bench.heard(marker);
    let told: Vec<&String> = heard
        .first()
        .map(|first| {
            first
                .user
                .iter()
                .filter(|text| text.contains(marker))
                .collect()
        })
        .unwrap_or_default();
    let [prompt] = told[..] else {
        let why = format!("the prompt arrived {} times", told.len());
        return Err(bench.failed(&raider, why));
    };
    let missing = BODY.lines().find(|line| !prompt.contains(line.trim_end()));
    if let Some(line) = missing {
        let why = format!("the prompt was changed; this line is missing: {line}");
        return Err(bench.failed(&raider, why));
    }
    let hd = bench.hd.to_string_lossy();
    if !prompt.contains(hd.as_ref()) {
        let why = format!("the prompt does not name {hd}, which the agent must run");
        return Err(bench.failed(&raider, why));
    }
    let remark = (!prompt.contains(BODY)).then(|| "line ends or indents were changed".to_owned());
    Ok(remark)
}

pub(super) fn commit(bench: &Bench) -> Result<Option<String>, Ended> {
    let marker = "kit-commit";
    let mut steps = commits(bench, FIRST, marker);
    steps.push(Step::Wait);
    let raider = bench.begin(FIRST, marker, steps)?;
    let sandbox = bench.place.sandbox(FIRST);
    let file = file_of(marker);
    let wanted = [
        "log",
        "--format=%an",
        "origin/main..HEAD",
        "--",
        file.as_str(),
    ];
    let author = bench.wait(step(bench, "its commit is there", &[&raider]), || {
        // The sandbox may not exist yet, and is gone after the landing.
        let authors = bench.place.git(&sandbox, &wanted).unwrap_or_default();
        let landed = ["log", "--format=%an", "main", "--", file.as_str()];
        let landed = bench
            .place
            .git(&bench.place.origin, &landed)
            .unwrap_or_default();
        let mut authors = authors.lines().chain(landed.lines());
        Ok(authors.next().map(ToOwned::to_owned))
    })?;
    let expected = format!("kit/raiders/{FIRST}");
    let remark = format!("its commits are by {author:?}, not by {expected:?}");
    Ok((author != expected).then_some(remark))
}

pub(super) fn done(bench: &Bench) -> Result<Option<String>, Ended> {
    let marker = "kit-done";
    let raider = bench.begin(FIRST, marker, works(bench, FIRST, marker))?;
    bench.wait_landed(&raider, LAND_LIMIT)?;
    let crashes = bench.events("agent.crashed", &raider)?;
    if !crashes.is_empty() {
        let why = format!("the work landed, after {} crashes", crashes.len());
        return Err(Ended::failed(why));
    }
    Ok(None)
}
