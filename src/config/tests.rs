//! Whole configurations: the samples in `tests/data/config`, the shipped files, and the promise that no default lives
//! in code.

mod agents;
mod agreement;
mod automations;
mod cost;
mod includes;
mod presets;
mod quoted;
mod recordings;
mod rituals;
mod schema;

use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::domain::ids::RigName;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/config");

/// A directory with the files that the samples name: repositories, prompts, fragments.
struct SampleDir {
    dir: tempfile::TempDir,
}

impl SampleDir {
    fn new() -> Self {
        let dir = crate::testing::scratch();
        let place = Self { dir };
        for folder in [
            "repo/.git",
            "repo/inner",
            "other/.git",
            "docs",
            "home/repo/.git",
        ] {
            fs::create_dir_all(place.path(folder)).unwrap();
        }
        for folder in ["home/src/horde/.git", "bare.git/objects", "bare.git/refs"] {
            fs::create_dir_all(place.path(folder)).unwrap();
        }
        place.write("bare.git/HEAD", "ref: refs/heads/main\n");
        place.write("prompt.md", "Keep the city running.\n");
        place.write("empty.md", "\n");
        for fragment in toml_files(&Path::new(DATA).join("fragments")) {
            let name = fragment.file_name().unwrap().to_str().unwrap();
            let text = fs::read_to_string(&fragment).unwrap();
            place.write(&format!("fragments/{name}"), &text);
        }
        place
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(relative)
    }

    fn write(&self, relative: &str, text: &str) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn env(&self) -> Env {
        let home = Some(self.path("home"));
        Env { home }
    }

    fn load(&self, text: &str) -> Result<Loaded, Diagnostics> {
        self.write("city.toml", text);
        load(&self.path(""), &self.env())
    }

    /// Returns the rendered diagnostics, without the name of the temporary directory.
    fn rendered(&self, diagnostics: &Diagnostics) -> String {
        let root = self.path("");
        let root = root.to_str().unwrap().trim_end_matches('/');
        diagnostics.render(false).replace(root, "$CITY")
    }
}

fn toml_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "toml")
    });
    files.sort();
    assert!(!files.is_empty());
    files
}

