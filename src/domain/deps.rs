//! The graph of relics: dependencies and parents. Each must stay free of cycles.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Display;

/// Returns the shortest path from one relic to another, both included: at least one step, so a path from a relic to
/// itself is a cycle. `next` returns the relics that one leads to.
///
/// # Errors
/// Those of `next`.
pub fn path<T: Clone + Ord, E>(
    from: &T,
    to: &T,
    mut next: impl FnMut(&T) -> Result<Vec<T>, E>,
) -> Result<Option<Vec<T>>, E> {
    let mut came_from: BTreeMap<T, T> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut waiting = VecDeque::from([from.clone()]);
    while let Some(one) = waiting.pop_front() {
        for found in next(&one)? {
            if found == *to {
                let mut path = vec![found, one.clone()];
                let mut last = &one;
                while let Some(before) = came_from.get(last) {
                    path.push(before.clone());
                    last = before;
                }
                path.reverse();
                return Ok(Some(path));
            }
            if found != *from && seen.insert(found.clone()) {
                came_from.insert(found.clone(), one.clone());
                waiting.push_back(found);
            }
        }
    }
    Ok(None)
}

/// Returns true when one of these relics leads to `to`, or is it. `next` returns the relics that one leads to, `before`
/// those that lead to it.
///
/// The graph is searched from both ends in turn, and the search is over with the first end from which nothing new is
/// found: a new end of a long chain costs nothing, whatever the length of the chain.
///
/// # Errors
/// Those of `next` and `before`.
pub fn leads<T: Clone + Ord, E>(
    from: &[T],
    to: &T,
    mut next: impl FnMut(&T) -> Result<Vec<T>, E>,
    mut before: impl FnMut(&T) -> Result<Vec<T>, E>,
) -> Result<bool, E> {
    let mut ahead: BTreeSet<T> = from.iter().cloned().collect();
    let mut behind = BTreeSet::from([to.clone()]);
    if ahead.contains(to) {
        return Ok(true);
    }
    let mut waiting = VecDeque::from_iter(ahead.iter().cloned());
    let mut waiting_behind = VecDeque::from([to.clone()]);
    while let (Some(one), Some(other)) = (waiting.pop_front(), waiting_behind.pop_front()) {
        for found in before(&other)? {
            if ahead.contains(&found) {
                return Ok(true);
            }
            if behind.insert(found.clone()) {
                waiting_behind.push_back(found);
            }
        }
        if waiting_behind.is_empty() {
            return Ok(false);
        }
        for found in next(&one)? {
            if behind.contains(&found) {
                return Ok(true);
            }
            if ahead.insert(found.clone()) {
                waiting.push_back(found);
            }
        }
    }
    Ok(false)
}

/// The number of relics that are named of a longer cycle: the first and the last ones.
const NAMED_MAX: usize = 12;

