//! Tests of refs in files: read, packed, deleted.

use super::*;

fn id(digit: char) -> Oid {
    Oid::new(digit.to_string().repeat(40)).unwrap()
}

fn repository(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = crate::testing::scratch();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

fn of<'r>(dir: &'r tempfile::TempDir, logged: &'r LoggedRefs) -> Theirs<'r> {
    let dir = dir.path();
    Theirs { dir, logged }
}

#[test]
fn loose_refs_hide_packed_ones_and_symbolic_ones_are_followed() {
    let packed = format!(
        "# pack-refs with: peeled fully-peeled sorted \n{} refs/heads/a\n{} refs/heads/b\n^{}\n",
        id('1'),
        id('2'),
        id('3')
    );
    let dir = repository(&[
        ("packed-refs", &packed),
        ("refs/heads/a", &format!("{}\n", id('4'))),
        ("refs/heads/s", "ref: refs/heads/b\n"),
        ("refs/heads/loop", "ref: refs/heads/loop\n"),
        ("refs/heads/raider/A/x", "ref: refs/heads/b\n"),
        ("refs/heads/led", "ref: refs/heads/raider/A/x\n"),
    ]);
    let said = LoggedRefs::default();
    let refs = of(&dir, &said);
    let at = |name: &str| refs.resolve(&format!("refs/heads/{name}")).unwrap();
    assert_eq!(at("a"), Some(id('4')));
    assert_eq!(at("b"), Some(id('2')));
    assert_eq!(at("s"), Some(id('2')));
    assert_eq!((at("loop"), at("absent")), (None, None));
    assert_eq!(refs.resolve("refs/../packed-refs").unwrap(), None);
    for name in ["refs/heads/raider/A/x", "refs/heads/led"] {
        let refused = refs.resolve(name).unwrap_err();
        assert!(refused.to_string().contains("symbolic"), "{refused}");
    }
    let names: Vec<_> = refs.list("refs/heads/").unwrap().into_keys().collect();
    assert_eq!(names, ["refs/heads/a", "refs/heads/b", "refs/heads/s"]);
}

#[test]
fn ref_is_deleted_loose_and_packed_if_it_is_where_it_was() {
    let packed = format!(
        "{} refs/heads/a\n^{}\n{} refs/heads/b\n",
        id('1'),
        id('3'),
        id('2')
    );
    let dir = repository(&[
        ("packed-refs", &packed),
        ("refs/heads/a", &format!("{}\n", id('4'))),
    ]);
    let said = LoggedRefs::default();
    let refs = of(&dir, &said);
    assert!(!refs.delete("refs/heads/a", &id('1')).unwrap());
    let lock = dir.path().join("packed-refs.lock");
    fs::write(&lock, "").unwrap();
    assert!(
        !refs.delete("refs/heads/a", &id('4')).unwrap(),
        "git holds the lock"
    );
    fs::remove_file(&lock).unwrap();
    assert!(refs.delete("refs/heads/a", &id('4')).unwrap());
    assert_eq!(refs.resolve("refs/heads/a").unwrap(), None);
    let left = fs::read_to_string(dir.path().join("packed-refs")).unwrap();
    assert_eq!(left, format!("{} refs/heads/b\n", id('2')));
    assert!(refs.delete("refs/heads/b", &id('2')).unwrap());
    refs.create("refs/heads/new/one", &id('5')).unwrap();
    assert_eq!(refs.resolve("refs/heads/new/one").unwrap(), Some(id('5')));
}

#[test]
fn packing_keeps_unreadable_refs_and_empty_directories_block_no_ref() {
    let dir = repository(&[]);
    let strange = format!("{} refs/heads/\u{e9}\n", id('1')).into_bytes();
    let strange: Vec<u8> = strange.into_iter().filter(|byte| *byte != 0xa9).collect();
    let tag = format!("{} refs/tags/v\n^{}\n", id('2'), id('3'));
    let head = b"# pack-refs with: peeled fully-peeled sorted \n";
    let before = [&head[..], &strange[..], tag.as_bytes()].concat();
    fs::write(dir.path().join("packed-refs"), before).unwrap();
    let said = LoggedRefs::default();
    let refs = of(&dir, &said);
    let main = "refs/remotes/origin/main";
    fs::create_dir_all(dir.path().join(main).join("a/b")).unwrap();
    assert!(refs.pack(&[(main.to_owned(), id('4'))]).unwrap());
    let packed = fs::read(dir.path().join("packed-refs")).unwrap();
    let new = format!("{} {main}\n", id('4'));
    assert_eq!(
        packed,
        [&strange[..], tag.as_bytes(), new.as_bytes()].concat()
    );
    assert_eq!(refs.resolve(main).unwrap(), Some(id('4')));
    refs.create(main, &id('5')).unwrap();
    assert_eq!(refs.resolve(main).unwrap(), Some(id('5')));
}

/// Each of these once made the facts of every sandbox fail, or counted as the packed value of its name.
#[test]
fn ref_that_cannot_be_read_is_left_out_and_said_once() {
    let packed = ["linked", "emptied"].map(|name| format!("{} refs/heads/{name}\n", id('1')));
    let dir = repository(&[
        ("packed-refs", &packed.concat()),
        ("refs/heads/emptied", ""),
        ("refs/heads/garbled", "garbage"),
        ("refs/heads/good", &format!("{}\n", id('2'))),
        ("refs/heads/led", "ref: refs/heads/linked\n"),
    ]);
    let at = |name: &str| dir.path().join("refs/heads").join(name);
    std::os::unix::fs::symlink("good", at("linked")).unwrap();
    nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let said = LoggedRefs::default();
    let refs = of(&dir, &said);
    for _ in 0..2 {
        let names: Vec<_> = refs.list("refs/heads/").unwrap().into_keys().collect();
        assert_eq!(names, ["refs/heads/good"]);
    }
    let unread: Vec<_> = said.lock().unwrap().iter().cloned().collect();
    assert_eq!(
        unread,
        ["emptied", "garbled", "led", "linked", "pipe"].map(|name| format!("refs/heads/{name}"))
    );
    for name in unread {
        refs.resolve(&name).unwrap_err();
    }
}
