//! Objects in the repository that agents write to: packs and lists with false contents, and files that git would wait
//! for forever.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use horde_supervisor::domain::ids::{Incarnation, Oid};
use horde_supervisor::domain::nuke::only_left_behind;
use horde_supervisor::ports::repo::Repo;
use horde_supervisor::testing::tier::takes;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::custody_salvage::roundtrip;
use crate::support::city::{City, permit, snapshot, toast};
use crate::support::git::{commit_all, git, rev, try_git, write};

/// Adds a pack to an object directory that gives an object's name the content of another.
fn forge(objects: &Path, name: &str, content: &str) {
    let base = objects.join("pack/pack");
    let repo = objects.parent().unwrap();
    let pack = "pack-objects -q --window=0 objects/pack/pack <list";
    fs::write(repo.join("list"), format!("{content}\n")).unwrap();
    git(repo, &["-c", &format!("alias.x=!git {pack}"), "x"]);
    let is_index = |path: &PathBuf| path.extension() == Some("idx".as_ref());
    let mut packs = fs::read_dir(objects.join("pack")).unwrap();
    let index = packs.find_map(|entry| Some(entry.unwrap().path()).filter(is_index));
    let index = index.unwrap_or_else(|| panic!("no pack at {}", base.display()));
    let mut bytes = fs::read(&index).unwrap();
    let id: Vec<u8> = (0..20)
        .map(|n| u8::from_str_radix(&name[2 * n..2 * n + 2], 16).unwrap())
        .collect();
    for first in 0..256 {
        let count = u32::from(first >= usize::from(id[0]));
        bytes[8 + 4 * first..][..4].copy_from_slice(&count.to_be_bytes());
    }
    bytes[8 + 1024..][..20].copy_from_slice(&id);
    fs::remove_file(&index).unwrap();
    fs::write(&index, bytes).unwrap();
}

/// Changed line ends once passed for a conversion of git's, by attributes that were never committed.
#[test]
fn blobs_of_the_commit_are_not_read_from_a_forged_pack() {
    let city = City::with(|checkout| write(checkout, ".gitattributes", "*.bin binary\n"));
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    let ours = city.repo.repo_dir();
    // git reads a pack before a loose object, and a short fetch brings loose ones.
    let packs = ours.join("objects/pack");
    for entry in fs::read_dir(&packs).unwrap() {
        let pack = entry.unwrap().path();
        if pack.extension() == Some("pack".as_ref()) {
            let aside = city.root().join("aside.pack");
            fs::rename(&pack, &aside).unwrap();
            fs::remove_file(pack.with_extension("idx")).unwrap();
            let unpack = format!("alias.x=!git unpack-objects -q <{}", aside.display());
            git(ours, &["-c", &unpack, "x"]);
        }
    }
    write(&sandbox, "README", "hello\r\n");
    assert_eq!(city.facts(&sandbox).dirty, ["README"]);
    write(&sandbox, "evil", "* text\n");
    let evil = git(&sandbox, &["hash-object", "-w", "evil"]);
    fs::remove_file(sandbox.join("evil")).unwrap();
    let theirs = city.repo.theirs().join("objects");
    forge(
        &theirs,
        &rev(ours, "origin/main:.gitattributes"),
        evil.trim(),
    );
    let forged = git(&sandbox, &["show", "HEAD:.gitattributes"]);
    assert_eq!(forged, "* text", "it is forged");
    assert_eq!(city.facts(&sandbox).dirty, ["README"]);
}

/// The commit itself had got into ours, and counted as complete when it was fetched again. Then its sandbox could
/// neither be judged nor saved.
#[test]
fn damaged_head_is_not_copied_into_ours_and_its_sandbox_is_saved() {
    let kinds = [
        ("HEAD:README", "swapped"),
        ("HEAD:README", "empty"),
        ("HEAD:README", "missing"),
        ("HEAD^{tree}", "empty"),
        ("HEAD^{tree}", "missing"),
        ("HEAD", "empty"),
        ("HEAD", "missing"),
    ];
    for (place, (what, how)) in kinds.into_iter().enumerate() {
        if takes(place, 3) {
            saved_without_a_head(what, how);
        }
    }
}

