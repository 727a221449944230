//! Files that agents write into the shared repository decide nothing. `custody_traps` shows that they run nothing.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use horde_supervisor::domain::ids::{Incarnation, Oid};
use horde_supervisor::ports::repo::{Committed, Repo, RepoError};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::support::city::{City, permit};
use crate::support::git::{commit_all, git, rev, try_git, write};

/// Runs everything that the supervisor does with a sandbox, from its charge to its removal.
pub fn whole_life(city: &City, name: &str) {
    let spec = city.spec_of(name, 2);
    city.repo.make_sandbox(&spec).unwrap();
    write(&spec.path, "README", "changed\n");
    city.repo.glance(&spec.path, "main").unwrap();
    city.repo.changes(&spec.path).unwrap();
    city.repo.facts(&spec.path, "main").unwrap();
    git(&spec.path, &["commit", "-qam", "work"]);
    let head = Oid::new(rev(&spec.path, "HEAD")).unwrap();
    city.repo.push_branch(&spec.branch, &head, None).unwrap();
    write(&spec.path, "more", "more\n");
    let raider = spec.raider.clone();
    let record = city
        .repo
        .salvage(&spec.path, &raider, Incarnation(2))
        .unwrap();
    let facts = city.facts(&spec.path);
    city.repo
        .discard_sandbox(&permit(&spec, &facts), &city.trash(), &|| Ok(()))
        .unwrap();
    city.repo
        .restore(&record, &city.root().join(format!("restored/{name}")))
        .unwrap();
    city.repo.delete_branch(&spec.branch, &head).unwrap();
}

/// A common convention, and half a line: each stopped every raider of the rig.
/// Case shared-configuration of an adversary: an `include.path` of one raider stops all landings.
#[test]
fn configuration_of_one_raider_stops_no_other() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, ".gitconfig", "[core\nhalf a line");
    git(&sandbox, &["config", "include.path", "../.gitconfig"]);
    whole_life(&city, "Nux");
    fs::write(city.repo.theirs().join("config"), "[core\nhalf a line").unwrap();
    whole_life(&city, "Furiosa");
}

/// git failed in every sandbox until the next start of the city.
#[test]
fn shared_git_files_are_written_anew_at_each_patrol() {
    let city = City::new();
    let sandbox = city.sandbox();
    let theirs = city.repo.theirs();
    let works = || try_git(&sandbox, &["status"]).status.success();
    let whole = fs::read_to_string(theirs.join("config")).unwrap();
    let with = |line: &str| format!("{whole}{line}");
    for (name, text) in [
        ("config", Some("[core\nhalf a line")),
        ("config", Some("[core]\n\tbare = true\n")),
        ("config", Some(&*with("[core]\n\tbare = maybe\n"))),
        (
            "config",
            Some(&*with("[core]\n\trepositoryformatversion = 99\n")),
        ),
        (
            "config",
            Some(&*with("[core]\n\trepositoryformatversion = none\n")),
        ),
        (
            "config",
            Some(&*with(
                "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tmine = 1\n",
            )),
        ),
        (
            "config",
            Some(&*with("[extensions]\n\tworktreeConfig = true\n")),
        ),
        ("config", None),
        ("objects/info/alternates", Some("/nowhere\n")),
        ("objects/info/alternates", None),
    ] {
        match text {
            Some(text) => fs::write(theirs.join(name), text).unwrap(),
            None => fs::remove_file(theirs.join(name)).unwrap(),
        }
        city.repo.progress(&sandbox).unwrap();
        assert!(works(), "{name}: {text:?}");
        assert_eq!(git(&sandbox, &["config", "gc.auto"]), "0", "{name}");
    }
    // A harmless setting is up to the agents.
    git(&sandbox, &["config", "alias.mine", "status"]);
    city.repo.progress(&sandbox).unwrap();
    assert_eq!(git(&sandbox, &["config", "alias.mine"]), "status");
}

