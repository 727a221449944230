//! Finds the files that `include` names. A glob matches within a single folder: a pattern that reached into every
//! folder of the city would pick up files from raiders' sandboxes.

use std::fs;
use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

/// Returns the files that a pattern names, in order of their paths. A pattern without wildcards names a file that must
/// exist; one with wildcards may match nothing.
///
/// # Errors
/// An invalid pattern.
pub fn expand(root: &Path, pattern: &str) -> Result<Vec<PathBuf>, String> {
    let pattern_path = Path::new(pattern);
    if !has_wildcard(pattern) {
        let path = root.join(pattern_path);
        return match fs::canonicalize(&path) {
            Ok(path) => Ok(vec![path]),
            Err(_) => Err(format!("there is no file {}", path.display())),
        };
    }
    let mut found = vec![root.to_owned()];
    for component in pattern_path.components() {
        let part = match component {
            Component::Normal(part) => part.to_string_lossy(),
            other => {
                let whole = Path::new(&other);
                found.iter_mut().for_each(|dir| *dir = dir.join(whole));
                continue;
            }
        };
        if part.contains("**") {
            return Err("`**` is not supported in include: name each folder".to_owned());
        }
        found = match has_wildcard(&part) {
            true => matching(&found, &part)?,
            false => found.iter().map(|dir| dir.join(part.as_ref())).collect(),
        };
    }
    let files = found.iter().filter(|path| path.is_file());
    Ok(files
        .filter_map(|path| fs::canonicalize(path).ok())
        .collect())
}

/// A part of a pattern, matched against the entries of one folder: hidden entries only when the pattern says so.
#[derive(Debug)]
pub struct Level {
    glob: GlobMatcher,
    hidden: bool,
}

impl Level {
    /// # Errors
    /// An invalid part of a pattern.
    pub fn new(part: &str) -> Result<Self, String> {
        let glob = GlobBuilder::new(part).literal_separator(true).build();
        let glob = glob.map_err(|error| error.kind().to_string())?;
        Ok(Self {
            glob: glob.compile_matcher(),
            hidden: part.starts_with('.'),
        })
    }

    /// Returns whether the pattern matches an entry of this name.
    pub fn matches(&self, name: &str) -> bool {
        (self.hidden || !name.starts_with('.')) && self.glob.is_match(name)
    }

    /// Returns the matching entries of a folder; none of a folder that cannot be listed.
    pub fn entries(&self, folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let meant = entries.filter(|entry| self.matches(&entry.file_name().to_string_lossy()));
        meant.map(|entry| entry.path()).collect()
    }
}

/// Returns whether the text is a pattern that may match more than one name.
pub fn has_wildcard(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

/// Returns the entries of these folders whose names match, in order.
fn matching(folders: &[PathBuf], part: &str) -> Result<Vec<PathBuf>, String> {
    let level = Level::new(part)?;
    let entries = folders.iter().flat_map(|folder| level.entries(folder));
    let mut found: Vec<_> = entries.collect();
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(root: &Path, pattern: &str) -> Vec<String> {
        let found = expand(root, pattern).unwrap();
        let name = |path: PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        found.into_iter().map(name).collect()
    }

    #[test]
    fn patterns_match_in_order_and_never_dive() {
        let dir = crate::testing::scratch();
        let root = dir.path();
        for file in [
            "f/b.toml",
            "f/a.toml",
            "f/.hidden.toml",
            "f/deep/c.toml",
            "f/x.txt",
        ] {
            fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            fs::write(root.join(file), "").unwrap();
        }
        assert_eq!(names(root, "f/*.toml"), ["a.toml", "b.toml"]);
        assert_eq!(names(root, "*/{b,x}.*"), ["b.toml", "x.txt"]);
        assert_eq!(names(root, "f/b.toml"), ["b.toml"]);
        assert!(names(root, "g/*.toml").is_empty());
        assert!(expand(root, "g/none.toml").is_err());
        assert!(expand(root, "**/*.toml").is_err());
        assert!(expand(root, "f/[.toml").is_err());
    }
}
