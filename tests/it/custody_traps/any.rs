//! Random ways and settings, in all styles of landing, with and without a remote; and the user's later changes of the
//! configuration.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use horde_supervisor::domain::ids::Oid;
use horde_supervisor::domain::merge::LandStyle;
use horde_supervisor::ports::repo::Repo;
use horde_supervisor::testing::tier::by_tier;

use super::Wires;
use super::ways::WAYS;
use crate::support::again::again;
use crate::support::chance::Chance;
use crate::support::city::City;
use crate::support::git::{commit_all, rev, try_git, write};

/// Keys of git that name a program, or change what git makes of files, commits and refs.
const KEYS: &[&str] = &[
    "blame.ignoreRevsFile",
    "branch.main.rebase",
    "browser.x.cmd",
    "commit.cleanup",
    "commit.template",
    "core.abbrev",
    "core.askPass",
    "core.attributesFile",
    "core.autocrlf",
    "core.bigFileThreshold",
    "core.checkRoundtripEncoding",
    "core.commentChar",
    "core.commitGraph",
    "core.eol",
    "core.excludesFile",
    "core.fileMode",
    "core.fsmonitor",
    "core.hooksPath",
    "core.ignoreCase",
    "core.logAllRefUpdates",
    "core.notesRef",
    "core.pager",
    "core.safecrlf",
    "core.sharedRepository",
    "core.sshCommand",
    "core.symlinks",
    "core.trustctime",
    "core.whitespace",
    "credential.helper",
    "diff.algorithm",
    "diff.external",
    "diff.renames",
    "diff.tool",
    "fetch.fsckObjects",
    "fetch.prune",
    "filter.own.clean",
    "filter.own.process",
    "filter.own.required",
    "filter.own.smudge",
    "fsck.skipList",
    "gpg.format",
    "gpg.program",
    "i18n.commitEncoding",
    "i18n.logOutputEncoding",
    "index.version",
    "log.follow",
    "mailmap.file",
    "merge.conflictStyle",
    "merge.directoryRenames",
    "merge.own.driver",
    "merge.renameLimit",
    "merge.renames",
    "merge.renormalize",
    "notes.rewriteRef",
    "pack.packSizeLimit",
    "pack.window",
    "pull.rebase",
    "push.followTags",
    "push.gpgSign",
    "push.pushOption",
    "rebase.autoSquash",
    "rebase.instructionFormat",
    "receive.fsckObjects",
    "remote.origin.fetch",
    "remote.origin.mirror",
    "remote.origin.push",
    "remote.pushDefault",
    "rerere.enabled",
    "sequence.editor",
    "tag.gpgSign",
    "transfer.hideRefs",
    "uploadpack.packObjectsHook",
    "user.signingKey",
    "worktree.guessRemote",
];

impl Wires {
    /// Sets some keys to any value. git refuses some of them.
    fn anything(&self, chance: &mut Chance) -> Vec<String> {
        let hooks = self.city.root().join("hooks");
        self.hooks(&hooks);
        let hooks = hooks.display().to_string();
        let values = [
            &*self.program,
            &*self.fails,
            &*hooks,
            "true",
            "false",
            "",
            "0",
            "1",
            "input",
            "crlf",
            "minimal",
            "ISO-8859-1",
            "refs/heads/main",
            "/dev/null",
        ];
        let mut set = Vec::new();
        for _ in 0..chance.below(12) {
            let (key, value) = (
                KEYS[chance.below(KEYS.len())],
                values[chance.below(values.len())],
            );
            let theirs = self.city.repo.theirs();
            drop(try_git(theirs, &["config", "--replace-all", key, value]));
            set.push(format!("{key}={value}"));
        }
        set
    }
}

/// Picks some ways, in their order. At most one leads elsewhere, and that as the last: later ones would not take
/// effect.
fn some(chance: &mut Chance) -> Vec<usize> {
    let leads = |way: &usize| WAYS[*way].name.contains("lead");
    let all = (0..WAYS.len()).filter(|way| !leads(way));
    let mut taken: Vec<usize> = all.filter(|_| chance.below(3) == 0).collect();
    let leading: Vec<usize> = (0..WAYS.len()).filter(leads).collect();
    if chance.below(3) == 0 {
        taken.push(leading[chance.below(leading.len())]);
    }
    taken
}

/// Returns the file that this process has for the user's configuration.
fn of_user() -> PathBuf {
    std::env::var_os("GIT_CONFIG_GLOBAL")
        .expect("set for this test")
        .into()
}

