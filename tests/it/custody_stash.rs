//! All sandboxes of a rig share the list of stash entries: one agent can remove another's entries.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use horde_supervisor::adapters::git::GitRepo;
use horde_supervisor::domain::city::RigSource;
use horde_supervisor::domain::ids::Incarnation;
use horde_supervisor::domain::other_work::{OtherWork, OtherWorkKind};
use horde_supervisor::ports::repo::{Repo, SandboxSpec};
use horde_supervisor::testing::eventually;

use crate::support::city::{City, permit, rig, toast};
use crate::support::git::{commit_all, git, rev, try_git, write};

/// Stashes a change of the sandbox, as its raider does. Returns the entry's commit.
fn stash(sandbox: &Path, text: &str) -> String {
    write(sandbox, "README", text);
    as_raider(sandbox, "git stash push -q");
    rev(sandbox, "stash@{0}")
}

/// Runs a command of git with the identity that a raider's session has.
fn as_raider(sandbox: &Path, command: &str) {
    let name = sandbox.file_name().unwrap().display();
    let alias = format!("alias.x=!GIT_COMMITTER_NAME=horde/raiders/{name} {command}");
    let _ended_with_a_conflict = try_git(sandbox, &["-c", &alias, "x"]);
}

/// Makes a city with the sandboxes of Toast and Nux.
fn two_raiders() -> (City, SandboxSpec, SandboxSpec) {
    let city = City::new();
    let (toast, nux) = (city.spec(1), city.spec_of("Nux", 1));
    for spec in [&toast, &nux] {
        city.repo.make_sandbox(spec).unwrap();
    }
    (city, toast, nux)
}

/// Returns the refs that keep stash entries, and the contents of the commits that they name.
fn pins(city: &City) -> String {
    let format = "--format=%(refname) %(parent)";
    let list = ["for-each-ref", format, "refs/horde/stash"];
    git(city.repo.repo_dir(), &list)
}

/// Case A44 of an adversary: one raider takes the stash entry of another.
#[test]
fn stash_entry_that_another_raider_drops_is_saved_with_its_own_sandbox() {
    for detached in [false, true] {
        let (city, toast_spec, nux) = two_raiders();
        let sandbox = &toast_spec.path;
        if detached {
            git(sandbox, &["checkout", "-q", "--detach"]);
        }
        let entry = stash(sandbox, "of Toast\n");
        let other = stash(&nux.path, "of Nux\n");
        for spec in [&toast_spec, &nux] {
            city.repo.progress(&spec.path).unwrap();
        }
        if detached {
            git(sandbox, &["checkout", "-q", &toast_spec.branch]);
        }
        git(&nux.path, &["stash", "clear"]);
        git(&nux.path, &["gc", "-q", "--prune=now"]);
        let facts = city.facts(sandbox);
        assert_eq!(facts.stashes, Vec::<String>::new());
        assert!(facts.is_committed(), "it holds nothing up: {facts:?}");
        let told = OtherWork::left_behind(&entry[..8]).to_string();
        let is_told = facts.other_work.iter().any(|line| line.starts_with(&told));
        assert!(is_told, "{facts:?}");
        let record = city.repo.salvage(sandbox, &toast(), Incarnation(1));
        let record = record.unwrap();
        let saved = |name: &String| name.contains("/stash-");
        let kept: Vec<_> = record.refs.iter().filter(|name| saved(name)).collect();
        assert_eq!(kept.len(), 1, "{record:?}");
        assert_eq!(rev(city.repo.repo_dir(), kept[0]), entry);
        assert_eq!(city.facts(sandbox), facts, "saving changes nothing");
        city.repo
            .discard_sandbox(&permit(&toast_spec, &facts), &city.trash(), &|| Ok(()))
            .unwrap();
        let left = pins(&city);
        assert!(
            left.contains("/Nux/") && !left.contains("/Toast/"),
            "{left}"
        );
        assert_ne!(entry, other);
        git(city.repo.repo_dir(), &["gc", "-q", "--prune=now"]);
        let to = city.restored(&record);
        git(&to, &["stash", "apply", "-q", &entry]);
        assert_eq!(fs::read_to_string(to.join("README")).unwrap(), "of Toast\n");
    }
}

