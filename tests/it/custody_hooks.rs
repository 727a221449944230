//! The pre-push hook of a rig with a URL: only the user's own configuration can name one.

use std::fs;
use std::path::PathBuf;

use horde_supervisor::domain::city::RigSource;
use horde_supervisor::domain::ids::Oid;
use horde_supervisor::ports::repo::{Repo, RepoError};
use horde_supervisor::testing::scratch;

use crate::support::again::again;
use crate::support::city::{City, repo};
use crate::support::git::{git, rev, try_git};
use crate::support::program::script;

#[test]
fn hook_of_the_users_own_configuration_can_refuse_a_push_of_a_rig_with_a_url() {
    let dir = scratch();
    let (file, nowhere) = (dir.path().join("gitconfig"), dir.path().join("config"));
    let variables = [
        ("GIT_CONFIG_GLOBAL", file.as_os_str()),
        ("XDG_CONFIG_HOME", nowhere.as_os_str()),
    ];
    let test = hook_of_the_users_own_configuration_can_refuse_a_push_of_a_rig_with_a_url;
    if !again(test, &variables) {
        return;
    }
    let file = PathBuf::from(std::env::var_os("GIT_CONFIG_GLOBAL").unwrap());
    let of_user = |path: &str| {
        fs::write(&file, format!("[core]\n\thooksPath = {path}\n")).unwrap();
    };
    let city = City::bare();
    let url = format!("file://{}", city.origin().display());
    let repo = repo(&city.root().join("elsewhere"), RigSource::Remote(url), true);
    repo.prepare().unwrap();
    let head = Oid::new(rev(repo.repo_dir(), "refs/remotes/origin/main")).unwrap();
    let hooks = city.root().join("hooks");
    fs::create_dir(&hooks).unwrap();
    script(&hooks.join("pre-push"), "echo not today >&2; exit 1");
    of_user(hooks.to_str().unwrap());
    let refused = repo.push_branch("work", &head, None).unwrap_err();
    assert!(
        matches!(&refused, RepoError::Rejected(why) if why.contains("not today")),
        "{refused}"
    );
    let pushed = || try_git(&city.origin(), &["rev-parse", "-q", "--verify", "work"]);
    assert!(!pushed().status.success());
    // git would look for a relative path below the repository that it pushes from.
    let mark = city.root().join("ran");
    for dir in [repo.repo_dir(), repo.theirs()] {
        let hooks = dir.join("hooks");
        fs::create_dir_all(&hooks).unwrap();
        let text = format!("touch '{}'; exit 1", mark.display());
        script(&hooks.join("pre-push"), &text);
    }
    of_user("hooks");
    repo.push_branch("work", &head, None).unwrap();
    assert_eq!(rev(&city.origin(), "work"), head.as_str());
    assert!(!mark.exists(), "a hook below a repository ran");
    let git_itself = [
        "push",
        "-q",
        &format!("file://{}", city.origin().display()),
        "origin/main:refs/heads/other",
    ];
    git(repo.repo_dir(), &["config", "core.hooksPath", "hooks"]);
    assert!(!try_git(repo.repo_dir(), &git_itself).status.success());
    assert!(mark.exists(), "the control: git runs it");
}
