//! Deaths of every kind: nothing survives a stop, nothing is started twice, and nothing waits for a terminal that
//! another process holds open.

use std::time::{Duration, Instant};

use horde_supervisor::adapters::proc;
use horde_supervisor::domain::facts::RunState;
use horde_supervisor::ports::sessions::{Input, SessionEvent, Sessions, StartError, Stopped};
use horde_supervisor::testing::conformance::sessions::{await_screen, hear, id};
use horde_supervisor::testing::{PATIENCE, eventually};
use rustix::process::Signal;

use super::{LocalBench, Provider, await_file, await_lost, kill, marked, script, state};

on_both!(
    runaways_die_with_a_stop,
    runaways_die_with_the_agent_that_left_them,
    a_child_that_holds_and_floods_the_terminal_does_not_delay_the_end,
    the_last_output_before_the_end_is_in_the_log,
    a_stopped_agent_dies,
    a_killed_holder_is_lost_and_never_leads_to_a_second_copy,
    remains_of_a_killed_holder_can_be_stopped,
    a_survivor_without_the_mark_is_found,
    hanging_holder_is_ended_with_its_session,
    a_term_to_the_holder_itself_ends_the_session_on_record,
    end_after_an_interrupt_of_the_supervisor_is_no_end_of_the_work,
    end_of_input_that_the_supervisor_types_is_no_key_of_a_person
);

/// A program that fails after its prompt would be restarted for ever if its end counted as a person's, which is not
/// counted.
fn end_of_input_that_the_supervisor_types_is_no_key_of_a_person(bench: &LocalBench) {
    let sessions = bench.provider();
    let events = hear(&sessions);
    let spec = script(bench, "echo ready; cat > got; exit 1");
    let started = sessions.start(&spec).unwrap();
    await_screen(&sessions, &started.handle, "ready");
    let prompt = Input::Submit("do it\nand say so".to_owned());
    for input in [prompt, Input::EndOfInput] {
        sessions.send(&started.handle, &input).unwrap();
    }
    let event = events.recv_timeout(PATIENCE).unwrap();
    let SessionEvent::Exited(_, exit) = event else {
        panic!("{event:?}");
    };
    assert_eq!((exit.code, exit.by_person), (Some(1), false));
    let got = std::fs::read_to_string(bench.path().join("got")).unwrap();
    assert_eq!(got, "do it\nand say so\n");
}

/// A program that exits with 0 on an interrupt has not finished: a stop begins with an interrupt.
fn end_after_an_interrupt_of_the_supervisor_is_no_end_of_the_work(bench: &LocalBench) {
    let sessions = bench.provider();
    let events = hear(&sessions);
    let spec = script(
        bench,
        "trap 'exit 0' INT; echo ready; while :; do read -r line; done",
    );
    let started = sessions.start(&spec).unwrap();
    await_screen(&sessions, &started.handle, "ready");
    sessions.interrupt(&started.handle).unwrap();
    let event = events.recv_timeout(PATIENCE).unwrap();
    let SessionEvent::Exited(_, exit) = event else {
        panic!("{event:?}");
    };
    assert_eq!((exit.code, exit.stopped), (Some(0), true));
    assert!(!exit.is_success());
}

/// Sent keys end a program as those of an attached person do.
#[test]
fn end_by_a_key_that_was_sent_is_a_persons() {
    let bench = LocalBench::new(Provider::Holder);
    let sessions = bench.provider();
    let events = hear(&sessions);
    let spec = script(
        &bench,
        "trap 'exit 0' INT; echo ready; while :; do read -r line; done",
    );
    let started = sessions.start(&spec).unwrap();
    await_screen(&sessions, &started.handle, "ready");
    let key = Input::Raw(vec![3]);
    sessions.send(&started.handle, &key).unwrap();
    let event = events.recv_timeout(PATIENCE).unwrap();
    let SessionEvent::Exited(_, exit) = event else {
        panic!("{event:?}");
    };
    assert_eq!((exit.code, exit.by_person), (Some(0), true));
    assert!(!exit.is_success());
}

