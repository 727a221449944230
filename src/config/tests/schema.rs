//! The schema of `city.toml` agrees with the parser: key by key, and on whole configurations.

use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};

use super::{DATA, SampleDir, load_over, toml_files};
use crate::config::dependencies::Sought;
use crate::config::schema::TEXT;
use crate::config::{DEFAULTS, Init, init_text, schema, write_schema};
use crate::domain::city::RigSource;
use crate::testing::json_schema::violations;

/// A key of the schema: how it is reached, and its own schema.
struct Key {
    path: Vec<String>,
    schema: Json,
}

/// Collects every key of a schema. `[]` stands for an element of an array, `*` for a key that is a name.
fn keys(schema: &Json, path: &[String], found: &mut Vec<Key>) {
    let step = |step: &str| [path, &[step.to_owned()]].concat();
    for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
        let path = step(key);
        let schema = schema.clone();
        keys(&schema, &path, found);
        found.push(Key { path, schema });
    }
    if schema["items"].is_object() {
        keys(&schema["items"], &step("[]"), found);
    }
    if schema["additionalProperties"].is_object() {
        keys(&schema["additionalProperties"], &step("*"), found);
    }
}

fn all() -> Vec<Key> {
    let mut found = Vec::new();
    keys(&schema(), &[], &mut found);
    assert!(found.len() > 150, "{}", found.len());
    found
}

/// Returns a configuration with nothing but this value.
fn with(path: &[String], value: toml::Value) -> toml::Table {
    let wrap = |value: toml::Value, step: &String| match step.as_str() {
        "[]" => toml::Value::Array(vec![value]),
        "*" => toml::Table::from_iter([("one".to_owned(), value)]).into(),
        key => toml::Table::from_iter([(key.to_owned(), value)]).into(),
    };
    let whole = path.iter().rev().fold(value, wrap);
    let mut whole = whole.as_table().unwrap().clone();
    // A patch needs an agent, and its name.
    if let Some(patches) = whole.get_mut("patches")
        && let Some(patch) = patches.get_mut("agents").and_then(|all| all.get_mut(0))
        && let Some(patch) = patch.as_table_mut()
    {
        patch.entry("name").or_insert("one".into());
        let agent = [("name", "one".into()), ("command", vec!["x"].into())];
        let agent = toml::Table::from_iter(agent.map(|(key, value)| (key.to_owned(), value)));
        whole.insert("agents".to_owned(), vec![toml::Value::from(agent)].into());
    }
    whole
}

/// Returns the parser's messages about a configuration. The presets take most of the time of a load, and are left out.
fn messages(place: &SampleDir, city: &toml::Table) -> Vec<String> {
    let mut defaults: toml::Table = toml::from_str(DEFAULTS).unwrap();
    defaults.insert("harness".to_owned(), toml::Table::new().into());
    place.write("city.toml", &city.to_string());
    let loaded = load_over(
        &defaults.to_string(),
        &place.path(""),
        &place.env(),
        &mut Sought::default(),
    );
    let errors = loaded.err().into_iter();
    let all = errors.flat_map(|errors| {
        errors
            .iter()
            .map(|it| it.message.clone())
            .collect::<Vec<_>>()
    });
    all.collect()
}

fn json_of(table: &toml::Table) -> Json {
    serde_json::to_value(table).unwrap()
}

/// Returns a value that no form of the schema takes.
fn wrong(schema: &Json) -> toml::Value {
    let takes = |value: &toml::Value| {
        let value = serde_json::to_value(value).unwrap();
        violations(schema, &value).is_empty()
    };
    let kinds = [
        toml::Value::Integer(-1),
        toml::Value::String("\u{1}".to_owned()),
        toml::Value::Boolean(true),
    ];
    let found = kinds.into_iter().find(|value| !takes(value));
    found.unwrap_or_else(|| panic!("everything is valid: {schema}"))
}

/// The two words of the parser for a key that it does not have.
fn is_unknown(message: &str, key: &str) -> bool {
    message == format!("unknown key `{key}`") || message == format!("`{key}` is not supported yet")
}

