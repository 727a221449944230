//! Logs on stderr. An event of the journal is a JSON line with the journal's own fields (`contract.md`, 2.6); any
//! other line has `ts`, `level`, `target`, `message` and its fields.

mod sink;

use std::fmt;
use std::io::Write;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::MakeWriter as _;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use self::sink::Sink;
use crate::domain::shown;

/// The target of the journal's events.
const JOURNAL: &str = "horde::journal";

/// The format of logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A JSON object per line.
    Json,
    /// For people.
    Pretty,
}

/// Sets up logs for this process.
///
/// # Errors
/// Logs are set up already, or the kernel refuses a thread.
pub fn init(format: Format, filter: EnvFilter) -> Result<(), Box<dyn std::error::Error>> {
    let sink = Sink::to_stderr()?;
    let registry = tracing_subscriber::registry().with(filter);
    match format {
        Format::Json => registry.with(JsonLines(sink.clone())).try_init()?,
        Format::Pretty => {
            // Otherwise it would report on stderr that stderr takes no writes, and panic.
            let pretty = tracing_subscriber::fmt::layer().log_internal_errors(false);
            let safe = sink.clone();
            registry
                .with(pretty.with_writer(move || Safe(safe.make_writer())))
                .try_init()?;
        }
    }
    // The subscriber is the first, so the sink was not set before.
    let _first = SINK.set(sink);
    Ok(())
}

/// The sink of this process's logs.
static SINK: OnceLock<Sink> = OnceLock::new();

/// Writes a text for people, unchanged and in order with the log.
pub fn print(text: &str) {
    match SINK.get() {
        Some(sink) => sink.push(text.as_bytes().to_vec()),
        None => eprint!("{text}"),
    }
}

/// Waits until all logged lines are written, at most this long.
pub fn flush(limit: Duration) {
    if let Some(sink) = SINK.get() {
        sink.flush(limit);
    }
}

/// Opens the log file again, by the name that it had when the process began. Returns its path; none where the log goes
/// to no file.
///
/// # Errors
/// The file cannot be opened, or is no regular file: the log stays where it is.
pub fn reopen() -> std::io::Result<Option<&'static Path>> {
    SINK.get().map_or(Ok(None), Sink::reopen)
}

/// Writes each event as one line, in a single call.
struct JsonLines(Sink);

impl<S: Subscriber> Layer<S> for JsonLines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let line = line(event).to_string();
        let mut line = shown::json(&line).into_owned();
        line.push('\n');
        self.0.push(line.into_bytes());
    }
}

/// Escapes control sequences in texts of agents, git and files, so that they cannot steer a terminal. Lines arrive
/// whole.
struct Safe<W>(W);

impl<W: Write> Write for Safe<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        self.0.write_all(shown::painted(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a line has the time at which it is written"
)]
fn line(event: &Event<'_>) -> Value {
    let metadata = event.metadata();
    let mut fields = Fields(Map::new());
    event.record(&mut fields);
    let Fields(mut fields) = fields;
    let ts = Value::String(Timestamp::now().to_string());
    if metadata.target() == JOURNAL {
        // The data of a journal event travels as text through tracing.
        let data = fields.get("data").and_then(Value::as_str);
        if let Some(data) = data.and_then(|text| serde_json::from_str(text).ok()) {
            fields.insert("data".to_owned(), data);
        }
        fields.remove("message");
        fields.entry("ts").or_insert(ts);
        return Value::Object(fields);
    }
    let mut whole = Map::new();
    whole.insert("ts".to_owned(), ts);
    whole.insert(
        "level".to_owned(),
        metadata.level().as_str().to_lowercase().into(),
    );
    whole.insert("target".to_owned(), metadata.target().into());
    whole.extend(fields);
    Value::Object(whole)
}

struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0
            .insert(field.name().to_owned(), format!("{value:?}").into());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    struct Keep(Arc<Mutex<Vec<Value>>>);

    impl<S: Subscriber> Layer<S> for Keep {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            self.0.lock().unwrap().push(line(event));
        }
    }

    /// A writer that keeps its bytes.
    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Case pretty-log of an adversary: control characters in the log for people.
    #[test]
    fn pretty_log_has_colours_and_nothing_else_that_steers_a_terminal() {
        let memory = Memory::default();
        let written = memory.clone();
        let pretty = tracing_subscriber::fmt::layer()
            .with_ansi(true)
            .with_writer(move || Safe(written.clone()));
        let nasty = "a\x1b[31mb\x1b]52;c;x\x07\x7f\u{9b}2J\u{202e}\u{200b}";
        tracing::subscriber::with_default(tracing_subscriber::registry().with(pretty), || {
            tracing::warn!(title = nasty, path = %nasty, debug = ?nasty, "{nasty}");
        });
        let bytes = memory.0.lock().unwrap().clone();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains("\x1b["), "it is coloured: {text:?}");
        assert_eq!(shown::painted(&text), text);
        assert!(text.contains("\\u{202e}"), "{text:?}");
    }

    /// Programs parse these lines, and people read them in a terminal.
    #[test]
    fn json_log_has_no_raw_character_that_steers_a_terminal_and_loses_none() {
        let sink = Sink::in_memory();
        let nasty = "a\x1b[31mb\x07\x7f\u{9b}2J\u{202e}\u{2066}\u{200b}\u{feff}\n\"é";
        let lines = tracing_subscriber::registry().with(JsonLines(sink.clone()));
        tracing::subscriber::with_default(lines, || {
            tracing::warn!(title = nasty, path = %nasty, debug = ?nasty, "{nasty}");
            let data = serde_json::json!({"title": nasty, nasty: 1}).to_string();
            tracing::info!(target: "horde::journal", seq = 1, subject = nasty, data = %data);
        });
        let lines = sink.kept();
        let texts = lines.iter().map(|line| std::str::from_utf8(line).unwrap());
        let texts: Vec<&str> = texts.collect();
        for text in &texts {
            let line = text.strip_suffix('\n').unwrap();
            assert_eq!(shown::json(line), line, "escaped already");
            let raw = |c: char| c.is_control() || "\u{202e}\u{2066}\u{200b}\u{feff}".contains(c);
            assert!(!line.contains(raw), "{line:?}");
        }
        let values = texts.iter().map(|text| serde_json::from_str(text).unwrap());
        let values: Vec<Value> = values.collect();
        for key in ["title", "path", "message"] {
            assert_eq!(values[0][key], nasty, "{key}");
        }
        assert_eq!(values[1]["subject"], nasty);
        assert_eq!(values[1]["data"]["title"], nasty);
        assert_eq!(values[1]["data"][nasty], 1);
        assert_eq!(values.len(), 2);
    }

    #[test]
    fn a_journal_event_is_a_line_with_the_journal_s_fields() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let keep = tracing_subscriber::registry().with(Keep(Arc::clone(&lines)));
        tracing::subscriber::with_default(keep, || {
            tracing::info!(
                target: "horde::journal",
                seq = 12,
                ts = "2026-01-01T00:00:00Z",
                "type" = "raider.nuked",
                subject = "horde/raiders/Toast",
                cause = "done_clean_pushed",
                data = %r#"{"a":1}"#,
            );
            tracing::warn!(rig = "horde", "a rig is away");
        });
        let lines = lines.lock().unwrap();
        let expected = serde_json::json!({
            "seq": 12, "ts": "2026-01-01T00:00:00Z", "type": "raider.nuked",
            "subject": "horde/raiders/Toast", "cause": "done_clean_pushed", "data": {"a": 1},
        });
        assert_eq!(lines[0], expected);
        assert_eq!(lines[1]["level"], "warn");
        assert_eq!(lines[1]["message"], "a rig is away");
        assert_eq!(lines[1]["rig"], "horde");
    }
}
