//! Links to the files of another task, which git brings with a commit of its session.

use super::*;

/// A merge of a commit in which another session added its links by force.
#[test]
fn links_of_another_task_are_replaced_although_git_brought_them() {
    let top = crate::testing::scratch();
    let (dir, sandbox) = places(top.path());
    let other = top.path().join(".horde/tasks/rig/gt-2/Nux-2");
    for (name, target) in [(OUTCOMES[0], OUTCOME), (TASK, TASK)] {
        fs::remove_file(sandbox.join(name)).unwrap();
        symlink(other.join(target), sandbox.join(name)).unwrap();
    }
    assert!(repaired(&dir, &sandbox, &|_, _| false).is_empty());
    assert_eq!(text(sandbox.join(TASK)), "do it");
    fs::write(sandbox.join(OUTCOMES[0]), "passed").unwrap();
    assert_eq!(text(dir.join(OUTCOME)), "passed");
    assert!(!other.exists());
}

/// Such a link had another raider's work declared as done by what an innocent session wrote.
#[test]
fn links_of_another_task_are_replaced_however_they_are_written() {
    let top = crate::testing::scratch();
    let (dir, sandbox) = places(top.path());
    let other = top.path().join(".horde/tasks/rig/gt-2/Nux-2");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join(OUTCOME), "").unwrap();
    symlink("../../../.horde/tasks/rig/gt-2", sandbox.join("docs")).unwrap();
    for target in [
        "../../../.horde/tasks/rig/gt-2/Nux-2/outcome",
        "./../../../.horde/tasks/rig/gt-1/../gt-2/Nux-2/outcome",
        "docs/Nux-2/outcome",
        // As the system follows it, `..` is the directory above the one that the link leads to.
        "docs/../gt-2/Nux-2/outcome",
        // The link in the sandbox of that task.
        "../Nux/.horde-outcome",
    ] {
        for name in OUTCOMES {
            fs::remove_file(sandbox.join(name)).unwrap();
            symlink(target, sandbox.join(name)).unwrap();
        }
        assert!(repaired(&dir, &sandbox, &|_, _| false).is_empty());
        for name in OUTCOMES {
            let leads_to = fs::read_link(sandbox.join(name)).unwrap();
            assert_eq!(leads_to, dir.join(OUTCOME), "{target}");
        }
    }
    assert_eq!(text(other.join(OUTCOME)), "");
}

#[test]
fn link_of_the_project_to_a_file_of_its_own_stays() {
    let top = crate::testing::scratch();
    let (dir, sandbox) = places(top.path());
    let own = sandbox.join("tasks/2026/q4/current");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join(TASK), "of the project").unwrap();
    fs::remove_file(sandbox.join(TASK)).unwrap();
    symlink("tasks/2026/q4/current/TASK.md", sandbox.join(TASK)).unwrap();
    repaired(&dir, &sandbox, &all);
    assert_eq!(text(sandbox.join(TASK)), "of the project");
}

/// The supervisor had replaced it, and asked the session to remove it from the project: its work tree was never clean.
#[test]
fn link_of_the_project_to_a_file_elsewhere_stays() {
    let top = crate::testing::scratch();
    let (dir, sandbox) = places(top.path());
    for elsewhere in ["data/tasks/2026/q4/current", "data/raiders/2026"] {
        let elsewhere = top.path().join(elsewhere);
        fs::create_dir_all(&elsewhere).unwrap();
        fs::write(elsewhere.join(TASK), "of the project").unwrap();
        fs::remove_file(sandbox.join(TASK)).unwrap();
        symlink(elsewhere.join(TASK), sandbox.join(TASK)).unwrap();
        repaired(&dir, &sandbox, &|_, _| false);
        assert_eq!(text(sandbox.join(TASK)), "of the project");
    }
}

/// A move of the city could not be followed, or the work of an earlier incarnation came late.
#[test]
fn link_to_another_task_directory_is_replaced() {
    let top = crate::testing::scratch();
    let (dir, sandbox) = places(top.path());
    for (name, file) in [(TASK, TASK), (OUTCOMES[0], OUTCOME)] {
        fs::remove_file(sandbox.join(name)).unwrap();
        let other = Path::new("/former/.horde/tasks/rig/gt-1/Toast-0").join(file);
        symlink(other, sandbox.join(name)).unwrap();
    }
    assert!(repaired(&dir, &sandbox, &all).is_empty());
    for (name, file) in [(TASK, TASK), (OUTCOMES[0], OUTCOME)] {
        assert_eq!(fs::read_link(sandbox.join(name)).unwrap(), dir.join(file));
    }
}

/// A project may share its tasks by a directory beside its checkouts. Replaced in a sandbox, it left the work tree unclean.
#[test]
fn link_of_the_project_to_a_task_beside_it_stays_whether_a_sandbox_is_there_or_not() {
    for target in ["../shared/TASK.md", "docs/TASK.md"] {
        let top = crate::testing::scratch();
        let (dir, sandbox) = places(top.path());
        let leads_to = |name: &str| fs::read_link(sandbox.join(name)).unwrap();
        symlink("../shared", sandbox.join("docs")).unwrap();
        fs::remove_file(sandbox.join(TASK)).unwrap();
        symlink(target, sandbox.join(TASK)).unwrap();
        // git has a link with this target.
        let is_own = |name: &str, bytes: Option<&[u8]>| {
            name != TASK || bytes.is_some_and(|bytes| bytes != target.as_bytes())
        };
        for is_sandbox in [false, true] {
            if is_sandbox {
                fs::create_dir_all(sandbox.join("../shared/.git")).unwrap();
            }
            repaired(&dir, &sandbox, &is_own);
            assert_eq!(leads_to(TASK), Path::new(target));
            assert_eq!(leads_to(TASK_ELSE), dir.join(TASK));
        }
        // One that the session made is none of the project.
        repaired(&dir, &sandbox, &all);
        assert_eq!(leads_to(TASK), dir.join(TASK));
    }
}