#[test]
fn each_key_of_the_schema_is_one_of_the_parser_and_both_refuse_a_wrong_value() {
    let (place, schema) = (SampleDir::new(), schema());
    for Key { path, schema: own } in all() {
        let city = with(&path, wrong(&own));
        let (said, key) = (messages(&place, &city), path.last().unwrap());
        let is_known = !said.iter().any(|message| is_unknown(message, key));
        assert!(is_known, "{path:?}: {said:?}");
        // A city without a name, and a rig without a path, is always wrong.
        let without = messages(
            &place,
            &with(&path[..path.len() - 1], toml::Table::new().into()),
        );
        assert_ne!(said, without, "the parser takes {city}");
        let refused = violations(&schema, &json_of(&city));
        assert!(!refused.is_empty(), "the schema takes {city}");
    }
}

#[test]
fn key_that_the_parser_does_not_have_is_none_of_the_schema() {
    let (place, schema) = (SampleDir::new(), schema());
    let mut tables: Vec<Vec<String>> = all().into_iter().map(|key| key.path).collect();
    for path in &mut tables {
        path.pop();
    }
    tables.sort();
    tables.dedup();
    assert!(tables.len() > 15, "{tables:?}");
    for mut path in tables {
        path.push("nonsense".to_owned());
        let city = with(&path, toml::Value::Integer(1));
        let said = messages(&place, &city);
        let refused = |message: &String| {
            is_unknown(message, "nonsense") || message == "`nonsense` cannot be patched"
        };
        assert!(said.iter().any(refused), "{path:?}: {said:?}");
        let refused = violations(&schema, &json_of(&city));
        let unknown = |message: &String| message.ends_with(".nonsense: unknown key");
        assert!(refused.iter().any(unknown), "{path:?}: {refused:?}");
    }
}

