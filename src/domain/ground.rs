//! What the supervisor stands on: its directories, lock, socket and store. Each may be removed, moved or
//! replaced while it runs.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::problem::{Problem, ProblemKind};

/// Which part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The city's directory.
    City,
    /// `.horde`.
    State,
    /// The file that a second supervisor finds locked.
    Lock,
    /// The control socket.
    Socket,
    /// The directory of the sessions.
    Sessions,
    /// The relic store.
    Store,
    /// A rig whose repository could not be made ready.
    Rig,
    /// Changes of files are not seen: the kernel has no watches left.
    Watch,
    /// A removed sandbox that was written to after it had been judged.
    Trash,
}

/// Something of it that is not as it was left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// Which part.
    pub part: Part,
    /// Where it belongs.
    pub path: PathBuf,
    /// What is wrong, or was.
    pub says: String,
    /// What a person can do; empty where it was mended.
    pub hint: String,
}

impl Trouble {
    /// Returns the problem that a person is called for. There is one of each path.
    #[must_use]
    pub fn problem(&self) -> Problem {
        let path = self.path.display();
        ProblemKind::Ground.of(&path, format!("{path}: {}", self.says))
    }
}

/// What one look at all of it came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Look {
    /// What was wrong and is mended.
    pub mended: Vec<Trouble>,
    /// What is wrong and takes a person.
    pub left: Vec<Trouble>,
}

impl Look {
    /// Adds what was mended.
    pub fn mend(&mut self, part: Part, path: impl Into<PathBuf>, says: impl Into<String>) {
        self.mended.push(Trouble {
            part,
            path: path.into(),
            says: says.into(),
            hint: String::new(),
        });
    }

    /// Adds what a person must mend.
    pub fn leave(
        &mut self,
        part: Part,
        path: impl Into<PathBuf>,
        says: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.left.push(Trouble {
            part,
            path: path.into(),
            says: says.into(),
            hint: hint.into(),
        });
    }
}
