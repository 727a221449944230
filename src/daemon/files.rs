//! The city's configuration files: read afresh each time, and watched.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::tree::git;
use crate::adapters::watch::DirWatch;
use crate::config::{self, Dependencies};
use crate::domain::city::{City, Rig};
use crate::ports::config::{ConfigListener, ConfigSource, Loaded};
use crate::ports::repo::Repo;

/// The configuration files of a city.
pub(super) struct OnDisk {
    file: PathBuf,
    listener: Arc<OnceLock<ConfigListener>>,
    open: Open,
    read: ReadFiles,
    watching: Mutex<Watching>,
}

type Open = Box<dyn Fn(Arc<dyn Fn() + Send + Sync>) -> Result<DirWatch, String> + Send + Sync>;

type ReadFiles = Box<dyn Fn(&Path) -> (Dependencies, Read) + Send + Sync>;

#[derive(Default)]
struct Watching {
    /// None while the kernel has no watch left: the patrol looks anyway.
    watch: Option<DirWatch>,
    /// The directories that the configuration depended on when it was last read.
    dirs: Vec<PathBuf>,
    trouble: WatchFailure,
}

impl OnDisk {
    /// `file` is the canonical path of the city's file.
    pub(super) fn new(file: PathBuf) -> Self {
        let open = |listener| DirWatch::new(listener).map_err(|error| error.to_string());
        let read = |file: &Path| config::read(file, &config::Env::of_process());
        Self::with(file, Box::new(open), Box::new(read))
    }

    fn with(file: PathBuf, open: Open, read: ReadFiles) -> Self {
        Self {
            file,
            listener: Arc::default(),
            open,
            read,
            watching: Mutex::default(),
        }
    }

    fn notifier(&self) -> impl Fn() + Send + Sync + use<> {
        let listener = Arc::clone(&self.listener);
        move || {
            if let Some(listener) = listener.get() {
                listener();
            }
        }
    }

    /// Reads the configuration, and watches the files that it depends on. Also returns whether some of them were not
    /// watched while they were read.
    fn read(&self, watching: &mut Watching) -> (Dependencies, Read, bool) {
        if let Some(watch) = &watching.watch {
            // Held first: a change during the read is seen afterwards, and judged by the new dependencies.
            watch.hold();
            watch.watch(&watching.dirs);
        }
        let (deciding, loaded) = (self.read)(&self.file);
        watching.dirs = deciding.dirs();
        let watched = watching.watch.as_ref();
        let watched = watched.map(|watch| watch.watch(&watching.dirs));
        let more = watched.as_ref().is_some_and(|watched| watched.more);
        if let Some(watched) = watched {
            watching
                .trouble
                .warn_once(watched.failed.into_values().next());
        }
        (deciding, loaded, more)
    }
}

type Read = Result<config::Loaded, config::Diagnostics>;

impl ConfigSource for OnDisk {
    fn load(&self) -> Result<Loaded, String> {
        let mut watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        if watching.watch.is_none() {
            match (self.open)(Arc::new(self.notifier())) {
                Ok(watch) => watching.watch = Some(watch),
                Err(error) => watching.trouble.warn_once(Some(error)),
            }
        }
        let (mut deciding, mut loaded, more) = self.read(&mut watching);
        if more {
            let still_more;
            (deciding, loaded, still_more) = self.read(&mut watching);
            if still_more {
                // The files are still changing: load again after the next pause.
                self.notifier()();
            }
        }
        if let Some(watch) = &watching.watch {
            let matters = Box::new(move |path: &Path| deciding.depends_on(path)) as _;
            // An invalid configuration may be mended by any change, so all count.
            watch.filter(loaded.is_ok().then_some(matters));
        }
        let loaded = loaded.map_err(|wrong| wrong.render(false))?;
        Ok(Loaded {
            shown: config::show_json(&loaded),
            city: loaded.city,
        })
    }

    fn rig(&self, city: &City, rig: &Rig) -> Arc<dyn Repo> {
        git(city, rig)
    }

    fn listen(&self, listener: ConfigListener) {
        // A second listener would be a mistake of the caller.
        let _only_once = self.listener.set(listener);
    }
}

/// The last reported reason why changes are not seen.
#[derive(Default)]
struct WatchFailure(Option<String>);

impl WatchFailure {
    /// Returns the trouble if it differs from the last one.
    fn news(&mut self, trouble: Option<String>) -> Option<String> {
        let is_news = self.0 != trouble;
        self.0.clone_from(&trouble);
        trouble.filter(|_| is_news)
    }

    fn warn_once(&mut self, trouble: Option<String>) {
        if let Some(error) = self.news(trouble) {
            let hint = "raise the sysctl fs.inotify.max_user_instances or max_user_watches";
            tracing::warn!(
                error,
                hint,
                "cannot watch the configuration's files; only patrols see changes"
            );
        }
    }
}

#[cfg(test)]
mod tests;