/// A pipe made the start of the city wait for ever, and a link made another file be written.
#[test]
fn replaced_files_neither_stop_nor_mislead_the_start() {
    let city = City::new();
    let theirs = city.repo.theirs().to_owned();
    let mine = city.root().join("mine");
    let pipe = |path: &Path| mkfifo(path, Mode::S_IRWXU).unwrap();
    for name in ["config", "horde.config", "info/attributes", "info/exclude"] {
        let place = theirs.join(name);
        let clear = || drop(fs::remove_file(&place));
        fs::write(&mine, "mine\n").unwrap();
        clear();
        pipe(&place);
        city.repo.prepare().unwrap();
        clear();
        symlink("/dev/zero", &place).unwrap();
        city.repo.prepare().unwrap();
        clear();
        symlink(&mine, &place).unwrap();
        city.repo.prepare().unwrap();
        clear();
        if name != "info/exclude" {
            fs::create_dir_all(place.join("below")).unwrap();
            city.repo.prepare().unwrap();
        }
        assert_eq!(fs::read(&mine).unwrap(), b"mine\n", "{name}");
    }
    pipe(&city.root().join("pipe"));
    let include = city.root().join("pipe");
    let sandbox = city.sandbox();
    let include = include.to_str().unwrap();
    git(&sandbox, &["config", "--add", "include.path", include]);
    city.repo.prepare().unwrap();
    fs::remove_file(include).unwrap();
    let outside = city.root().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::remove_dir_all(theirs.join("info")).unwrap();
    symlink(&outside, theirs.join("info")).unwrap();
    city.repo.prepare().unwrap();
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    whole_life(&city, "Nux");
}

/// `git update-ref refs/remotes/origin/main HEAD` made unpushed work pass for pushed.
/// Case A33 of an adversary: a remote-tracking ref at the agent's own commit.
/// Case A33b of an adversary: such a ref that is gone again after the measurement.
/// Case A34 of an adversary: a forged branch of the remote.
#[test]
fn ref_that_an_agent_wrote_does_not_pass_for_the_remotes() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "mine\n");
    commit_all(&sandbox, "mine");
    for name in [
        "refs/remotes/origin/main",
        "refs/remotes/origin/other",
        "refs/horde/mq/gt-1",
        "refs/horde/salvage/horde/Toast/1/head",
    ] {
        git(&sandbox, &["update-ref", name, "HEAD"]);
        let facts = city.facts(&sandbox);
        assert!(!facts.head_reachable && facts.ahead == 1, "{name}");
    }
}

/// An outcome file that the repository has is no raider's report. git used to be asked in the sandbox, with the
/// configuration and objects that agents had put there.
#[test]
fn ours_decides_which_commits_exist() {
    let city = City::new();
    let sandbox = city.sandbox();
    let name = ".horde-outcome";
    fs::remove_file(sandbox.join(name)).unwrap();
    write(&sandbox, name, "passed");
    let has = |text: &str| {
        let bytes = Some(text.as_bytes());
        city.repo.committed(&sandbox, name, bytes)
    };
    assert_eq!(has("passed"), Ok(Committed::No));
    git(&sandbox, &["add", "-f", name]);
    git(&sandbox, &["commit", "-qm", "tracked"]);
    assert_eq!(has("passed"), Ok(Committed::OnBranch));
    write(&sandbox, name, "failed");
    assert_eq!(has("failed"), Ok(Committed::Known));
    write(&sandbox, "other", "failed");
    let other = git(&sandbox, &["hash-object", "-w", "other"]);
    let tracked = (Ok(Committed::OnBranch), Ok(Committed::Known));
    let blob = rev(&sandbox, "HEAD:.horde-outcome");
    git(&sandbox, &["replace", &blob, other.trim()]);
    fs::write(city.repo.theirs().join("config"), "[core\nhalf a line").unwrap();
    assert_eq!((has("passed"), has("failed")), tracked);
}

/// The repository has an outcome file, for example one that an earlier raider has committed.
#[test]
fn outcome_that_the_branch_has_changed_is_told_from_the_repositorys() {
    let city = City::with(|checkout| write(checkout, ".horde-outcome", "passed"));
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    let of = |text: &str| {
        let bytes = Some(text.as_bytes());
        city.repo.committed(&sandbox, ".horde-outcome", bytes)
    };
    assert_eq!(of("passed"), Ok(Committed::Before));
    write(&sandbox, ".horde-outcome", "stuck");
    assert_eq!(of("stuck"), Ok(Committed::Known));
    git(&sandbox, &["commit", "-qam", "stuck"]);
    assert_eq!(of("stuck"), Ok(Committed::OnBranch));
}

