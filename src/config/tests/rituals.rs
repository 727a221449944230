//! Rituals: their files, the built-in ones, and all of their errors.

use super::*;
use crate::domain::automation::{Action, RitualAction};
use crate::domain::ritual::variables;

const CITY: &str = "workspace.name = \"c\"\n";

fn names(loaded: &Loaded) -> Vec<&str> {
    let names = loaded.city.rituals.keys();
    names.map(|name| name.as_str()).collect()
}

#[test]
fn the_built_in_rituals_are_valid_and_have_instructions() {
    let place = SampleDir::new();
    let loaded = place.load(CITY).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(
        names(&loaded),
        ["conflict-resolution", "review", "witness-patrol", "work"]
    );
    for ritual in loaded.city.rituals.values() {
        assert!(ritual.file.is_none() && !ritual.description.is_empty());
        assert!(ritual.steps.len() >= 4, "{ritual:?}");
        let bodies = ritual.steps.iter().map(|step| step.body.len());
        assert!(bodies.min() > Some(100), "{ritual:?}");
        for var in ritual.vars.keys() {
            let mut bodies = ritual.steps.iter();
            let used = bodies.any(|step| variables(&step.body).contains(&var.as_str()));
            assert!(used, "{var} of {} is not used", ritual.name);
        }
    }
    // They are no files: a change of them is no change of the configuration.
    assert_eq!(loaded.sources, [place.path("city.toml")]);
}

#[test]
fn a_file_is_a_ritual_and_replaces_the_built_in_one_of_its_name() {
    let place = SampleDir::new();
    place.write(
        "rituals/work.toml",
        "description = \"ours\"\n[vars]\nteam = \"\"\nplace = \"here\"\n\
         [[steps]]\nid = \"b\"\ntitle = \"second for {{team}}\"\nneeds = [\"a\"]\nfresh_session = true\n\
         [[steps]]\nid = \"a\"\ntitle = \"first\"\nbody = \"{{place}} {{relic}} {{title}} {{rig}} ${{ other.thing }}\"\n",
    );
    place.write("rituals/notes.md", "no ritual");
    place.write("rituals/.work.toml.swp", "no ritual");
    let loaded = place.load(CITY).unwrap_or_else(|errors| panic!("{errors}"));
    let work = &loaded.city.rituals[&"work".parse().unwrap()];
    assert_eq!(work.description, "ours");
    assert_eq!(work.file, Some(place.path("rituals/work.toml")));
    let vars: Vec<_> = work.vars.values().cloned().collect();
    assert_eq!(vars, [Some("here".to_owned()), None]);
    let steps = work.steps.iter();
    let steps: Vec<_> = steps
        .map(|step| (step.id.as_str(), step.needs.len(), step.fresh_session))
        .collect();
    assert_eq!(steps, [("b", 1, true), ("a", 0, false)]);
    assert_eq!(loaded.sources.len(), 2);
    // A change of the file is a change of the configuration.
    let before = loaded.city.revision;
    place.write(
        "rituals/work.toml",
        "[[steps]]\nid = \"a\"\ntitle = \"only\"\n",
    );
    assert_ne!(place.load(CITY).unwrap().city.revision, before);
}

#[test]
fn everything_that_is_wrong_with_rituals_is_told_at_once() {
    let place = SampleDir::new();
    let step = |id: &str, more: &str| format!("[[steps]]\nid = \"{id}\"\ntitle = \"t\"\n{more}");
    let long = step("a", "").repeat(65);
    let body = format!("body = \"{}\"\n", "x".repeat(9000));
    for (name, text) in [
        ("a-syntax", "description = \n".to_owned()),
        ("b-empty", String::new()),
        ("c-none", "steps = []\n".to_owned()),
        (
            "d-need",
            step("build", "") + &step("test", "needs = [\"biuld\", \"x\"]\n"),
        ),
        (
            "e-cycle",
            step("a", "needs = [\"c\"]\n")
                + &step("b", "needs = [\"a\"]\n")
                + &step("c", "needs = [\"b\"]\n"),
        ),
        ("f-twice", step("a", "") + &step("a", "")),
        (
            "g-var",
            format!(
                "[vars]\nplace = \"x\"\n{}",
                step("a", "body = \"\"\"\nin {{plce}}\n\"\"\"\n")
            ),
        ),
        (
            "h-vars",
            format!(
                "[vars]\nTitle = \"x\"\nrelic = \"y\"\nn = 1\n{}",
                step("a", "")
            ),
        ),
        ("i-keys", step("a", "fresh_sesion = true\nneeds = \"b\"\n")),
        (
            "j-title",
            "[[steps]]\nid = \"a b\"\ntitle = \"\"\"\none\ntwo\"\"\"\n[[steps]]\nbody = \"x\"\n"
                .to_owned(),
        ),
        ("k-long", long),
        ("n-body", step("a", &body)),
        (
            "o-all",
            step("a", "body = \"in {{plce}}\"\nneeds = [\"b\"]\n")
                + &step("b", "needs = [\"a\", \"x\"]\n")
                + &step("b", ""),
        ),
        ("l name", step("a", "")),
    ] {
        place.write(&format!("rituals/{name}.toml"), &text);
    }
    fs::create_dir(place.path("rituals/m-folder.toml")).unwrap();
    let errors = place.load(CITY).unwrap_err();
    golden("invalid", "rituals", &place.rendered(&errors));
}

