//! Running the gates of a rig, and telling a red branch from broken infrastructure
//! (`product.md`; `rules.md`, gates).

use crate::actors::records::key_values;
use crate::actors::rig_settings::gate_env;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::effects;
use super::world::World;
use crate::domain::city::{Gate, Rig};
use crate::domain::ids::{Oid, RelicId};
use crate::domain::merge::{GateVerdict, MrState, Verdict};
use crate::ports::repo::{GateRun, GateSpec, TargetState};

/// The result of all gates together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All passed.
    Green,
    /// The branch broke a gate.
    Red {
        /// The gate.
        gate: String,
        /// The command, its end, and the tail of its output.
        why: String,
    },
    /// A gate fails without the branch, too.
    TargetRed {
        /// The gate.
        gate: String,
    },
    /// A gate could not run.
    Infra {
        /// The gate.
        gate: String,
        /// The failure.
        why: String,
    },
    /// The merge request was withdrawn: what is left to run tests nothing.
    Withdrawn,
}

/// Verdicts and outcome.
#[derive(Debug, Clone)]
pub struct Ran {
    /// The verdict of each gate that ran.
    pub verdicts: Vec<GateVerdict>,
    /// The result of all together.
    pub outcome: Outcome,
}

/// The attempt whose gates are run.
#[derive(Clone, Copy)]
pub struct Tested<'a> {
    /// The world.
    pub world: &'a World,
    /// Its rig.
    pub rig: &'a Rig,
    /// The merge request.
    pub mr: &'a RelicId,
}

/// Runs the rig's gates on a commit, in order, until one is not green. A gate that fails on the target's own tree is
/// never blamed on the branch.
pub async fn run_all(of: Tested<'_>, (commit, tree): (&Oid, &Oid), target: &TargetState) -> Ran {
    let mut ran = Ran {
        verdicts: Vec::new(),
        outcome: Outcome::Green,
    };
    for gate in &of.rig.forge.gates {
        let Some((verdict, tail, took)) = judge(of, gate, (commit, tree)).await else {
            ran.outcome = Outcome::Withdrawn;
            return ran;
        };
        let red = verdict != Verdict::Pass;
        ran.verdicts.push(GateVerdict {
            name: gate.name.clone(),
            verdict,
            ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            tail: tail.clone(),
        });
        if !red {
            continue;
        }
        // The same tree cannot be worse than itself.
        let base = if *tree == target.tree {
            Some(verdict)
        } else {
            baseline(of, gate, target).await
        };
        let Some(base) = base else {
            ran.outcome = Outcome::Withdrawn;
            return ran;
        };
        let name = gate.name.clone();
        ran.outcome = match (verdict, base) {
            (Verdict::Fail, Verdict::Pass) => Outcome::Red {
                gate: name,
                why: tail,
            },
            (Verdict::Fail, Verdict::Fail) => Outcome::TargetRed { gate: name },
            (Verdict::Infra, Verdict::Infra) => Outcome::Infra {
                gate: name,
                why: tail,
            },
            (_, Verdict::Infra) => Outcome::Infra {
                gate: name,
                why: format!(
                    "failed, and could not be run on the target itself for comparison:\n{tail}"
                ),
            },
            // It cannot run here, confirmed once by `judge`, but can on the target: so the branch is the cause.
            (_, Verdict::Pass) => Outcome::Red {
                gate: name,
                why: tail,
            },
            (_, Verdict::Fail) => Outcome::TargetRed { gate: name },
        };
        if let (Outcome::Red { .. }, Some(last)) = (&ran.outcome, ran.verdicts.last_mut()) {
            last.verdict = Verdict::Fail;
        }
        return ran;
    }
    ran
}

/// A gate's stored verdict on a state of the target.
#[derive(Serialize, Deserialize)]
struct Baseline {
    tip: Oid,
    run: String,
    verdict: Verdict,
    at: Timestamp,
}

