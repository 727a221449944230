//! Draws what a terminal shows after the bytes of the standard input, as an SVG: `docs/picture/record` makes the picture of
//! the README with it.
//!
//! `cargo run --example terminal_svg -- COLUMNS < BYTES > picture.svg`

use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::num::NonZero;

use vt100::{Cell, Color, Parser, Screen};

/// The size of a cell and the margin, in units of the picture.
const WIDTH: f32 = 8.4;
const HEIGHT: f32 = 18.0;
const MARGIN: f32 = 14.0;

const BACKGROUND: &str = "#16181d";
const TEXT: &str = "#d7dae0";
const FAINT: &str = "#8a909c";
/// The eight colours of a terminal, as they are readable on the background.
const COLORS: [&str; 8] = [
    "#5c6370", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", TEXT,
];

/// The most rows of a picture.
const ROWS: NonZero<u16> = NonZero::new(200).unwrap();

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let columns = std::env::args().nth(1);
    let columns = columns.ok_or("the number of columns is missing")?;
    let columns: NonZero<u16> = columns.parse()?;
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes)?;
    let mut terminal = Parser::new(ROWS, columns, 0);
    terminal.process(&bytes);
    print!("{}", svg(terminal.screen(), columns.get()));
    Ok(())
}

/// Draws the rows down to the last one with text.
fn svg(screen: &Screen, columns: u16) -> String {
    let rows: Vec<_> = screen.rows(0, columns).collect();
    let used = rows.iter().rposition(|row| !row.trim().is_empty());
    let used = used.map_or(0, |last| last + 1);
    let width = f32::from(columns) * WIDTH + 2.0 * MARGIN;
    let height = used as f32 * HEIGHT + 2.0 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace\" font-size=\"14\" \
         fill=\"{TEXT}\">\n<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n"
    );
    for (row, number) in (0..).zip(0..used) {
        for (column, text, fill) in runs(screen, row, columns) {
            let x = MARGIN + f32::from(column) * WIDTH;
            let y = MARGIN + (number as f32 + 0.75) * HEIGHT;
            // Its length is given, because fonts differ in width.
            let length = text.chars().count() as f32 * WIDTH;
            let _infallible = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{length:.1}\" xml:space=\"preserve\"{fill}>{}</text>",
                escaped(&text)
            );
        }
    }
    svg + "</svg>\n"
}

/// Returns the parts of a row with one colour each: first column, text, attribute of the colour.
fn runs(screen: &Screen, row: u16, columns: u16) -> Vec<(u16, String, String)> {
    let mut runs: Vec<(u16, String, String)> = Vec::new();
    for column in 0..columns {
        let Some(cell) = screen.cell(row, column) else {
            continue;
        };
        let text = if cell.has_contents() {
            cell.contents()
        } else {
            " "
        };
        let fill = fill(cell);
        match runs.last_mut() {
            Some((_, run, before)) if *before == fill => run.push_str(text),
            _ => runs.push((column, text.to_owned(), fill)),
        }
    }
    for (_, text, _) in &mut runs {
        text.truncate(text.trim_end().len());
    }
    runs.retain(|(_, text, _)| !text.trim().is_empty());
    runs
}

fn fill(cell: &Cell) -> String {
    let color = match cell.fgcolor() {
        Color::Idx(index) => COLORS.get(usize::from(index) % 8).copied(),
        Color::Default if cell.dim() => Some(FAINT),
        Color::Default | Color::Rgb(..) => None,
    };
    let weight = if cell.bold() {
        " font-weight=\"bold\""
    } else {
        ""
    };
    match color {
        Some(color) => format!(" fill=\"{color}\"{weight}"),
        None => weight.to_owned(),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