/// Makes a sandbox with changes whose last commit is damaged. Returns that commit and the one before it, too.
fn damaged(what: &str, how: &str) -> (City, PathBuf, String, String) {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "src/a.txt", "kept\n");
    let kept = commit_all(&sandbox, "kept");
    write(&sandbox, "README", "good text\n");
    let head = commit_all(&sandbox, "good");
    write(&sandbox, "new", "new\n");
    // With the file as it was committed, salvage makes the commit whole again.
    if how != "swapped" {
        write(&sandbox, "README", "edited\n");
    }
    write(&sandbox, "bad", "bad\n");
    let bad = git(&sandbox, &["hash-object", "-w", "bad"]);
    fs::remove_file(sandbox.join("bad")).unwrap();
    let file = |id: &str| {
        let objects = city.repo.theirs().join("objects");
        objects.join(&id[..2]).join(&id[2..])
    };
    let place = file(&rev(&sandbox, what));
    fs::remove_file(&place).unwrap();
    match how {
        "swapped" => drop(fs::copy(file(bad.trim()), &place).unwrap()),
        "empty" => fs::write(&place, "").unwrap(),
        _ => {}
    }
    (city, sandbox, head, kept)
}

fn saved_without_a_head(what: &str, how: &str) {
    let (city, sandbox, head, kept) = damaged(what, how);
    let heals = how == "swapped";
    let wanted = Oid::new(head.as_str()).unwrap();
    for _ in 0..2 {
        let branch = city.spec(1).branch;
        city.repo.push_branch(&branch, &wanted, None).unwrap_err();
        let there = try_git(city.repo.repo_dir(), &["cat-file", "-e", &head]);
        assert!(!there.status.success());
    }
    // Another raider's sandbox is not affected.
    let other = city.spec_of("Nux", 2);
    city.repo.make_sandbox(&other).unwrap();
    assert!(city.facts(&other.path).is_clean(), "{what} {how}");
    let facts = city.facts(&sandbox);
    assert!(!facts.is_clean() && !facts.is_committed(), "{facts:?}");
    let says = facts.other_work[0].starts_with("its HEAD names ");
    assert!(says, "{what} {how}: {facts:?}");
    let changed = [&facts.dirty[..], &facts.untracked].concat();
    assert_eq!(changed, ["README", "src/a.txt", "new"], "{what} {how}");
    let record = city.salvage(&sandbox);
    let after = city.facts(&sandbox);
    match heals {
        true => assert_eq!(after.head.as_str(), head),
        false => assert_eq!(after, facts, "{what} {how}"),
    }
    let to = city.restored(&record);
    assert_eq!(snapshot(&to), snapshot(&sandbox), "{what} {how}");
    // The commit before it is whole, and is kept.
    let ours = city.repo.repo_dir();
    let holds = git(ours, &["for-each-ref", "--contains", &kept]);
    assert!(
        holds.contains("refs/horde/salvage/"),
        "{what} {how}: {holds}"
    );
    let permit = permit(&city.spec(1), &after);
    city.discard(&permit);
    if heals {
        return;
    }
    // Its branch stays, in case the object can be mended.
    let branch = city
        .repo
        .theirs()
        .join("refs/heads")
        .join(city.spec(1).branch);
    assert_eq!(fs::read_to_string(branch).unwrap().trim(), head);
}

/// The commit on top is whole, so HEAD is; its parent cannot be taken into ours.
#[test]
fn sound_commit_on_a_damaged_one_is_saved_and_stops_no_other_raider() {
    let kinds = [
        ("HEAD:README", "missing"),
        ("HEAD^{tree}", "missing"),
        ("HEAD", "missing"),
        ("HEAD", "empty"),
    ];
    for (place, (what, how)) in kinds.into_iter().enumerate() {
        if !takes(place, 2) {
            continue;
        }
        let (city, sandbox, below, _) = damaged(what, how);
        write(&sandbox, "README", "edited\n");
        git(&sandbox, &["add", "README", "new"]);
        let tree = git(&sandbox, &["write-tree", "--missing-ok"]);
        let text = format!(
            "tree {tree}\nparent {below}\nauthor A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\n\nsound\n"
        );
        write(&city.root(), "commit", text);
        let file = city.root().join("commit").display().to_string();
        let made = ["hash-object", "-t", "commit", "-w", "--literally", &file];
        let head = git(&sandbox, &made);
        let branch = city
            .repo
            .theirs()
            .join("refs/heads")
            .join(city.spec(1).branch);
        fs::write(branch, format!("{head}\n")).unwrap();
        write(&sandbox, "later", "later\n");
        let wanted = Oid::new(head.as_str()).unwrap();
        city.repo
            .push_branch(&city.spec(1).branch, &wanted, None)
            .unwrap_err();
        crate::custody_theirs::whole_life(&city, "Nux");
        let facts = city.facts(&sandbox);
        assert!(!facts.is_clean() && !facts.is_committed(), "{facts:?}");
        let says = format!("its HEAD names {}, which is damaged", &head[..10]);
        assert_eq!(facts.other_work[0], says, "{what} {how}");
        let record = city.repo.salvage(&sandbox, &toast(), Incarnation(1));
        let to = city.root().join("back");
        city.repo.restore(&record.unwrap(), &to).unwrap();
        assert_eq!(snapshot(&to), snapshot(&sandbox), "{what} {how}");
        let permit = permit(&city.spec(1), &city.facts(&sandbox));
        city.discard(&permit);
    }
}

