//! Edits `city.toml` as a person would: comments, order and layout of everything else stay.

use std::fs;
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::Path;

use tempfile::NamedTempFile;

use super::document::{Node, Value, parse};
use super::{Diagnostics, Env, Loaded, load};
use crate::domain::city::RigSource;
use crate::regular;

/// A rig to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRig {
    /// Its name.
    pub name: String,
    /// Its repository.
    pub source: RigSource,
    /// The prefix of its relics' ids; derived from the name when none is given.
    pub prefix: Option<String>,
    /// The harness of its raiders; the default one when none is given.
    pub harness: Option<String>,
}

impl NewRig {
    fn text(&self) -> Result<String, String> {
        let quoted = |text: &str| toml::Value::from(text).to_string();
        let source = match &self.source {
            RigSource::Path(path) => {
                let path = path.to_str().ok_or("the path is no UTF-8 text")?;
                format!("path = {}", quoted(path))
            }
            RigSource::Remote(remote) => format!("remote = {}", quoted(remote)),
        };
        let mut text = format!("[[rigs]]\nname = {}\n{source}\n", quoted(&self.name));
        if let Some(prefix) = &self.prefix {
            text.push_str(&format!("prefix = {}\n", quoted(prefix)));
        }
        if let Some(harness) = &self.harness {
            text.push_str(&format!(
                "\n[rigs.raiders]\nharness = {}\n",
                quoted(harness)
            ));
        }
        Ok(text)
    }
}

/// Returns the text with one more rig at its end.
///
/// # Errors
/// Why the text cannot be edited.
pub fn with_rig(text: &str, rig: &NewRig) -> Result<String, String> {
    let own = rig.text()?;
    let after = match text.trim_end() {
        "" => own.clone(),
        before => format!("{before}\n\n{own}"),
    };
    let mut expected = table(text)?;
    rigs(&mut expected)?.extend(rigs(&mut table(&own)?)?.clone());
    checked(after, &expected)
}

/// Returns the text without a rig, its tables and the comments right above these.
///
/// # Errors
/// Why the text cannot be edited.
pub fn without_rig(text: &str, name: &str) -> Result<String, String> {
    let mut expected = table(text)?;
    let all = rigs(&mut expected)?;
    let is_it = |rig: &toml::Value| rig.get("name").and_then(toml::Value::as_str) == Some(name);
    let absent = || format!("the rig {name} is not in this file; it may be in an included one");
    let at = all.iter().position(is_it).ok_or_else(absent)?;
    all.remove(at);
    if all.is_empty() {
        expected.remove("rigs");
    }
    let root = parse(text, 0).map_err(|_| "the file cannot be read".to_owned())?;
    let node = match root
        .table()
        .and_then(|root| root.get("rigs"))
        .map(|it| &it.node.value)
    {
        Some(Value::Array(all)) => all.get(at).ok_or_else(absent)?,
        _ => return Err(absent()),
    };
    let (mut every, mut own) = (Vec::new(), Vec::new());
    headers(&root, text, &mut every);
    headers(node, text, &mut own);
    every.sort_unstable();
    let mut after = text.to_owned();
    own.sort_unstable();
    for header in own.into_iter().rev() {
        let next = every.iter().find(|start| **start > header);
        after.replace_range(lines(text, header, next.copied()), "");
    }
    checked(after, &expected)
}

/// Collects where the headers of the tables begin.
fn headers(node: &Node, text: &str, found: &mut Vec<usize>) {
    match &node.value {
        Value::Table(table) => {
            let start = node.place.start;
            if node.place.end > start && text[start..].starts_with('[') {
                found.push(start);
            }
            table
                .values()
                .for_each(|entry| headers(&entry.node, text, found));
        }
        Value::Array(items) => items.iter().for_each(|item| headers(item, text, found)),
        _ => {}
    }
}

