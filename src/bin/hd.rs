//! `hd`: the command line of a city.

use std::process::ExitCode;

fn main() -> ExitCode {
    horde_supervisor::startup::clean_signals();
    horde_supervisor::cli::main()
}
