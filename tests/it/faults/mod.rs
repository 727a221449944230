//! The real daemon, with real git and a scripted agent, is killed and must recover.

mod charge;
mod end;
mod kills;
mod late;
mod sweep;

use crate::support::live::City;
use crate::support::live::asks::body;
use crate::support::plan::Plan;

/// The plan of a city that patrols often, and has a file for conflicts.
pub fn plan() -> Plan {
    Plan::new()
        .set("daemon", "patrol_interval", r#""2s""#)
        .file("shared.txt", "one\ntwo\nthree\n")
}

/// Returns the commands that write `work/<name>`, commit once, and say done; safe to repeat.
pub fn does(name: &str) -> String {
    format!(
        "mkdir -p work; echo '{name}' > work/{name}; git add work/{name}\n\
         git diff --cached --quiet || git commit -q -m 'Work on {name}'\n\
         exec hd done"
    )
}

/// Work on request.
impl City {
    /// Makes a relic whose raider runs this script.
    pub fn script(&self, title: &str, script: &str) -> String {
        self.relic(title, &script.lines().collect::<Vec<_>>())
    }

    /// Makes such a relic, which goes before others of a lower priority.
    pub fn urgent(&self, title: &str, priority: i64, script: &str) -> String {
        let body = body(&script.lines().collect::<Vec<_>>());
        let relic = serde_json::json!({
            "title": title, "body": body, "rig": "horde", "priority": priority,
        });
        let relic = self.answer("relic.create", relic);
        relic["id"].as_str().expect("an id").to_owned()
    }

    /// Makes and charges a relic that writes `work/<name>` in one commit.
    pub fn work_on(&self, name: &str) -> String {
        let relic = self.script(name, &does(name));
        self.charge(&relic);
        relic
    }
}
