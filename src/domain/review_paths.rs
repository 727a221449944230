//! `human_review_paths`: the paths whose change needs a person's review (`contract.md`, `[rigs.forge]`).
//!
//! A pattern is read as a line of `.gitignore`: `*` stops at a slash, `**` does not, a pattern without a slash matches
//! at every depth, one with a slash starts at the root of the repository, and a folder stands for everything in it.

use std::fmt::{self, Write as _};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::shown;

/// The number of paths that a reason names.
const NAMED_MAX: usize = 3;
/// The length of a path that a reason names.
const PATH_MAX: usize = 120;

/// A set of patterns for paths.
#[derive(Clone, Default)]
pub struct ReviewPaths {
    patterns: Vec<String>,
    set: GlobSet,
}

impl fmt::Debug for ReviewPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReviewPaths").field(&self.patterns).finish()
    }
}

impl PartialEq for ReviewPaths {
    fn eq(&self, other: &Self) -> bool {
        self.patterns == other.patterns
    }
}

impl Eq for ReviewPaths {}

impl ReviewPaths {
    /// Compiles patterns.
    ///
    /// # Errors
    /// The first pattern that cannot be used, and why.
    pub fn new(patterns: Vec<String>) -> Result<Self, String> {
        let mut set = GlobSetBuilder::new();
        for pattern in &patterns {
            let told = |why: String| format!("{pattern:?}: {why}");
            let whole = anchored(pattern).map_err(told)?;
            for glob in [whole.clone(), format!("{whole}/**")] {
                let glob = GlobBuilder::new(&glob).literal_separator(true).build();
                set.add(glob.map_err(|error| told(error.kind().to_string()))?);
            }
        }
        let set = set.build().map_err(|error| error.to_string())?;
        Ok(Self { patterns, set })
    }

    /// Returns true when no path needs a review.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Returns the patterns, as they are configured.
    #[must_use]
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// Returns why these changed paths need a review, for people; none when no pattern matches.
    #[must_use]
    pub fn reason(&self, changed: &[String]) -> Option<String> {
        let touched = changed.iter().filter(|path| self.set.is_match(path));
        let touched: Vec<_> = touched.collect();
        if touched.is_empty() {
            return None;
        }
        let named = touched.iter().take(NAMED_MAX);
        let named: Vec<_> = named.map(|path| cut(path)).collect();
        let mut reason = format!("it changes {}", named.join(", "));
        if touched.len() > NAMED_MAX {
            let _infallible = write!(reason, " and {} more", touched.len() - NAMED_MAX);
        }
        reason.push_str(" (human_review_paths)");
        Some(reason)
    }
}

/// Returns a path for people: escaped, and not longer than [`PATH_MAX`].
fn cut(path: &str) -> String {
    let kept: String = path.chars().take(PATH_MAX).collect();
    let more = if kept.len() < path.len() { "…" } else { "" };
    format!("{}{more}", shown::line(&kept))
}

/// Returns the pattern as a glob for whole paths.
fn anchored(pattern: &str) -> Result<String, String> {
    if pattern.starts_with('!') {
        return Err("a pattern cannot exclude paths".to_owned());
    }
    let trimmed = pattern.strip_prefix("./").unwrap_or(pattern);
    let folder = trimmed.strip_suffix("/**").unwrap_or(trimmed);
    let folder = folder.trim_end_matches('/');
    if folder.trim_matches('/').is_empty() {
        return Err("it names no path".to_owned());
    }
    let mut parts = folder.split('/');
    if parts.any(|part| matches!(part, "." | "..")) {
        return Err("a path of git has no `.` and no `..`".to_owned());
    }
    Ok(match folder.strip_prefix('/') {
        Some(rooted) => rooted.to_owned(),
        // `src/**` starts at the root, too.
        None if folder.contains('/') || trimmed.ends_with("/**") => folder.to_owned(),
        None => format!("**/{folder}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        let paths = ReviewPaths::new(vec![pattern.to_owned()]).unwrap();
        paths.reason(&[path.to_owned()]).is_some()
    }

    /// `contract.md`: globs, and a diff that touches one waits for a person.
    #[test]
    fn pattern_matches_as_a_line_of_gitignore() {
        for (pattern, path, expected) in [
            ("Cargo.lock", "Cargo.lock", true),
            ("Cargo.lock", "fuzz/Cargo.lock", true),
            ("/Cargo.lock", "fuzz/Cargo.lock", false),
            ("/Cargo.lock", "Cargo.lock", true),
            ("*.sql", "a/b/c.sql", true),
            ("*.sql", "a/b/c.sql.txt", false),
            ("migrations", "migrations/1.sql", true),
            ("migrations/", "db/migrations/deep/1.sql", true),
            ("/migrations/", "db/migrations/1.sql", false),
            ("src/auth/**", "src/auth/token.rs", true),
            ("src/auth/**", "src/auth/deep/token.rs", true),
            ("src/auth/**", "src/auth", true),
            ("src/auth/**", "src/authors.rs", false),
            ("src/auth/**", "vendor/src/auth/token.rs", false),
            ("src/*.rs", "src/deep/a.rs", false),
            ("src/**/a.rs", "src/x/y/a.rs", true),
            ("auth/**", "src/auth/token.rs", false),
            ("**/auth/**", "src/auth/token.rs", true),
            ("./ci/*.{yml,yaml}", "ci/x.yaml", true),
            (".github", ".github/workflows/ci.yml", true),
            ("**", "any/path", true),
            ("*", "any/path", true),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} on {path}");
        }
    }

    #[test]
    fn pattern_without_a_meaning_is_an_error() {
        for wrong in ["/", "!a", "a/../b", "{a", "./"] {
            let error = ReviewPaths::new(vec![wrong.to_owned()]).unwrap_err();
            assert!(error.contains(wrong), "{error}");
        }
    }

    /// The names are of an agent, and may be long, many and odd.
    #[test]
    fn reason_names_a_few_paths_on_one_line() {
        let paths = ReviewPaths::new(vec!["db".to_owned()]).unwrap();
        assert_eq!(paths.reason(&["src/a.rs".to_owned()]), None);
        assert_eq!(ReviewPaths::default().reason(&["db/a".to_owned()]), None);
        let mut changed = vec!["db/a\u{1b}[2J\nb".to_owned(), format!("db/{:0>999}", 1)];
        changed.extend((0..5).map(|n| format!("db/{n}")));
        let reason = paths.reason(&changed).unwrap();
        assert!(!reason.contains(['\u{1b}', '\n']), "{reason}");
        assert!(
            reason.ends_with(" and 4 more (human_review_paths)"),
            "{reason}"
        );
        assert!(reason.len() < 500, "{reason}");
    }
}
