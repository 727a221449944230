//! Tests of access below a directory that agents can write to.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

fn pipe(path: &Path) {
    nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
}

#[test]
fn only_regular_files_beneath_the_directory_are_read() {
    let dir = crate::testing::scratch();
    let root = dir.path().join("root");
    fs::create_dir_all(root.join("sub")).unwrap();
    fs::write(dir.path().join("secret"), "no").unwrap();
    fs::write(root.join("sub/plain"), "yes").unwrap();
    symlink(dir.path().join("secret"), root.join("link")).unwrap();
    symlink(dir.path(), root.join("out")).unwrap();
    pipe(&root.join("pipe"));
    let read = |name: &str| read(&root, Path::new(name), 3);
    assert_eq!(read("sub/plain").unwrap().as_deref(), Some(&b"yes"[..]));
    assert_eq!(read("absent").unwrap(), None);
    assert_eq!(read("sub/plain/below").unwrap(), None);
    for name in ["link", "out/secret", "../secret", "pipe", "sub"] {
        assert!(is_odd(&read(name).unwrap_err()), "{name}");
    }
    fs::write(root.join("large"), "four").unwrap();
    assert!(is_odd(&read("large").unwrap_err()));
}

#[test]
fn no_write_goes_through_a_replaced_file() {
    let dir = crate::testing::scratch();
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    let secret = dir.path().join("secret");
    fs::write(&secret, "keep").unwrap();
    symlink(&secret, root.join("a")).unwrap();
    symlink(&secret, root.join("a.new")).unwrap();
    fs::hard_link(&secret, root.join("b")).unwrap();
    fs::hard_link(&secret, root.join("b.new")).unwrap();
    pipe(&root.join("c"));
    pipe(&root.join("c.new"));
    symlink(dir.path(), root.join("out")).unwrap();
    for name in ["a", "b", "c", "new"].map(Path::new) {
        replace(&root, name, b"one").unwrap();
        replace_durably(&root, name, b"two").unwrap();
        assert_eq!(read(&root, name, 9).unwrap().unwrap(), b"two");
    }
    for name in ["la", "lb", "lc", "ld"].map(|name| root.join(name)) {
        match name.file_name().unwrap().as_encoded_bytes() {
            b"la" => symlink(&secret, &name).unwrap(),
            b"lb" => fs::hard_link(&secret, &name).unwrap(),
            b"lc" => pipe(&name),
            _ => {}
        }
        let name = Path::new(name.file_name().unwrap());
        append(&root, name).unwrap().write_all(b"one").unwrap();
        append(&root, name).unwrap().write_all(b"two").unwrap();
        assert_eq!(read(&root, name, 9).unwrap().unwrap(), b"onetwo");
    }
    for outside in ["out/new", "../new"].map(Path::new) {
        assert!(replace(&root, outside, b"x").is_err());
        assert!(append(&root, outside).is_err());
        assert!(make_dirs(&root, outside).is_err());
    }
    make_dirs(&root, Path::new("deep/deeper")).unwrap();
    make_dirs(&root, Path::new("deep/deeper")).unwrap();
    assert!(root.join("deep/deeper").is_dir());
    assert!(make_dirs(&root, Path::new("a")).is_err(), "a file is there");
    assert_eq!(fs::read(&secret).unwrap(), b"keep");
    assert!(!dir.path().join("new").exists());
}

/// An agent may lease any of its files. Without waiting, each look at it fails.
#[test]
fn file_with_a_lease_is_read_when_the_lease_has_ended() {
    use nix::libc;
    let dir = crate::testing::scratch_on_disk();
    fs::write(dir.path().join("leased"), "text").unwrap();
    let path = dir.path().join("leased");
    let holder = File::options().read(true).write(true).open(path).unwrap();
    let lease = |command: i32, how: i32| {
        // SAFETY: the call changes the lease of an open file, and touches no memory.
        unsafe { libc::fcntl(holder.as_raw_fd(), command, how) }
    };
    // A signal without an effect: the default one would end this program.
    // `F_SETSIG` of `fcntl.h`.
    assert_eq!(lease(10, libc::SIGWINCH), 0);
    assert_eq!(lease(libc::F_SETLEASE, libc::F_WRLCK), 0);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(dir.path(), Path::new("leased"), 10));
        crate::testing::eventually("the reader asks for the file", || {
            (lease(libc::F_GETLEASE, 0) != libc::F_WRLCK).then_some(())
        });
        assert!(!reader.is_finished(), "it waits");
        assert_eq!(lease(libc::F_SETLEASE, libc::F_UNLCK), 0);
        let text = reader.join().unwrap().unwrap();
        assert_eq!(text.as_deref(), Some(&b"text"[..]));
    });
}
