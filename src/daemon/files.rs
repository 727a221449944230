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
    path: PathBuf,
    root: PathBuf,
    /// None when the kernel has none left: the patrol looks anyway.
    watch: Option<DirWatch>,
    /// What decided the configuration when it was last right.
    dirs: Mutex<Vec<PathBuf>>,
}

impl OnDisk {
    /// `path` is what names the city, `root` its directory.
    pub(super) fn new(path: PathBuf, root: PathBuf) -> Self {
        let watch = DirWatch::new().inspect_err(|error| {
            let hint = "raise the sysctl fs.inotify.max_user_instances";
            tracing::warn!(%error, hint, "changes of the configuration are seen by the patrol only");
        });
        Self {
            path,
            root,
            watch: watch.ok(),
            dirs: Mutex::default(),
        }
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
        if let Some(watch) = &self.watch {
            watch.watch(&dirs);
        }
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
        let deciding = loaded.as_ref().ok().map(config::Loaded::deciding);
        let dirs = deciding.as_ref().map(config::Deciding::dirs);
        if let Some(watch) = &self.watch {
            // What would mend a configuration that is wrong is not known: anything might.
            let filter =
                |on: config::Deciding| Box::new(move |path: &Path| on.depends_on(path)) as _;
            watch.filter(deciding.map(filter));
        }
        let loaded = loaded.map_err(|wrong| wrong.render(false))?;
        Ok(Loaded {
            shown: config::show_json(&loaded),
            dirs: dirs.unwrap_or_default(),
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

    fn watch(&self, dirs: &[PathBuf]) {
        let mut known = self.dirs.lock().unwrap_or_else(PoisonError::into_inner);
        dirs.clone_into(&mut known);
        self.watch_also(dirs.to_vec());
    }
}
