//! Checks the machine for everything that harnesses need to start without a person. Of a login only its presence is
//! read, never its content.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::thread;

use crate::cli::commands::supervisor;
use crate::cli::environment;
use crate::config::Loaded;
use crate::domain::city::Harness;
use crate::domain::doctor::{Finding, Kind};
use crate::domain::jsonc;
use crate::domain::session_env;
use crate::domain::unattended::{
    self, Answer, Ask, InstalledHarness, KeyUse, ProgramFacts, Start, Trace,
};
use crate::kit::{installed, programs};

/// The least size of a login file: a login is more than brackets and a line end.
const LOGIN_MIN: u64 = 4;
/// The size above which a settings file is not read.
pub(super) const SETTINGS_MAX: u64 = 32 << 20;

/// The environment that sessions inherit, and whether they run as root.
#[derive(Debug, Clone)]
pub(in crate::cli::commands) struct Machine {
    /// The supervisor's environment; values of keys are not known, and stand in as their names.
    pub own: BTreeMap<String, String>,
    /// Set when sessions run as root.
    pub root: bool,
}

impl Machine {
    /// Describes this process, whose environment a supervisor started from here inherits.
    pub fn here() -> Self {
        Self {
            own: environment::all(),
            root: rustix::process::geteuid().is_root(),
        }
    }

    /// The environment of a session as far as it can be seen from here.
    pub fn session(&self, harness: &Harness) -> BTreeMap<String, String> {
        let mut env = session_env::inherited(&self.own, &harness.env_pass);
        env.extend(harness.env.clone());
        let beside = supervisor::program().ok();
        if let Some(bin) = beside.as_ref().and_then(|program| program.parent()) {
            env.insert("PATH".to_owned(), session_env::path(bin, env.get("PATH")));
        }
        env
    }
}

/// The facts observed about a harness.
#[derive(Debug, Clone)]
pub(in crate::cli::commands) struct Inspection {
    /// Its program, as configured.
    pub program: Option<String>,
    /// Set when the program is there; none when that depends on the sandbox.
    pub found: Option<bool>,
    /// The file of its program.
    pub file: Option<PathBuf>,
    /// Its version, or why that is not known; none without a file.
    pub version: Option<Result<String, String>>,
    /// The entry of the known programs that matches.
    pub known: Option<&'static ProgramFacts>,
    /// The requirements as observed; none if the program is unknown or missing.
    pub seen: Option<InstalledHarness>,
    /// The use of an API key in the environment.
    pub key: Option<KeyUse>,
    /// Set when its full mode refuses to start as root.
    pub refuses_root: bool,
    /// The findings that keep it from starting without a person.
    pub findings: Vec<Finding>,
}

/// Looks at one harness. Its program is asked for its version.
pub(in crate::cli::commands) fn inspect(
    loaded: &Loaded,
    harness: &Harness,
    machine: &Machine,
) -> Inspection {
    let env = machine.session(harness);
    let program = programs::program(&harness.command);
    // A path relative to the sandbox can only be checked once there is a sandbox.
    let is_relative = program.is_some_and(|it| it.contains('/') && !it.starts_with('/'));
    let file = program.filter(|_| !is_relative).and_then(|program| {
        let path = env.get("PATH").map(String::as_str).unwrap_or_default();
        installed::find(program, path)
    });
    let known = program.and_then(unattended::known);
    let mut looked = Inspection {
        program: program.map(ToOwned::to_owned),
        found: (!is_relative).then_some(file.is_some()),
        version: file.as_ref().map(|file| version(harness, file, &env)),
        file,
        known,
        seen: None,
        key: None,
        refuses_root: false,
        findings: Vec::new(),
    };
    let (Some(known), Some(_)) = (known, &looked.file) else {
        return looked;
    };
    let others = unattended::logins(&env).into_iter().find_map(shown);
    looked.key = unattended::key_use(harness.hooks, &harness.env, &env, others.is_some());
    let spared = looked.key == Some(KeyUse::Spared);
    with_start(loaded, harness, machine, |start| {
        let (asks, unreadable) = open(unattended::asks(known, start));
        let seen = InstalledHarness {
            version: looked.version.clone().and_then(Result::ok),
            login: match spared {
                true => others,
                false => known.login.traces(start).into_iter().find_map(shown),
            },
            asks,
            unreadable,
        };
        looked.findings = unattended::findings(known, start, &seen);
        looked.refuses_root = known.refuses_root(start);
        looked.seen = Some(seen);
    });
    looked
}

