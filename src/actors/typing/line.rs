//! A line that a person has begun and left in the program's input (`domain/begun`). It is held for the person for a
//! while; a text that is typed after it then is reported.

use std::time::Duration;

use jiff::Timestamp;

use super::super::refusal::{Refusal, RefusalKind};
use super::super::world::World;
use crate::domain::cause::Cause;
use crate::domain::condition::Condition;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::ChildId;
use crate::domain::screen::ScreenView;
use crate::domain::typed_line::HELD;
use crate::ports::sessions::SessionHandle;

/// Returns true when a line that a person has begun stands in the program's input, and is still held.
pub(super) fn is_begun(world: &World, handle: &SessionHandle, view: &ScreenView) -> bool {
    let typed = typed_last(world, handle, view);
    typed.is_some_and(|typed| age(world, typed) < HELD)
}

fn typed_last(world: &World, handle: &SessionHandle, view: &ScreenView) -> Option<Timestamp> {
    let begun = view.begun.or(view.touched);
    world.directory.conditions.typed_last(handle, begun)
}

fn age(world: &World, typed: Timestamp) -> Duration {
    Duration::try_from(world.clock.now().duration_since(typed)).unwrap_or_default()
}

/// Notes that a text was submitted on this screen. Journals a line that a person had begun and left there, because it
/// was submitted with the text, unless that was forced.
pub(super) fn submitted(
    world: &World,
    child: &ChildId,
    handle: &SessionHandle,
    view: &ScreenView,
    force: bool,
) {
    let left = typed_last(world, handle, view);
    world.directory.conditions.submitted(handle);
    let (Some(typed), false) = (left, force) else {
        return;
    };
    let minutes = age(world, typed).as_secs() / 60;
    let told = Condition::Unrecognised {
        text: format!(
            "a text was typed behind a line that a person began and left {minutes} minutes before"
        ),
        screen: view.text(),
    };
    let mut data = serde_json::json!(told);
    data["session"] = serde_json::json!(handle.id);
    let event = NewEvent::new(EventType::RaiderUnclear, child, Cause::LineLeft);
    world.store.journal(vec![event.with(data)]);
}

/// Builds the refusal of a text while a person's line stands in the input.
pub(super) fn begun(view: &ScreenView) -> Refusal {
    Refusal::new(
        RefusalKind::NeedsHuman,
        format!(
            "its input holds a line that a person began and did not submit, or a person is typing now:\n{}",
            view.text()
        ),
    )
    .hint(
        "finish it with `hd attach NAME`; `hd send NAME --keys C-u` clears it in most programs, \
        C-c also after an arrow key; ten minutes after its last key it counts as abandoned; `--force` sends both \
        as one message",
    )
}
