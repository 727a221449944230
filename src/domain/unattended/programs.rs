//! The programs of the presets: the version that each preset was tested with, and the traces of a login, which are
//! found without reading any secret.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{Dir, Start};

/// The facts about a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramFacts {
    /// Its file name.
    pub program: &'static str,
    /// The version that its preset was tested with; none where it was not tried.
    pub proven: Option<&'static str>,
    /// Its login.
    pub login: Login,
}

/// The places where a login leaves traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Login {
    /// Variables, of which one is enough.
    pub env: &'static [&'static str],
    /// Files that a login leaves, of which one is enough. A file with only `{}` or the like is no login.
    pub(super) files: &'static [(Dir, &'static str)],
    /// Keys of its settings that replace a login or make it needless.
    pub(super) settings: &'static [(Dir, &'static str, Setting)],
    /// The command that logs it in.
    pub how: &'static str,
}

/// The form of a key in a settings file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// A key of the outermost JSON object with a non-empty value.
    Json(&'static str),
    /// A line of a TOML or YAML file that begins with the key.
    Line(&'static str),
}

const fn dir(variable: &'static str, below: &'static str, usual: &'static str) -> Dir {
    Dir {
        moved: (variable, below),
        usual,
    }
}

/// The directory of claude's settings and login.
pub(in crate::domain) const CLAUDE: Dir = dir("CLAUDE_CONFIG_DIR", "", ".claude");
/// The directory of claude's state.
pub(super) const CLAUDE_STATE: Dir = dir("CLAUDE_CONFIG_DIR", "", "");
pub(in crate::domain) const CODEX: Dir = dir("CODEX_HOME", "", ".codex");
pub(in crate::domain) const GEMINI: Dir = dir("GEMINI_CLI_HOME", ".gemini", ".gemini");
pub(in crate::domain) const COPILOT: Dir = dir("COPILOT_HOME", "", ".copilot");
const GH: Dir = dir("XDG_CONFIG_HOME", "gh", ".config/gh");
const OPENCODE: Dir = dir("XDG_CONFIG_HOME", "opencode", ".config/opencode");
const OPENCODE_DATA: Dir = dir("XDG_DATA_HOME", "opencode", ".local/share/opencode");
pub(in crate::domain) const PI: Dir = dir("PI_CODING_AGENT_DIR", "", ".pi/agent");

/// API keys of the providers, for programs that take any model.
const ANY: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "OPENROUTER_API_KEY",
];

