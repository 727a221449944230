//! Keys that the contract names and this version does not honour yet. They are refused by name:
//! a key that is accepted and ignored would be a lie.

/// Section and key.
pub const LATER: &[(&str, &[&str])] = &[
    (
        "",
        &["groups", "automations", "notify", "retention", "patches"],
    ),
    ("workspace", &["suspended", "budget"]),
    ("daemon", &["wisp_gc_interval", "wisp_ttl"]),
    (
        "harness",
        &[
            "resume",
            "process_names",
            "rate_limit_patterns",
            "needs_input_patterns",
        ],
    ),
    ("rigs", &["suspended", "trust_automations"]),
    (
        "rigs.raiders",
        &["stall_after", "max_session", "idle_timeout"],
    ),
    (
        "rigs.witness",
        &["spawn_grace", "keep_dirty", "review_hold"],
    ),
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
    (
        "agents",
        &["idle_timeout", "rights", "depends_on", "suspended", "pool"],
    ),
];

/// The keys of a section that come later.
pub fn keys(section: &str) -> &'static [&'static str] {
    let row = LATER.iter().find(|(name, _)| *name == section);
    row.map_or(&[], |(_, keys)| keys)
}
