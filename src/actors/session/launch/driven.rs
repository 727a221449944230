//! The parts of a harness's session besides its prompt: placeholders, hook files, and the conversation that it resumes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::actors::effects;
use crate::actors::session::launch::OpenFailure;
use crate::actors::world::World;
use crate::domain::cause::Cause;
use crate::domain::city::Harness;
use crate::domain::facts::{RunState, SessionFacts};
use crate::domain::harness::fill::{Fill, Place};
use crate::domain::harness::hooks::{Home, Setting, is_conversation};
use crate::domain::ids::SessionId;
use crate::ports::sessions::{SessionError, SessionHandle};
use crate::ports::tasks::TaskError;

/// The session fact that names its conversation.
pub(crate) const CONVERSATION: &str = "conversation";
/// The session fact that names the file of its conversation.
pub(crate) const TRANSCRIPT: &str = "transcript";
/// The session fact that names its harness: another harness cannot resume its conversation.
pub(super) const HARNESS: &str = "harness";
/// The session fact that names the conversation it was started to resume.
pub(super) const RESUMES: &str = "resumes";
/// The session fact that makes the next session begin a new conversation.
const AFRESH: &str = "afresh";

/// The place where a session is started.
pub(super) struct Site<'a> {
    /// The sandbox of a raider, the working directory of an agent.
    pub(super) dir: &'a Path,
    /// The name of the rig; empty for an agent.
    pub(super) rig: &'a str,
    /// The directory for files of this session.
    pub(super) files: PathBuf,
    /// Its environment.
    pub(super) env: &'a BTreeMap<String, String>,
    /// Set when the user has a command that prints a key.
    pub(super) own_helper: bool,
}

/// Writes the hook files of a session, and returns the values of its placeholders.
pub(super) async fn fill(
    world: &World,
    harness: &Harness,
    place: Site<'_>,
) -> Result<Fill, OpenFailure> {
    let hd = world.bin_dir.join("hd").to_string_lossy().into_owned();
    let mut fill = Fill::default();
    fill.set(Place::Sandbox, place.dir.to_string_lossy());
    fill.set(Place::City, world.city.root.to_string_lossy());
    fill.set(Place::Rig, place.rig);
    fill.set(Place::Hd, hd.as_str());
    fill.set(Place::HdDir, world.bin_dir.to_string_lossy());
    let files = {
        let has = |name: &str| place.env.contains_key(name);
        let dir = place.dir.to_string_lossy();
        let setting = Setting {
            hd: &hd,
            dir: &dir,
            has: &has,
            own_helper: place.own_helper,
        };
        harness.hooks.set_up(&setting, &mut fill)
    };
    if files.is_empty() && !needs_git(harness) && harness.exclude.is_empty() {
        return Ok(fill);
    }
    let (dir, home) = (place.dir.to_owned(), place.files);
    let exclude = harness.exclude.clone();
    let written = effects::tasks(world, move |tasks| {
        tasks.exclude(&dir, &exclude)?;
        let (mut paths, mut left_out) = (Vec::new(), exclude);
        for file in files {
            let path = match file.home {
                Home::Task => tasks.write_beside(&home, file.path, &file.text)?,
                Home::Sandbox => {
                    if tasks.write_unless_there(&dir, file.path, &file.text)? {
                        left_out.push(format!("/{}", file.path));
                    } else {
                        tracing::info!(
                            sandbox = %dir.display(),
                            file = file.path,
                            "the project has its own copy of the harness's hook file, which is \
                            kept; the harness reports nothing by hooks"
                        );
                    }
                    dir.join(file.path)
                }
            };
            let path = match (file.place, path.parent()) {
                (Some(Place::HooksDir), Some(dir)) => dir.to_owned(),
                _ => path,
            };
            paths.extend(file.place.map(|place| (place, path)));
        }
        Ok((paths, left_out, tasks.git_dirs(&dir)))
    });
    let unwritable = |error: TaskError| OpenFailure::Unwritable(error.to_string());
    let (paths, left_out, git) = written.await.map_err(unwritable)?;
    leave_out(world, place.rig, left_out).await?;
    for (place, path) in paths {
        fill.set(place, path.to_string_lossy());
    }
    if let Some((own, common)) = git {
        fill.set(Place::GitDir, own.to_string_lossy());
        fill.set(Place::GitCommon, common.to_string_lossy());
    }
    Ok(fill)
}

