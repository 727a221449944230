//! Commits as git stores them: read, drafted and written byte for byte, so that authors, dates,
//! encodings and odd messages survive a replay unchanged.

use crate::domain::ids::Oid;
use crate::ports::repo::{RepoError, Signature};

/// A commit that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Commit {
    /// Its own id.
    pub(super) id: Oid,
    /// Its tree.
    pub(super) tree: Oid,
    /// Its parents, in order.
    pub(super) parents: Vec<Oid>,
    /// The author line's value: `Name <email> seconds zone`.
    pub(super) author: Vec<u8>,
    /// The encoding header, if there is one.
    pub(super) encoding: Option<Vec<u8>>,
    /// The message.
    pub(super) message: Vec<u8>,
}

/// A commit to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Draft {
    /// Its tree.
    pub(super) tree: Oid,
    /// Its parents, in order.
    pub(super) parents: Vec<Oid>,
    /// The author line's value.
    pub(super) author: Vec<u8>,
    /// The committer line's value.
    pub(super) committer: Vec<u8>,
    /// The encoding header.
    pub(super) encoding: Option<Vec<u8>>,
    /// The message.
    pub(super) message: Vec<u8>,
}

/// The parts of `Name <email> seconds zone`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ident<'a> {
    /// Name.
    pub(super) name: &'a [u8],
    /// E-mail address.
    pub(super) email: &'a [u8],
    /// `seconds zone`.
    pub(super) when: &'a [u8],
}

impl Commit {
    /// Reads the body of a commit object.
    ///
    /// # Errors
    /// [`RepoError::Failed`] when it is not a commit.
    pub(super) fn parse(id: &Oid, body: &[u8]) -> Result<Self, RepoError> {
        let broken = |what: &str| RepoError::Failed(format!("commit {id} has no usable {what}"));
        let split = body
            .windows(2)
            .position(|pair| pair == b"\n\n")
            .unwrap_or(body.len());
        let (head, rest) = body.split_at(split);
        let (mut tree, mut author, mut encoding) = (None, None, None);
        let mut parents = Vec::new();
        for line in head.split(|byte| *byte == b'\n') {
            // Continuation lines of signatures start with a space and match nothing.
            if let Some(value) = line.strip_prefix(b"tree ") {
                tree = Some(oid(value).ok_or_else(|| broken("tree"))?);
            } else if let Some(value) = line.strip_prefix(b"parent ") {
                parents.push(oid(value).ok_or_else(|| broken("parent"))?);
            } else if let Some(value) = line.strip_prefix(b"author ") {
                author = Some(value.to_vec());
            } else if let Some(value) = line.strip_prefix(b"encoding ") {
                encoding = Some(value.to_vec());
            }
        }
        Ok(Self {
            id: id.clone(),
            tree: tree.ok_or_else(|| broken("tree"))?,
            parents,
            author: author.ok_or_else(|| broken("author"))?,
            encoding,
            message: rest.get(2..).unwrap_or_default().to_vec(),
        })
    }

    /// Returns the first line of its message, as text.
    pub(super) fn subject(&self) -> String {
        let line = self.message.split(|byte| *byte == b'\n').next();
        String::from_utf8_lossy(line.unwrap_or_default())
            .trim()
            .to_owned()
    }
}

impl Draft {
    /// Returns the body of the commit object.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut body = format!("tree {}\n", self.tree).into_bytes();
        for parent in &self.parents {
            body.extend(format!("parent {parent}\n").into_bytes());
        }
        let headers = [
            (&b"author "[..], Some(&self.author)),
            (b"committer ", Some(&self.committer)),
            (b"encoding ", self.encoding.as_ref()),
        ];
        for (key, value) in headers {
            if let Some(value) = value {
                body.extend_from_slice(key);
                body.extend_from_slice(value);
                body.push(b'\n');
            }
        }
        body.push(b'\n');
        body.extend_from_slice(&self.message);
        body
    }
}

impl<'a> Ident<'a> {
    /// Parses an author or committer line's value.
    pub(super) fn parse(line: &'a [u8]) -> Self {
        let open = line.iter().position(|byte| *byte == b'<');
        let close = line.iter().rposition(|byte| *byte == b'>');
        match (open, close) {
            (Some(open), Some(close)) if open < close => Self {
                name: line[..open].trim_ascii(),
                email: &line[open + 1..close],
                when: line[close + 1..].trim_ascii(),
            },
            _ => Self {
                name: line,
                email: b"",
                when: b"0 +0000",
            },
        }
    }
}

/// Returns the value of a committer (or author) line with the current time.
pub(super) fn ident_now(who: &Signature) -> Vec<u8> {
    let clean = |text: &str| {
        text.chars()
            .filter(|c| !matches!(c, '<' | '>' | '\n' | '\r' | '\0'))
            .collect::<String>()
            .trim()
            .to_owned()
    };
    let seconds = jiff::Timestamp::now().as_second();
    format!(
        "{} <{}> {seconds} +0000",
        clean(&who.name),
        clean(&who.email)
    )
    .into_bytes()
}

fn oid(text: &[u8]) -> Option<Oid> {
    Oid::new(std::str::from_utf8(text).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

    #[test]
    fn a_commit_is_written_as_it_was_read() {
        let mut body = format!("tree {ID}\nparent {ID}\n").into_bytes();
        body.extend_from_slice(b"author J\xf6rg <j@x> 1700000000 +0530\n");
        body.extend_from_slice(b"committer C <c@x> 1700000001 +0000\n");
        body.extend_from_slice(b"encoding ISO-8859-1\n\ngr\xfc\xdfe\n\nbody\n");
        let id = Oid::new(ID).unwrap();
        let commit = Commit::parse(&id, &body).unwrap();
        let draft = Draft {
            tree: commit.tree.clone(),
            parents: commit.parents.clone(),
            author: commit.author.clone(),
            committer: b"C <c@x> 1700000001 +0000".to_vec(),
            encoding: commit.encoding.clone(),
            message: commit.message.clone(),
        };
        assert_eq!(draft.bytes(), body);
        let ident = Ident::parse(&commit.author);
        assert_eq!(
            (ident.name, ident.email, ident.when),
            (&b"J\xf6rg"[..], &b"j@x"[..], &b"1700000000 +0530"[..])
        );
    }

    #[test]
    fn a_signature_in_the_header_is_no_header_of_ours() {
        let body = format!(
            "tree {ID}\nauthor A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\n\
             gpgsig -----BEGIN\n parent nonsense\n -----END\n\nsubject\n"
        );
        let commit = Commit::parse(&Oid::new(ID).unwrap(), body.as_bytes()).unwrap();
        assert!(commit.parents.is_empty());
        assert_eq!(commit.subject(), "subject");
    }
}
