//! Settings that git refuses although they can be parsed: with one such line, an agent breaks git in every sandbox of
//! the rig.

use super::config_text;

/// Keys that git reads in every command, and that must be booleans.
const BOOLS: &[&str] = &[
    "core.bare",
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.prefersymlinkrefs",
    "core.quotepath",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "core.symlinks",
    "core.trustctime",
    "extensions.preciousobjects",
    "extensions.relativeworktrees",
    "extensions.worktreeconfig",
];

/// Extensions that git, and the supervisor's readers of the repository, support. `objectformat` must be the rig's
/// own.
const EXTENSIONS: &[&str] = &[
    "noop",
    "objectformat",
    "partialclone",
    "preciousobjects",
    "relativeworktrees",
    "worktreeconfig",
];

/// Returns the reason why git would refuse a repository with this output of `git config --list -z`, without includes.
pub(super) fn refused(listed: &[u8], format: impl FnOnce() -> Option<String>) -> Option<String> {
    let records = config_text::listed(listed);
    for (key, value) in &records {
        // Without a value it is true.
        let value = value.as_deref();
        if BOOLS.contains(&key.as_str()) && value.is_some_and(|value| truth(value).is_none()) {
            let value = value.unwrap_or_default();
            return Some(format!("{key} is {value:?}, which is not a boolean"));
        }
    }
    let last = |key: &str| {
        let mut found = records.iter().rev().filter(|record| record.0 == key);
        found.next().map(|record| record.1.as_deref())
    };
    let holds = |key| last(key).is_some_and(|value| value.is_none_or(|it| truth(it) == Some(true)));
    if holds("core.bare") && holds("extensions.worktreeconfig") {
        let why = "core.bare counts for the sandboxes as well, by extensions.worktreeConfig";
        return Some(why.to_owned());
    }
    let version = last("core.repositoryformatversion").map(|value| value.unwrap_or_default());
    if !matches!(version, None | Some("0" | "1")) {
        let version = version.unwrap_or_default();
        return Some(format!("core.repositoryformatversion is {version:?}"));
    }
    let mut extensions = records.iter().filter_map(|record| {
        let name = record.0.strip_prefix("extensions.")?;
        (!EXTENSIONS.contains(&name)).then_some(name)
    });
    if let Some(unknown) = extensions.next() {
        return Some(format!("the extension {unknown:?} is not supported"));
    }
    match last("extensions.objectformat") {
        Some(claimed) if claimed.map(str::to_owned) != format() => {
            let claimed = claimed.unwrap_or_default();
            Some(format!("it claims objects of the format {claimed:?}"))
        }
        _ => None,
    }
}

/// Returns the boolean that git reads from a value.
fn truth(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" | "" => Some(false),
        number => number.parse::<i32>().ok().map(|number| number != 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_and_valid_settings_are_told_apart() {
        let told = |lines: &[&str]| {
            let listed: String = lines.iter().map(|line| format!("{line}\0")).collect();
            refused(listed.as_bytes(), || Some("sha1".to_owned()))
        };
        for fine in [
            &["core.bare\ntrue", "core.repositoryformatversion\n0"][..],
            &["core.bare", "core.symlinks\nOFF", "core.filemode\n1"],
            &[
                "core.repositoryformatversion\n1",
                "extensions.objectformat\nsha1",
            ],
            &[
                "core.bare\ntrue",
                "core.bare\nfalse",
                "extensions.worktreeconfig\ntrue",
            ],
            &["alias.x\nmaybe", "extensions.worktreeconfig\ntrue"],
            &[],
        ] {
            assert_eq!(told(fine), None, "{fine:?}");
        }
        for wrong in [
            &["core.bare\nmaybe"][..],
            &["core.bare\nmaybe", "core.bare\ntrue"],
            &["core.ignorecase\n1.5"],
            &["core.bare", "extensions.worktreeconfig"],
            &["core.repositoryformatversion\n99"],
            &["core.repositoryformatversion"],
            &["extensions.refstorage\nreftable"],
            &["extensions.objectformat\nsha256"],
        ] {
            assert!(told(wrong).is_some(), "{wrong:?}");
        }
    }
}
