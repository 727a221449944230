//! A rig's two repositories, made from a checkout or a URL.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc;
use std::time::Duration;

use horde_supervisor::domain::city::RigSource;
use horde_supervisor::ports::repo::{Repo, RepoError};
use horde_supervisor::testing::eventually;

use crate::support::city::{City, repo, snapshot};
use crate::support::git::{commit_all, git, rev, try_git, write};

#[test]
fn the_checkout_is_copied_and_never_touched() {
    let city = City::bare();
    let checkout = city.checkout();
    write(&checkout, "README", "uncommitted\n");
    let before = (snapshot(&checkout), snapshot(&checkout.join(".git")));
    city.repo.prepare().unwrap();
    city.repo.prepare().unwrap();
    assert_eq!(
        (snapshot(&checkout), snapshot(&checkout.join(".git"))),
        before
    );
    let bare = city.repo.repo_dir();
    assert_eq!(
        rev(bare, "refs/remotes/origin/main"),
        rev(&checkout, "HEAD")
    );
    assert_eq!(city.repo.default_branch().unwrap(), "main");
    assert_eq!(git(bare, &["for-each-ref", "refs/horde", "refs/heads"]), "");
    assert!(!bare.join("objects/info/alternates").exists());
}

/// The repository holds files of agents, and the credentials that remotes are asked with.
#[test]
fn rigs_own_repository_that_was_opened_to_others_is_closed_at_prepare() {
    let city = City::new();
    let ours = city.repo.repo_dir();
    for dir in [ours, ours.parent().unwrap()] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    }
    city.repo.prepare().unwrap();
    for dir in [ours, ours.parent().unwrap()] {
        let mode = fs::metadata(dir).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o700, "{}", dir.display());
    }
}

/// The only repository of a rig had its salvages, too, before there were two.
#[test]
fn salvages_in_a_repository_from_before_there_were_two_are_said_and_stay() {
    let city = City::bare();
    let (theirs, checkout) = (city.repo.theirs().to_owned(), city.checkout());
    let (from, to) = (checkout.to_str().unwrap(), theirs.to_str().unwrap());
    fs::create_dir_all(theirs.parent().unwrap()).unwrap();
    git(&city.root(), &["clone", "-q", "--bare", from, to]);
    let names = ["head", "meta"].map(|name| format!("refs/horde/salvage/Toast/1/{name}"));
    let saved = rev(&checkout, "HEAD");
    git(&theirs, &["update-ref", &names[0], &saved]);
    git(&theirs, &["pack-refs", "--all"]);
    git(&theirs, &["update-ref", &names[1], &saved]);
    city.repo.prepare().unwrap();
    let told = city.repo.take_mended();
    let is_told = |told: &&String| told.contains("2 refs of salvages of an earlier version");
    assert_eq!(told.iter().filter(is_told).count(), 1, "{told:?}");
    assert!(told.concat().contains(to), "{told:?}");
    for name in &names {
        assert_eq!(rev(&theirs, name), saved);
    }
    // They are said once.
    city.repo.prepare().unwrap();
    assert_eq!(city.repo.take_mended(), Vec::<String>::new());
    assert!(city.facts(&city.sandbox()).is_clean());
}

/// Settings of the user's checkout.
const SETTINGS: [(&str, &str); 5] = [
    ("user.name", "Ada \"the\" \\ first"),
    (
        "credential.https://example.invalid.helper",
        "store\n--file x",
    ),
    ("filter.up.clean", "tr a-z A-Z"),
    ("core.autocrlf", "input"),
    ("alias.x", "status"),
];

#[test]
fn remotes_settings_and_hooks_are_taken_over_and_refreshed() {
    let city = City::bare();
    let checkout = city.checkout();
    let url = city.origin().display().to_string();
    for (key, value) in SETTINGS {
        git(&checkout, &["config", key, value]);
    }
    let url_of_other = "https://example.invalid/x.git";
    git(&checkout, &["remote", "add", "up.stream", url_of_other]);
    write(&checkout, ".git/hooks/pre-commit", "#!/bin/sh\n");
    city.repo.prepare().unwrap();
    let bare = city.repo.repo_dir();
    let get = |key: &str| git(bare, &["config", "--get", key]);
    assert_eq!(get("user.name"), "Ada \"the\" \\ first");
    assert_eq!(
        get("credential.https://example.invalid.helper"),
        "store\n--file x"
    );
    assert_eq!(get("filter.up.clean"), "tr a-z A-Z");
    assert_eq!(get("core.autocrlf"), "input");
    // Agents run the hooks; in ours only a push runs one.
    let hooks = checkout.join(".git/hooks").display().to_string();
    assert!(
        !try_git(bare, &["config", "--get", "core.hooksPath"])
            .status
            .success()
    );
    let theirs = ["config", "--get", "core.hooksPath"];
    assert_eq!(git(city.repo.theirs(), &theirs), hooks);
    assert!(
        !try_git(bare, &["config", "--get", "alias.x"])
            .status
            .success()
    );
    // The relative URL of the checkout's origin is resolved against the checkout.
    assert_eq!(get("remote.origin.url"), url);
    assert_eq!(get("remote.up.stream.url"), url_of_other);
    // In ours, each command names the refs.
    let fetch = ["config", "--get", "remote.origin.fetch"];
    assert!(!try_git(bare, &fetch).status.success());
    let refspec = "+refs/heads/*:refs/remotes/origin/*";
    assert_eq!(git(city.repo.theirs(), &fetch), refspec);
    assert_eq!(city.repo.push_url().unwrap(), url);
    git(&checkout, &["config", "--unset", "core.autocrlf"]);
    git(&checkout, &["config", "user.name", "Bob"]);
    git(&checkout, &["remote", "remove", "up.stream"]);
    city.repo.prepare().unwrap();
    assert_eq!(get("user.name"), "Bob");
    assert!(
        !try_git(bare, &["config", "--get", "core.autocrlf"])
            .status
            .success()
    );
    assert_eq!(git(bare, &["remote"]), "origin");
}

