//! Keys that the contract names and this version does not honour yet. They are refused by name:
//! a key that is accepted and ignored would be a lie.

/// Section and key.
pub const LATER: &[(&str, &[&str])] = &[
    // There is no mail yet.
    ("notify", &["mail_to"]),
    ("automation", &["ritual", "rig", "pool"]),
    ("rigs.raiders", &["max_session"]),
    (
        "rigs.forge",
        &[
            "batch",
            "gate_concurrency",
            "human_review_paths",
            "verify",
            "freeze",
            "pr",
        ],
    ),
];

/// The keys of a section that come later.
pub fn keys(section: &str) -> &'static [&'static str] {
    let row = LATER.iter().find(|(name, _)| *name == section);
    row.map_or(&[], |(_, keys)| keys)
}
