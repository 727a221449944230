//! A change of the configuration, until it is applied.

use std::fs;

use horde_supervisor::control::protocol::Op;
use horde_supervisor::control::protocol::args::Reload;

use crate::city::City;
use crate::{FEW, sample, timed};

/// Gives an agent among a thousand another idle timeout, which is applied to its running session; `hd reload` answers
/// when that is done.
pub fn round_trip() {
    let city = City::with(1000);
    let mut client = city.connect();
    let before = fs::read_to_string(city.config()).expect("a configuration");
    let mut minutes = 0;
    sample("reload: one of 1000 agents changed", FEW, || {
        minutes += 1;
        let changed = format!("{before}idle_timeout = \"{minutes}m\"\n");
        fs::write(city.config(), changed).expect("it is written");
        let reload = Op::Reload(Reload { dry_run: false });
        timed(|| {
            let applied = client.call(&reload).expect("an answer");
            assert_eq!(applied["errors"], serde_json::json!([]), "{applied}");
        })
    });
    assert_eq!(city.all_run(), city.agents, "a session was restarted");
}
