//! The screen of a session: a terminal model that gets all output of the program. It has no scrollback; the log takes
//! that role.

use std::num::NonZeroU16;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::domain::screen::{ScreenView, Span};

/// Bounds of a terminal's size, which limit the memory of the model.
const LEAST: u16 = 2;
const MOST: u16 = 1000;
/// The limit of replies that wait to be typed: a program that asks and never reads gets no more.
const MOST_REPLIES: usize = 4096;
/// The limit of marked runs in one view: a screen full of colours is no menu.
const MOST_SPANS: usize = 512;
/// The limit of backgrounds that are told apart.
const MOST_COLORS: usize = 64;

/// The terminal model of a session.
pub struct Screen {
    parser: vt100::Parser<Replies>,
}

/// Answers to a program's queries of its terminal.
#[derive(Default)]
struct Replies(Vec<u8>);

impl Replies {
    fn push(&mut self, reply: &str) {
        if self.0.len() + reply.len() <= MOST_REPLIES {
            self.0.extend_from_slice(reply.as_bytes());
        }
    }
}

impl vt100::Callbacks for Replies {
    fn unhandled_csi(
        &mut self,
        screen: &mut vt100::Screen,
        first: Option<u8>,
        _second: Option<u8>,
        params: &[&[u16]],
        kind: char,
    ) {
        let number = params.first().and_then(|list| list.first()).copied();
        match (first, kind, number.unwrap_or(0)) {
            (None, 'n', 5) => self.push("\x1b[0n"),
            (None, 'n', 6) => {
                let (row, col) = screen.cursor_position();
                self.push(&format!("\x1b[{};{}R", row + 1, col + 1));
            }
            (None, 'c', 0) => self.push("\x1b[?1;2c"),
            (Some(b'>'), 'c', 0) => self.push("\x1b[>0;0;0c"),
            (None, 't', 18) => {
                let (rows, cols) = screen.size();
                self.push(&format!("\x1b[8;{rows};{cols}t"));
            }
            _ => {}
        }
    }
}

/// Returns a size within bounds.
pub fn bounded(rows: u16, cols: u16) -> (u16, u16) {
    (rows.clamp(LEAST, MOST), cols.clamp(LEAST, MOST))
}

fn nonzero(rows: u16, cols: u16) -> (NonZeroU16, NonZeroU16) {
    let (rows, cols) = bounded(rows, cols);
    let nonzero = |n| NonZeroU16::new(n).unwrap_or(NonZeroU16::MIN);
    (nonzero(rows), nonzero(cols))
}

impl Screen {
    /// Makes a blank screen.
    pub fn new(rows: u16, cols: u16) -> Self {
        let (rows, cols) = nonzero(rows, cols);
        Self {
            parser: vt100::Parser::new_with_callbacks(rows, cols, 0, Replies::default()),
        }
    }

    /// Updates the screen. Returns the answers to the program's queries.
    pub fn show(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.guarded(|parser| parser.process(bytes));
        std::mem::take(&mut self.parser.callbacks_mut().0)
    }

    /// Changes its size.
    pub fn resize(&mut self, rows: u16, cols: u16) {
        let (rows, cols) = nonzero(rows, cols);
        self.guarded(|parser| parser.set_size(rows, cols));
    }

    /// Runs the model. A program's output must never end its holder, so a model that panics is replaced by a blank
    /// one.
    fn guarded(&mut self, work: impl FnOnce(&mut vt100::Parser<Replies>)) {
        let (rows, cols) = self.size();
        if catch_unwind(AssertUnwindSafe(|| work(&mut self.parser))).is_err() {
            *self = Self::new(rows, cols);
        }
    }

    /// Returns the number of rows and columns.
    pub fn size(&self) -> (u16, u16) {
        let (rows, cols) = self.parser.screen().size();
        (rows.get(), cols.get())
    }

    /// Returns true if the program asked for bracketed pastes.
    pub fn wants_brackets(&self) -> bool {
        self.parser.screen().bracketed_paste()
    }

    /// Returns the text, one line per row, blank ends cut.
    pub fn text(&self) -> String {
        let (_, cols) = self.size();
        let rows = self.parser.screen().rows(0, cols);
        let rows: Vec<String> = rows.map(|row| row.trim_end().to_owned()).collect();
        let used = rows.iter().rposition(|row| !row.is_empty());
        rows[..used.map_or(0, |last| last + 1)].join("\n")
    }

    /// Returns the text with its marked cells, the cursor and the paste mode. The terminal adds the reading mode of
    /// the program.
    pub fn view(&self) -> ScreenView {
        let screen = self.parser.screen();
        // Programs use blanks other than spaces to tell lines apart.
        let (_, cols) = self.size();
        let rows = screen.rows(0, cols);
        let mut rows: Vec<String> = rows
            .map(|row| row.trim_end_matches(' ').to_owned())
            .collect();
        while rows.last().is_some_and(|row| row.trim().is_empty()) {
            rows.pop();
        }
        let marked = (0..rows.len()).filter_map(|row| u16::try_from(row).ok());
        let rare = self.rare_backgrounds();
        let marked = marked.flat_map(|row| self.marked(row, &rare));
        let marked = marked.take(MOST_SPANS);
        ScreenView {
            marked: marked.collect(),
            rows,
            cursor: (!screen.hide_cursor()).then(|| screen.cursor_position()),
            bracketed_paste: Some(screen.bracketed_paste()),
            reads_lines: None,
            hides_input: None,
            begun: None,
            touched: None,
            queued: None,
            inputs: None,
        }
    }

