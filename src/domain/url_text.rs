//! Texts with URLs, for messages and lists.

/// Returns a text without what URLs in it have before an `@`, which may be a password or a token. The name of an SSH account stays.
#[must_use]
pub fn without_passwords(text: &str) -> String {
    let mut parts = text.split("://");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_ssh = shown.ends_with("ssh");
        shown.push_str("://");
        let end = part.find(|char: char| char == '/' || char.is_whitespace());
        let (place, rest) = part.split_at(end.unwrap_or(part.len()));
        let place = match place.rsplit_once('@') {
            Some((account, host)) if !is_ssh || account.contains(':') => host,
            _ => place,
        };
        shown.push_str(place);
        shown.push_str(rest);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They come into the log, the journal and the store.
    #[test]
    fn text_shows_no_password_of_a_url() {
        for (text, shown) in [
            (
                "git push ssh://me:secret@host/x y@z",
                "git push ssh://host/x y@z",
            ),
            (
                "git -c remote.origin.pushUrl=https://a:b@c@host push",
                "git -c remote.origin.pushUrl=https://host push",
            ),
            ("https://token@host/x", "https://host/x"),
            ("ssh://git@host:22/x", "ssh://git@host:22/x"),
            ("https://host/@x file:///y", "https://host/@x file:///y"),
            ("me@host:x", "me@host:x"),
        ] {
            assert_eq!(without_passwords(text), shown);
        }
    }
}
