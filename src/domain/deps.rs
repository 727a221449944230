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

/// Returns the sentence that refuses a cycle, with the cycle.
#[must_use]
pub fn cycle(would: &str, path: &[impl Display]) -> String {
    let ids: Vec<_> = path.iter().map(ToString::to_string).collect();
    let first = ids.first().map_or("it", String::as_str);
    format!("{first} would {would}: {}", ids.join(" \u{2192} "))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

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

    #[test]
    fn a_cycle_is_told_with_every_relic_on_it() {
        let path = [id(1), id(3), id(1)];
        let told = "gt-1 would depend on itself: gt-1 \u{2192} gt-3 \u{2192} gt-1";
        assert_eq!(cycle("depend on itself", &path), told);
    }
}