/// An agent moves the rig's objects away, and leaves a link. git would follow the link, and might read or write
/// anything there.
#[test]
fn link_in_the_place_of_all_objects_holds_back_only_raiders_with_work_there() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "mine\n");
    commit_all(&sandbox, "mine");
    let objects = city.repo.theirs().join("objects");
    let elsewhere = city.root().join("elsewhere");
    fs::rename(&objects, &elsewhere).unwrap();
    symlink(&elsewhere, &objects).unwrap();
    crate::custody_theirs::whole_life(&city, "Nux");
    let facts = city.facts(&sandbox);
    assert!(facts.other_work[0].contains("HEAD names"), "{facts:?}");
    let record = city.repo.salvage(&sandbox, &toast(), Incarnation(1));
    let to = city.root().join("back");
    city.repo.restore(&record.unwrap(), &to).unwrap();
    assert_eq!(snapshot(&to), snapshot(&sandbox));
    // Nothing was written through the link; once the objects are put back, everything is there.
    assert!(objects.is_dir() && !objects.is_symlink());
    assert!(objects.with_extension("aside").is_symlink());
    fs::remove_dir_all(&objects).unwrap();
    fs::rename(&elsewhere, &objects).unwrap();
    let facts = city.facts(&sandbox);
    assert!(facts.other_work.is_empty() && facts.ahead == 1, "{facts:?}");
}

/// git waits for a pipe with the name of a pack: every sandbox of the rig waited with it, and later none could be
/// judged, saved or pushed until a person had removed the pipe.
#[test]
fn pipe_among_the_objects_is_set_aside_and_not_waited_for() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "mine\n");
    let head = Oid::new(commit_all(&sandbox, "mine")).unwrap();
    let branch = city.spec(1).branch;
    let objects = city.repo.theirs().join("objects");
    let elsewhere = city.root().join("elsewhere");
    fs::create_dir_all(elsewhere.join("pack")).unwrap();
    mkfifo(&elsewhere.join("pack/pack-2.idx"), Mode::S_IRWXU).unwrap();
    let list = format!("{}\n", elsewhere.display());
    // A name without objects.
    let free = (0..256).map(|n| format!("{n:02x}"));
    let free = free.into_iter().find(|name| !objects.join(name).exists());
    let free = free.unwrap();
    let (pipe, link, leads) = ("pipe", "link", "leads");
    let mut pushed = None;
    for (name, kind, aside) in [
        ("pack/pack-1.idx", pipe, ".aside"),
        ("pack/pack-1.idx", link, ".aside.2"),
        ("pack/pack-1.idx", "directory", ".aside.3"),
        ("info/alternates", pipe, ".aside"),
        ("info/alternates", leads, ".aside.2"),
        ("zz", link, ""),
        (&free, link, ".aside"),
    ] {
        let place = objects.join(name);
        let _file = fs::remove_file(&place);
        let _dir = fs::remove_dir_all(&place);
        match kind {
            "pipe" => mkfifo(&place, Mode::S_IRWXU).unwrap(),
            "link" => symlink(&elsewhere, &place).unwrap(),
            "leads" => fs::write(&place, &list).unwrap(),
            _ => fs::create_dir(&place).unwrap(),
        }
        fs::write(objects.join("pack/pack-1.pack"), "").unwrap();
        let facts = city.facts(&sandbox);
        assert_eq!(facts.head, head, "{kind} {name}");
        city.repo
            .push_branch(&branch, &head, pushed.as_ref())
            .unwrap();
        pushed = Some(head.clone());
        city.salvage(&sandbox);
        let aside = match aside {
            "" => place,
            nth => city
                .repo
                .theirs()
                .join(format!("objects-{}{nth}", name.replace('/', "-"))),
        };
        assert!(fs::symlink_metadata(&aside).is_ok(), "{kind} {name}");
        git(&sandbox, &["log", "-1"]);
    }
    // As in the object directory itself, nothing is renamed beside the pack.
    assert!(elsewhere.join("pack/pack-2.idx").exists());
}