/// `git replace --graft origin/main HEAD` made a nuke see nothing to lose.
/// Case A30b of an adversary: a graft that makes unpushed work look pushed.
#[test]
fn replaced_objects_and_grafts_change_nothing() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "mine\n");
    commit_all(&sandbox, "mine");
    let before = city.facts(&sandbox);
    git(&sandbox, &["replace", "--graft", "origin/main", "HEAD"]);
    let after = city.facts(&sandbox);
    assert_eq!(after.head_reachable, before.head_reachable);
    assert_eq!((after.ahead, &after.head), (1, &before.head));
    let blob = rev(&sandbox, "HEAD:README");
    let other = git(&sandbox, &["hash-object", "-w", "run.sh"]);
    git(&sandbox, &["replace", blob.trim(), other.trim()]);
    let head = Oid::new(rev(&sandbox, "HEAD")).unwrap();
    let branch = city.spec(1).branch;
    city.repo.push_branch(&branch, &head, None).unwrap();
    let landed = git(&city.origin(), &["show", &format!("{branch}:README")]);
    assert_eq!(landed, "mine");
}

/// An object whose content does not match its name must not get into ours.
#[test]
fn object_with_another_content_is_refused() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "good\n");
    let head = commit_all(&sandbox, "good");
    let good = rev(&sandbox, "HEAD:README");
    write(&sandbox, "bad", "bad\n");
    let bad = git(&sandbox, &["hash-object", "-w", "bad"]);
    let file = |id: &str| {
        let objects = city.repo.theirs().join("objects");
        objects.join(&id[..2]).join(&id[2..])
    };
    fs::remove_file(file(&good)).unwrap();
    fs::copy(file(bad.trim()), file(&good)).unwrap();
    let refused = city
        .repo
        .push_branch(&city.spec(1).branch, &Oid::new(head).unwrap(), None)
        .unwrap_err();
    assert!(matches!(refused, RepoError::Damaged { .. }), "{refused:?}");
    let there = try_git(city.repo.repo_dir(), &["cat-file", "-e", &good]);
    assert!(!there.status.success());
}

/// A link in the place of a directory of refs, or a pipe in the place of a ref: no sandbox of the rig could be judged
/// or saved until a person had removed it.
#[test]
fn links_and_pipes_in_the_shared_repository_hang_and_stop_nothing() {
    let city = City::new();
    let sandbox = city.sandbox();
    let theirs = city.repo.theirs();
    let away = city.root().join("away");
    fs::write(&away, "mine\n").unwrap();
    fs::create_dir_all(theirs.join("logs/refs")).unwrap();
    for name in ["packed-refs", "logs/refs/stash"] {
        for (kind, aside) in [("pipe", ".aside"), ("link", ".aside.2")] {
            let place = theirs.join(name);
            fs::remove_file(&place).ok();
            match kind {
                "pipe" => mkfifo(&place, Mode::S_IRWXU).unwrap(),
                _ => symlink(&away, &place).unwrap(),
            }
            city.facts(&sandbox);
            // The refs that ours knows of them are written again.
            let found = fs::symlink_metadata(&place);
            assert!(found.is_ok_and(|it| it.is_file()) == (name == "packed-refs"));
            let aside = theirs.join(format!("{}{aside}", name.replace('/', "-")));
            assert!(fs::symlink_metadata(aside).is_ok(), "{kind} {name}");
        }
    }
    assert_eq!(fs::read_to_string(&away).unwrap(), "mine\n");
    symlink(city.root(), theirs.join("refs/heads/away")).unwrap();
    city.facts(&sandbox);
    whole_life(&city, "Nux");
}

/// A link in the place of a raider's branch: no other sandbox of the rig could be judged, and its own could neither be
/// saved nor removed.
#[test]
fn link_in_the_place_of_a_branch_is_set_aside_and_the_branch_is_put_back() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "mine\n");
    commit_all(&sandbox, "mine");
    let head = rev(&sandbox, "HEAD");
    let branch = city.spec(1).branch;
    let own = city.repo.theirs().join("refs/heads").join(&branch);
    let away = city.root().join("away");
    fs::rename(&own, &away).unwrap();
    symlink(&away, &own).unwrap();
    whole_life(&city, "Nux");
    city.repo.spare_branches().unwrap();
    let facts = city.facts(&sandbox);
    assert_eq!((facts.ahead, facts.head.as_str()), (1, &*head));
    assert!(facts.is_committed(), "{facts:?}");
    let record = city.salvage(&sandbox);
    assert!(!own.is_symlink() && away.exists());
    assert_eq!(rev(&sandbox, "HEAD"), head);
    // The commits of its reflog are kept.
    let kept = git(city.repo.repo_dir(), &["for-each-ref", "--contains", &head]);
    assert!(!kept.is_empty(), "{record:?}");
    let facts = city.facts(&sandbox);
    city.repo
        .discard_sandbox(&permit(&city.spec(1), &facts), &city.trash(), &|| Ok(()))
        .unwrap();
}
