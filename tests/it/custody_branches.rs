//! The branches of raiders are refs that all of them share: one agent removes those of another, and they come back.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use horde_supervisor::ports::repo::Repo;

use crate::custody_theirs::whole_life;
use crate::support::city::City;
use crate::support::git::{commit_all, git, rev, write};

/// Makes a rig with Toast, whose work is committed, and Nux, without work. Returns their sandboxes and Toast's head.
fn two(city: &City) -> ([std::path::PathBuf; 2], String) {
    let (toast, nux) = (city.spec(1), city.spec_of("Nux", 1));
    for spec in [&toast, &nux] {
        city.repo.make_sandbox(spec).unwrap();
    }
    write(&toast.path, "README", "mine\n");
    let head = commit_all(&toast.path, "mine");
    ([toast.path, nux.path], head)
}

/// A change that an agent makes to the refs of all raiders, in the repository that they share.
type Harm = (&'static str, fn(&Path));

fn empty(theirs: &Path, text: &str) {
    git(theirs, &["pack-refs", "--all"]);
    fs::write(theirs.join("packed-refs"), text).unwrap();
}

/// Puts a link in the place of the directory of all branches of raiders, older values of which are packed.
fn link(theirs: &Path, to: &Path) {
    let place = theirs.join("refs/heads/raider");
    fs::rename(&place, to).unwrap();
    symlink(to, place).unwrap();
}

const HARMS: [Harm; 7] = [
    ("an emptied list", |theirs| {
        empty(theirs, "# pack-refs with: peeled fully-peeled sorted \n");
    }),
    ("nothing in the list", |theirs| empty(theirs, "")),
    ("no logs of branches", |theirs| {
        fs::remove_dir_all(theirs.join("logs/refs/heads")).unwrap();
        empty(theirs, "");
    }),
    ("no refs at all", |theirs| {
        fs::remove_dir_all(theirs.join("refs/heads/raider")).unwrap();
    }),
    ("a link to a directory elsewhere", |theirs| {
        link(theirs, &theirs.with_file_name("elsewhere"));
    }),
    ("a link to a directory of refs", |theirs| {
        link(theirs, &theirs.join("refs/heads/others"));
    }),
    ("emptied files, with older values in the list", |theirs| {
        let older = rev(theirs, "refs/remotes/origin/main");
        let places = ["Toast", "Nux"].map(|name| format!("refs/heads/raider/{name}/gt-1-1"));
        for place in &places {
            fs::write(theirs.join(place), format!("{older}\n")).unwrap();
        }
        git(theirs, &["pack-refs", "--all"]);
        for place in &places {
            write(theirs, place, "");
        }
    }),
];

#[test]
fn branch_of_a_living_raider_that_another_removes_is_put_back_where_it_was() {
    for (what, harm) in HARMS {
        for by_done in [false, true] {
            let city = City::new();
            let ([sandbox, nux], head) = two(&city);
            harm(city.repo.theirs());
            if by_done {
                let facts = city.facts(&sandbox);
                assert_eq!((facts.ahead, facts.head.as_str()), (1, &*head), "{what}");
                assert!(facts.is_committed(), "{what}: {facts:?}");
            } else {
                city.repo.progress(&sandbox).unwrap();
            }
            assert_eq!(rev(&sandbox, "HEAD"), head, "{what}");
            assert_eq!(rev(&nux, "HEAD"), city.spec(1).base.as_str(), "{what}");
            let place = city.repo.theirs().join("refs/heads/raider");
            let is_dir = fs::symlink_metadata(place).unwrap().is_dir();
            assert!(is_dir, "{what}");
            let told = city.repo.take_mended().join("; ");
            for name in ["raider/Toast/gt-1-1 was", "raider/Nux/gt-1-1 was"] {
                assert!(told.contains(name), "{what}: {told}");
            }
            city.facts(&nux);
            assert_eq!(city.repo.take_mended(), Vec::<String>::new(), "{what}");
            if by_done {
                whole_life(&city, "Shadow");
            }
        }
    }
}

/// git wrote the commits of either to the branch of the other, and `hd done` of one landed them.
#[test]
fn branch_that_another_makes_a_symbolic_ref_is_put_back_without_the_commits_of_the_other() {
    for (with_work, is_used, by_done) in [
        (true, false, true),
        (true, true, false),
        (false, true, true),
        (false, false, false),
    ] {
        let case = format!("work {with_work}, used {is_used}");
        let city = City::new();
        let ([toast, nux], head) = two(&city);
        let (sandbox, other) = match with_work {
            true => (&toast, &nux),
            false => (&nux, &toast),
        };
        if with_work {
            write(other, "of-nux", "b\n");
            commit_all(other, "undeclared");
        }
        let own = rev(sandbox, "HEAD");
        assert_eq!(own == head, with_work);
        let [name, to] = [sandbox, other].map(|at| git(at, &["symbolic-ref", "HEAD"]));
        git(other, &["symbolic-ref", &name, &to]);
        if is_used {
            git(sandbox, &["reset", "-q", "--hard"]);
            write(sandbox, "more", "a\n");
            commit_all(sandbox, "through it");
        }
        let others = rev(other, "HEAD");
        if by_done {
            let facts = city.facts(sandbox);
            assert_eq!(facts.head.as_str(), own, "{case}");
            assert_eq!(facts.ahead, u64::from(with_work), "{case}");
        } else {
            city.repo.progress(sandbox).unwrap();
        }
        assert_eq!(rev(sandbox, "HEAD"), own, "{case}");
        assert_eq!(rev(other, "HEAD"), others, "{case}");
        assert_eq!(rev(sandbox, &name), own, "{case}");
        // Nor does a later repair take it to the commits of the other.
        fs::write(city.repo.theirs().join(&name), "").unwrap();
        city.repo.progress(sandbox).unwrap();
        assert_eq!(rev(sandbox, "HEAD"), own, "{case}, emptied");
        let told = city.repo.take_mended().join("; ");
        assert!(
            told.contains("set aside") && told.contains(" was recreated at "),
            "{told}"
        );
        city.facts(sandbox);
        assert_eq!(city.repo.take_mended(), Vec::<String>::new(), "{case}");
    }
}

/// It may be a person's, and leads to what it is to lead to.
#[test]
fn symbolic_branch_that_is_no_raiders_stays() {
    let city = City::new();
    let ([sandbox, _], head) = two(&city);
    let alias = [
        "symbolic-ref",
        "refs/heads/alias",
        "refs/heads/raider/Toast/gt-1-1",
    ];
    git(&sandbox, &alias);
    git(&sandbox, &["symbolic-ref", "HEAD", "refs/heads/alias"]);
    assert_eq!(city.facts(&sandbox).head.as_str(), head);
    assert_eq!(git(&sandbox, &alias[..2]), alias[2]);
    assert_eq!(city.repo.take_mended(), Vec::<String>::new());
}

/// The file behind a link may hold anything.
#[test]
fn ref_behind_a_link_that_names_no_commit_is_not_taken_over() {
    let city = City::new();
    let ([sandbox, nux], head) = two(&city);
    let blob = rev(&sandbox, "HEAD:README");
    let elsewhere = city.root().join("elsewhere");
    link(city.repo.theirs(), &elsewhere);
    fs::write(elsewhere.join("Toast/gt-1-1"), format!("{blob}\n")).unwrap();
    fs::write(elsewhere.join("Nux/gt-1-1"), "garbage").unwrap();
    city.repo.progress(&sandbox).unwrap();
    assert_eq!(rev(&sandbox, "HEAD"), head, "by its reflog");
    assert_eq!(rev(&nux, "HEAD"), city.spec(1).base.as_str());
}

/// The branch is the agent's own.
#[test]
fn branch_that_its_agent_renames_or_deletes_does_not_come_back() {
    let city = City::new();
    let ([sandbox, nux], head) = two(&city);
    git(&sandbox, &["branch", "-m", "other"]);
    git(&nux, &["checkout", "-q", "-b", "own"]);
    git(&nux, &["branch", "-D", "raider/Nux/gt-1-1"]);
    for sandbox in [&sandbox, &nux] {
        city.repo.progress(sandbox).unwrap();
        city.facts(sandbox);
    }
    let listed = git(&sandbox, &["branch", "--list", "raider/*"]);
    assert_eq!(listed, "");
    assert_eq!(rev(&sandbox, "other"), head);
    assert_eq!(city.repo.take_mended(), Vec::<String>::new());
}

/// git writes the end of a branch into the reflog of the HEAD that is on it.
#[test]
fn branch_that_is_deleted_below_its_own_head_is_put_back_where_it_was() {
    let city = City::new();
    let ([sandbox, nux], head) = two(&city);
    let delete = ["update-ref", "-d", "refs/heads/raider/Toast/gt-1-1"];
    git(&sandbox, &delete);
    let log = city.repo.theirs().join("worktrees/Toast/logs/HEAD");
    let mut text = fs::read_to_string(&log).unwrap();
    let last = text.lines().last().unwrap();
    assert_eq!(last.split(' ').nth(1).unwrap(), "0".repeat(40));
    // Nor does a line of what is not there, or is no commit, tell anything.
    for id in ["12".repeat(20), rev(&nux, "HEAD:README")] {
        text += &format!("{head} {id} A <a@example.invalid> 1 +0000\tx\n");
    }
    fs::write(&log, text).unwrap();
    city.repo.progress(&sandbox).unwrap();
    assert_eq!(rev(&sandbox, "HEAD"), head);
    // The same where it is repaired before it is looked at.
    git(&sandbox, &delete);
    city.repo.repair_sandbox(&city.spec(1)).unwrap();
    assert_eq!(rev(&sandbox, "HEAD"), head);
}

/// It may lead to what is mounted and never answers.
#[test]
fn link_that_leads_out_of_the_shared_repository_is_not_followed() {
    for to in ["repo.git/refs/heads/others", "elsewhere"] {
        let city = City::new();
        let ([sandbox, _], head) = two(&city);
        let theirs = city.repo.theirs();
        for logs in ["logs/refs/heads", "worktrees/Toast/logs"] {
            fs::remove_dir_all(theirs.join(logs)).unwrap();
        }
        link(theirs, &theirs.with_file_name(to));
        city.repo.progress(&sandbox).unwrap();
        let base = city.spec(1).base.as_str().to_owned();
        let tip = if to == "elsewhere" { base } else { head };
        assert_eq!(rev(&sandbox, "HEAD"), tip, "{to}");
    }
}
