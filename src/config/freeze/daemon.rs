//! `[daemon]`, `[session]` and `[retention]`.

use std::path::PathBuf;

use crate::config::diagnostics::Diagnostic;
use crate::config::reader::Reader;
use crate::config::values::{
    choice, complain, duration, integer, number, optional, size, some_duration, text,
};
use crate::domain::city::{DaemonPolicy, OnTerm, Provider, RetentionPolicy, SessionPolicy, WispGc};
use crate::domain::restart::{Backoff, History, RestartPolicy};

/// The least size of a ring: a smaller one would not hold a screen.
const LEAST_OUTPUT: u64 = 64 * 1024;

/// `[daemon]`.
pub fn daemon(mut reader: Reader<'_>) -> Option<DaemonPolicy> {
    let patrol_interval = reader.get("patrol_interval", some_duration);
    let restart = restart(&mut reader);
    let shutdown_timeout = reader.get("shutdown_timeout", duration);
    let start_concurrency = reader.get("start_concurrency", integer(1));
    let interval = reader.get("wisp_gc_interval", optional(some_duration));
    let ttl = reader.get("wisp_ttl", optional(some_duration));
    let on_term = reader.get(
        "on_term",
        choice(&[("stop", OnTerm::Stop), ("detach", OnTerm::Detach)], &[]),
    );
    let socket = reader.get("socket", text);
    reader.finish();
    Some(DaemonPolicy {
        patrol_interval: patrol_interval?,
        restart: restart?,
        shutdown_timeout: shutdown_timeout?,
        start_concurrency: start_concurrency?,
        wisp_gc: interval?
            .zip(ttl?)
            .map(|(interval, ttl)| WispGc { interval, ttl }),
        on_term: on_term?,
        socket: PathBuf::from(socket?),
    })
}

fn restart(reader: &mut Reader<'_>) -> Option<RestartPolicy> {
    let max_restarts = reader.get("max_restarts", integer(0));
    let window = reader.get("restart_window", some_duration);
    let backoff = reader
        .section("restart_backoff", "daemon.restart_backoff")
        .and_then(backoff);
    let stable_after = reader.get("stable_after", optional(some_duration));
    let history = reader.get(
        "restart_history",
        choice(
            &[
                ("memory", History::Memory),
                ("persistent", History::Persistent),
            ],
            &[],
        ),
    );
    Some(RestartPolicy {
        max_restarts: max_restarts?,
        window: window?,
        backoff: backoff?,
        stable_after: stable_after?,
        history: history?,
    })
}

fn backoff(mut reader: Reader<'_>) -> Option<Backoff> {
    let first = reader.get("first", duration);
    let initial = reader.get("initial", duration);
    let max = reader.get("max", duration);
    let multiplier = reader.get("multiplier", number(1.0, 1000.0));
    let jitter = reader.get("jitter", number(0.0, 1.0));
    for (key, delay) in [("first", first), ("initial", initial)] {
        if let (Some(delay), Some(most)) = (delay, max)
            && delay > most
        {
            let message = format!("`{key}` is longer than `max`");
            let error = Diagnostic::error(message)
                .at(&reader.place(key))
                .related(&reader.place("max"), "the longest delay");
            reader.report.add(error);
        }
    }
    reader.finish();
    Some(Backoff {
        first: first?,
        initial: initial?,
        max: max?,
        multiplier: multiplier?,
        jitter: jitter?,
    })
}

/// `[session]`.
pub fn session(mut reader: Reader<'_>) -> Option<SessionPolicy> {
    let provider = reader.get(
        "provider",
        choice(
            &[("holder", Provider::Holder), ("tmux", Provider::Tmux)],
            &[],
        ),
    );
    let startup_timeout = reader.get("startup_timeout", some_duration);
    let output_limit = reader.get("output_limit", size(LEAST_OUTPUT));
    let tmux_socket = reader.get(
        "tmux_socket",
        optional(|node| {
            let name = text(node)?;
            match crate::domain::ids::check_name("tmux server name", &name) {
                Ok(()) => Ok(name),
                Err(error) => complain(node, error.to_string()),
            }
        }),
    );
    reader.finish();
    Some(SessionPolicy {
        provider: provider?,
        startup_timeout: startup_timeout?,
        output_limit: output_limit?,
        tmux_socket: tmux_socket?.unwrap_or_default(),
    })
}

/// `[retention]`.
pub fn retention(mut reader: Reader<'_>) -> Option<RetentionPolicy> {
    let events = reader.get("events", optional(some_duration));
    let session_logs = reader.get("session_logs", optional(some_duration));
    let gate_logs = reader.get("gate_logs", optional(some_duration));
    let salvage = reader.get("salvage", optional(some_duration));
    let salvage_max = reader.get("salvage_max", optional(size(0)));
    reader.finish();
    Some(RetentionPolicy {
        events: events?,
        session_logs: session_logs?,
        gate_logs: gate_logs?,
        salvage: salvage?,
        salvage_max: salvage_max?,
    })
}