/// Programs with a known login and known consents; the first choice of `hd init` is first.
pub const PROGRAMS: &[ProgramFacts] = &[
    ProgramFacts {
        program: "claude",
        proven: Some("2.1.197"),
        login: Login {
            env: &[
                "ANTHROPIC_API_KEY",
                "ANTHROPIC_AUTH_TOKEN",
                "CLAUDE_CODE_OAUTH_TOKEN",
                "CLAUDE_CODE_USE_BEDROCK",
                "CLAUDE_CODE_USE_VERTEX",
                "CLAUDE_CODE_USE_FOUNDRY",
            ],
            files: &[(CLAUDE, ".credentials.json")],
            settings: &[(CLAUDE, "settings.json", Setting::Json("apiKeyHelper"))],
            how: "`claude`, then `/login`",
        },
    },
    ProgramFacts {
        program: "codex",
        proven: Some("0.169.0"),
        login: Login {
            // OPENAI_API_KEY alone does not log it in.
            env: &["CODEX_ACCESS_TOKEN"],
            files: &[(CODEX, "auth.json")],
            settings: &[(CODEX, "config.toml", Setting::Line("model_provider"))],
            how: "`codex login`, or `printenv OPENAI_API_KEY | codex login --with-api-key`",
        },
    },
    ProgramFacts {
        program: "gemini",
        proven: Some("0.61.0"),
        login: Login {
            env: &["GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"],
            files: &[
                (GEMINI, "oauth_creds.json"),
                (GEMINI, "gemini-credentials.json"),
            ],
            settings: &[],
            how: "`gemini`, then choose how to log in; or GEMINI_API_KEY",
        },
    },
    ProgramFacts {
        program: "opencode",
        proven: Some("1.18.33"),
        login: Login {
            env: ANY,
            files: &[(OPENCODE_DATA, "auth.json")],
            settings: &[
                (OPENCODE, "opencode.json", Setting::Json("provider")),
                (OPENCODE, "opencode.jsonc", Setting::Json("provider")),
            ],
            how: "`opencode auth login`",
        },
    },
    ProgramFacts {
        program: "pi",
        proven: Some("0.73.1"),
        login: Login {
            env: ANY,
            files: &[(PI, "auth.json")],
            settings: &[(PI, "models.json", Setting::Json("providers"))],
            how: "`pi`, then `/login`",
        },
    },
    ProgramFacts {
        program: "copilot",
        proven: Some("1.0.102"),
        login: Login {
            env: &[
                "COPILOT_GITHUB_TOKEN",
                "GH_TOKEN",
                "GITHUB_TOKEN",
                "COPILOT_PROVIDER_API_KEY",
                "COPILOT_PROVIDER_BASE_URL",
            ],
            files: &[(GH, "hosts.yml")],
            settings: &[
                (COPILOT, "config.json", Setting::Json("loggedInUsers")),
                (COPILOT, "config.json", Setting::Json("logged_in_users")),
            ],
            how: "`copilot`, then `/login`",
        },
    },
    ProgramFacts {
        program: "aider",
        proven: Some("0.86.2"),
        login: Login {
            env: ANY,
            files: &[(dir("", "", ""), ".aider.conf.yml")],
            settings: &[],
            how: "set ANTHROPIC_API_KEY or OPENAI_API_KEY for the supervisor",
        },
    },
    ProgramFacts {
        program: "cursor-agent",
        proven: None,
        login: Login {
            env: &["CURSOR_API_KEY"],
            files: &[(
                dir("XDG_CONFIG_HOME", "cursor", ".config/cursor"),
                "auth.json",
            )],
            settings: &[],
            how: "`cursor-agent login`",
        },
    },
    ProgramFacts {
        program: "amp",
        proven: None,
        login: Login {
            env: &["AMP_API_KEY"],
            files: &[(
                dir("XDG_DATA_HOME", "amp", ".local/share/amp"),
                "secrets.json",
            )],
            settings: &[],
            how: "`amp login`",
        },
    },
    ProgramFacts {
        program: "goose",
        proven: None,
        login: Login {
            env: &["GOOSE_PROVIDER"],
            files: &[],
            settings: &[(
                dir("XDG_CONFIG_HOME", "goose", ".config/goose"),
                "config.yaml",
                Setting::Line("GOOSE_PROVIDER"),
            )],
            how: "`goose configure`",
        },
    },
];

/// Returns the facts about a program by its file name.
#[must_use]
pub fn known(program: &str) -> Option<&'static ProgramFacts> {
    let name = program.rsplit('/').next().unwrap_or(program);
    PROGRAMS.iter().find(|known| known.program == name)
}

/// A possible trace of a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trace {
    /// A variable of the sessions.
    Variable(&'static str),
    /// A file that holds more than brackets.
    File(PathBuf),
    /// A settings file with this key.
    Setting(PathBuf, Setting),
}

impl Login {
    /// Returns the variables that log sessions of this harness in, and the files to look at.
    #[must_use]
    pub fn traces(&self, start: &Start<'_>) -> Vec<Trace> {
        self.traces_in(start.env)
    }

    /// As [`Self::traces`], but for sessions with this environment.
    pub(super) fn traces_in(&self, env: &BTreeMap<String, String>) -> Vec<Trace> {
        let has = |name: &str| env.get(name).is_some_and(|value| !value.is_empty());
        let set = self.env.iter().filter(|name| has(name));
        let files = self.files.iter();
        let settings = self.settings.iter();
        set.map(|name| Trace::Variable(name))
            .chain(files.map(|(dir, name)| Trace::File(dir.of(env).join(name))))
            .chain(settings.map(|(dir, name, key)| Trace::Setting(dir.of(env).join(name), *key)))
            .collect()
    }
}

impl Setting {
    /// Returns true when a settings file with this text has the key. A text that cannot be parsed may have it.
    #[must_use]
    pub fn is_in(self, text: &str) -> bool {
        match self {
            Self::Json(key) => crate::domain::jsonc::has(text, &[key]).unwrap_or(true),
            Self::Line(key) => text.lines().any(|line| {
                let rest = line.trim_start().strip_prefix(key);
                rest.is_some_and(|rest| rest.trim_start().starts_with(['=', ':']))
            }),
        }
    }
}
