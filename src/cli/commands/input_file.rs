//! Reads the files that a person names: tasks, relics, chains, bodies. They are held in memory as a whole, so each has a
//! bound.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use crate::cli::error::{CliError, Doing};

/// Returns true for standard input.
fn is_input(path: &Path) -> bool {
    path == Path::new("-")
}

/// Returns the name of a file for people.
pub(super) fn shown(path: &Path) -> String {
    match is_input(path) {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    }
}

/// Returns the text of a file, a FIFO or a device, of at most `most` bytes; `-` is standard input.
///
/// # Errors
/// A usage error with this hint when it is longer; when it cannot be read, or is no text.
pub(super) fn text(path: &Path, most: u64, hint: &str) -> Result<String, CliError> {
    let is_input = is_input(path);
    let shown = shown(path);
    let read = || {
        let mut bytes = Vec::new();
        // A byte more than the bound tells that there is more.
        match is_input {
            true => io::stdin().take(most + 1).read_to_end(&mut bytes)?,
            false => File::open(path)?.take(most + 1).read_to_end(&mut bytes)?,
        };
        Ok(bytes)
    };
    let bytes = read().doing(&shown)?;
    if bytes.len() as u64 > most {
        let message = format!("{shown} is longer than {most} bytes");
        return Err(CliError::usage(message).hint(hint));
    }
    // Asked only now: the bound may be in the middle of a character.
    let text = String::from_utf8(bytes);
    text.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
        .doing(&shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::protocol::Exit;

    #[test]
    fn endless_input_is_refused_and_the_longest_is_read() {
        let dir = crate::testing::scratch();
        let file = dir.path().join("text");
        std::fs::write(&file, "12345").unwrap();
        assert_eq!(text(&file, 5, "split it").unwrap(), "12345");
        for path in [&*file, Path::new("/dev/zero")] {
            let error = text(path, 4, "split it").unwrap_err();
            assert!(error.message.contains("longer than 4 bytes"), "{error:?}");
            assert_eq!(error.hint.as_deref(), Some("split it"));
        }
        let error = text(&dir.path().join("none"), 4, "").unwrap_err();
        assert!(error.message.contains("none"), "{error:?}");
    }

    #[test]
    fn standard_input_is_named_in_words() {
        assert_eq!(shown(Path::new("-")), "standard input");
        assert_eq!(shown(Path::new("./-")), "./-");
    }

    /// It was reported as no text, with the exit code of a failure.
    #[test]
    fn bound_in_the_middle_of_a_character_is_told_as_a_bound() {
        let dir = crate::testing::scratch();
        let file = dir.path().join("text");
        std::fs::write(&file, "éé").unwrap();
        let error = text(&file, 2, "split it").unwrap_err();
        assert_eq!(error.exit, Exit::Usage);
        assert!(error.message.contains("longer than 2 bytes"), "{error:?}");
        std::fs::write(&file, [0xc3]).unwrap();
        let error = text(&file, 2, "split it").unwrap_err();
        assert_eq!(error.exit, Exit::Failed);
        assert!(error.message.contains("utf-8"), "{error:?}");
    }
}
