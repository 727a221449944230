//! `horde-session hold DIR`: the holder of one session, started by the supervisor. `horde-session keep LINE`: the keeper of one
//! command that the supervisor runs. `horde-session anchor PROGRAM ARGUMENT...`: the anchor of a command of git. A program of its own, because there are many, and it links only what it needs.

use std::ffi::OsString;
use std::process::ExitCode;

use horde_supervisor::adapters::keeper;
use horde_supervisor::adapters::sessions::holder::{PROGRAM, hold_main, hold_pane_main};
use horde_supervisor::startup;

fn main() -> ExitCode {
    startup::clean_signals();
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(code) = keeper::main_if_asked(&args) {
        return code.into();
    }
    match args.split_first() {
        Some((first, rest)) if first == "hold" => hold_main(rest),
        Some((first, rest)) if first == "hold-pane" => hold_pane_main(rest),
        Some((first, _)) if first == "--version" => {
            println!("{PROGRAM} {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!(
                "{PROGRAM} is started by horde-supervisor and holds the terminal of one agent, or keeps one command"
            );
            ExitCode::from(2)
        }
    }
}
