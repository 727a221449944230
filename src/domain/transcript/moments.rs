//! Finds where output comes to rest: just before a program goes back to draw over its earlier output.
//!
//! Output has no times. But before a program redraws a screen, it moves the cursor up, or clears, or marks a frame as
//! complete (synchronised output, mode 2026): a person has seen the screen at that point.

use super::terminal_log;

const ESCAPE: u8 = 0x1b;

/// The reason why a piece of output ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The present screen may be drawn over now.
    Rest,
    /// The lines that scrolled off are erased: the program writes all of it again.
    Forgotten,
    /// The terminal has another size from here on: rows, columns.
    Resized((u16, u16)),
}

/// The pieces of an output.
pub struct Moments<'a> {
    rest: &'a [u8],
    /// Set when a text was written since the last moment.
    has_written: bool,
    /// Set within a frame whose end the program marks.
    is_framed: bool,
}

/// The effect of a sequence on the present text.
enum Effect {
    /// None that matters here.
    None,
    /// Goes back, or removes text.
    Back,
    /// Goes to this row, counted from 0.
    ToRow(u16),
    /// Begins a frame.
    Begin,
    /// Ends a frame.
    End,
    /// Goes back, and erases the lines that scrolled off.
    Forget,
    /// Tells the terminal's size.
    Resize((u16, u16)),
}

impl<'a> Moments<'a> {
    /// Splits this output.
    pub fn of(output: &'a [u8]) -> Self {
        Self {
            rest: output,
            has_written: false,
            is_framed: false,
        }
    }

    /// Returns the next piece, and the reason why it ends there; none when the rest was returned with [`Moment::Rest`].
    /// `row` returns the row of the cursor before the piece.
    pub fn next(&mut self, row: impl Fn() -> u16) -> Option<(&'a [u8], Moment)> {
        if self.rest.is_empty() {
            return None;
        }
        let mut row = Some(row());
        let mut at = 0;
        while at < self.rest.len() {
            if self.rest[at] != ESCAPE {
                self.has_written |= self.rest[at] > b' ' && self.rest[at] != 0x7f;
                // Only the terminal knows the row after a text.
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
                // The row of the cursor must be asked first.
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
