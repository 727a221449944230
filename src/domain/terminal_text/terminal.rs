//! A terminal that processes output: the rows on its screen, and those that scroll off.

use std::num::NonZeroU16;
use std::panic::{AssertUnwindSafe, catch_unwind};

use vt100::capture::{BasicFormattedCaptureState, RowContents, basic_formatted_to_plain};

/// Bounds of a size.
const LEAST: u16 = 2;
const MOST: u16 = 1000;
/// Fills a screen of unknown content. No program writes this character: it is for private use.
const UNKNOWN: char = '\u{e000}';

/// A row of text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Row {
    /// The text, without trailing blanks unless it continues in the next row.
    pub text: String,
    /// Set when it continues in the next row.
    pub wraps: bool,
}

impl Row {
    fn of(text: &str, wraps: bool) -> Self {
        // A row that a program has filled up with blanks is a line of its own.
        let wraps = wraps && !text.ends_with("  ");
        // A row that is known only in part is not what a person saw.
        if text.contains(UNKNOWN) {
            return Self::default();
        }
        let text = if wraps { text } else { text.trim_end() };
        Self {
            text: text.to_owned(),
            wraps,
        }
    }
}

/// The change of the screen since the last frame.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frame {
    /// The rows that scrolled off, the oldest first.
    pub scrolled: Vec<Row>,
    /// The rows on the screen.
    pub rows: Vec<Row>,
}

/// A terminal.
pub struct Terminal {
    parser: vt100::Parser<Scrolled>,
}

/// Rows that scrolled off since the last frame.
#[derive(Default)]
struct Scrolled(Vec<Row>);

impl vt100::Callbacks for Scrolled {
    fn on_scroll(&mut self, contents: RowContents<'_>, _alternate: bool) {
        let (mut text, mut after) = (String::new(), String::new());
        let mut state = BasicFormattedCaptureState::new();
        let written = contents.write_formatted_basic(&mut text, &mut state);
        // A second row is on a line of its own unless the first one continues in it.
        let again = contents.write_formatted_basic(&mut after, &mut state);
        if written.is_ok() && again.is_ok() {
            let text: String = basic_formatted_to_plain(&text).collect();
            self.0.push(Row::of(&text, !after.starts_with('\n')));
        }
    }
}

fn nonzero((rows, cols): (u16, u16)) -> (NonZeroU16, NonZeroU16) {
    let bounded = |n: u16| NonZeroU16::new(n.clamp(LEAST, MOST)).unwrap_or(NonZeroU16::MIN);
    (bounded(rows), bounded(cols))
}

impl Terminal {
    /// Makes a terminal with a blank screen.
    pub fn blank(size: (u16, u16)) -> Self {
        let (rows, cols) = nonzero(size);
        let parser = vt100::Parser::new_with_callbacks(rows, cols, 0, Scrolled::default());
        Self { parser }
    }

    /// Makes a terminal with unknown content from before the output.
    pub fn unknown(size: (u16, u16)) -> Self {
        let mut terminal = Self::blank(size);
        let (rows, _) = nonzero(size);
        let fill = UNKNOWN.to_string().repeat(terminal.cells());
        terminal.show(fill.as_bytes());
        terminal.show(format!("\x1b[{rows};1H").as_bytes());
        terminal
    }

    /// Shows output. A terminal model that panics is replaced by a blank one: no output may end the reader.
    pub fn show(&mut self, bytes: &[u8]) {
        self.guarded(|parser| parser.process(bytes));
    }

    /// Changes the size: rows, columns.
    pub fn resize(&mut self, size: (u16, u16)) {
        let (rows, cols) = nonzero(size);
        self.guarded(|parser| parser.set_size(rows, cols));
    }

    fn guarded(&mut self, work: impl FnOnce(&mut vt100::Parser<Scrolled>)) {
        let (rows, cols) = self.parser.screen().size();
        if catch_unwind(AssertUnwindSafe(|| work(&mut self.parser))).is_err() {
            *self = Self::blank((rows.get(), cols.get()));
        }
    }

    /// Returns the number of cells of the screen.
    pub fn cells(&self) -> usize {
        let (rows, cols) = self.parser.screen().size();
        usize::from(rows.get()) * usize::from(cols.get())
    }

    /// Returns the row and column of the cursor, counted from 0.
    pub fn cursor(&self) -> (u16, u16) {
        self.parser.screen().cursor_position()
    }

    /// Returns the present screen, and the rows that have scrolled off it since the last call.
    pub fn frame(&mut self) -> Frame {
        let scrolled = std::mem::take(&mut self.parser.callbacks_mut().0);
        let screen = self.parser.screen();
        let (_, cols) = screen.size();
        let rows = screen.rows(0, cols.get()).enumerate();
        let wraps = |row: usize| u16::try_from(row).is_ok_and(|row| screen.row_wrapped(row));
        let rows = rows.map(|(row, text)| Row::of(&text, wraps(row))).collect();
        Frame { scrolled, rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(rows: &[Row]) -> Vec<&str> {
        rows.iter().map(|row| row.text.as_str()).collect()
    }

    #[test]
    fn rows_that_scroll_off_are_kept_in_order_with_how_they_wrap() {
        let mut terminal = Terminal::blank((2, 4));
        terminal.show(b"one\r\ntwo three\r\na   b\r\nx");
        let frame = terminal.frame();
        assert_eq!(texts(&frame.scrolled), ["one", "two ", "thre", "e", "a"]);
        let wraps: Vec<_> = frame.scrolled.iter().map(|row| row.wraps).collect();
        assert_eq!(wraps, [false, true, true, false, false]);
        assert_eq!(texts(&frame.rows), ["b", "x"]);
        assert_eq!(terminal.frame().scrolled, []);
    }

    #[test]
    fn rows_that_are_known_in_part_are_left_out() {
        let mut terminal = Terminal::unknown((3, 5));
        assert_eq!(texts(&terminal.frame().rows), ["", "", ""]);
        terminal.show(b"\x1b[2;2Hxy\x1b[1;1Hab\x1b[K\x1b[3;1Hdone\r\n");
        let frame = terminal.frame();
        assert_eq!(texts(&frame.scrolled), ["ab"]);
        // The fifth cell of that row is unknown.
        assert_eq!(texts(&frame.rows), ["", "", ""]);
        terminal.show(b"new\r\n");
        assert_eq!(texts(&terminal.frame().rows), ["", "new", ""]);
    }
}