/// The owner pops the entry, and is finished.
#[test]
fn stash_entry_that_its_owner_drops_holds_nothing_up() {
    let city = City::new();
    let sandbox = city.sandbox();
    let entry = stash(&sandbox, "changed\n");
    city.repo.progress(&sandbox).unwrap();
    assert!(pins(&city).ends_with(&entry));
    assert_eq!(city.facts(&sandbox).other_work, Vec::<String>::new());
    git(&sandbox, &["stash", "pop", "-q"]);
    git(&sandbox, &["commit", "-qam", "work"]);
    city.repo.progress(&sandbox).unwrap();
    let facts = city.facts(&sandbox);
    assert!(
        facts.is_committed() && facts.stashes.is_empty(),
        "{facts:?}"
    );
}

/// No permit says that the entries were saved.
#[test]
fn pins_of_a_sandbox_that_is_forgotten_stay_for_as_long_as_salvage() {
    let city = City::new();
    let sandbox = city.sandbox();
    let entry = stash(&sandbox, "changed\n");
    city.repo.progress(&sandbox).unwrap();
    git(&sandbox, &["stash", "clear"]);
    let expire = |before| {
        city.repo.expire_stash(before).unwrap();
    };
    expire(jiff::Timestamp::MAX);
    assert!(pins(&city).ends_with(&entry), "its sandbox is there");
    fs::remove_dir_all(&sandbox).unwrap();
    city.repo
        .forget_sandbox(&sandbox, &toast(), Incarnation(1))
        .unwrap();
    expire(jiff::Timestamp::UNIX_EPOCH);
    assert!(pins(&city).ends_with(&entry));
    expire(jiff::Timestamp::MAX);
    assert_eq!(pins(&city), "");
}

/// A stash list that cannot be read concerns only its own sandbox.
#[test]
fn list_that_cannot_be_read_stops_no_patrol() {
    let city = City::new();
    let sandbox = city.sandbox();
    stash(&sandbox, "changed\n");
    let log = city.repo.theirs().join("logs/refs/stash");
    fs::write(&log, "no list\n\u{0}").unwrap();
    city.repo.progress(&sandbox).unwrap();
    fs::remove_file(&log).unwrap();
    fs::create_dir(&log).unwrap();
    city.repo.progress(&sandbox).unwrap();
    assert!(!try_git(&sandbox, &["stash", "pop"]).status.success());
}

/// The entry is as old as the retention, and the rest of the sandbox is not saved yet.
#[test]
fn pins_of_a_sandbox_whose_directory_is_gone_stay_until_it_is_forgotten() {
    let city = City::new();
    let sandbox = city.sandbox();
    let entry = stash(&sandbox, "changed\n");
    city.repo.progress(&sandbox).unwrap();
    fs::remove_dir_all(&sandbox).unwrap();
    city.repo.expire_stash(jiff::Timestamp::MAX).unwrap();
    assert!(pins(&city).ends_with(&entry));
}