    /// Returns backgrounds of few cells: those of a selected row or button, not of a panel.
    fn rare_backgrounds(&self) -> Vec<vt100::Color> {
        let (rows, cols) = self.size();
        let screen = self.parser.screen();
        let mut counts: Vec<(vt100::Color, usize)> = Vec::new();
        for row in 0..rows {
            for col in 0..cols {
                let color = screen.cell(row, col).map(vt100::Cell::bgcolor);
                let Some(color) = color.filter(|color| *color != vt100::Color::Default) else {
                    continue;
                };
                if let Some((_, count)) = counts.iter_mut().find(|(known, _)| *known == color) {
                    *count += 1;
                } else if counts.len() < MOST_COLORS {
                    counts.push((color, 1));
                }
            }
        }
        let few = usize::from(cols) * 3 / 2;
        let rare = counts.into_iter().filter(|(_, count)| *count <= few);
        rare.map(|(color, _)| color).collect()
    }

    /// Returns runs of cells of a row that are inverse or have a rare background, and contain text.
    fn marked(&self, row: u16, rare: &[vt100::Color]) -> Vec<Span> {
        let (_, cols) = self.size();
        let screen = self.parser.screen();
        let stands_out = |col: u16| {
            let cell = screen.cell(row, col);
            cell.is_some_and(|cell| cell.inverse() || rare.contains(&cell.bgcolor()))
        };
        let mut spans: Vec<Span> = Vec::new();
        for col in (0..cols).filter(|col| stands_out(*col)) {
            match spans.last_mut().filter(|span| span.to == col) {
                Some(span) => span.to = col + 1,
                None => spans.push(Span {
                    row,
                    from: col,
                    to: col + 1,
                }),
            }
        }
        let has_text = |span: &Span| {
            let mut cells = (span.from..span.to).filter_map(|col| screen.cell(row, col));
            cells.any(|cell| !cell.contents().trim().is_empty())
        };
        spans.retain(has_text);
        spans
    }

    /// Returns bytes that paint this screen on a terminal.
    pub fn paint(&self) -> Vec<u8> {
        let screen = self.parser.screen();
        let mut bytes = Vec::new();
        if screen.alternate_screen() {
            bytes.extend_from_slice(b"\x1b[?1049h");
        }
        bytes.extend_from_slice(screen.state_formatted().as_bytes());
        bytes
    }
}

/// Returns the view of a screen after these bytes.
#[cfg(test)]
pub(crate) fn view_of(bytes: &[u8], rows: u16, cols: u16) -> ScreenView {
    let mut screen = Screen::new(rows, cols);
    screen.show(bytes);
    ScreenView {
        reads_lines: Some(false),
        ..screen.view()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_has_one_line_per_row_without_blank_ends() {
        let mut screen = Screen::new(5, 20);
        screen.show(b"one  \r\n\r\n  two\x1b[1m!\x1b[0m");
        assert_eq!(screen.text(), "one\n\n  two!");
    }

    #[test]
    fn a_program_that_asks_its_terminal_gets_answers() {
        let mut screen = Screen::new(5, 20);
        assert_eq!(screen.show(b"ab\x1b[6n"), b"\x1b[1;3R");
        assert_eq!(screen.show(b"\x1b[5n\x1b[c"), b"\x1b[0n\x1b[?1;2c");
        assert_eq!(screen.show(b"\x1b[18t"), b"\x1b[8;5;20t");
        let flood = b"\x1b[6n".repeat(10_000);
        assert!(screen.show(&flood).len() <= MOST_REPLIES);
    }

    #[test]
    fn view_tells_cursor_paste_mode_and_cells_that_stand_out() {
        let mut screen = Screen::new(5, 20);
        screen.show(b"\x1b[?2004hpick:\r\n \x1b[7mone\x1b[0m two\x1b[1;3H\x1b[44m \x1b[0m");
        let view = screen.view();
        assert_eq!(view.rows, ["pi k:", " one two"]);
        assert_eq!(
            view.marked,
            [Span {
                row: 1,
                from: 1,
                to: 4
            }]
        );
        assert_eq!(
            (view.cursor, view.bracketed_paste),
            (Some((0, 3)), Some(true))
        );
        screen.show(b"\x1b[?25l\x1b[?2004l");
        assert_eq!(
            (screen.view().cursor, screen.view().bracketed_paste),
            (None, Some(false))
        );
    }

    #[test]
    fn painting_gives_the_same_screen() {
        let mut screen = Screen::new(5, 20);
        screen.show(b"\x1b[?1049h\x1b[?2004hhello\x1b[3;4Hworld\x1b[31m");
        let mut other = Screen::new(5, 20);
        other.show(&screen.paint());
        assert_eq!(other.text(), screen.text());
        assert!(other.wants_brackets());
        let cursor = |screen: &Screen| screen.parser.screen().cursor_position();
        assert_eq!(cursor(&other), cursor(&screen));
    }

    proptest! {
        #[test]
        fn no_output_breaks_the_screen(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
            rows in 0_u16..9, cols in 0_u16..9,
        ) {
            let mut screen = Screen::new(4, 4);
            screen.show(&bytes);
            screen.resize(rows, cols);
            screen.show(&bytes);
            screen.paint();
            screen.text();
            screen.view();
        }
    }
}
