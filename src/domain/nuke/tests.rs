//! Permits, refusals, and work that is saved unasked.

use super::*;
use crate::domain::facts::SessionExit;
use crate::testing::records::{self, oid};

fn clean() -> GitFacts {
    GitFacts {
        branch: Some("raider/Toast/gt-1-1".into()),
        ahead: 1,
        fingerprint: "1".into(),
        ..records::clean(oid('a'))
    }
}

fn evidence(git: Probed<GitFacts>) -> Evidence {
    Evidence {
        raider: "horde/raiders/Toast".parse().unwrap(),
        incarnation: Incarnation(1),
        sandbox: "/city/horde/raiders/Toast".into(),
        session: Probed::Known(Some(last("token", 1))),
        session_runs: false,
        git,
        salvaged: None,
        cause: Cause::Done,
        detected: at(10),
    }
}

fn last(token: &str, generation: u64) -> LastSession {
    LastSession {
        token: token.into(),
        generation: Generation(generation),
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// `witness-patrol.md`, auto-nuke safety protocol, row by row.
#[test]
fn the_safety_table_holds_row_by_row() {
    use CleanupStatus as S;
    let permit = |git: GitFacts| match judge(evidence(Probed::Known(git))) {
        Judgement::Permit(_) => Ok(()),
        Judgement::Skip { status, .. } => Err(("skip", Some(status))),
        Judgement::Escalate { status, .. } => Err(("escalate", status)),
    };
    let with = |change: fn(&mut GitFacts)| {
        let mut git = clean();
        change(&mut git);
        permit(git)
    };
    assert_eq!(permit(clean()), Ok(()));
    let skip = |status| Err(("skip", Some(status)));
    assert_eq!(with(|g| g.dirty.push("a".into())), skip(S::HasUncommitted));
    assert_eq!(
        with(|g| g.untracked.push("a".into())),
        skip(S::HasUncommitted)
    );
    assert_eq!(
        with(|g| g
            .other_work
            .push(OtherWork::unfinished("rebase in progress"))),
        skip(S::HasUncommitted)
    );
    assert_eq!(with(|g| g.stashes.push("wip".into())), skip(S::HasStash));
    let unpushed = Err(("escalate", Some(S::HasUnpushed)));
    assert_eq!(with(|g| g.head_reachable = false), unpushed);
    let both = with(|g| {
        g.head_reachable = false;
        g.dirty.push("a".into());
    });
    assert_eq!(both, unpushed, "the worst decides");
}

/// `product.md`: a report that disagrees is recorded.
#[test]
fn report_disagrees_only_about_facts_that_its_agent_must_know() {
    use CleanupStatus as S;
    let mut unpushed = clean();
    unpushed.head_reachable = false;
    let mut dirty = unpushed.clone();
    dirty.dirty.push("a".into());
    let mut amended = clean();
    amended.other_work.push(OtherWork::left_behind("abc"));
    let wip = S::HasUncommitted;
    for (git, honest, measured) in [
        (clean(), &[S::Clean][..], S::Clean),
        (unpushed, &[S::Clean, S::HasUnpushed], S::Clean),
        (amended, &[S::Clean, S::HasUncommitted], S::Clean),
        (dirty, &[S::HasUnpushed, wip], wip),
    ] {
        for said in [S::Clean, S::HasUncommitted, S::HasStash, S::HasUnpushed] {
            let wrong = (!honest.contains(&said)).then_some(measured);
            assert_eq!(mismatch(said, &git), wrong, "{said:?} of {git:?}");
        }
    }
}

#[test]
fn unprobed_sandbox_is_never_removed() {
    let unknown = evidence(Probed::Unknown("git is broken".into()));
    assert!(matches!(
        judge(unknown),
        Judgement::Escalate { status: None, .. }
    ));
    let mut lost = evidence(Probed::Known(clean()));
    lost.session = Probed::Unknown("no answer".into());
    assert!(matches!(
        judge(lost),
        Judgement::Escalate { status: None, .. }
    ));
    let mut runs = evidence(Probed::Known(clean()));
    runs.session_runs = true;
    assert!(matches!(
        judge(runs),
        Judgement::Escalate { status: None, .. }
    ));
}

/// `witness-patrol.md`, TOCTOU guard: a single differing fact of the session makes the permit stale.
#[test]
fn a_permit_is_for_one_ended_session_and_for_no_other() {
    let exited = RunState::Exited(SessionExit {
        code: Some(1),
        at: at(9),
        ..SessionExit::default()
    });
    let same = SessionFacts {
        id: "horde/raiders/Toast"
            .parse::<RaiderId>()
            .unwrap()
            .session_id(),
        token: "token".into(),
        generation: Generation(1),
        incarnation: Incarnation(1),
        state: exited,
        agent: None,
        holder: None,
        started_at: at(10),
        last_activity: None,
        last_output: None,
        attached: false,
        guessed: false,
    };
    let Judgement::Permit(permit) = judge(evidence(Probed::Known(clean()))) else {
        panic!("no permit");
    };
    assert!(permit.is_for(&same));
    let other = |change: fn(&mut SessionFacts)| {
        let mut other = same.clone();
        change(&mut other);
        permit.is_for(&other)
    };
    assert!(!other(|it| it.token = "recreated".into()));
    assert!(!other(|it| it.generation = Generation(2)));
    assert!(!other(|it| it.incarnation = Incarnation(2)));
    assert!(!other(|it| it.started_at = at(11)), "newer than detection");
    assert!(!other(|it| it.state = RunState::Running));
    assert!(!other(|it| it.state = RunState::Unknown { why: "?".into() }));
    let mut none = evidence(Probed::Known(clean()));
    none.session = Probed::Known(None);
    let Judgement::Permit(none) = judge(none) else {
        panic!("no permit");
    };
    assert!(!none.is_for(&same), "there was none");
}

#[test]
fn commits_left_behind_hold_up_nothing_and_anything_else_does() {
    let mut amended = clean();
    assert!(!only_left_behind(&amended));
    amended.other_work.push(OtherWork::left_behind("abc"));
    assert!(only_left_behind(&amended));
    let but = |change: fn(&mut GitFacts)| {
        let mut git = amended.clone();
        change(&mut git);
        only_left_behind(&git)
    };
    assert!(!but(|g| g.dirty.push("a".into())));
    assert!(!but(|g| g.untracked.push("a".into())));
    assert!(!but(|g| g.stashes.push("wip".into())));
    assert!(!but(|g| g.head_reachable = false));
    assert!(!but(|g| g.other_work.push(OtherWork::damaged("abc"))));
    assert!(!but(|g| g
        .other_work
        .push(OtherWork::unfinished("rebase in progress"))));
}

#[test]
fn salvage_permits_only_the_state_that_it_was_written_from() {
    let mut dirty = clean();
    dirty.dirty.push("a".into());
    let mut salvaged = evidence(Probed::Known(dirty.clone()));
    salvaged.salvaged = Some(dirty.clone());
    assert!(matches!(judge(salvaged), Judgement::Permit(_)));
    let mut newer = dirty.clone();
    newer.untracked.push("b".into());
    let mut edited = dirty.clone();
    edited.fingerprint = "2".into();
    for changed in [newer, edited] {
        let mut stale = evidence(Probed::Known(changed));
        stale.salvaged = Some(dirty.clone());
        assert!(matches!(judge(stale), Judgement::Skip { .. }));
    }
}