/// Every default is a key, and is valid where it stands: so no key of the default file is missing from the schema.
#[test]
fn each_key_of_the_default_file_is_in_the_schema() {
    let mut defaults: toml::Table = toml::from_str(DEFAULTS).unwrap();
    let toml::Value::Table(mut templates) = defaults.remove("defaults").unwrap() else {
        panic!("[defaults] is a table");
    };
    // They stand in files of their own.
    for other in ["automations", "rituals", "steps"] {
        assert!(templates.remove(other).is_some(), "{other}");
    }
    let mut one = |name: &str, required: &[&str]| {
        let mut table = templates.remove(name).unwrap();
        for key in required {
            let is_amount = matches!(*key, "input" | "output" | "usd_per_day");
            let value = if is_amount {
                toml::Value::Float(1.5)
            } else {
                "x".into()
            };
            table
                .as_table_mut()
                .unwrap()
                .insert((*key).to_owned(), value);
        }
        table
    };
    let mut rig = one("rigs", &["name"]);
    rig["forge"]["gates"] = vec![one("gates", &["name", "run"])].into();
    let budget = one("budget", &["usd_per_day"]);
    rig["raiders"]["budget"] = budget.clone();
    let mut agent = one("agents", &["name"]);
    agent["pool"] = one("pool", &[]);
    let mut harness = one("harness", &[]);
    harness["prices"] =
        toml::Table::from_iter([("m".to_owned(), one("prices", &["input", "output"]))]).into();
    harness["budget"] = budget.clone();
    defaults["workspace"]["budget"] = budget;
    defaults["rigs"] = vec![rig].into();
    defaults["agents"] = vec![agent].into();
    defaults["groups"] = vec![one("groups", &["name"])].into();
    defaults["harness"]
        .as_table_mut()
        .unwrap()
        .insert("mine".to_owned(), harness);
    assert!(templates.is_empty(), "{templates} is nowhere in the schema");
    let wrong = violations(&schema(), &json_of(&defaults));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn each_key_is_explained_and_says_what_it_takes() {
    let sections = [
        "workspace",
        "daemon",
        "session",
        "automations",
        "patches",
        "harness",
    ];
    for Key { path, schema } in all() {
        let says = schema["type"].is_string() || schema["type"].is_array();
        assert!(says, "{path:?} takes anything");
        let is_table = schema["type"] == "object" && schema["additionalProperties"] == false;
        let is_section = is_table || sections.contains(&path[0].as_str()) && path.len() == 1;
        let is_explained = schema["description"].is_string();
        assert!(is_explained || is_section, "{path:?} is not explained");
    }
    let schema = schema();
    let of = |path: &str| {
        schema
            .pointer(path)
            .unwrap_or_else(|| panic!("{path}"))
            .clone()
    };
    let rig = "/properties/rigs/items/properties";
    assert_eq!(of("/properties/daemon/properties/max_restarts/default"), 5);
    assert_eq!(
        of(&format!("{rig}/forge/properties/style/enum")),
        json!(["rebase", "squash", "merge"])
    );
    assert_eq!(of("/properties/rigs/items/required"), json!(["name"]));
    let gate = format!("{rig}/forge/properties/gates/items");
    assert_eq!(of(&format!("{gate}/required")), json!(["name", "run"]));
    assert_eq!(
        of(&format!("{gate}/properties/run/description")),
        "Required. A shell command."
    );
    let patch = of("/properties/patches/properties/agents");
    assert_eq!(patch["items"]["required"], json!(["name"]));
    assert!(
        patch["description"].as_str().unwrap().contains("override"),
        "{patch}"
    );
}

#[test]
fn valid_configurations_are_valid_and_wrong_ones_are_not() {
    let schema = schema();
    let check = |text: &str| violations(&schema, &json_of(&text.parse().unwrap()));
    let mut texts: Vec<String> = toml_files(&Path::new(DATA).join("valid"))
        .iter()
        .map(|file| fs::read_to_string(file).unwrap())
        .collect();
    texts.push(include_str!("../../../config/example.toml").to_owned());
    let init = |rig| Init {
        workspace: "c".to_owned(),
        rig,
        harness: "claude".to_owned(),
    };
    let rig = (
        "r".to_owned(),
        RigSource::Remote("git@example.org:r.git".to_owned()),
    );
    texts.push(init_text(&init(Some(rig))));
    texts.push(init_text(&init(None)));
    for text in &texts {
        let wrong = check(text);
        assert!(wrong.is_empty(), "{wrong:#?}\n{text}");
    }
    for name in [
        "include-type",
        "later-keys",
        "types",
        "unknown-keys",
        "values",
    ] {
        let text = fs::read_to_string(format!("{DATA}/invalid/{name}.toml")).unwrap();
        assert!(!check(&text).is_empty(), "{name} is valid");
    }
    for wrong in [
        "[daemon]\nmax_restart = 5\n",
        "[daemon]\nmax_restarts = \"5\"\n",
        "[daemon]\nmax_restarts = -1\n",
        "[daemon]\nrestart_window = \"1 fortnight\"\n",
        "[daemon]\nrestart_window = 30\n",
        "[session]\noutput_limit = \"64\"\n",
        "[[rigs]]\npath = \"x\"\n",
        "[rigs]\nname = \"x\"\n",
        "[[agents]]\nname = \"a\"\nrestart = \"always\"\n",
        "[[agents]]\nname = \"a\"\npool = { size = 1 }\n",
        "[[groups]]\nname = \"g\"\nmembers = [1]\n",
        "[harness.h]\nenv = { A = 1 }\n",
    ] {
        assert!(!check(wrong).is_empty(), "valid: {wrong}");
    }
    for right in ["1h 30m", "1.5h", "500ms", "2 days", " 7d", "1M", "10us"] {
        let city = format!("[daemon]\nrestart_window = \"{right}\"\n");
        assert!(check(&city).is_empty(), "not valid: {right}");
        assert!(humantime::parse_duration(right).is_ok(), "{right}");
    }
}

#[test]
fn file_of_the_schema_is_up_to_date() {
    let made = format!("{:#}\n", schema());
    assert!(TEXT == made, "run docs/reference/generate with a built hd");
}

/// `#:schema` is where taplo looks for the schema, relative to the file.
#[test]
fn first_line_of_a_new_city_leads_to_the_schema() {
    let place = SampleDir::new();
    let text = init_text(&Init {
        workspace: "c".to_owned(),
        rig: None,
        harness: "claude".to_owned(),
    });
    let (first, _) = text.split_once('\n').unwrap();
    let file = place.path(first.strip_prefix("#:schema ").unwrap());
    write_schema(&place.path("")).unwrap();
    let read = || serde_json::from_str::<Json>(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(read(), schema());
    // An old one is replaced, one of today stays.
    let inode = || std::os::unix::fs::MetadataExt::ino(&fs::metadata(&file).unwrap());
    let before = inode();
    write_schema(&place.path("")).unwrap();
    assert_eq!(inode(), before);
    fs::write(&file, "{}").unwrap();
    write_schema(&place.path("")).unwrap();
    assert_eq!(read(), schema());
    let names: Vec<_> = fs::read_dir(file.parent().unwrap()).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}
