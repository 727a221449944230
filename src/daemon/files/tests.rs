//! Edits while the files are being read: a pipe as the last of them holds a look up.

use std::fs::{self, File};
use std::io::Write;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::*;

const AUTOMATION: &str = "exec = \"true\"\ngate = \"manual\"\n";
const LATE: &str = "[[agents]]\nname = \"late\"\ncommand = [\"true\"]\n";

/// A city in `city`; what is put there is written elsewhere first, so that each is one change.
struct Place {
    root: PathBuf,
    _dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
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

    /// A look at the city stops at its automation until that is fed.
    fn stop_at_the_automation(&self) {
        let pipe = self.root.join("pipe");
        mkfifo(&pipe, Mode::from_bits_truncate(0o600)).unwrap();
        fs::rename(pipe, self.path("automations/x/automation.toml")).unwrap();
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

/// The agents that a look finds at a city that has just come to include this.
fn look(include: &str, meanwhile: impl FnOnce(&Place)) -> (Vec<String>, Receiver<()>) {
    let place = Place::new();
    place.put("new.toml", "");
    let source = OnDisk::new(place.path("city.toml"));
    let heard = listen(&source);
    source.load().unwrap();
    let city = format!("include = [\"{include}\"]\nworkspace.name = \"c\"\n");
    place.put("city.toml", &city);
    hear(&heard);
    place.stop_at_the_automation();
    hear(&heard);
    let loaded = thread::scope(|scope| {
        let looking = scope.spawn(|| source.load().unwrap());
        let automation = place.path("automations/x/automation.toml");
        let mut pipe = File::options().write(true).open(&automation).unwrap();
        meanwhile(&place);
        pipe.write_all(AUTOMATION.as_bytes()).unwrap();
        drop(pipe);
        looking.join().unwrap()
    });
    let agents = loaded.city.agents.iter();
    (agents.map(|agent| agent.name.to_string()).collect(), heard)
}

#[test]
fn what_is_edited_during_a_look_leads_to_another_one() {
    let (_, heard) = look("new.toml", |place| place.put("new.toml", LATE));
    hear(&heard);
}

#[test]
fn a_directory_that_was_not_watched_is_looked_at_once_more() {
    let (agents, _) = look("g/*.toml", |place| {
        // The second look is not held up.
        fs::remove_file(place.path("automations/x/automation.toml")).unwrap();
        place.put("g/late.toml", LATE);
    });
    assert_eq!(agents, ["late"]);
}

#[test]
fn a_kernel_that_had_no_watcher_left_is_asked_again() {
    let place = Place::new();
    let scarce = Mutex::new(true);
    let open = move |listener| match std::mem::take(&mut *scarce.lock().unwrap()) {
        true => Err("too many open files".to_owned()),
        false => DirWatch::new(listener).map_err(|error| error.to_string()),
    };
    let source = OnDisk::with(place.path("city.toml"), Box::new(open));
    let heard = listen(&source);
    source.load().unwrap();
    source.load().unwrap();
    place.put("city.toml", "workspace.name = \"d\"\n");
    hear(&heard);
}

#[test]
fn the_same_trouble_is_said_once() {
    let mut trouble = Trouble::default();
    let full = || Some("full".to_owned());
    let said = [full(), full(), None, full(), Some("else".to_owned())];
    let said = said.map(|told| trouble.news(told).is_some());
    assert_eq!(said, [true, false, false, true, true]);
}
