//! The test program as a keeper or an anchor (`adapters::keeper`): a process that has no program for them starts its own, and
//! that of a test begins with the main function of the test harness. This runs before it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::adapters::keeper;
use crate::adapters::sessions::holder::PROGRAM;

#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = keep_if_asked;

/// Runs a keeper or an anchor to its end if the process was started as one.
extern "C" fn keep_if_asked() {
    // The standard library may not know the arguments yet.
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let line = line.strip_suffix(b"\0").unwrap_or(&line);
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    let Some((program, args)) = words.split_first() else {
        return;
    };
    if *program != PROGRAM.as_bytes() {
        return;
    }
    let args: Vec<_> = args
        .iter()
        .map(|word| OsString::from_vec(word.to_vec()))
        .collect();
    crate::startup::clean_signals();
    if let Some(code) = keeper::main_if_asked(&args) {
        std::process::exit(code.into());
    }
}
