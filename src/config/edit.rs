//! Edits `city.toml` as a person would: comments, order and layout of everything else stay.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use tempfile::NamedTempFile;
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, value};

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

/// Returns the text with one more rig at its end.
///
/// # Errors
/// Why the text cannot be edited.
pub fn with_rig(text: &str, rig: &NewRig) -> Result<String, String> {
    let mut document = parsed(text)?;
    let mut table = Table::new();
    table.insert("name", value(&rig.name));
    match &rig.source {
        RigSource::Path(path) => {
            let path = path.to_str().ok_or("the path is no UTF-8 text")?;
            table.insert("path", value(path))
        }
        RigSource::Remote(remote) => table.insert("remote", value(remote)),
    };
    if let Some(prefix) = &rig.prefix {
        table.insert("prefix", value(prefix));
    }
    if let Some(harness) = &rig.harness {
        let mut raiders = Table::new();
        raiders.insert("harness", value(harness));
        table.insert("raiders", Item::Table(raiders));
    }
    let all = document.entry("rigs");
    let all = all.or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    rigs(all)?.push(table);
    Ok(document.to_string())
}

/// Returns the text without a rig, its tables and the comments of these.
///
/// # Errors
/// Why the text cannot be edited.
pub fn without_rig(text: &str, name: &str) -> Result<String, String> {
    let mut document = parsed(text)?;
    let absent = || format!("the rig {name} is not in this file; it may be in an included one");
    let all = rigs(document.get_mut("rigs").ok_or_else(absent)?)?;
    let is_it = |table: &Table| table.get("name").and_then(Item::as_str) == Some(name);
    let at = all.iter().position(is_it).ok_or_else(absent)?;
    all.remove(at);
    Ok(document.to_string())
}

fn parsed(text: &str) -> Result<DocumentMut, String> {
    let read: Result<DocumentMut, _> = text.parse();
    read.map_err(|error| error.to_string())
}

fn rigs(item: &mut Item) -> Result<&mut ArrayOfTables, String> {
    let all = item.as_array_of_tables_mut();
    all.ok_or_else(|| "`rigs` is not written as [[rigs]] tables".to_owned())
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
    let mut trial = NamedTempFile::with_prefix_in(".city.toml.", dir)?;
    trial.write_all(after.as_bytes())?;
    let loaded = load(trial.path(), env).map_err(EditError::Invalid)?;
    let beside = real.parent().unwrap_or(Path::new("/"));
    let mut new = NamedTempFile::with_prefix_in(".city.toml.", beside)?;
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
    fn rig_of_another_file_or_another_form_is_refused() {
        let elsewhere = without_rig(CITY, "three").unwrap_err();
        assert!(elsewhere.contains("included"), "{elsewhere}");
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
