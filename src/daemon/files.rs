//! The city's files: read anew each time, and watched.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::DaemonError;
use super::tree::git;
use crate::adapters::watch::DirWatch;
use crate::config;
use crate::domain::city::{City, Rig};
use crate::ports::config::{ConfigListener, ConfigSource, Loaded};
use crate::ports::repo::Repo;

/// The files of one city.
pub(super) struct OnDisk {
    path: PathBuf,
    root: PathBuf,
    watch: DirWatch,
    /// What decided the configuration when it was last right.
    dirs: Mutex<Vec<PathBuf>>,
}

impl OnDisk {
    /// `path` is what names the city, `root` its directory.
    pub(super) fn new(path: PathBuf, root: PathBuf) -> Result<Self, DaemonError> {
        let watch = DirWatch::new().map_err(|error| {
            DaemonError::Failed(format!("the configuration cannot be watched: {error}"))
        })?;
        Ok(Self {
            path,
            root,
            watch,
            dirs: Mutex::default(),
        })
    }

    /// The folder of automations and every folder in it: a new one may not have its file yet.
    fn automations(&self) -> Vec<PathBuf> {
        let all = self.root.join("automations");
        let folders = std::fs::read_dir(&all).into_iter().flatten().flatten();
        let mut dirs: Vec<_> = folders.map(|folder| folder.path()).collect();
        dirs.push(all);
        dirs
    }

    fn watch_also(&self, mut dirs: Vec<PathBuf>) {
        dirs.extend(self.automations());
        self.watch.watch(&dirs);
    }
}

impl ConfigSource for OnDisk {
    fn load(&self) -> Result<Loaded, String> {
        // First: what is written while the files are read is seen afterwards.
        let dirs = self
            .dirs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        self.watch_also(dirs);
        let loaded = config::load(&self.path, &config::Env::of_process());
        let loaded = loaded.map_err(|wrong| wrong.render(false))?;
        Ok(Loaded {
            shown: config::show_json(&loaded),
            dirs: loaded.dirs(),
            city: loaded.city,
        })
    }

    fn open_rig(&self, city: &City, rig: &Rig) -> Result<Arc<dyn Repo>, String> {
        let repo = git(city, rig);
        repo.prepare().map_err(|error| error.to_string())?;
        Ok(repo)
    }

    fn listen(&self, listener: ConfigListener) {
        self.watch.listen(listener);
    }

    fn watch(&self, dirs: &[PathBuf]) {
        let mut known = self.dirs.lock().unwrap_or_else(PoisonError::into_inner);
        dirs.clone_into(&mut known);
        self.watch_also(dirs.to_vec());
    }
}
