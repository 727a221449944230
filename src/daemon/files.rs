//! The city's files: read anew each time, and watched.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::tree::git;
use crate::adapters::watch::DirWatch;
use crate::config;
use crate::domain::city::{City, Rig};
use crate::ports::config::{ConfigListener, ConfigSource, Loaded};
use crate::ports::repo::Repo;

/// The files of one city.
pub(super) struct OnDisk {
    file: PathBuf,
    /// None when the kernel has none left: the patrol looks anyway.
    watch: Option<DirWatch>,
    /// What decided the configuration when it was last read.
    dirs: Mutex<Vec<PathBuf>>,
}

impl OnDisk {
    /// `file` is the canonical path of the city's file.
    pub(super) fn new(file: PathBuf) -> Self {
        let watch = DirWatch::new().inspect_err(|error| {
            let hint = "raise the sysctl fs.inotify.max_user_instances";
            tracing::warn!(%error, hint, "changes of the configuration are seen by the patrol only");
        });
        Self {
            file,
            watch: watch.ok(),
            dirs: Mutex::default(),
        }
    }

    fn watch(&self, dirs: &[PathBuf]) {
        if let Some(watch) = &self.watch {
            watch.watch(dirs);
        }
    }
}

impl ConfigSource for OnDisk {
    fn load(&self) -> Result<Loaded, String> {
        let mut dirs = self.dirs.lock().unwrap_or_else(PoisonError::into_inner);
        // First: what is written while the files are read is seen afterwards.
        self.watch(&dirs);
        let (deciding, loaded) = config::read(&self.file, &config::Env::of_process());
        *dirs = deciding.dirs();
        self.watch(&dirs);
        if let Some(watch) = &self.watch {
            // What would mend a configuration that is wrong is not known: anything might.
            let matters = Box::new(move |path: &Path| deciding.depends_on(path)) as _;
            watch.filter(loaded.is_ok().then_some(matters));
        }
        let loaded = loaded.map_err(|wrong| wrong.render(false))?;
        Ok(Loaded {
            shown: config::show_json(&loaded),
            city: loaded.city,
        })
    }

    fn open_rig(&self, city: &City, rig: &Rig) -> Result<Arc<dyn Repo>, String> {
        let repo = git(city, rig);
        repo.prepare().map_err(|error| error.to_string())?;
        Ok(repo)
    }

    fn listen(&self, listener: ConfigListener) {
        if let Some(watch) = &self.watch {
            watch.listen(listener);
        }
    }
}
