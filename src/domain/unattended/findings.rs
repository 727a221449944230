//! Findings about a harness in use, each with the command that fixes it.

use super::asks::refuses_root;
use super::{Answer, Ask, ProgramFacts, Start};
use crate::domain::doctor::{Finding, Kind};

/// The observations of a harness whose program is installed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InstalledHarness {
    /// Its version.
    pub version: Option<String>,
    /// The trace of its login: a variable, a file.
    pub login: Option<String>,
    /// The questions that it would ask, except those that its settings already answer.
    pub asks: Vec<Ask>,
    /// The reason why a settings file cannot be read.
    pub unreadable: Option<String>,
}

/// Returns everything that would keep its sessions from starting without a person.
#[must_use]
pub fn findings(known: &ProgramFacts, start: &Start<'_>, seen: &InstalledHarness) -> Vec<Finding> {
    let name = &start.harness.name;
    let subject = format!("harness {name}");
    let finding = |kind, says: String, hint: String| Finding::new(kind, &subject, says, hint);
    let mut found = Vec::new();
    if let (Some(proven), Some(version)) = (known.proven, &seen.version)
        && line(proven) != line(version)
    {
        let says = format!(
            "{} is version {version}, and its preset was proven with {proven}",
            known.program
        );
        let hint = format!("`hd harness test {name}` tests the preset with this version");
        found.push(finding(Kind::HarnessVersion, says, hint));
    }
    if seen.login.is_none() {
        let hint = format!("log in as the user of the sessions: {}", known.login.how);
        found.push(finding(Kind::Login, no_login(known, start), hint));
    }
    if refuses_root(known, start) {
        let says = "its full mode refuses to run as root, and sessions run as root".to_owned();
        let hint = format!(
            "run the supervisor as an ordinary user; in a container, `[harness.{name}] env = {{ IS_SANDBOX = \"1\" }}`"
        );
        found.push(finding(Kind::Root, says, hint));
    }
    for ask in &seen.asks {
        let says = format!("its sessions ask a person at their start: {}", ask.what);
        let hint = match &ask.answer {
            Answer::Setting { .. } => format!("`hd harness setup {name}`"),
            Answer::Config(how) => format!("[harness.{name}] {how}"),
        };
        found.push(finding(Kind::Trust, says, hint));
    }
    if let Some(why) = &seen.unreadable {
        let hint = "fix that file: its program may fail to read it, too".to_owned();
        found.push(finding(Kind::Unseen, why.clone(), hint));
    }
    found
}

/// Describes where a login was looked for.
fn no_login(known: &ProgramFacts, start: &Start<'_>) -> String {
    let files = known.login.files.iter();
    let files = files.map(|(dir, name)| dir.file(start, name).display().to_string());
    let places: Vec<String> = files
        .chain(known.login.env.iter().map(|name| (*name).to_owned()))
        .collect();
    format!(
        "no login of {} was found; its sessions have none of these: {}",
        known.program,
        places.join(", ")
    )
}

/// Returns the part of a version that stays the same between compatible releases: its first number, and the second
/// while the first is 0.
fn line(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.').map(|number| number.parse().ok());
    match (numbers.next()??, numbers.next().flatten()) {
        (0, minor) => Some((0, minor?)),
        (major, _) => Some((major, 0)),
    }
}

impl super::ProgramFacts {
    /// Returns true when the program would end at once, because it does not run as root in this mode.
    #[must_use]
    pub fn refuses_root(&self, start: &Start<'_>) -> bool {
        refuses_root(self, start)
    }
}