/// Returns the sentence that refuses a cycle, with the cycle.
#[must_use]
pub fn cycle(would: &str, path: &[impl Display]) -> String {
    let mut ids: Vec<_> = path.iter().map(ToString::to_string).collect();
    let first = ids.first().cloned().unwrap_or_else(|| "it".to_owned());
    if let Some(others) = ids
        .len()
        .checked_sub(NAMED_MAX)
        .filter(|others| *others > 0)
    {
        let half = NAMED_MAX / 2;
        ids.splice(half..half + others, [format!("({others} others)")]);
    }
    format!("{first} would {would}: {}", ids.join(" \u{2192} "))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;
    use crate::domain::ids::RelicId;

    fn id(number: u64) -> RelicId {
        RelicId::numbered("gt", number)
    }

    /// Searches in a graph of edges.
    fn search(edges: &[(u64, u64)], from: u64, to: u64) -> Option<Vec<RelicId>> {
        let next = |one: &RelicId| -> Result<_, Infallible> {
            let edges = edges.iter().filter(|(from, _)| id(*from) == *one);
            Ok(edges.map(|(_, to)| id(*to)).collect())
        };
        match path(&id(from), &id(to), next) {
            Ok(found) => found,
        }
    }

    #[test]
    fn the_shortest_path_is_found_and_named() {
        type Row<'a> = (&'a [(u64, u64)], u64, u64, Option<&'a [u64]>);
        let rows: &[Row<'_>] = &[
            (&[], 1, 1, None),
            (&[(1, 1)], 1, 1, Some(&[1, 1])),
            (&[(1, 2)], 1, 2, Some(&[1, 2])),
            (&[(1, 2)], 2, 1, None),
            (&[(1, 2), (2, 1)], 1, 1, Some(&[1, 2, 1])),
            (&[(1, 2), (2, 3), (3, 1), (1, 3)], 1, 1, Some(&[1, 3, 1])),
            // A cycle that does not lead to the goal ends the search, too.
            (&[(1, 2), (2, 3), (3, 2)], 1, 4, None),
        ];
        for (edges, from, to, found) in rows {
            let found = found.map(|path| path.iter().copied().map(id).collect::<Vec<_>>());
            assert_eq!(search(edges, *from, *to), found, "{edges:?} {from} {to}");
        }
    }

    /// Returns the answer for these edges, and the number of relics that were read for it.
    fn led(edges: &[(u64, u64)], from: &[u64], to: u64) -> (bool, usize) {
        let (mut next, mut before) = (BTreeMap::new(), BTreeMap::new());
        for (from, to) in edges {
            next.entry(*from).or_insert_with(Vec::new).push(*to);
            before.entry(*to).or_insert_with(Vec::new).push(*from);
        }
        let reads = std::cell::Cell::new(0);
        let read = |of: &BTreeMap<u64, Vec<u64>>, one: &u64| -> Result<_, Infallible> {
            reads.set(reads.get() + 1);
            Ok(of.get(one).cloned().unwrap_or_default())
        };
        let led = leads(from, &to, |one| read(&next, one), |one| read(&before, one));
        match led {
            Ok(led) => (led, reads.get()),
        }
    }

    proptest! {
        #[test]
        fn search_from_both_ends_finds_what_a_search_from_one_end_finds(
            edges in prop::collection::vec((0..9u64, 0..9u64), 0..20),
            from in 0..9u64,
            to in 0..9u64,
        ) {
            let expected = from == to || search(&edges, from, to).is_some();
            prop_assert_eq!(led(&edges, &[from], to).0, expected);
        }
    }

    /// Each of these would be a scan of the whole chain, for each edge of it.
    #[test]
    fn edge_at_an_end_of_a_long_chain_is_checked_without_reading_the_chain() {
        const LONG: u64 = 100_000;
        let chain: Vec<_> = (1..LONG).map(|n| (n, n + 1)).collect();
        // A new relic needs the first of the chain; the last of the chain needs a new relic.
        for (from, to) in [(1, LONG + 1), (LONG + 1, LONG)] {
            let (led, reads) = led(&chain, &[from], to);
            assert!(!led && reads <= 3, "{reads}");
        }
        let (led, reads) = led(&chain, &[1], LONG);
        assert!(led && reads <= LONG as usize + 1, "{reads}");
    }

    #[test]
    fn long_cycle_is_told_with_its_ends() {
        let path: Vec<_> = (1..=100_000).chain([1]).map(id).collect();
        let told = cycle("depend on itself", &path);
        assert!(
            told.contains("(99989 others)") && told.len() < 300,
            "{told}"
        );
        assert!(told.ends_with("gt-100000 \u{2192} gt-1"), "{told}");
    }

    #[test]
    fn a_cycle_is_told_with_every_relic_on_it() {
        let path = [id(1), id(3), id(1)];
        let told = "gt-1 would depend on itself: gt-1 \u{2192} gt-3 \u{2192} gt-1";
        assert_eq!(cycle("depend on itself", &path), told);
    }
}
