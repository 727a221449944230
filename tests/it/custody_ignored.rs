//! Files that ignore rules hide: they hold up no removal, and `nuke` names them.

use std::fs;

use horde_supervisor::domain::ids::Incarnation;
use horde_supervisor::domain::ignored::Ignored;
use horde_supervisor::ports::repo::{Repo, RepoError};

use crate::support::city::{City, permit, toast};
use crate::support::git::write;

fn ignored(names: &[&str]) -> Ignored {
    Ignored::known(names.iter().map(|&name| name.to_owned()))
}

/// Makes a city whose sandboxes have a copy of the checkout's `.env`.
fn city() -> City {
    let rules = "*.ignored\n.env\ntarget/\nsecrets/\n";
    let city = City::with(|checkout| write(checkout, ".gitignore", rules));
    city.repo.prepare().unwrap();
    write(&city.checkout(), ".env", "KEY=1\n");
    city
}

#[test]
fn ignored_files_are_named_unless_they_are_ours_or_are_built() {
    let city = city();
    let mut spec = city.spec(1);
    spec.copy = vec![".env".into()];
    city.repo.make_sandbox(&spec).unwrap();
    let sandbox = &spec.path;
    let list = || city.repo.measure(sandbox, "main").unwrap().ignored;
    write(sandbox, "target/debug/app", "built\n");
    write(sandbox, "src/target/app", "built\n");
    assert_eq!(list(), ignored(&[]), "the checkout has its .env still");
    let before = city.facts(sandbox);
    write(sandbox, "secrets/a.pem", "1\n");
    write(sandbox, "secrets/b.pem", "2\n");
    write(sandbox, "deep/x.ignored", "x\n");
    assert_eq!(list(), ignored(&["deep/x.ignored", "secrets/"]));
    // Ignored files are no reason to keep the sandbox.
    assert_eq!(city.facts(sandbox), before);
    let permit = permit(&spec, &before);
    city.discard(&permit);
    let gone = city.repo.measure(sandbox, "main").unwrap_err();
    assert!(matches!(gone, RepoError::NotFound(_)), "{gone}");
}

/// Build output is skipped as a whole; a file that a rule of its own hides may be precious, and is named before logs
/// are.
#[test]
fn precious_file_among_build_output_is_named() {
    let rules = "*.ignored\n.env\n*.log\nnode_modules/\n";
    let city = City::with(|checkout| write(checkout, ".gitignore", rules));
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    write(&sandbox, "node_modules/x/.env", "1\n");
    write(&sandbox, "build/.env", "KEY=1\n");
    write(
        &sandbox,
        "build/kept",
        "tracked or not, it is not ignored\n",
    );
    write(&sandbox, "a.log", "1\n");
    let told = city.repo.measure(&sandbox, "main").unwrap().ignored;
    assert_eq!(told, ignored(&["build/.env", "a.log"]));
}

/// The list names exactly the files that salvage does not keep. An edited copy is work, so salvage keeps it.
#[test]
fn ignored_files_that_salvage_lists_are_those_that_were_measured() {
    let city = city();
    let mut spec = city.spec(1);
    spec.copy = vec![".env".into()];
    city.repo.make_sandbox(&spec).unwrap();
    write(&spec.path, ".env", "KEY=2\n");
    write(&spec.path, "x.ignored", "x\n");
    assert_eq!(city.facts(&spec.path).untracked, [".env"]);
    let listed = city.repo.measure(&spec.path, "main").unwrap().ignored;
    let record = city.repo.salvage(&spec.path, &toast(), Incarnation(1));
    assert_eq!(record.unwrap().ignored, ["x.ignored"]);
    assert_eq!(listed, ignored(&["x.ignored"]));
}

/// A sandbox that git cannot read still has ignored files.
#[test]
fn sandbox_without_its_link_has_a_list() {
    let city = city();
    let sandbox = city.sandbox();
    write(&sandbox, "x.ignored", "x\n");
    fs::remove_file(sandbox.join(".git")).unwrap();
    let listed = city.repo.measure(&sandbox, "main").unwrap().ignored;
    assert_eq!(listed, ignored(&["x.ignored"]));
}

/// The rules of the harnesses are in a file that no agent can write; files that an agent excludes for itself are work
/// all the same.
#[test]
fn files_of_harnesses_are_left_out_and_files_that_an_agent_excludes_are_not() {
    let city = city();
    let sandbox = city.sandbox();
    let rules = [".droppings*".to_owned(), "/.x/settings.json".to_owned()];
    city.repo.leave_out(&rules).unwrap();
    city.repo.leave_out(&rules).unwrap();
    write(&sandbox, ".droppings.log", "x\n");
    write(&sandbox, ".x/settings.json", "{}\n");
    write(&sandbox, "mine.txt", "work\n");
    write(city.repo.theirs(), "info/exclude", "mine.txt\n");
    assert_eq!(city.facts(&sandbox).untracked, ["mine.txt"]);
    let listed = fs::read_to_string(city.repo.repo_dir().join("info/exclude")).unwrap();
    assert_eq!(listed.matches(".droppings*").count(), 1);
}
