//! `hd run -f FILE`: many tasks at once, all of them or none.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use crate::support::live::City;

#[test]
fn tasks_of_a_file_become_relics_with_their_fields() {
    let city = City::new();
    let file = city.root().join("tasks");
    fs::write(&file, "# for today\nfix the typo\n\n{\"title\":\"later\",\"body\":\"b\",\"priority\":3,\"labels\":[\"ui\"]}\n").unwrap();
    let file = file.to_str().unwrap();
    let made = city.hd(&["run", "-d", "-f", file, "one more"]).json();
    let relics: Vec<_> = made["relics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["relic"].as_str().unwrap())
        .collect();
    let show = |at: usize| city.hd(&["relic", "show", relics[at]]).json();
    assert_eq!(relics.len(), 3);
    assert_eq!(show(0)["title"], "one more");
    assert_eq!(show(1)["title"], "fix the typo");
    let last = show(2);
    assert_eq!(
        (&last["title"], &last["body"]),
        (&"later".into(), &"b".into())
    );
    assert_eq!(
        (&last["priority"], &last["labels"][0]),
        (&3.into(), &"ui".into())
    );
}

#[test]
fn wrong_line_is_named_and_nothing_is_made() {
    let city = City::new();
    for (text, why) in [
        ("good\n{\"titel\":\"x\"}\n", "line 2: unknown field"),
        ("# nothing\n", "has no task"),
    ] {
        let mut hd = city.program("hd");
        let hd = hd
            .args(["--json", "run", "-d", "-f", "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped());
        let mut hd = hd.spawn().unwrap();
        hd.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let ended = hd.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(2), "{told}");
        assert!(told.contains(why), "{told}");
    }
    let unknown = city.hd(&["relic", "list"]).json();
    assert_eq!(unknown.as_array().unwrap().len(), 0, "{unknown}");
}
