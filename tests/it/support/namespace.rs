//! Tests that need a machine of their own, where they can choose pids and mount disks.

use std::any::type_name;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use super::tmux;

/// The command for user, pid and mount namespaces. Pid 1 in there has to reap every orphan, as a shell does.
const APART: [&str; 7] = ["-U", "-r", "-m", "-p", "-f", "--mount-proc", "sh"];
/// A command that works only in the namespaces.
const PROBE: &str = "echo 1000 >/proc/sys/kernel/ns_last_pid && mount -t tmpfs none /tmp";
/// A user who owns nothing.
const NOBODY: u32 = 65534;
const INSIDE: &str = "HORDE_TEST_INSIDE";

/// Returns whether this test runs as another user than root. If not, runs it again as one, then returns false. Where
/// that user may not run this program, the test is skipped and says so.
pub fn unprivileged<T: Fn()>(_test: T) -> bool {
    if !nix::unistd::geteuid().is_root() {
        return true;
    }
    let (_crate, name) = type_name::<T>().split_once("::").expect("a path");
    let home = horde_supervisor::testing::scratch();
    std::os::unix::fs::chown(home.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", name, "--nocapture"]);
    again.env("HOME", home.path()).env("TMPDIR", home.path());
    let again = again.current_dir("/").uid(NOBODY).gid(NOBODY).output();
    let Ok(output) = again else {
        let needed = std::env::var_os("HORDE_TESTS_NEED_NAMESPACE").is_some();
        assert!(!needed, "another user may not run {name}");
        eprintln!("skipped: another user may not run {name}");
        return false;
    };
    let told = String::from_utf8_lossy(&output.stderr);
    let ran = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}{ran}");
    assert!(ran.contains("1 passed"), "no test named {name}: {ran}");
    false
}

/// Returns whether this test runs in namespaces of its own. If not, runs it again in some, then returns false. Where
/// the kernel allows none, the test is skipped and says so; with `HORDE_TESTS_NEED_NAMESPACE` set it fails.
pub fn apart<T: Fn()>(_test: T) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let unshare = |script: &str| {
        let mut unshare = Command::new("unshare");
        unshare.args(APART).args(["-c", script, "sh"]);
        unshare
    };
    if !unshare(PROBE).status().is_ok_and(|status| status.success()) {
        let needed = std::env::var_os("HORDE_TESTS_NEED_NAMESPACE").is_some();
        assert!(!needed, "no namespaces can be made");
        eprintln!("skipped: no namespaces can be made here");
        return false;
    }
    let (_crate, name) = type_name::<T>().split_once("::").expect("a path");
    let mut again = unshare(r#""$@"; exit $?"#);
    again.arg(std::env::current_exe().unwrap());
    again
        .args(["--exact", name, "--nocapture", "--include-ignored"])
        .env(INSIDE, "1");
    tmux::pass_on(&mut again);
    let output = again.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let ran = String::from_utf8_lossy(&output.stdout);
    assert!(ran.contains("1 passed"), "no test named {name}: {ran}");
    false
}