/// Each measurement of the rig reads all refs.
#[test]
fn entries_are_pinned_by_one_ref_however_many_there_are() {
    let city = City::new();
    let sandbox = city.sandbox();
    let spec = city.spec(1);
    let mut made = BTreeSet::from([stash(&sandbox, "first\n")]);
    city.repo.progress(&sandbox).unwrap();
    let tree = rev(&sandbox, "HEAD^{tree}");
    let head = rev(&sandbox, "HEAD");
    let log = city.repo.theirs().join("logs/refs/stash");
    // One commit is full, and another is begun and filled up.
    for (round, many) in [(1, 1_200), (2, 900)] {
        let texts = (0..many).map(|n| {
            let by = format!("A <a@a> {n} +0000");
            format!("tree {tree}\nparent {head}\nauthor {by}\ncommitter {by}\n\n{round}\n")
        });
        let dir = horde_supervisor::testing::scratch();
        let names = texts.enumerate().map(|(n, text)| {
            let path = dir.path().join(n.to_string());
            fs::write(&path, text).unwrap();
            format!("{}\n", path.display())
        });
        let list = dir.path().join("list");
        fs::write(&list, names.collect::<String>()).unwrap();
        let store = format!(
            "git hash-object -t commit -w --stdin-paths <{}",
            list.display()
        );
        let sh = std::process::Command::new("sh")
            .args(["-c", &store])
            .current_dir(&sandbox)
            .output();
        let ids = String::from_utf8(sh.unwrap().stdout).unwrap();
        let mut text = fs::read_to_string(&log).unwrap();
        for id in ids.lines() {
            made.insert(id.to_owned());
            let zero = "0".repeat(id.len());
            text += &format!("{zero} {id} A <a@a> 1 +0000\tOn {}: x\n", spec.branch);
        }
        fs::write(&log, text).unwrap();
        city.repo.progress(&sandbox).unwrap();
    }
    assert_eq!(made.len(), 2_101);
    let ours = city.repo.repo_dir();
    let pin = "refs/horde/stash/";
    let name = git(ours, &["for-each-ref", "--format=%(refname)", pin]);
    assert_eq!(name.lines().count(), 1, "{name}");
    let chain = ["rev-list", "--first-parent", "--format=%P", &name];
    let chain = git(ours, &chain);
    assert_eq!(chain.matches("commit ").count(), 4, "three, and the first");
    git(&sandbox, &["stash", "clear"]);
    git(&sandbox, &["gc", "-q", "--prune=now"]);
    git(ours, &["gc", "-q", "--prune=now"]);
    let held = git(ours, &["rev-list", &name]);
    let held: BTreeSet<_> = held.lines().map(str::to_owned).collect();
    assert!(made.is_subset(&held));
    let left = city.facts(&sandbox).other_work;
    let left = left
        .iter()
        .filter(|line| line.kind() == OtherWorkKind::LeftBehind);
    assert_eq!(left.count(), made.len());
}

/// The agent chooses the time in an entry: a forged one was neither measured nor saved, and was destroyed.
#[test]
fn stash_entry_that_claims_to_be_old_is_its_sandboxs() {
    let city = City::new();
    let (spec, sandbox) = (city.spec(1), city.sandbox());
    git(&sandbox, &["checkout", "-q", "--detach"]);
    write(&sandbox, "README", "old\n");
    let dated = [
        "-c",
        "alias.old=!GIT_COMMITTER_DATE=@1000000000 git stash push -q",
    ];
    git(&sandbox, &[dated[0], dated[1], "old"]);
    let entry = rev(&sandbox, "stash@{0}");
    assert_eq!(
        git(&sandbox, &["log", "-1", "--format=%ct", &entry]),
        "1000000000"
    );
    git(&sandbox, &["checkout", "-q", &spec.branch]);
    assert_eq!(city.facts(&sandbox).stashes.len(), 1);
    assert_eq!(
        city.repo.expire_stash(jiff::Timestamp::MAX),
        Ok(0),
        "it lives"
    );
    assert_eq!(rev(&sandbox, "stash@{0}"), entry);
    // An entry of a removed sandbox stays for as long as the sandbox is known.
    fs::remove_dir_all(&sandbox).unwrap();
    city.repo
        .forget_sandbox(&sandbox, &toast(), Incarnation(1))
        .unwrap();
    let minute = std::time::Duration::from_secs(60);
    let (now, theirs) = (jiff::Timestamp::now(), city.repo.theirs());
    let ago = now.checked_sub(minute).unwrap();
    assert_eq!(city.repo.expire_stash(ago), Ok(0));
    assert_eq!(rev(theirs, "refs/stash"), entry);
    let later = now.checked_add(minute).unwrap();
    assert_eq!(city.repo.expire_stash(later), Ok(1));
}

