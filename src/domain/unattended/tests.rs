//! Questions of each program at its start, as tables.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::*;
use crate::config;
use crate::domain::doctor::Kind;
use crate::domain::jsonc;

/// The preset of this name, with variables of its sessions.
fn with(
    name: &str,
    change: impl FnOnce(&mut Harness),
    env: &[(&str, &str)],
    root: bool,
    then: impl FnOnce(&ProgramFacts, &Start<'_>),
) {
    let temp = crate::testing::scratch();
    let file = temp.path().join(config::FILE);
    std::fs::write(&file, "[workspace]\nname = \"x\"\n").unwrap();
    let loaded = config::load(&file, &config::Env::default());
    let loaded = loaded.unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    let mut all = loaded.city.harnesses.into_values();
    let mut harness = all.find(|one| one.name.as_str() == name).unwrap();
    change(&mut harness);
    let mut own: BTreeMap<String, String> = harness.env.clone();
    own.insert("HOME".to_owned(), "/home/u".to_owned());
    let env = env.iter();
    own.extend(env.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let known = known(name).unwrap();
    then(
        known,
        &Start {
            harness: &harness,
            env: &own,
            dirs: &[PathBuf::from("/city")],
            root,
            project_has: &|file| file == ".gemini/settings.json",
        },
    );
}

fn asked(name: &str, change: impl FnOnce(&mut Harness), env: &[(&str, &str)]) -> Vec<String> {
    let mut told = Vec::new();
    with(name, change, env, false, |known, start| {
        told = asks(known, start)
            .into_iter()
            .map(|ask| match ask.answer {
                Answer::Setting { file, edit } => {
                    let text = jsonc::apply("{}", &[edit]).unwrap();
                    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
                    format!("{}: {} {value}", ask.what, file.display())
                }
                Answer::Config(_) => format!("{}: by hand", ask.what),
            })
            .collect();
    });
    told
}

#[test]
fn presets_ask_nothing_that_their_arguments_and_environment_can_answer() {
    let nothing: [String; 0] = [];
    for name in ["claude", "codex", "opencode", "pi"] {
        let env = [("ANTHROPIC_API_KEY", "k"), ("GEMINI_API_KEY", "k")];
        assert_eq!(asked(name, |_| {}, &env), nothing, "{name}");
    }
    assert_eq!(asked("gemini", |_| {}, &[]), nothing);
}

#[test]
fn remaining_questions_are_answered_in_the_users_settings() {
    assert_eq!(
        asked("copilot", |_| {}, &[]),
        [
            "trust of /city, asked after a crash: /home/u/.copilot/config.json {\"trustedFolders\":[\"/city\"]}"
        ]
    );
    assert_eq!(
        asked("gemini", |_| {}, &[("GEMINI_API_KEY", "k")]),
        [
            "how to log in: /home/u/.gemini/settings.json {\"security\":{\"auth\":{\"selectedType\":\"gemini-api-key\"}}}"
        ]
    );
}

#[test]
fn own_command_without_the_presets_answers_asks_again() {
    let own = |harness: &mut Harness| {
        harness.command.truncate(2);
        harness.env.clear();
    };
    assert_eq!(
        asked("claude", own, &[("CLAUDE_CONFIG_DIR", "/cfg")]),
        [
            "onboarding: /cfg/.claude.json {\"hasCompletedOnboarding\":true}",
            "trust of /city: /cfg/.claude.json {\"projects\":{\"/city\":{\"hasTrustDialogAccepted\":true}}}",
            "consent to the full mode: /cfg/settings.json {\"skipDangerousModePermissionPrompt\":true}",
        ]
    );
    assert_eq!(asked("codex", own, &[]), ["trust of each sandbox: by hand"]);
    assert_eq!(
        asked("gemini", own, &[]),
        ["trust of each sandbox: by hand"]
    );
    let full = |harness: &mut Harness| harness.reduced.clear();
    assert_eq!(asked("copilot", full, &[]), [] as [String; 0]);
}

#[test]
fn login_is_looked_for_where_the_program_keeps_it() {
    let env = [("CODEX_HOME", "/x"), ("OPENAI_API_KEY", "k")];
    with(
        "codex",
        |_| {},
        &env,
        false,
        |known, start| {
            let traces = known.login.traces(start);
            assert_eq!(traces[0], Trace::File("/x/auth.json".into()), "{traces:?}");
        },
    );
    let env = [("CLAUDE_CODE_OAUTH_TOKEN", "k")];
    with(
        "claude",
        |_| {},
        &env,
        false,
        |known, start| {
            let traces = known.login.traces(start);
            assert_eq!(traces[0], Trace::Variable("CLAUDE_CODE_OAUTH_TOKEN"));
            let file = "/home/u/.claude/.credentials.json".into();
            assert_eq!(traces[1], Trace::File(file));
        },
    );
    assert!(Setting::Line("model_provider").is_in("a = 1\nmodel_provider = \"x\"\n"));
    assert!(!Setting::Line("model_provider").is_in("[model_providers.x]\n# model_provider = 1\n"));
    assert!(Setting::Json("provider").is_in("{\"provider\": {\"a\": {}}}"));
    assert!(!Setting::Json("provider").is_in("{\"provider\": {}}"));
    assert!(
        Setting::Json("provider").is_in("{ unreadable"),
        "not known is not none"
    );
}

#[test]
fn each_finding_names_its_remedy() {
    let found = |version: &str, login: Option<&str>, root: bool, env: &[(&str, &str)]| {
        let mut told = Vec::new();
        with(
            "claude",
            |_| {},
            env,
            root,
            |known, start| {
                let seen = InstalledHarness {
                    version: Some(version.to_owned()),
                    login: login.map(str::to_owned),
                    ..InstalledHarness::default()
                };
                let all = findings(known, start, &seen);
                assert!(all.iter().all(|finding| !finding.hint.is_empty()));
                told = all.into_iter().map(|finding| finding.kind).collect();
            },
        );
        told
    };
    assert_eq!(found("2.3.0", Some("X"), false, &[]), []);
    assert_eq!(
        found("3.0.1", Some("X"), false, &[]),
        [Kind::HarnessVersion]
    );
    assert_eq!(found("2.1.0", None, false, &[]), [Kind::Login]);
    assert_eq!(found("2.1.0", Some("X"), true, &[]), [Kind::Root]);
    assert_eq!(found("2.1.0", Some("X"), true, &[("IS_SANDBOX", "1")]), []);
}

/// A program makes no promise from one 0.x version to the next.
#[test]
fn version_of_a_program_below_1_is_told_from_its_second_number_on() {
    let told = |version: &str| {
        let mut told = Vec::new();
        with(
            "codex",
            |_| {},
            &[],
            false,
            |known, start| {
                let seen = InstalledHarness {
                    version: Some(version.to_owned()),
                    login: Some("X".to_owned()),
                    ..InstalledHarness::default()
                };
                let all = findings(known, start, &seen);
                told = all.into_iter().map(|finding| finding.kind).collect();
            },
        );
        told.contains(&Kind::HarnessVersion)
    };
    assert!(!told("0.169.0") && !told("0.169.7"));
    assert!(told("0.170.0") && told("1.169.0"));
}

#[test]
fn keys_are_told_by_their_names_only() {
    let env = [
        ("ANTHROPIC_API_KEY", "secret"),
        ("HOME", "/home/u"),
        ("OTHER", "x"),
        ("GH_TOKEN", ""),
    ];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let told = shown(&env.into());
    let expected = [
        ("ANTHROPIC_API_KEY".to_owned(), None),
        ("HOME".to_owned(), Some("/home/u".to_owned())),
    ];
    assert_eq!(told, expected.into());
}

#[test]
fn every_proven_program_has_a_preset() {
    for known in PROGRAMS.iter().filter(|known| known.proven.is_some()) {
        with(
            known.program,
            |_| {},
            &[],
            false,
            |_, start| {
                assert_eq!(start.harness.name.as_str(), known.program);
            },
        );
    }
}
