//! The city's files: read anew each time, and watched.

use std::path::PathBuf;
use std::sync::Arc;

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
    watch: DirWatch,
}

impl OnDisk {
    pub(super) fn new(path: PathBuf) -> Result<Self, DaemonError> {
        let watch = DirWatch::new().map_err(|error| {
            DaemonError::Failed(format!("the configuration cannot be watched: {error}"))
        })?;
        Ok(Self { path, watch })
    }
}

impl ConfigSource for OnDisk {
    fn load(&self) -> Result<Loaded, String> {
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
        self.watch.watch(dirs);
    }
}
