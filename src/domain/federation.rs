//! Chains of other cities: the lines of an export, and the checks before an import (`raider-lifecycle.md`, federation).
//!
//! An export is JSON Lines. The first line is the [`Header`]; each further one is a [`Line`]: an entry and the name of
//! its chain, each chain in order. The last line is the [`End`] with the end of each chain: without it, the file was cut. A
//! hash proves that an entry was not changed since it was written, not by whom: there are no
//! signatures.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cv::{Break, CvEntry, Head};
use super::ids::{IdentityName, check_name};
use super::shown;

/// The format's name in the header.
pub const FORMAT: &str = "horde-cv";
/// The version of the format.
pub const VERSION: u32 = 1;
/// The most bytes of a line.
pub const LINE_MAX: usize = 16 * 1024;
/// The most bytes of the last line, which has up to [`CHAINS_MAX`] ends.
const END_MAX: usize = 128 * 1024;
/// The most bytes of a file.
pub const FILE_MAX: u64 = 64 * 1024 * 1024;
/// The most chains of one city.
pub const CHAINS_MAX: usize = 256;
/// The most entries of one city.
pub const ENTRIES_MAX: u64 = 100_000;
/// The most bytes of the entries of one city.
pub const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The most cities whose chains are kept.
pub const CITIES_MAX: usize = 64;

/// The city that a file comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The name of the city.
    pub city: String,
    /// The id of its store, which each entry's data names, too.
    pub id: String,
}

impl Header {
    /// Makes the header of a city.
    #[must_use]
    pub fn new(city: &str, id: &str) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            city: city.to_owned(),
            id: id.to_owned(),
        }
    }

    /// Checks format, version, name and id. The name becomes part of what is shown.
    ///
    /// # Errors
    /// The reason, for a person.
    pub fn check(&self) -> Result<(), String> {
        if self.format != FORMAT {
            return Err("this is no export of identity chains".to_owned());
        }
        if self.version != VERSION {
            let version = self.version;
            return Err(format!(
                "the export has version {version}, this program reads version {VERSION}"
            ));
        }
        check_name("city name", &self.city).map_err(|error| error.to_string())?;
        check_name("city id", &self.id).map_err(|error| error.to_string())
    }
}

/// An entry of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// The name of the chain.
    pub name: String,
    /// The entry.
    #[serde(flatten)]
    pub entry: CvEntry,
}

impl Line {
    /// Returns its size, as the bound of a city counts it.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let CvEntry {
            prev,
            hash,
            kind,
            data,
            ..
        } = &self.entry;
        let texts = [&self.name, prev, hash, kind, &data.to_string()].map(String::len);
        texts.iter().sum::<usize>() as u64
    }
}

/// The last line of an export.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// The ends of its chains by name.
    pub heads: BTreeMap<String, Head>,
}

/// The chains of an export as they are checked, line by line.
#[derive(Debug)]
pub struct Checked {
    id: String,
    /// The ends of the chains so far.
    pub heads: BTreeMap<String, Head>,
    entries: u64,
    bytes: u64,
}

impl Checked {
    /// Begins the check of entries of the city with this id, after chains of this size that were checked before.
    #[must_use]
    pub fn after(id: &str, heads: BTreeMap<String, Head>, bytes: u64) -> Self {
        let entries = heads.values().map(|head| head.seq).sum();
        Self {
            id: id.to_owned(),
            heads,
            entries,
            bytes,
        }
    }

    /// Checks that a line follows in its chain, and is of this city.
    ///
    /// # Errors
    /// The reason, for a person.
    pub fn add(&mut self, line: &Line) -> Result<(), String> {
        let name = IdentityName::new(&*line.name).map_err(|error| error.to_string())?;
        let seq = line.entry.seq;
        let at = |why: String| Err(format!("entry {seq} of {name}: {why}"));
        if line.entry.data.get("city").and_then(|city| city.as_str()) != Some(&self.id) {
            return at("it is of another city than the export".to_owned());
        }
        let kind = &line.entry.kind;
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if kind.is_empty() || kind.len() > 32 || !kind.chars().all(is_word) {
            return at("its kind is not a word".to_owned());
        }
        if self.entries >= ENTRIES_MAX {
            return at(format!("a city may have {ENTRIES_MAX} entries here"));
        }
        let bytes = self.bytes.saturating_add(line.bytes());
        if bytes > BYTES_MAX {
            return at(format!(
                "the entries of a city may have {BYTES_MAX} bytes here; `hd cv forget CITY` deletes them"
            ));
        }
        if self.heads.len() >= CHAINS_MAX && !self.heads.contains_key(&line.name) {
            return at(format!("a city may have {CHAINS_MAX} chains here"));
        }
        let head = self.heads.entry(line.name.clone()).or_default();
        match head.follow(&line.name, &line.entry) {
            Ok(()) => {
                self.entries += 1;
                self.bytes = bytes;
                Ok(())
            }
            Err(Break { seq: due, flaw }) => {
                at(format!("where entry {due} is due, it {}", flaw.says()))
            }
        }
    }
}

