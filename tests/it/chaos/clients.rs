//! Clients of the control socket that hang, stammer or rave.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use horde_supervisor::testing::tier::by_tier;
use serde_json::json;

use super::{crowd, kill, named, runs_as};
use crate::support::live::until;

#[test]
#[ignore = "long tier: chaos"]
fn clients_that_hang_or_rave_delay_no_restart() {
    let city = crowd(1).start();
    let socket = city.root().join(".horde/control.sock");
    let first = runs_as(&city, "a0", 1);
    let client = |number: usize| {
        let mut client = UnixStream::connect(&socket).unwrap();
        // Four clients: a silent one, one that never ends its line, one that sends garbage, and one that never reads
        // its answer.
        let said: &[u8] = match number % 4 {
            0 => b"",
            1 => b"{\"v\":1,\"id\":\"1\",\"op\":\"sta",
            2 => b"\xff\xfe{}[]\nnull\n\n{\"v\":9}\n",
            _ => b"{\"v\":1,\"id\":\"1\",\"op\":\"status\",\"args\":{}}\n",
        };
        // A client that is turned away may be closed before it has sent anything.
        let _turned_away = client.write_all(said);
        client
    };
    let replaced = |first: u32| {
        let killed = Instant::now();
        kill(first);
        let back = || matches!(named(&city, "sleep")[..], [pid] if pid != first);
        until("it is back", back);
        killed.elapsed()
    };
    let alone = replaced(first);
    let second = runs_as(&city, "a0", 2);
    // More clients than are let in at once: later ones are turned away, and no agent notices.
    let clients: Vec<_> = (0..by_tier(200, 900)).map(client).collect();
    let crowded = replaced(second);
    let many = clients.len();
    eprintln!("C16: replaced after {alone:?} alone, after {crowded:?} among {many} clients");
    drop(clients);
    runs_as(&city, "a0", 3);
    city.ask("ping", json!({})).unwrap();
}
