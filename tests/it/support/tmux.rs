//! tmux, which may be missing. `.ci/run` installs it and says so.

use std::cell::Cell;
use std::path::Path;
use std::process::Command;

use horde_supervisor::domain::city::tmux_server;

/// Returns whether tmux is installed. Without it, tests of tmux return at once; with `HORDE_TESTS_NEED_TMUX` set, its
/// absence is a failure.
pub fn is_there() -> bool {
    let there = Command::new("tmux").arg("-V").output().is_ok();
    let needed = std::env::var_os("HORDE_TESTS_NEED_TMUX").is_some();
    assert!(there || !needed, "tmux is not installed");
    if !there {
        eprintln!("not tested: tmux is not installed");
    }
    there
}

/// Tells a test that runs again in namespaces of its own that it is for tmux.
const AGAIN: &str = "HORDE_TEST_ON_TMUX";

thread_local! {
    static ON_TMUX: Cell<bool> = const { Cell::new(false) };
}

/// Runs a test whose city has its sessions on tmux, if it asks [`is_asked_for`].
pub fn run_on_tmux(test: impl FnOnce()) {
    if is_there() {
        ON_TMUX.set(true);
        test();
    }
}

/// Returns whether the sessions of this test are to be on tmux.
pub fn is_asked_for() -> bool {
    ON_TMUX.get() || std::env::var_os(AGAIN).is_some()
}

/// Makes a test that is run again use tmux, too.
pub fn pass_on(again: &mut Command) {
    if is_asked_for() {
        again.env(AGAIN, "1");
    }
}

/// Returns the number of panes of a city's server; 0 without a server.
pub fn panes(city: &Path) -> usize {
    let mut tmux = Command::new("tmux");
    tmux.args(["-L", &tmux_server(city, "")]);
    let listed = tmux.args(["list-panes", "-a", "-F", "#{pane_id}"]).output();
    listed.map_or(0, |listed| {
        String::from_utf8_lossy(&listed.stdout).lines().count()
    })
}

/// Removes the socket of a city's server, which tmux leaves behind.
pub fn remove_socket(city: &Path) {
    let (uid, server) = (nix::unistd::geteuid(), tmux_server(city, ""));
    let _none = std::fs::remove_file(format!("/tmp/tmux-{uid}/{server}"));
}
