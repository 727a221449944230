//! The repository that agents write to: it is made, borrows the objects of ours, and learns from ours where
//! the remotes are. Nothing here runs git in it once agents have been there.

use std::fs;
use std::path::Path;

use super::admin::{failed, free_name, write_whole};
use super::bytes;
use super::prepare::init_bare;
use super::rig::{GitRepo, oid};
use super::settings::object_format;
use crate::adapters::beneath;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// Refs that agents find where git puts them.
const SHOWN: &[&str] = &["refs/remotes", "refs/tags"];

/// Makes it where it is not there.
pub(super) fn init(repo: &GitRepo) -> Result<(), RepoError> {
    let dir = repo.theirs();
    if !dir.join("HEAD").exists() {
        fs::create_dir_all(dir).map_err(|error| failed("cannot make", dir, &error))?;
        init_bare(dir, &object_format(repo)?)?;
        // That of a new one is written with the settings of the checkout.
        let config = dir.join("config");
        fs::remove_file(&config).map_err(|error| failed("cannot remove", &config, &error))?;
    }
    Ok(())
}

/// Whether it borrows the objects of ours already.
pub(super) fn borrows(repo: &GitRepo) -> bool {
    let objects = repo.repo_dir().join("objects");
    lenders(repo)
        .split(|byte| *byte == b'\n')
        .any(|line| line == bytes::of(&objects))
}

fn lenders(repo: &GitRepo) -> Vec<u8> {
    let file = Path::new("objects/info/alternates");
    let text = beneath::read(repo.theirs(), file, 1 << 20);
    text.ok().flatten().unwrap_or_default()
}

/// Has it borrow the objects of ours: neither a charge nor a fetch copies any.
pub(super) fn lend(repo: &GitRepo) -> Result<(), RepoError> {
    if borrows(repo) {
        return Ok(());
    }
    let (dir, objects) = (repo.theirs(), repo.repo_dir().join("objects"));
    let info = dir.join("objects").join("info");
    fs::create_dir_all(&info).map_err(|error| failed("cannot make", &info, &error))?;
    let file = info.join("alternates");
    let mut text = bytes::of(&objects).to_vec();
    text.push(b'\n');
    text.extend_from_slice(&lenders(repo));
    write_whole(&file, &text)
}

/// Writes a file there that agents may have put something else in the place of. No link is followed and
/// nothing is waited for; a directory is set aside.
pub(super) fn write(repo: &GitRepo, name: &str, text: &[u8]) -> Result<(), RepoError> {
    let (dir, name) = (repo.theirs(), Path::new(name));
    let max = text.len() as u64;
    if beneath::read(dir, name, max).is_ok_and(|found| found.as_deref() == Some(text)) {
        return Ok(());
    }
    let fail = |error: std::io::Error| failed("cannot write", &dir.join(name), &error);
    if let Some(above) = name.parent().filter(|above| *above != Path::new("")) {
        beneath::make_dir_anew(dir, above).map_err(fail)?;
    }
    let mut part = name.as_os_str().to_owned();
    part.push(".new");
    for place in [name, Path::new(&part)] {
        if fs::symlink_metadata(dir.join(place)).is_ok_and(|meta| meta.is_dir()) {
            let aside = free_name(dir, &format!("{}.aside", place.display()));
            let aside = aside.strip_prefix(dir).unwrap_or(&aside);
            beneath::rename(dir, place, aside).map_err(fail)?;
        }
    }
    beneath::replace_durably(dir, name, text).map_err(fail)
}

/// Tells agents where a ref of ours is. Where they left something in its way, it is said and tried again with
/// the next one: nothing that ours decides waits for it.
pub(super) fn publish(repo: &GitRepo, name: &str, at: &Oid) {
    let theirs = repo.their_refs();
    let told = theirs.resolve(name).and_then(|found| match found {
        Some(found) if found == *at => Ok(()),
        _ => theirs.create(name, at),
    });
    if let Err(error) = told {
        tracing::warn!(rig = %repo.name(), name, %error, "agents are not told where this is");
    }
}

/// Tells agents where the remotes and their tags are, and which branch is the default, as far as nothing is in
/// the way.
pub(super) fn publish_all(repo: &GitRepo) {
    if let Err(error) = tell_all(repo) {
        tracing::warn!(rig = %repo.name(), %error, "agents are not told where the remotes are");
    }
}

fn tell_all(repo: &GitRepo) -> Result<(), RepoError> {
    let format = "--format=%(objectname)%09%(refname)%09%(symref)";
    let list = repo
        .git()
        .args(["for-each-ref", format])
        .args(SHOWN)
        .run()?;
    let text = list.text();
    let theirs = repo.their_refs();
    let mut news = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields[..] {
            [_, name, target] if !target.is_empty() => theirs.create_symbolic(name, target)?,
            [id, name, _] => {
                let id = oid(id)?;
                if theirs.resolve(name)?.as_ref() != Some(&id) {
                    news.push((name.to_owned(), id));
                }
            }
            _ => {}
        }
    }
    if news.is_empty() || theirs.pack(&news)? {
        return Ok(());
    }
    // git is at it: one by one does as well.
    news.iter()
        .try_for_each(|(name, id)| theirs.create(name, id))
}
