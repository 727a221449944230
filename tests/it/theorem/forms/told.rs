//! Configuration that an agent gives git: settings, attributes and filters under which git overlooks work.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::super::ends::Dice;
use super::{Agent, Form};

/// Settings that change how git reads a work tree.
const SETTINGS: &[(&str, &[&str])] = &[
    ("core.autocrlf", &["true", "input", "false"]),
    ("core.bigFileThreshold", &["1", "100"]),
    ("core.checkStat", &["minimal", "default"]),
    ("core.eol", &["crlf", "lf", "native"]),
    ("core.excludesFile", &["/dev/null", "/nowhere"]),
    ("core.attributesFile", &["/dev/null", "/nowhere"]),
    ("core.fileMode", &["false", "true"]),
    ("core.fsmonitor", &["printf '1\\0'", "true", "/gone/tool"]),
    ("core.ignoreCase", &["true"]),
    ("core.ignoreStat", &["true"]),
    ("core.looseCompression", &["0"]),
    ("core.precomposeUnicode", &["true"]),
    ("core.preloadIndex", &["false"]),
    ("core.protectHFS", &["true", "false"]),
    ("core.protectNTFS", &["true", "false"]),
    ("core.quotePath", &["false"]),
    ("core.safecrlf", &["true", "warn", "false"]),
    ("core.sharedRepository", &["group"]),
    ("core.sparseCheckout", &["false"]),
    ("core.splitIndex", &["true", "false"]),
    ("core.symlinks", &["false", "true"]),
    ("core.trustctime", &["false"]),
    ("core.untrackedCache", &["true", "keep"]),
    ("core.useReplaceRefs", &["true", "false"]),
    ("diff.ignoreSubmodules", &["all"]),
    ("diff.external", &["/gone/tool"]),
    ("feature.manyFiles", &["true"]),
    ("index.skipHash", &["true"]),
    ("index.sparse", &["true"]),
    ("index.threads", &["1"]),
    ("index.version", &["2", "4"]),
    ("merge.renormalize", &["true"]),
    ("status.showUntrackedFiles", &["no", "all"]),
    ("submodule.recurse", &["true"]),
];

/// The left side of a line of attributes.
const PATTERNS: &[&str] = &["*", "*.txt", "README", "src/**", "told", "/run.sh"];

/// The right side of a line of attributes.
const ATTRIBUTES: &[&str] = &[
    "text",
    "-text",
    "text=auto",
    "eol=crlf",
    "eol=lf",
    "ident",
    "binary",
    "crlf=input",
    "filter=one",
    "filter=other",
    "filter=none-such",
    "working-tree-encoding=UTF-16",
    "working-tree-encoding=nonsense",
    "export-subst",
];

/// The commands of a filter.
const FILTERS: &[&str] = &[
    "cat",
    "head -c 2",
    "tr a-z A-Z",
    "true",
    "false",
    "/gone/tool",
    "",
];

/// Changes bytes without changing size or times.
fn change_unseen(file: &Path) {
    let Ok(found) = fs::metadata(file) else {
        return;
    };
    let time = found.modified().expect("a time");
    fs::write(file, "x".repeat(found.len() as usize)).expect("written");
    let open = File::options().write(true).open(file).expect("open");
    open.set_modified(time).expect("set");
}

