//! A user's `[harness.X]` merged with a preset.

use super::SampleDir;
use crate::domain::ids::HarnessName;
use crate::domain::question::Pattern;
use crate::domain::unattended;

/// A user who adds a variable must not lose the key that the preset passes.
#[test]
fn passed_names_are_added_to_those_of_the_preset() {
    let place = SampleDir::new();
    let passed = |text: &str| {
        let text = format!("workspace.name = \"c\"\n{text}");
        let loaded = place
            .load(&text)
            .unwrap_or_else(|errors| panic!("{errors}"));
        let harness = &loaded.city.harnesses[&"codex".parse().unwrap()];
        harness.env_pass.clone()
    };
    let preset = passed("");
    let added = passed("[harness.codex]\nenv_pass = [\"MY_PROXY\", \"OPENAI_API_KEY\"]\n");
    let mut sorted = added.clone();
    sorted.sort();
    let mut expected = preset.clone();
    expected.push("MY_PROXY".to_owned());
    expected.sort();
    assert_eq!(sorted, expected, "each once");
    assert_eq!(passed("[harness.codex]\nenv_pass = []\n"), preset);
    // A later document replaces what an earlier one added, and nothing of the preset.
    place.write(
        "fragments/passed.toml",
        "[harness.codex]\nenv_pass = [\"EARLIER\"]\n",
    );
    let both = "[harness.codex]\nenv_pass = [\"RESERVED\"]\n";
    let both = place.load(&format!(
        "include = [\"fragments/passed.toml\"]\n[workspace]\nname = \"c\"\n{both}"
    ));
    let both = both.unwrap_or_else(|errors| panic!("{errors}"));
    let both = &both.city.harnesses[&"codex".parse().unwrap()].env_pass;
    assert!(preset.iter().all(|name| both.contains(name)), "{both:?}");
    let own: Vec<_> = both.iter().filter(|name| !preset.contains(name)).collect();
    assert_eq!(own.len(), 1, "{both:?}");
}

/// `hd init` and `hd doctor` say how a program is logged in.
#[test]
fn login_of_every_preset_but_script_is_known() {
    let place = SampleDir::new();
    let city = place.load("workspace.name = \"c\"\n").unwrap().city;
    for (name, harness) in &city.harnesses {
        let mut words = harness.command.iter();
        let is_known = words.any(|word| unattended::known(word).is_some());
        assert_eq!(is_known, name.as_str() != "script", "{name}");
    }
}

/// A program in the home directory had passed every check, and could not be started.
#[test]
fn program_may_be_below_the_home_directory() {
    let place = SampleDir::new();
    let city = place
        .load(
            "workspace.name = \"c\"\n[harness.mine]\ncommand = [\"~/bin/agent\", \"~/x\"]\n\
             [harness.near]\ncommand = [\"bin/agent\"]\n\
             [[agents]]\nname = \"a\"\ncommand = [\"~/bin/a\"]\n",
        )
        .unwrap()
        .city;
    let program = |name: &str| {
        city.harnesses[&HarnessName::new(name).unwrap()]
            .command
            .clone()
    };
    let home = |name: &str| place.path("home").join(name).display().to_string();
    assert_eq!(program("mine"), [home("bin/agent"), "~/x".to_owned()]);
    assert_eq!(program("near"), ["bin/agent"], "it starts at the sandbox");
    assert_eq!(city.agents[0].command, [home("bin/a")]);
}

/// Their patterns are not checked at a start.
#[test]
fn patterns_of_the_defaults_are_valid() {
    let defaults: toml::Table = toml::from_str(crate::config::DEFAULTS).unwrap();
    let mut checked = 0;
    for (name, harness) in defaults["harness"].as_table().unwrap() {
        let keys = harness.as_table().unwrap().iter();
        for (key, list) in keys.filter(|(key, _)| key.ends_with("_patterns")) {
            for pattern in list.as_array().unwrap() {
                let text = pattern.as_str().unwrap();
                let found = Pattern::new(text);
                assert!(found.is_ok(), "{name}.{key}: {found:?}");
                checked += 1;
            }
        }
    }
    assert!(checked > 50, "{checked}");
}
