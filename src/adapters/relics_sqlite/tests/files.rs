//! Tests of the file itself: its mode, its state after a crash, refusals of `open`.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;
use crate::adapters::relics_sqlite::mark::Expectation;
use crate::ports::relics::RelicFilter;

fn open(path: &Path) -> Result<SqliteRelics, StoreError> {
    SqliteRelics::open(path, Arc::new(SystemClock::new()))
}

fn refused(path: &Path) -> String {
    match open(path) {
        Err(StoreError::Failed(why)) => why,
        Err(other) => panic!("expected a failure, got {other:?}"),
        Ok(_) => panic!("it was opened"),
    }
}

fn titles(store: &mut SqliteRelics) -> Vec<String> {
    let relics = run(store, |txn| txn.relics(&RelicFilter::default())).unwrap();
    relics.into_iter().map(|relic| relic.title).collect()
}

#[test]
fn store_is_readable_by_its_owner_only() {
    let dir = crate::testing::scratch();
    let path = dir.path().join("relics.db");
    std::fs::write(&path, "").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let mut store = open(&path).unwrap();
    create(&mut store, &task("one"));
    for file in ["relics.db", "relics.db-wal", "relics.db-shm"] {
        let mode = std::fs::metadata(dir.path().join(file))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
}

#[test]
fn only_committed_transactions_survive_a_crash() {
    let dir = crate::testing::scratch();
    let path = dir.path().join("relics.db");
    let mut store = open(&path).unwrap();
    create(&mut store, &task("full"));
    let mut behind = |txn: &mut dyn Txn| txn.create_relic(&task("behind")).map(|_| ());
    store
        .commit(&mut [&mut behind], Durability::Behind)
        .unwrap();
    // A killed process leaves the files in the middle of a commit. The next start finds a copy of them, taken there.
    let crash = dir.path().join("crash");
    std::fs::create_dir(&crash).unwrap();
    let mut half = |txn: &mut dyn Txn| {
        txn.create_relic(&task("half"))?;
        for file in ["relics.db", "relics.db-wal"] {
            std::fs::copy(dir.path().join(file), crash.join(file)).unwrap();
        }
        Ok(())
    };
    store.commit(&mut [&mut half], Durability::Full).unwrap();
    let mut found = open(&crash.join("relics.db")).unwrap();
    assert_eq!(titles(&mut found), ["full", "behind"]);
    drop(store);
    let mut whole = open(&path).unwrap();
    assert_eq!(titles(&mut whole), ["full", "behind", "half"]);
    assert_eq!(create(&mut whole, &task("next")).id, id("gt-4"));
}

/// All commits of a young store are in its write-ahead log: without it, the store is a database without a table.
#[test]
fn store_that_came_up_empty_is_refused_until_it_is_accepted() {
    let dir = crate::testing::scratch();
    let path = dir.path().join("relics.db");
    create(&mut open(&path).unwrap(), &task("one"));
    std::fs::remove_file(&path).unwrap();
    let empty = rusqlite::Connection::open(&path).unwrap();
    empty.execute_batch("VACUUM").unwrap();
    drop(empty);
    let bytes = std::fs::read(&path).unwrap();
    assert!(bytes.len() >= 512, "it is a database, not an empty file");
    let known = |expected| {
        let clock = Arc::new(SystemClock::new());
        SqliteRelics::open_known(&path, clock, expected)
    };
    let refused = known(Expectation::Marked).err();
    let Some(StoreError::Failed(why)) = refused else {
        panic!("it was opened, or refused otherwise: {refused:?}");
    };
    assert!(
        why.contains("it is empty, but was not before") && why.contains("--accept-store"),
        "{why}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "nothing was written");
    let mut accepted = known(Expectation::Any).unwrap();
    assert_eq!(titles(&mut accepted), [""; 0]);
    drop(accepted);
    assert!(
        known(Expectation::Marked).is_ok(),
        "it is the marked one now"
    );
}

/// A disk that ran full or a careless `>` leaves a file without a byte: SQLite would make a new store of it.
#[test]
fn store_that_was_truncated_to_nothing_is_refused_until_it_is_accepted() {
    let dir = crate::testing::scratch();
    let path = dir.path().join("relics.db");
    let known = |expected| SqliteRelics::open_known(&path, Arc::new(SystemClock::new()), expected);
    create(&mut open(&path).unwrap(), &task("one"));
    std::fs::write(&path, "").unwrap();
    let Some(StoreError::Failed(why)) = known(Expectation::Marked).err() else {
        panic!("it was opened, or refused otherwise");
    };
    assert!(
        why.contains("existed before") && why.contains("--accept-store"),
        "{why}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"", "nothing was written");
    assert_eq!(titles(&mut known(Expectation::Any).unwrap()), [""; 0]);
    assert!(
        known(Expectation::Marked).is_ok(),
        "it is the marked one now"
    );
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let dir = crate::testing::scratch();
    let path = dir.path().join("relics.db");
    std::fs::write(&path, "not a database at all\n".repeat(100)).unwrap();
    let why = refused(&path);
    assert!(why.contains("relics.db: the file is damaged"), "{why}");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.starts_with("not a database"),
        "a refused file is left as it was"
    );
}

#[test]
fn foreign_database_is_refused() {
    let dir = crate::testing::scratch();
    let path = dir.path().join("relics.db");
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE mine (x)").unwrap();
    drop(other);
    let why = refused(&path);
    assert!(why.contains("not a relic store"), "{why}");
}

#[test]
fn a_damaged_file_is_refused_and_never_panics() {
    let dir = crate::testing::scratch();
    let path = dir.path().join("relics.db");
    let mut store = open(&path).unwrap();
    for n in 0..200 {
        create(&mut store, &task(&format!("relic {n} {}", "x".repeat(300))));
    }
    drop(store);
    let whole = std::fs::read(&path).unwrap();
    let mut torn = whole.clone();
    let page = torn.len() / 2 / 4096 * 4096;
    torn[page..page + 4096].fill(0xee);
    std::fs::write(&path, &torn).unwrap();
    let why = refused(&path);
    assert!(why.contains("damaged"), "{why}");
    for length in [
        1,
        50,
        100,
        4095,
        4096,
        5000,
        whole.len() / 2,
        whole.len() - 4096,
    ] {
        std::fs::write(&path, &whole[..length]).unwrap();
        match open(&path) {
            Ok(_) => panic!("a file cut to {length} of {} bytes was opened", whole.len()),
            Err(error) => assert!(matches!(error, StoreError::Failed(_)), "{length}: {error}"),
        }
    }
}

#[test]
fn a_newer_schema_is_refused() {
    let dir = crate::testing::scratch();
    let path = dir.path().join("relics.db");
    let store = open(&path).unwrap();
    store.conn.pragma_update(None, "user_version", 99).unwrap();
    drop(store);
    let why = refused(&path);
    assert!(why.contains("newer horde-supervisor"), "{why}");
}

#[test]
fn an_interrupted_first_start_is_taken_up() {
    let dir = crate::testing::scratch();
    let path = dir.path().join("relics.db");
    std::fs::write(&path, "").unwrap();
    let mut store = open(&path).unwrap();
    create(&mut store, &task("one"));
    drop(store);
    assert_eq!(titles(&mut open(&path).unwrap()), ["one"]);
}

#[test]
fn a_directory_that_is_not_there_is_unavailable() {
    let dir = crate::testing::scratch();
    let path = dir.path().join("nowhere").join("relics.db");
    let error = open(&path).err();
    assert!(
        matches!(error, Some(StoreError::Unavailable(_))),
        "{error:?}"
    );
}

/// `rm -rf .horde` may remove the log first. A store that is closed then is lost with its file.
#[test]
fn store_whose_log_was_removed_is_saved_when_its_file_goes_as_well() {
    let dir = crate::testing::scratch();
    let path = dir.path().join("relics.db");
    let mut store = open(&path).unwrap();
    create(&mut store, &task("kept"));
    let refused = |store: &mut SqliteRelics| {
        let mut job = |txn: &mut dyn Txn| txn.create_relic(&task("more")).map(|_| ());
        store.commit(&mut [&mut job], Durability::Full).unwrap_err()
    };
    std::fs::remove_file(path.with_extension("db-wal")).unwrap();
    let why = refused(&mut store);
    assert!(
        matches!(&why, StoreError::Unavailable(why) if why.contains("log was removed")),
        "{why}"
    );
    std::fs::remove_file(&path).unwrap();
    let why = refused(&mut store);
    assert!(
        matches!(&why, StoreError::Unavailable(why) if why.contains("relics-saved")),
        "{why}"
    );
    let mut entries = std::fs::read_dir(dir.path()).unwrap();
    let saved = entries.find_map(|entry| {
        let path = entry.unwrap().path();
        path.to_string_lossy()
            .contains("relics-saved")
            .then_some(path)
    });
    assert_eq!(titles(&mut open(&saved.unwrap()).unwrap()), ["kept"]);
}

/// They were reported as a full disk.
#[test]
fn store_that_is_locked_or_no_file_is_reported_as_that() {
    let dir = crate::testing::scratch();
    let file = dir.path().join("relics.db");
    drop(open(&file).unwrap());
    let other = rusqlite::Connection::open(&file).unwrap();
    other
        .execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE")
        .unwrap();
    assert!(matches!(open(&file), Err(StoreError::Locked(_))));
    drop(other);
    std::fs::rename(&file, dir.path().join("moved.db")).unwrap();
    std::os::unix::fs::symlink("moved.db", &file).unwrap();
    assert!(refused(&file).ends_with("it is a link"));
    std::fs::remove_file(&file).unwrap();
    nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(refused(&file).contains("FIFO"));
}
