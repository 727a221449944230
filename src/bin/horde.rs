//! `horde`: `hd` by its second name, for machines where another program is called `hd`.

use std::process::ExitCode;

fn main() -> ExitCode {
    horde_supervisor::startup::clean_signals();
    horde_supervisor::cli::main()
}
