//! The builder of every city with a daemon: its `city.toml`, its rigs with their repositories, its agents. Restarts are
//! quick, there is no patrol during a test, and the test's own settings go over that.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::git::write;
use super::live::City;
use super::repository::repository;

/// A rig of a plan.
struct Rig {
    name: &'static str,
    prefix: &'static str,
    /// The checkout, if it exists already.
    checkout: Option<PathBuf>,
}

/// The plan of a city. `{root}` in a setting stands for the city's directory.
pub struct Plan {
    sections: BTreeMap<&'static str, BTreeMap<&'static str, String>>,
    rigs: Vec<Rig>,
    files: Vec<(&'static str, &'static str)>,
    has_origin: bool,
    harness: String,
    more: String,
}

impl Plan {
    /// A plan with one rig `horde`, whose relics are `gt-1`, `gt-2` ...
    pub fn new() -> Self {
        Self::without_rigs().rig("horde", "gt")
    }

    /// A plan of a city without a rig.
    pub fn without_rigs() -> Self {
        let empty = Self {
            sections: BTreeMap::new(),
            rigs: Vec::new(),
            files: vec![("README", "hello\n"), (".gitignore", "*.ignored\n")],
            has_origin: true,
            harness: r#"["sh", "../../../agent.sh"]"#.to_owned(),
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
    pub fn rig(self, name: &'static str, prefix: &'static str) -> Self {
        self.rig_around(None, name, prefix)
    }

    /// Adds a rig around a checkout that exists, or around a new one.
    pub fn rig_around(
        mut self,
        checkout: Option<PathBuf>,
        name: &'static str,
        prefix: &'static str,
    ) -> Self {
        self.rigs.push(Rig {
            name,
            prefix,
            checkout,
        });
        self
    }

    /// Adds a file to the first commit of every rig.
    pub fn file(mut self, name: &'static str, content: &'static str) -> Self {
        self.files.push((name, content));
        self
    }

    /// Gives the rigs no origin.
    pub fn without_origin(mut self) -> Self {
        self.has_origin = false;
        self
    }

    /// Sets the command of the harness of raiders, an array.
    pub fn harness(mut self, command: &str) -> Self {
        command.clone_into(&mut self.harness);
        self
    }

    /// Adds an agent that runs this script, with further keys.
    pub fn agent(self, name: &str, script: &str, keys: &str) -> Self {
        self.add(&agent(name, script, keys))
    }

    /// Adds sections unchanged.
    pub fn add(mut self, toml: &str) -> Self {
        self.more.push_str(toml);
        self
    }

    /// Makes the city and starts its daemon.
    pub fn start(&self) -> City {
        let mut city = City::made(self);
        city.start();
        city
    }

    /// Writes the city's files into its directory.
    pub fn write_to(&self, root: &Path) {
        write(root, "agent.sh", include_str!("agent.sh"));
        for rig in self.rigs.iter().filter(|rig| rig.checkout.is_none()) {
            let checkout = root.join(format!("{}-checkout", rig.name));
            let origin = self.has_origin.then(|| format!("{}-origin.git", rig.name));
            repository(&checkout, origin.as_deref(), |checkout| {
                for (name, content) in &self.files {
                    write(checkout, name, content);
                }
            });
        }
        let toml = self.toml().replace("{root}", &root.display().to_string());
        write(root, "city.toml", toml);
    }

    /// Returns the text of the file, with its placeholders.
    pub fn toml(&self) -> String {
        let mut toml = "[workspace]\nname = \"e2e\"\n".to_owned();
        self.section(&mut toml, "daemon", "daemon");
        self.section(&mut toml, "session", "session");
        toml.push_str(&format!("[harness.script]\ncommand = {}\n", self.harness));
        toml.push_str("env = { GIT_CONFIG_NOSYSTEM = \"1\" }\n");
        for rig in &self.rigs {
            let checkout = match &rig.checkout {
                Some(checkout) => checkout.display().to_string(),
                None => format!("{}-checkout", rig.name),
            };
            toml.push_str(&format!(
                "[[rigs]]\nname = \"{}\"\npath = \"{checkout}\"\nprefix = \"{}\"\n",
                rig.name, rig.prefix
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

/// Returns the section of an agent that runs this script, with further keys.
pub fn agent(name: &str, script: &str, keys: &str) -> String {
    format!("[[agents]]\nname = \"{name}\"\ncommand = [\"sh\", \"-c\", '''{script}''']\n{keys}\n")
}
