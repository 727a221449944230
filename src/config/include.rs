//! Finds the files that `include` names. Globs match within one folder each: a pattern that reached
//! into every folder of the city would pick up files from the sandboxes of raiders.

use std::fs;
use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

/// The files that a pattern names, in order of their paths. A pattern without wildcards names one
/// file, which must be there; one with wildcards may match nothing.
///
/// # Errors
/// What is wrong with the pattern.
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

/// The directory above the first wildcard: where files may come to match.
pub fn searched(root: &Path, pattern: &str) -> Option<PathBuf> {
    let fixed = Path::new(pattern).components();
    let fixed: PathBuf = fixed.take_while(|part| !is_wild(part)).collect();
    let dir = root.join(fixed);
    has_wildcard(pattern).then(|| fs::canonicalize(&dir).unwrap_or(dir))
}

/// Matches what a pattern names, and the folders on the way there that its wildcards match.
pub fn matchers(root: &Path, pattern: &str) -> Vec<GlobMatcher> {
    let mut glob = match searched(root, pattern) {
        Some(dir) => globset::escape(&dir.to_string_lossy()),
        None => return Vec::new(),
    };
    let parts = Path::new(pattern).components();
    let level = |part: Component| {
        glob.push('/');
        glob.push_str(&part.as_os_str().to_string_lossy());
        let level = GlobBuilder::new(&glob).literal_separator(true).build();
        level.ok().map(|level| level.compile_matcher())
    };
    parts
        .skip_while(|part| !is_wild(part))
        .filter_map(level)
        .collect()
}

fn is_wild(part: &Component) -> bool {
    has_wildcard(&part.as_os_str().to_string_lossy())
}

fn has_wildcard(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

/// The entries of these folders whose names match; hidden ones only when the pattern says so.
fn matching(folders: &[PathBuf], part: &str) -> Result<Vec<PathBuf>, String> {
    let glob = GlobBuilder::new(part).literal_separator(true).build();
    let glob = glob.map_err(|error| error.kind().to_string())?;
    let matcher = glob.compile_matcher();
    let mut found = Vec::new();
    for folder in folders {
        // A folder that cannot be listed holds no fragments; a wildcard may match nothing.
        let Ok(entries) = fs::read_dir(folder) else {
            continue;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let hidden = name.starts_with('.') && !part.starts_with('.');
            if !hidden && matcher.is_match(name.as_ref()) {
                found.push(entry.path());
            }
        }
    }
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
        let dir = tempfile::tempdir().unwrap();
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
