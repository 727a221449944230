//! Golden texts, and the points of `agent-lifecycle.md` that each must contain.

use super::*;
use crate::domain::ids::{Incarnation, Oid};
use crate::domain::merge::FailureType;
use crate::domain::message::MergeFailed;
use crate::domain::saved_work::SavedWork;

fn with_brief(test: impl FnOnce(Brief<'_>)) {
    let raider: RaiderId = "horde/raiders/Toast".parse().unwrap();
    let relic = RelicId::new("gt-7").unwrap();
    let base = Oid::new("0123456789".repeat(4)).unwrap();
    test(Brief {
        base: &base,
        raider: &raider,
        relic: &relic,
        title: "Reject empty names",
        body: "Names that are empty must be refused.\nSay which field it was.\n",
        steps: None,
        context: None,
        is_rejected: false,
        branch: "raider/Toast/gt-7-1",
        starts_on: None,
        target: "main",
        task_file: "TASK.md",
        review: "/code-review",
        max_reviews: 2,
        hd: "/opt/horde/hd",
    })
}

fn after(cause: Cause, problem: Option<&Problem>, reduced: bool) -> After<'_> {
    After {
        cause,
        problem,
        note: None,
        reduced,
    }
}

fn golden(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/prompts");
    settings.set_snapshot_path(data);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// Each point is a text that must occur, beside the words of the seed.
fn has_points(prompt: &str, points: &[(&str, &str)]) {
    for (seed, text) in points {
        assert!(prompt.contains(text), "missing: {seed}\n\n{prompt}");
    }
    let mut at = 0;
    for step in ["1. ", "2. ", "3. ", "4. ", "5. ", "6. ", "7. "] {
        let found = prompt[at..].find(&format!("\n{step}"));
        at += found.unwrap_or_else(|| panic!("step {step} is not in order"));
    }
}

/// `agent-lifecycle.md`, section 2.
const FIRST_POINTS: &[(&str, &str)] = &[
    ("task description", "Names that are empty must be refused."),
    ("branch name", "raider/Toast/gt-7-1"),
    ("read TASK.md", "1. Read TASK.md"),
    ("read CLAUDE.md", "2. Read CLAUDE.md"),
    ("implement", "3. Implement"),
    ("test", "4. Test"),
    ("self-review via /code-review", "run /code-review"),
    (
        "max 2 review attempts before marking stuck",
        "After it has failed 2 times, stop with the outcome `stuck`",
    ),
    (
        "must write outcome before stopping",
        "Before you stop, you must write the outcome to .horde-outcome",
    ),
    ("outcome passed", r#"{"id":"gt-7","outcome":"passed"}"#),
    (
        "outcome stuck with a reason",
        r#"{"id":"gt-7","outcome":"stuck","reason":"..."}"#,
    ),
    (
        "outcome reviewing",
        r#"{"id":"gt-7","outcome":"reviewing"}"#,
    ),
    ("must not push", "Do not push"),
];

/// `agent-lifecycle.md`, section 3.
const RESPAWN_POINTS: &[(&str, &str)] = &[
    (
        "check the outcome first",
        "Read .horde-outcome before you do anything else",
    ),
    (
        "already passed: write reviewing and stop",
        "It says `passed` for gt-7: write {\"id\":\"gt-7\",\"outcome\":\"reviewing\"} to it and stop",
    ),
    (
        "stuck or missing: continue",
        "It says `stuck`, or it is empty or missing: continue the work",
    ),
    (
        "reduced permissions, accept edits only",
        "You have fewer permissions than before: you may edit files",
    ),
];

#[test]
fn the_first_prompt_has_every_point_of_the_seed() {
    with_brief(|brief| {
        let text = first(&brief);
        has_points(&text, FIRST_POINTS);
        golden("first", &text);
    });
}

#[test]
fn a_long_step_is_cut_in_a_prompt_and_whole_in_the_task_file() {
    with_brief(|brief| {
        let steps = "long ".repeat(20_000);
        let brief = Brief {
            steps: Some(&steps),
            ..brief
        };
        assert!(first(&brief).len() < 16_000);
        assert!(task_file(&brief).contains(steps.trim()));
    });
}

#[test]
fn the_respawn_prompt_has_every_point_of_the_seed() {
    with_brief(|brief| {
        let text = respawn(&brief, after(Cause::SessionDied, None, true));
        has_points(&text, RESPAWN_POINTS);
        // The points of section 2 hold for every session.
        has_points(&text, FIRST_POINTS);
        golden("respawn", &text);
        assert!(
            !respawn(&brief, after(Cause::SessionDied, None, false)).contains("fewer permissions")
        );
    });
}

/// A session that left a note and died before its handoff.
#[test]
fn note_that_waits_is_in_the_respawn_prompt_too() {
    with_brief(|brief| {
        let after = After {
            note: Some("b is half done"),
            ..after(Cause::SessionDied, None, true)
        };
        let text = respawn(&brief, after);
        has_points(&text, RESPAWN_POINTS);
        assert!(text.contains("> b is half done"), "{text}");
        assert!(!text.contains("handed off to you"), "{text}");
    });
}

/// The outcome file still says `passed`, and the session stopped at once.
#[test]
fn respawn_prompt_of_rejected_work_calls_no_outcome_finished() {
    with_brief(|brief| {
        let brief = Brief {
            is_rejected: true,
            ..brief
        };
        let text = respawn(&brief, after(Cause::SessionDied, None, false));
        has_points(&text, FIRST_POINTS);
        assert!(!text.contains("The work is finished"), "{text}");
        assert!(text.contains("is not finished, whatever .horde-outcome says"));
        assert!(text.contains("Now continue the work. Read TASK.md"));
    });
}

#[test]
fn a_respawn_on_a_dirty_tree_says_so_before_all_else() {
    with_brief(|brief| {
        let dirty = Problem::Dirty(vec!["src/a.rs".into()]);
        let text = respawn(&brief, after(Cause::SessionDied, Some(&dirty), false));
        let told = text
            .find("First fix this: the outcome of gt-7 was not accepted")
            .unwrap();
        assert!(told < text.find("Read .horde-outcome").unwrap());
    });
}

#[test]
fn the_handoff_prompt_carries_the_note() {
    with_brief(|brief| {
        let text = handoff(&brief, Some("Parser is done.\n\nTests are not."));
        has_points(&text, FIRST_POINTS);
        golden("handoff", &text);
        assert!(handoff(&brief, None).contains("It left no note."));
    });
}

#[test]
fn task_file_describes_the_earlier_attempt() {
    with_brief(|brief| {
        let context = Some("An earlier attempt did not land.");
        let brief = Brief { context, ..brief };
        golden("task", &task_file(&brief));
    });
}

#[test]
fn nudges_name_the_problem_and_the_way_out() {
    with_brief(|brief| {
        let files = (1..=23).map(|n| format!("src/file{n}.rs")).collect();
        let dirty = nudge(&brief, &Problem::Dirty(files));
        assert!(dirty.contains("- src/file20.rs\n- and 3 more\n"), "{dirty}");
        let none = nudge(&brief, &Problem::NoCommits);
        assert!(none.contains("\"no_change\":true"), "{none}");
        let unclear = nudge(&brief, &Problem::Unclear("it names gt-9".into()));
        assert!(unclear.contains("it names gt-9"), "{unclear}");
        let refused = nudge(
            &brief,
            &Problem::Refused {
                why: "the sandbox is on wip, not on raider/Toast/gt-7-1".into(),
                hint: Some("git branch -m wip raider/Toast/gt-7-1".into()),
            },
        );
        assert!(refused.contains("git branch -m wip"), "{refused}");
        golden(
            "nudges",
            &[dirty, none, refused, unclear].join("\n\n---\n\n"),
        );
    });
}

#[test]
fn the_rework_context_says_why_and_where_the_earlier_work_is() {
    let mut failed = MergeFailed {
        mr: RelicId::new("gt-8").unwrap(),
        raider: "horde/raiders/Toast".parse().unwrap(),
        incarnation: Incarnation(1),
        rig: "horde".parse().unwrap(),
        relic: RelicId::new("gt-7").unwrap(),
        branch: "raider/Toast/gt-7-1".into(),
        head: Oid::new("a".repeat(40)).unwrap(),
        target: "main".into(),
        failure_type: FailureType::Conflict,
        error: String::new(),
        conflict_files: vec!["src/names.rs".into()],
    };
    let began = Oid::new("b".repeat(40)).unwrap();
    let conflict = rework(&failed, Some(&began));
    failed.failure_type = FailureType::Tests;
    failed.conflict_files.clear();
    failed.error = "test names::empty ... FAILED\n\n1 failed\n".into();
    let red = rework(&failed, None);
    golden("rework", &format!("{conflict}\n\n---\n\n{red}"));
    with_brief(|brief| {
        let context = Some(red.as_str());
        assert!(first(&Brief { context, ..brief }).contains("> test names::empty ... FAILED"));
    });
}

#[test]
fn a_long_task_is_cut_on_a_character_and_points_at_the_file() {
    with_brief(|brief| {
        let body = "ä".repeat(BODY_MAX);
        let brief = Brief {
            body: &body,
            task_file: ".horde-task.md",
            ..brief
        };
        let text = first(&brief);
        assert!(text.len() < BODY_MAX + 6_000);
        assert!(text.contains("[... the rest is in .horde-task.md]"));
        assert!(text.contains("1. Read .horde-task.md"));
        assert!(task_file(&brief).contains(&body));
    });
}

#[test]
fn a_harness_without_a_review_command_reads_its_diff() {
    with_brief(|brief| {
        let brief = Brief {
            review: "",
            max_reviews: 1,
            ..brief
        };
        let text = first(&brief);
        assert!(text.contains("read all of `git diff 0123456789`"));
        assert!(text.contains("After it has failed 1 time, stop"));
    });
}

#[test]
fn a_stalled_session_and_its_successor_are_told_why() {
    with_brief(|brief| {
        let told = silent(brief.relic, Duration::from_secs(600), brief.hd);
        for part in [
            "work on gt-7",
            "no progress for 10m",
            "/opt/horde/hd wait 30m",
            ".horde-outcome",
            "/opt/horde/hd done",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let next = respawn(&brief, after(Cause::Stalled, None, false));
        assert!(
            next.contains("it made no progress for a long time"),
            "{next}"
        );
        assert!(!next.contains("ended before it was finished"), "{next}");
    });
}

/// A repair cannot promise to keep uncommitted files.
#[test]
fn after_a_repair_no_files_are_claimed_that_may_be_gone() {
    with_brief(|brief| {
        let next = respawn(&brief, after(Cause::Repair, None, false));
        assert!(next.contains("has been repaired"), "{next}");
        assert!(!next.contains("uncommitted files are there"), "{next}");
    });
}

#[test]
fn salvaged_work_is_described_once_behind_the_earlier_context() {
    let oid = |digit: &str| Oid::new(digit.repeat(40)).unwrap();
    let work = SavedWork {
        head: Some(oid("a")),
        commits: Some(1),
        ..SavedWork::default()
    };
    let first = salvaged(Some("A gate failed."), "horde-Toast-1", Some(&work));
    assert!(
        first.starts_with("A gate failed.\n\nAn earlier attempt"),
        "{first}"
    );
    assert!(first.contains("kept as salvage horde-Toast-1."), "{first}");
    assert!(first.contains(&work.describe()), "{first}");
    let again = salvaged(Some(&first), "horde-Toast-2", None);
    assert!(again.starts_with("A gate failed."), "{again}");
    assert_eq!(again.matches("An earlier attempt").count(), 1, "{again}");
    assert!(
        again.contains("horde-Toast-2") && !again.contains("git "),
        "{again}"
    );
}

/// A login shell resets `PATH`, and another program may have the name.
#[test]
fn every_text_names_hd_by_its_path() {
    with_brief(|brief| {
        let brief = Brief {
            hd: "'/opt/my horde/hd'",
            ..brief
        };
        let problem = Problem::Unclear("it names gt-9".into());
        for text in [
            first(&brief),
            respawn(&brief, after(Cause::SessionDied, Some(&problem), true)),
            handoff(&brief, None),
            task_file(&brief),
            nudge(&brief, &problem),
            silent(brief.relic, Duration::from_secs(600), brief.hd),
            PoolNotice::Leave.text(brief.hd),
            PoolNotice::Stay.text(brief.hd),
        ] {
            assert!(text.contains("`'/opt/my horde/hd' done`"), "{text}");
            assert!(!text.contains("`hd "), "{text}");
        }
    });
}

/// The state of a totem is in every prompt and in the task file, and replaces the order of work of a task without steps;
/// the points of the seed are kept.
#[test]
fn a_task_in_steps_shows_its_present_step() {
    with_brief(|brief| {
        let steps = Some("This task is done in steps.\n\nStep 2, gt-7.2: Build it");
        let brief = Brief { steps, ..brief };
        let texts = [
            first(&brief),
            respawn(&brief, after(Cause::SessionDied, None, false)),
            handoff(&brief, Some("note")),
            task_file(&brief),
        ];
        for text in &texts {
            assert!(text.contains("Step 2, gt-7.2: Build it"), "{text}");
        }
        for text in &texts[..3] {
            assert!(text.contains("`/opt/horde/hd step done ID`"), "{text}");
            assert!(!text.contains("3. Implement the task."), "{text}");
            for point in [
                "AGENTS.md",
                "Commit everything",
                "/code-review",
                "failed 2 times",
                "stop.",
            ] {
                assert!(text.contains(point), "{point}: {text}");
            }
        }
    });
}
