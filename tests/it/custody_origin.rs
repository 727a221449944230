//! The address of a rig's origin, and the settings of the user that commands at a remote read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use horde_supervisor::ports::repo::{Repo, RepoError};

use crate::support::again::again;
use crate::support::city::City;
use crate::support::git::{git, write};

/// git still reads an origin from such a file, and a push goes there. Work had landed in the checkout.
#[test]
fn origin_in_a_file_of_its_own_is_refused_with_what_helps() {
    for (dir, key) in [("remotes", "URL: "), ("branches", "")] {
        let city = City::bare();
        let checkout = city.checkout();
        git(&checkout, &["remote", "remove", "origin"]);
        let url = city.origin().display().to_string();
        write(
            &checkout,
            &format!(".git/{dir}/origin"),
            format!("{key}{url}\n"),
        );
        let refused = city.repo.prepare().unwrap_err().to_string();
        assert!(
            refused.contains("git remote rename origin origin"),
            "{refused}"
        );
        git(&checkout, &["remote", "rename", "origin", "origin"]);
        city.repo.prepare().unwrap();
        assert_eq!(city.repo.push_url().unwrap(), url);
    }
}

/// git reads them there, as it reads those of the user. Work had landed in the checkout, or at the other remote.
#[test]
fn settings_of_a_remote_outside_of_the_configuration_of_the_checkout_count_as_for_git() {
    let city = City::bare();
    let checkout = city.checkout();
    let origin = city.origin().display().to_string();
    git(&checkout, &["remote", "remove", "origin"]);
    git(&checkout, &["config", "extensions.worktreeConfig", "true"]);
    let set = |args: &[&str]| git(&checkout, &[&["config", "--worktree"], args].concat());
    set(&["remote.origin.url", "../origin.git"]);
    set(&["--add", "remote.origin.url", "../second.git"]);
    city.repo.prepare().unwrap();
    assert_eq!(city.repo.push_url().unwrap(), origin);
    assert_eq!(city.repo.own_origin().unwrap(), None);
    set(&["remote.origin.pushurl", "../fork.git"]);
    let fork = city.origin().with_file_name("fork.git");
    fs::create_dir(&fork).unwrap();
    for _ in 0..2 {
        let unreachable = city.repo.prepare().unwrap_err();
        assert!(matches!(unreachable, RepoError::Remote(_)), "{unreachable}");
    }
    let (from, to) = (city.origin(), fork.display().to_string());
    git(&from, &["clone", "--quiet", "--bare", ".", &to]);
    git(&from, &["update-ref", "refs/heads/only-there", "main"]);
    city.repo.prepare().unwrap();
    assert_eq!(city.repo.push_url().unwrap(), to);
    let listed = git(city.repo.repo_dir(), &["for-each-ref", "refs/remotes"]);
    assert!(!listed.contains("only-there"), "{listed}");
}

/// It had landed in the checkout.
#[test]
fn origin_with_a_push_url_alone_is_no_missing_origin() {
    let city = City::bare();
    let (checkout, origin) = (city.checkout(), city.origin().display().to_string());
    git(&checkout, &["remote", "remove", "origin"]);
    git(&checkout, &["config", "remote.origin.pushurl", &origin]);
    city.repo.prepare().unwrap();
    assert_eq!(city.repo.push_url().unwrap(), origin);
    assert_eq!(city.repo.own_origin().unwrap(), None);
}

