//! Follows the bracketed paste mode of a terminal through its output. tmux does not report it for a pane before
//! version 3.5.

/// The mode's number in `CSI ? n h` and `CSI ? n l`.
const NUMBER: &[u8] = b"2004";
/// The longest sequence that sets modes.
const LONGEST: usize = 64;

/// The mode, and the beginning of an incomplete sequence.
#[derive(Debug, Default)]
pub struct PasteMode {
    on: bool,
    open: Vec<u8>,
}

impl PasteMode {
    /// Returns true if the mode is set.
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Follows output.
    pub fn follow(&mut self, output: &[u8]) {
        for byte in output {
            match (self.open.as_slice(), byte) {
                (_, 0x1b) => self.open = vec![0x1b],
                ([], _) => {}
                ([0x1b], b'[') | ([0x1b, b'['], b'?') => self.open.push(*byte),
                ([0x1b, b'[', b'?', numbers @ ..], b'h' | b'l') => {
                    if numbers.split(|byte| *byte == b';').any(|one| one == NUMBER) {
                        self.on = *byte == b'h';
                    }
                    self.open.clear();
                }
                ([0x1b, b'[', b'?', ..], b'0'..=b'9' | b';') if self.open.len() < LONGEST => {
                    self.open.push(*byte);
                }
                _ => self.open.clear(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mode_is_followed_through_sequences_that_come_in_pieces() {
        let mut mode = PasteMode::default();
        for (output, on) in [
            (&b"text"[..], false),
            (b"\x1b[?2004h", true),
            (b"\x1b[?25", true),
            (b";2004l more", false),
            (b"\x1b[?1000;2004", false),
            (b"h", true),
            (b"\x1b[2004l", true),
            (b"\x1b\x1b[?2004l", false),
        ] {
            mode.follow(output);
            assert_eq!(mode.is_on(), on, "{output:?}");
        }
        mode.follow(&[b"\x1b[?".as_slice(), &[b'1'; 1000], b"h"].concat());
        assert!(!mode.is_on() && mode.open.is_empty());
    }
}
