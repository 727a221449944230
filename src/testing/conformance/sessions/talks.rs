//! What goes in and what comes out: environment, kept facts, screen, log, input.

use std::collections::BTreeMap;

use super::{Bench, Program, await_screen, ended, facts, finish, id, spec, start};
use crate::domain::facts::RunState;
use crate::domain::ids::{Generation, Incarnation};
use crate::ports::sessions::Input;

/// Nothing is inherited; only the session's mark is added.
pub fn the_environment_is_exactly_the_given_one(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let mut spec = spec(bench, "s", &Program::PrintsEnvironment);
    spec.env.insert("EMPTY".to_owned(), String::new());
    spec.env.insert("ODD".to_owned(), "a=b c\"$X'".to_owned());
    start(&*sessions, &spec);
    ended(&*sessions, &spec.id);
    let log = sessions.logs(&spec.id, 100_000).expect("there is a log");
    let log = String::from_utf8(log).expect("it is text");
    let seen: BTreeMap<_, _> = log
        .lines()
        .filter_map(|line| line.split_once('='))
        .filter(|(key, _)| *key != "HD_SESSION_TOKEN")
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    assert_eq!(seen, spec.env);
}

/// Generation, incarnation and kept facts come back from `list` and `facts`.
pub fn what_the_starter_gave_is_given_back(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let mut one = spec(bench, "one", &Program::Prints(String::new()));
    (one.generation, one.incarnation) = (Generation(4), Incarnation(2));
    one.meta.insert("relic".to_owned(), "gt-1".to_owned());
    let before = jiff::Timestamp::now();
    let first = start(&*sessions, &one);
    let second = start(&*sessions, &spec(bench, "two", &Program::Exits(0)));
    ended(&*sessions, &id("two"));
    let mut list = sessions.list().expect("it can be listed");
    list.sort_by_key(|facts| facts.id.clone());
    let [one, two] = list.as_slice() else {
        panic!("not two sessions: {list:?}");
    };
    assert_eq!(one.state, RunState::Running);
    assert_eq!(
        (one.generation, one.incarnation),
        (Generation(4), Incarnation(2))
    );
    assert_eq!(first.generation, Generation(4));
    assert_eq!(one.agent.as_ref(), Some(&first.agent));
    assert_eq!(
        (one.holder.clone(), one.attached),
        (first.holder.clone(), false)
    );
    assert!(one.started_at >= before && one.started_at <= jiff::Timestamp::now());
    assert_eq!(two.token, second.handle.token);
    assert!(matches!(two.state, RunState::Exited(_)));
    assert_eq!(sessions.facts(&one.id), Ok(Some(one.clone())));
    let kept = sessions.get_meta(&id("one"), "relic");
    assert_eq!(kept, Ok(Some("gt-1".to_owned())));
    finish(&*sessions, &first.handle);
}

/// Kept facts change while the session runs, and end with it.
pub fn facts_kept_with_a_session_can_be_changed(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let spec = spec(bench, "s", &Program::Prints(String::new()));
    let first = start(&*sessions, &spec);
    assert_eq!(sessions.get_meta(&spec.id, "k"), Ok(None));
    for value in ["a", "b\n\"ü\""] {
        sessions.set_meta(&first.handle, "k", value).expect("kept");
        assert_eq!(sessions.get_meta(&spec.id, "k"), Ok(Some(value.to_owned())));
    }
    finish(&*sessions, &first.handle);
    let second = start(&*sessions, &spec);
    assert_eq!(
        sessions.get_meta(&spec.id, "k"),
        Ok(None),
        "another session's"
    );
    finish(&*sessions, &second.handle);
}

/// The screen shows what the program printed, and the time of it is known.
pub fn the_screen_can_be_looked_at(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let program = Program::Prints("hello\nworld".to_owned());
    let first = start(&*sessions, &spec(bench, "s", &program));
    let screen = await_screen(&*sessions, &first.handle, "world");
    assert_eq!(screen, "hello\nworld");
    let facts = facts(&*sessions, &id("s"));
    assert!(facts.last_activity.is_some_and(|at| at >= facts.started_at));
    finish(&*sessions, &first.handle);
}

/// The log is there after the end, goes on with the next session, and is cut from the front.
pub fn the_log_outlives_the_session_and_its_record(bench: &dyn Bench) {
    let sessions = bench.sessions();
    for text in ["first", "second"] {
        let program = Program::Prints(text.to_owned());
        let started = start(&*sessions, &spec(bench, "s", &program));
        await_screen(&*sessions, &started.handle, text);
        finish(&*sessions, &started.handle);
    }
    sessions.forget(&id("s")).expect("it has ended");
    assert_eq!(sessions.facts(&id("s")), Ok(None));
    let log = |bytes| {
        let log = sessions.logs(&id("s"), bytes).expect("there is a log");
        String::from_utf8(log).expect("it is text")
    };
    let all = log(100_000);
    let (one, two) = (all.find("first"), all.find("second"));
    assert!(one.is_some() && one < two, "{all:?}");
    assert_eq!(log(5), all[all.len() - 5..]);
}

/// A submitted text arrives as one line, whatever is in it.
pub fn a_text_reaches_the_program(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let first = start(&*sessions, &spec(bench, "s", &Program::Echoes));
    for text in ["hello", "grüße; Enter C-c 'x'"] {
        let input = Input::Submit(text.to_owned());
        sessions.send(&first.handle, &input).expect("it is typed");
        await_screen(&*sessions, &first.handle, &format!("got {text}"));
    }
    let raw = Input::Raw(b"raw\r".to_vec());
    sessions.send(&first.handle, &raw).expect("it is typed");
    await_screen(&*sessions, &first.handle, "got raw");
    finish(&*sessions, &first.handle);
}

/// The text given at the start arrives without anybody sending it.
pub fn the_first_input_is_typed(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let mut spec = spec(bench, "s", &Program::Echoes);
    spec.first_input = Some("do it".to_owned());
    let first = start(&*sessions, &spec);
    await_screen(&*sessions, &first.handle, "got do it");
    finish(&*sessions, &first.handle);
}

/// The interrupt key interrupts and does not end.
pub fn the_interrupt_key_reaches_the_program(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let first = start(&*sessions, &spec(bench, "s", &Program::NotesInterrupts));
    await_screen(&*sessions, &first.handle, "ready");
    sessions
        .interrupt(&first.handle)
        .expect("the key is pressed");
    await_screen(&*sessions, &first.handle, "interrupted");
    assert_eq!(facts(&*sessions, &id("s")).state, RunState::Running);
    finish(&*sessions, &first.handle);
}

/// The program is told of a new size.
pub fn the_size_can_be_changed(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let first = start(&*sessions, &spec(bench, "s", &Program::NotesSize));
    await_screen(&*sessions, &first.handle, "50 200");
    sessions.resize(&first.handle, 30, 90).expect("resized");
    await_screen(&*sessions, &first.handle, "30 90");
    finish(&*sessions, &first.handle);
}
