//! Tests that need an environment of their own: a process has only one, and all tests share it.

use std::any::type_name;
use std::ffi::OsStr;
use std::process::Command;

const INSIDE: &str = "HORDE_TEST_AGAIN";

/// Returns whether this test runs with these variables. If not, runs it again in a process that has them, then returns
/// false.
pub fn again<T: Fn()>(_test: T, variables: &[(&str, &OsStr)]) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let (_crate, name) = type_name::<T>().split_once("::").expect("a path");
    let mut again = Command::new(std::env::current_exe().expect("a program"));
    again
        .args(["--exact", name, "--nocapture", "--include-ignored"])
        .envs(variables.iter().copied())
        .env(INSIDE, "1");
    let output = again.output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr);
    eprint!("{told}");
    let ran = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && ran.contains("1 passed"),
        "{name}: {ran}"
    );
    false
}
