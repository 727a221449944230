//! A request to land work on a target branch.

use crate::domain::ids::Oid;
use crate::domain::merge::LandStyle;

/// The target branch as last fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetState {
    /// The target branch's commit.
    pub tip: Oid,
    /// Its tree.
    pub tree: Oid,
}

/// A request to land one head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandRequest {
    /// The head of the work.
    pub head: Oid,
    /// The tips of the target on which the work, and earlier attempts at it, began. Commits that these reach and the
    /// target does not were force-pushed off the target since, and must not come back with the work.
    pub began: Vec<Oid>,
    /// The commit to land on.
    pub onto: Oid,
    /// Rebase, squash or merge.
    pub style: LandStyle,
    /// Subject line for squash and merge commits.
    pub title: String,
    /// Trailers added to the landed commit, `Key: value`.
    pub trailers: Vec<String>,
    /// Committer of the landed commits.
    pub committer: Signature,
}

/// Work that may land, to be shown before it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingWork {
    /// The head of the work.
    pub head: Oid,
    /// As in [`LandRequest`].
    pub began: Vec<Oid>,
    /// The branch to land on.
    pub target: String,
    /// Rebase, squash or merge.
    pub style: LandStyle,
}

/// A name and an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Name.
    pub name: String,
    /// E-mail address.
    pub email: String,
}
