//! The control socket: a question and its answer on a connection.

use horde_supervisor::control::protocol::Op;
use horde_supervisor::control::protocol::args::{Nothing, Status};

use crate::city::City;
use crate::{SAMPLES, sample, timed};

/// `ping`, and `status` of a hundred agents.
pub fn round_trip() {
    let city = City::with(100);
    let mut client = city.connect();
    let mut ask = |name: &str, op: Op| {
        sample(name, SAMPLES, || {
            timed(|| client.call(&op).expect("an answer"))
        });
    };
    ask("control: ping", Op::Ping(Nothing {}));
    ask(
        "control: status of 100 agents",
        Op::Status(Status::default()),
    );
}
