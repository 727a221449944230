//! What on disk decides a configuration: which directories to watch, and which of the changes there
//! matter. Agents write into the city's directory, too.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use globset::GlobMatcher;

use super::include;

/// The folder of automations, beside the city's file.
const AUTOMATIONS: &str = "automations";

/// What decides a configuration. All of its directories are canonical.
pub struct Deciding {
    dirs: BTreeSet<PathBuf>,
    /// Files, and where those that are links lead.
    files: BTreeSet<PathBuf>,
    automations: PathBuf,
    included: Vec<GlobMatcher>,
}

impl Deciding {
    pub(super) fn new(root: &Path, sources: &[PathBuf], patterns: &[String]) -> Self {
        let files: BTreeSet<_> = sources.iter().flat_map(|file| names(file)).collect();
        let parents = files.iter().filter_map(|file| file.parent());
        let mut dirs: BTreeSet<_> = parents.map(Path::to_owned).collect();
        let searched = |pattern: &String| include::searched(root, pattern);
        dirs.extend(patterns.iter().filter_map(searched));
        dirs.insert(root.to_owned());
        let included = |pattern: &String| include::matchers(root, pattern);
        Self {
            dirs,
            files,
            automations: root.join(AUTOMATIONS),
            included: patterns.iter().flat_map(included).collect(),
        }
    }

    /// The directories whose entries decide what it says.
    #[must_use]
    pub fn dirs(&self) -> Vec<PathBuf> {
        self.dirs.iter().cloned().collect()
    }

    /// Whether a change of this entry, or of a folder on the way to one that matters, may change it.
    #[must_use]
    pub fn depends_on(&self, path: &Path) -> bool {
        let mut known = self.files.iter().chain(&self.dirs);
        path.starts_with(&self.automations)
            || known.any(|known| known.starts_with(path))
            || self.included.iter().any(|glob| glob.is_match(path))
    }
}

/// A file as it is named in its directory, and what it is a link to.
fn names(file: &Path) -> impl Iterator<Item = PathBuf> {
    let parent = file
        .parent()
        .and_then(|parent| fs::canonicalize(parent).ok());
    let named = parent
        .zip(file.file_name())
        .map(|(dir, name)| dir.join(name));
    named.into_iter().chain(fs::canonicalize(file).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_writes_beside_the_city_decides_nothing() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (root, kept) = (place.join("city"), place.join("kept"));
        fs::create_dir_all(root.join("f")).unwrap();
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("own.toml"), "").unwrap();
        std::os::unix::fs::symlink(kept.join("own.toml"), root.join("city.toml")).unwrap();
        let patterns = ["f/*/x.toml", "g-*.toml"].map(str::to_owned);
        let deciding = Deciding::new(&root, &[root.join("city.toml")], &patterns);
        assert_eq!(
            deciding.dirs(),
            [root.clone(), root.join("f"), kept.clone()]
        );
        for path in [
            "city.toml",
            "f",
            "f/new",
            "f/new/x.toml",
            "g-1.toml",
            "automations/a/b",
        ] {
            assert!(deciding.depends_on(&root.join(path)), "{path}");
        }
        for path in ["out", "other.toml", ".city.toml.new", "f/new/y.toml"] {
            assert!(!deciding.depends_on(&root.join(path)), "{path}");
        }
        assert!(
            deciding.depends_on(&kept.join("own.toml")),
            "the link leads there"
        );
        assert!(!deciding.depends_on(&kept.join("other.toml")));
    }
}
