//! Watched directories and changes, for configurations that are read as a supervisor reads them.

use std::os::unix::fs::symlink;

use super::*;
use crate::config::{Env, read};

/// A city in `city`, beside other places.
struct SampleDir(
    PathBuf,
    #[expect(dead_code, reason = "removed at the end")] tempfile::TempDir,
);

impl SampleDir {
    fn new(city: &str) -> Self {
        let dir = crate::testing::scratch();
        let place = Self(dir.path().canonicalize().unwrap(), dir);
        place.write(
            "city/city.toml",
            &format!("{city}\n[workspace]\nname = \"c\"\n"),
        );
        place
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), text).unwrap();
    }

    fn link(&self, target: &str, link: &str) {
        symlink(self.path(target), self.path(link)).unwrap();
    }

    fn deciding(&self) -> Dependencies {
        read(&self.path("city/city.toml"), &Env::default()).0
    }

    #[track_caller]
    fn watches(&self, dirs: &[&str]) -> Dependencies {
        let deciding = self.deciding();
        let dirs: Vec<_> = dirs.iter().map(|dir| self.path(dir)).collect();
        assert_eq!(deciding.dirs(), dirs);
        deciding
    }

    /// Asserts that the directory of each path is watched, and a change there noticed.
    #[track_caller]
    fn notices(&self, paths: &[&str]) {
        let deciding = self.deciding();
        for path in paths.iter().map(|path| self.path(path)) {
            let dir = path.parent().unwrap().to_owned();
            assert!(deciding.dirs.contains(&dir), "{}", dir.display());
            assert!(deciding.depends_on(&path), "{}", path.display());
        }
    }
}

#[test]
fn files_of_agents_beside_the_city_are_not_watched() {
    let place = SampleDir::new("include = [\"f/*/x.toml\", \"g-*.toml\"]");
    fs::create_dir(place.path("kept")).unwrap();
    fs::rename(place.path("city/city.toml"), place.path("kept/own.toml")).unwrap();
    place.link("kept/own.toml", "city/city.toml");
    fs::create_dir_all(place.path("city/f/there")).unwrap();
    fs::create_dir_all(place.path("city/automations/a")).unwrap();
    let deciding = place.watches(&[
        "city",
        "city/automations",
        "city/automations/a",
        "city/f",
        "city/f/there",
        "kept",
    ]);
    for path in [
        "city.toml",
        "f",
        "f/new",
        "f/there/x.toml",
        "g-1.toml",
        "automations/b",
        "automations/a/run.sh",
    ] {
        assert!(
            deciding.depends_on(&place.path("city").join(path)),
            "{path}"
        );
    }
    for path in ["out", "other.toml", ".city.toml.new", "f/there/y.toml"] {
        assert!(
            !deciding.depends_on(&place.path("city").join(path)),
            "{path}"
        );
    }
    assert!(deciding.depends_on(&place.path("kept/own.toml")));
    assert!(!deciding.depends_on(&place.path("kept/other.toml")));
}

#[test]
fn every_link_on_the_way_to_an_include_is_noticed() {
    let place = SampleDir::new("include = [\"a.toml\", \"frag/*.toml\"]");
    place.write("store/a1.toml", "");
    place.write("store/v1/b.toml", "");
    place.link("store/a1.toml", "city/a.toml");
    place.link("store/current", "city/frag");
    symlink("v1", place.path("store/current")).unwrap();
    place.notices(&[
        "city/a.toml",
        "store/a1.toml",
        "city/frag",
        "store/current",
        "store/v1/b.toml",
        "store/v1/new.toml",
    ]);
    place.link("city/round", "city/round");
    place.write("city/city.toml", "include = [\"round/*.toml\"]");
    place.notices(&["city/round"]);
}

#[test]
fn missing_file_of_the_configuration_is_watched_for() {
    let place = SampleDir::new("include = [\"teams/*/agents.toml\", \"a/b/*.toml\"]");
    place.notices(&["city/teams", "city/a", "city/automations"]);
    fs::create_dir_all(place.path("city/teams/new")).unwrap();
    fs::create_dir_all(place.path("city/a")).unwrap();
    place.notices(&["city/teams/other", "city/teams/new/agents.toml", "city/a/b"]);
    place.write("city/a/b/c.toml", "");
    place.notices(&["city/a/b/c.toml", "city/a/b/d.toml"]);
}

#[test]
fn a_place_outside_the_city_is_waited_for_when_it_is_gone() {
    let place = SampleDir::new("");
    let include = format!("include = [\"{}/*.toml\"]", place.path("far/out").display());
    place.write("city/city.toml", &include);
    place.write("far/out/a.toml", "");
    let there = place.watches(&["city", "far/out"]);
    assert!(there.depends_on(&place.path("far/out")), "it may go");
    fs::remove_dir_all(place.path("far")).unwrap();
    place.notices(&["far"]);
    fs::create_dir(place.path("far")).unwrap();
    place.notices(&["far/out"]);
}

/// The missing file may be far from the city.
#[test]
fn missing_file_of_a_wrong_configuration_is_watched_for() {
    let place = SampleDir::new("");
    let agent = |prompt: &str| {
        format!("[[agents]]\nname = \"a\"\nharness = \"claude\"\nprompt_file = \"{prompt}\"\n")
    };
    let far = |path: &str| place.path(path).display().to_string();
    place.write(
        "city/city.toml",
        &format!("include = [\"{}\"]\n", far("inc/one.toml")),
    );
    fs::create_dir(place.path("inc")).unwrap();
    place.notices(&["city/city.toml", "inc/one.toml"]);
    place.write("city/city.toml", &agent(&far("prompts/a.md")));
    fs::create_dir(place.path("prompts")).unwrap();
    place.notices(&["prompts/a.md"]);
    fs::remove_file(place.path("city/city.toml")).unwrap();
    place.notices(&["city/city.toml"]);
}

#[test]
fn automations_that_a_trusted_rig_carries_are_noticed() {
    let rigs = "[[rigs]]\nname = \"r\"\npath = \"../r\"\ntrust_automations = true\n\
                [[rigs]]\nname = \"s\"\npath = \"../s\"\n";
    let place = SampleDir::new("");
    place.write("city/city.toml", &format!("workspace.name = \"c\"\n{rigs}"));
    for rig in ["r", "s"] {
        fs::create_dir_all(place.path(rig).join(".git")).unwrap();
    }
    place.notices(&["r/.horde"]);
    place.write("r/.horde/automations/own/run.sh", "");
    place.notices(&[
        "r/.horde/automations/new",
        "r/.horde/automations/own/automation.toml",
    ]);
    assert!(!place.deciding().dirs.contains(&place.path("s")));
}
