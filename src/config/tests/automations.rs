//! Automations: their places, and all of their errors.

use super::*;
use crate::domain::automation::{Action, Automation};
use crate::domain::gates::Gate;

const GATES: &[(&str, &str)] = &[
    (
        "broom",
        "gate = \"cooldown\"\ninterval = \"10m\"\ntimeout = \"1h\"\nretries = 2\n",
    ),
    (
        "mail",
        "gate = \"event\"\non = \"raider.*\"\nenabled = false\n",
    ),
    (
        "night",
        "gate = \"cron\"\nschedule = \"30 2 * * mon-fri\"\ntimezone = \"Europe/Oslo\"\ncatch_up = \"last\"\n",
    ),
    ("press", "gate = \"manual\"\ndescription = \"by hand\"\n"),
    ("watch", "gate = \"condition\"\ncheck = \"test -f flag\"\n"),
];

fn line(automation: &Automation) -> &str {
    match &automation.action {
        Action::Exec(line) => line,
        Action::Ritual(action) => panic!("{action:?}"),
    }
}

/// `health-patrol.md`, configuration: `skip` and `max_timeout`; testing: timeout capping,
/// rig-scoped automations.
#[test]
fn automations_are_found_beside_the_city_and_in_rigs_that_are_trusted() {
    let place = SampleDir::new();
    for (name, text) in GATES {
        let file = format!("automations/{name}/automation.toml");
        place.write(&file, &format!("exec = \"echo {name} >> log\"\n{text}"));
    }
    place.write("automations/skipped/automation.toml", "nonsense");
    place.write("automations/scripts/helper.sh", "echo not an automation\n");
    let own = "repo/.horde/automations/own/automation.toml";
    place.write(own, "exec = \"run.sh --all\"\ngate = \"manual\"\n");
    place.write("repo/.horde/automations/own/run.sh", "echo hello\n");
    let city = |trust: bool| {
        format!(
            "workspace.name = \"c\"\n[automations]\nskip = [\"skipped\"]\nmax_timeout = \"2m\"\n\
             [[rigs]]\nname = \"r\"\npath = \"repo\"\ntrust_automations = {trust}\n"
        )
    };
    let loaded = place
        .load(&city(true))
        .unwrap_or_else(|errors| panic!("{errors}"));
    assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
    let ids = |loaded: &Loaded| {
        let automations = loaded.city.automations.iter();
        automations
            .map(|automation| automation.id.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        ids(&loaded),
        ["broom", "mail", "night", "press", "watch", "r/own"]
    );
    let found = loaded.city.automations.iter().map(|automation| {
        let gate = match &automation.gate {
            Gate::Cron { schedule, catch_up } => {
                format!("{schedule} {catch_up:?}")
            }
            other => format!("{other:?}"),
        };
        format!(
            "{}: {gate}\n  {:?} retries {} enabled {} in {}\n  {}",
            automation.id,
            automation.timeout,
            automation.retries,
            automation.enabled,
            automation.dir.display(),
            line(automation)
        )
    });
    let found = found.collect::<Vec<_>>().join("\n");
    let root = place.path("");
    golden(
        "valid",
        "automations",
        &found.replace(root.to_str().unwrap().trim_end_matches('/'), "$CITY"),
    );
    // Files of automations are sources like any other.
    assert!(loaded.sources.contains(&place.path(own)));
    place.write(own, "exec = \"run.sh\"\ngate = \"manual\"\n");
    let changed = place.load(&city(true)).unwrap();
    assert_ne!(changed.city.revision, loaded.city.revision);
    assert_eq!(ids(&place.load(&city(false)).unwrap()).len(), GATES.len());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test needs a process")]
fn a_script_may_be_written_after_the_file_that_names_it() {
    let place = SampleDir::new();
    let folder = "automations/update";
    place.write(
        &format!("{folder}/automation.toml"),
        "exec = \"update now\"\ngate = \"manual\"\n",
    );
    let loaded = place.load("workspace.name = \"c\"\n").unwrap();
    let run = || {
        let line = line(&loaded.city.automations[0]);
        let mut shell = std::process::Command::new("sh");
        let output = shell.args(["-c", line]).output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    assert_eq!(run(), (Some(127), String::new()));
    place.write(&format!("{folder}/update"), "echo \"updated $1\"; exit 3\n");
    assert_eq!(run(), (Some(3), "updated now\n".to_owned()));
}

#[test]
fn everything_that_is_wrong_with_automations_is_told_at_once() {
    let place = SampleDir::new();
    for (name, text) in [
        ("a-syntax", "exec = \n"),
        ("b-empty", ""),
        (
            "c-unknown",
            "exec = \"true\"\ngate = \"cooldwn\"\nintervall = \"1m\"\n",
        ),
        ("d-needs", "exec = \"true\"\ngate = \"cooldown\"\n"),
        (
            "e-foreign",
            "exec = \"true\"\ngate = \"manual\"\nschedule = \"* * * * *\"\n",
        ),
        (
            "f-cron",
            "exec = \"./none.sh\"\ngate = \"cron\"\nschedule = \"* * *\"\ntimezone = \"Mars/Base\"\n",
        ),
        (
            "g-event",
            "exec = \"true\"\ngate = \"event\"\non = \"raider.mergd\"\n",
        ),
        ("h-ritual", "ritual = \"revew\"\ngate = \"manual\"\n"),
        (
            "h-both",
            "exec = \"true\"\nritual = \"work\"\ngate = \"manual\"\n",
        ),
        (
            "h-exec",
            "exec = \"true\"\ngate = \"manual\"\npool = \"crew\"\nvars = { a = \"b\" }\n",
        ),
        (
            "h-names",
            "ritual = \"review\"\ngate = \"manual\"\nrig = \"hord\"\npool = \"crew\"\nvars = { scop = \"b\" }\n\
             timeout = \"5s\"\n",
        ),
        ("i name", "exec = \"true\"\ngate = \"manual\"\n"),
    ] {
        place.write(&format!("automations/{name}/automation.toml"), text);
    }
    let errors = place
        .load("workspace.name = \"c\"\nautomations.skip = [\"d-need\"]\n")
        .unwrap_err();
    golden("invalid", "automations", &place.rendered(&errors));
}

#[test]
fn an_automation_folder_that_cannot_be_read_is_an_error() {
    let place = SampleDir::new();
    place.write("automations", "a file\n");
    assert!(place.load("workspace.name = \"c\"\n").is_err());
}
