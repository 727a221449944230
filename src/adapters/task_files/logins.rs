//! Checks that a program's user is logged in: that a file exists, or that its settings have a key. The login data
//! itself is never read.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use crate::domain::unattended::Trace;

/// The smallest login file: more than brackets and a line end.
const LEAST: u64 = 4;
/// The largest settings file that is read.
const MOST: u64 = 32 << 20;

/// Returns true if this trace of a login exists. A variable counts: it was seen in the environment.
pub(super) fn shows(trace: &Trace) -> bool {
    match trace {
        Trace::Variable(_) => true,
        Trace::File(path) => length(path).is_some_and(|length| length >= LEAST),
        Trace::Setting(path, setting) => text(path).is_some_and(|text| setting.is_in(&text)),
    }
}

/// Returns the length of a regular file; follows links.
fn length(path: &Path) -> Option<u64> {
    let meta = fs::metadata(path).ok()?;
    meta.is_file().then_some(meta.len())
}

fn text(path: &Path) -> Option<String> {
    length(path).filter(|length| *length <= MOST)?;
    let mut text = String::new();
    let read = File::open(path).ok()?.take(MOST).read_to_string(&mut text);
    read.ok().map(|_| text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::unattended::logins;

    #[test]
    fn login_is_seen_by_a_nonempty_file_or_settings_key() {
        let home = crate::testing::scratch();
        let claude = home.path().join(".claude");
        fs::create_dir(&claude).unwrap();
        let env = [("HOME".to_owned(), home.path().display().to_string())].into();
        let seen = || logins(&env).iter().filter(|trace| shows(trace)).count();
        assert_eq!(seen(), 0);
        for (file, empty, full) in [
            (claude.join(".credentials.json"), "{}", "{\"a\":{}}"),
            (
                claude.join("settings.json"),
                "{}",
                "{\"apiKeyHelper\":\"pass k\"}",
            ),
            (
                home.path().join(".claude.json"),
                "{}",
                "{\"oauthAccount\":{\"a\":1}}",
            ),
        ] {
            fs::write(&file, empty).unwrap();
            assert_eq!(seen(), 0, "{}", file.display());
            fs::write(&file, full).unwrap();
            assert_eq!(seen(), 1, "{}", file.display());
            fs::remove_file(&file).unwrap();
            fs::create_dir(&file).unwrap();
            assert_eq!(seen(), 0, "{}", file.display());
        }
    }
}