fn golden(folder: &str, name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(Path::new(DATA).join(folder));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

fn each_sample(folder: &str, test: impl Fn(&str, &SampleDir, Result<Loaded, Diagnostics>)) {
    for sample in toml_files(&Path::new(DATA).join(folder)) {
        let place = SampleDir::new();
        let loaded = place.load(&fs::read_to_string(&sample).unwrap());
        test(
            sample.file_stem().unwrap().to_str().unwrap(),
            &place,
            loaded,
        );
    }
}

#[test]
fn wrong_samples_say_everything_that_is_wrong_with_them() {
    each_sample("invalid", |name, place, loaded| {
        let errors = loaded.expect_err(name);
        golden("invalid", name, &place.rendered(&errors));
        for item in errors.to_json().as_array().unwrap() {
            for key in ["file", "line", "column", "message"] {
                assert!(!item[key].is_null(), "{name}: {key} is missing in {item}");
            }
        }
    });
}

#[test]
fn valid_samples_load_and_their_shown_form_loads_to_the_same_city() {
    each_sample("valid", |name, place, loaded| {
        let loaded = loaded.unwrap_or_else(|errors| panic!("{name}: {errors}"));
        golden(
            "valid",
            &format!("{name}.warnings"),
            &place.rendered(&loaded.warnings),
        );
        let again = place.load(&show(&loaded));
        let mut again = again.unwrap_or_else(|errors| panic!("{name}: {errors}"));
        again.city.revision.clone_from(&loaded.city.revision);
        assert_eq!(again.city, loaded.city, "{name}");
        let shown: toml::Table = toml::from_str(&show(&loaded)).unwrap();
        assert_eq!(serde_json::to_value(shown).unwrap(), show_json(&loaded));
    });
}

#[test]
fn the_defaults_are_those_of_the_contract() {
    let place = SampleDir::new();
    let one_rig = fs::read_to_string(format!("{DATA}/valid/one-rig.toml")).unwrap();
    let loaded = place.load(&one_rig).unwrap();
    let root = place.path("");
    let root = root.to_str().unwrap().trim_end_matches('/');
    let mut frozen = loaded.city.clone();
    // They are as their files say, and have tests of their own.
    frozen.rituals.clear();
    let city = format!("{frozen:#?}\n").replace(root, "$CITY");
    let revision = &loaded.city.revision;
    golden(
        "valid",
        "one-rig.city",
        &city.replace(revision, "sha256:..."),
    );
}

#[test]
fn everything_that_can_be_set_is_frozen() {
    let place = SampleDir::new();
    let everything = fs::read_to_string(format!("{DATA}/valid/everything.toml")).unwrap();
    let loaded = place.load(&everything).unwrap();
    let root = place.path("");
    let root = root.to_str().unwrap().trim_end_matches('/');
    let mut city = loaded.city.clone();
    city.harnesses.retain(|name, _| name.as_str() == "mine");
    city.rituals.clear();
    city.revision = "sha256:...".into();
    // The fingerprint covers the directory, which differs each time.
    city.agents
        .iter_mut()
        .for_each(|agent| agent.fingerprint = "sha256:...".into());
    golden(
        "valid",
        "everything.city",
        &format!("{city:#?}\n").replace(root, "$CITY"),
    );
    let sources = ["city.toml", "fragments/web.toml", "prompt.md"];
    assert_eq!(loaded.sources, sources.map(|source| place.path(source)));
}

#[test]
fn the_shipped_example_loads_without_a_warning() {
    let place = SampleDir::new();
    let loaded = place.load(include_str!("../../config/example.toml"));
    let loaded = loaded.unwrap_or_else(|errors| panic!("{errors}"));
    assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
    assert_eq!(loaded.city.rigs.len(), 2);
    assert_eq!(loaded.city.rigs[1].prefix, "ws");
}

/// Collects every key of the default file, as a path: `daemon`, `max_restarts`.
fn keys(table: &toml::Table, path: &[String], found: &mut Vec<Vec<String>>) {
    for (key, value) in table {
        let mut here = path.to_vec();
        here.push(key.clone());
        match value {
            toml::Value::Table(inner) if !inner.is_empty() => keys(inner, &here, found),
            _ => found.push(here),
        }
    }
}

fn without(defaults: &toml::Table, path: &[String]) -> toml::Table {
    let mut defaults = defaults.clone();
    let mut table = &mut defaults;
    let (last, folders) = path.split_last().unwrap();
    for folder in folders {
        table = table[folder].as_table_mut().unwrap();
    }
    assert!(table.remove(last).is_some());
    defaults
}

/// Configurations that complement each other: a key that is set in one is left to its default in another.
const COMPLEMENTS: [&str; 5] = [
    "workspace.name = \"c\"\nworkspace.budget = { usd_per_day = 1 }\n\
     [harness.pi.prices]\nm = { input = 1, output = 1 }\n",
    "workspace.name = \"c\"\n",
    "workspace.name = \"c\"\n\
     [[rigs]]\nname = \"r\"\npath = \"repo\"\nforge.gates = [{ name = \"t\", run = \"t\" }]\n\
     [[agents]]\nname = \"a\"\ncommand = [\"true\"]\n",
    "workspace.name = \"c\"\n\
     [[rigs]]\nname = \"r\"\nremote = \"git@example.org:r.git\"\n\
     [[agents]]\nname = \"a\"\nharness = \"claude\"\nprompt = \"p\"\n",
    "workspace.name = \"c\"\n\
     [[agents]]\nname = \"a\"\ncommand = [\"true\"]\npool = { check = \"true\" }\n\
     [[agents]]\nname = \"b\"\ncommand = [\"true\"]\npool = { max = 2 }\n\
     [[groups]]\nname = \"g\"\n",
];

/// Removes each default in turn: if the code had a default of its own, loading would not fail.
#[test]
fn no_default_lives_in_code() {
    let place = SampleDir::new();
    let automation = "exec = \"true\"\ngate = \"manual\"\n";
    place.write("automations/x/automation.toml", automation);
    let of_ritual = "ritual = \"work\"\ngate = \"manual\"\n";
    place.write("automations/y/automation.toml", of_ritual);
    place.write("rituals/x.toml", "[[steps]]\nid = \"a\"\ntitle = \"b\"\n");
    let mut defaults: toml::Table = toml::from_str(DEFAULTS).unwrap();
    // The presets take most of the time of a load: one with most keys of its own, and some with few, are enough.
    let presets = defaults["harness"].as_table_mut().unwrap();
    presets.retain(|name, _| matches!(name, "claude" | "goose" | "script"));
    let mut all = Vec::new();
    keys(&defaults, &[], &mut all);
    // A preset is data, not the default of a key.
    all.retain(|path| path[0] != "harness" && path[0] != "workspace");
    assert!(all.len() > 50, "{all:?}");
    let mut last = 0;
    for path in all {
        let fewer = without(&defaults, &path).to_string();
        let missing = format!("{}`", path.last().unwrap());
        let noticed = (0..COMPLEMENTS.len()).any(|nth| {
            let tried = (last + nth) % COMPLEMENTS.len();
            place.write("city.toml", COMPLEMENTS[tried]);
            let loaded = load_over(
                &fewer,
                &place.path(""),
                &place.env(),
                &mut Sought::default(),
            );
            let noticed = loaded.is_err_and(|errors| {
                let messages = errors.iter().map(|item| &item.message);
                let mut missed = messages.filter(|message| message.starts_with("missing"));
                missed.any(|message| message.ends_with(&missing))
            });
            // Keys of a section stand together, and mostly the same city misses all of them.
            last = if noticed { tried } else { last };
            noticed
        });
        assert!(noticed, "{} has a default in code", path.join("."));
    }
}

#[test]
fn every_default_is_explained() {
    let lines: Vec<&str> = DEFAULTS.lines().collect();
    let is_key = |line: &str| line.starts_with(|c: char| c.is_ascii_lowercase());
    let presets = lines
        .iter()
        .position(|line| line.starts_with("# ---- Presets"));
    for (number, line) in lines[..presets.unwrap()].iter().enumerate() {
        if is_key(line) {
            let above = lines[..number].iter().rfind(|line| !is_key(line)).unwrap();
            assert!(above.starts_with('#'), "{line} is not explained");
        }
    }
}

#[test]
fn every_key_of_a_later_version_is_refused_by_name() {
    for (section, keys) in reserved_keys::RESERVED {
        for key in *keys {
            let place = SampleDir::new();
            if *section == "automation" {
                let text = format!("exec = \"true\"\ngate = \"manual\"\n{key} = 1\n");
                place.write("automations/x/automation.toml", &text);
                let errors = place.load("workspace.name = \"c\"\n").unwrap_err();
                let message = format!("`{key}` is not supported yet");
                assert!(
                    errors.iter().any(|item| item.message == message),
                    "{errors}"
                );
                continue;
            }
            let header = match *section {
                "" => String::new(),
                "harness" => "[harness.claude]\n".to_owned(),
                "rigs" => "[[rigs]]\nname = \"r\"\npath = \"repo\"\n".to_owned(),
                "agents" => "[[agents]]\nname = \"a\"\ncommand = [\"x\"]\n".to_owned(),
                section => match section.strip_prefix("rigs.") {
                    Some(_) => format!("[[rigs]]\nname = \"r\"\npath = \"repo\"\n[{section}]\n"),
                    None => format!("[{section}]\n"),
                },
            };
            let name = match *section {
                "workspace" => "name = \"c\"\n".to_owned(),
                _ => String::new(),
            };
            let errors = place
                .load(&format!("{header}{name}{key} = 1\n"))
                .unwrap_err();
            let message = format!("`{key}` is not supported yet");
            let told = errors.iter().any(|item| item.message == message);
            assert!(told, "{section}.{key}: {errors}");
        }
    }
}

#[test]
fn each_preset_puts_the_prompt_where_its_program_looks_for_it() {
    let place = SampleDir::new();
    let city = place.load("workspace.name = \"c\"").unwrap().city;
    let launches = city.harnesses.values().flat_map(|harness| {
        let launch = |reduced| {
            let file = Path::new("/prompt.md");
            let fill = crate::domain::harness::fill::Fill::default();
            let start = crate::domain::harness::Start {
                fill: &fill,
                prompt: "Do it.",
                prompt_file: file,
                reduced,
                resumes: false,
            };
            let launch = crate::domain::harness::launch(harness, &start);
            let typed = launch
                .first_prompt
                .map_or(String::new(), |text| format!(" <<< {text:?}"));
            format!("{}{typed}", shell_words::join(launch.argv))
        };
        let (name, env) = (&harness.name, &harness.env);
        [
            format!("{name}: {} {env:?}", launch(false)),
            format!("{name} reduced: {}", launch(true)),
        ]
    });
    golden("valid", "presets", &launches.collect::<Vec<_>>().join("\n"));
}

#[test]
fn agent_fingerprint_changes_only_with_keys_that_need_a_restart() {
    let place = SampleDir::new();
    let fingerprint = |agent: &str| {
        let head = "workspace.name = \"c\"\n[harness.h]\ncommand = [\"h\"]\nprompt = \"file\"\n";
        let text = format!("{head}[[agents]]\nname = \"a\"\n{agent}\n");
        let loaded = place
            .load(&text)
            .unwrap_or_else(|errors| panic!("{errors}"));
        loaded.city.agents[0].fingerprint.clone()
    };
    let base = fingerprint("command = [\"x\"]\nenv = { A = \"1\" }");
    assert!(base.starts_with("sha256:") && base.len() == 71, "{base}");
    let same = [
        "restart = \"temporary\"",
        "rights = \"all\"",
        "shutdown_timeout = \"9s\"",
        "dir = \".\"",
    ];
    for same in same {
        let again = fingerprint(&format!("command = [\"x\"]\nenv = {{ A = \"1\" }}\n{same}"));
        assert_eq!(again, base, "{same}");
    }
    for other in [
        "command = [\"x\", \"\"]\nenv = { A = \"1\" }",
        "command = [\"x\"]\nenv = { A = \"2\" }",
        "command = [\"x\"]\nenv = { A = \"1\" }\ndir = \"repo\"",
        "harness = \"h\"\nprompt_file = \"prompt.md\"",
    ] {
        assert_ne!(fingerprint(other), base, "{other}");
    }
    let before = fingerprint("harness = \"h\"\nprompt_file = \"prompt.md\"");
    place.write("prompt.md", "Another prompt.\n");
    assert_ne!(
        fingerprint("harness = \"h\"\nprompt_file = \"prompt.md\""),
        before
    );
}

#[test]
fn the_revision_changes_with_every_source_and_with_nothing_else() {
    let place = SampleDir::new();
    let text = "include = [\"fragments/web.toml\"]\nworkspace.name = \"c\"\n\
                [[agents]]\nname = \"a\"\nharness = \"claude\"\nprompt_file = \"prompt.md\"\n";
    let revision = |text: &str| place.load(text).unwrap().city.revision;
    let base = revision(text);
    place.write("fragments/other.toml", "x = 1\n");
    assert_eq!(revision(text), base);
    assert_ne!(revision(&format!("{text}\n")), base);
    place.write("prompt.md", "Another prompt.\n");
    let prompt = revision(text);
    assert_ne!(prompt, base);
    place.write("fragments/web.toml", "# nothing\n");
    assert_ne!(revision(text), prompt);
}

#[test]
fn init_writes_a_city_that_loads() {
    let place = SampleDir::new();
    let init = |rig| Init {
        workspace: "horde-city".into(),
        rig,
        harness: "claude".into(),
    };
    let source = crate::domain::city::RigSource::Path(place.path("repo"));
    let named = init(Some(("horde".into(), source)));
    let loaded = place.load(&init_text(&named));
    let loaded = loaded.unwrap_or_else(|errors| panic!("{errors}"));
    assert!(loaded.warnings.is_empty());
    assert!(loaded.city.rig(&RigName::new("horde").unwrap()).is_some());
    let none = init_text(&init(None));
    golden("valid", "init", &none);
    assert_eq!(place.load(&none).unwrap().city.rigs.len(), 0);
    // The examples in comments are valid, too.
    let uncommented: String = none
        .lines()
        .skip_while(|line| !line.starts_with("[workspace]"))
        .filter_map(|line| {
            let bare = line.strip_prefix("# ").unwrap_or(line);
            let first = bare.split([' ', '=']).next().unwrap_or_default();
            let is_toml = bare.starts_with(['[', ']', ' ']) || bare.contains(" = ");
            (is_toml && !first.starts_with('`')).then(|| format!("{bare}\n"))
        })
        .collect();
    fs::create_dir_all(place.path("home/src/my-repo/.git")).unwrap();
    let loaded = place.load(&uncommented);
    let loaded = loaded.unwrap_or_else(|errors| panic!("{uncommented}\n{errors}"));
    assert_eq!((loaded.city.rigs.len(), loaded.city.agents.len()), (1, 1));
}

#[test]
fn the_nearest_city_is_found_upwards_and_its_socket_even_when_it_is_broken() {
    let place = SampleDir::new();
    assert_eq!(find_city(&place.path("repo/inner")), None);
    assert_eq!(socket(&place.path("")), None);
    place.write("city.toml", "nonsense = 1\n[daemon]\nsocket = \"s\"\n");
    let file = place.path("city.toml");
    assert_eq!(find_city(&place.path("repo/inner")), Some(file.clone()));
    let root = file.parent().unwrap().to_owned();
    assert_eq!(socket(&file), Some((root.clone(), PathBuf::from("s"))));
    assert!(load(&file, &place.env()).is_err());
    place.write("city.toml", "[daemon");
    assert_eq!(socket(&root), Some((root, PathBuf::new())));
}

#[test]
fn a_city_that_is_not_there_is_an_error_with_a_hint() {
    let place = SampleDir::new();
    let errors = load(&place.path("nowhere"), &place.env()).unwrap_err();
    assert_eq!(
        place.rendered(&errors),
        "error: there is no $CITY/nowhere\n |\n = help: `hd init` writes one"
    );
}

#[test]
fn the_city_is_where_its_canonical_directory_is() {
    let place = SampleDir::new();
    place.write("real/city.toml", "workspace.name = \"c\"\n");
    std::os::unix::fs::symlink(place.path("real"), place.path("link")).unwrap();
    let loaded = load(&place.path("link/city.toml"), &place.env()).unwrap();
    assert_eq!(loaded.city.root, place.path("real"));
    assert_eq!(loaded.sources, [place.path("real/city.toml")]);
}

#[test]
fn colours_are_for_terminals_only() {
    let place = SampleDir::new();
    let errors = place.load("x = 1\n").unwrap_err();
    assert!(errors.render(true).contains("\u{1b}["));
    assert!(!errors.render(false).contains('\u{1b}'));
    assert_eq!(errors.to_string(), errors.render(false));
}
