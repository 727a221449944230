//! A panic at the place of a log line: a bug wherever a test wants one.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::field::{Field, Visit};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

/// Armed while it lives, in this thread.
pub struct Tripwire {
    /// The number of panics that are still to come.
    left: Arc<AtomicUsize>,
    _armed: DefaultGuard,
}

struct Wire {
    message: &'static str,
    left: Arc<AtomicUsize>,
}

impl Tripwire {
    /// Panics once, when these words are logged.
    #[must_use]
    pub fn at(message: &'static str) -> Self {
        Self::times(message, 1)
    }

    /// Panics so many times, whenever these words are logged.
    #[must_use]
    pub fn times(message: &'static str, times: usize) -> Self {
        let left = Arc::new(AtomicUsize::new(times));
        let wire = Wire {
            message,
            left: Arc::clone(&left),
        };
        let armed = set_default(tracing_subscriber::registry().with(wire));
        Self {
            left,
            _armed: armed,
        }
    }

    /// Returns whether it has panicked as often as it should.
    #[must_use]
    pub fn is_torn(&self) -> bool {
        self.left.load(Ordering::SeqCst) == 0
    }
}

impl<S: Subscriber> Layer<S> for Wire {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut said = MessageText(String::new());
        event.record(&mut said);
        if said.0 != self.message {
            return;
        }
        let next = |left: usize| left.checked_sub(1);
        let hit = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        assert!(hit.is_err(), "a test wants a panic here");
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
