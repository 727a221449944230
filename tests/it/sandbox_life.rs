//! The life of a sandbox through the port, on a prepared rig: made, landed, removed.

use std::fs;
use std::path::Path;
use std::time::Duration;

use horde_supervisor::domain::city::RigSource;
use horde_supervisor::domain::ids::{Oid, RelicId};
use horde_supervisor::domain::merge::{CheckoutBusy, LandStyle, MergeOutcome};
use horde_supervisor::ports::repo::{GateSpec, LandRequest, Repo, RepoError, Signature};

use crate::custody_theirs::whole_life;
use crate::support::again::again;
use crate::support::city::{City, repo};
use crate::support::git::{commit_all, git, rev, try_git, write};

/// Returns the request to land `head` on a target that is at `onto`.
pub fn request(head: &Oid, onto: &Oid, style: LandStyle) -> LandRequest {
    LandRequest {
        head: head.clone(),
        began: Vec::new(),
        onto: onto.clone(),
        style,
        title: "Do it (gt-1)".into(),
        trailers: vec!["Horde-MR: gt-2".into()],
        committer: Signature {
            name: "horde/forge".into(),
            email: "forge@example.invalid".into(),
        },
    }
}

fn gate(city: &City, run: &str) -> GateSpec {
    GateSpec {
        name: "test".into(),
        run: run.into(),
        timeout: Duration::from_secs(120),
        env: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
        log_dir: city.root().join("city/.horde/gate-logs/horde"),
    }
}

/// Works in a sandbox, lands it, cleans up. Returns the commit that landed.
fn land(city: &City, repo: &dyn Repo, style: LandStyle) -> Oid {
    let spec = city.spec(1);
    repo.make_sandbox(&spec).expect("git does it");
    write(&spec.path, "src/new.txt", "new\n");
    let head = Oid::new(commit_all(&spec.path, "add it")).expect("git does it");
    let mr = RelicId::new("gt-2").expect("git does it");
    repo.push_branch(&spec.branch, &head, None)
        .expect("git does it");
    assert_eq!(
        repo.remote_head(&spec.branch)
            .expect("git does it")
            .as_ref(),
        Some(&head)
    );
    repo.pin(&mr, &head).expect("git does it");

    let target = repo.fetch_target("main").expect("git does it");
    let outcome = repo
        .merge(&request(&head, &target.tip, style))
        .expect("git does it");
    let MergeOutcome::Clean { tip, tree } = outcome else {
        panic!("{outcome:?}");
    };
    let run = repo
        .run_gate(&tip, &gate(city, "test -f src/new.txt && test -f README"))
        .expect("git does it");
    assert_eq!((run.code, run.changed.len()), (Some(0), 0), "{}", run.tail);
    repo.land("main", &target.tip, &tip).expect("git does it");
    assert!(repo.landed("main", &tip).expect("git does it"));
    assert!(repo.on_main(&head, "main").expect("git does it"));
    assert_eq!(repo.fetch_target("main").expect("git does it").tree, tree);

    repo.delete_branch(&spec.branch, &head)
        .expect("git does it");
    repo.unpin(&mr).expect("git does it");
    tip
}

#[test]
fn work_goes_from_a_sandbox_to_the_remote() {
    for style in LandStyle::ALL.iter().copied() {
        let city = City::new();
        let before = rev(&city.checkout(), "HEAD");
        let tip = land(&city, &city.repo, style);
        assert_eq!(rev(&city.origin(), "refs/heads/main"), tip.as_str());
        let gone = try_git(
            &city.origin(),
            &["rev-parse", "--verify", "raider/Toast/gt-1-1"],
        );
        assert!(!gone.status.success());
        let body = git(&city.origin(), &["log", "-1", "--format=%cn%n%B", "main"]);
        assert!(body.starts_with("horde/forge\n"), "{body}");
        assert!(body.ends_with("Horde-MR: gt-2"), "{body}");
        // The user's checkout is never touched.
        assert_eq!(rev(&city.checkout(), "HEAD"), before);
        assert_eq!(git(&city.checkout(), &["status", "--porcelain"]), "");
    }
}

