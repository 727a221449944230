//! The directory in which a harness is tested: a home, a repository with an origin, and a city.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Map, Value, json};

use super::programs::Pointed;
use crate::domain::city::socket_path;
use crate::domain::ids::HarnessName;

/// Name of the rig.
pub const RIG: &str = "kit";
/// Name of the harness that has no login.
pub const LOGGED_OUT: &str = "logged-out";
/// Names of the rig's raiders.
pub const RAIDERS: [&str; 2] = ["Ada", "Bea"];

/// The directory and its content.
#[derive(Debug, Clone)]
pub struct KitDir {
    /// The city.
    pub city: PathBuf,
    /// The home directory of supervisor and sessions.
    pub home: PathBuf,
    /// The origin of the repository.
    pub origin: PathBuf,
    /// The socket of the supervisor.
    pub socket: PathBuf,
}

impl KitDir {
    /// Creates everything in an empty directory. `settings` is all of `[harness.NAME]`.
    ///
    /// # Errors
    /// When files cannot be written or git fails.
    pub fn make(
        root: &Path,
        name: &HarnessName,
        settings: &Map<String, Value>,
        pointed: &Pointed,
    ) -> io::Result<Self> {
        let (city, home) = (root.join("city"), root.join("home"));
        let (origin, checkout) = (root.join("origin.git"), root.join("checkout"));
        fs::create_dir_all(&city)?;
        for (path, content) in &pointed.files {
            let content = content.replace("{city}", &city.to_string_lossy());
            write(&home.join(path), &content)?;
        }
        write(
            &home.join(".gitconfig"),
            "[user]\n\tname = Kit\n\temail = kit@example.invalid\n[init]\n\tdefaultBranch = main\n",
        )?;
        let at = |dir: &Path, args: &[&str]| git(&home, dir, args);
        at(root, &["init", "--quiet", "--bare", "origin.git"])?;
        at(root, &["clone", "--quiet", "origin.git", "checkout"])?;
        at(&checkout, &["checkout", "--quiet", "-B", "main"])?;
        write(&checkout.join("README.md"), "# A repository of the kit\n")?;
        at(&checkout, &["add", "."])?;
        at(&checkout, &["commit", "--quiet", "-m", "A readme"])?;
        at(&checkout, &["push", "--quiet", "origin", "main"])?;
        let socket = socket_path(
            &city,
            Path::new(""),
            None,
            rustix::process::getuid().as_raw(),
        );
        let place = Self {
            city,
            home,
            origin,
            socket,
        };
        let toml = place.toml(&checkout, name, settings, pointed)?;
        write(&place.city.join(crate::config::FILE), &toml)?;
        Ok(place)
    }

    fn toml(
        &self,
        checkout: &Path,
        name: &HarnessName,
        settings: &Map<String, Value>,
        pointed: &Pointed,
    ) -> io::Result<String> {
        let mut harness = settings.clone();
        let configured = harness.get("env").and_then(Value::as_object);
        let mut env = configured.cloned().unwrap_or_default();
        env.extend(
            self.homes()
                .map(|(name, dir)| (name.to_owned(), json!(dir))),
        );
        let variables = pointed.env.iter();
        env.extend(variables.map(|(name, value)| (name.clone(), json!(value))));
        let mut logged_out = harness.clone();
        let mut without = env.clone();
        without.retain(|name, _| !pointed.login.contains(&name.as_str()));
        logged_out.insert("env".to_owned(), Value::Object(without));
        harness.insert("env".to_owned(), Value::Object(env));
        let document = json!({
            "workspace": {"name": "kit"},
            "daemon": {"patrol_interval": "2s"},
            "harness": {name.as_str(): harness, LOGGED_OUT: logged_out},
            "rigs": [{
                "name": RIG, "path": checkout, "prefix": "kt",
                "raiders": {"harness": name, "names": RAIDERS, "max": RAIDERS.len()},
            }],
        });
        toml::to_string(&document).map_err(io::Error::other)
    }

    /// Returns the variables that point into the home directory.
    fn homes(&self) -> [(&'static str, PathBuf); 5] {
        [
            ("HOME", self.home.clone()),
            ("XDG_CONFIG_HOME", self.home.join(".config")),
            ("XDG_DATA_HOME", self.home.join(".local/share")),
            ("XDG_STATE_HOME", self.home.join(".local/state")),
            ("XDG_CACHE_HOME", self.home.join(".cache")),
        ]
    }

    /// Returns the complete environment of the supervisor, without a person's settings or credentials.
    #[must_use]
    pub fn environment(&self, own: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        const KEPT: &[&str] = &[
            "PATH", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TMPDIR", "TZ",
        ];
        let kept = own.iter().filter(|(name, _)| KEPT.contains(&name.as_str()));
        let mut env: BTreeMap<_, _> = kept.map(|(n, v)| (n.clone(), v.clone())).collect();
        let homes = self.homes();
        let homes = homes.iter();
        env.extend(homes.map(|(n, dir)| ((*n).to_owned(), dir.to_string_lossy().into_owned())));
        env
    }

    /// Returns the directory that holds everything.
    #[must_use]
    pub fn root(&self) -> Option<&Path> {
        self.city.parent()
    }

    /// Returns the sandbox of a raider.
    #[must_use]
    pub fn sandbox(&self, raider: &str) -> PathBuf {
        self.city.join(RIG).join("raiders").join(raider)
    }

    /// Runs git in a directory, without a person's settings.
    ///
    /// # Errors
    /// The error of git.
    pub fn git(&self, dir: &Path, args: &[&str]) -> io::Result<String> {
        git(&self.home, dir, args)
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    fs::write(path, text)
}

fn git(home: &Path, dir: &Path, args: &[&str]) -> io::Result<String> {
    let mut git = Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            git.env_remove(name);
        }
    }
    let output = git
        .arg("-C")
        .arg(dir)
        .args(args)
        .env("HOME", home)
        .env("XDG_CONFIG_HOME", home.join(".config"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let words = args.join(" ");
    Err(io::Error::other(format!("git {words}: {}", said.trim())))
}
