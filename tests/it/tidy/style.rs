//! Sizes, headers and words that have no place in the code.

use horde_supervisor::domain::event::EventType;

use super::source::{Source, end_of_item};
use super::{all, below, expect_none};

const FILE_MAX: usize = 500;
const FUNCTION_MAX: usize = 70;

fn every<'a>(
    sources: impl IntoIterator<Item = &'a Source>,
    rule: impl Fn(&Source) -> Vec<(usize, String)>,
) -> Vec<String> {
    let of = |source: &Source| {
        let found = rule(source).into_iter();
        let place = |(line, what): (usize, String)| format!("{}:{line}: {what}", source.name);
        found.map(place).collect::<Vec<_>>()
    };
    sources.into_iter().flat_map(of).collect()
}

fn no_header(source: &Source) -> Vec<(usize, String)> {
    let first = source.text.lines().next().unwrap_or_default();
    if first.starts_with("//! ") {
        return Vec::new();
    }
    vec![(
        1,
        "the first line is not a `//!` that says what the module is".to_owned(),
    )]
}

fn too_long_a_file(source: &Source) -> Vec<(usize, String)> {
    match source.text.lines().count() {
        lines if lines > FILE_MAX => vec![(lines, format!("{lines} lines; split it by idea"))],
        _ => Vec::new(),
    }
}

fn too_long_a_function(source: &Source) -> Vec<(usize, String)> {
    let lines: Vec<&str> = source.code.lines().collect();
    let begins = |line: &str| {
        let before = line.split("fn ").next().unwrap_or_default().trim();
        let modifiers = before.split_whitespace().all(|word| {
            let plain = ["pub", "async", "const", "unsafe", "extern"].contains(&word);
            plain || word.starts_with("pub(") || word.ends_with(')')
        });
        line.contains("fn ") && modifiers
    };
    let long = |(index, line): (usize, &&str)| {
        let length = end_of_item(&lines, index) + 1 - index;
        (begins(line) && length > FUNCTION_MAX)
            .then(|| (index + 1, format!("a function of {length} lines")))
    };
    lines.iter().enumerate().filter_map(long).collect()
}

/// Finds words of unfinished or careless work. The first list is for shipped code, the second for all.
fn bad_words(source: &Source) -> Vec<(usize, String)> {
    const SHIPPED: &[&str] = &[".unwrap()", "dbg!("];
    const ALL: &[&str] = &["todo!(", "unimplemented!(", "#[allow(", "#![allow("];
    let has = |words: &'static [&str]| {
        move |(number, line): (usize, &str)| {
            let word = words.iter().find(|word| line.contains(**word))?;
            Some((number, (*word).to_owned()))
        }
    };
    let shipped = source.shipped().filter_map(has(SHIPPED));
    shipped.chain(source.lines().filter_map(has(ALL))).collect()
}

