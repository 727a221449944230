//! Messages of landed commits: subjects, lists of squashed commits, trailers.

use super::commit::{Commit, Ident};

/// Returns the message with the trailers at its end, joined to existing trailers. Trailers that exist already, word
/// for word, are not repeated but moved to the end: the last of a key counts, and an agent wrote the message.
pub(super) fn with_trailers(message: &[u8], trailers: &[String]) -> Vec<u8> {
    let wanted = trailers
        .iter()
        .map(|trailer| one_line(trailer).into_bytes());
    let wanted: Vec<Vec<u8>> = wanted.filter(|trailer| !trailer.is_empty()).collect();
    let text = message.trim_ascii_end();
    let present = last_paragraph(text).filter(|paragraph| is_trailers(paragraph));
    let mut lines: Vec<&[u8]> = Vec::new();
    lines.extend(
        present
            .iter()
            .flat_map(|paragraph| paragraph.split(|byte| *byte == b'\n')),
    );
    if lines.ends_with(&wanted.iter().map(Vec::as_slice).collect::<Vec<_>>()) {
        return message.to_vec();
    }
    lines.retain(|line| !wanted.iter().any(|trailer| trailer == line));
    lines.extend(wanted.iter().map(Vec::as_slice));
    let body = text[..text.len() - present.map_or(0, <[u8]>::len)].trim_ascii_end();
    let mut text = body.to_vec();
    if !text.is_empty() {
        text.extend_from_slice(b"\n\n");
    }
    text.extend_from_slice(&lines.join(&b'\n'));
    text.push(b'\n');
    text
}

/// Returns the message of a squash: the title, the list of commits, trailers.
pub(super) fn squash(title: &str, commits: &[Commit], trailers: &[String]) -> Vec<u8> {
    let title = one_line(title);
    let mut text = title.clone();
    match commits {
        // A single commit explains itself.
        [only] if only.subject() == title => {
            text = String::from_utf8_lossy(&only.message).trim().to_owned();
        }
        _ => {
            text.push_str("\n\n");
            for commit in commits {
                text.push_str(&format!("* {}\n", commit.subject()));
            }
        }
    }
    text = format!("{}\n", text.trim_end());
    with_trailers(text.as_bytes(), trailers)
}

/// Returns the author line of a squash: that of the last commit of the author with the most commits.
pub(super) fn author(commits: &[Commit]) -> Option<Vec<u8>> {
    let email = |commit: &Commit| Ident::parse(&commit.author).email.to_ascii_lowercase();
    let own = |one: &Commit| {
        let same = commits.iter().filter(|other| email(other) == email(one));
        same.count()
    };
    let most = commits.iter().map(own).max()?;
    // Among authors with equal numbers, the first one.
    let first = commits.iter().find(|commit| own(commit) == most)?;
    let last = commits
        .iter()
        .rfind(|commit| email(commit) == email(first))?;
    Some(last.author.clone())
}

/// Returns `Co-authored-by` trailers for every author, and every co-author in the messages, except the author of the
/// result; each address once.
pub(super) fn co_authors(author: &[u8], commits: &[Commit]) -> Vec<String> {
    let mut seen = vec![Ident::parse(author).email.to_ascii_lowercase()];
    let mut trailers = Vec::new();
    for commit in commits {
        let named = commit.message.split(|byte| *byte == b'\n');
        let named = named.filter_map(co_author).map(Ident::parse);
        for ident in std::iter::once(Ident::parse(&commit.author)).chain(named) {
            let email = ident.email.to_ascii_lowercase();
            if !seen.contains(&email) {
                seen.push(email);
                trailers.push(format!(
                    "Co-authored-by: {} <{}>",
                    String::from_utf8_lossy(ident.name),
                    String::from_utf8_lossy(ident.email)
                ));
            }
        }
    }
    trailers
}

/// Returns the name and address of a `Co-authored-by` line.
fn co_author(line: &[u8]) -> Option<&[u8]> {
    const KEY: &[u8] = b"co-authored-by:";
    let line = line.trim_ascii();
    let (key, value) = line.split_at_checked(KEY.len())?;
    let whole = value.contains(&b'<') && value.ends_with(b">");
    (key.eq_ignore_ascii_case(KEY) && whole).then(|| value.trim_ascii())
}

