//! Index of the weaknesses of earlier systems: each has a number, and a test that names it in its doc comment, as in "Weakness W7 of an
//! earlier system". So none of them is lost when tests are moved.

use std::collections::BTreeMap;

use super::{all, expect_none};

/// The number of the last weakness.
const LAST: u32 = 26;

/// Returns the numbers of the weaknesses that the doc comments of tests name, each with its test.
fn named(text: &str, is_suite: bool) -> Vec<(u32, String)> {
    let (mut found, mut numbers, mut is_test) = (Vec::new(), Vec::new(), false);
    for line in text.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("/// ") {
            let after = comment.strip_prefix("Weakness W");
            let number = after.and_then(|it| it.split_once(" of an earlier system: "));
            numbers.extend(number.and_then(|(number, _)| number.parse::<u32>().ok()));
        } else if line.starts_with("#[") {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        } else {
            let function = line.split_once("fn ").map(|(_, rest)| rest);
            let name = function.and_then(|rest| rest.split(['(', '<']).next());
            if let (Some(name), true) = (name, is_test || is_suite) {
                found.extend(numbers.iter().map(|number| (*number, name.to_owned())));
            }
            numbers.clear();
            is_test = false;
        }
    }
    found
}

#[test]
fn each_weakness_of_earlier_systems_has_a_test_that_names_it() {
    let mut tests: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for source in all() {
        // Functions of a conformance suite are tests of every implementation.
        let is_suite = source.name.starts_with("src/testing/conformance");
        for (number, test) in named(&source.text, is_suite) {
            let tests = tests.entry(number).or_default();
            tests.push(format!("{}: {test}", source.name));
        }
    }
    let missing: Vec<_> = (1..=LAST)
        .filter(|number| !tests.contains_key(number))
        .map(|number| format!("W{number}"))
        .collect();
    expect_none("each weakness is named by a test", &missing);
    let unknown: Vec<_> = tests
        .iter()
        .filter(|(number, _)| !(1..=LAST).contains(*number))
        .map(|(number, tests)| format!("W{number}: {tests:?}"))
        .collect();
    expect_none("a weakness has a number of the list", &unknown);
}

#[test]
fn only_doc_comments_of_tests_count() {
    let comment = "/// Weakness W7 of an earlier system: it forgot.\n";
    let count = |text: &str, is_suite| named(text, is_suite).len();
    let own = format!(
        "/// First.\n{comment}/// More.\n#[tokio::test(start_paused = true)]\nasync fn a() {{}}\n"
    );
    assert_eq!(named(&own, false), [(7, "a".to_owned())]);
    assert_eq!(count(&format!("{comment}fn helper() {{}}\n"), false), 0);
    assert_eq!(
        count(&format!("{comment}pub fn case(x: u8) {{}}\n"), true),
        1
    );
    assert_eq!(
        count(&format!("{comment}\n#[test]\nfn other() {{}}\n"), false),
        0
    );
    let plain = comment.replace("/// ", "// ");
    assert_eq!(count(&format!("{plain}#[test]\nfn a() {{}}\n"), false), 0);
}
