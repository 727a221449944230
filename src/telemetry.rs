//! Logs on stderr. An event of the journal is one JSON line with the journal's own fields
//! (`2-contract.md`, 2.6); any other line has `ts`, `level`, `target`, `message` and its fields.

mod sink;

use std::fmt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use self::sink::Sink;

/// The target that the journal's events carry.
const JOURNAL: &str = "horde::journal";

/// How logs look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One JSON object per line.
    Json,
    /// For people.
    Pretty,
}

/// Sets up logs for this process.
///
/// # Errors
/// They are set up already, or the kernel refuses a thread.
pub fn init(format: Format, filter: EnvFilter) -> Result<(), Box<dyn std::error::Error>> {
    let sink = Sink::to_stderr()?;
    let registry = tracing_subscriber::registry().with(filter);
    match format {
        Format::Json => registry.with(JsonLines(sink.clone())).try_init()?,
        Format::Pretty => {
            // It would say on stderr that stderr takes nothing, and panic of that.
            let pretty = tracing_subscriber::fmt::layer().log_internal_errors(false);
            registry.with(pretty.with_writer(sink.clone())).try_init()?;
        }
    }
    // The subscriber is the first: nothing set the sink before.
    let _first = SINK.set(sink);
    Ok(())
}

/// Where this process logs to.
static SINK: OnceLock<Sink> = OnceLock::new();

/// Says something to people, in the words that are given and in line with the log.
pub fn say(text: &str) {
    match SINK.get() {
        Some(sink) => sink.push(text.as_bytes().to_vec()),
        None => eprint!("{text}"),
    }
}

/// Waits until what was logged is written, at most this long.
pub fn flush(limit: Duration) {
    if let Some(sink) = SINK.get() {
        sink.flush(limit);
    }
}

/// Opens the file that the log goes to again, by the name that it had when the process began. Returns its
/// path; none where the log goes to no file.
///
/// # Errors
/// It cannot be opened, or is no regular file: the log stays where it is.
pub fn reopen() -> std::io::Result<Option<&'static Path>> {
    SINK.get().map_or(Ok(None), Sink::reopen)
}

/// Writes each event as one line, whole, with one call.
struct JsonLines(Sink);

impl<S: Subscriber> Layer<S> for JsonLines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = line(event).to_string();
        line.push('\n');
        self.0.push(line.into_bytes());
    }
}

fn line(event: &Event<'_>) -> Value {
    let metadata = event.metadata();
    let mut fields = Fields(Map::new());
    event.record(&mut fields);
    let Fields(mut fields) = fields;
    let ts = Value::String(Timestamp::now().to_string());
    if metadata.target() == JOURNAL {
        // The journal's particulars travel as text through tracing.
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