/// Neither its message nor its base tells the owner of the entry.
#[test]
fn stash_entry_without_owner_is_kept_when_an_agent_drops_it() {
    let city = City::new();
    let sandbox = city.sandbox();
    let tree = rev(&sandbox, "HEAD^{tree}");
    let alone = git(&sandbox, &["commit-tree", "-m", "alone", &tree]);
    let head = rev(&sandbox, "HEAD");
    let entry = [
        "commit-tree",
        "-m",
        "entry",
        "-p",
        &alone,
        "-p",
        &head,
        &tree,
    ];
    let entry = git(&sandbox, &entry);
    git(&sandbox, &["stash", "store", "-m", "mine", &entry]);
    city.repo.progress(&sandbox).unwrap();
    assert_eq!(city.facts(&sandbox).stashes, Vec::<String>::new());
    assert_eq!(city.repo.expire_stash(jiff::Timestamp::MAX), Ok(0));
    git(&sandbox, &["stash", "clear"]);
    git(&sandbox, &["gc", "-q", "--prune=now"]);
    assert!(pins(&city).contains(&entry), "{}", pins(&city));
    git(city.repo.repo_dir(), &["gc", "-q", "--prune=now"]);
    rev(city.repo.repo_dir(), &format!("{entry}^{{commit}}"));
    city.repo.expire_stash(jiff::Timestamp::UNIX_EPOCH).unwrap();
    assert!(pins(&city).contains(&entry));
    city.repo.expire_stash(jiff::Timestamp::MAX).unwrap();
    assert_eq!(pins(&city), "");
}

/// The entry would hold up the other sandbox, and go with it.
#[test]
fn stash_entry_that_names_a_branch_before_that_is_made_is_not_that_branchs() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "mine\n");
    let shadow = city.spec_of("Shadow", 1);
    let entry = git(&sandbox, &["stash", "create"]);
    let message = format!("On {}: mine", shadow.branch);
    git(&sandbox, &["stash", "store", "-m", &message, &entry]);
    git(&sandbox, &["checkout", "-q", "."]);
    city.repo.make_sandbox(&shadow).unwrap();
    assert_eq!(city.facts(&shadow.path).stashes, Vec::<String>::new());
    assert_eq!(city.facts(&sandbox).stashes, [message]);
}

/// Another raider clears the list before the next patrol.
#[test]
fn stash_entry_is_pinned_when_it_is_made() {
    let city = City::bare();
    let source = RigSource::Path(city.checkout());
    let watched = GitRepo::watched(rig(&city.root(), source, true));
    watched.prepare().unwrap();
    let (spec, nux) = (city.spec(1), city.spec_of("Nux", 1));
    for spec in [&spec, &nux] {
        watched.make_sandbox(spec).unwrap();
    }
    for replaced in ["", "logs/refs", "logs"] {
        if !replaced.is_empty() {
            // The new list is watched without a patrol.
            let dir = watched.theirs().join(replaced);
            fs::rename(&dir, dir.with_extension("old")).unwrap();
        }
        let entry = stash(&spec.path, &format!("{replaced}\n"));
        let is_pinned = || pins(&city).contains(&entry).then_some(());
        eventually("a pin", is_pinned);
        git(&nux.path, &["stash", "clear"]);
        git(&nux.path, &["gc", "-q", "--prune=now"]);
        let facts = watched.facts(&spec.path, "main").unwrap();
        let told = OtherWork::left_behind(&entry[..8]).to_string();
        let mut lines = facts.other_work.iter();
        let is_told = lines.any(|line| line.starts_with(&told));
        assert!(is_told, "{replaced}: {facts:?}");
    }
}

