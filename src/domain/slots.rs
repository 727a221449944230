//! Slots: the pool of names, and the choice of the next one.

use std::collections::BTreeSet;

use super::ids::SlotName;

/// The built-in pool, in the order in which names are given out.
pub const THEME: &[&str] = &[
    "Toast", "Shadow", "Copper", "Ash", "Storm", "Flint", "Ember", "Raven", "Thorn", "Frost",
    "Cinder", "Slate", "Briar", "Onyx", "Rust", "Gale", "Moss", "Jasper", "Wolf", "Amber", "Drift",
    "Falcon", "Granite", "Hazel", "Iron", "Juniper", "Kestrel", "Lark", "Maple", "Nettle", "Oak",
    "Pike", "Quartz", "Reed", "Sable", "Talon", "Umber", "Vale", "Willow", "Yarrow", "Zephyr",
    "Basalt", "Cedar", "Dune", "Elm", "Fern", "Garnet", "Heron", "Ivy", "Jet",
];

/// Names that mean a role in the city; a raider with such a name would be mistaken for it. Compared without regard to
/// case.
pub const ROLES: &[&str] = &[
    "witness",
    "forge",
    "shaman",
    "root",
    "store",
    "dispatcher",
    "config",
    "control",
    "daemon",
    "supervisor",
    "operator",
    "raiders",
    "raider",
    "polecat",
    "polecats",
    "refinery",
    "deacon",
    "crew",
    "hd",
    "horde",
    "all",
];

/// Returns true when a name is one of [`ROLES`].
#[must_use]
pub fn is_role(name: &str) -> bool {
    ROLES.iter().any(|role| role.eq_ignore_ascii_case(name))
}

/// The reason why no slot was given out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoSlot {
    /// The rig has as many raiders as `max` allows.
    #[error("all {max} slots of the rig are taken")]
    Exhausted {
        /// `[rigs.raiders] max`.
        max: usize,
    },
    /// The wanted name is taken.
    #[error("slot {0} is taken")]
    Taken(SlotName),
    /// The wanted name is that of a role.
    #[error("{0} is the name of a role and is never given to a raider")]
    Role(SlotName),
}

/// Chooses a slot: the wanted one, or else the first free name of the pool, or else a number when `max` exceeds the
/// pool. Names compare without case: file systems may not tell them apart.
///
/// # Errors
/// [`NoSlot`]; nothing was changed.
pub fn allocate(
    pool: &[SlotName],
    max: usize,
    taken: &BTreeSet<SlotName>,
    wanted: Option<&SlotName>,
) -> Result<SlotName, NoSlot> {
    let is_taken = |name: &str| {
        taken
            .iter()
            .any(|held| held.as_str().eq_ignore_ascii_case(name))
    };
    if let Some(wanted) = wanted {
        if is_role(wanted.as_str()) {
            return Err(NoSlot::Role(wanted.clone()));
        }
        if is_taken(wanted.as_str()) {
            return Err(NoSlot::Taken(wanted.clone()));
        }
    }
    if taken.len() >= max {
        return Err(NoSlot::Exhausted { max });
    }
    if let Some(wanted) = wanted {
        return Ok(wanted.clone());
    }
    let free = |name: &&SlotName| !is_taken(name.as_str()) && !is_role(name.as_str());
    if let Some(name) = pool.iter().find(free) {
        return Ok(name.clone());
    }
    let numbers = pool.len() + 1..;
    numbers
        .map(|number| format!("r{number}"))
        .find(|name| !is_taken(name))
        .and_then(|name| SlotName::new(name).ok())
        .ok_or(NoSlot::Exhausted { max })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<SlotName> {
        names
            .iter()
            .map(|name| SlotName::new(*name).unwrap())
            .collect()
    }

    fn set(taken: &[&str]) -> BTreeSet<SlotName> {
        names(taken).into_iter().collect()
    }

    #[test]
    fn the_first_free_name_of_the_pool_is_given_out() {
        let pool = names(&["Toast", "Shadow"]);
        assert_eq!(
            allocate(&pool, 4, &set(&[]), None).unwrap().as_str(),
            "Toast"
        );
        assert_eq!(
            allocate(&pool, 4, &set(&["Toast"]), None).unwrap().as_str(),
            "Shadow"
        );
    }

    #[test]
    fn an_exhausted_pool_says_so_or_overflows_when_max_allows() {
        let pool = names(&["Toast", "Shadow"]);
        let taken = set(&["Toast", "Shadow"]);
        assert_eq!(
            allocate(&pool, 2, &taken, None),
            Err(NoSlot::Exhausted { max: 2 })
        );
        assert_eq!(allocate(&pool, 3, &taken, None).unwrap().as_str(), "r3");
        let three = set(&["Toast", "Shadow", "r3"]);
        assert_eq!(allocate(&pool, 4, &three, None).unwrap().as_str(), "r4");
    }

    #[test]
    fn role_names_are_never_given_out() {
        let pool = names(&["Witness", "forge", "Toast"]);
        assert_eq!(
            allocate(&pool, 4, &set(&[]), None).unwrap().as_str(),
            "Toast"
        );
        let wanted = SlotName::new("SHAMAN").unwrap();
        assert!(matches!(
            allocate(&pool, 4, &set(&[]), Some(&wanted)),
            Err(NoSlot::Role(_))
        ));
        assert!(THEME.iter().all(|name| !is_role(name)));
    }

    #[test]
    fn a_taken_name_is_refused_whatever_its_case() {
        let wanted = SlotName::new("toast").unwrap();
        let taken = set(&["Toast"]);
        assert!(matches!(
            allocate(&[], 4, &taken, Some(&wanted)),
            Err(NoSlot::Taken(_))
        ));
    }

    #[test]
    fn the_theme_has_fifty_different_valid_names() {
        let all: BTreeSet<_> = THEME.iter().map(|n| SlotName::new(*n).unwrap()).collect();
        assert_eq!(all.len(), 50);
    }
}