/// Returns the gate's verdict on the target itself: run once per state of the target (`rules.md`, gates). A failure
/// to run says nothing about that state and is not stored; a red verdict may be the machine's fault and expires. None
/// when the merge request was withdrawn meanwhile.
async fn baseline(of: Tested<'_>, gate: &Gate, target: &TargetState) -> Option<Verdict> {
    let Tested { world, rig, .. } = of;
    const BELIEVED: SignedDuration = SignedDuration::from_mins(10);
    let key = format!("baseline/{}/{}", rig.name, gate.name);
    let now = world.clock.now();
    let kept = key.clone();
    let known = world
        .store
        .run(move |txn| key_values::read::<Baseline>(txn, &kept));
    if let Ok(Some(known)) = known.await
        && known.tip == target.tip
        && known.run == gate.run
        && (known.verdict == Verdict::Pass || known.at.duration_until(now) < BELIEVED)
    {
        return Some(known.verdict);
    }
    let verdict = judge(of, gate, (&target.tip, &target.tree)).await?.0;
    if verdict != Verdict::Infra {
        let known = Baseline {
            tip: target.tip.clone(),
            run: gate.run.clone(),
            verdict,
            at: now,
        };
        let noted = world
            .store
            .run(move |txn| key_values::write(txn, &key, &known));
        if let Err(error) = noted.await {
            tracing::debug!(
                %error,
                "the gate's verdict on the target could not be stored; the next red merge \
                request runs it again"
            );
        }
    }
    Some(verdict)
}

/// Runs a gate on a commit: with its configured retries after a failure, and one confirmation when it could not run.
/// None when the merge request was withdrawn meanwhile.
async fn judge(
    of: Tested<'_>,
    gate: &Gate,
    what: (&Oid, &Oid),
) -> Option<(Verdict, String, Duration)> {
    let mut retries = gate.retries;
    let mut confirmed = false;
    loop {
        if is_withdrawn(of).await {
            return None;
        }
        let ran = run_once(of.world, of.rig, gate, what).await;
        // A stop that was meant for an earlier attempt has ended this one: it runs again.
        let Some((verdict, tail, took)) = ran else {
            continue;
        };
        match verdict {
            Verdict::Pass => return Some((verdict, tail, took)),
            Verdict::Fail if retries > 0 => retries -= 1,
            Verdict::Infra if !confirmed => confirmed = true,
            Verdict::Fail | Verdict::Infra => return Some((verdict, tail, took)),
        }
    }
}

/// Returns true when the merge request is not under test any more. A store that cannot be read says nothing.
async fn is_withdrawn(of: Tested<'_>) -> bool {
    let mr = of.mr.clone();
    let state = of.world.store.run(move |txn| Ok(txn.mr(&mr)?.state)).await;
    state.is_ok_and(|state| state != MrState::Testing)
}

/// Runs a gate once; none when it was stopped.
async fn run_once(
    world: &World,
    rig: &Rig,
    gate: &Gate,
    (commit, tree): (&Oid, &Oid),
) -> Option<(Verdict, String, Duration)> {
    let spec = GateSpec {
        name: gate.name.clone(),
        run: gate.run.clone(),
        timeout: gate.timeout,
        env: gate_env(world, rig),
        log_dir: world.city.gate_logs(&rig.name),
    };
    let commit = commit.clone();
    let ran = effects::repo_for(world, &rig.name, effects::WorkKind::Commands, move |repo| {
        repo.run_gate(&commit, &spec)
    });
    Some(match ran.await {
        Ok(run) if run.stopped => return None,
        // The tested tree must be the landing one, by its hash; otherwise nothing was tested.
        Ok(run) if run.tree.as_ref().is_some_and(|tested| tested != tree) => {
            let why =
                format!("could not run: {tree} was to be tested, and another tree was checked out");
            (Verdict::Infra, why, run.took)
        }
        Ok(run) => {
            let verdict = verdict(&run);
            let metrics = world.store.metrics();
            metrics.gate_ran(&rig.name, verdict.as_str(), run.took);
            (verdict, describe(&run, gate), run.took)
        }
        Err(error) => {
            let why = format!("could not run: {error}");
            (Verdict::Infra, why, Duration::ZERO)
        }
    })
}

