//! The order in which records are stored: each after its dependencies, so that no relic is ready for an instant because
//! its dependency is not there yet.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use super::{Fault, Placed, fault};
use crate::domain::deps;
use crate::domain::relic::Source;

/// Returns the records, each after its dependencies and, where these allow it, after its parent. A record whose parent
/// comes later is there twice: first without its parent, and at the end with it.
///
/// # Errors
/// A record depends on itself, or is a step of itself; the cycle is named.
pub fn ordered(items: Vec<Placed>) -> Result<Vec<Placed>, Fault> {
    let places: BTreeMap<Source, usize> = items
        .iter()
        .enumerate()
        .map(|(index, placed)| (placed.item.source.clone(), index))
        .collect();
    let parents: Vec<Option<usize>> = items
        .iter()
        .map(|placed| places.get(placed.item.parent.as_ref()?).copied())
        .collect();
    let needs: Vec<Vec<usize>> = items
        .iter()
        .map(|placed| {
            let deps = placed.item.deps.iter().flatten();
            deps.filter_map(|dep| places.get(dep).copied()).collect()
        })
        .collect();
    let order = sort(&needs, &parents);
    if order.len() < items.len() {
        return Err(cycle(&items, &needs, &order));
    }
    if let Some(start) = own_ancestor(&parents) {
        let steps: Vec<Vec<usize>> = parents
            .iter()
            .map(|of| of.iter().copied().collect())
            .collect();
        return Err(told(&items, &steps, start, "be a step of itself"));
    }
    let mut done = vec![false; items.len()];
    let (mut sorted, mut again) = (Vec::with_capacity(items.len()), Vec::new());
    let mut items: Vec<Option<Placed>> = items.into_iter().map(Some).collect();
    for index in order {
        done[index] = true;
        let Some(mut placed) = items[index].take() else {
            continue;
        };
        if parents[index].is_some_and(|parent| !done[parent]) {
            again.push(placed.clone());
            placed.item.parent = None;
        }
        sorted.push(placed);
    }
    sorted.extend(again);
    Ok(sorted)
}

/// Returns the places in an order that respects `needs`, and `parents` where possible. Places on a cycle are missing.
fn sort(needs: &[Vec<usize>], parents: &[Option<usize>]) -> Vec<usize> {
    let count = needs.len();
    let mut waits: Vec<usize> = needs.iter().map(Vec::len).collect();
    let (mut followers, mut steps) = (vec![Vec::new(); count], vec![Vec::new(); count]);
    for (index, needed) in needs.iter().enumerate() {
        needed.iter().for_each(|one| followers[*one].push(index));
        if let Some(parent) = parents[index] {
            steps[parent].push(index);
        }
    }
    let mut done = vec![false; count];
    let orphaned = |index: usize, done: &[bool]| parents[index].is_some_and(|of| !done[of]);
    // Ready ones, in the order of the file; and ready ones whose parent is not stored yet.
    let (mut ready, mut early) = (BTreeSet::new(), BTreeSet::new());
    for index in (0..count).filter(|index| waits[*index] == 0) {
        match orphaned(index, &done) {
            true => early.insert(index),
            false => ready.insert(index),
        };
    }
    let mut order = Vec::with_capacity(count);
    while let Some(index) = ready.pop_first().or_else(|| early.pop_first()) {
        done[index] = true;
        order.push(index);
        for step in &steps[index] {
            if early.remove(step) {
                ready.insert(*step);
            }
        }
        for follower in &followers[index] {
            waits[*follower] -= 1;
            if waits[*follower] == 0 {
                match orphaned(*follower, &done) {
                    true => early.insert(*follower),
                    false => ready.insert(*follower),
                };
            }
        }
    }
    order
}

/// Returns the fault of the first record that is on a cycle.
fn cycle(items: &[Placed], needs: &[Vec<usize>], order: &[usize]) -> Fault {
    let sorted: BTreeSet<_> = order.iter().copied().collect();
    let mut left = (0..items.len()).filter(|index| !sorted.contains(index));
    // Each of the rest waits for another of the rest, so a walk along them comes to a cycle.
    let next = |index: usize| {
        needs[index]
            .iter()
            .copied()
            .find(|one| !sorted.contains(one))
    };
    let mut seen = BTreeSet::new();
    let mut at = left.next();
    while let Some(index) = at {
        if !seen.insert(index) {
            break;
        }
        at = next(index);
    }
    let Some(start) = at else {
        return fault(1, "its dependencies cannot be ordered");
    };
    told(items, needs, start, "depend on itself")
}

/// Returns a record that is a step of itself, over any number of parents.
fn own_ancestor(parents: &[Option<usize>]) -> Option<usize> {
    // The walk that came to each record first.
    let mut walks: Vec<Option<usize>> = vec![None; parents.len()];
    for walk in 0..parents.len() {
        let mut at = Some(walk);
        while let Some(index) = at {
            match walks[index] {
                Some(earlier) if earlier == walk => return Some(index),
                Some(_) => break,
                None => walks[index] = Some(walk),
            }
            at = parents[index];
        }
    }
    None
}

/// Returns the fault of a record that is on a cycle.
fn told(items: &[Placed], edges: &[Vec<usize>], start: usize, would: &str) -> Fault {
    let step = |one: &usize| -> Result<_, Infallible> { Ok(edges[*one].clone()) };
    let path = match deps::path(&start, &start, step) {
        Ok(path) => path.unwrap_or_default(),
    };
    let ids: Vec<_> = path.iter().map(|one| &items[*one].item.source.id).collect();
    fault(items[start].line, deps::cycle(would, &ids))
}
