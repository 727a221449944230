//! Tests of the ground on real directories.

use std::os::unix::fs::{PermissionsExt, chown, symlink};

use super::*;

struct Lab {
    _temp: tempfile::TempDir,
    city: PathBuf,
}

impl Lab {
    fn new() -> Self {
        let temp = crate::testing::scratch();
        let city = temp.path().canonicalize().unwrap().join("city");
        fs::create_dir(&city).unwrap();
        Self { _temp: temp, city }
    }

    fn state(&self) -> PathBuf {
        self.city.join(STATE)
    }
}

fn parts(troubles: &[crate::domain::ground::FileFault]) -> Vec<Part> {
    troubles.iter().map(|trouble| trouble.part).collect()
}

/// Returns the parts that a look mended and left. The next look must have nothing more to mend.
fn looked(ground: &Ground) -> (Vec<Part>, Vec<Part>) {
    let look = ground.check();
    assert!(ground.check().mended.is_empty());
    (parts(&look.mended), parts(&look.left))
}

fn is_held(lab: &Lab) -> bool {
    matches!(Ground::take(&lab.city), Err(DaemonError::Held { .. }))
}

#[test]
fn removed_ground_is_made_again_and_never_held_twice() {
    let lab = Lab::new();
    let ground = Ground::take(&lab.city).unwrap();
    assert_eq!(looked(&ground), (vec![], vec![]));
    fs::remove_file(lab.state().join(lock::FILE)).unwrap();
    assert!(is_held(&lab));
    assert_eq!(looked(&ground), (vec![Part::Lock], vec![]));
    fs::remove_dir_all(lab.state()).unwrap();
    assert!(is_held(&lab));
    let look = ground.check();
    assert!(look.left.is_empty(), "{look:?}");
    assert_eq!(looked(&ground), (vec![], vec![]));
    assert!(lab.state().join("sessions").is_dir());
    assert!(is_held(&lab));
    fs::remove_dir_all(lab.state()).unwrap();
    fs::create_dir_all(lab.state().join("sessions/x")).unwrap();
    let look = ground.check();
    assert!(look.left.is_empty(), "{look:?}");
    assert_eq!(fs::metadata(lab.state()).unwrap().mode() & 0o777, 0o700);
}

#[test]
fn moved_ground_is_moved_back_unless_its_place_is_taken() {
    let lab = Lab::new();
    let ground = Ground::take(&lab.city).unwrap();
    fs::write(lab.state().join("mine"), "").unwrap();
    let away = lab.city.join("away");
    fs::rename(lab.state(), &away).unwrap();
    assert_eq!(looked(&ground), (vec![Part::State], vec![]));
    assert!(lab.state().join("mine").exists());
    fs::rename(lab.state(), &away).unwrap();
    fs::create_dir(lab.state()).unwrap();
    assert_eq!(looked(&ground), (vec![], vec![Part::State]));
    assert!(is_held(&lab));
    fs::remove_dir(lab.state()).unwrap();
    assert_eq!(looked(&ground), (vec![Part::State], vec![]));
    fs::rename(lab.state(), &away).unwrap();
    symlink("/tmp", lab.state()).unwrap();
    assert_eq!(looked(&ground), (vec![Part::State], vec![]));
    assert_eq!(fs::read_link(&away).unwrap(), Path::new("/tmp"));
    assert!(lab.state().join("mine").exists());
}

#[test]
fn directory_of_the_sessions_is_moved_back_or_made_again() {
    let lab = Lab::new();
    let ground = Ground::take(&lab.city).unwrap();
    let (sessions, away) = (lab.state().join(SESSIONS), lab.state().join("away"));
    assert!(!sessions.exists());
    assert_eq!(looked(&ground), (vec![], vec![]));
    fs::write(sessions.join("mine"), "").unwrap();
    fs::rename(&sessions, &away).unwrap();
    assert_eq!(looked(&ground), (vec![Part::Sessions], vec![]));
    fs::rename(&sessions, &away).unwrap();
    fs::create_dir(&sessions).unwrap();
    assert_eq!(looked(&ground), (vec![], vec![Part::Sessions]));
    fs::remove_dir(&sessions).unwrap();
    fs::write(&sessions, "theirs").unwrap();
    assert_eq!(looked(&ground), (vec![Part::Sessions], vec![]));
    assert_eq!(fs::read(&away).unwrap(), b"theirs");
    assert!(sessions.join("mine").exists());
    fs::remove_dir_all(&sessions).unwrap();
    assert_eq!(looked(&ground), (vec![Part::Sessions], vec![]));
    fs::remove_dir(&sessions).unwrap();
    fs::write(&sessions, "theirs").unwrap();
    assert_eq!(looked(&ground), (vec![], vec![Part::Sessions]));
}

