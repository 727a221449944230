//! The rules as a table: the facts, the finding, and the remedy.

use super::local::{
    Private, Repository, git_version, other_git, permissions, repository, shadowed,
};
use super::*;
use crate::domain::facts::SessionExit;
use crate::domain::ids::{Generation, Incarnation};
use crate::domain::sandbox_fault::SandboxFault;

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn rig() -> RigFacts {
    RigFacts {
        is_held: false,
        rig: RigName::new("horde").unwrap(),
        held: BTreeSet::new(),
        strays: Probed::Known(Vec::new()),
        ailing: Probed::Known(Vec::new()),
        branches: Probed::Known(Vec::new()),
        queued: BTreeSet::new(),
        open: BTreeSet::new(),
    }
}

fn healthy() -> Facts {
    Facts {
        sessions: Probed::Known(Vec::new()),
        wanted: BTreeSet::new(),
        lost: Vec::new(),
        stranded: Vec::new(),
        rigs: vec![rig()],
        trash: Probed::Known(Vec::new()),
        outbox: Probed::Known(Vec::new()),
        lacking: Probed::Known(Vec::new()),
        now: now(),
    }
}

fn session(id: &str, state: RunState) -> SessionFacts {
    SessionFacts {
        id: SessionId::new(id).unwrap(),
        token: "t".to_owned(),
        generation: Generation(1),
        incarnation: Incarnation(1),
        state,
        agent: None,
        holder: None,
        started_at: now(),
        last_activity: None,
        last_output: None,
        attached: false,
        guessed: false,
    }
}

/// Kinds of findings, and true for those with a remedy.
fn found(facts: &Facts) -> Vec<(Kind, bool)> {
    let all = examine(facts).into_iter();
    all.map(|one| {
        assert_eq!(one.finding.fixable, one.remedy.is_some());
        assert!(!one.finding.fixed && !one.finding.hint.is_empty());
        (one.finding.kind, one.remedy.is_some())
    })
    .collect()
}

#[test]
fn session_is_an_orphan_when_it_is_not_wanted_and_may_live() {
    let exit = SessionExit {
        code: Some(0),
        signal: None,
        at: now(),
        by_person: false,
        stopped: false,
    };
    let why = || "why".to_owned();
    let rows: [(RunState, Option<(Kind, bool)>); 4] = [
        (RunState::Running, Some((Kind::OrphanSession, true))),
        (
            RunState::Lost { why: why() },
            Some((Kind::OrphanSession, true)),
        ),
        // An unknown state is not acted on.
        (
            RunState::Unknown { why: why() },
            Some((Kind::Unseen, false)),
        ),
        (RunState::Exited(exit), None),
    ];
    for (state, expected) in rows {
        let mut facts = healthy();
        facts.sessions = Probed::Known(vec![session("gt-horde-Toast", state)]);
        assert_eq!(found(&facts), Vec::from_iter(expected));
        facts
            .wanted
            .insert(SessionId::new("gt-horde-Toast").unwrap());
        // No session can be started in its place meanwhile.
        let unseen = expected.filter(|(kind, _)| *kind == Kind::Unseen);
        assert_eq!(found(&facts), Vec::from_iter(unseen), "it is asked for");
    }
}

#[test]
fn a_stray_sandbox_is_mended_only_where_nothing_would_be_lost() {
    let name = || SlotName::new("Toast").unwrap();
    let kept = Stray::Kept("a dirty file".to_owned());
    for (stray, expected) in [(Stray::Spare, true), (kept, false), (Stray::Unowned, false)] {
        let mut facts = healthy();
        facts.rigs[0].strays = Probed::Known(vec![(name(), stray)]);
        assert_eq!(found(&facts), [(Kind::StraySandbox, expected)]);
    }
}

