//! `hd config systemd`: a unit for the city's supervisor. The unit is printed and not installed: its place and
//! additions are up to the machine's owner.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::{Uid, User};

use super::supervisor;
use crate::cli::environment;
use crate::cli::error::{CliError, Doing};
use crate::config;
use crate::domain::city::{City, OnTerm};

/// The time that a stop may take besides the graces of the children: killing, and the last writes.
const AFTER_GRACES: Duration = Duration::from_secs(90);

/// The values that the unit is built from.
struct Facts<'a> {
    city: &'a City,
    supervisor: PathBuf,
    hd: PathBuf,
    path: String,
    /// The user that the services run as; none in a user's own service manager.
    user: Option<String>,
}

/// The unit.
pub(super) fn unit(city: &City, user: bool) -> Result<String, CliError> {
    let hd = std::env::current_exe().doing("this program's own path")?;
    let user = if user { None } else { Some(own_name()?) };
    let facts = Facts {
        city,
        supervisor: supervisor::program()?,
        hd,
        path: environment::text("PATH").unwrap_or_default(),
        user,
    };
    text(&facts)
}

fn own_name() -> Result<String, CliError> {
    let uid = Uid::effective();
    let user = User::from_uid(uid).map_err(std::io::Error::from);
    let user = user.doing("the user database")?;
    Ok(user.map_or_else(|| uid.to_string(), |user| user.name))
}

fn text(facts: &Facts<'_>) -> Result<String, CliError> {
    let city = facts.city;
    let file = word(&city.root.join(config::FILE))?;
    let (supervisor, hd) = (program(&facts.supervisor)?, program(&facts.hd)?);
    let stop = stop_limit(city).as_secs();
    let (manual, after, who, target) = match &facts.user {
        Some(name) => (
            system_manual(city),
            "Wants=network-online.target\nAfter=network-online.target\n",
            format!("User={}\n", plain(name)),
            "multi-user.target",
        ),
        None => (user_manual(city), "", String::new(), "default.target"),
    };
    // The program itself is not expanded; in its arguments a dollar sign would begin a variable.
    let argument = file.replace('$', "$$");
    let name = plain(city.name.as_str());
    let path = quoted(&format!("PATH={}", facts.path));
    let on_term = on_term(city);
    Ok(format!(
        r#"{manual}
[Unit]
Description=Coding agents of the city {name}
{after}# No limit on restarts: the cause may be transient, for example a missing network.
StartLimitIntervalSec=0

[Service]
# The supervisor reports its start, its reloads and its liveness (watchdog) itself.
Type=notify
NotifyAccess=main
WatchdogSec=60
# The first start may have to clone repositories.
TimeoutStartSec=900
ExecStart={supervisor} {argument}
# Returns when the configuration is in force; fails with the errors when it is invalid. A SIGHUP to
# the main process does the same without waiting.
ExecReload={hd} --city {argument} reload
{who}# The PATH of the sessions. Variables that `env_pass` names, API keys for example, are
# added with `systemctl edit`, as Environment= or EnvironmentFile=.
Environment={path}

# Only the supervisor is signalled; it ends its sessions itself. With
#   on_term = "stop"    in [daemon], a stop of the unit ends all of them;
#   on_term = "detach"  they run on, and the next start adopts them: `systemctl restart` ends none.
{on_term}
KillMode=process
# Longer than the grace periods of all sessions together.
TimeoutStopSec={stop}
# Sessions have cgroups of their own below this one.
Delegate=yes
# An agent that takes too much memory ends alone.
OOMPolicy=continue
TasksMax=infinity

Restart=on-failure
RestartSec=1
# A restart does not help against an invalid configuration (2) or another supervisor (4).
RestartPreventExitStatus=2 4

[Install]
WantedBy={target}
"#
    ))
}

fn system_manual(city: &City) -> String {
    let unit = format!("horde-{}.service", plain(city.name.as_str()));
    format!(
        "# hd config systemd | sudo tee /etc/systemd/system/{unit}\n\
         # sudo systemctl daemon-reload && sudo systemctl enable --now {unit}\n"
    )
}

fn user_manual(city: &City) -> String {
    let unit = format!("horde-{}.service", plain(city.name.as_str()));
    format!(
        "# mkdir -p ~/.config/systemd/user\n\
         # hd config systemd --user > ~/.config/systemd/user/{unit}\n\
         # systemctl --user daemon-reload && systemctl --user enable --now {unit}\n\
         # loginctl enable-linger   (so that it runs on when you log out)\n"
    )
}

fn on_term(city: &City) -> &'static str {
    match city.daemon.on_term {
        OnTerm::Stop => "# At present it is \"stop\".",
        OnTerm::Detach => {
            "# At present it is \"detach\"; `hd stop` before a stop of the unit ends the sessions, too."
        }
    }
}

/// Returns the limit of a stop. Children that depend on each other end one after the other; the longest possible chain
/// is the number of agents with dependencies plus one.
fn stop_limit(city: &City) -> Duration {
    let agents = city.agents.iter();
    let longest = agents.clone().map(|agent| agent.shutdown_timeout).max();
    let longest = longest.max(Some(city.daemon.shutdown_timeout));
    let dependent = agents.filter(|agent| !agent.depends_on.is_empty()).count();
    let links = u32::try_from(dependent + 1).unwrap_or(u32::MAX);
    longest.unwrap_or_default().saturating_mul(links) + AFTER_GRACES
}

/// Returns a path for a program that systemd executes; quotes and backslashes are refused, because systemd takes none
/// there.
fn program(path: &Path) -> Result<String, CliError> {
    let text = path.to_string_lossy();
    let strange = |c: char| c.is_control() || "\"'\\".contains(c);
    if text.contains(strange) {
        let message = format!("systemd executes no program of such a name: {text:?}");
        return Err(CliError::failed(message).hint("install hd and horde-supervisor elsewhere"));
    }
    word(path)
}

/// Returns a path as a word of a command line.
fn word(path: &Path) -> Result<String, CliError> {
    let text = path.to_str().ok_or_else(|| {
        let path = path.display();
        CliError::failed(format!("a unit can contain only UTF-8 text: {path}"))
    })?;
    Ok(quoted(text))
}

/// Quotes a text for `systemd.syntax(7)`, with specifiers (`%`) made harmless.
fn quoted(text: &str) -> String {
    let plainly = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@".contains(c);
    if !text.is_empty() && text.chars().all(plainly) {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '%' => quoted.push_str("%%"),
            '\n' => quoted.push_str("\\n"),
            c if c.is_ascii_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Escapes a text that is no command line.
fn plain(text: &str) -> String {
    text.replace('%', "%%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_means_itself_whatever_is_in_it() {
        for (path, quoted) in [
            ("/opt/hd/horde-supervisor", "/opt/hd/horde-supervisor"),
            ("/my cities/a", "\"/my cities/a\""),
            ("/100%/\"a\"\\b", r#""/100%%/\"a\"\\b""#),
            ("/a\nb\t", r#""/a\nb\x09""#),
            ("/ü", "\"/ü\""),
        ] {
            assert_eq!(word(Path::new(path)).unwrap(), quoted);
        }
        use std::os::unix::ffi::OsStrExt;
        let odd = Path::new(std::ffi::OsStr::from_bytes(b"/\xff"));
        assert!(word(odd).is_err());
        assert!(program(Path::new("/a \"b\"")).is_err());
        assert_eq!(program(Path::new("/a b")).unwrap(), "\"/a b\"");
    }
}