/// Adds every program that a look at files, a checkout or a merge runs to the user's configuration.
fn add_to_user(wires: &Wires) {
    let (program, mut text) = (&wires.program, fs::read_to_string(of_user()).unwrap());
    for name in ["own", "trap"] {
        text += &format!(
            "[filter \"{name}\"]\n\tclean = {program}\n\tsmudge = {program}\n\trequired = true\n\
             [merge \"{name}\"]\n\tdriver = {program}\n\
             [diff \"{name}\"]\n\ttextconv = {program}\n\tcommand = {program}\n"
        );
    }
    text += &format!(
        "[diff]\n\texternal = {program}\n[core]\n\tfsmonitor = {program}\n\tpager = {program}\n"
    );
    fs::write(of_user(), text).unwrap();
}

/// Runs the test again with a user configuration of its own; returns whether this process is that run.
fn with_user<T: Fn()>(test: T) -> bool {
    let dir = horde_supervisor::testing::scratch();
    let file = dir.path().join("gitconfig");
    fs::write(&file, "").unwrap();
    let nowhere = dir.path().join("config");
    let variables: [(&str, &OsStr); 2] = [
        ("GIT_CONFIG_GLOBAL", file.as_os_str()),
        ("XDG_CONFIG_HOME", nowhere.as_os_str()),
    ];
    again(test, &variables)
}

fn assert_no_trap_springs(chance: &mut Chance) {
    let style = LandStyle::ALL[chance.below(LandStyle::ALL.len())];
    let remote = chance.below(2) == 0;
    let taken = some(chance);
    fs::write(of_user(), "").unwrap();
    let wires = Wires::on(remote);
    write(&wires.sandbox, "second.txt", "of the agent\n");
    commit_all(&wires.sandbox, "a second commit");
    let head = Oid::new(rev(&wires.sandbox, "HEAD")).unwrap();
    taken.iter().for_each(|way| (WAYS[*way].set)(&wires));
    let set = wires.anything(chance);
    write(&wires.sandbox, "README", "edited\n");
    // In the user's own checkout git follows the user's configuration.
    if remote {
        add_to_user(&wires);
    }
    let names: Vec<_> = taken.iter().map(|way| WAYS[*way].name).collect();
    eprintln!("{style:?}, remote: {remote}, {names:?}, {set:?}");
    fs::remove_file(&wires.mark).ok();
    let before = wires.outside();
    let spec = wires.city.spec(1);
    wires.observe(&spec);
    let beside = wires.beside();
    wires.land(&spec.branch, &head, style);
    wires.release(&spec, 1);
    wires.release(&beside, 2);
    wires.is_untouched(&before);
}

/// No program of an agent runs below the supervisor, whatever the agent writes and in whichever style its work lands.
#[test]
fn no_chance_of_an_agent_runs_a_program_below_the_supervisor() {
    if !with_user(no_chance_of_an_agent_runs_a_program_below_the_supervisor) {
        return;
    }
    let cases = std::env::var("HORDE_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    let mut chance = Chance::seeded();
    for _ in 0..cases.unwrap_or(by_tier(2, 150)) {
        assert_no_trap_springs(&mut chance);
    }
}

/// A driver that the user adds after the rig was prepared never runs; an earlier one is used, unless its command may be
/// an agent's file.
#[test]
fn filter_and_merge_driver_of_the_user_count_as_they_were_when_the_rig_was_prepared() {
    if !with_user(filter_and_merge_driver_of_the_user_count_as_they_were_when_the_rig_was_prepared)
    {
        return;
    }
    let wires = Wires::new();
    add_to_user(&wires);
    let head = Oid::new(rev(&wires.sandbox, "HEAD")).unwrap();
    let spec = wires.city.spec(1);
    wires.observe(&spec);
    let beside = wires.beside();
    wires.land(&spec.branch, &head, LandStyle::Merge);
    wires.release(&spec, 1);
    wires.release(&beside, 2);
    let upper = "[filter \"upper\"]\n\tsmudge = tr a-z A-Z\n\tclean = tr A-Z a-z\n";
    let unfit =
        "[filter \"unfit\"]\n\tsmudge = sh tools/run\n[merge \"unfit\"]\n\tdriver = tools/run %A\n";
    fs::write(of_user(), format!("{upper}{unfit}")).unwrap();
    let city = City::with(|checkout| {
        write(
            checkout,
            ".gitattributes",
            "*.up filter=upper\n*.un filter=unfit merge=unfit\n",
        );
        write(checkout, "a.up", "text\n");
        write(checkout, "b.un", "text\n");
    });
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    assert_eq!(fs::read_to_string(sandbox.join("a.up")).unwrap(), "TEXT\n");
    assert_eq!(fs::read_to_string(sandbox.join("b.un")).unwrap(), "text\n");
}
