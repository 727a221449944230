//! Compares the names of tree entries with the names that git gives a meaning, as the file systems do that fold names.
//! Follows git's own comparison, so that a name is refused exactly where a remote refuses it.

/// Files whose content a remote checks, without their full stop, and the start of their short name on NTFS where its
/// usual short names are taken.
const READ_BY_GIT: [(&[u8], &[u8]); 2] =
    [(b"gitmodules", b"gi7eba"), (b"gitattributes", b"gi7d29")];

/// Returns true if a file system may take the name, or its part after a backslash, for a file whose content a remote
/// checks.
pub(super) fn is_read_by_git(name: &[u8]) -> bool {
    let after = |at: usize| name.get(at + 1..).unwrap_or_default();
    let backslashes = (0..name.len()).filter(|at| name[*at] == b'\\');
    let parts: Vec<&[u8]> = std::iter::once(name)
        .chain(backslashes.map(after))
        .collect();
    READ_BY_GIT.iter().any(|(file, short)| {
        is_hfs(name, file) || parts.iter().any(|part| is_ntfs_file(part, file, short))
    })
}

/// Returns true if a file system takes the name for `.git`.
pub(super) fn is_dot_git(name: &[u8]) -> bool {
    is_ntfs_dot_git(name) || is_hfs(name, b"git")
}

/// Compares as NTFS does: in any case, with the short name, with spaces and full stops at the end, and up to the name
/// of a stream or a backslash.
fn is_ntfs_dot_git(name: &[u8]) -> bool {
    let is_git = |part: &[u8]| {
        [&b".git"[..], b"git~1"].iter().any(|git| {
            let (start, rest) = part.split_at(part.len().min(git.len()));
            start.eq_ignore_ascii_case(git) && is_ignored(rest)
        })
    };
    name.split(|byte| *byte == b'\\').any(is_git)
}

/// Compares with another file than `.git`, which has short names of two forms: the first six letters with `~1` to
/// `~4`, and the beginning of `short` with any number, eight characters in all.
fn is_ntfs_file(name: &[u8], file: &[u8], short: &[u8]) -> bool {
    let rest_of = |prefix: &[u8]| {
        let (start, rest) = name.split_at_checked(prefix.len())?;
        start.eq_ignore_ascii_case(prefix).then_some(rest)
    };
    if rest_of(&[b".", file].concat()).is_some_and(is_ignored) {
        return true;
    }
    if let Some([b'~', b'1'..=b'4', rest @ ..]) = rest_of(&file[..6]) {
        return is_ignored(rest);
    }
    let Some((eight, rest)) = name.split_at_checked(8) else {
        return false;
    };
    let tilde = eight.iter().position(|byte| *byte == b'~');
    let is_short = tilde.filter(|at| *at <= 6).is_some_and(|at| {
        let number = &eight[at + 1..];
        eight[..at].eq_ignore_ascii_case(&short[..at])
            && number.iter().all(u8::is_ascii_digit)
            && number.first().is_some_and(|first| *first != b'0')
    });
    is_short && is_ignored(rest)
}

/// Returns true if NTFS drops this end of a name: spaces and full stops, up to the name of a stream.
fn is_ignored(end: &[u8]) -> bool {
    let end = end.split(|byte| *byte == b':').next().unwrap_or_default();
    end.iter().all(|byte| matches!(byte, b' ' | b'.'))
}

/// Compares with a full stop and this name as HFS+ does: in any case, without the characters that are not shown. For
/// git, the name ends at the first byte that is no UTF-8, because HFS+ writes it in another form.
fn is_hfs(name: &[u8], file: &[u8]) -> bool {
    let valid = name.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    // Rust takes these two for characters, git does not.
    let end = valid.find(['\u{fffe}', '\u{ffff}']).unwrap_or(valid.len());
    let shown: String = valid[..end].chars().filter(is_shown).collect();
    let shown = shown.as_bytes().strip_prefix(b".");
    shown.is_some_and(|shown| shown.eq_ignore_ascii_case(file))
}

/// Returns true if HFS+ does not ignore the character.
fn is_shown(char: &char) -> bool {
    !matches!(char,
        '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}
