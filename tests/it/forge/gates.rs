//! Gates: their verdicts on the branch, and their own failures.

use std::fs;

use serde_json::json;

use super::{assert_no_raider_blamed, foreign, landed, wait_held};
use crate::faults::plan;
use crate::support::git::git;
use crate::support::live::City;
use crate::support::program;

/// Makes a city with one gate: the program `gate` in the temporary directory.
fn gated(extra: &str) -> City {
    let gates = format!(r#"[{{ name = "check", run = "{{root}}/gate", retries = 0{extra} }}]"#);
    City::made(&plan().set("forge", "gates", &gates))
}

#[test]
fn missing_gate_blames_no_raider() {
    let mut city = gated("");
    city.start();
    let relic = city.work_on("w1");
    let mr = wait_held(&city, &relic);
    assert_eq!(mr["gates"][0]["verdict"], "infra", "{mr}");
    program::script(&city.root().join("gate"), "test -f work/w1");
    city.answer("mq.retry", json!({ "mr": mr["id"] }));
    city.assert_landed(&[("w1".to_owned(), relic.clone())]);
    assert_no_raider_blamed(&city, &relic);
    city.stop();
}

#[test]
fn gate_that_takes_too_long_blames_no_raider() {
    let mut city = gated(", timeout = \"500ms\"");
    let root = city.root().display().to_string();
    program::script(
        &city.root().join("gate"),
        &format!("[ -e {root}/signs/quick ] || exec sleep 1000"),
    );
    city.start();
    let relic = city.work_on("w1");
    let mr = wait_held(&city, &relic);
    assert_eq!(mr["gates"][0]["verdict"], "infra", "{mr}");
    city.sign("quick");
    city.answer("mq.retry", json!({ "mr": mr["id"] }));
    city.assert_landed(&[("w1".to_owned(), relic.clone())]);
    assert_no_raider_blamed(&city, &relic);
    city.stop();
}

#[test]
fn red_target_blames_no_raider() {
    let mut city = gated("");
    program::script(&city.root().join("gate"), "test ! -e broken");
    foreign(&city, "broken", "by somebody else\n");
    city.start();
    let relic = city.work_on("w1");
    let mr = wait_held(&city, &relic);
    let red = city.wait_first("forge.red");
    assert_eq!(red["data"]["target"], "main");
    foreign(&city, "broken", "");
    city.answer("mq.retry", json!({ "mr": mr["id"] }));
    city.assert_landed(&[("w1".to_owned(), relic.clone())]);
    assert_no_raider_blamed(&city, &relic);
    city.stop();
}

/// Weakness W22 of an earlier system: gates ran on the target before the merge, and a failed push left its merge
/// behind.
#[test]
fn only_the_tested_tree_lands_despite_a_push_meanwhile() {
    let mut city = gated("");
    let root = city.root().display().to_string();
    foreign(&city, "theirs", "first\n");
    // The first run is overtaken: another push arrives after the tree was made, before it lands.
    program::script(
        &city.root().join("gate"),
        &format!(
            "test -f work/w1 || exit 1\ngit rev-parse 'HEAD^{{tree}}' >> {root}/tested\n\
             [ ! -e {root}/pushed ] || exit 0\ntouch {root}/pushed; cd {root}/other\n\
             unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE\n\
             echo second > theirs; git add theirs\n\
             git -c user.name=Eve -c user.email=eve@example.invalid commit -q -m 'Theirs again'\n\
             git push -q origin HEAD:main"
        ),
    );
    city.start();
    let relic = city.work_on("w1");
    city.assert_landed(&[("w1".to_owned(), relic.clone())]);
    assert_no_raider_blamed(&city, &relic);
    assert_eq!(
        landed(&city),
        ["Theirs: theirs", "Theirs again", "Work on w1"]
    );
    let tested = fs::read_to_string(city.root().join("tested")).expect("it ran");
    let tested: Vec<_> = tested.lines().collect();
    assert_eq!(tested.len(), 2, "built anew and tested again");
    let tree = git(&city.origin(), &["rev-parse", "main^{tree}"]);
    assert_eq!(tested[1], tree);
    city.stop();
}