/// Children that try to escape: own session and deaf, orphaned, without a terminal.
const RUNAWAYS: &str =
    "setsid sh -c 'trap \"\" HUP TERM INT; sleep 1000; :' </dev/null >/dev/null 2>&1 &
    sh -c 'setsid sleep 1000 </dev/null >/dev/null 2>&1 & exit'
    nohup sleep 1000 </dev/null >/dev/null 2>&1 &
    ";

fn runaways_die_with_a_stop(bench: &LocalBench) {
    let sessions = bench.provider();
    let spec = script(bench, &format!("{RUNAWAYS} echo ready; sleep 1000"));
    let started = sessions.start(&spec).unwrap();
    await_screen(&sessions, &started.handle, "ready");
    eventually("all of them", || {
        (marked(&started).len() >= 6).then_some(())
    });
    let stopped = sessions.stop(&started.handle, PATIENCE);
    assert_eq!(stopped, Ok(Stopped::Gracefully));
    assert_eq!(marked(&started), [], "a process was left");
}

fn runaways_die_with_the_agent_that_left_them(bench: &LocalBench) {
    let sessions = bench.provider();
    let events = hear(&sessions);
    let spec = script(bench, &format!("{RUNAWAYS} exit 4"));
    let started = sessions.start(&spec).unwrap();
    let event = events.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(event, SessionEvent::Exited(_, exit) if exit.code == Some(4)));
    assert_eq!(marked(&started), [], "a process was left");
}

fn a_child_that_holds_and_floods_the_terminal_does_not_delay_the_end(bench: &LocalBench) {
    let sessions = bench.provider();
    let events = hear(&sessions);
    let flood = "(trap '' HUP; while :; do echo flood; done) & read -r line; exit 2";
    let started = sessions.start(&script(bench, flood)).unwrap();
    let end = Input::Submit("end".to_owned());
    sessions.send(&started.handle, &end).unwrap();
    let began = Instant::now();
    let event = events.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(event, SessionEvent::Exited(_, exit) if exit.code == Some(2)));
    assert!(began.elapsed() < Duration::from_secs(25), "it waited");
}

fn the_last_output_before_the_end_is_in_the_log(bench: &LocalBench) {
    let sessions = bench.provider();
    let events = hear(&sessions);
    for _ in 0..10 {
        let spec = script(bench, "seq 1 2000; echo the very last");
        sessions.start(&spec).unwrap();
        events.recv_timeout(PATIENCE).unwrap();
        let log = sessions.logs(&id("s"), 100).unwrap();
        let log = String::from_utf8(log).unwrap();
        assert!(log.ends_with("2000\r\nthe very last\r\n"), "{log:?}");
    }
}

fn a_stopped_agent_dies(bench: &LocalBench) {
    let sessions = bench.provider();
    for (trap, how) in [
        ("", Stopped::Gracefully),
        ("trap '' TERM;", Stopped::Killed),
    ] {
        let spec = script(bench, &format!("{trap} kill -STOP $$; exec sleep 1000"));
        let started = sessions.start(&spec).unwrap();
        eventually("a stopped agent", || {
            let stat = proc::stat(started.agent.pid).unwrap();
            stat.filter(|stat| stat.state == b'T')
        });
        let grace = Duration::from_millis(500);
        assert_eq!(sessions.stop(&started.handle, grace), Ok(how));
        assert_eq!(marked(&started), []);
    }
}

