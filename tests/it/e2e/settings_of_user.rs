//! Settings of the user that hold for the rig's checkout alone (`includeIf`): which remote its names lead to, and whose commits
//! are made there.

use crate::support::git::{git, write};
use crate::support::live::City;
use crate::support::plan::Plan;

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