/// Calls `then` with everything that a session of the harness is started with.
pub(super) fn with_start<T>(
    loaded: &Loaded,
    harness: &Harness,
    machine: &Machine,
    then: impl FnOnce(&Start<'_>) -> T,
) -> T {
    let city = &loaded.city;
    let agents = city.agents.iter();
    let agents = agents.filter(|agent| agent.harness.as_ref() == Some(&harness.name));
    let elsewhere = agents.filter(|agent| !agent.dir.starts_with(&city.root));
    let mut dirs = vec![city.root.clone()];
    dirs.extend(elsewhere.map(|agent| agent.dir.clone()));
    dirs.sort();
    dirs.dedup();
    let rigs = city.rigs.iter();
    let rigs = rigs.filter(|rig| rig.raiders.harness == harness.name);
    let projects: Vec<&Path> = rigs.filter_map(|rig| rig.source.path()).collect();
    then(&Start {
        harness,
        env: &machine.session(harness),
        dirs: &dirs,
        root: machine.root,
        project_has: &|file| projects.iter().any(|project| project.join(file).exists()),
    })
}

/// Returns the findings of every harness that a rig or an agent names, checked in parallel; with missing programs if
/// asked.
pub(in crate::cli::commands) fn findings(
    loaded: &Loaded,
    machine: &Machine,
    programs: bool,
) -> Vec<Finding> {
    let told = |harness: &Harness| {
        let looked = inspect(loaded, harness, machine);
        let missing = missing(harness, &looked).filter(|_| programs);
        missing
            .into_iter()
            .chain(looked.findings)
            .collect::<Vec<_>>()
    };
    let all = loaded.city.harnesses.values();
    let used = all.filter(|harness| !users(loaded, harness).is_empty());
    thread::scope(|scope| {
        let looked: Vec<_> = used.map(|harness| scope.spawn(|| told(harness))).collect();
        let found = looked.into_iter().filter_map(|looked| looked.join().ok());
        found.flatten().collect()
    })
}

/// Returns a finding for a missing program.
pub(in crate::cli::commands) fn missing(harness: &Harness, looked: &Inspection) -> Option<Finding> {
    let program = looked.program.as_deref()?;
    (looked.found == Some(false)).then(|| {
        let says = format!("{program} is not in the PATH");
        let hint = "install it, or name the program with its path in the `command` of the harness";
        Finding::new(
            Kind::Program,
            format!("harness {}", harness.name),
            says,
            hint,
        )
    })
}

/// Returns the rigs and agents that name a harness.
pub(in crate::cli::commands) fn users(loaded: &Loaded, harness: &Harness) -> Vec<String> {
    let rigs = loaded.city.rigs.iter();
    let rigs = rigs.filter(|rig| rig.raiders.harness == harness.name);
    let rigs = rigs.map(|rig| format!("rig {}", rig.name));
    let agents = loaded.city.agents.iter();
    let agents = agents.filter(|agent| agent.harness.as_ref() == Some(&harness.name));
    rigs.chain(agents.map(|agent| format!("agent {}", agent.name)))
        .collect()
}

/// Returns the version of a known program. Others are not run: `--version` may mean anything to them.
fn version(
    harness: &Harness,
    file: &Path,
    env: &BTreeMap<String, String>,
) -> Result<String, String> {
    if !programs::runs_known(harness) {
        return Err("an unknown program is not run".to_owned());
    }
    installed::version(file, env)
}

/// Returns the trace of a login, if there is one.
fn shown(trace: Trace) -> Option<String> {
    match trace {
        Trace::Variable(name) => Some(name.to_owned()),
        Trace::File(path) => {
            let meta = fs::metadata(&path).ok()?;
            (meta.is_file() && meta.len() >= LOGIN_MIN).then(|| path.display().to_string())
        }
        Trace::Setting(path, setting) => {
            let text = settings(&path).ok()??;
            setting.is_in(&text).then(|| path.display().to_string())
        }
    }
}

/// Returns the questions that settings do not answer yet, or why a settings file cannot be read.
fn open(asks: Vec<Ask>) -> (Vec<Ask>, Option<String>) {
    let mut unreadable = None;
    let mut is_open = |ask: &Ask| {
        let Answer::Setting { file, edit } = &ask.answer else {
            return true;
        };
        let answered = settings(file).and_then(|text| {
            let text = text.unwrap_or_default();
            let wanted = jsonc::apply(&text, std::slice::from_ref(edit));
            Ok(wanted.map_err(|error| error.to_string())? == text)
        });
        answered.map_or_else(
            |why| {
                unreadable = Some(format!("{}: {why}", file.display()));
                false
            },
            |answered| !answered,
        )
    };
    let asks = asks.into_iter().filter(|ask| is_open(ask)).collect();
    (asks, unreadable)
}

/// The text of a settings file; none where there is no such file.
pub(super) fn settings(path: &Path) -> Result<Option<String>, String> {
    let meta = match fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        looked => looked.map_err(|error| error.to_string())?,
    };
    if !meta.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    if meta.len() > SETTINGS_MAX {
        return Err(format!("it has more than {SETTINGS_MAX} bytes"));
    }
    let mut text = String::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    let read = file.take(SETTINGS_MAX).read_to_string(&mut text);
    read.map(|_| Some(text)).map_err(|error| error.to_string())
}