/// Returns the lines of a table: its header with the comments right above it, up to its last key. Later comments
/// belong to the next table, or to none.
fn lines(text: &str, header: usize, next: Option<usize>) -> Range<usize> {
    // A directive such as `#:schema` is about the whole file.
    let is_comment = |line: &str| {
        let line = line.trim_start();
        line.starts_with('#') && !line.starts_with("#:")
    };
    let mut start = header;
    for line in text[..header].split_inclusive('\n').rev() {
        if !is_comment(line) {
            break;
        }
        start -= line.len();
    }
    let mut end = next.unwrap_or(text.len());
    for line in text[header..end].split_inclusive('\n').rev() {
        if !is_comment(line) && !line.trim().is_empty() {
            break;
        }
        end -= line.len();
    }
    // One of the two gaps around it.
    let gap = text[end..].split_inclusive('\n').next();
    end += gap
        .filter(|line| line.trim().is_empty())
        .map_or(0, str::len);
    start..end
}

fn table(text: &str) -> Result<toml::Table, String> {
    text.parse()
        .map_err(|error: toml::de::Error| error.to_string())
}

fn rigs(table: &mut toml::Table) -> Result<&mut Vec<toml::Value>, String> {
    let none = || toml::Value::Array(Vec::new());
    let all = table.entry("rigs").or_insert_with(none).as_array_mut();
    all.ok_or_else(|| "`rigs` is no array".to_owned())
}

/// Returns the text if it says what is expected, and nothing else.
fn checked(text: String, expected: &toml::Table) -> Result<String, String> {
    match table(&text) {
        Ok(found) if found == *expected => Ok(text),
        _ => Err("`rigs` is not written as [[rigs]] tables: edit it by hand".to_owned()),
    }
}

/// The reason why an edit was not made.
#[derive(Debug)]
pub enum EditError {
    /// The text cannot be edited so.
    Refused(String),
    /// The configuration would have errors.
    Invalid(Diagnostics),
    /// A file cannot be read or written.
    Io(io::Error),
}