/// Maps a run to a verdict. Exit 126 and 127, a signal, a timeout and a failed start say nothing about the branch.
fn verdict(run: &GateRun) -> Verdict {
    if run.timed_out || run.spawn_error.is_some() || run.signal.is_some() {
        return Verdict::Infra;
    }
    match run.code {
        Some(0) if run.changed.is_empty() => Verdict::Pass,
        None | Some(126 | 127) => Verdict::Infra,
        // A gate that edits tracked files has not tested the tree that would land.
        Some(_) => Verdict::Fail,
    }
}

/// Describes a run, to be read after the gate's name: the command, its end, and the tail of its output. For a gate that
/// passed, only its output.
fn describe(run: &GateRun, gate: &Gate) -> String {
    let line = gate.run.trim();
    let what = if run.timed_out {
        let limit = humantime::format_duration(gate.timeout);
        format!("timed out: `{line}` took longer than {limit}")
    } else if let Some(error) = &run.spawn_error {
        format!("could not be started: `{line}`: {error}")
    } else if let Some(signal) = run.signal {
        format!("was ended by signal {signal}: `{line}`")
    } else {
        match run.code {
            Some(0) if run.changed.is_empty() => return run.tail.clone(),
            Some(0) => format!("changed tracked files: {}", run.changed.join(", ")),
            Some(code @ (126 | 127)) => format!("could not run: `{line}` exited with {code}"),
            Some(code) => format!("failed: `{line}` exited with {code}"),
            None => format!("could not run: the end of `{line}` is unknown"),
        }
    };
    match run.tail.trim_end() {
        "" => what,
        tail => format!("{what}\n{tail}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(code: Option<i32>) -> GateRun {
        GateRun {
            code,
            signal: None,
            timed_out: false,
            stopped: false,
            spawn_error: None,
            took: Duration::from_secs(1),
            tail: String::new(),
            log: Default::default(),
            changed: Vec::new(),
            tree: None,
        }
    }

    /// `product.md`: a gate that cannot run is never "pass", never blamed on the branch.
    #[test]
    fn gate_that_cannot_run_is_an_infrastructure_failure() {
        assert_eq!(verdict(&run(Some(0))), Verdict::Pass);
        assert_eq!(verdict(&run(Some(1))), Verdict::Fail);
        for code in [Some(126), Some(127), None] {
            assert_eq!(verdict(&run(code)), Verdict::Infra, "{code:?}");
        }
        let timed_out = GateRun {
            timed_out: true,
            ..run(None)
        };
        assert_eq!(verdict(&timed_out), Verdict::Infra);
        let killed = GateRun {
            signal: Some(9),
            ..run(None)
        };
        assert_eq!(verdict(&killed), Verdict::Infra);
        let missing = GateRun {
            spawn_error: Some("no sh".into()),
            ..run(None)
        };
        assert_eq!(verdict(&missing), Verdict::Infra);
    }

    /// The text names the command and its end, even for a gate that printed nothing. It shows the configured limit, not
    /// the later moment at which the gate was ended.
    #[test]
    fn failed_gate_names_its_command_and_its_end() {
        let gate = Gate {
            name: "test".into(),
            run: "test ! -e BAD".into(),
            timeout: Duration::from_secs(6),
            retries: 0,
        };
        let said = |run: GateRun| describe(&run, &gate);
        let slow = GateRun {
            timed_out: true,
            took: Duration::from_millis(6_004),
            tail: "still compiling\n".into(),
            ..run(None)
        };
        let limit = "timed out: `test ! -e BAD` took longer than 6s\nstill compiling";
        assert_eq!(said(slow), limit);
        let killed = GateRun {
            signal: Some(9),
            ..run(None)
        };
        assert_eq!(said(killed), "was ended by signal 9: `test ! -e BAD`");
        let missing = "could not run: `test ! -e BAD` exited with 127";
        assert_eq!(said(run(Some(127))), missing);
        assert_eq!(said(run(Some(1))), "failed: `test ! -e BAD` exited with 1");
        assert_eq!(said(run(Some(0))), "");
    }

    #[test]
    fn a_gate_that_edits_the_tree_has_not_passed() {
        let edits = GateRun {
            changed: vec!["a".into()],
            ..run(Some(0))
        };
        assert_eq!(verdict(&edits), Verdict::Fail);
    }
}