/// Excludes these files from what the supervisor measures as work. It does not read the exclude rules in `repo.git`,
/// because agents write there.
async fn leave_out(world: &World, rig: &str, patterns: Vec<String>) -> Result<(), OpenFailure> {
    let rig = world.city.rigs.iter().find(|it| it.name.as_str() == rig);
    let Some(rig) = rig.filter(|_| !patterns.is_empty()) else {
        return Ok(());
    };
    let left_out = effects::repo(world, &rig.name, move |repo| repo.leave_out(&patterns));
    left_out
        .await
        .map_err(|error| OpenFailure::Unwritable(error.to_string()))
}

/// Returns true when the command line names directories of git.
fn needs_git(harness: &Harness) -> bool {
    let mut words = harness.command.iter().chain(&harness.reduced);
    let names = [Place::GitDir, Place::GitCommon];
    words.any(|word| names.iter().any(|name| word.contains(name.as_str())))
}

/// Returns the environment with its placeholders filled.
pub(super) fn filled(fill: &Fill, env: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let filled = env.into_iter().map(|(name, value)| {
        let value = fill.put_in(&value);
        (name, value)
    });
    filled.collect()
}

/// A resumed session that ends within this time could not resume.
const RESUME_HOLDS: jiff::SignedDuration = jiff::SignedDuration::from_secs(20);

/// Returns the conversation that the next session resumes: that of the last session, if its harness can resume and
/// named it, and its transcript exists. A resume that ended at once by itself is not retried, and neither is the
/// conversation of a session marked to be followed by a fresh one.
///
/// # Errors
/// [`OpenFailure::Unseen`]: the facts of the session before cannot be read.
pub(super) async fn conversation(
    world: &World,
    harness: &Harness,
    cause: Cause,
    before: Option<&SessionFacts>,
) -> Result<Option<String>, OpenFailure> {
    let Some(before) = before.filter(|_| !harness.resume.is_empty()) else {
        return Ok(None);
    };
    if fact(world, &before.id, AFRESH).await?.is_some() {
        return Ok(None);
    }
    let ran = fact(world, &before.id, HARNESS).await?;
    // A conversation id of another program is meaningless to this one.
    if ran.is_none_or(|ran| ran != harness.name.as_str()) {
        return Ok(None);
    }
    let resumed = fact(world, &before.id, RESUMES).await?;
    if resumed.is_some() && failed_at_once(before, cause) {
        tracing::warn!(
            session = %before.id,
            "a resumed session ended at once, so its conversation cannot be resumed; a fresh one \
            begins"
        );
        return Ok(None);
    }
    let conversation = fact(world, &before.id, CONVERSATION).await?.or(resumed);
    let Some(conversation) = conversation.filter(|id| is_conversation(id)) else {
        return Ok(None);
    };
    let Some(transcript) = fact(world, &before.id, TRANSCRIPT).await? else {
        return Ok(Some(conversation));
    };
    let there = effects::tasks(
        world,
        move |tasks| Ok(tasks.is_file(Path::new(&transcript))),
    );
    let there = there
        .await
        .map_err(|error| OpenFailure::Unseen(error.to_string()))?;
    Ok(there.then_some(conversation))
}

/// Returns true when a session ended so soon that it could not resume. An end by the supervisor or a person has another
/// reason, and so has an end at a limit or for a login.
fn failed_at_once(facts: &SessionFacts, cause: Cause) -> bool {
    let RunState::Exited(exit) = &facts.state else {
        return false;
    };
    let of_itself = !exit.stopped
        && !exit.by_person
        && !matches!(
            cause,
            Cause::RateLimit | Cause::Login | Cause::EndedByPerson
        );
    of_itself && exit.at.duration_since(facts.started_at) < RESUME_HOLDS
}

/// Marks a session, so that its successor begins a new conversation.
///
/// # Errors
/// The provider's.
pub async fn begin_afresh(world: &World, handle: &SessionHandle) -> Result<(), SessionError> {
    let of = handle.clone();
    let kept = effects::sessions(world, &handle.id, move |provider| {
        provider.set_meta(&of, AFRESH, "yes")
    });
    kept.await
}

async fn fact(
    world: &World,
    id: &SessionId,
    key: &'static str,
) -> Result<Option<String>, OpenFailure> {
    let of = id.clone();
    match effects::sessions(world, id, move |provider| provider.get_meta(&of, key)).await {
        Ok(value) => Ok(value),
        Err(SessionError::Gone(_)) => Ok(None),
        Err(error) => Err(OpenFailure::Unseen(error.to_string())),
    }
}
