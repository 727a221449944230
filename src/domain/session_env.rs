//! The complete environment of a session (`contract.md`, 2.7): it inherits only the variables named here and those
//! that the configuration passes on.

use std::collections::BTreeMap;
use std::path::Path;

use super::ids::{ChildId, Incarnation, RelicId, SessionId};

/// Inherited by name: the user, the locale, and the access to the network.
const INHERITED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TERM",
    "COLORTERM",
    "TMPDIR",
    "SSH_AUTH_SOCK",
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Inherited by the start of the name.
const INHERITED_PREFIXES: &[&str] = &["LC_", "XDG_"];

/// A session's terminal is the one that its holder emulates, not the one that the supervisor was started in.
const TERMINAL: (&str, &str) = ("TERM", "xterm-256color");

/// Returns the variables taken from the supervisor's own environment: those named above, and those that the
/// configuration passes on.
#[must_use]
pub fn inherited(own: &BTreeMap<String, String>, pass: &[String]) -> BTreeMap<String, String> {
    let is_inherited = |name: &str| {
        // A supervisor that runs within another city's session must not pass on that session's identity.
        !name.starts_with("HD_")
            && (INHERITED.contains(&name)
                || INHERITED_PREFIXES
                    .iter()
                    .any(|prefix| name.starts_with(prefix))
                || pass.iter().any(|passed| passed == name))
    };
    let own = own.iter().filter(|(name, _)| is_inherited(name));
    own.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Returns a `PATH` with the directory of `hd` first.
#[must_use]
pub fn path(bin: &Path, rest: Option<&String>) -> String {
    let bin = bin.to_string_lossy();
    match rest {
        Some(rest) if !rest.is_empty() => format!("{bin}:{rest}"),
        _ => bin.into_owned(),
    }
}

/// Returns the command `hd` beside this program, as any shell finds it: the absolute path, quoted where a shell needs
/// that. `PATH` is not enough: login shells reset it, and another program may have the name.
#[must_use]
pub fn hd(bin: &Path) -> String {
    let path = bin.join("hd");
    shell_words::quote(&path.to_string_lossy()).into_owned()
}

/// The input for a session's environment.
#[derive(Debug, Clone)]
pub struct SessionEnv<'a> {
    /// The supervisor's own environment.
    pub own: &'a BTreeMap<String, String>,
    /// The directory of the running supervisor, so that sessions find `hd`.
    pub bin: &'a Path,
    /// The city's directory.
    pub city: &'a Path,
    /// `[workspace] name`.
    pub workspace: &'a str,
    /// The control socket.
    pub socket: &'a Path,
    /// The child.
    pub child: &'a ChildId,
    /// Its session.
    pub session: &'a SessionId,
    /// The relic and incarnation of a raider.
    pub hook: Option<(&'a RelicId, Incarnation)>,
    /// `user.email` of the rig's repository, if it is set.
    pub email: Option<&'a str>,
    /// Configured names to take from the supervisor's environment.
    pub pass: &'a [String],
    /// Configured variables.
    pub configured: &'a BTreeMap<String, String>,
}

impl SessionEnv<'_> {
    /// Returns the environment. Later rules win: inherited, passed on, identity and ceiling of git, configured, the
    /// start of `PATH`, and `HD_*`, which nothing overrides.
    #[must_use]
    pub fn build(&self) -> BTreeMap<String, String> {
        let mut env = inherited(self.own, self.pass);
        let (terminal, value) = TERMINAL;
        env.insert(terminal.to_owned(), value.to_owned());
        env.extend(self.git_identity());
        env.extend(self.git_ceiling());
        let configured = self.configured.iter();
        env.extend(configured.map(|(name, value)| (name.clone(), value.clone())));
        env.insert("PATH".to_owned(), path(self.bin, env.get("PATH")));
        env.extend(self.own_variables());
        env
    }

    fn git_identity(&self) -> [(String, String); 4] {
        let actor = self.child.to_string();
        let name = match self.child {
            ChildId::Raider(raider) => raider.name.as_str(),
            ChildId::Agent(agent) => agent.as_str(),
        };
        let email = match self.email {
            Some(email) => email.to_owned(),
            None => format!("{name}@{}.invalid", self.workspace),
        };
        [
            ("GIT_AUTHOR_NAME".to_owned(), actor.clone()),
            ("GIT_COMMITTER_NAME".to_owned(), actor),
            ("GIT_AUTHOR_EMAIL".to_owned(), email.clone()),
            ("GIT_COMMITTER_EMAIL".to_owned(), email),
        ]
    }

    /// In a sandbox with a broken `.git`, git would use the next repository above it, and the raider's commits would go
    /// there: a city may be kept in a repository.
    fn git_ceiling(&self) -> Option<(String, String)> {
        let ChildId::Raider(raider) = self.child else {
            return None;
        };
        let raiders = self.city.join(raider.rig.as_str()).join("raiders");
        let ceiling = raiders.to_string_lossy().into_owned();
        Some(("GIT_CEILING_DIRECTORIES".to_owned(), ceiling))
    }

    fn own_variables(&self) -> BTreeMap<String, String> {
        let mut own = BTreeMap::from([
            ("HD_CITY", self.city.to_string_lossy().into_owned()),
            ("HD_SOCKET", self.socket.to_string_lossy().into_owned()),
            ("HD_SESSION", self.session.to_string()),
            ("HD_ACTOR", self.child.to_string()),
        ]);
        if let ChildId::Raider(raider) = self.child {
            own.insert("HD_RIG", raider.rig.to_string());
            own.insert("HD_RAIDER", raider.name.to_string());
        }
        if let Some((relic, incarnation)) = self.hook {
            own.insert("HD_RELIC", relic.to_string());
            own.insert("HD_INCARNATION", incarnation.to_string());
        }
        let own = own.into_iter();
        own.map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::AgentName;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn build(
        own: &[(&str, &str)],
        child: &ChildId,
        hook: Option<&RelicId>,
        configured: &[(&str, &str)],
    ) -> BTreeMap<String, String> {
        SessionEnv {
            own: &map(own),
            bin: Path::new("/opt/horde"),
            city: Path::new("/city"),
            workspace: "lights",
            socket: Path::new("/city/.horde/control.sock"),
            child,
            session: &child.session_id("lights"),
            hook: hook.map(|relic| (relic, Incarnation(3))),
            email: None,
            pass: &["API_KEY".to_owned()],
            configured: &map(configured),
        }
        .build()
    }

    const OWN: &[(&str, &str)] = &[
        ("PATH", "/usr/bin:/bin"),
        ("HOME", "/home/u"),
        ("LC_ALL", "C.UTF-8"),
        ("XDG_RUNTIME_DIR", "/run/user/1"),
        ("TERM", "screen"),
        ("API_KEY", "k"),
        ("OTHER_KEY", "must not leak"),
        ("CLAUDECODE", "1"),
        ("HD_RAIDER", "somebody else"),
        ("GIT_DIR", "/elsewhere"),
    ];

    #[test]
    fn raider_gets_the_variables_of_the_contract_and_a_ceiling_for_git() {
        let toast = ChildId::Raider("horde/raiders/Toast".parse().unwrap());
        let relic = RelicId::new("gt-1").unwrap();
        let env = build(OWN, &toast, Some(&relic), &[("EXTRA", "1")]);
        let expected = map(&[
            ("API_KEY", "k"),
            ("EXTRA", "1"),
            ("GIT_AUTHOR_EMAIL", "Toast@lights.invalid"),
            ("GIT_AUTHOR_NAME", "horde/raiders/Toast"),
            ("GIT_CEILING_DIRECTORIES", "/city/horde/raiders"),
            ("GIT_COMMITTER_EMAIL", "Toast@lights.invalid"),
            ("GIT_COMMITTER_NAME", "horde/raiders/Toast"),
            ("HD_ACTOR", "horde/raiders/Toast"),
            ("HD_CITY", "/city"),
            ("HD_INCARNATION", "3"),
            ("HD_RAIDER", "Toast"),
            ("HD_RELIC", "gt-1"),
            ("HD_RIG", "horde"),
            ("HD_SESSION", "gt-horde-Toast"),
            ("HD_SOCKET", "/city/.horde/control.sock"),
            ("HOME", "/home/u"),
            ("LC_ALL", "C.UTF-8"),
            ("PATH", "/opt/horde:/usr/bin:/bin"),
            ("TERM", "xterm-256color"),
            ("XDG_RUNTIME_DIR", "/run/user/1"),
        ]);
        assert_eq!(env, expected);
    }

    #[test]
    fn an_agent_has_no_rig_and_no_relic() {
        let mayor = ChildId::Agent(AgentName::new("mayor").unwrap());
        let env = build(OWN, &mayor, None, &[]);
        for name in ["HD_RIG", "HD_RAIDER", "HD_RELIC", "HD_INCARNATION"] {
            assert_eq!(env.get(name), None, "{name}");
        }
        assert_eq!(env["HD_ACTOR"], "mayor");
        assert_eq!(env["HD_SESSION"], "lights-mayor");
        assert_eq!(env["GIT_AUTHOR_EMAIL"], "mayor@lights.invalid");
    }

    #[test]
    fn configured_variables_win_but_hd_is_still_found_and_never_forged() {
        let mayor = ChildId::Agent(AgentName::new("mayor").unwrap());
        let configured = [("PATH", "/my/bin"), ("HOME", "/h"), ("HD_ACTOR", "root")];
        let env = build(OWN, &mayor, None, &configured);
        assert_eq!(env["PATH"], "/opt/horde:/my/bin");
        assert_eq!(env["HOME"], "/h");
        assert_eq!(env["HD_ACTOR"], "mayor");
    }

    #[test]
    fn the_network_the_locale_and_colours_are_as_the_supervisor_has_them() {
        let mayor = ChildId::Agent(AgentName::new("mayor").unwrap());
        let own = [
            ("HTTPS_PROXY", "http://proxy:3128"),
            ("no_proxy", "localhost"),
            ("SSL_CERT_FILE", "/etc/own.pem"),
            ("NODE_EXTRA_CA_CERTS", "/etc/own.pem"),
            ("LANGUAGE", "nb:en"),
            ("LC_TIME", "nb_NO.UTF-8"),
            ("COLORTERM", "truecolor"),
        ];
        let env = build(&own, &mayor, None, &[]);
        for (name, value) in own {
            assert_eq!(env.get(name).map(String::as_str), Some(value), "{name}");
        }
    }

    #[test]
    fn the_terminal_is_the_holders_unless_the_configuration_says_otherwise() {
        let mayor = ChildId::Agent(AgentName::new("mayor").unwrap());
        assert_eq!(build(OWN, &mayor, None, &[])["TERM"], "xterm-256color");
        let env = build(OWN, &mayor, None, &[("TERM", "vt100")]);
        assert_eq!(env["TERM"], "vt100");
    }

    #[test]
    fn the_path_of_hd_is_one_word_for_a_shell() {
        for (bin, word) in [
            ("/opt/horde/bin", "/opt/horde/bin/hd"),
            ("/home/u/my tools", "'/home/u/my tools/hd'"),
            ("/it's/$HOME", "'/it'\\''s/$HOME/hd'"),
        ] {
            assert_eq!(hd(Path::new(bin)), word);
            assert_eq!(shell_words::split(word).unwrap(), [format!("{bin}/hd")]);
        }
    }

    #[test]
    fn without_an_environment_there_is_still_a_path_and_a_terminal() {
        let mayor = ChildId::Agent(AgentName::new("mayor").unwrap());
        let env = build(&[], &mayor, None, &[]);
        assert_eq!(env["PATH"], "/opt/horde");
        assert_eq!(env["TERM"], "xterm-256color");
    }
}
