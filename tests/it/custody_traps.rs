//! Trip wires: whatever an agent writes to have git run a program, the supervisor never runs it, and the landed work
//! equals that of plain git in a clean clone.

mod any;
mod sprung;
mod transports;
mod ways;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use horde_supervisor::domain::ids::{Incarnation, Oid, RelicId};
use horde_supervisor::domain::merge::{LandStyle, MergeOutcome};
use horde_supervisor::ports::repo::{GateSpec, Repo, SandboxSpec};
use horde_supervisor::testing::tier::takes;

use crate::sandbox_life::request;
use crate::support::city::{City, permit};
use crate::support::git::{commit_all, git, rev, try_git, write};
use ways::{Springs, WAYS, Way};

/// The places where traps are set, and the actions that spring them.
struct Wires {
    city: City,
    /// The sandbox of the agent that sets the traps.
    sandbox: PathBuf,
    /// A program that leaves the mark and prints its input.
    program: String,
    /// A program that leaves the mark and fails.
    fails: String,
    mark: PathBuf,
    /// Set when the rig has a remote.
    remote: bool,
}

impl Wires {
    /// Makes a city in which an agent has committed, and another client has pushed meanwhile.
    fn new() -> Self {
        Self::on(true)
    }

    /// Makes the same city; without a remote, work lands in the user's checkout.
    fn on(remote: bool) -> Self {
        let city = City::with(|checkout| {
            write(checkout, ".gitattributes", "*.own filter=own merge=own\n");
            write(checkout, "kept.own", "1\n2\n3\n");
        });
        if !remote {
            git(&city.checkout(), &["remote", "remove", "origin"]);
        }
        city.repo.prepare().unwrap();
        let sandbox = city.sandbox();
        for name in ["src/a.txt", "kept.own"] {
            let text = fs::read_to_string(sandbox.join(name)).unwrap();
            write(&sandbox, name, text.replace('3', "3 by the agent"));
        }
        git(&sandbox, &["mv", "src/b.txt", "src/moved.txt"]);
        commit_all(&sandbox, "the agent's");
        let checkout = city.checkout();
        for name in ["src/a.txt", "src/b.txt", "kept.own"] {
            let text = fs::read_to_string(checkout.join(name)).unwrap();
            write(&checkout, name, text.replace('1', "1 by a person"));
        }
        commit_all(&checkout, "a person's");
        if remote {
            git(&checkout, &["push", "-q", "origin", "main"]);
        }
        city.repo.fetch_target("main").unwrap();
        let (mark, program) = (city.root().join("tripped"), city.root().join("wire"));
        let fails = city.root().join("failing-wire");
        for (file, then) in [(&program, "exec cat"), (&fails, "exit 1")] {
            let text = format!("#!/bin/sh\ntouch {}\n{then}\n", mark.display());
            fs::write(file, text).unwrap();
            fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let (program, fails) = (program.display().to_string(), fails.display().to_string());
        Self {
            city,
            sandbox,
            program,
            fails,
            mark,
            remote,
        }
    }

    /// Returns the repository that work lands in.
    fn origin(&self) -> PathBuf {
        match self.remote {
            true => self.city.origin(),
            false => self.city.checkout(),
        }
    }

    fn config(&self, settings: &[(&str, &str)]) {
        for (key, value) in settings {
            git(
                self.city.repo.theirs(),
                &["config", "--replace-all", key, value],
            );
        }
    }

    /// Returns every setting that runs a program whenever git looks at files.
    fn programs(&self) -> Vec<(&'static str, String)> {
        [
            "filter.trap.clean",
            "filter.trap.smudge",
            "diff.trap.textconv",
            "diff.external",
            "merge.trap.driver",
            "core.fsmonitor",
            "core.pager",
            "core.sshCommand",
        ]
        .map(|key| (key, self.program.clone()))
        .into()
    }

    fn attribute(&self, line: &str) {
        let file = self.city.repo.theirs().join("info/attributes");
        fs::write(file, format!("{line}\n")).unwrap();
    }

    fn hooks(&self, dir: &Path) {
        fs::create_dir_all(dir).unwrap();
        for hook in [
            "post-checkout",
            "pre-push",
            "pre-receive",
            "update",
            "reference-transaction",
            "post-index-change",
            "pre-auto-gc",
            "post-commit",
            "post-merge",
            "push-to-checkout",
        ] {
            fs::copy(&self.program, dir.join(hook)).unwrap();
        }
    }

    /// Makes a repository of the agent's, with every trap and the commits of its sandbox.
    fn evil(&self) -> PathBuf {
        let evil = self.city.root().join("evil.git");
        let theirs = self.city.repo.theirs().display().to_string();
        let shown = evil.display().to_string();
        git(
            &self.city.root(),
            &["clone", "-q", "--bare", &theirs, &shown],
        );
        git(&evil, &["config", "core.bare", "false"]);
        for (key, value) in self.programs() {
            git(&evil, &["config", key, &value]);
        }
        self.hooks(&evil.join("hooks"));
        write(&evil, "info/attributes", "* filter=trap diff=trap\n");
        evil
    }

    fn admin(&self) -> PathBuf {
        let place = ["rev-parse", "--absolute-git-dir"];
        git(&self.sandbox, &place).into()
    }

    /// Asserts that no trap was sprung, or tells which.
    fn unsprung(&self, when: &str) {
        assert!(!self.mark.exists(), "a program of an agent ran at {when}");
    }

    /// Returns every file outside of the city and its sandboxes with its bytes, and every link with its target. Leaves
    /// out what a landing writes in the repository that it lands in.
    fn outside(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let (root, origin) = (self.city.root(), self.origin());
        let ours = ["city", "clean"].map(|name| root.join(name));
        let git_dir = match self.remote {
            true => origin.clone(),
            false => origin.join(".git"),
        };
        let moves = [
            "objects",
            "refs",
            "logs",
            "index",
            "packed-refs",
            "ORIG_HEAD",
        ];
        let moves = moves.map(|name| git_dir.join(name));
        let tracked = |path: &Path| !self.remote && path.starts_with(&origin);
        let (mut found, mut open) = (BTreeMap::new(), vec![root.clone()]);
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                let is_restored = path.parent() == Some(&root)
                    && path
                        .file_name()
                        .unwrap()
                        .to_string_lossy()
                        .starts_with("restored-");
                if is_restored || ours.contains(&path) || moves.contains(&path) {
                    continue;
                }
                let meta = fs::symlink_metadata(&path).unwrap();
                if meta.is_dir() {
                    open.push(path);
                } else if tracked(&path) && !path.starts_with(&git_dir) {
                    // A landing in the checkout writes its files.
                } else if meta.is_symlink() {
                    let target = fs::read_link(&path).unwrap();
                    found.insert(path, target.into_os_string().into_vec());
                } else if meta.is_file() {
                    let text = fs::read(&path).unwrap();
                    found.insert(path, text);
                }
            }
        }
        found
    }

    /// Asserts that no file outside of the city was made, changed or removed.
    fn is_untouched(&self, before: &BTreeMap<PathBuf, Vec<u8>>) {
        let now = self.outside();
        let differs = |path: &&PathBuf| before.get(*path) != now.get(*path);
        let all: BTreeSet<_> = before.keys().chain(now.keys()).collect();
        let changed: Vec<_> = all.into_iter().filter(differs).collect();
        assert!(changed.is_empty(), "changed outside: {changed:?}");
    }

    /// Runs every read-only operation on an agent's sandbox. Each may fail.
    fn observe(&self, spec: &SandboxSpec) {
        let (repo, sandbox) = (&self.city.repo, &*spec.path);
        let asked: [(&str, &dyn Fn()); 9] = [
            ("ailment", &|| drop(repo.sandbox_fault(sandbox))),
            ("provenance", &|| drop(repo.provenance(sandbox))),
            ("progress", &|| drop(repo.progress(sandbox))),
            ("glance", &|| drop(repo.glance(sandbox, "main"))),
            ("changes", &|| drop(repo.changes(sandbox))),
            ("facts", &|| drop(repo.facts(sandbox, "main"))),
            ("salvage_size", &|| drop(repo.salvage_size(sandbox))),
            ("remains", &|| drop(repo.remains(sandbox, "main"))),
            ("strays", &|| {
                drop(repo.strays(sandbox, &spec.branch, "main"))
            }),
        ];
        for (what, ask) in asked {
            ask();
            self.unsprung(what);
        }
        for text in ["a1", "other"] {
            drop(repo.committed(sandbox, "src/a.txt", Some(text.as_bytes())));
        }
        self.unsprung("committed");
    }

    /// Makes, damages and repairs a sandbox beside it.
    fn beside(&self) -> SandboxSpec {
        let repo = &self.city.repo;
        let spec = self.city.spec_of("Nux", 2);
        repo.make_sandbox(&spec).unwrap();
        self.unsprung("make_sandbox");
        assert!(repo.facts(&spec.path, "main").unwrap().is_clean());
        let admin = repo.theirs().join("worktrees/Nux.2");
        fs::remove_file(admin.join("index")).unwrap();
        fs::write(admin.join("gitdir"), "/nowhere\n").unwrap();
        repo.repair_sandbox(&spec).unwrap();
        self.unsprung("repair_sandbox");
        spec
    }

    /// Returns the tree that plain git makes of the branch on its target, in a clean clone.
    fn plainly(&self, branch: &str, style: LandStyle) -> String {
        let (from, dir) = (self.origin(), self.city.root().join("clean"));
        let (from, to) = (from.display().to_string(), dir.display().to_string());
        git(&self.city.root(), &["clone", "-q", &from, &to]);
        let theirs = format!("origin/{branch}");
        match style {
            LandStyle::Rebase => {
                git(&dir, &["checkout", "-q", "--detach", &theirs]);
                git(&dir, &["rebase", "-q", "origin/main"]);
            }
            LandStyle::Squash => {
                git(&dir, &["checkout", "-q", "--detach", "origin/main"]);
                git(&dir, &["merge", "-q", "--squash", &theirs]);
                git(&dir, &["commit", "-q", "-m", "squashed"]);
            }
            LandStyle::Merge => {
                git(&dir, &["checkout", "-q", "--detach", "origin/main"]);
                git(&dir, &["merge", "-q", "--no-ff", "--no-edit", &theirs]);
            }
        }
        rev(&dir, "HEAD^{tree}")
    }

    /// Lands the agent's commit, and asserts that its tree is the one that plain git makes.
    fn land(&self, branch: &str, head: &Oid, style: LandStyle) {
        let (repo, city) = (&self.city.repo, &self.city);
        repo.push_branch(branch, head, None).unwrap();
        assert_eq!(repo.remote_head(branch).unwrap().as_ref(), Some(head));
        let mr = RelicId::new("gt-2").unwrap();
        repo.pin(&mr, head).unwrap();
        self.unsprung("push_branch");
        let target = repo.fetch_target("main").unwrap();
        let request = request(head, &target.tip, style);
        let outcome = repo.merge(&request).unwrap();
        self.unsprung("merge");
        let MergeOutcome::Clean { tip, tree } = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(self.plainly(branch, style), tree.as_str());
        let gate = GateSpec {
            name: "test".into(),
            run: "git status >/dev/null; test -f src/moved.txt".into(),
            timeout: Duration::from_secs(120),
            env: [("PATH".to_owned(), std::env::var("PATH").unwrap())].into(),
            log_dir: city.root().join("city/.horde/gate-logs/horde"),
        };
        let run = repo.run_gate(&tip, &gate).unwrap();
        assert_eq!((run.code, &run.tree), (Some(0), &Some(tree.clone())));
        self.unsprung("run_gate");
        repo.land("main", &target.tip, &tip).unwrap();
        self.unsprung("land");
        let landed = rev(&self.origin(), "main^{tree}");
        assert_eq!(landed, tree.as_str());
        if !self.remote {
            assert_eq!(git(&city.checkout(), &["status", "--porcelain"]), "");
        }
        assert!(repo.landed("main", &tip).unwrap());
        assert!(style != LandStyle::Merge || repo.on_main(head, "main").unwrap());
        assert!(repo.holds(head, "main").unwrap());
        repo.delete_branch(branch, head).unwrap();
        repo.unpin(&mr).unwrap();
        self.unsprung("delete_branch");
    }

    /// Saves the rest, restores it and removes the sandbox.
    fn release(&self, spec: &SandboxSpec, at: u64) {
        let (repo, city) = (&self.city.repo, &self.city);
        let incarnation = Incarnation(at);
        let record = repo.salvage(&spec.path, &spec.raider, incarnation).unwrap();
        self.unsprung("salvage");
        let to = city.root().join(format!("restored-{at}"));
        repo.restore(&record, &to).unwrap();
        self.unsprung("restore");
        let facts = city.facts(&spec.path);
        repo.discard_sandbox(&permit(spec, &facts), &city.trash(), &|| Ok(()))
            .unwrap();
        repo.forget_sandbox(&spec.path, &spec.raider, incarnation)
            .unwrap();
        self.unsprung("discard_sandbox");
        self.observe(spec);
        drop(repo.drop_branch(&spec.branch));
        repo.spare_branches().unwrap();
        repo.expire_retired(jiff::Timestamp::now()).unwrap();
        repo.expire_stash(jiff::Timestamp::now()).unwrap();
        repo.maintain().unwrap();
        self.unsprung("upkeep");
    }
}