/// Makes a clone that ignore rules hide, with a commit of its own.
fn hidden_clone() -> (City, PathBuf, PathBuf) {
    let city = City::with(|checkout| write(checkout, ".gitignore", "vendor/\n"));
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    let origin = format!("file://{}", city.repo.push_url().unwrap());
    git(&sandbox, &["clone", "-q", &origin, "vendor/library"]);
    let clone = sandbox.join("vendor/library");
    write(&clone, "work", "mine\n");
    commit_all(&clone, "only here");
    (city, sandbox, clone)
}

/// Gives a commit another parent in the commit graph of a repository.
fn forge_parent(repo: &Path, commit: &str, parent: &str) {
    git(repo, &["commit-graph", "write", "--reachable"]);
    let file = repo.join(".git/objects/info/commit-graph");
    let mut bytes = fs::read(&file).unwrap();
    let chunk = |name: &[u8]| {
        let at = bytes.windows(4).position(|found| found == name).unwrap();
        let offset: [u8; 8] = bytes[at + 4..at + 12].try_into().unwrap();
        usize::try_from(u64::from_be_bytes(offset)).unwrap()
    };
    let (names, data) = (chunk(b"OIDL"), chunk(b"CDAT"));
    let place = |id: &str| {
        let listed = (0..(data - names) / 20).find(|n| {
            let name = &bytes[names + 20 * n..][..20];
            name.iter().map(|byte| format!("{byte:02x}")).eq(id
                .as_bytes()
                .chunks(2)
                .map(|pair| String::from_utf8_lossy(pair).into_owned()))
        });
        listed.unwrap()
    };
    let (row, parent) = (data + 36 * place(commit), place(parent) as u32);
    bytes[row + 20..][..4].copy_from_slice(&parent.to_be_bytes());
    fs::remove_file(&file).unwrap();
    fs::write(&file, bytes).unwrap();
}

/// By such a list the remote's branch came after a commit that it never had.
#[test]
fn commit_graph_of_a_hidden_clone_hides_no_commit() {
    let (city, sandbox, clone) = hidden_clone();
    let held = ["ignored repository vendor/library: unpushed commits: 1"];
    assert_eq!(city.facts(&sandbox).other_work, held);
    let (mine, remote) = (rev(&clone, "HEAD"), rev(&clone, "origin/main"));
    forge_parent(&clone, &remote, &mine);
    let count = ["rev-list", "--count", "HEAD", "--not", "--remotes"];
    assert_eq!(git(&clone, &count), "0", "it is forged");
    assert_eq!(city.facts(&sandbox).other_work, held);
}

/// `git update-ref refs/remotes/origin/main HEAD` in a clone, or its own HEAD in its list of ends: each made a removal
/// save nothing.
#[test]
fn false_remotes_of_a_hidden_clone_hide_no_commit() {
    let forge: [fn(&Path); 4] = [
        |clone| {
            drop(git(
                clone,
                &["update-ref", "refs/remotes/origin/main", "HEAD"],
            ))
        },
        |clone| write(clone, ".git/shallow", format!("{}\n", rev(clone, "HEAD"))),
        |clone| {
            git(clone, &["update-ref", "refs/remotes/origin/main", "HEAD"]);
            fs::remove_dir_all(clone.join(".git/logs")).unwrap();
        },
        // Its commits are not in the reflog of HEAD.
        |clone| {
            let tree = rev(clone, "HEAD^{tree}");
            git(clone, &["reset", "-q", "--hard", "origin/main"]);
            fs::remove_dir_all(clone.join(".git/logs")).unwrap();
            let made = git(clone, &["commit-tree", "-m", "made", "-p", "HEAD", &tree]);
            git(clone, &["reset", "-q", "--hard", made.trim()]);
            git(clone, &["update-ref", "refs/remotes/origin/main", "HEAD"]);
        },
    ];
    for (nth, forge) in forge.iter().enumerate().filter(|(nth, _)| takes(*nth, 2)) {
        let (city, sandbox, clone) = hidden_clone();
        forge(&clone);
        let mine = rev(&clone, "HEAD");
        let facts = city.facts(&sandbox);
        let line =
            "ignored repository vendor/library: commits that only its own refs list as pushed: 1";
        assert_eq!(facts.other_work, [line], "{nth}");
        assert!(only_left_behind(&facts), "{facts:?}");
        let (record, to) = roundtrip(&city, &sandbox, "a");
        assert!(record.bytes > 0, "{record:?}");
        let again = to.join("vendor/library");
        assert_eq!(rev(&again, "HEAD"), mine);
        assert_eq!(git(&again, &["show", "HEAD:work"]), "mine");
    }
}

