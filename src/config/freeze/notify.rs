//! `[notify]`.

use crate::config::reader::Reader;
use crate::config::values::{choice, command, list, optional, some_duration};
use crate::domain::notify::{Notice, NotifyPolicy};

/// `[notify]`.
pub fn notify(mut reader: Reader<'_>) -> Option<NotifyPolicy> {
    let on = reader.get("on", list(choice(Notice::WORDS, &[])));
    let run = reader.get("run", command);
    let reraise = reader.get("reraise", optional(some_duration));
    reader.finish();
    let run = run?;
    Some(NotifyPolicy {
        on: on?,
        command: (!run.is_empty()).then(|| shell_words::join(run)),
        reraise: reraise?,
    })
}