#[test]
fn a_sandbox_cannot_push_by_accident_and_the_supervisor_can() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "work\n");
    commit_all(&sandbox, "work");
    let refused = try_git(&sandbox, &["push", "origin", "HEAD:refs/heads/main"]);
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("sandboxes-do-not-push"), "{said}");
    let url = city.repo.push_url().unwrap();
    git(&sandbox, &["push", "--quiet", &url, "HEAD:refs/heads/work"]);
    assert_eq!(rev(&city.origin(), "work"), rev(&sandbox, "HEAD"));
}

#[test]
fn a_checkout_without_origin_is_its_own() {
    let city = City::bare();
    let checkout = city.checkout();
    git(&checkout, &["remote", "remove", "origin"]);
    assert!(city.repo.own_origin().is_err(), "not prepared yet");
    city.repo.prepare().unwrap();
    assert_eq!(city.repo.own_origin().unwrap(), Some(checkout.as_path()));
    assert_eq!(city.repo.default_branch().unwrap(), "main");
    assert_eq!(
        rev(city.repo.repo_dir(), "refs/remotes/origin/main"),
        rev(&checkout, "main")
    );
    // The first default branch stays the default, also after the user checks out another.
    git(&checkout, &["checkout", "--quiet", "-b", "feature"]);
    city.repo.prepare().unwrap();
    assert_eq!(city.repo.default_branch().unwrap(), "main");
}

#[test]
fn a_rig_of_a_url_needs_no_checkout() {
    let city = City::bare();
    let root = city.root().join("elsewhere");
    let url = format!("file://{}", city.origin().display());
    let repo = repo(&root, RigSource::Remote(url.clone()), true);
    repo.prepare().unwrap();
    repo.prepare().unwrap();
    assert_eq!(repo.push_url().unwrap(), url);
    assert_eq!(repo.own_origin().unwrap(), None);
    assert_eq!(repo.default_branch().unwrap(), "main");
}

#[test]
fn refs_of_the_checkout_replace_an_unreachable_origin() {
    let city = City::bare();
    let away = city.root().join("away.git");
    fs::rename(city.origin(), &away).unwrap();
    city.repo.prepare().unwrap();
    assert_eq!(city.repo.default_branch().unwrap(), "main");
    let fetched = city.repo.fetch_branch("main");
    assert!(matches!(fetched, Err(RepoError::Remote(_))), "{fetched:?}");
    let root = city.root().join("elsewhere");
    let url = format!("file://{}", city.origin().display());
    let unreachable = repo(&root, RigSource::Remote(url), true).prepare();
    assert!(
        matches!(unreachable, Err(RepoError::Remote(_))),
        "{unreachable:?}"
    );
}

#[test]
fn a_branch_is_fetched_or_known_to_be_gone() {
    let city = City::new();
    let checkout = city.checkout();
    git(&checkout, &["checkout", "--quiet", "-b", "work"]);
    write(&checkout, "README", "more\n");
    let head = commit_all(&checkout, "more");
    git(&checkout, &["push", "--quiet", "origin", "work"]);
    let found = city.repo.fetch_branch("work").unwrap();
    assert_eq!(found.map(|id| id.to_string()), Some(head));
    git(&checkout, &["push", "--quiet", "origin", ":work"]);
    assert_eq!(city.repo.fetch_branch("work").unwrap(), None);
    let tracking = "refs/remotes/origin/work";
    for repo in [city.repo.repo_dir(), city.repo.theirs()] {
        assert_eq!(git(repo, &["for-each-ref", tracking]), "");
    }
    assert_eq!(city.repo.fetch_branch("never").unwrap(), None);
}

