//! Lines of the control socket: UTF-8, at most [`LINE_MAX`] bytes. A bad line is an item and no error of the stream, so
//! that good lines behind it are still read.

use std::io;

use tokio_util::bytes::BytesMut;
use tokio_util::codec::{Decoder, LinesCodec, LinesCodecError};

use super::protocol::LINE_MAX;

/// A line as it was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// Text, without its line end.
    Text(String),
    /// Bytes that are no UTF-8; the line was skipped.
    NotText,
    /// Longer than allowed; nothing behind it can be trusted to be a line.
    TooLong,
}

/// Cuts bytes into lines.
#[derive(Debug)]
pub struct LineCodec(LinesCodec);

impl Default for LineCodec {
    fn default() -> Self {
        Self(LinesCodec::new_with_max_length(LINE_MAX))
    }
}

fn as_item(line: Result<Option<String>, LinesCodecError>) -> io::Result<Option<Line>> {
    match line {
        Ok(line) => Ok(line.map(Line::Text)),
        Err(LinesCodecError::MaxLineLengthExceeded) => Ok(Some(Line::TooLong)),
        Err(LinesCodecError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
            Ok(Some(Line::NotText))
        }
        Err(LinesCodecError::Io(error)) => Err(error),
    }
}

impl Decoder for LineCodec {
    type Item = Line;
    type Error = io::Error;

    fn decode(&mut self, bytes: &mut BytesMut) -> io::Result<Option<Line>> {
        as_item(self.0.decode(bytes))
    }

    fn decode_eof(&mut self, bytes: &mut BytesMut) -> io::Result<Option<Line>> {
        as_item(self.0.decode_eof(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<Line> {
        let mut codec = LineCodec::default();
        let mut buffer = BytesMut::from(bytes);
        let mut lines = Vec::new();
        while let Some(line) = codec.decode_eof(&mut buffer).unwrap() {
            let last = line == Line::TooLong;
            lines.push(line);
            if last {
                break;
            }
        }
        lines
    }

    #[test]
    fn a_line_that_is_no_text_does_not_hide_the_next() {
        let text = |text: &str| Line::Text(text.into());
        assert_eq!(
            lines(b"a\n\xff\xfe\r\nb\r\nlast"),
            [text("a"), Line::NotText, text("b"), text("last")]
        );
    }

    #[test]
    fn the_limit_is_the_line_without_its_end() {
        let mut longest = vec![b'x'; LINE_MAX];
        longest.push(b'\n');
        assert!(matches!(&lines(&longest)[..], [Line::Text(text)] if text.len() == LINE_MAX));
        longest.insert(0, b'x');
        assert_eq!(lines(&longest), [Line::TooLong]);
    }
}
