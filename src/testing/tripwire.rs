//! A panic at the place of a log line: a bug wherever a test wants one.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::field::{Field, Visit};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

/// Armed while it lives, in this thread.
pub struct Tripwire {
    torn: Arc<AtomicBool>,
    _armed: DefaultGuard,
}

struct Wire {
    message: &'static str,
    torn: Arc<AtomicBool>,
}

impl Tripwire {
    /// Panics once, when these words are logged.
    #[must_use]
    pub fn at(message: &'static str) -> Self {
        let torn = Arc::<AtomicBool>::default();
        let wire = Wire {
            message,
            torn: Arc::clone(&torn),
        };
        let armed = set_default(tracing_subscriber::registry().with(wire));
        Self {
            torn,
            _armed: armed,
        }
    }

    /// Returns whether it has panicked.
    #[must_use]
    pub fn is_torn(&self) -> bool {
        self.torn.load(Ordering::SeqCst)
    }
}

impl<S: Subscriber> Layer<S> for Wire {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut said = MessageText(String::new());
        event.record(&mut said);
        let hit = said.0 == self.message && !self.torn.swap(true, Ordering::SeqCst);
        assert!(!hit, "a test wants a panic here");
    }
}

struct MessageText(String);

impl Visit for MessageText {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}
