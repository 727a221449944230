//! Decides if a text that was typed and not submitted, because a dialog opened, still stands in the program's input
//! line. A text that is wrongly believed to stand there is lost, so in doubt it is typed again.

use serde::{Deserialize, Serialize};

use super::screen::ScreenView;

/// A shorter text may be on a screen by chance.
const TELLING: usize = 40;
/// The number of characters that are searched for: programs show only the end of a long text.
const LOOKED_FOR: usize = 80;
/// The form in which programs show a long paste instead of its text: "[Pasted text #1 +3 lines]", "[Paste #1 - 10
/// lines]".
const FOLDED: &str = "[past";

/// A text that was typed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsubmitted {
    text: String,
    /// The number of times that the screen showed it before.
    before: usize,
}

/// Returns the part of a text that is still to be pasted, and what the input line holds then. None when it is unknown
/// if an earlier text stands there.
#[must_use]
pub fn rest(
    left: Option<Unsubmitted>,
    text: &str,
    view: &ScreenView,
) -> Option<(Option<String>, Unsubmitted)> {
    let stands = match &left {
        Some(left) => left.stands(view)?,
        None => false,
    };
    let Some(left) = left.filter(|_| stands) else {
        return Some((Some(text.to_owned()), Unsubmitted::new(text, view)));
    };
    if left.text == text {
        return Some((None, left));
    }
    let more = format!("\n\n{text}");
    let whole = format!("{}{more}", left.text);
    Some((Some(more), Unsubmitted::new(&whole, view)))
}

impl Unsubmitted {
    /// Records a text that is about to be typed into this screen.
    fn new(text: &str, view: &ScreenView) -> Self {
        let before = times(text, view);
        let text = text.to_owned();
        Self { text, before }
    }

    /// Returns true when another text is a part of it.
    #[must_use]
    pub fn has(&self, other: &Self) -> bool {
        self.text.contains(&other.text)
    }

    /// Returns true when it is seen to stand in the input line.
    #[must_use]
    pub fn is_shown(&self, view: &ScreenView) -> bool {
        self.stands(view) == Some(true)
    }

    fn stands(&self, view: &ScreenView) -> Option<bool> {
        if let Some((row, column)) = view.cursor {
            let (row, column) = (usize::from(row), usize::from(column));
            let above = view.rows.iter().take(row).map(|row| squeezed(row));
            let mut text: String = above.collect();
            let at = view.rows.get(row).map(String::as_str).unwrap_or_default();
            let at = squeezed(&at.chars().take(column).collect::<String>());
            text.push_str(&at);
            return Some(text.ends_with(&sought(&self.text)) || at.contains(FOLDED));
        }
        if squeezed(&self.text).chars().count() < TELLING {
            return None;
        }
        Some(times(&self.text, view) > self.before)
    }
}

/// Returns the number of times that a screen shows a text, or a folded paste.
fn times(text: &str, view: &ScreenView) -> usize {
    let screen = squeezed(&view.text());
    screen.matches(&sought(text)).count() + screen.matches(FOLDED).count()
}

/// Returns the end of a text, which is searched for.
fn sought(text: &str) -> String {
    let text = squeezed(text);
    let over = text.chars().count().saturating_sub(LOOKED_FOR);
    text.chars().skip(over).collect()
}

/// Returns a text without blanks and frames, which a program adds when it wraps the text.
fn squeezed(text: &str) -> String {
    let is_drawn = |c: &char| c.is_whitespace() || ('\u{2500}'..='\u{259f}').contains(c);
    text.chars()
        .filter(|c| !is_drawn(c))
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUDGE: &str =
        "From the supervisor: you have been silent for a while. Go on with your task, or say so.";

    fn stands(before: &str, now: &str) -> Option<bool> {
        let left = Unsubmitted::new(NUDGE, &ScreenView::of_text(before));
        left.stands(&ScreenView::of_text(now))
    }

    #[test]
    fn text_stands_there_when_the_screen_has_it_once_more_than_before() {
        let (wrapped, rest) = NUDGE.split_at(40);
        let input = format!("│ > {wrapped}\n│   {rest}");
        assert_eq!(stands("> ", &input), Some(true));
        assert_eq!(stands("> ", "> "), Some(false), "it was dropped");
        // An earlier text of the same words was submitted and stands in the transcript.
        let earlier = format!("> {NUDGE}\nI am at it.\n> ");
        assert_eq!(stands(&earlier, &earlier), Some(false));
        let both = format!("{earlier}{NUDGE}");
        assert_eq!(stands(&earlier, &both), Some(true));
        assert_eq!(stands("> ", "> [Pasted text #1 +3 lines]"), Some(true));
    }

    #[test]
    fn cursor_tells_where_the_input_ends() {
        let view = |text: &str, row: u16| {
            let mut view = ScreenView::of_text(text);
            let columns = view.rows[usize::from(row)].chars().count();
            view.cursor = Some((row, u16::try_from(columns).unwrap()));
            view
        };
        let left = Unsubmitted::new("ok", &view("> ", 0));
        assert_eq!(left.stands(&view("> ok\n~/project", 0)), Some(true));
        assert_eq!(left.stands(&view("all is ok\n> ", 1)), Some(false));
        assert_eq!(left.stands(&ScreenView::of_text("ok")), None, "by chance");
    }

    #[test]
    fn another_text_is_typed_behind_one_that_stands_there() {
        let empty = ScreenView::of_text("> ");
        let left = Unsubmitted::new(NUDGE, &empty);
        let shown = ScreenView::of_text(&format!("> {NUDGE}"));
        let (paste, whole) = rest(Some(left.clone()), "And this.", &shown).unwrap();
        assert_eq!(paste.as_deref(), Some("\n\nAnd this."));
        assert_eq!(whole.text, format!("{NUDGE}\n\nAnd this."));
        let (paste, again) = rest(Some(left.clone()), NUDGE, &shown).unwrap();
        assert_eq!((paste, again), (None, left.clone()));
        let (paste, _) = rest(Some(left), NUDGE, &empty).unwrap();
        assert_eq!(paste.as_deref(), Some(NUDGE), "it was dropped");
    }
}
