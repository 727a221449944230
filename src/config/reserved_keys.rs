//! Keys that the contract names and this version does not honour yet. They are refused by name, because an accepted key
//! without effect would mislead.

/// The keys, by section.
pub const RESERVED: &[(&str, &[&str])] = &[(
    "rigs.forge",
    &["batch", "gate_concurrency", "verify", "freeze"],
)];

/// Returns the reserved keys of a section.
pub fn keys(section: &str) -> &'static [&'static str] {
    let row = RESERVED.iter().find(|(name, _)| *name == section);
    row.map_or(&[], |(_, keys)| keys)
}