/// Work had landed in the checkout.
#[test]
fn origin_that_is_not_known_is_no_missing_one() {
    let city = City::bare();
    let (checkout, origin) = (city.checkout(), city.origin().display().to_string());
    git(&checkout, &["remote", "remove", "origin"]);
    let is_refused = |named: &str| {
        let refused = city.repo.prepare().unwrap_err().to_string();
        assert!(refused.contains(named), "{refused}");
    };
    git(&checkout, &["config", "include.path", "../.gitconfig"]);
    write(
        &checkout,
        ".gitconfig",
        format!("[remote \"origin\"]\nurl = {origin}\n"),
    );
    is_refused(".gitconfig, which agents write");
    git(&checkout, &["config", "--unset", "include.path"]);
    git(
        &checkout,
        &["config", "remote.origin.url", &format!("{origin}\nx")],
    );
    is_refused("has no URL that git lists");
    git(&checkout, &["config", "remote.origin.url", &origin]);
    city.repo.prepare().unwrap();
    let elsewhere = checkout.with_file_name("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let elsewhere = elsewhere.display().to_string();
    git(&checkout, &["config", "core.worktree", &elsewhere]);
    is_refused("(core.worktree)");
}

/// A part that only rewriting adds may be a password, and another rewriting would lead elsewhere.
#[test]
fn sandboxes_get_the_urls_as_they_are_written() {
    let city = City::bare();
    let (checkout, origin) = (city.checkout(), city.origin());
    let base = format!("url.{}/.insteadOf", origin.parent().unwrap().display());
    git(&checkout, &["config", &base, "work:"]);
    git(
        &checkout,
        &["remote", "set-url", "origin", "work:origin.git"],
    );
    city.repo.prepare().unwrap();
    assert_eq!(city.repo.push_url().unwrap(), origin.display().to_string());
    let has = |dir: &Path, key: &str| git(dir, &["config", key]);
    assert_eq!(
        has(city.repo.theirs(), "remote.origin.url"),
        "work:origin.git"
    );
    let ours = city.repo.repo_dir();
    assert_eq!(has(ours, "remote.origin.url"), origin.display().to_string());
    assert_eq!(has(ours, "remote.origin as written.url"), "work:origin.git");
}

/// After a reload that could not fetch from there, work went on with the refs of the former origin.
#[test]
fn rig_is_held_until_its_new_origin_has_been_fetched() {
    let city = City::bare();
    city.repo.prepare().unwrap();
    assert_eq!(city.repo.held(), None);
    let elsewhere = city.origin().with_file_name("elsewhere.git");
    let url = elsewhere.display().to_string();
    git(&city.checkout(), &["remote", "set-url", "origin", &url]);
    city.repo.prepare().unwrap_err();
    assert!(city.repo.held().is_some());
    fs::rename(city.origin(), &elsewhere).unwrap();
    city.repo.prepare().unwrap();
    assert_eq!(city.repo.held(), None);
}

/// Agents change such a file with their work: its programs had run at the next fetch.
#[test]
fn file_of_agents_that_a_condition_of_the_user_includes_is_not_read_at_a_remote() {
    let dir = horde_supervisor::testing::scratch();
    let (file, nowhere) = (dir.path().join("gitconfig"), dir.path().join("config"));
    let variables = [
        ("GIT_CONFIG_GLOBAL", file.as_os_str()),
        ("XDG_CONFIG_HOME", nowhere.as_os_str()),
    ];
    let test = file_of_agents_that_a_condition_of_the_user_includes_is_not_read_at_a_remote;
    if !again(test, &variables) {
        return;
    }
    let file = PathBuf::from(std::env::var_os("GIT_CONFIG_GLOBAL").unwrap());
    let team = file.with_file_name("team.inc");
    let city = City::bare();
    let (ours, checkout) = (city.repo.repo_dir().to_owned(), city.checkout());
    let agents = checkout.join(".gitconfig");
    let settings = "[test]\n\tagents = yes\n[user]\n\temail = agent@x.invalid\n";
    fs::write(&agents, settings).unwrap();
    git(&checkout, &["config", "--unset-all", "user.email"]);
    let url = city.origin().display().to_string();
    // With the settings of the user, which tests leave out else.
    let asked = |key: &str| {
        let mut git = Command::new("git");
        let git = git.current_dir(&ours).args(["config", key]);
        git.output().unwrap().status.success()
    };
    let instead = ours.join("horde/user-at-remote.config");
    for condition in [
        format!("gitdir:{}/", ours.display()),
        format!("gitdir/i:{}/", ours.display().to_string().to_uppercase()),
        format!("hasconfig:remote.*.url:{url}"),
        "onbranch:horde".to_owned(),
        // One that does not hold today.
        "onbranch:another".to_owned(),
    ] {
        for is_nested in [false, true] {
            let agents = agents.display().to_string();
            let (first, second) = match is_nested {
                true => (
                    team.display().to_string(),
                    format!("[include]\n\tpath = {agents}\n"),
                ),
                false => (agents, String::new()),
            };
            fs::write(&team, format!("[test]\n\tteam = yes\n{second}")).unwrap();
            let text = format!(
                "[user]\n\temail = me@x.invalid\n[includeIf \"{condition}\"]\n\tpath = {first}\n\
                 [includeIf \"onbranch:another\"]\n\tpath = ~no-such-user/x\n"
            );
            fs::write(&file, text).unwrap();
            city.repo.prepare().unwrap();
            let holds = !condition.ends_with("another");
            assert_eq!(asked("test.agents"), holds, "the control: git reads it");
            let file = instead.display().to_string();
            let listed = git(&ours, &["config", "--file", &file, "--list"]);
            assert!(!listed.contains("agent"), "{condition}: {listed}");
            assert_eq!(
                listed.contains("test.team=yes"),
                holds && is_nested,
                "{condition}"
            );
            let email = city.repo.user_email();
            assert_eq!(email.as_deref(), Some("me@x.invalid"), "{condition}");
        }
    }
    fs::write(&file, "[user]\n\temail = me@x.invalid\n").unwrap();
    city.repo.prepare().unwrap();
    assert!(!instead.exists());
}

/// Work had gone to the public remote when the file with the address of the internal one became that of a rig.
#[test]
fn rig_is_held_whose_origin_is_elsewhere_without_the_settings_that_agents_write() {
    let city = City::bare();
    let (checkout, origin) = (city.checkout(), city.origin().display().to_string());
    git(&checkout, &["remote", "set-url", "origin", &origin]);
    git(&checkout, &["config", "include.path", "../team.inc"]);
    for settings in [
        format!("[url \"/internal\"]\n\tinsteadOf = {origin}\n"),
        "[remote \"origin\"]\n\tpushurl = /internal\n".to_owned(),
    ] {
        write(&checkout, "team.inc", settings);
        let why = city.repo.prepare().unwrap_err().to_string();
        for part in ["/internal", "team.inc", &origin] {
            assert!(why.contains(part), "{why}");
        }
        assert!(city.repo.held().is_some());
    }
    write(
        &checkout,
        "team.inc",
        "[url \"/internal\"]\n\tinsteadOf = another:\n",
    );
    city.repo.prepare().unwrap();
    assert_eq!(city.repo.push_url().unwrap(), origin);
    assert_eq!(city.repo.held(), None);
    // A later one is held as well, and a reload goes on for the others.
    let led = format!("[url \"/internal\"]\n\tinsteadOf = {origin}\n");
    write(&checkout, "team.inc", led);
    city.repo.prepare().unwrap_err();
    let held = city.repo.held().unwrap();
    assert!(held.contains("/internal"), "{held}");
    write(&checkout, "team.inc", "");
    city.repo.prepare().unwrap();
    assert_eq!(city.repo.held(), None);
}