#[test]
fn city_that_is_moved_is_said_and_held_at_its_new_place() {
    let mut lab = Lab::new();
    let ground = Ground::take(&lab.city).unwrap();
    let (old, new) = (lab.city.clone(), lab.city.with_file_name("moved"));
    fs::rename(&old, &new).unwrap();
    assert_eq!(looked(&ground), (vec![], vec![Part::City]));
    lab.city.clone_from(&new);
    assert!(is_held(&lab));
    fs::rename(&new, &old).unwrap();
    assert_eq!(looked(&ground), (vec![], vec![]));
}

/// Programs signal the pid that the lock names, as the rotation of logs does.
#[test]
fn garbled_lock_names_the_supervisor_again() {
    let lab = Lab::new();
    let ground = Ground::take(&lab.city).unwrap();
    let path = lab.state().join(lock::FILE);
    let own = format!("{}\n", std::process::id());
    for garbled in ["1\n", "", "no pid", &"x".repeat(5000)] {
        fs::write(&path, garbled).unwrap();
        assert_eq!(looked(&ground), (vec![Part::Lock], vec![]), "{garbled:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), own);
    }
}

#[test]
fn file_of_a_person_in_the_place_of_the_lock_keeps_its_content() {
    let lab = Lab::new();
    let ground = Ground::take(&lab.city).unwrap();
    let (path, other) = (lab.state().join(lock::FILE), lab.city.join("notes"));
    fs::write(&other, "precious").unwrap();
    fs::remove_file(&path).unwrap();
    fs::hard_link(&other, &path).unwrap();
    assert_eq!(looked(&ground), (vec![], vec![Part::Lock]));
    assert_eq!(fs::read_to_string(&other).unwrap(), "precious");
    fs::remove_file(&path).unwrap();
    assert_eq!(looked(&ground), (vec![Part::Lock], vec![]));
}

#[test]
fn lock_that_is_no_file_any_more_is_said_and_left_alone() {
    let lab = Lab::new();
    let ground = Ground::take(&lab.city).unwrap();
    let path = lab.state().join(lock::FILE);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(looked(&ground), (vec![], vec![Part::Lock]));
    assert!(path.is_dir());
}

#[test]
fn only_directories_of_ours_have_their_mode_changed() {
    let lab = Lab::new();
    let target = lab.city.with_file_name("target");
    fs::create_dir(&target).unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o1777)).unwrap();
    symlink(&target, lab.state()).unwrap();
    assert!(matches!(
        Ground::take(&lab.city),
        Err(DaemonError::Failed(_))
    ));
    assert_eq!(fs::metadata(&target).unwrap().mode() & 0o7777, 0o1777);
    fs::remove_file(lab.state()).unwrap();
    fs::create_dir(lab.state()).unwrap();
    let ground = Ground::take(&lab.city).unwrap();
    assert_eq!(fs::metadata(lab.state()).unwrap().mode() & 0o7777, 0o700);
    fs::set_permissions(lab.state(), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(looked(&ground), (vec![Part::State], vec![]));
}

/// Only root can give a directory away.
#[test]
fn state_directory_of_another_user_is_refused_and_left_alone() {
    let lab = Lab::new();
    fs::create_dir(lab.state()).unwrap();
    fs::set_permissions(lab.state(), fs::Permissions::from_mode(0o755)).unwrap();
    if chown(lab.state(), Some(4242), None).is_err() {
        return;
    }
    let Err(DaemonError::Failed(why)) = Ground::take(&lab.city) else {
        panic!("it was taken");
    };
    assert!(why.contains("it belongs to another user"), "{why}");
    let found = fs::metadata(lab.state()).unwrap();
    assert_eq!((found.mode() & 0o7777, found.uid()), (0o755, 4242));
    assert_eq!(fs::read_dir(lab.state()).unwrap().count(), 0);
}

#[test]
fn city_is_away_while_a_file_is_in_the_place_of_the_directory_above_it() {
    let temp = crate::testing::scratch();
    let above = temp.path().canonicalize().unwrap().join("above");
    let (city, away) = (above.join("city"), above.with_extension("away"));
    fs::create_dir_all(&city).unwrap();
    let ground = Ground::take(&city).unwrap();
    assert!(!ground.is_away());
    fs::rename(&above, &away).unwrap();
    assert!(ground.is_away());
    fs::write(&above, "").unwrap();
    assert!(ground.is_away());
    assert_eq!(ground.displaced(), None, "it can come back");
    fs::remove_file(&above).unwrap();
    fs::rename(&away, &above).unwrap();
    assert!(!ground.is_away());
}
