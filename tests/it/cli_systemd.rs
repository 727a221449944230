//! `hd config systemd`: the printed unit, read back, and checked by systemd if it is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use assert_cmd::cargo::cargo_bin;

use crate::support::git::write;
use crate::support::program;

const CITY: &str = r#"
[workspace]
name = "bright-lights"
[daemon]
shutdown_timeout = "5s"
[[agents]]
name = "db"
command = ["sleep", "1000"]
shutdown_timeout = "1m"
[[agents]]
name = "api"
command = ["sleep", "1000"]
depends_on = ["db"]
"#;

const ODD: &str = "100% of $HOME";
const ODDER: &str = "my \"100%\" $HOME 'city' \\ n";

/// A city, and `hd` beside an executable, in directories of these names.
struct SampleDir {
    dir: tempfile::TempDir,
    bin: &'static str,
    city: &'static str,
}

impl SampleDir {
    fn new() -> Self {
        Self::named("bin", "city")
    }

    fn named(bin: &'static str, city: &'static str) -> Self {
        let dir = horde_supervisor::testing::scratch();
        let place = Self { dir, bin, city };
        fs::create_dir_all(place.city()).unwrap();
        fs::create_dir_all(place.bin()).unwrap();
        write(&place.city(), "city.toml", CITY);
        program::script(&place.bin().join("horde-supervisor"), "");
        program::copy(&cargo_bin("hd"), &place.hd());
        place
    }

    fn bin(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(self.bin)
    }

    fn city(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(self.city)
    }

    fn hd(&self) -> PathBuf {
        self.bin().join("hd")
    }

    fn unit(&self, words: &[&str]) -> String {
        let mut hd = Command::new(self.hd());
        hd.env_clear().env("PATH", "/usr/bin:/opt/my tools/100%");
        hd.arg("--city")
            .arg(self.city())
            .args(["config", "systemd"]);
        let ran = hd.args(words).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    }
}

/// Returns the last value of a key.
fn value(unit: &str, key: &str) -> String {
    let mut lines = unit.lines().filter(|line| !line.starts_with('#'));
    let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    value
        .unwrap_or_else(|| panic!("no {key} in {unit}"))
        .to_owned()
}

/// Splits a command line into words as systemd does; specifiers and variables expand to themselves.
fn words(line: &str) -> Vec<String> {
    let line = line.replace("%%", "%").replace("$$", "$");
    shell_words::split(&line.replace('$', "\\$")).unwrap()
}

#[test]
fn the_unit_for_a_user() {
    let place = SampleDir::new();
    let unit = place.unit(&["--user"]);
    let unit = unit.replace(place.city().to_str().unwrap(), "/city");
    let unit = unit.replace(place.bin().to_str().unwrap(), "/bin");
    let mut settings = insta::Settings::clone_current();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/systemd");
    settings.set_snapshot_path(data);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("user", unit));
}

#[test]
fn the_unit_for_the_machine_names_a_user() {
    let unit = SampleDir::new().unit(&[]);
    assert!(!value(&unit, "User").is_empty());
    assert_eq!(value(&unit, "WantedBy"), "multi-user.target");
    assert_eq!(value(&unit, "RestartPreventExitStatus"), "2 4");
}

#[test]
fn paths_of_any_kind_come_back_as_they_are() {
    let place = SampleDir::named(ODD, ODDER);
    let unit = place.unit(&["--user"]);
    let text = |path: PathBuf| path.to_str().unwrap().to_owned();
    let file = text(place.city().join("city.toml"));
    let start = words(&value(&unit, "ExecStart"));
    let supervisor = text(place.bin().join("horde-supervisor"));
    assert_eq!(start, [supervisor.as_str(), &file]);
    let reload = words(&value(&unit, "ExecReload"));
    let expected = [&text(place.hd()), "--city", &file, "reload"];
    assert_eq!(reload, expected);
    let path = words(&value(&unit, "Environment"));
    assert_eq!(path, ["PATH=/usr/bin:/opt/my tools/100%"]);
}

/// Two agents in a chain, with a minute each.
#[test]
fn a_stop_may_take_longer_than_all_graces() {
    let unit = SampleDir::new().unit(&["--user"]);
    let limit: u64 = value(&unit, "TimeoutStopSec").parse().unwrap();
    assert!(limit > 2 * 60 + 10, "{limit}");
}

#[test]
fn a_wrong_configuration_has_no_unit() {
    let place = SampleDir::new();
    write(&place.city(), "city.toml", "[workspace]\nnam = \"x\"\n");
    let mut hd = Command::new(place.hd());
    let ran = hd
        .arg("--city")
        .arg(place.city())
        .args(["config", "systemd"]);
    let ran = ran.output().unwrap();
    assert_eq!(ran.status.code(), Some(2));
    assert!(ran.stdout.is_empty());
}

/// If systemd is installed, its own check accepts the unit.
#[test]
fn systemd_finds_nothing_wrong_with_it() {
    let analyze = Path::new("/usr/bin/systemd-analyze");
    if !analyze.exists() {
        return;
    }
    for (bin, city, words) in [("bin", "city", &["--user"][..]), (ODD, ODDER, &[])] {
        let place = SampleDir::named(bin, city);
        let unit = place.dir.path().join("horde-bright-lights.service");
        fs::write(&unit, place.unit(words)).unwrap();
        let mut analyze = Command::new(analyze);
        // systemd does not assume a user's manager without this variable.
        analyze.env("XDG_RUNTIME_DIR", place.dir.path());
        let ran = analyze.args(["verify", "--man=no"]).args(words).arg(&unit);
        let ran = ran.output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        let about = said
            .lines()
            .filter(|line| line.contains("horde-bright-lights"));
        assert_eq!(about.collect::<Vec<_>>(), Vec::<&str>::new(), "{said}");
        assert!(ran.status.success(), "{said}");
    }
}
