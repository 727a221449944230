//! `[notify]`.

use super::agents::ReadAgent;
use super::groups::known;
use crate::config::reader::Reader;
use crate::config::values::{choice, command, list, name, optional, some_duration};
use crate::domain::ids::AgentName;
use crate::domain::notify::{Notice, NotifyPolicy};

/// `[notify]`.
pub fn notify(mut reader: Reader<'_>, agents: &[ReadAgent]) -> Option<NotifyPolicy> {
    let on = reader.get("on", list(choice(Notice::WORDS, &[])));
    let run = reader.get("run", command);
    let reraise = reader.get("reraise", optional(some_duration));
    let mail_to = reader.get("mail_to", list(name::<AgentName>));
    let places = reader.element_places("mail_to");
    for (agent, place) in mail_to.iter().flatten().zip(places) {
        known(agent, &place, agents, reader.report);
    }
    reader.finish();
    let run = run?;
    Some(NotifyPolicy {
        on: on?,
        command: (!run.is_empty()).then(|| shell_words::join(run)),
        reraise: reraise?,
        mail_to: mail_to?,
    })
}
