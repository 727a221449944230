//! The `city.toml` of a test: quick restarts, no patrol during a test, and the test's own settings over that.

use std::collections::BTreeMap;

use super::live::City;

/// The contents of a `city.toml`, by section.
pub struct Plan {
    sections: BTreeMap<&'static str, BTreeMap<&'static str, String>>,
    rigs: Vec<(&'static str, &'static str)>,
    more: String,
}

impl Plan {
    /// A plan with one rig `horde`, whose relics are `gt-1`, `gt-2` ...
    pub fn new() -> Self {
        let empty = Self {
            sections: BTreeMap::new(),
            rigs: vec![("horde", "gt")],
            more: String::new(),
        };
        empty
            .set("daemon", "patrol_interval", r#""1h""#)
            .set("daemon", "shutdown_timeout", r#""2s""#)
            .set(
                "daemon",
                "restart_backoff",
                r#"{ first = "0s", initial = "20ms", max = "50ms", multiplier = 2.0, jitter = 0.0 }"#,
            )
            .set("raiders", "harness", r#""script""#)
            .set("raiders", "max", "4")
    }

    /// Sets a key of `daemon`, `session`, or of every rig's `raiders`, `witness` or `forge`.
    pub fn set(mut self, section: &'static str, key: &'static str, value: &str) -> Self {
        self.sections
            .entry(section)
            .or_default()
            .insert(key, value.to_owned());
        self
    }

    /// Adds a rig.
    pub fn rig(mut self, name: &'static str, prefix: &'static str) -> Self {
        self.rigs.push((name, prefix));
        self
    }

    /// Adds sections unchanged.
    pub fn add(mut self, toml: &str) -> Self {
        self.more.push_str(toml);
        self
    }

    /// Returns the rigs and their prefixes.
    pub fn rigs(&self) -> &[(&'static str, &'static str)] {
        &self.rigs
    }

    /// Makes the city and starts its daemon.
    pub fn start(&self) -> City {
        let mut city = City::made(self);
        city.start();
        city
    }

    /// Returns the text of the file.
    pub fn toml(&self) -> String {
        let mut toml = "[workspace]\nname = \"e2e\"\n".to_owned();
        self.section(&mut toml, "daemon", "daemon");
        self.section(&mut toml, "session", "session");
        toml.push_str("[harness.script]\ncommand = [\"sh\", \"../../../agent.sh\"]\n");
        toml.push_str("env = { GIT_CONFIG_NOSYSTEM = \"1\" }\n");
        for (name, prefix) in &self.rigs {
            toml.push_str(&format!(
                "[[rigs]]\nname = \"{name}\"\npath = \"{name}-checkout\"\nprefix = \"{prefix}\"\n"
            ));
            for part in ["raiders", "witness", "forge"] {
                self.section(&mut toml, &format!("rigs.{part}"), part);
            }
        }
        toml + &self.more
    }

    fn section(&self, toml: &mut String, header: &str, name: &str) {
        toml.push_str(&format!("[{header}]\n"));
        for (key, value) in self.sections.get(name).into_iter().flatten() {
            toml.push_str(&format!("{key} = {value}\n"));
        }
    }
}
