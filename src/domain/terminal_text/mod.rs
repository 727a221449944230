//! Reconstructs what a person saw of a session from the output of its program.
//!
//! ```text
//!   bytes ─► tokens ─► terminal ─► a frame at each moment of rest ─► lines
//! ```
//!
//! A program that prints line by line has scrolled its lines off the screen: they come first, the screen last. A
//! program that redraws its screen replaces lines in place: each replaced line appears once, before the final screen.
//! Frames that differ only in a spinner or a counter are one (`fold`).
//!
//! Output has no times. But before a program redraws, it goes back: it moves the cursor up, or clears, or marks a frame
//! as complete. A person has seen the screen at that moment.

mod fold;
mod follow;
mod lines;
mod terminal;
mod tokens;

pub use self::fold::at_rest;
pub use self::follow::Following;
use self::lines::Lines;
use self::terminal::Terminal;
use self::tokens::{Effect, tokens};
use crate::domain::terminal_log::{self, SIZE};

/// The limit of cells that are processed for one text, so that no output makes it slow.
const MOST_CELLS: usize = 50_000_000;

/// Returns the text of a terminal log, at most `most` bytes of its end. `is_cut` says that the log begins in the
/// middle: content that is unknown then is left out.
#[must_use]
pub fn text(log: &[u8], is_cut: bool, most: usize) -> String {
    let mut lines = Lines::default();
    for (index, session) in terminal_log::sessions(log).into_iter().enumerate() {
        if let Some(title) = session.title {
            lines.title(title);
        }
        follow(session.output, is_cut && index == 0, &mut lines);
    }
    end_of(&lines.into_text(), most).to_owned()
}

/// Processes the output of one session on a terminal of its own.
fn follow(output: &[u8], is_cut: bool, lines: &mut Lines) {
    let painted = terminal_log::from_painted(output).filter(|_| is_cut);
    let (output, mut terminal) = match painted {
        Some(painted) => (painted, Terminal::blank(SIZE)),
        None if is_cut => (placed(output), Terminal::unknown(SIZE)),
        None => (output, Terminal::blank(SIZE)),
    };
    let step = output.len().saturating_mul(terminal.cells()) / MOST_CELLS;
    let (mut unseen, mut has_written, mut is_framed) = (0, false, false);
    for token in tokens(output) {
        let goes_back = match token.effect {
            Effect::Up | Effect::Back => !is_framed,
            Effect::To(row, col) => !is_framed && has_written && (row, col) < terminal.cursor(),
            Effect::ToRow(row) => !is_framed && has_written && row < terminal.cursor().0,
            Effect::Forget | Effect::Resize(_) => true,
            Effect::Write | Effect::None | Effect::Begin | Effect::End => false,
        };
        if goes_back && has_written && unseen >= step {
            lines.frame(terminal.frame());
            (unseen, has_written) = (0, false);
        }
        unseen += token.bytes.len();
        terminal.show(token.bytes);
        match token.effect {
            Effect::Write => has_written = true,
            Effect::Begin => is_framed = true,
            Effect::End => {
                is_framed = false;
                if has_written && unseen >= step {
                    lines.frame(terminal.frame());
                    (unseen, has_written) = (0, false);
                }
            }
            Effect::Forget => lines.forget_scrolled(),
            Effect::Resize(size) => terminal.resize(size),
            Effect::None | Effect::Up | Effect::Back | Effect::To(..) | Effect::ToRow(_) => {}
        }
    }
    lines.frame(terminal.frame());
    lines.end();
}

/// Returns the output from the point where the cursor position is known. A program that draws sets the position soon,
/// or goes up from the beginning of its last line; for a program that prints, any beginning of a line will do.
fn placed(output: &[u8]) -> &[u8] {
    /// A program that does neither within this many bytes does not draw.
    const SOON: usize = 8 * 1024;
    let (mut at, mut line, mut up) = (0, None, None);
    for token in tokens(output) {
        let end = at + token.bytes.len();
        match token.effect {
            Effect::To(..) => return &output[at..],
            Effect::Up => up = up.or(line),
            _ if token.bytes.ends_with(b"\r") || token.bytes.ends_with(b"\r\n") => line = Some(end),
            Effect::Write => line = None,
            _ => {}
        }
        at = end;
        if at > SOON {
            break;
        }
    }
    let first = || {
        output
            .iter()
            .position(|byte| *byte == b'\n')
            .map(|end| end + 1)
    };
    up.or_else(first).map_or(&[], |start| &output[start..])
}

/// Returns the last lines of a text within `most` bytes; of a longer single line, its end.
fn end_of(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let mut start = text.len() - most;
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let end = &text[start..];
    match end.find('\n') {
        Some(at) if !text[..start].ends_with('\n') && at + 1 < end.len() => &end[at + 1..],
        _ => end,
    }
}

#[cfg(test)]
mod tests;