/// Returns the message of a merge commit.
pub(super) fn merge(title: &str, trailers: &[String]) -> Vec<u8> {
    with_trailers(format!("{}\n", one_line(title)).as_bytes(), trailers)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the last paragraph, unless it is the subject itself.
fn last_paragraph(text: &[u8]) -> Option<&[u8]> {
    text.windows(2)
        .rposition(|pair| pair == b"\n\n")
        .map(|at| &text[at + 2..])
}

/// Returns true if every line looks like `Key: value`.
fn is_trailers(paragraph: &[u8]) -> bool {
    let is_trailer = |line: &[u8]| {
        line.iter()
            .position(|byte| *byte == b':')
            .is_some_and(|at| {
                at > 0
                    && line[..at]
                        .iter()
                        .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
                    && line.get(at + 1) == Some(&b' ')
            })
    };
    !paragraph.is_empty() && paragraph.split(|byte| *byte == b'\n').all(is_trailer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::Oid;

    fn commit(author: &str, message: &str) -> Commit {
        let id = Oid::new("4b825dc642cb6eb9a060e54bf8d69288fbee4904").unwrap();
        Commit {
            id: id.clone(),
            tree: id,
            parents: Vec::new(),
            author: format!("{author} 1700000000 +0000").into_bytes(),
            encoding: None,
            message: message.as_bytes().to_vec(),
        }
    }

    fn trailers(message: &str, list: &[&str]) -> String {
        let list: Vec<String> = list.iter().map(|&text| text.to_owned()).collect();
        String::from_utf8(with_trailers(message.as_bytes(), &list)).unwrap()
    }

    #[test]
    fn trailers_join_those_that_are_there() {
        assert_eq!(trailers("a: b\n", &["K: v"]), "a: b\n\nK: v\n");
        assert_eq!(trailers("s\n\nbody\n", &["K: v"]), "s\n\nbody\n\nK: v\n");
        assert_eq!(
            trailers("s\n\nSigned-off-by: A <a@x>\n", &["K: v", "L: w"]),
            "s\n\nSigned-off-by: A <a@x>\nK: v\nL: w\n"
        );
        assert_eq!(trailers("s\n\nK: v\n", &["K: v"]), "s\n\nK: v\n");
        assert_eq!(
            trailers("s\n\nK: v\nK: forged\nX: y\n", &["K: v", "L: w"]),
            "s\n\nK: forged\nX: y\nK: v\nL: w\n"
        );
        assert_eq!(trailers("s", &[]), "s");
    }

    #[test]
    fn squash_message_lists_its_commits_and_co_authors() {
        let commits = [
            commit("A <a@x>", "one\n\nwhy\n"),
            commit("B <b@x>", "two\n"),
            commit("B <B@x>", "three\n"),
        ];
        let who = co_authors(b"A <a@x> 1 +0000", &commits);
        assert_eq!(who, ["Co-authored-by: B <b@x>"]);
        assert_eq!(
            String::from_utf8(squash("Add it (gt-1)", &commits, &who)).unwrap(),
            "Add it (gt-1)\n\n* one\n* two\n* three\n\nCo-authored-by: B <b@x>\n"
        );
        assert_eq!(squash("one", &commits[..1], &[]), b"one\n\nwhy\n");
    }

    #[test]
    fn a_squash_is_by_the_author_of_all_its_commits_and_keeps_the_co_authors_they_name() {
        let commits = [
            commit(
                "A <a@x>",
                "one\n\nCo-authored-by: C <c@x>\nco-Authored-By: A <A@x>\n",
            ),
            commit("A <a@x>", "two\n\nnot one: Co-authored-by: D <d@x>\n"),
            commit("B <b@x>", "three\n\nCo-authored-by: nobody\n"),
        ];
        let by = author(&commits).unwrap();
        assert_eq!(
            by, commits[1].author,
            "most commits are theirs, not the last one"
        );
        let who = co_authors(&by, &commits);
        assert_eq!(who, ["Co-authored-by: C <c@x>", "Co-authored-by: B <b@x>"]);
        assert_eq!(author(&commits[1..]).unwrap(), commits[1].author);
        assert_eq!(author(&[]), None);
    }
}
