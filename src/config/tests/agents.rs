//! The executables of standing agents.

use super::SampleDir;

/// `process_names` of an agent or a pool count before those of its harness; a plain command has its own or none. `hd config
/// show` tells them.
#[test]
fn process_names_are_those_of_the_agent_or_else_of_its_harness() {
    let place = SampleDir::new();
    let text = r#"
workspace.name = "c"
[harness.h]
command = ["h"]
process_names = ["h", "node"]
[[agents]]
name = "inherits"
harness = "h"
prompt = "work"
[[agents]]
name = "own"
harness = "h"
prompt = "work"
process_names = ["mine"]
[[agents]]
name = "plain"
command = ["bash", "-lc", "worker"]
process_names = ["worker"]
pool = { min = 1 }
[[agents]]
name = "bare"
command = ["bash", "-lc", "worker"]
"#;
    let loaded = place.load(text).unwrap_or_else(|errors| panic!("{errors}"));
    let city = &loaded.city;
    let names: Vec<_> = city
        .agents
        .iter()
        .map(|agent| (agent.name.as_str(), city.process_names(agent).to_vec()))
        .collect();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let expected: Vec<(&str, Vec<String>)> = vec![
        ("inherits", words(&["h", "node"])),
        ("own", words(&["mine"])),
        ("plain", words(&["worker"])),
        ("bare", Vec::new()),
    ];
    assert_eq!(names, expected);
    let plain = &city.agents[2];
    assert_eq!(plain.member(1).unwrap().process_names, ["worker"]);
    let shown = crate::config::show_json(&loaded);
    assert_eq!(shown["agents"][2]["process_names"][0], "worker");
    // No agent is restarted for it: the next patrol looks for the other program.
    let other = text.replace(r#"["worker"]"#, r#"["another"]"#);
    let other = place
        .load(&other)
        .unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(other.city.agents[2].process_names, ["another"]);
    assert_eq!(other.city.agents[2].fingerprint, plain.fingerprint);
    let faulty = text.replace(r#"["worker"]"#, r#"[""]"#);
    assert!(place.load(&faulty).is_err());
}
