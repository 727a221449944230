//! Other work beside a sandbox: a second raider that takes a stash entry, a collection of garbage that goes on.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use git2::Oid;

use super::super::ends::Case;
use super::super::forms::Form;
use super::super::lab::Lab;
use super::super::look::SandboxState;
use crate::support::git::{git, try_git};
use horde_supervisor::actors::mail::Charged;
use horde_supervisor::ports::repo::Repo;

/// Prepares the city for a form that is made of more than the acts of one agent. Returns the second raider, if the form
/// has one.
pub(super) async fn arrange(lab: &Lab, case: Case) -> Option<Charged> {
    match case.form {
        Form::UserNoModes => lab.keep_modes(false),
        Form::StashTaken => return Some(lab.city().charged("b").await),
        _ => {}
    }
    None
}

/// Undoes that.
pub(super) async fn tidy(lab: &Lab, case: Case, other: Option<Charged>) {
    if case.form == Form::UserNoModes {
        lab.keep_modes(true);
    }
    if let Some(other) = other
        && lab.city().hook(&other.raider).await.is_some()
    {
        lab.city().nuke(&other.raider, true).await.unwrap();
    }
}

/// Returns the act of the second raider, after a look of the supervisor at the first one's sandbox: it pops or drops the
/// entries of the first, and destroys those that no ref names. Their ids are written down.
pub(super) fn taker(
    lab: &Lab,
    case: Case,
    other: &Charged,
    before: &[Oid],
) -> impl FnOnce(&Path) + Send + 'static + use<> {
    let (repo, dir, before) = (
        Arc::clone(&lab.repo),
        other.sandbox.clone(),
        before.to_vec(),
    );
    let (list, pops) = (lab.path("taken"), case.seed.is_multiple_of(2));
    move |sandbox| {
        repo.progress(sandbox).expect("looked at");
        let mut taken = SandboxState::of(sandbox).stashes;
        taken.retain(|id| !before.contains(id));
        assert!(!taken.is_empty(), "there is an entry");
        if pops {
            git(&dir, &["stash", "pop", "-q"]);
        }
        git(&dir, &["stash", "clear"]);
        git(&dir, &["gc", "-q", "--prune=now"]);
        let lines = taken.iter().map(|id| format!("{id}\n"));
        fs::write(list, lines.collect::<String>()).expect("written");
    }
}

/// An agent that collects the garbage of the shared repository until this is dropped.
pub(super) struct Collector {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Collector {
    /// Begins, if the form is that.
    pub(super) fn of(lab: &Lab, case: Case) -> Option<Self> {
        (case.form == Form::Collected).then(|| Self::start(lab.repo.theirs().to_owned()))
    }

    fn start(theirs: PathBuf) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            // At least once.
            loop {
                drop(try_git(&theirs, &["gc", "-q", "--prune=now"]));
                if seen.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let thread = Some(thread);
        Self { over, thread }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
