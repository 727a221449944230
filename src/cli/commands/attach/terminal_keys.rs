//! Keyboard input, and the only key that is not passed on: Ctrl-\.

/// The encodings of Ctrl-\: a byte, and the extended forms that terminals send once a program has asked for them.
const DETACH: &[&[u8]] = &[b"\x1c", b"\x1b[92;5u", b"\x1b[27;5;92~"];

/// The action for bytes from the keyboard.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// Pass them on.
    Keys(Vec<u8>),
    /// Pass these on, then detach.
    Detach(Vec<u8>),
}

/// Recognises the key, also when its bytes come in two reads.
#[derive(Default)]
pub(super) struct Keys {
    /// The end of the passed bytes, in case the key begins there.
    tail: Vec<u8>,
}

impl Keys {
    pub fn take(&mut self, bytes: &[u8]) -> Typed {
        let passed = self.tail.len();
        let mut all = std::mem::take(&mut self.tail);
        all.extend_from_slice(bytes);
        let found = DETACH.iter().filter_map(|key| {
            let at = all.windows(key.len()).position(|window| window == *key)?;
            Some(at)
        });
        if let Some(at) = found.min() {
            return Typed::Detach(all.get(passed..at).unwrap_or_default().to_vec());
        }
        let longest = DETACH.iter().map(|key| key.len()).max().unwrap_or(1);
        let keep = all.len().min(longest - 1);
        self.tail = all[all.len() - keep..].to_vec();
        Typed::Keys(bytes.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Typed {
        Typed::Keys(bytes.to_vec())
    }

    #[test]
    fn everything_but_the_key_is_passed_on() {
        let mut typed = Keys::default();
        assert_eq!(typed.take(b"ls\r\x03\x1b[A"), keys(b"ls\r\x03\x1b[A"));
        assert_eq!(typed.take(b"\\"), keys(b"\\"));
        assert_eq!(typed.take(b"ab\x1ccd"), Typed::Detach(b"ab".to_vec()));
    }

    #[test]
    fn the_key_is_known_in_its_other_encodings_and_in_pieces() {
        let detach = Typed::Detach(Vec::new());
        assert_eq!(Keys::default().take(b"\x1b[92;5u"), detach);
        assert_eq!(Keys::default().take(b"\x1b[27;5;92~"), detach);
        let mut typed = Keys::default();
        assert_eq!(typed.take(b"\x1b[92"), keys(b"\x1b[92"));
        assert_eq!(typed.take(b";5u"), detach);
    }
}
