//! Settings of the user that hold for the rig's checkout alone (`includeIf`): which remote its names lead to, and whose commits
//! are made there.

use crate::support::git::{git, write};
use crate::support::live::City;
use crate::support::plan::Plan;
use crate::support::program::script;

/// Work had landed at the remote that the user's settings lead away from, under another name.
#[test]
fn settings_of_the_user_for_the_checkout_alone_count_as_for_git() {
    let mut city = City::made(&Plan::new());
    let (checkout, root) = (city.checkout(), city.root().to_owned());
    let mirror = root.join("mirrors/work.git");
    let (from, to) = (
        city.origin().display().to_string(),
        mirror.display().to_string(),
    );
    git(&root, &["clone", "-q", "--bare", &from, &to]);
    git(&checkout, &["remote", "set-url", "origin", "work:work.git"]);
    git(&checkout, &["config", "--remove-section", "user"]);
    let of_checkout = format!(
        "[includeIf \"gitdir:{}/\"]\npath = work.inc\n",
        checkout.display()
    );
    write(&root, "home/.gitconfig", of_checkout);
    let settings = format!(
        "[user]\nname = At Work\nemail = at@work.invalid\n[url \"{}/\"]\ninsteadOf = work:\n",
        root.join("mirrors").display()
    );
    write(&root, "home/work.inc", settings);
    let before = git(&city.origin(), &["rev-parse", "main"]);
    city.start();
    let relic = city.relic("a", &["commit a.txt", "hd done"]);
    city.charge(&relic);
    city.wait_status(&relic, "closed");
    let log = git(&mirror, &["log", "--format=%ae %s", "main"]);
    assert!(log.contains("at@work.invalid add a.txt"), "{log}");
    assert_eq!(git(&city.origin(), &["rev-parse", "main"]), before);
    city.stop();
}

/// Fetches and pushes run in the supervisor's own repository, for which the user's settings may name other addresses: rewritten once
/// more, work had landed there.
#[test]
fn addresses_of_the_checkout_hold_whatever_the_user_has_for_the_city() {
    let mut city = City::made(&Plan::new());
    let (checkout, root) = (city.checkout(), city.root().to_owned());
    let wrong = root.join("wrong.git").display().to_string();
    let origin = city.origin().display().to_string();
    git(&root, &["clone", "-q", "--bare", &origin, &wrong]);
    let relative = format!("../{}", city.origin().file_name().unwrap().display());
    git(&checkout, &["remote", "set-url", "origin", &relative]);
    assert!(checkout.join(&relative).exists());
    // git in the checkout rewrites no relative path.
    let of_all = format!(
        "[user]\nname = P\nemail = p@x.invalid\n[url \"{wrong}\"]\ninsteadOf = {origin}\n[includeIf \"gitdir:{}/\"]\npath = city.inc\n\
         [remote \"x y\"]\nurl = {wrong}\n",
        root.join(".horde").display()
    );
    write(&root, "home/.gitconfig", of_all);
    let of_machine = format!(
        "[url \"{wrong}\"]\ninsteadOf = {origin}\npushInsteadOf = {origin}\n\
         [includeIf \"hasconfig:remote.*.url:{origin}\"]\npath = corp.inc\n"
    );
    write(&root, "corp.inc", "[http]\nproxy = proxy.invalid\n");
    let of_city = format!(
        "[url \"{wrong}\"]\npushInsteadOf = {origin}\n[url \"{wrong}/\"]\ninsteadOf = {}/\n",
        root.display()
    );
    write(&root, "home/city.inc", of_city);
    // The machine's settings are read before all others, and the first of equal prefixes counts.
    write(&root, "machine.config", of_machine);
    let before = git(&root.join("wrong.git"), &["rev-parse", "main"]);
    let mut supervisor = city.supervisor();
    supervisor.env_remove("GIT_CONFIG_NOSYSTEM");
    supervisor.env("GIT_CONFIG_SYSTEM", root.join("machine.config"));
    city.start_as(supervisor);
    // Conditions of the machine hold there as well.
    let at_remote = root.join(".horde/custody/horde.git/horde/machine.config");
    let at_remote = at_remote.display().to_string();
    let proxy = git(&root, &["config", "--file", &at_remote, "http.proxy"]);
    assert_eq!(proxy, "proxy.invalid");
    let relic = city.relic("a", &["commit a.txt", "hd done"]);
    city.charge(&relic);
    city.wait_status(&relic, "closed");
    let log = git(&city.origin(), &["log", "--format=%s", "main"]);
    assert!(log.contains("add a.txt"), "{log}");
    assert_eq!(git(&root.join("wrong.git"), &["rev-parse", "main"]), before);
    city.stop();
}

