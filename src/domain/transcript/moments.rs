//! Where output comes to rest: just before a program goes back to draw over what it has written.
//!
//! Output has no times. But a program that draws a screen anew first moves the cursor up, or clears, or
//! says that a frame is complete (synchronised output, mode 2026): what stands there then is what a person
//! has seen.

use super::terminal_log;

const ESCAPE: u8 = 0x1b;

/// Why output is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// What stands there may be drawn over now.
    Rest,
    /// The lines that scrolled off are erased: the program writes all of it again.
    Forgotten,
    /// The terminal has another size from here on: rows, columns.
    Resized((u16, u16)),
}

/// The pieces of an output.
pub struct Moments<'a> {
    rest: &'a [u8],
    /// Whether a text was written since the last moment.
    has_written: bool,
    /// Whether a frame is being drawn that the program says the end of.
    is_framed: bool,
}

/// What a sequence does to the text that stands there.
enum Effect {
    /// Nothing that concerns us.
    None,
    /// It goes back, or takes something away.
    Back,
    /// It goes to this row, counted from 0.
    ToRow(u16),
    /// It begins a frame.
    Begin,
    /// It ends a frame.
    End,
    /// It goes back, and erases what scrolled off.
    Forget,
    /// It tells the terminal's size.
    Resize((u16, u16)),
}

impl<'a> Moments<'a> {
    /// The moments of this output.
    pub fn of(output: &'a [u8]) -> Self {
        Self {
            rest: output,
            has_written: false,
            is_framed: false,
        }
    }

    /// Returns the next piece, and why it ends there; none when what is left has been returned with
    /// [`Moment::Rest`]. `row` is asked for the row of the cursor, before the piece.
    pub fn next(&mut self, row: impl Fn() -> u16) -> Option<(&'a [u8], Moment)> {
        if self.rest.is_empty() {
            return None;
        }
        let mut row = Some(row());
        let mut at = 0;
        while at < self.rest.len() {
            if self.rest[at] != ESCAPE {
                self.has_written |= self.rest[at] > b' ' && self.rest[at] != 0x7f;
                // The row after a text is for the terminal to say.
                row = None;
                at += 1;
                continue;
            }
            let length = length(&self.rest[at..]);
            let effect = effect(&self.rest[at..at + length]);
            let moment = match effect {
                Effect::None => None,
                Effect::Begin => {
                    self.is_framed = true;
                    None
                }
                Effect::End => {
                    self.is_framed = false;
                    let written = std::mem::take(&mut self.has_written);
                    if written {
                        return Some((self.take(at + length), Moment::Rest));
                    }
                    None
                }
                Effect::Forget => {
                    self.has_written = false;
                    return Some((self.take(at + length), Moment::Forgotten));
                }
                Effect::Resize(size) => {
                    return Some((self.take(at + length), Moment::Resized(size)));
                }
                Effect::Back => Some(Moment::Rest),
                Effect::ToRow(to) if at == 0 && row.is_some_and(|row| to >= row) => None,
                Effect::ToRow(_) if at == 0 => Some(Moment::Rest),
                // Where the cursor is must be asked first.
                Effect::ToRow(_) if self.has_written && !self.is_framed => {
                    return Some((self.take(at), Moment::Rest));
                }
                Effect::ToRow(_) => None,
            };
            at += length;
            let _ = moment;
        }
        let all = self.rest.len();
        Some((self.take(all), Moment::Rest))
    }

    fn take(&mut self, length: usize) -> &'a [u8] {
        let (piece, rest) = self.rest.split_at(length);
        self.rest = rest;
        piece
    }
}
