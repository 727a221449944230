//! Choices side by side in one row, as opencode draws them: one choice stands out, and the arrow keys move the
//! selection.

use super::{Choice, Dialog, Form, menu};
use crate::domain::screen::ScreenView;

/// The hint that left and right select.
const SIDEWAYS: &str = "⇆ select";
/// Hints about keys, which are no choices.
const KEYS: &[&str] = &["⇆", "ctrl", "enter", "esc", "tab", "shift", "↑", "↓"];
/// The maximum distance of the row from the end of the screen.
const FROM_THE_END: usize = 8;

/// Finds a row of choices.
pub(super) fn find(view: &ScreenView) -> Option<Dialog> {
    let near = view.rows.len().saturating_sub(FROM_THE_END);
    let has_hint = |at: &usize| view.rows[*at].contains(SIDEWAYS);
    let row = (near..view.rows.len()).rev().find(has_hint)?;
    let text = view.rows[row].trim_matches(|c: char| menu::FRAME.contains(&c) || c == ' ');
    let labels = text.split("  ").map(str::trim);
    let is_choice =
        |label: &&str| !label.is_empty() && !KEYS.iter().any(|key| label.starts_with(key));
    let choices: Vec<Choice> = labels
        .filter(is_choice)
        .map(|label| Choice {
            label: label.trim_matches(menu::FRAME).trim().to_owned(),
            key: None,
            ticked: None,
        })
        .collect();
    if choices.len() < 2 {
        return None;
    }
    let marked = view.marked_text(row);
    let form = Form::Menu {
        selected: choices
            .iter()
            .position(|choice| Some(&choice.label) == marked.as_ref()),
        choices,
        multiple: false,
        several: None,
        across: true,
    };
    let question = menu::question(view, row)?;
    Some(Dialog {
        question,
        form,
        above: menu::above(view, row),
    })
}
