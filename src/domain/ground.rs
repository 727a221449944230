//! The ground of the supervisor: its directories, lock, socket and store. Each may be removed, moved or replaced while
//! it runs.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::problem::{Problem, ProblemKind};

/// A part of the ground.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The city's directory.
    City,
    /// `.horde`.
    State,
    /// The file that the running supervisor holds locked.
    Lock,
    /// The control socket.
    Socket,
    /// The directory of the sessions.
    Sessions,
    /// The relic store.
    Store,
    /// A rig whose repository could not be prepared, or does not answer.
    Rig,
    /// Changes of files are not seen: the kernel's watches are used up.
    Watch,
    /// The root's look at all sessions, which does not end.
    Look,
    /// A removed sandbox that was written to after it had been judged.
    Trash,
}

/// A part of the ground that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileFault {
    /// The part.
    pub part: Part,
    /// Its path.
    pub path: PathBuf,
    /// The fault.
    pub says: String,
    /// The remedy for a person; empty where the fault was repaired.
    pub hint: String,
}

impl FileFault {
    /// Returns the problem for an escalation. Each path has its own.
    #[must_use]
    pub fn problem(&self) -> Problem {
        let path = self.path.display();
        ProblemKind::Ground.of(&path, format!("{path}: {}", self.says))
    }
}

/// The result of a check of the whole ground.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Look {
    /// Faults that were repaired.
    pub mended: Vec<FileFault>,
    /// Faults that a person must fix.
    pub left: Vec<FileFault>,
}

impl Look {
    /// Adds a repaired fault.
    pub fn mend(&mut self, part: Part, path: impl Into<PathBuf>, says: impl Into<String>) {
        self.mended.push(FileFault {
            part,
            path: path.into(),
            says: says.into(),
            hint: String::new(),
        });
    }

    /// Adds a fault that a person must fix.
    pub fn leave(
        &mut self,
        part: Part,
        path: impl Into<PathBuf>,
        says: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.left.push(FileFault {
            part,
            path: path.into(),
            says: says.into(),
            hint: hint.into(),
        });
    }
}