/// Finds ignored tests outside the long tier: `cargo test` leaves out only that tier, which `tests/long/run` runs.
fn ignored(source: &Source) -> Vec<(usize, String)> {
    let lines = source.text.lines().zip(source.code.lines()).enumerate();
    let found = lines.filter(|(_, (text, code))| {
        let ignores = code.trim_start().starts_with("#[ignore");
        ignores && !text.trim_start().starts_with(r#"#[ignore = "long tier: "#)
    });
    found
        .map(|(index, (text, _))| (index + 1, text.trim().to_owned()))
        .collect()
}

/// The file in which tests may sleep: all others wait for a condition through it.
const POLL: &str = "src/testing/poll.rs";

/// Finds tests that sleep instead of waiting for a condition by `testing::poll`. Sleeping under paused time costs
/// nothing, and is allowed.
fn sleeps_in_tests(source: &Source) -> Vec<(usize, String)> {
    let lines: Vec<&str> = source.code.lines().collect();
    let paused = |index: usize| {
        let attribute = lines[..index]
            .iter()
            .rev()
            .find(|line| line.contains("::test"));
        attribute.is_some_and(|line| line.contains("start_paused = true"))
    };
    let sleep = |(index, line): (usize, &&str)| {
        let found = [
            "thread::sleep(",
            "time::sleep(",
            "::sleep_ms(",
            "park_timeout(",
        ]
        .iter()
        .any(|word| line.contains(word));
        (found && source.test[index] && !paused(index) && source.name != POLL).then(|| {
            (
                index + 1,
                "a test sleeps; let it wait for its condition with `testing::poll`".to_owned(),
            )
        })
    };
    lines.iter().enumerate().filter_map(sleep).collect()
}

/// Finds names of roles: these are configuration, and the core knows none of them.
fn role_names(source: &Source) -> Vec<(usize, String)> {
    let lines = source.text.lines().enumerate();
    let named = |(index, line): (usize, &str)| {
        let line = line.to_lowercase();
        let role = ["warchief", "mayor"]
            .into_iter()
            .find(|role| line.contains(role))?;
        (!source.test[index]).then(|| (index + 1, format!("{role} is a name that users choose")))
    };
    lines.filter_map(named).collect()
}

#[test]
fn every_module_has_a_header() {
    expect_none("a module begins with `//!`", &every(all(), no_header));
}

#[test]
fn files_are_short() {
    let broken = every(all(), too_long_a_file);
    expect_none(&format!("a file has at most {FILE_MAX} lines"), &broken);
}

#[test]
fn functions_are_short() {
    let broken = every(all(), too_long_a_function);
    expect_none(
        &format!("a function has at most {FUNCTION_MAX} lines"),
        &broken,
    );
}

#[test]
fn code_has_no_unfinished_work_or_unwrap() {
    expect_none("these words have no place here", &every(all(), bad_words));
}

#[test]
fn ignored_tests_are_of_the_long_tier() {
    expect_none(
        "a test is ignored for the long tier only",
        &every(all(), ignored),
    );
}

#[test]
fn no_test_sleeps() {
    expect_none("tests do not sleep", &every(all(), sleeps_in_tests));
}

/// Finds pipes that a program which another test starts at the same time inherits: their readers would wait for its end.
fn inherited_pipes(source: &Source) -> Vec<(usize, String)> {
    let call = format!("pipe{}", "()");
    let is_open = |line: &str| {
        // The standard library closes its pipes.
        let before = |at: usize| !line[..at].ends_with("io::") && !line[..at].ends_with('_');
        let mut calls = line.match_indices(&call);
        calls.any(|(at, _)| before(at)) || line.contains("libc::pipe(")
    };
    let lines = source.lines().filter(|(_, line)| is_open(line));
    lines.map(|(at, line)| (at, line.to_owned())).collect()
}

#[test]
fn pipes_are_closed_in_other_programs() {
    let found = every(all(), inherited_pipes);
    expect_none("`pipe2` with `O_CLOEXEC` makes pipes", &found);
    for (from, count) in [("nix::unistd::", 1), ("", 1), ("io::", 0)] {
        let text = format!("let ends = {from}pipe{};", "()");
        let source = Source::new("tests/it/x.rs", &text);
        assert_eq!(inherited_pipes(&source).len(), count, "{text}");
    }
}

#[test]
fn the_core_knows_no_role() {
    let core = below("src/domain/").chain(below("src/actors/"));
    expect_none("the core names no role", &every(core, role_names));
}

/// Finds code that sets the state of a merge request past its state machine.
fn states_of_merge_requests(source: &Source) -> Vec<(usize, String)> {
    let sets = |line: &str| line.contains(".state = MrState");
    let found = source.shipped().filter(|(_, line)| sets(line));
    let outside = found.filter(|_| source.name != "src/domain/queue.rs");
    outside
        .map(|(number, _)| (number, "sets the state of a merge request".to_owned()))
        .collect()
}

#[test]
fn merge_requests_move_by_steps_of_their_machine() {
    let broken = every(below("src/"), states_of_merge_requests);
    expect_none("only src/domain/queue.rs moves merge requests", &broken);
    let text = "fn f() { mr.state = MrState::Merged; }";
    let found = states_of_merge_requests(&Source::new("src/actors/x.rs", text));
    assert_eq!(found.len(), 1);
}

/// Finds code that reads by hand whether work was declared done: one method of the hook says it.
fn done_read_by_hand(source: &Source) -> Vec<(usize, String)> {
    let owner = source.name == "src/domain/relic.rs";
    let lines = source.shipped().filter(|_| !owner);
    let found = lines.filter(|(_, line)| line.contains(".done.is_"));
    found.map(|(at, line)| (at, line.to_owned())).collect()
}

#[test]
fn declared_work_is_recognised_by_one_method() {
    let found = every(below("src/"), done_read_by_hand);
    expect_none("`Hook::is_declared` answers that", &found);
    let text = "fn f() { hook.done.is_some(); }";
    let broken = Source::new("src/actors/x.rs", text);
    assert_eq!(done_read_by_hand(&broken).len(), 1);
}

/// Finds names of events as text in `hd`: a name that is spelled otherwise there would compile, and match nothing.
fn events_by_name(source: &Source) -> Vec<(usize, String)> {
    let lines = source.text.lines().enumerate();
    let named = |(index, line): (usize, &str)| {
        let is_named = |kind: &&EventType| line.contains(&format!("\"{kind}\""));
        let kind = EventType::ALL.iter().find(is_named)?;
        (!source.test[index]).then(|| (index + 1, format!("{kind} has a type: `EventType`")))
    };
    lines.filter_map(named).collect()
}

#[test]
fn programs_know_events_by_their_types() {
    let broken = every(below("src/cli/"), events_by_name);
    expect_none("`hd` reads types of events with `Event::known`", &broken);
    let text = r#"fn f() { event.kind == "raider.merged"; }"#;
    assert_eq!(events_by_name(&Source::new("src/cli/x.rs", text)).len(), 1);
}

#[test]
fn each_rule_catches_a_violation() {
    let shipped = |rule: fn(&Source) -> Vec<(usize, String)>, text: &str| {
        rule(&Source::new("src/x.rs", text)).len()
    };
    let long = |count: usize| "    work();\n".repeat(count);
    assert_eq!(shipped(no_header, "use a::b;\n"), 1);
    assert_eq!(shipped(no_header, "//! Words.\n"), 0);
    assert_eq!(shipped(too_long_a_file, &"\n".repeat(501)), 1);
    assert_eq!(shipped(too_long_a_file, &"\n".repeat(500)), 0);
    let function = |count| format!("pub(super) async fn f() {{\n{}}}\n", long(count));
    assert_eq!(shipped(too_long_a_function, &function(69)), 1);
    assert_eq!(shipped(too_long_a_function, &function(68)), 0);
    let ended = format!("trait T {{\n    fn f();\n{}}}\n", long(80));
    assert_eq!(shipped(too_long_a_function, &ended), 0);
    assert_eq!(shipped(bad_words, "fn f() { a.unwrap(); }"), 1);
    assert_eq!(
        shipped(bad_words, "#[cfg(test)]\nmod t {\n a.unwrap();\n}"),
        0
    );
    assert_eq!(shipped(bad_words, "#[cfg(test)]\nmod t {\n todo!();\n}"), 1);
    assert_eq!(shipped(role_names, "// mail to the Mayor"), 1);
}

#[test]
fn a_test_that_is_ignored_for_another_reason_is_caught() {
    let count = |text: &str| ignored(&Source::new("tests/it/x.rs", text)).len();
    assert_eq!(
        count("#[test]\n#[ignore = \"long tier: chaos\"]\nfn t() {}"),
        0
    );
    assert_eq!(count("#[test]\n#[ignore = \"flaky\"]\nfn t() {}"), 1);
    assert_eq!(count("#[test]\n#[ignore]\nfn t() {}"), 1);
    assert_eq!(count("// #[ignore]"), 0);
}

#[test]
fn a_sleep_in_a_test_is_caught() {
    let count = |text: &str| sleeps_in_tests(&Source::new("tests/it/x.rs", text)).len();
    assert_eq!(
        count("#[test]\nfn t() {\n    thread::park_timeout(SECOND);\n}"),
        1
    );
    assert_eq!(count("#[test]\nfn t() {\n    thread::sleep(SECOND);\n}"), 1);
    assert_eq!(
        count(
            "#[tokio::test(start_paused = true)]\nasync fn t() {\n    tokio::time::sleep(S).await;\n}"
        ),
        0
    );
    let shipped = Source::new("src/x.rs", "fn f() {\n    thread::sleep(SECOND);\n}");
    assert_eq!(sleeps_in_tests(&shipped).len(), 0);
}
