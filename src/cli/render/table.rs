//! Plain aligned tables.

use crate::cli::output::{Style, Tone};

use super::words::{clean, cut};

/// A cell: its text, and how it is painted. Alignment counts the text alone.
pub(super) struct Cell(pub String, pub Tone);

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self(text, Tone::Plain)
    }
}

/// Rows under headings.
pub(super) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub fn new(headings: &[&'static str]) -> Self {
        Self {
            headings: headings.to_vec(),
            rows: Vec::new(),
        }
    }

    pub fn row(&mut self, cells: Vec<Cell>) {
        let safe = |Cell(text, tone): Cell| Cell(clean(&text), tone);
        self.rows.push(cells.into_iter().map(safe).collect());
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn text(&self, style: Style) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            let widest = cells.map(|cell| cell.0.chars().count()).max();
            let heading = self.headings[column].chars().count();
            widest.unwrap_or(0).max(heading)
        };
        let mut widths: Vec<_> = (0..self.headings.len()).map(width).collect();
        if let Some(columns) = style.width {
            fit(&mut widths, columns);
        }
        let headings = self.headings.iter();
        let headings = headings.map(|text| Cell((*text).to_owned(), Tone::Faint));
        let headings: Vec<_> = headings.collect();
        let mut text = line(&headings, &widths, style);
        for row in &self.rows {
            text.push('\n');
            text.push_str(&line(row, &widths, style));
        }
        text
    }
}

/// Takes width from the widest column until the line fits; every column keeps some.
fn fit(widths: &mut [usize], columns: usize) {
    const LEAST: usize = 8;
    let gaps = 2 * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > columns {
        match widths.iter_mut().max() {
            Some(widest) if *widest > LEAST => *widest -= 1,
            _ => break,
        }
    }
}

fn line(cells: &[Cell], widths: &[usize], style: Style) -> String {
    let mut line = String::new();
    let last = cells.iter().rposition(|cell| !cell.0.is_empty());
    for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let text = cut(&cell.0, *width);
        line.push_str(&style.paint(cell.1, &text));
        if Some(column) == last {
            break;
        }
        let gap = width + 2 - text.chars().count();
        line.extend(std::iter::repeat_n(' ', gap));
    }
    line
}