/// It was pushed to the one, and looked for at the other.
#[test]
fn work_lands_where_the_user_pushes_instead() {
    let mut city = City::made(&Plan::new());
    let root = city.root().to_owned();
    let pushed = root.join("pushed.git").display().to_string();
    let origin = city.origin().display().to_string();
    git(&root, &["clone", "-q", "--bare", &origin, &pushed]);
    git(&city.checkout(), &["remote", "set-url", "origin", &origin]);
    let settings = format!("[url \"{pushed}\"]\npushInsteadOf = {origin}\n");
    write(&root, "home/.gitconfig", settings);
    let before = git(&city.origin(), &["rev-parse", "main"]);
    city.start();
    let relic = city.relic("a", &["commit a.txt", "hd done"]);
    city.charge(&relic);
    city.wait_status(&relic, "closed");
    let log = git(&root.join("pushed.git"), &["log", "--format=%s", "main"]);
    assert!(log.contains("add a.txt"), "{log}");
    assert_eq!(git(&city.origin(), &["rev-parse", "main"]), before);
    city.stop();
}

/// Agents change such a file with their work.
#[test]
fn settings_in_a_tracked_file_that_the_checkout_includes_lead_nowhere() {
    let mut city = City::made(&Plan::new());
    let (checkout, root) = (city.checkout(), city.root().to_owned());
    let wrong = root.join("wrong.git").display().to_string();
    let origin = city.origin().display().to_string();
    git(&root, &["clone", "-q", "--bare", &origin, &wrong]);
    git(&checkout, &["remote", "set-url", "origin", &origin]);
    git(&checkout, &["config", "include.path", "../.gitconfig"]);
    let included = format!("[url \"{wrong}\"]\ninsteadOf = up:\n[merge]\nconflictStyle = diff3\n");
    git(&checkout, &["remote", "add", "up", "up:x"]);
    write(&checkout, ".gitconfig", included);
    std::fs::create_dir(checkout.join("hooks")).unwrap();
    script(&checkout.join("hooks/pre-push"), "exit 1");
    git(&checkout, &["add", ".gitconfig", "hooks"]);
    git(&checkout, &["commit", "-q", "-m", "settings for all"]);
    git(
        &checkout,
        &["push", "-q", &format!("file://{origin}"), "HEAD:main"],
    );
    git(&checkout, &["config", "core.hooksPath", "hooks"]);
    let before = git(&root.join("wrong.git"), &["rev-parse", "main"]);
    city.start();
    let log = std::fs::read_to_string(root.join("supervisor.log")).unwrap();
    assert!(
        log.contains("the settings in these files are left out"),
        "{log}"
    );
    let relic = city.relic("a", &["commit .gitconfig", "hd done"]);
    city.charge(&relic);
    city.wait_status(&relic, "closed");
    let log = git(&city.origin(), &["log", "--format=%s", "main"]);
    assert!(log.contains("add .gitconfig"), "{log}");
    assert_eq!(git(&root.join("wrong.git"), &["rev-parse", "main"]), before);
    let ours = root.join(".horde/custody/horde.git");
    assert_eq!(git(&ours, &["config", "remote.up.url"]), "up:x");
    let given = git(&city.theirs(), &["config", "merge.conflictStyle"]);
    assert_eq!(given, "diff3");
    let log = std::fs::read_to_string(root.join("supervisor.log")).unwrap();
    let told = log.matches("do not run this pre-push hook").count();
    assert_eq!(told, 1, "{log}");
    city.stop();
}
