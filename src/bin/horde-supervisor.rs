//! The daemon, and the holder of one session that it re-executes itself as.

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    // Before any thread or runtime exists: a holder forks.
    if let [verb, rest @ ..] = args.as_slice()
        && verb == "hold"
    {
        return horde_supervisor::adapters::sessions::holder::hold_main(rest);
    }
    ExitCode::SUCCESS
}