/// A FIFO would block the supervisor, and a huge file fill its memory: they are refused as other files of the
/// configuration are.
#[test]
fn a_ritual_is_a_regular_file_of_limited_size() {
    let place = SampleDir::new();
    place.write("rituals/big.toml", &"# x\n".repeat((1 << 20) + 1));
    let errors = place.load(CITY).unwrap_err();
    assert!(errors.to_string().contains("longer than"), "{errors}");
    fs::remove_file(place.path("rituals/big.toml")).unwrap();
    let fifo = place.path("rituals/fifo.toml");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    let errors = place.load(CITY).unwrap_err();
    assert!(errors.to_string().contains("FIFO"), "{errors}");
}

/// `contract.md`, 2.2: `ritual` instead of `exec`, with `rig`, `pool` and variables.
#[test]
fn an_automation_may_name_a_ritual_instead_of_a_command() {
    let place = SampleDir::new();
    place.write(
        "automations/weekly/automation.toml",
        "ritual = \"review\"\nrig = \"r\"\npool = \"crew\"\ngate = \"manual\"\nvars = { scope = \"all\" }\n",
    );
    let own = "repo/.horde/automations/own/automation.toml";
    place.write(own, "ritual = \"work\"\ngate = \"manual\"\n");
    let city = "workspace.name = \"c\"\n[[rigs]]\nname = \"r\"\npath = \"repo\"\ntrust_automations = true\n\
        [[rigs]]\nname = \"s\"\npath = \"other\"\n\
        [[agents]]\nname = \"crew\"\ncommand = [\"true\"]\npool = { max = 2 }\n";
    let loaded = place.load(city).unwrap_or_else(|errors| panic!("{errors}"));
    let actions: Vec<_> = (loaded.city.automations.iter())
        .map(|automation| match &automation.action {
            Action::Ritual(RitualAction {
                ritual, rig, pool, ..
            }) => format!("{ritual} {rig} {pool:?}"),
            Action::Exec(line) => panic!("{line}"),
        })
        .collect();
    assert_eq!(
        actions,
        ["review r Some(AgentName(\"crew\"))", "work r None"]
    );
    // The repository of a rig makes no work for another one; a city of several rigs must say which.
    place.write(own, "ritual = \"work\"\ngate = \"manual\"\nrig = \"s\"\n");
    place.write(
        "automations/weekly/automation.toml",
        "ritual = \"review\"\ngate = \"manual\"\n",
    );
    let errors = place.load(city).unwrap_err().to_string();
    assert!(errors.contains("makes work for r only"), "{errors}");
    assert!(errors.contains("`rig` says which one"), "{errors}");
}

/// The examples of the guide are as a reader would write them.
#[test]
fn the_examples_of_the_guide_are_valid() {
    let guide = include_str!("../../../docs/guide/rituals.md");
    let blocks = guide.split("```toml\n").skip(1);
    let blocks: Vec<&str> = blocks
        .map(|block| block.split("```").next().unwrap())
        .collect();
    let place = SampleDir::new();
    for block in &blocks {
        let file = block
            .trim_start_matches("# ")
            .split([',', '\n'])
            .next()
            .unwrap();
        place.write(file, block);
    }
    assert_eq!(blocks.len(), 2);
    let city = "workspace.name = \"c\"\n[[rigs]]\nname = \"horde\"\npath = \"repo\"\n";
    let loaded = place.load(city).unwrap_or_else(|errors| panic!("{errors}"));
    let ritual = &loaded.city.rituals[&"update-deps".parse().unwrap()];
    assert!(ritual.steps[2].fresh_session && ritual.steps[1].needs.len() == 1);
    assert_eq!(loaded.city.automations.len(), 1);
}
