//! Links in the place of the forge's directory.

use super::*;

/// `git clean` in the gate's worktree deleted the files of a person's directory.
#[test]
fn forge_directory_that_is_a_link_is_refused_and_nothing_behind_it_changes() {
    let rig = Rigged::new();
    passes(&rig, &rig.base, "true");
    let (forge, mine) = (rig.repo.forge_dir().to_owned(), rig.path("mine"));
    fs::create_dir_all(mine.join("gate-0/sub")).unwrap();
    fs::write(mine.join("gate-0/sub/x"), "a person's").unwrap();
    fs::rename(&forge, forge.with_extension("away")).unwrap();
    std::os::unix::fs::symlink(&mine, &forge).unwrap();
    let refused = run_gate(&rig.repo, &rig.base, &spec(&rig, "true", LONG)).unwrap_err();
    assert!(refused.to_string().contains("is a link"), "{refused}");
    let kept = fs::read_to_string(mine.join("gate-0/sub/x")).unwrap();
    assert_eq!(kept, "a person's");
    fs::remove_file(&forge).unwrap();
    passes(&rig, &rig.base, "true");
}
