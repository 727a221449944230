//! The control socket: a question and its answer on a connection.

use criterion::Criterion;
use horde_supervisor::control::protocol::Op;
use horde_supervisor::control::protocol::args::{Nothing, Status};

use crate::city::City;

/// `ping`, and `status` of a hundred agents.
pub fn round_trip(criterion: &mut Criterion) {
    let city = City::with(100);
    let mut client = city.connect();
    let mut group = criterion.benchmark_group("control");
    group.bench_function("ping", |bencher| {
        bencher.iter(|| client.call(&Op::Ping(Nothing {})).expect("an answer"));
    });
    group.bench_function("status of 100 agents", |bencher| {
        bencher.iter(|| {
            client
                .call(&Op::Status(Status::default()))
                .expect("an answer")
        });
    });
    group.finish();
}
