//! `horde-supervisor <CITY>`: the daemon. With `hold` (or, in a tmux pane, `hold-pane`) as its
//! first argument it is a session's holder instead, with `keep` the keeper of a command, and with `anchor` the anchor of a
//! program; that is decided before any thread exists.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use horde_supervisor::adapters::keeper;
use horde_supervisor::adapters::sessions::holder::{hold_main, hold_pane_main};
use horde_supervisor::telemetry::{self, Format};
use horde_supervisor::{daemon, faults, startup};
use tracing_subscriber::EnvFilter;

/// Supervises the AI coding agents of one city.
#[derive(Debug, Parser)]
#[command(name = "horde-supervisor", version)]
struct Args {
    /// A `city.toml`, or the directory that holds it.
    #[arg(required_unless_present = "list_fault_points")]
    city: Option<PathBuf>,
    /// Validate the configuration and exit with 0 or 2.
    #[arg(long)]
    check: bool,
    /// The format of logs on stderr [default: json, pretty on a terminal].
    #[arg(long, value_enum)]
    log_format: Option<LogFormat>,
    /// The log lines that are written: error, warn, info, debug, or a filter such as `horde=debug`.
    #[arg(long, default_value = "info")]
    log_level: String,
    /// Take the relic store as it is, also where it is empty, or older than it was.
    #[arg(long)]
    accept_store: bool,
    /// Print the steps at which crash sweeps may abort the process.
    #[arg(long)]
    list_fault_points: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum LogFormat {
    Json,
    Pretty,
}

fn main() -> ExitCode {
    startup::clean_signals();
    let raw: Vec<_> = std::env::args_os().skip(1).collect();
    match raw.split_first() {
        Some((first, rest)) if first == "hold" => return hold_main(rest),
        Some((first, rest)) if first == "hold-pane" => return hold_pane_main(rest),
        _ => {}
    }
    if let Some(code) = keeper::main_if_asked(&raw) {
        return code.into();
    }
    let args = Args::parse();
    if args.list_fault_points {
        print!("{}", faults::list());
        return ExitCode::SUCCESS;
    }
    let Some(city) = args.city else {
        return ExitCode::from(2);
    };
    if args.check {
        return daemon::check(&city);
    }
    let format = match args.log_format {
        Some(LogFormat::Json) => Format::Json,
        Some(LogFormat::Pretty) => Format::Pretty,
        None if std::io::stderr().is_terminal() => Format::Pretty,
        None => Format::Json,
    };
    let filter = match EnvFilter::try_new(&args.log_level) {
        Ok(filter) => filter,
        Err(error) => {
            eprintln!("error: --log-level {:?}: {error}", args.log_level);
            return ExitCode::from(2);
        }
    };
    if let Err(error) = telemetry::init(format, filter) {
        eprintln!("error: logs cannot be set up: {error}");
        return ExitCode::FAILURE;
    }
    let store = match args.accept_store {
        true => daemon::Store::Any,
        false => daemon::Store::Known,
    };
    daemon::run(&city, store)
}
