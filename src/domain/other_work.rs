//! Work in a sandbox beside its files, its stash and the commits of its HEAD.

use std::fmt;
use std::ops::Deref;

/// Kinds of other work. The safety protocol decides by these, and never by the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OtherWorkKind {
    /// Work in progress, or an obstacle to judging the sandbox.
    Unfinished,
    /// Commits that HEAD left behind: amended or rebased commits, or commits on branches that only this sandbox has.
    LeftBehind,
    /// A commit like that which cannot be copied whole, because git cannot read all of it.
    Damaged,
    /// A file that a repair set aside.
    SetAside,
    /// A repository that ignore rules hide.
    Hidden,
    /// A file whose bytes may differ from its commit only by a conversion of git's: line endings, a filter.
    Converted,
}

impl OtherWorkKind {
    /// Returns true when an agent may be finished with such work in its sandbox. A removal must still save it.
    #[must_use]
    pub fn is_finished(self) -> bool {
        match self {
            Self::Unfinished => false,
            Self::LeftBehind | Self::Damaged | Self::SetAside | Self::Hidden | Self::Converted => {
                true
            }
        }
    }
}

/// A piece of such work, with a line for people. Does not change while the sandbox does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherWork {
    kind: OtherWorkKind,
    text: String,
}

impl OtherWork {
    /// Returns work in progress, or an obstacle to judging the sandbox, in these words.
    #[must_use]
    pub fn unfinished(text: impl Into<String>) -> Self {
        Self::new(OtherWorkKind::Unfinished, text)
    }

    /// Returns commits that HEAD left behind.
    #[must_use]
    pub fn left_behind(what: impl fmt::Display) -> Self {
        Self::new(
            OtherWorkKind::LeftBehind,
            format!("only this sandbox references {what}"),
        )
    }

    /// Returns a damaged commit that HEAD left behind.
    #[must_use]
    pub fn damaged(commit: impl fmt::Display) -> Self {
        let text = format!(
            "only this sandbox names {commit}, which is damaged: what can be read of it is saved"
        );
        Self::new(OtherWorkKind::Damaged, text)
    }

    /// Returns the file of this name that a repair set aside.
    #[must_use]
    pub fn set_aside(name: impl fmt::Display) -> Self {
        let text =
            format!("only this sandbox references the work that a repair set aside as {name}");
        Self::new(OtherWorkKind::SetAside, text)
    }

    /// Returns the repository at this path, which ignore rules hide, with what it holds.
    #[must_use]
    pub fn hidden(path: impl fmt::Display, holds: impl fmt::Display) -> Self {
        let text = format!("ignored repository {path}: {holds}");
        Self::new(OtherWorkKind::Hidden, text)
    }

    /// Returns the file at this path, which git converts.
    #[must_use]
    pub fn converted(path: impl fmt::Display) -> Self {
        let text = format!("bytes that git converts: {path}");
        Self::new(OtherWorkKind::Converted, text)
    }

    fn new(kind: OtherWorkKind, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { kind, text }
    }

    /// Returns its kind.
    #[must_use]
    pub fn kind(&self) -> OtherWorkKind {
        self.kind
    }
}

/// Derefs to its text.
impl Deref for OtherWork {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for OtherWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq<str> for OtherWork {
    fn eq(&self, text: &str) -> bool {
        self.text == text
    }
}

impl PartialEq<&str> for OtherWork {
    fn eq(&self, text: &&str) -> bool {
        self.text == *text
    }
}

impl PartialEq<String> for OtherWork {
    fn eq(&self, text: &String) -> bool {
        self.text == *text
    }
}

#[cfg(test)]
mod tests {
    //! Kinds of other work, and their texts.

    use super::*;

    /// The words of another kind in a text decide nothing.
    #[test]
    fn kind_says_whether_work_is_finished_whatever_the_text() {
        let names = "only this sandbox references abc";
        for (work, text, finished) in [
            (OtherWork::unfinished(names), names, false),
            (OtherWork::left_behind("abc"), names, true),
            (
                OtherWork::damaged("abc"),
                "only this sandbox names abc, which is damaged: what can be read of it is saved",
                true,
            ),
            (
                OtherWork::set_aside("index.aside"),
                "only this sandbox references the work that a repair set aside as index.aside",
                true,
            ),
            (
                OtherWork::hidden("vendor/x", "changes"),
                "ignored repository vendor/x: changes",
                true,
            ),
            (
                OtherWork::converted("a.txt"),
                "bytes that git converts: a.txt",
                true,
            ),
        ] {
            assert_eq!(work.kind().is_finished(), finished, "{work:?}");
            assert_eq!(work, text);
            assert_eq!(work.to_string(), text);
        }
    }
}
