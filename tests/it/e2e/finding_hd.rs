//! A session finds `hd`: by the path in its task, even if a shell has reset `PATH`, and by the name `horde`.

use assert_cmd::cargo::cargo_bin;

use crate::support::live::City;

#[test]
fn a_session_finds_hd_when_its_shell_has_reset_the_path() {
    let city = City::new();
    let relic = city.work(
        "find",
        &[
            "told=$(sed -n 's/^Instead of .* you may run `\\([^`]*\\) done`.*/\\1/p' TASK.md)",
            "try told env PATH=/usr/bin:/bin sh -c \"$told --json hook\"",
            "try where command -v horde",
            "try horde horde --json hook",
            "sign tried",
            "forever",
        ],
    );
    city.wait_sign("tried");
    for name in ["told", "horde"] {
        let hook = city.wait_tried(name).json();
        assert_eq!(hook["relic"]["id"], relic.as_str(), "{name}");
    }
    let horde = cargo_bin("hd").with_file_name("horde");
    let found = city.wait_tried("where").out;
    assert_eq!(found.trim(), horde.to_str().unwrap());
    let path = format!("`{} done`", cargo_bin("hd").display());
    assert!(city.wait_prompt(&relic, 1).contains(&path));
}