/// Asserts that the supervisor can do everything while a trap is set. The agent's own sandbox can always be saved and
/// removed.
fn assert_no_trap_springs(way: &Way) {
    let wires = Wires::new();
    let head = Oid::new(rev(&wires.sandbox, "HEAD")).unwrap();
    (way.set)(&wires);
    write(&wires.sandbox, "README", "edited\n");
    match way.springs {
        Springs::By(command) => {
            let output = try_git(&wires.sandbox, command);
            let sprung = wires.mark.exists();
            assert!(sprung, "{}: no trap: {output:?}", way.name);
        }
        Springs::Each(spring) => spring(&wires),
    }
    // The test's own commands there may have run the trap, too.
    fs::remove_file(&wires.mark).ok();
    let before = wires.outside();
    let spec = wires.city.spec(1);
    wires.city.repo.prepare().unwrap();
    wires.unsprung("prepare");
    wires.observe(&spec);
    let beside = wires.beside();
    wires.land(&spec.branch, &head, LandStyle::Merge);
    wires.release(&spec, 1);
    wires.release(&beside, 2);
    wires.is_untouched(&before);
}

/// Some of the ways one by one, in the long tier all: one may hide another.
/// Case git-configuration of an adversary: git configuration, hooks and attributes that run a program.
#[test]
fn no_way_of_an_agent_runs_a_program_below_the_supervisor() {
    for (place, way) in WAYS.iter().enumerate() {
        if takes(place, 9) {
            eprintln!("{}", way.name);
            assert_no_trap_springs(way);
        }
    }
}

/// All ways at once that do not exclude each other.
#[test]
fn all_ways_of_an_agent_together_run_no_program_below_the_supervisor() {
    let every = Way {
        name: "all",
        set: |wires| {
            for way in WAYS {
                // These would hide the files that the others write.
                if !way.name.contains("lead") && !way.name.contains("inside") {
                    (way.set)(wires);
                }
            }
        },
        springs: Springs::By(&["status"]),
    };
    assert_no_trap_springs(&every);
}
