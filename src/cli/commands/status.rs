//! `hd status`: one screen; `--watch` redraws it with each event.

use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::cli::args::Status;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::output;
use crate::cli::render;
use crate::control::client::{Client, Flow};
use crate::control::protocol::args::{Events, Nothing};
use crate::control::protocol::{ControlError, Exit, Op};

/// The interval of redrawing without events: the ages on the screen grow.
const REDRAW: Duration = Duration::from_secs(5);
/// The pause after an event: events come in bursts, and one drawing is enough for a burst.
const BURST: Duration = Duration::from_millis(100);

pub(super) fn run(args: &Status, context: &mut Context) -> Result<(), CliError> {
    if args.watch {
        watch(context)
    } else {
        context.show(&Op::Status(Nothing {}), render::status::status)
    }
}

fn watch(context: &mut Context) -> Result<(), CliError> {
    let city = context.city()?;
    let stream = Client::connect(&city.socket)?;
    let mut asking = Client::connect(&city.socket)?;
    let mut status = asking.call(&Op::Status(Nothing {}))?;
    // Later events are drawn as they come.
    let since = status.get("seq").and_then(Value::as_u64);
    let (happened, happenings) = mpsc::channel();
    let follower = thread::spawn(move || {
        let events = Op::Events(Events {
            follow: true,
            since,
            ..Events::default()
        });
        stream.stream(&events, |_| match happened.send(()) {
            Ok(()) => Ok::<_, ControlError>(Flow::Continue),
            Err(_) => Ok(Flow::Stop),
        })
    });
    let on_terminal = io::stdout().is_terminal();
    loop {
        if on_terminal && !context.json {
            // Moves to the top left and clears the drawing before.
            output::print(b"\x1b[H\x1b[2J")?;
        }
        context.print(&status, render::status::status)?;
        match happenings.recv_timeout(REDRAW) {
            Ok(()) => while happenings.recv_timeout(BURST).is_ok() {},
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        status = asking.call(&Op::Status(Nothing {}))?;
    }
    match follower.join() {
        Ok(Err(error)) => Err(error.into()),
        _ => Err(CliError::new(
            Exit::Unreachable,
            "the supervisor ended the stream",
        )),
    }
}
