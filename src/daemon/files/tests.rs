//! Edits while the files are being read.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use super::*;

const AUTOMATION: &str = "exec = \"true\"\ngate = \"manual\"\n";
const LATE: &str = "[[agents]]\nname = \"late\"\ncommand = [\"true\"]\n";

/// A city in `city`. Files are written in another place and then moved there, so that each is a single change.
struct SampleDir {
    root: PathBuf,
    _dir: tempfile::TempDir,
}

impl SampleDir {
    fn new() -> Self {
        let dir = crate::testing::scratch();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("city/automations/x")).unwrap();
        fs::create_dir_all(root.join("city/g")).unwrap();
        let place = Self { root, _dir: dir };
        place.put("city.toml", "workspace.name = \"c\"\n");
        place.put("automations/x/automation.toml", AUTOMATION);
        place
    }

    fn path(&self, file: &str) -> PathBuf {
        self.root.join("city").join(file)
    }

    fn put(&self, file: &str, text: &str) {
        fs::write(self.root.join("new"), text).unwrap();
        fs::rename(self.root.join("new"), self.path(file)).unwrap();
    }
}

fn listen(source: &OnDisk) -> Receiver<()> {
    let (told, heard) = mpsc::channel();
    source.listen(Box::new(move || told.send(()).unwrap_or_default()));
    heard
}

#[track_caller]
fn hear(heard: &Receiver<()>) {
    heard.recv_timeout(Duration::from_secs(20)).unwrap();
}

/// Returns the agents that a load finds at a city that now includes this file, if `meanwhile` happens after the first
/// read.
fn load_while(include: &str, meanwhile: impl FnOnce(&SampleDir)) -> (Vec<String>, Receiver<()>) {
    let place = SampleDir::new();
    place.put("new.toml", "");
    let (reads, waits) = mpsc::channel();
    let (goes_on, held) = mpsc::sync_channel(0);
    let held = Mutex::new(Some((reads, held)));
    let holds = Arc::new(AtomicBool::new(false));
    let own = Arc::clone(&holds);
    let read = move |file: &Path| {
        let read = config::read(file, &config::Env::of_process());
        if own.load(Ordering::SeqCst)
            && let Some((reads, held)) = held.lock().unwrap().take()
        {
            reads.send(()).unwrap();
            held.recv().unwrap();
        }
        read
    };
    let open = |listener| DirWatch::new(listener).map_err(|error| error.to_string());
    let source = OnDisk::with(place.path("city.toml"), Box::new(open), Box::new(read));
    let heard = listen(&source);
    source.load().unwrap();
    let city = format!("include = [\"{include}\"]\nworkspace.name = \"c\"\n");
    place.put("city.toml", &city);
    hear(&heard);
    holds.store(true, Ordering::SeqCst);
    let loaded = thread::scope(|scope| {
        let looking = scope.spawn(|| source.load().unwrap());
        waits.recv().unwrap();
        meanwhile(&place);
        goes_on.send(()).unwrap();
        looking.join().unwrap()
    });
    let agents = loaded.city.agents.iter();
    (agents.map(|agent| agent.name.to_string()).collect(), heard)
}

#[test]
fn edit_during_a_check_leads_to_another_check() {
    let (_, heard) = load_while("new.toml", |place| place.put("new.toml", LATE));
    hear(&heard);
}

#[test]
fn a_directory_that_was_not_watched_is_looked_at_once_more() {
    let (agents, _) = load_while("g/*.toml", |place| {
        place.put("g/late.toml", LATE);
    });
    assert_eq!(agents, ["late"]);
}

#[test]
fn a_kernel_that_had_no_watcher_left_is_asked_again() {
    let place = SampleDir::new();
    let scarce = Mutex::new(true);
    let open = move |listener| match std::mem::take(&mut *scarce.lock().unwrap()) {
        true => Err("too many open files".to_owned()),
        false => DirWatch::new(listener).map_err(|error| error.to_string()),
    };
    let source = OnDisk::with(
        place.path("city.toml"),
        Box::new(open),
        Box::new(|file: &Path| config::read(file, &config::Env::of_process())),
    );
    let heard = listen(&source);
    source.load().unwrap();
    source.load().unwrap();
    place.put("city.toml", "workspace.name = \"d\"\n");
    hear(&heard);
}

#[test]
fn the_same_trouble_is_said_once() {
    let mut trouble = WatchFailure::default();
    let full = || Some("full".to_owned());
    let said = [full(), full(), None, full(), Some("else".to_owned())];
    let said = said.map(|told| trouble.news(told).is_some());
    assert_eq!(said, [true, false, false, true, true]);
}