impl Agent<'_> {
    fn config(&self, settings: &[(&str, &str)]) {
        for (key, value) in settings {
            self.run(&["config", key, value]);
        }
    }

    /// Returns the repository that all sandboxes share.
    pub(super) fn shared(&self) -> PathBuf {
        let rig = self.dir.parent().and_then(Path::parent);
        rig.expect("a rig").join("repo.git")
    }

    /// Configures git, and works where it does not look.
    pub(super) fn apply_setting(&self, form: Form) {
        let dir = self.dir;
        match form {
            Form::LossyFilter => {
                let strip = ("filter.strip.clean", "head -c 2");
                self.config(&[strip, ("filter.strip.smudge", "cat")]);
                let text = [b"b\n", &self.text[..]].concat();
                fs::write(dir.join("src/book.nb"), text).expect("written");
                self.run(&["add", "src/book.nb"]);
            }
            Form::NoDriver => fs::write(dir.join("src/x.dat"), "one\r\ntwo\r\n").expect("written"),
            Form::FilterGone => {
                let gone = ("filter.gone.clean", "/gone/tool");
                self.config(&[gone, ("filter.gone.smudge", "/gone/tool")]);
                self.config(&[("filter.gone.required", "true")]);
                self.write("src/.gitattributes", "\n*.gone filter=gone\n");
                self.write("src/x.gone", "gone\n");
            }
            Form::IgnoreCase => {
                self.config(&[("core.ignoreCase", "true")]);
                self.write("readme", "beside README\n");
                self.write("SRC/a.txt", "beside src\n");
            }
            Form::SameStat => {
                let stat = ("core.checkStat", "minimal");
                self.config(&[stat, ("core.trustctime", "false")]);
                change_unseen(&dir.join("src/stat"));
            }
            Form::NoModes => {
                self.config(&[("core.fileMode", "false"), ("core.symlinks", "false")]);
                let (mode, link) = (dir.join("src/mode"), dir.join("src/link"));
                fs::set_permissions(mode, Permissions::from_mode(0o755)).expect("set");
                fs::remove_file(&link).expect("removed");
                symlink("nowhere", link).expect("linked");
            }
            Form::UserNoModes => {
                let (mode, link) = (dir.join("src/mode"), dir.join("src/link"));
                fs::set_permissions(mode, Permissions::from_mode(0o755)).expect("set");
                fs::remove_file(&link).expect("removed");
                symlink("nowhere", link).expect("linked");
                self.write("made.sh", "#!/bin/sh\n");
                let made = dir.join("made.sh");
                fs::set_permissions(made, Permissions::from_mode(0o700)).expect("set");
                symlink("README", dir.join("made-link")).expect("linked");
            }
            Form::Monitor => {
                let cached = ("core.untrackedCache", "true");
                self.config(&[("core.fsmonitor", "printf '1\\0'"), cached]);
                self.run(&["status"]);
                self.write("src/stat", "not told of\n");
                self.write("src/unheard", "new\n");
            }
            Form::Exclude => {
                let exclude = self.shared().join("info/exclude");
                fs::write(exclude, "*\n").expect("written");
                self.write("src/notes", "excluded\n");
            }
            Form::SplitIndex => {
                let parts = ("splitIndex.maxPercentChange", "100");
                self.config(&[("core.splitIndex", "true"), parts]);
                self.run(&["update-index", "--index-version=4", "--split-index"]);
                self.write("src/split", "staged\n");
                self.run(&["add", "src/split"]);
                self.write("src/split", "edited after\n");
            }
            _ => self.tell_anything(),
        }
    }

    /// Makes random settings, attributes and filters; then works.
    fn tell_anything(&self) {
        let mut dice = Dice::of(&self.text);
        self.config(&[("horde.told", "1")]);
        for _ in 0..dice.below(6) {
            let (key, values) = SETTINGS[dice.below(SETTINGS.len())];
            self.config(&[(key, values[dice.below(values.len())])]);
        }
        for name in ["one", "other"] {
            for key in ["clean", "smudge", "process"] {
                if dice.below(3) == 0 {
                    let key = format!("filter.{name}.{key}");
                    self.config(&[(&key, FILTERS[dice.below(FILTERS.len())])]);
                }
            }
            let required = ["true", "false"][dice.below(2)];
            self.config(&[(&format!("filter.{name}.required"), required)]);
        }
        let lines = (0..dice.below(4)).map(|_| {
            let pattern = PATTERNS[dice.below(PATTERNS.len())];
            format!("{pattern} {}\n", ATTRIBUTES[dice.below(ATTRIBUTES.len())])
        });
        let lines: String = lines.collect();
        let place = match dice.below(3) {
            0 => self.dir.join(".gitattributes"),
            1 => self.dir.join("src/.gitattributes"),
            _ => self.shared().join("info/attributes"),
        };
        fs::write(place, lines).expect("written");
        let runs: &[&[&str]] = &[
            &["status"],
            &["add", "-A"],
            &["add", "-N", "."],
            &["stash"],
            &["diff"],
        ];
        self.run(runs[dice.below(runs.len())]);
        self.write("told", "told\n");
        if dice.below(2) == 0 {
            change_unseen(&self.dir.join("src/stat"));
        }
        self.run(runs[dice.below(2)]);
    }
}
