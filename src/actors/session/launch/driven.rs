//! The parts of a harness's session besides its prompt: placeholders and hook files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::actors::effects;
use crate::actors::world::World;
use crate::domain::child::ChildExit;
use crate::domain::city::Harness;
use crate::domain::harness::fill::{Fill, Placeholder};
use crate::domain::harness::hooks::{Home, Setting};
use crate::ports::tasks::TaskError;

/// The place where a session is started.
pub(super) struct Site<'a> {
    /// The sandbox of a raider, the working directory of an agent.
    pub(super) dir: &'a Path,
    /// The name of the rig; empty for an agent.
    pub(super) rig: &'a str,
    /// The owner of its files.
    pub(super) owner: effects::Owner,
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
) -> Result<Fill, ChildExit> {
    let hd = world.bin_dir.join("hd").to_string_lossy().into_owned();
    let mut fill = Fill::default();
    fill.set(Placeholder::Sandbox, place.dir.to_string_lossy());
    fill.set(Placeholder::City, world.city.root.to_string_lossy());
    fill.set(Placeholder::Rig, place.rig);
    fill.set(Placeholder::Hd, hd.as_str());
    fill.set(Placeholder::HdDir, world.bin_dir.to_string_lossy());
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
    let written = effects::tasks(world, place.owner, move |tasks| {
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
                (Some(Placeholder::HooksDir), Some(dir)) => dir.to_owned(),
                _ => path,
            };
            paths.extend(file.place.map(|place| (place, path)));
        }
        Ok((paths, left_out, tasks.git_dirs(&dir)))
    });
    let unwritable = |error: TaskError| ChildExit::Unwritable(error.to_string());
    let (paths, left_out, git) = written.await.map_err(unwritable)?;
    leave_out(world, place.rig, left_out).await?;
    for (place, path) in paths {
        fill.set(place, path.to_string_lossy());
    }
    if let Some((own, common)) = git {
        fill.set(Placeholder::GitDir, own.to_string_lossy());
        fill.set(Placeholder::GitCommon, common.to_string_lossy());
    }
    Ok(fill)
}

/// Excludes these files from what the supervisor measures as work. It does not read the exclude rules in `repo.git`,
/// because agents write there.
async fn leave_out(world: &World, rig: &str, patterns: Vec<String>) -> Result<(), ChildExit> {
    let rig = world.city.rigs.iter().find(|it| it.name.as_str() == rig);
    let Some(rig) = rig.filter(|_| !patterns.is_empty()) else {
        return Ok(());
    };
    let left_out = effects::repo(world, &rig.name, move |repo| repo.leave_out(&patterns));
    left_out
        .await
        .map_err(|error| ChildExit::Unwritable(error.to_string()))
}

/// Returns true when the command line names directories of git.
fn needs_git(harness: &Harness) -> bool {
    let mut words = harness.command.iter().chain(&harness.reduced);
    let names = [Placeholder::GitDir, Placeholder::GitCommon];
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