/// A person removes a commit from the target by a force-push while a raider works on it.
#[test]
fn commit_removed_from_the_target_does_not_come_back_with_work() {
    for style in LandStyle::ALL.iter().copied() {
        for merges in [false, true] {
            let (city, oops) = begun_on("secret");
            let (checkout, repo) = (city.checkout(), &city.repo);
            let spec = city.spec(1);
            write(&spec.path, "src/new.txt", "new\n");
            commit_all(&spec.path, "add it");
            if merges {
                git(&spec.path, &["checkout", "-q", "-b", "side", "HEAD~1"]);
                write(&spec.path, "side", "side\n");
                commit_all(&spec.path, "side");
                git(&spec.path, &["checkout", "-q", &spec.branch]);
                git(&spec.path, &["merge", "-q", "--no-ff", "side"]);
            }
            let head = pushed(&city);
            git(&checkout, &["reset", "-q", "--hard", "HEAD~1"]);
            write(&checkout, "other", "other\n");
            commit_all(&checkout, "other work");
            push_main(&city);
            let tip = repo.fetch_target("main").unwrap().tip;
            let begun = LandRequest {
                began: vec![oops.clone()],
                ..request(&head, &tip, style)
            };
            let landed = merged(&city, &begun);
            let wanted: &[&str] = match merges {
                true => &["other", "side", "src/new.txt"],
                false => &["other", "src/new.txt"],
            };
            assert_eq!(added(&city, &landed), wanted, "{style:?}");
            let history = git(repo.repo_dir(), &["rev-list", landed.as_str()]);
            assert!(!history.contains(oops.as_str()), "{style:?}");
            // Nothing of it is the raider's work.
            let nothing = LandRequest {
                head: oops,
                ..begun
            };
            assert_eq!(repo.merge(&nothing).unwrap(), MergeOutcome::Nothing);
            // On a branch that was pushed before, the same commit belongs to the work.
            let own = request(&head, &tip, style);
            assert!(
                added(&city, &merged(&city, &own)).contains(&"secret".into()),
                "{style:?}"
            );
        }
    }
}

/// The agent merges the rewritten target, and a person reverts there a change that it took over.
#[test]
fn revert_on_a_rewritten_target_is_not_undone_by_work_with_the_reverted_commit() {
    for style in LandStyle::ALL.iter().copied() {
        let (city, oops) = begun_on("secret");
        let (checkout, repo, spec) = (city.checkout(), &city.repo, city.spec(1));
        write(&spec.path, "src/new.txt", "new\n");
        commit_all(&spec.path, "add it");
        git(&checkout, &["reset", "-q", "--hard", "HEAD~1"]);
        write(&checkout, "mistake", "mistake\n");
        let mistake = commit_all(&checkout, "mistake");
        push_main(&city);
        repo.fetch_target("main").unwrap();
        git(&spec.path, &["merge", "-q", "-m", "merge", &mistake]);
        let head = pushed(&city);
        git(&checkout, &["revert", "--no-edit", "HEAD"]);
        push_main(&city);
        let tip = repo.fetch_target("main").unwrap().tip;
        let begun = LandRequest {
            began: vec![oops],
            ..request(&head, &tip, style)
        };
        let landed = merged(&city, &begun);
        assert_eq!(added(&city, &landed), ["src/new.txt"], "{style:?}");
    }
}

/// Makes a city whose target has an additional file, and a sandbox that was begun on that.
fn begun_on(file: &str) -> (City, Oid) {
    let city = City::new();
    write(&city.checkout(), file, "password\n");
    let tip = Oid::new(commit_all(&city.checkout(), "oops")).unwrap();
    push_main(&city);
    city.repo.fetch_target("main").unwrap();
    city.repo.make_sandbox(&city.spec(1)).unwrap();
    (city, tip)
}

fn push_main(city: &City) {
    git(
        &city.checkout(),
        &["push", "-q", "--force", "origin", "HEAD:main"],
    );
}

/// Pushes the raider's work, and returns its head.
fn pushed(city: &City) -> Oid {
    let spec = city.spec(1);
    let head = Oid::new(rev(&spec.path, "HEAD")).unwrap();
    city.repo.push_branch(&spec.branch, &head, None).unwrap();
    head
}