/// Reads an export and checks all of it.
///
/// # Errors
/// The line and the reason, for a person.
pub fn read(text: &str) -> Result<(Header, Vec<Line>), String> {
    let mut lines = text.lines().enumerate();
    // The text of a reason may come from the file.
    let at = |number: usize, why: String| format!("line {}: {}", number + 1, shown::line(&why));
    let Some((_, first)) = lines.next() else {
        return Err("the file is empty".to_owned());
    };
    let bounded = |line: &str| match line.len() > LINE_MAX {
        true => Err(format!("it is longer than {LINE_MAX} bytes")),
        false => Ok(()),
    };
    bounded(first).map_err(|why| at(0, why))?;
    let header: Header = serde_json::from_str(first)
        .map_err(|error| at(0, format!("this is no export of identity chains: {error}")))?;
    header.check().map_err(|why| at(0, why))?;
    let mut checked = Checked::after(&header.id, BTreeMap::new(), 0);
    let (mut all, mut ended) = (Vec::new(), false);
    for (number, text) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        if ended {
            return Err(at(
                number,
                "it comes after the end of the export".to_owned(),
            ));
        }
        if let Some(end) = end(text) {
            if end.heads != checked.heads {
                let why = "the ends of the chains are not those of the entries before it";
                return Err(at(number, why.to_owned()));
            }
            ended = true;
            continue;
        }
        bounded(text).map_err(|why| at(number, why))?;
        let line: Line =
            serde_json::from_str(text).map_err(|error| at(number, error.to_string()))?;
        checked.add(&line).map_err(|why| at(number, why))?;
        all.push(line);
    }
    if !ended {
        return Err("its last line is missing: the export was cut".to_owned());
    }
    Ok((header, all))
}

/// Reads a line as the end of an export; none for another line.
fn end(text: &str) -> Option<End> {
    let is_short = text.len() <= END_MAX;
    serde_json::from_str(text).ok().filter(|_| is_short)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn export(names: &[&str], entries: u64) -> Vec<String> {
        let mut lines = vec![serde_json::to_string(&Header::new("north", "id-1")).unwrap()];
        let mut end = End::default();
        for name in names {
            let mut head = Head::default();
            for n in 0..entries {
                let entry = head.next(
                    name,
                    "merged",
                    &json!({ "city": "id-1", "relic": format!("gt-{n}") }),
                );
                head.follow(name, &entry).unwrap();
                let name = (*name).to_owned();
                lines.push(serde_json::to_string(&Line { name, entry }).unwrap());
            }
            end.heads.insert((*name).to_owned(), head);
        }
        lines.push(serde_json::to_string(&end).unwrap());
        lines
    }

    #[test]
    fn whole_export_is_read() {
        let (header, lines) = read(&export(&["claude", "codex/x"], 3).join("\n")).unwrap();
        assert_eq!((header.city.as_str(), lines.len()), ("north", 6));
    }

    #[test]
    fn export_that_does_not_verify_is_refused_with_its_line() {
        let good = export(&["claude"], 3);
        let with = |line: usize, from: &str, to: &str| {
            let mut lines = good.clone();
            assert!(lines[line].contains(from), "{}", lines[line]);
            lines[line] = lines[line].replace(from, to);
            read(&lines.join("\n")).unwrap_err()
        };
        let cases = [
            (
                with(2, "gt-1", "gt-9"),
                "line 3: entry 2 of claude: where entry 2 is due, it was changed",
            ),
            (with(2, "\"id-1\"", "\"id-2\""), "another city"),
            (with(0, "id-1", "id-2"), "another city"),
            (with(0, "north", "n\\u001b[31m"), "invalid city name"),
            (with(0, "horde-cv", "x"), "no export"),
            (with(0, "\"version\":1", "\"version\":2"), "version 2"),
            (with(1, "\"claude\"", "\"cl\\naude\""), "invalid identity"),
            (with(1, "merged", "Merged\\n"), "its kind is not a word"),
        ];
        for (error, wanted) in cases {
            assert!(error.contains(wanted), "{error}");
            assert!(!error.contains(['\u{1b}', '\n']), "{error:?}");
        }
        let mut gap = good.clone();
        gap.remove(2);
        let error = read(&gap.join("\n")).unwrap_err();
        assert!(
            error.contains("where entry 2 is due, it is missing"),
            "{error}"
        );
        assert!(read("").is_err());
        // An export that was cut at the end of a line, or whose chain was.
        for lines in 1..good.len() {
            let error = read(&good[..lines].join("\n")).unwrap_err();
            assert!(error.contains("the export was cut"), "{error}");
        }
        let mut shorter = good.clone();
        shorter.remove(3);
        let error = read(&shorter.join("\n")).unwrap_err();
        assert!(error.contains("line 4: the ends of the chains"), "{error}");
        let mut longer = good.clone();
        longer.push(good[4].clone());
        let error = read(&longer.join("\n")).unwrap_err();
        assert!(error.contains("after the end"), "{error}");
        let mut long = good;
        long[1] = long[1].replace("gt-0", &"x".repeat(LINE_MAX));
        assert!(read(&long.join("\n")).unwrap_err().contains("longer"));
    }

    #[test]
    fn bytes_of_a_city_are_bounded() {
        let (header, lines) = read(&export(&["claude"], 2).join("\n")).unwrap();
        let size = lines.iter().map(Line::bytes).sum::<u64>();
        let add = |before: u64| {
            let mut checked = Checked::after(&header.id, BTreeMap::new(), before);
            lines.iter().try_for_each(|line| checked.add(line))
        };
        assert_eq!(add(BYTES_MAX - size), Ok(()));
        let refused = add(BYTES_MAX - size + 1).unwrap_err();
        assert!(refused.contains("hd cv forget"), "{refused}");
    }

    #[test]
    fn number_of_chains_is_bounded() {
        let names: Vec<String> = (0..=CHAINS_MAX).map(|n| format!("a{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let error = read(&export(&names, 1).join("\n")).unwrap_err();
        assert!(error.contains("256 chains"), "{error}");
    }
}
