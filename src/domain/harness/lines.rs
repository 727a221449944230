//! Lines for programs that read whole lines from their terminal.

/// The kernel silently cuts longer lines (4096 bytes with the newline).
pub const LONGEST_LINE: usize = 4095;

/// Breaks lines that a terminal would cut, at spaces. A longer word stays, and typing it is refused.
#[must_use]
pub fn in_short_lines(text: &str) -> String {
    let mut short = String::with_capacity(text.len());
    for (at, mut line) in text.split('\n').enumerate() {
        if at > 0 {
            short.push('\n');
        }
        while line.len() > LONGEST_LINE {
            let space = line.as_bytes()[..=LONGEST_LINE]
                .iter()
                .rposition(|byte| *byte == b' ');
            let Some(space) = space.filter(|space| *space > 0) else {
                break;
            };
            short.push_str(&line[..space]);
            short.push('\n');
            line = &line[space + 1..];
        }
        short.push_str(line);
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_a_terminal_would_cut_are_broken_at_spaces() {
        let word = "wörd ".repeat(2000);
        let text = format!("short\n{word}end\n\nlast");
        let broken = in_short_lines(&text);
        assert!(broken.lines().all(|line| line.len() <= LONGEST_LINE));
        assert!(broken.lines().count() < 10, "{}", broken.lines().count());
        let words =
            |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        assert_eq!(words(&broken), words(&text));
        assert!(broken.ends_with("end\n\nlast"));
        let longest = "x".repeat(LONGEST_LINE);
        for same in ["", "a\nb\n", &longest, &format!("{longest}x")] {
            assert_eq!(in_short_lines(same), same);
        }
        let cut = format!("{longest} y");
        assert_eq!(in_short_lines(&cut), format!("{longest}\ny"));
    }
}
