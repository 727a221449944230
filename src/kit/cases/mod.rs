//! The cases: the requirements for a harness without a person. Each begins with no raider, and leaves none.
//!
//! | case | the harness |
//! |---|---|
//! | start | starts in a fresh sandbox and asks its model, with no person at hand |
//! | prompt | tells its model the whole prompt, once, as it was written |
//! | commit | writes a file and commits it |
//! | done | says `hd done`; the work lands |
//! | two | two raiders at once: each is itself, the end of one is not the end of the other |
//! | question | asks; the question is seen, not typed over, and answered by `hd answer` |
//! | limit | is at a limit: seen, waited for, gone on by itself |
//! | login | is logged out: seen, and a person is called |
//! | kill | is killed in the middle: the next session goes on where it was, and finishes |
//! | handoff | hands off with a note; its successor finishes |
//! | stop | is stopped in the middle of a command; nothing of it is left |

mod handoff;
mod kill;
mod life;
mod question;
mod refusals;
mod stop;
mod two;

use std::str::FromStr;
use std::time::{Duration, Instant};

use super::bench::{Bench, Raider, Wait, file_of};
use super::kit_dir::RAIDERS;
use super::model::{Given, Step};
use super::outcome::{Ended, Outcome};

/// Timeout from a commit to its landing.
const LAND_LIMIT: Duration = Duration::from_secs(120);

/// A case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the table above tells of each by its name")]
pub enum Case {
    Start,
    Prompt,
    Commit,
    Done,
    Two,
    Question,
    Limit,
    Login,
    Kill,
    Handoff,
    Stop,
}

impl Case {
    /// All cases, in the order in which they are tried. The last one ends the supervisor.
    pub const ALL: &[Self] = &[
        Self::Start,
        Self::Prompt,
        Self::Commit,
        Self::Done,
        Self::Two,
        Self::Question,
        Self::Limit,
        Self::Login,
        Self::Kill,
        Self::Handoff,
        Self::Stop,
    ];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Prompt => "prompt",
            Self::Commit => "commit",
            Self::Done => "done",
            Self::Two => "two",
            Self::Question => "question",
            Self::Limit => "limit",
            Self::Login => "login",
            Self::Kill => "kill",
            Self::Handoff => "handoff",
            Self::Stop => "stop",
        }
    }

    fn run(self, bench: &Bench) -> Result<Option<String>, Ended> {
        match self {
            Self::Start => life::start(bench),
            Self::Prompt => life::prompt(bench),
            Self::Commit => life::commit(bench),
            Self::Done => life::done(bench),
            Self::Two => two::run(bench),
            Self::Question => question::run(bench),
            Self::Limit => refusals::limit(bench),
            Self::Login => refusals::login(bench),
            Self::Kill => kill::run(bench),
            Self::Handoff => handoff::run(bench),
            Self::Stop => stop::run(bench),
        }
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let mut all = Self::ALL.iter();
        let found = all.find(|case| case.as_str() == name).copied();
        found.ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|case| case.as_str()).collect();
            format!("there is no such case; there are {}", names.join(", "))
        })
    }
}

/// Runs cases one after the other, and reports each as soon as it has ended.
///
/// # Errors
/// The error of `tell`.
pub fn run<E>(
    bench: &Bench,
    cases: &[Case],
    mut tell: impl FnMut(Outcome) -> Result<(), E>,
) -> Result<(), E> {
    let mut unpointed = None;
    for case in cases {
        let outcome = match unpointed {
            Some(why) => untried(*case, why),
            None => one(bench, *case),
        };
        unpointed = unpointed.or_else(|| is_unpointed(bench, &outcome).then_some(UNPOINTED));
        tell(match unpointed {
            Some(why) => Outcome {
                result: Err(Ended::Untried(why.to_owned())),
                ..outcome
            },
            None => outcome,
        })?;
    }
    Ok(())
}

fn one(bench: &Bench, case: Case) -> Outcome {
    let started = Instant::now();
    let result = case.run(bench);
    // The stopped supervisor has ended its raiders too.
    let cleared = if case == Case::Stop && !bench.is_up() {
        Ok(())
    } else {
        bench.clear()
    };
    Outcome {
        case: case.as_str(),
        took: started.elapsed(),
        result: match (result, cleared) {
            (Ok(_), Err(left)) => Err(left),
            (result, _) => result,
        },
    }
}

/// Returns the outcome of a case that is not tried because the program cannot be pointed at the model.
#[must_use]
pub fn untried(case: Case, why: &str) -> Outcome {
    Outcome {
        case: case.as_str(),
        took: Duration::ZERO,
        result: Err(Ended::Untried(why.to_owned())),
    }
}

const UNPOINTED: &str = "the program never asked the scripted model, and the kit does not know how \
                         it is pointed there: it has to keep to ANTHROPIC_BASE_URL, OPENAI_BASE_URL \
                         or GOOGLE_GEMINI_BASE_URL";

/// Returns true when a program cannot be judged, because the kit does not know it and it sent no request to the model.
fn is_unpointed(bench: &Bench, outcome: &Outcome) -> bool {
    let late = matches!(outcome.result, Err(Ended::Failed { late: true, .. }));
    late && !bench.program.is_known() && bench.model.heard().is_empty()
}

/// The first raider of a case.
const FIRST: &str = RAIDERS[0];
/// The second raider of a case.
const SECOND: &str = RAIDERS[1];

/// Returns steps that write the file of a scenario and commit it, without finishing the work. A program that runs no
/// commands commits by itself.
fn commits(bench: &Bench, raider: &str, marker: &str) -> Vec<Step> {
    let file = file_of(marker);
    let text = format!("{marker}\n");
    if !bench.program.runs_commands {
        return vec![Step::Write { path: file, text }];
    }
    let path = bench.place.sandbox(raider).join(&file);
    vec![
        Step::Write {
            path: path.to_string_lossy().into_owned(),
            text,
        },
        Step::Run(format!("git add {file}")),
        Step::Run(format!("git commit -m 'Add {file}'")),
    ]
}

/// Returns the step that declares the work finished, and the text after it.
fn finishes(bench: &Bench) -> Vec<Step> {
    if !bench.program.runs_commands {
        return Vec::new();
    }
    let hd = bench.hd.to_string_lossy();
    vec![
        Step::Run(format!("{} done", shell_words::quote(&hd))),
        Step::Say("The work is finished.".to_owned()),
    ]
}

/// Returns the complete work of a scenario.
fn works(bench: &Bench, raider: &str, marker: &str) -> Vec<Step> {
    [commits(bench, raider, marker), finishes(bench)].concat()
}

/// Returns a wait for a step of one raider's program.
fn step<'a>(bench: &Bench, what: &'a str, of: &'a [&'a Raider]) -> Wait<'a> {
    Wait {
        what,
        within: bench.limit,
        of,
        besides: "",
    }
}

/// Waits until the conversation of this raider reaches a [`Step::Wait`].
fn wait_at_gate(bench: &Bench, raider: &Raider, what: &str) -> Result<(), Ended> {
    let of = [raider];
    bench.wait(step(bench, what, &of), || {
        let heard = bench.heard(&raider.marker);
        if heard.iter().any(|heard| heard.given == Given::NoTool) {
            let why = "it declares no tool that runs commands";
            return Err(bench.failed(raider, why));
        }
        let stands = heard.iter().any(|heard| heard.given == Given::Waiting);
        Ok(stands.then_some(()))
    })
}

fn no_commands() -> Ended {
    Ended::Untried("the program runs no commands".to_owned())
}
