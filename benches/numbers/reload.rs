//! A change of the configuration, until it is applied.

use std::fs;

use criterion::{Criterion, SamplingMode};
use horde_supervisor::control::protocol::Op;
use horde_supervisor::control::protocol::args::Reload;

use crate::city::City;

/// Gives an agent among a thousand another idle timeout, which is applied to its running session; `hd reload` answers
/// when that is done.
pub fn round_trip(criterion: &mut Criterion) {
    let city = City::with(1000);
    let mut client = city.connect();
    let before = fs::read_to_string(city.config()).expect("a configuration");
    let mut minutes = 0;
    let mut group = criterion.benchmark_group("reload");
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    group.bench_function("one of 1000 agents changed", |bencher| {
        bencher.iter(|| {
            minutes += 1;
            let changed = format!("{before}idle_timeout = \"{minutes}m\"\n");
            fs::write(city.config(), changed).expect("it is written");
            let reload = Op::Reload(Reload { dry_run: false });
            let applied = client.call(&reload).expect("an answer");
            assert_eq!(applied["errors"], serde_json::json!([]), "{applied}");
            applied
        });
    });
    group.finish();
    assert_eq!(city.all_run(), city.agents, "a session was restarted");
}
