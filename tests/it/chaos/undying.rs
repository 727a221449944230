//! A process that survives KILL, like one in state D. A tracer that stops it at its exit makes one without a broken
//! disk: from there on signals are dropped, and only the tracer releases it.

use nix::libc;
use serde_json::json;

use super::{crowd, named, runs_as};
use crate::support::live::until;
use crate::support::namespace::apart;
use crate::support::processes;

fn trace(request: libc::c_uint, pid: u32, data: libc::c_int) {
    let data = std::ptr::without_provenance_mut::<libc::c_void>(data.try_into().unwrap());
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: these requests read and write no memory.
    let done = unsafe { libc::ptrace(request, pid.cast_signed(), none, data) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// In a user namespace of its own a test may trace processes that it did not start itself.
#[test]
#[ignore = "long tier: chaos"]
fn stop_names_the_session_that_survives_a_kill_and_the_next_supervisor_doubles_nothing() {
    if !apart(stop_names_the_session_that_survives_a_kill_and_the_next_supervisor_doubles_nothing) {
        return;
    }
    let mut city = crowd(2).set("daemon", "patrol_interval", r#""1s""#).start();
    let (undying, other) = (runs_as(&city, "a0", 1), runs_as(&city, "a1", 1));
    trace(libc::PTRACE_SEIZE, undying, libc::PTRACE_O_TRACEEXIT);
    let stopped = city.hd_text(&["stop"]);
    assert_eq!(stopped.code, 1, "{stopped:?}");
    assert!(stopped.err.contains("a0 ("), "{stopped:?}");
    let told = format!("{}{}", stopped.out, stopped.err);
    assert!(!told.contains("a1 ("), "{told}");
    assert!(!stopped.out.contains("stopped"), "{told}");
    assert_eq!(city.ended().code(), Some(1));
    assert!(processes::runs(undying) && !processes::runs(other));
    city.start();
    let event = city.all_of("controller.stopped").pop().unwrap();
    assert!(
        event["data"]["left"].to_string().contains("a0 ("),
        "{event}"
    );
    runs_as(&city, "a1", 2);
    let agents = city.ask("agent.list", json!({})).unwrap();
    assert_ne!(agents[0]["state"], "running", "{agents}");
    assert_eq!(named(&city, "sleep").len(), 2, "nothing is doubled");
    trace(libc::PTRACE_DETACH, undying, 0);
    until("it is started again", || {
        let agents = city.ask("agent.list", json!({})).unwrap();
        agents[0]["state"] == "running" && !processes::runs(undying)
    });
    city.stop();
}