/// `git merge --autostash` leaves an entry that names no branch, on a commit that every raider began at.
/// Weakness W18 of an earlier system: stash entries of one raider held up the removal of all others.
#[test]
fn entry_that_names_no_branch_holds_up_no_other_raider() {
    for is_told in [true, false] {
        let (city, spec, nux) = two_raiders();
        let sandbox = &spec.path;
        git(sandbox, &["checkout", "-q", "-b", "side"]);
        write(sandbox, "README", "of the side\n");
        commit_all(sandbox, "side");
        git(sandbox, &["checkout", "-q", &spec.branch]);
        write(sandbox, "README", "mine\n");
        match is_told {
            true => as_raider(sandbox, "git merge -q --autostash side"),
            false => drop(try_git(sandbox, &["merge", "-q", "--autostash", "side"])),
        }
        let entry = rev(sandbox, "stash@{0}");
        assert_eq!(rev(sandbox, &format!("{entry}^")), spec.base.as_str());
        git(sandbox, &["reset", "-q", "--hard"]);
        city.repo.progress(sandbox).unwrap();
        let own: &[&str] = if is_told { &["autostash"] } else { &[] };
        assert_eq!(city.facts(sandbox).stashes, own);
        let facts = city.facts(&nux.path);
        assert!(facts.is_clean() && facts.other_work.is_empty(), "{facts:?}");
        city.repo
            .discard_sandbox(&permit(&nux, &facts), &city.trash(), &|| Ok(()))
            .unwrap();
        // The entry is safe in ours, with or without an owner.
        git(sandbox, &["stash", "clear"]);
        git(sandbox, &["gc", "-q", "--prune=now"]);
        let kept = pins(&city);
        let place = if is_told { "/Toast/" } else { "/unclaimed/" };
        let is_kept = |line: &str| line.contains(place) && line.contains(&entry);
        assert!(kept.lines().any(is_kept), "{kept}");
        // And it is treated like all other work of its sandbox.
        let left = city.facts(sandbox).other_work;
        let count = left
            .iter()
            .filter(|it| it.kind() == OtherWorkKind::LeftBehind);
        assert!(!is_told || count.count() > 0, "{left:?}");
    }
}

/// Each new entry made all of them be written again, with a new time.
#[test]
fn pin_without_owner_expires_also_in_a_busy_rig() {
    let city = City::new();
    let sandbox = city.sandbox();
    let ours = city.repo.repo_dir();
    let tree = rev(&sandbox, "HEAD^{tree}");
    let old = [
        "-c",
        "alias.old=!GIT_COMMITTER_DATE=@1000000000 git commit-tree -m old",
        "old",
        &tree,
    ];
    let theirs = city.repo.theirs().display().to_string();
    let entry = git(&sandbox, &old);
    let head = rev(&sandbox, "HEAD");
    git(ours, &["fetch", "-q", &theirs, &entry]);
    let alias = format!("{} -p {head} -p {entry}", old[1]);
    let pin = git(ours, &["-c", &alias, "old", &tree]);
    git(
        ours,
        &["update-ref", "refs/horde/stash/unclaimed/list", &pin],
    );
    let root = git(&sandbox, &["commit-tree", "-m", "root", &tree]);
    let alone = ["commit-tree", "-m", "new", "-p", &root, "-p", &head, &tree];
    let alone = git(&sandbox, &alone);
    git(&sandbox, &["stash", "store", "-m", "new", &alone]);
    city.repo.progress(&sandbox).unwrap();
    assert!(pins(&city).contains(&alone) && pins(&city).contains(&entry));
    let ago = std::time::Duration::from_secs(60);
    let ago = jiff::Timestamp::now().checked_sub(ago).unwrap();
    city.repo.expire_stash(ago).unwrap();
    assert!(pins(&city).contains(&alone) && !pins(&city).contains(&entry));
}
