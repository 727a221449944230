//! Lists the stash entries that ours keeps without a sandbox: of sandboxes that were forgotten after their directory was
//! gone, and of none that is known. [`super::stash`] pins them.

use std::collections::{BTreeMap, BTreeSet};

use super::admin::Note;
use super::rig::GitRepo;
use super::stash::{PINS, entries_of};
use crate::domain::ids::{Incarnation, Oid, RaiderId, RigName, SlotName};
use crate::ports::repo::{PinnedStashes, RepoError};

/// A raider's incarnation, where the name of a pin tells it.
type Owner = Option<(RaiderId, Incarnation)>;

/// Returns the entries that no existing sandbox and no salvage has.
pub(super) fn list(repo: &GitRepo) -> Result<Vec<PinnedStashes>, RepoError> {
    let notes = Note::all(repo)?;
    let is_there = |owner: &Owner| {
        let mut notes = notes.iter();
        notes.any(|note| *owner == Some((note.raider.clone(), note.incarnation)))
    };
    let (mut salvaged, mut found) = (BTreeSet::new(), BTreeMap::new());
    for (id, name) in repo.refs()? {
        if let Some(place) = name.strip_prefix(PINS) {
            let owner = owner(place);
            if !is_there(&owner) {
                let ids: &mut BTreeSet<Oid> = found.entry(owner).or_default();
                ids.extend(entries_of(repo, &[(id, name)])?);
            }
        } else if name.starts_with("refs/horde/salvage/") {
            salvaged.insert(id);
        }
    }
    let kept = found.into_iter().filter_map(|(owner, ids)| {
        let ids: Vec<Oid> = ids.difference(&salvaged).cloned().collect();
        let (raider, incarnation) = owner.unzip();
        (!ids.is_empty()).then_some(PinnedStashes {
            raider,
            incarnation,
            ids,
        })
    });
    Ok(kept.collect())
}

/// Parses `<rig>/<raider>/<incarnation>/...`; none for `unclaimed/...`.
fn owner(place: &str) -> Owner {
    let [rig, raider, incarnation, _] = place.split('/').collect::<Vec<_>>()[..] else {
        return None;
    };
    let raider = RaiderId::new(RigName::new(rig).ok()?, SlotName::new(raider).ok()?);
    Some((raider, Incarnation(incarnation.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::super::testing::Rigged;
    use super::*;

    #[test]
    fn pinned_entries_without_a_sandbox_and_without_a_salvage_are_listed() {
        let rigged = Rigged::new();
        let repo = &rigged.repo;
        let one = rigged.commit(&rigged.base, &[("f", "1\n")]);
        let two = rigged.commit(&rigged.base, &[("f", "2\n")]);
        let three = rigged.commit(&rigged.base, &[("f", "3\n")]);
        let git = |args: &[&str]| repo.git().args(args).run().unwrap().text();
        let tree = rigged.tree(&rigged.base);
        let pin = |name: &str, ids: &[&Oid]| {
            let first = git(&["commit-tree", "-m", "pins", &tree]);
            let mut args = vec!["commit-tree", "-m", "pins", "-p", &first];
            args.extend(ids.iter().flat_map(|id| ["-p", id.as_str()]));
            args.push(&tree);
            git(&["update-ref", &format!("{PINS}{name}"), &git(&args)]);
        };
        assert_eq!(list(repo), Ok(Vec::new()));
        pin("horde/Toast/3/list", &[&one, &two]);
        pin("unclaimed/2026-01-01/list", &[&three]);
        git(&[
            "update-ref",
            "refs/horde/salvage/horde/Toast/3/stash-0",
            two.as_str(),
        ]);
        let raider = RaiderId::new("horde".parse().unwrap(), "Toast".parse().unwrap());
        let of = |raider: Option<RaiderId>, id: &Oid| PinnedStashes {
            incarnation: raider.is_some().then_some(Incarnation(3)),
            raider,
            ids: vec![id.clone()],
        };
        let expected = vec![of(None, &three), of(Some(raider), &one)];
        assert_eq!(list(repo), Ok(expected));
    }
}
