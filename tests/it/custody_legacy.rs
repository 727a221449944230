//! Salvage of the first plan, which has trees of git instead of a list of files: a city with such salvage is taken
//! over, and the salvage is restored as it was.

use std::fs;
use std::path::{Path, PathBuf};

use horde_supervisor::domain::ids::Oid;
use horde_supervisor::domain::saved_work::SavedWork;
use horde_supervisor::ports::repo::{Repo, SalvageRecord};
use serde_json::json;

use crate::support::city::{City, repo};
use crate::support::git::{commit_all, git, rev, write};

const PREFIX: &str = "refs/horde/salvage/horde/Toast/1";

/// Brings the files of a directory into ours, as a commit under a name of the salvage.
fn keep(city: &City, dir: &Path, name: &str) -> String {
    git(dir, &["init", "-q", "-b", "main"]);
    git(dir, &["add", "-A", "-f"]);
    git(dir, &["commit", "-q", "-m", name]);
    let full = format!("{PREFIX}/{name}");
    let to = format!("HEAD:{full}");
    let from = dir.display().to_string();
    git(city.repo.repo_dir(), &["fetch", "-q", &from, &to]);
    full
}

/// Makes a submodule that is checked out in `inner`. Returns its HEAD, and a copy of its git directory.
fn submodule(city: &City) -> (String, PathBuf) {
    let inner = city.root().join("inner");
    fs::create_dir(&inner).unwrap();
    git(&inner, &["init", "-q", "-b", "main"]);
    write(&inner, "code", "1\n");
    let head = commit_all(&inner, "inner");
    // A submodule in it that is not checked out.
    let link = format!("160000,{head},deep");
    git(&inner, &["update-index", "--add", "--cacheinfo", &link]);
    let copied = city.root().join("nested-0");
    fs::rename(inner.join(".git"), &copied).unwrap();
    fs::remove_dir_all(copied.join("hooks")).unwrap();
    (head, copied)
}

/// The salvage: a file edited, one deleted, one staged, a submodule, and a merge that was begun.
fn salvage(city: &City, head: &str) -> (SalvageRecord, String) {
    let ours = city.repo.repo_dir();
    let (inner, copied) = submodule(city);
    let nested = keep(city, &copied, "nested-0");
    let meta = city.root().join("meta");
    for (name, text) in [
        ("README", "mine\n"),
        ("code", "1\n"),
        ("staged", "staged\n"),
    ] {
        write(&meta, &format!("blobs/{name}"), text);
    }
    git(&city.root(), &["init", "-q", "meta"]);
    let blob = |name: &str| git(&meta, &["hash-object", "-w", &format!("blobs/{name}")]);
    let listed = git(ours, &["ls-tree", "-r", "-z", head]);
    let of_head = listed.split_terminator('\0').map(|line| {
        let (about, path) = line.split_once('\t').unwrap();
        let fields: Vec<_> = about.split(' ').collect();
        format!("{} {} 0\t{path}\0", fields[0], fields[2])
    });
    let mut index: Vec<String> = of_head.collect();
    index.push(format!("160000 {inner} 0\tinner\0"));
    index.push(format!("100644 {} 0\tstaged\0", blob("staged")));
    index.sort_by_key(|line| line.split_once('\t').unwrap().1.to_owned());
    let raw = [("README", "README"), ("code", "inner/code")];
    let raw = raw.map(|(name, path)| format!("100644 {} 0\t{path}\0", blob(name)));
    let manifest = json!({
        "version": 1, "raider": "horde/raiders/Toast", "incarnation": 1, "sandbox": "/gone", "head": head,
        "branch": null, "fingerprint": "x", "stashes": [], "special": [], "ignored": [],
    });
    for (name, text) in [
        ("manifest.json", manifest.to_string()),
        ("index", index.concat()),
        ("raw", raw.concat()),
        ("absent", "run.sh\0".to_owned()),
        ("intent", String::new()),
        ("skip", "src/a.txt\0".to_owned()),
        ("assume", String::new()),
        ("nested", "inner\0a:modules/inner\0".to_owned()),
        ("state/MERGE_HEAD", format!("{head}\n")),
    ] {
        write(&meta, name, text);
    }
    let meta = keep(city, &meta, "meta");
    let own = format!("{PREFIX}/head");
    git(ours, &["update-ref", &own, head]);
    let record = SalvageRecord {
        id: "horde-Toast-1".to_owned(),
        refs: vec![own, meta, nested],
        bytes: 0,
        ignored: Vec::new(),
        fingerprint: None,
        work: SavedWork::default(),
    };
    (record, inner)
}

/// git, asked for a file of settings, also read the repository around it, which agents configure.
#[test]
fn salvage_of_the_first_plan_is_taken_over_and_comes_back() {
    let city = City::new();
    let head = rev(city.repo.repo_dir(), "refs/remotes/origin/main");
    let (record, inner) = salvage(&city, &head);
    city.join();
    let theirs = city.repo.theirs();
    let next = repo(&city.root(), city.repo.source().clone(), true);
    next.prepare().unwrap();
    assert_eq!(next.tips(&record.refs).unwrap().len(), record.refs.len());
    let config = fs::read(theirs.join("config")).unwrap();
    fs::write(theirs.join("config"), "[core\nhalf a line").unwrap();
    let to = city.root().join("restored");
    next.restore(&record, &to).unwrap();
    fs::write(theirs.join("config"), config).unwrap();
    let text = |name: &str| fs::read_to_string(to.join(name)).unwrap();
    assert_eq!(
        (text("README"), text("src/b.txt")),
        ("mine\n".into(), "b1\nb2\nb3\n".into())
    );
    assert_eq!(
        (text("inner/code"), text("staged")),
        ("1\n".into(), "staged\n".into())
    );
    assert!(!to.join("run.sh").exists() && to.join("inner/deep").is_dir());
    assert_eq!(rev(&to, "HEAD"), head);
    assert_eq!(rev(&to, "MERGE_HEAD"), head);
    assert_eq!(Oid::new(rev(&to.join("inner"), "HEAD")), Oid::new(inner));
    let inside = git(&to.join("inner"), &["status", "--short", "code"]);
    assert_eq!(inside, "");
    let status = git(&to, &["status", "--short", "README", "run.sh", "staged"]);
    assert_eq!(status, " M README\n D run.sh\nA  staged");
    let flags = git(&to, &["ls-files", "-t", "src/a.txt"]);
    assert_eq!(flags, "S src/a.txt");
}