/// The fetched contents of a clone are no work, whatever its branches are called.
#[test]
fn clone_in_which_nothing_was_made_is_no_work() {
    let city = City::with(|checkout| write(checkout, ".gitignore", "vendor/\n"));
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    let library = city.root().join("library");
    fs::create_dir(&library).unwrap();
    git(&library, &["init", "-q", "-b", "main"]);
    for text in ["1", "2"] {
        write(&library, "code", text);
        commit_all(&library, text);
        git(&library, &["tag", &format!("v{text}")]);
    }
    let url = format!("file://{}", library.display());
    let vendor = sandbox.join("vendor");
    fs::create_dir(&vendor).unwrap();
    git(&vendor, &["clone", "-q", "--depth", "1", &url, "shallow"]);
    git(
        &vendor,
        &["clone", "-q", "--depth", "1", "-b", "v1", &url, "tag"],
    );
    git(&vendor, &["clone", "-q", &url, "whole"]);
    write(&library, "code", "3");
    commit_all(&library, "3");
    let whole = vendor.join("whole");
    git(&whole, &["fetch", "-q"]);
    git(&whole, &["checkout", "-q", "-b", "other", "v1"]);
    git(&whole, &["branch", "-m", "other", "third"]);
    git(&whole, &["reset", "-q", "--hard", "origin/main"]);
    let facts = city.facts(&sandbox);
    assert!(facts.is_clean(), "{facts:?}");
}

/// The clone has objects that only its source repository had.
#[test]
fn clone_of_a_repository_that_is_gone_is_work() {
    let city = City::with(|checkout| write(checkout, ".gitignore", "vendor/\n"));
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    let local = |name: &str| {
        let made = city.root().join(name);
        fs::create_dir(&made).unwrap();
        git(&made, &["init", "-q", "-b", "main"]);
        write(&made, "work", "mine\n");
        commit_all(&made, "only here");
        made
    };
    for (place, form) in ["{}", "file://{}"].into_iter().enumerate() {
        let made = local(&format!("made-{place}"));
        let url = form.replace("{}", &made.display().to_string());
        let to = format!("vendor/copy-{place}");
        git(&sandbox, &["clone", "-q", &url, &to]);
        assert_eq!(city.facts(&sandbox).other_work, [""; 0], "{url}");
        fs::remove_dir_all(&made).unwrap();
        let facts = city.facts(&sandbox);
        let line =
            format!("ignored repository {to}: commits that only its own refs list as pushed: 1");
        assert_eq!(facts.other_work, [line]);
        assert!(only_left_behind(&facts), "{facts:?}");
        let (_, back) = roundtrip(&city, &sandbox, "a");
        assert_eq!(git(&back.join(&to), &["show", "HEAD:work"]), "mine");
        fs::remove_dir_all(back.parent().unwrap()).unwrap();
        fs::remove_dir_all(sandbox.join(&to)).unwrap();
    }
    // A repository that goes with the sandbox is no safe place.
    let inside = local("made");
    fs::rename(&inside, sandbox.join("vendor/made")).unwrap();
    let vendor = sandbox.join("vendor");
    git(&vendor, &["clone", "-q", "made", "copy"]);
    let facts = city.facts(&sandbox);
    assert_eq!(facts.other_work.len(), 2, "{facts:?}");
}

#[test]
fn pipe_among_the_objects_of_a_hidden_clone_is_not_waited_for() {
    let (city, sandbox, clone) = hidden_clone();
    write(&clone, ".git/objects/pack/pack-1.pack", "");
    mkfifo(&clone.join(".git/objects/pack/pack-1.idx"), Mode::S_IRWXU).unwrap();
    let special = city.facts(&sandbox).other_work;
    assert!(
        special[0].contains("pack-1.idx is not a regular file"),
        "{special:?}"
    );
}