impl From<io::Error> for EditError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Edits the file of a city, if the configuration is valid afterwards. Returns the new configuration. A crash leaves the
/// file as it was, or as it is to be.
///
/// # Errors
/// Why nothing was changed.
pub fn edit(
    file: &Path,
    env: &Env,
    change: impl FnOnce(&str) -> Result<String, String>,
) -> Result<Loaded, EditError> {
    // A link stays one.
    let real = file.canonicalize()?;
    let before = regular::read_text(&real)?;
    let after = change(&before).map_err(EditError::Refused)?;
    let dir = file.parent().unwrap_or(Path::new("."));
    // Paths of the configuration start at its directory, so the trial is there.
    let beside_it = |dir: &Path| {
        NamedTempFile::with_prefix_in(".city.toml.", dir).map_err(regular::of_temporary)
    };
    let mut trial = beside_it(dir)?;
    trial.write_all(after.as_bytes())?;
    let loaded = load(trial.path(), env).map_err(EditError::Invalid)?;
    let beside = real.parent().unwrap_or(Path::new("/"));
    let mut new = beside_it(beside)?;
    new.write_all(after.as_bytes())?;
    fs::set_permissions(new.path(), fs::metadata(&real)?.permissions())?;
    new.as_file().sync_all()?;
    if regular::read_text(&real)? != before {
        let why = "the file was changed meanwhile; nothing is edited";
        return Err(EditError::Refused(why.to_owned()));
    }
    new.persist(&real).map_err(|error| error.error)?;
    fs::File::open(beside)?.sync_all()?;
    Ok(loaded)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    use super::*;

    const CITY: &str = "# a city\n[workspace]\nname = \"c\" # its name\n\n# the first\n[[rigs]]\nname = \"one\"\npath = \"one\"\n\n\
        [rigs.raiders]\nmax = 2\n\n# limits\n[daemon]\nmax_restarts = 3\n";

    fn rig(name: &str) -> NewRig {
        NewRig {
            name: name.to_owned(),
            source: RigSource::Path(PathBuf::from("/src/two")),
            prefix: Some("tw".to_owned()),
            harness: Some("codex".to_owned()),
        }
    }

    #[test]
    fn rig_is_added_and_removed_and_everything_else_stays() {
        let added = with_rig(CITY, &rig("two")).unwrap();
        for line in CITY.lines() {
            assert!(added.contains(line), "{line}: {added}");
        }
        let read: toml::Table = added.parse().unwrap();
        let two = &read["rigs"][1];
        assert_eq!(two["name"].as_str(), Some("two"));
        assert_eq!(two["raiders"]["harness"].as_str(), Some("codex"));
        assert_eq!(read["daemon"]["max_restarts"].as_integer(), Some(3));
        assert_eq!(read["rigs"][0]["raiders"]["max"].as_integer(), Some(2));
        let removed = without_rig(&added, "two").unwrap();
        assert_eq!(removed.trim_end(), CITY.trim_end());
        let none = without_rig(CITY, "one").unwrap();
        assert!(
            !none.contains("rigs") && none.contains("# limits"),
            "{none}"
        );
        let first = with_rig("[workspace]\nname = \"c\"\n", &rig("two")).unwrap();
        assert!(
            first.contains("[[rigs]]\nname = \"two\"\npath = \"/src/two\"\n"),
            "{first}"
        );
    }

    #[test]
    fn directive_of_the_schema_stays_the_first_line() {
        let directive = "#:schema ./.horde/city.schema.json\n";
        let head = format!("{directive}[workspace]\nname = \"c\"\n");
        let added = with_rig(&head, &rig("two")).unwrap();
        assert!(added.starts_with(directive), "{added}");
        assert_eq!(
            without_rig(&added, "two").unwrap().trim_end(),
            head.trim_end()
        );
        // Right above the rig, it is no comment on that rig.
        let only =
            format!("{directive}# my rig\n[[rigs]]\nname = \"two\"\npath = \"x\"\n\n[daemon]\n");
        assert_eq!(
            without_rig(&only, "two").unwrap(),
            format!("{directive}[daemon]\n")
        );
    }

    #[test]
    fn rig_of_another_file_or_another_form_is_refused() {
        let elsewhere = without_rig(CITY, "three").unwrap_err();
        assert!(elsewhere.contains("included"), "{elsewhere}");
        // Tables of a rig in another order than that of their names, and one of another rig between them.
        let mixed = "[[rigs]]\nname = \"one\"\npath = \"one\"\n[rigs.forge]\nstyle = \"squash\"\n[rigs.raiders]\nmax = 2\n\
            [daemon]\nmax_restarts = 3\n[[rigs.forge.gates]]\nname = \"t\"\nrun = \"t\"\n\n# last words\n";
        let added = with_rig(mixed, &rig("two")).unwrap();
        assert!(added.starts_with(mixed.trim_end()), "{added}");
        assert_eq!(
            without_rig(&added, "two").unwrap().trim_end(),
            mixed.trim_end()
        );
        let left = without_rig(&added, "one").unwrap();
        assert!(
            left.starts_with("[daemon]\nmax_restarts = 3\n# last words\n"),
            "{left}"
        );
        let inline = "rigs = [{ name = \"one\", path = \"one\" }]\n";
        assert!(
            with_rig(inline, &rig("two"))
                .unwrap_err()
                .contains("[[rigs]]")
        );
        assert!(with_rig("a = \n", &rig("two")).is_err());
    }

    #[test]
    fn file_is_edited_whole_or_not_at_all() {
        let dir = crate::testing::scratch();
        let (real, link) = (dir.path().join("real.toml"), dir.path().join("city.toml"));
        fs::write(&real, "[workspace]\nname = \"c\"\n").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink("real.toml", &link).unwrap();
        let add =
            |name: &'static str| edit(&link, &Env::default(), |text| with_rig(text, &rig(name)));
        // There is no such repository.
        assert!(matches!(add("two"), Err(EditError::Invalid(_))));
        assert_eq!(
            fs::read_to_string(&real).unwrap(),
            "[workspace]\nname = \"c\"\n"
        );
        let meanwhile = |text: &str| {
            fs::write(&real, "[workspace]\nname = \"d\"\n").unwrap();
            Ok(format!("{text}# more\n"))
        };
        let refused = edit(&link, &Env::default(), meanwhile).unwrap_err();
        assert!(matches!(refused, EditError::Refused(_)), "{refused:?}");
        edit(&link, &Env::default(), |text| Ok(format!("{text}# more\n"))).unwrap();
        assert_eq!(
            fs::read_to_string(&real).unwrap(),
            "[workspace]\nname = \"d\"\n# more\n"
        );
        assert_eq!(
            fs::metadata(&real).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert!(link.is_symlink());
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            2,
            "nothing is left"
        );
    }
}
