//! A question of the model to the user.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{FIRST, LAND_LIMIT, step, works};
use crate::control::protocol::args::{Answer, Send};
use crate::control::protocol::{ErrorKind, Op};
use crate::kit::bench::{Bench, Raider, Wait};
use crate::kit::model::{Given, Step};
use crate::kit::outcome::Ended;

const QUESTION: &str = "Which colour shall the roof have?";
const OPTIONS: [&str; 3] = ["Crimson", "Emerald", "Indigo"];
/// The text that `hd send` tries to type over the question.
const TYPED: &str = "Go on";
/// Timeout for the words of the question after the condition is known.
const WORDS_LIMIT: Duration = Duration::from_secs(5);
/// Timeout for the end of the condition after the answer; other steps may take a minute and a half.
const GONE_LIMIT: Duration = Duration::from_secs(15);

pub(super) fn run(bench: &Bench) -> Result<Option<String>, Ended> {
    let marker = "kit-question";
    let mut steps = vec![Step::Ask {
        question: QUESTION.to_owned(),
        options: OPTIONS.map(ToOwned::to_owned).to_vec(),
    }];
    steps.extend(works(bench, FIRST, marker));
    let raider = bench.begin(FIRST, marker, steps)?;
    let asked = |given: &Given| *given != Given::Waiting;
    // The question may be on the screen before the first look.
    let of = [&raider];
    let asks = Wait {
        besides: "needs_input",
        ..step(bench, "it asks its model", &of)
    };
    let heard = bench.wait_heard(asks, marker, |heard| asked(&heard.given))?;
    if heard.given == Given::NoTool {
        let why = "it declares no tool for questions";
        return Err(Ended::Untried(why.to_owned()));
    }
    seen(bench, &raider)?;
    bench.record(&raider, "question", OPTIONS[1])?;
    if let Err(failed) = not_typed_over(bench, &raider) {
        return Err(does_not_ask(bench, marker).unwrap_or(failed));
    }
    let answer = Op::Answer(Answer {
        name: raider.name.clone(),
        choice: "2".to_owned(),
    });
    if let Err(failed) = bench.ask(&answer) {
        return Err(does_not_ask(bench, marker).unwrap_or(failed));
    }
    let wait = Wait {
        what: "the question disappears after the answer",
        within: GONE_LIMIT,
        of: &[&raider],
        besides: "needs_input",
    };
    bench.wait(wait, || {
        let shown = bench.shown(&raider)?;
        let asks = shown.is_some_and(|shown| shown["condition"] == "needs_input");
        Ok((!asks).then_some(()))
    })?;
    let told = bench.wait_heard(
        step(bench, "the model gets the answer", &[&raider]),
        marker,
        |heard| heard.step >= Some(1),
    )?;
    let told = told.result.unwrap_or_default();
    let others = [OPTIONS[0], OPTIONS[2]];
    if !told.contains(OPTIONS[1]) || others.iter().any(|other| told.contains(other)) {
        let why = format!("the answer was {}, but the model got: {told}", OPTIONS[1]);
        return Err(bench.failed(&raider, why));
    }
    bench.wait_landed(&raider, LAND_LIMIT)?;
    Ok(None)
}

/// Waits until the question is shown with its words.
fn seen(bench: &Bench, raider: &Raider) -> Result<(), Ended> {
    let wait = Wait {
        what: "its question is detected",
        within: bench.limit,
        of: &[raider],
        besides: "needs_input",
    };
    let mut since = None;
    let shown = bench.wait(wait, || {
        if let Some(ended) = does_not_ask(bench, &raider.marker) {
            return Err(ended);
        }
        let shown = bench.shown(raider)?;
        let Some(shown) = shown.filter(|shown| shown["condition"] == "needs_input") else {
            return Ok(None);
        };
        // A hook reports a question before its words are on the screen.
        let has_words = shown["detail"]
            .as_str()
            .is_some_and(|it| it.contains(QUESTION));
        let waited = since.get_or_insert_with(Instant::now).elapsed();
        Ok((has_words || waited >= WORDS_LIMIT).then_some(shown))
    })?;
    let detail = shown
        .get("detail")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let choices = shown["choices"].to_string();
    if !detail.contains(QUESTION) {
        return Err(bench.failed(raider, format!("its question is reported as {detail:?}")));
    }
    if !OPTIONS.iter().all(|option| choices.contains(option)) {
        return Err(bench.failed(raider, format!("its choices are reported as {choices}")));
    }
    Ok(())
}

/// Detects a result that no person gave: the program's question tool does not ask in this form of the program.
fn does_not_ask(bench: &Bench, marker: &str) -> Option<Ended> {
    let mut heard = bench.heard(marker).into_iter();
    let result = heard.find(|heard| heard.step >= Some(1))?.result?;
    let mut answers = OPTIONS.into_iter().chain([TYPED]);
    if answers.any(|answer| result.contains(answer)) {
        return None;
    }
    let why = format!("its tool for questions does not ask: {result}");
    Some(Ended::Untried(why))
}

/// Checks that `hd send` is refused while the question is open.
fn not_typed_over(bench: &Bench, raider: &Raider) -> Result<(), Ended> {
    let send = Op::Send(Send {
        name: raider.name.clone(),
        text: Some(TYPED.to_owned()),
        keys: None,
        force: false,
    });
    match bench.call(&send) {
        Err(refused) if refused.kind == ErrorKind::NeedsHuman => Ok(()),
        Err(other) => Err(bench.failed(raider, format!("`hd send` says: {}", other.message))),
        Ok(_) => Err(bench.failed(raider, "`hd send` typed into its question")),
    }
}