fn merged(city: &City, request: &LandRequest) -> Oid {
    match city.repo.merge(request).unwrap() {
        MergeOutcome::Clean { tip, .. } => tip,
        other => panic!("{:?}: {other:?}", request.style),
    }
}

/// Returns the files that a commit has in addition to those of the very first commit.
fn added(city: &City, tip: &Oid) -> Vec<String> {
    let first = git(
        city.repo.repo_dir(),
        &["rev-list", "--max-parents=0", tip.as_str()],
    );
    let range = [first.trim(), tip.as_str()];
    let names = ["diff", "--name-only", range[0], range[1]];
    let names = git(city.repo.repo_dir(), &names);
    names.lines().map(str::to_owned).collect()
}

/// The same city, with a checkout without origin.
fn without_remote(push: bool) -> City {
    let mut city = City::bare();
    git(&city.checkout(), &["remote", "remove", "origin"]);
    fs::remove_dir_all(city.origin()).expect("git does it");
    city.repo = repo(&city.root(), RigSource::Path(city.checkout()), push);
    city.repo.prepare().expect("git does it");
    city
}

#[test]
fn a_rig_without_a_remote_lands_in_its_checkout() {
    let city = without_remote(true);
    let tip = land(&city, &city.repo, LandStyle::Rebase);
    let checkout = city.checkout();
    assert_eq!(rev(&checkout, "refs/heads/main"), tip.as_str());
    assert_eq!(text(&checkout.join("src/new.txt")), "new\n");
    assert_eq!(git(&checkout, &["status", "--porcelain"]), "");

    // A checkout with changes makes the landing wait.
    write(&checkout, "README", "mine\n");
    let spec = city.spec(2);
    let work = city.root().join("work");
    git(
        city.repo.theirs(),
        &[
            "worktree",
            "add",
            "-q",
            work.to_str().expect("git does it"),
            tip.as_str(),
        ],
    );
    write(&work, "src/more.txt", "more\n");
    let head = Oid::new(commit_all(&work, "more")).expect("git does it");
    city.repo
        .push_branch(&spec.branch, &head, None)
        .expect("git does it");
    let error = city.repo.land("main", &tip, &head).unwrap_err();
    assert!(
        matches!(&error, RepoError::CheckoutBusy { why: CheckoutBusy::Changed(names), .. } if names == "README")
    );
    assert_eq!(text(&checkout.join("README")), "mine\n");
    write(&checkout, "README", "hello\n");
    city.repo.land("main", &tip, &head).expect("git does it");
    assert_eq!(text(&checkout.join("src/more.txt")), "more\n");
}

#[test]
fn a_rig_that_does_not_push_lands_in_its_own_repository() {
    let city = without_remote(false);
    let before = rev(&city.checkout(), "HEAD");
    let tip = land(&city, &city.repo, LandStyle::Squash);
    assert_eq!(rev(city.repo.repo_dir(), "refs/heads/main"), tip.as_str());
    assert_eq!(rev(&city.checkout(), "HEAD"), before);
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("git does it")
}

/// A distribution's own git may be older than the one that was found first: Debian 12 has 2.39.
#[test]
fn work_lands_and_sandboxes_go_with_the_git_of_the_system() {
    const SYSTEM: &str = "/usr/bin";
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = [SYSTEM.into()]
        .into_iter()
        .chain(std::env::split_paths(&path));
    let path = std::env::join_paths(dirs).unwrap();
    let variables = [("PATH", &*path)];
    if !again(
        work_lands_and_sandboxes_go_with_the_git_of_the_system,
        &variables,
    ) {
        return;
    }
    work_goes_from_a_sandbox_to_the_remote();
    let city = City::new();
    whole_life(&city, "Nux");
    // A clone inside is compared with all refs of ours.
    let sandbox = city.sandbox();
    git(
        &sandbox,
        &["clone", "-q", "../../../../origin.git", "clone"],
    );
    assert!(!city.facts(&sandbox).is_clean());
    let branch = city.spec(1).branch;
    git(&sandbox, &["switch", "-q", "--detach"]);
    assert!(city.repo.drop_branch(&branch).unwrap());
}