/// Agents used to see branches that the remote no longer had.
#[test]
fn refs_pruned_by_a_fetch_are_gone_for_agents_too() {
    let city = City::new();
    let (checkout, theirs) = (city.checkout(), city.repo.theirs());
    git(
        &checkout,
        &["push", "-q", "origin", "main:old", "main:kept"],
    );
    for branch in ["old", "kept"] {
        city.repo.fetch_branch(branch).unwrap();
    }
    // A remote of the agents' own does not matter.
    git(
        theirs,
        &["update-ref", "refs/remotes/mine/old", "origin/old"],
    );
    git(theirs, &["pack-refs", "--all"]);
    let moved = city.root().join("moved.git");
    fs::rename(city.origin(), &moved).unwrap();
    git(&moved, &["branch", "-q", "-D", "old"]);
    let url = moved.to_str().unwrap();
    git(&checkout, &["remote", "set-url", "origin", url]);
    city.repo.prepare().unwrap();
    let list = [
        "for-each-ref",
        "--format=%(refname:lstrip=2)",
        "refs/remotes",
    ];
    let told = git(theirs, &list);
    let told: Vec<&str> = told.lines().collect();
    let kept = ["mine/old", "origin/HEAD", "origin/kept", "origin/main"];
    assert_eq!(told, kept);
}

#[test]
fn directory_without_a_repository_is_refused_with_the_reason() {
    let dir = horde_supervisor::testing::scratch();
    let root = fs::canonicalize(dir.path()).unwrap();
    let refusal = |name: &str| {
        let source = RigSource::Path(root.join(name));
        let city = root.join(format!("city-{name}"));
        repo(&city, source, true).prepare().unwrap_err()
    };
    let missing = refusal("missing");
    assert!(matches!(missing, RepoError::NotFound(_)), "{missing}");
    assert!(missing.to_string().contains("missing"), "{missing}");
    fs::write(root.join("file"), "").unwrap();
    assert!(refusal("file").to_string().contains("is not a directory"));
    fs::create_dir(root.join("plain")).unwrap();
    assert!(
        refusal("plain")
            .to_string()
            .contains("not the top of a git repository")
    );
    fs::create_dir(root.join("empty")).unwrap();
    git(&root.join("empty"), &["init", "--quiet"]);
    assert!(refusal("empty").to_string().contains("make a first commit"));
    // A directory inside a repository is no repository.
    fs::create_dir(root.join("empty/below")).unwrap();
    assert!(
        refusal("empty/below")
            .to_string()
            .contains("not the top of a git repository")
    );
}

#[test]
fn repositories_that_libgit2_refuses_work() {
    for format in ["--object-format=sha256", "--ref-format=reftable"] {
        let dir = horde_supervisor::testing::scratch();
        let root = fs::canonicalize(dir.path()).unwrap();
        let checkout = root.join("checkout");
        fs::create_dir(&checkout).unwrap();
        let made = try_git(&checkout, &["init", "--quiet", "-b", "main", format]);
        if !made.status.success() {
            continue; // This git knows no reftable.
        }
        write(&checkout, "README", "hello\n");
        commit_all(&checkout, "first");
        let repo = repo(&root, RigSource::Path(checkout), true);
        repo.prepare().unwrap();
        let base = rev(repo.repo_dir(), "refs/remotes/origin/main");
        let city = City { dir, repo };
        let spec = city.spec(1);
        assert_eq!(spec.base.as_str(), base);
        let sandbox = city.sandbox();
        assert!(city.facts(&sandbox).is_clean());
        write(&sandbox, "README", "changed\n");
        write(&sandbox, "new", "new\n");
        crate::custody_salvage::roundtrip(&city, &sandbox, "a");
    }
}

/// A first fetch may take an hour.
#[test]
fn hanging_fetch_delays_no_caller() {
    let city = City::new();
    let sandbox = city.sandbox();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    silent.set_nonblocking(true).unwrap();
    let url = format!("git://{}/silent", silent.local_addr().unwrap());
    git(&city.checkout(), &["remote", "set-url", "origin", &url]);
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| city.repo.prepare());
        // Dropped at the end, also of a failing test: then the fetch ends.
        let (listener, held) = (silent, tell);
        let _fetching = eventually("a fetch", || listener.accept().ok());
        // The refs are those of the former one.
        assert!(
            city.repo
                .held()
                .is_some_and(|why| why.contains("new origin"))
        );
        let (repo, spec) = (&city.repo, city.spec(1));
        scope.spawn(move || held.send(repo.repair_sandbox(&spec)));
        let repaired = told.recv_timeout(Duration::from_secs(60));
        repaired.expect("no wait for the fetch").unwrap();
    });
    assert!(city.facts(&sandbox).is_clean());
}
