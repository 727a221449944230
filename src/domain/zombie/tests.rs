//! The rules table, row by row.

use super::*;

const GRACE: Duration = Duration::from_secs(300);
const OLD: Duration = Duration::from_secs(3600);
const POLICY: Policy = Policy {
    spawn_grace: GRACE,
    done_intent_timeout: Duration::from_secs(60),
};

fn done(silent: u64, excused: bool) -> WorkState {
    let silent = Duration::from_secs(silent);
    WorkState::Done { silent, excused }
}

fn up(agent: Option<bool>) -> Probed<Session> {
    Probed::Known(Session::Up { age: OLD, agent })
}

const DEAD: Probed<Session> = Probed::Known(Session::Dead);

fn facts(work: WorkState, session: Probed<Session>) -> Facts {
    Facts {
        work,
        session,
        age: Some(OLD),
        quarantined: false,
    }
}

fn of(facts: &Facts) -> Option<(Class, Act)> {
    judge(facts, &POLICY)
}

/// `witness-patrol.md`, zombie detection algorithm: each class with its condition, and similar cases that are no
/// zombies.
#[test]
fn the_table_holds_row_by_row() {
    use Class::{AgentDead, SessionDead};
    let quarantined = |session| Facts {
        quarantined: true,
        ..facts(WorkState::Open, session)
    };
    for (what, facts, verdict) in [
        // "Session gone + agent_state = working", where the root will not restart it.
        (
            "class 1: quarantined",
            quarantined(DEAD),
            Some((SessionDead, Act::Remove)),
        ),
        (
            "class 1: hook gone",
            facts(WorkState::Gone, DEAD),
            Some((SessionDead, Act::Remove)),
        ),
        (
            "class 1: relic closed",
            facts(WorkState::Closed, DEAD),
            Some((SessionDead, Act::Remove)),
        ),
        ("a death is respawned", facts(WorkState::Open, DEAD), None),
        (
            "retried after quarantine",
            quarantined(up(Some(true))),
            None,
        ),
        (
            "an end after done is no death",
            facts(done(999, false), DEAD),
            None,
        ),
        (
            "a session without a hook",
            facts(WorkState::Gone, up(None)),
            None,
        ),
        // "Session exists + agent process dead inside".
        (
            "class 2",
            facts(WorkState::Open, up(Some(false))),
            Some((AgentDead, Act::Replace)),
        ),
        ("agent runs", facts(WorkState::Open, up(Some(true))), None),
        ("agent unknown", facts(WorkState::Open, up(None)), None),
    ] {
        assert_eq!(of(&facts), verdict, "{what}");
    }
}

/// The other half of the algorithm, and facts that could not be observed.
#[test]
fn the_table_goes_on() {
    use Class::{RelicClosed, StuckInDone};
    let unknown = || Probed::Unknown("no answer".to_owned());
    let quarantined = Facts {
        quarantined: true,
        ..facts(WorkState::Open, unknown())
    };
    for (what, facts, verdict) in [
        // "done-intent label >60s old + session still alive".
        (
            "class 3",
            facts(done(61, false), up(Some(true))),
            Some((StuckInDone, Act::End)),
        ),
        (
            "class 3 before class 2",
            facts(done(61, false), up(Some(false))),
            Some((StuckInDone, Act::End)),
        ),
        (
            "its minute is not over",
            facts(done(60, false), up(None)),
            None,
        ),
        (
            "a blocked push is no zombie",
            facts(done(999, true), up(None)),
            None,
        ),
        // "Agent marked alive + hooked bead is closed".
        (
            "class 4",
            facts(WorkState::Closed, up(Some(true))),
            Some((RelicClosed, Act::EndAndRemove)),
        ),
        (
            "class 4, unseen",
            facts(WorkState::Closed, unknown()),
            Some((RelicClosed, Act::EndAndRemove)),
        ),
        ("unknown 1", facts(WorkState::Gone, unknown()), None),
        ("unknown 1, quarantined", quarantined, None),
        ("unknown 2", facts(WorkState::Open, unknown()), None),
        ("unknown 3", facts(done(999, false), unknown()), None),
    ] {
        assert_eq!(of(&facts), verdict, "{what}");
    }
}

#[test]
fn young_raiders_are_not_judged_by_their_processes() {
    for (age, judged) in [
        (Some(Duration::ZERO), false),
        (Some(GRACE - Duration::from_millis(1)), false),
        (Some(GRACE), true),
        (None, true),
    ] {
        let mut gone = facts(WorkState::Gone, DEAD);
        gone.age = age;
        assert_eq!(of(&gone).is_some(), judged, "{age:?}");
        let Some(age) = age else { continue };
        let agent = Some(false);
        let shell = facts(WorkState::Open, Probed::Known(Session::Up { age, agent }));
        assert_eq!(of(&shell).is_some(), judged, "a session of {age:?}");
    }
    let mut closed = facts(WorkState::Closed, DEAD);
    closed.age = Some(Duration::ZERO);
    let ended = Some((Class::RelicClosed, Act::EndAndRemove));
    assert_eq!(of(&closed), ended, "that is not told from its session");
}

#[test]
fn the_name_in_events_is_the_serde_name() {
    for (class, _, _) in RULES {
        let json = serde_json::to_value(class).unwrap();
        assert_eq!(json, class.as_str());
    }
}
