//! The test program as a keeper (`adapters::keeper`): a process that has no program for keepers starts its own, and
//! that of a test begins with the main function of the test harness. This runs before it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::adapters::keeper::{KEEP, keep_main};
use crate::adapters::sessions::holder::PROGRAM;

#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = keep_if_asked;

/// Runs a keeper to its end if the process was started as one.
extern "C" fn keep_if_asked() {
    // The standard library may not know the arguments yet.
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let line = line.strip_suffix(b"\0").unwrap_or(&line);
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    let asked = [PROGRAM, KEEP].map(|word| OsStr::new(word).as_bytes());
    let Some((given, rest)) = words.split_first_chunk() else {
        return;
    };
    if *given == asked {
        let args: Vec<_> = rest
            .iter()
            .map(|word| OsString::from_vec(word.to_vec()))
            .collect();
        crate::startup::clean_signals();
        // `ExitCode` has no number, and a keeper always succeeds.
        let _code = keep_main(&args);
        std::process::exit(0);
    }
}