#[test]
fn a_branch_is_stray_when_neither_slot_nor_queue_nor_relic_asks_for_it() {
    const BRANCH: &str = "raider/Toast/gt-1-2";
    let with = |name: &str, reachable: bool, change: fn(&mut RigFacts)| {
        let mut facts = healthy();
        let name = name.to_owned();
        facts.rigs[0].branches = Probed::Known(vec![BranchFacts { name, reachable }]);
        change(&mut facts.rigs[0]);
        found(&facts)
    };
    let stray = |fixable| vec![(Kind::StrayBranch, fixable)];
    assert_eq!(with(BRANCH, true, |_| {}), stray(true));
    // No other ref holds its commits: it is reported, and stays.
    assert_eq!(with(BRANCH, false, |_| {}), stray(false));
    assert_eq!(with("raider/Toast/wip", true, |_| {}), stray(true));
    let relic = |rig: &mut RigFacts| rig.open = BTreeSet::from([RelicId::new("gt-1").unwrap()]);
    let slot = |rig: &mut RigFacts| rig.held = BTreeSet::from([SlotName::new("Toast").unwrap()]);
    let queue = |rig: &mut RigFacts| rig.queued = BTreeSet::from([BRANCH.to_owned()]);
    for somebodys in [relic, slot, queue] {
        assert_eq!(with(BRANCH, true, somebodys), []);
    }
}

#[test]
fn outbox_is_stale_where_no_task_will_take_a_file_up() {
    let late = Some(now() - SignedDuration::from_secs(61));
    let rows = [
        ("1-2.json", Some(now()), None),
        ("1-2.json", late, Some(true)),
        ("1-2.json", None, Some(true)),
        (".new-x", Some(now()), None),
        (".new-x", late, Some(true)),
        ("1-2.refused", Some(now()), Some(true)),
        // Not the supervisor's to remove.
        ("notes.txt", late, Some(false)),
    ];
    for (name, written, expected) in rows {
        let mut facts = healthy();
        facts.outbox = Probed::Known(vec![(Path::new("/outbox").join(name), written)]);
        let expected = expected.map(|fixable| (Kind::Outbox, fixable));
        assert_eq!(
            found(&facts),
            Vec::from_iter(expected),
            "{name} {written:?}"
        );
    }
}

#[test]
fn failed_observation_is_reported_and_proves_nothing() {
    let mut facts = healthy();
    assert_eq!(found(&facts), []);
    facts.trash = Probed::Known(vec!["/trash/a".into()]);
    assert_eq!(found(&facts), [(Kind::Trash, true)]);
    let blind = || "why".to_owned();
    facts.sessions = Probed::Unknown(blind());
    facts.trash = Probed::Unknown(blind());
    facts.outbox = Probed::Unknown(blind());
    facts.rigs[0].strays = Probed::Unknown(blind());
    facts.rigs[0].branches = Probed::Unknown(blind());
    assert_eq!(found(&facts), [(Kind::Unseen, false); 5]);
}

#[test]
fn an_old_git_is_told_by_its_number() {
    for fine in ["2.39.0", "2.47.3 (Apple Git-154)", "3.0.0-rc1"] {
        assert_eq!(git_version(&format!("git version {fine}")), Ok(()));
    }
    let old = git_version("git version 2.38.5").unwrap_err();
    assert!(old.contains("2.39") && old.contains("2.38.5"), "{old}");
    assert!(git_version("git version unknown").is_err());
}

#[test]
fn another_git_of_the_supervisors_is_told_with_both_numbers() {
    assert_eq!(other_git("git version 2.47.3", "git version 2.47.3"), None);
    let other = other_git("git version 2.50.1", "git version 2.39.5").unwrap();
    assert_eq!(other.kind, Kind::GitVersion);
    for number in ["2.50.1", "2.39.5"] {
        assert!(other.says.contains(number), "{other:?}");
    }
}