fn a_killed_holder_is_lost_and_never_leads_to_a_second_copy(bench: &LocalBench) {
    let sessions = bench.provider();
    let events = hear(&sessions);
    let deaf = format!("trap '' HUP TERM; {RUNAWAYS} echo ready; while :; do sleep 1000; done");
    let spec = script(bench, &deaf);
    let first = sessions.start(&spec).unwrap();
    await_screen(&sessions, &first.handle, "ready");
    kill(first.holder.as_ref().unwrap());
    let event = events.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(event, SessionEvent::Lost(handle, _) if handle == first.handle));
    let why = await_lost(&sessions);
    assert!(why.contains("still runs"), "{why}");
    assert!(sessions.forget(&id("s")).is_err(), "something lives");
    assert!(!marked(&first).is_empty(), "the test needs a survivor");

    let second = sessions.start(&spec).unwrap();
    assert!(!proc::lives(&first.agent).unwrap(), "two copies");
    assert_eq!(marked(&first), [], "two copies");
    assert_eq!(state(&sessions, &id("s")), RunState::Running);
    sessions.stop(&second.handle, Duration::ZERO).unwrap();
}

fn remains_of_a_killed_holder_can_be_stopped(bench: &LocalBench) {
    let sessions = bench.provider();
    let deaf = "trap '' HUP TERM; echo ready; while :; do sleep 1000; done";
    let started = sessions.start(&script(bench, deaf)).unwrap();
    await_screen(&sessions, &started.handle, "ready");
    kill(started.holder.as_ref().unwrap());
    await_lost(&sessions);
    assert_eq!(
        sessions.membership(started.agent.pid).session(),
        Some(id("s"))
    );
    let stop = || sessions.stop(&started.handle, PATIENCE);
    assert_eq!(stop(), Ok(Stopped::Killed));
    assert_eq!(marked(&started), []);
    assert_eq!(stop(), Ok(Stopped::Already));
    assert_eq!(sessions.forget(&id("s")), Ok(()));
}

fn a_survivor_without_the_mark_is_found(bench: &LocalBench) {
    let sessions = bench.provider();
    // Its environment is empty, so only its inherited descriptors tell its session.
    let cleared = "setsid env -i sh -c 'trap \"\" HUP; echo $$ > pid; while :; do /bin/sleep 1000; done' & wait";
    let started = sessions.start(&script(bench, cleared)).unwrap();
    let pid = await_file(&bench.path().join("pid"));
    let survivor = proc::identify(pid.trim().parse().unwrap()).unwrap();
    kill(started.holder.as_ref().unwrap());
    await_lost(&sessions);
    assert!(proc::lives(&survivor).unwrap(), "the test needs a survivor");
    let second = sessions.start(&script(bench, "sleep 1000")).unwrap();
    assert!(!proc::lives(&survivor).unwrap(), "two copies");
    sessions.stop(&second.handle, Duration::ZERO).unwrap();
}

fn hanging_holder_is_ended_with_its_session(bench: &LocalBench) {
    let sessions = bench.provider();
    let spec = script(bench, "sleep 1000");
    let started = sessions.start(&spec).unwrap();
    let holder = started.holder.as_ref().unwrap();
    let pidfd = proc::Pidfd::open(holder).unwrap().unwrap();
    pidfd.signal(Signal::STOP).unwrap();
    let again = sessions.start(&spec);
    assert!(matches!(again, Err(StartError::Exists(_))), "{again:?}");
    let stopped = sessions.stop(&started.handle, Duration::ZERO);
    assert_eq!(stopped, Ok(Stopped::Killed));
    assert_eq!(marked(&started), []);
    assert!(!proc::lives(holder).unwrap());
}

fn a_term_to_the_holder_itself_ends_the_session_on_record(bench: &LocalBench) {
    let sessions = bench.provider();
    let events = hear(&sessions);
    let started = sessions.start(&script(bench, "exec sleep 1000")).unwrap();
    let holder = proc::Pidfd::open(started.holder.as_ref().unwrap());
    holder.unwrap().unwrap().signal(Signal::TERM).unwrap();
    let event = events.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(event, SessionEvent::Exited(_, exit) if exit.signal == Some(15)));
}
