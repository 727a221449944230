//! Reads the files that a person names: tasks, relics, chains. They are held in memory as a whole, so each has a bound.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::cli::error::{CliError, Doing};

/// Returns the text of a file, a FIFO or a device, of at most `most` bytes; `-` is standard input.
///
/// # Errors
/// A usage error when it is longer; when it cannot be read, or is no text.
pub(super) fn text(path: &Path, most: u64) -> Result<String, CliError> {
    let (shown, is_input) = (path.display().to_string(), path == Path::new("-"));
    let read = || {
        let mut text = String::new();
        // A byte more than the bound tells that there is more.
        match is_input {
            true => io::stdin().take(most + 1).read_to_string(&mut text)?,
            false => File::open(path)?.take(most + 1).read_to_string(&mut text)?,
        };
        Ok::<_, io::Error>(text)
    };
    let text = read().doing(if is_input { "standard input" } else { &shown })?;
    match text.len() as u64 > most {
        true => Err(
            CliError::usage(format!("{shown} is longer than {most} bytes"))
                .hint("nothing was done; split it"),
        ),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_input_is_refused_and_the_longest_is_read() {
        let dir = crate::testing::scratch();
        let file = dir.path().join("text");
        std::fs::write(&file, "12345").unwrap();
        assert_eq!(text(&file, 5).unwrap(), "12345");
        for path in [&*file, Path::new("/dev/zero")] {
            let error = text(path, 4).unwrap_err();
            assert!(error.message.contains("longer than 4 bytes"), "{error:?}");
        }
        let error = text(&dir.path().join("none"), 4).unwrap_err();
        assert!(error.message.contains("none"), "{error:?}");
    }
}