#[test]
fn files_of_a_city_are_its_owners_alone() {
    let file = |mode, own| Private {
        path: "/city/.horde".into(),
        mode,
        must: 0o700,
        own,
    };
    assert_eq!(permissions(&file(0o700, true)), None);
    let open = permissions(&file(0o755, true)).unwrap();
    assert!(open.fixable && open.says.contains("0755"), "{open:?}");
    let theirs = permissions(&file(0o700, false)).unwrap();
    assert!(!theirs.fixable);
}

#[test]
fn another_hd_shadows_ours_unless_we_are_called_horde() {
    let hexdump = Path::new("/usr/bin/hd");
    let shadows = |own: &str, found| shadowed(Path::new(own), found).is_some();
    assert!(shadows("/opt/bin/hd", Some(hexdump)));
    assert!(!shadows("/opt/bin/hd", Some(Path::new("/opt/bin/hd"))));
    assert!(!shadows("/opt/bin/hd", None));
    assert!(!shadows("/opt/bin/horde", Some(hexdump)));
}

#[test]
fn a_repository_that_lacks_something_needs_an_origin_that_has_it() {
    for (shallow, partial, origin, wrong) in [
        (false, false, false, false),
        (true, false, true, false),
        (false, true, true, false),
        (true, false, false, true),
        (false, true, false, true),
    ] {
        let seen = Ok(Repository {
            shallow,
            partial,
            origin,
        });
        let found = repository("horde", Path::new("/src"), &seen);
        assert_eq!(found.is_some(), wrong, "{seen:?}");
    }
    let none = Err("not a git repository".to_owned());
    assert!(repository("horde", Path::new("/src"), &none).is_some());
}

/// A person must fix them: no remedy is tried.
#[test]
fn lost_and_broken_sandboxes_and_a_missing_program_are_named_with_whom_they_concern() {
    let toast: RaiderId = "horde/raiders/Toast".parse().unwrap();
    let mut facts = healthy();
    let known = |what| (toast.clone(), Probed::Known(what));
    facts.rigs[0].ailing = Probed::Known(vec![
        known(SandboxFault::Gone),
        known(SandboxFault::Broken("its index is missing".into())),
        (toast.clone(), Probed::Unknown("input/output error".into())),
    ]);
    let mut claude = Lacking {
        of: "harness claude".to_owned(),
        program: "claude".to_owned(),
        users: vec!["agent mayor".to_owned(), "rig horde".to_owned()],
        unseen: None,
    };
    facts.lacking = Probed::Known(vec![claude.clone()]);
    assert_eq!(
        found(&facts),
        [
            (Kind::LostSandbox, false),
            (Kind::LostSandbox, false),
            (Kind::Unseen, false),
            (Kind::Program, false)
        ]
    );
    let told = examine(&facts);
    let (broken, program) = (&told[1].finding, &told[3].finding);
    for lost in [&told[0].finding, broken] {
        assert_eq!(lost.subject, "horde/raiders/Toast");
        assert!(lost.hint.contains("hd raider repair horde/raiders/Toast"));
    }
    assert!(
        broken.says.contains("its index is missing"),
        "{}",
        broken.says
    );
    assert_eq!(program.subject, "harness claude");
    for part in ["claude is not in the PATH", "agent mayor, rig horde"] {
        assert!(program.says.contains(part), "{}", program.says);
    }
    claude.unseen = Some("/nfs/claude: input/output error".to_owned());
    facts.lacking = Probed::Known(vec![claude]);
    let told = examine(&facts);
    let unseen = &told.last().unwrap().finding;
    assert_eq!(unseen.kind, Kind::Unseen);
    assert!(
        unseen.says.contains("input/output error"),
        "{}",
        unseen.says
    );
    facts.lacking = Probed::Unknown("the look was cancelled".to_owned());
    let told = examine(&facts);
    let unseen = told.iter().find(|it| it.finding.kind == Kind::Unseen);
    assert_eq!(unseen.unwrap().finding.subject, "programs");
}
