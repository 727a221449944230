//! Encodes paths as text: one word of printable ASCII, for any bytes.

use super::super::bytes::RelPath;

/// Encodes bytes as one word: unprintable bytes, spaces and `%` become `%` and two digits.
pub(in super::super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'%' | 0..=b' ' | 0x7f.. => text.push_str(&format!("%{byte:02x}")),
            plain => text.push(char::from(*plain)),
        }
    }
    text
}

/// Decodes a word; none if it is invalid.
pub(in super::super) fn decode(text: &str) -> Option<RelPath> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first != b'%' {
            bytes.push(first);
            rest = after;
            continue;
        }
        let digits = std::str::from_utf8(after.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &after[2..];
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_one_word_and_comes_back() {
        let all: Vec<u8> = (0..=255).collect();
        for path in [&all[..], b"", b"src/a b", b"100%", b"\xff\xfe"] {
            let text = encode(path);
            assert!(!text.contains([' ', '\n']) && text.is_ascii(), "{text}");
            assert_eq!(decode(&text).as_deref(), Some(path));
        }
        assert_eq!(decode("%zz"), None);
        assert_eq!(decode("%4"), None);
    }
}
