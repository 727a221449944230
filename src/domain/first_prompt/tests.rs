//! The course of a first prompt, step by step.

use super::*;
use crate::domain::screen::ScreenView;
use crate::domain::unsubmitted;

const SECOND: Duration = Duration::from_secs(1);
const LINES: &str = "do it\n\u{4}";

fn screen(takes: Takes) -> Screen {
    Screen {
        takes,
        reads_keys: false,
        is_blank: false,
        moves: false,
        is_full: false,
        dropped: 0,
    }
}

fn pasted() -> Stage {
    let (_, stands) = unsubmitted::rest(None, "do it", &ScreenView::default()).unwrap();
    Stage::Pasted(stands)
}

#[track_caller]
fn check(stage: &Stage, screen: &Screen, expected: &Next) {
    let look = Look::Screen(screen.clone());
    let next = next(stage, LINES, &look, (SECOND * 60, 0, false));
    assert_eq!(&next, expected, "{stage:?} {screen:?}");
}

#[test]
fn each_stage_and_screen_has_its_next_step() {
    let back = Next::KeptBack;
    let draining = || Stage::Draining { dropped: 1 };
    let full = |takes| Screen {
        is_full: true,
        ..screen(takes)
    };
    for (takes, first, end) in [
        (Takes::Text, Next::Type, Next::End),
        (Takes::Known, Next::Rest, Next::Rest),
        (Takes::Begun, back(Reason::Begun), back(Reason::Begun)),
        (Takes::Unknown, back(Reason::Unknown), Next::End),
    ] {
        check(&Stage::Untyped, &screen(takes), &first);
        check(&pasted(), &screen(takes), &first);
        check(&Stage::End, &screen(takes), &end);
        check(&draining(), &full(takes), &back(Reason::Draining));
        check(&draining(), &screen(takes), &Next::Becomes(Stage::End));
        check(&Stage::Paid, &screen(takes), &Next::Over);
    }
    for stage in [Stage::Untyped, pasted(), Stage::End] {
        check(&stage, &full(Takes::Text), &back(Reason::Full));
    }
    let keys = Screen {
        reads_keys: true,
        ..screen(Takes::Text)
    };
    check(&Stage::End, &keys, &Next::Becomes(Stage::Paid));
    let lost = Screen {
        dropped: 2,
        ..screen(Takes::Text)
    };
    check(&draining(), &lost, &Next::Becomes(Stage::Untyped));
    let moves = Screen {
        moves: true,
        ..screen(Takes::Text)
    };
    check(&Stage::Untyped, &moves, &Next::Soon);
    check(&Stage::End, &moves, &Next::End);
}

#[test]
fn blank_screen_of_a_program_that_reads_lines_is_waited_for() {
    let blank = |reads_keys| {
        let takes = Takes::Text;
        Look::Screen(Screen {
            is_blank: true,
            reads_keys,
            ..screen(takes)
        })
    };
    let at = |keys, age| next(&Stage::Untyped, LINES, &blank(keys), (age, 0, false));
    assert_eq!(at(false, SECOND), Next::Soon);
    assert_eq!(at(false, SILENT), Next::Type);
    assert_eq!(at(true, SECOND), Next::Type);
}

#[test]
fn session_that_cannot_be_seen_keeps_the_prompt_back_and_one_that_has_ended_does_not() {
    for stage in [
        Stage::Untyped,
        pasted(),
        Stage::Draining { dropped: 0 },
        Stage::End,
    ] {
        let at = |look: Look| next(&stage, LINES, &look, (SECOND, 0, false));
        assert_eq!(at(Look::Gone), Next::Over);
        let unseen = Reason::Unseen("why".to_owned());
        let expected = Next::KeptBack(unseen);
        assert_eq!(at(Look::Unseen("why".to_owned())), expected);
    }
}

#[test]
fn pasted_prompt_that_somebody_submitted_is_typed_and_one_that_is_never_submitted_is_pasted_no_more()
 {
    let look = Look::Screen(screen(Takes::Known));
    let submitted = next(&pasted(), "do it", &look, (SECOND, 1, true));
    assert_eq!(submitted, Next::Becomes(Stage::Paid));
    let look = Look::Screen(screen(Takes::Text));
    let again = |pastes| next(&pasted(), LINES, &look, (SECOND, pastes, false));
    assert_eq!(again(MOST_PASTES - 1), Next::Type);
    assert_eq!(again(MOST_PASTES), Next::KeptBack(Reason::Unsubmitted));
}

#[test]
fn stage_is_read_from_the_facts_that_it_was_written_to() {
    let mut facts = std::collections::BTreeMap::from([(OWED, LINES.to_owned())]);
    let read = |facts: &std::collections::BTreeMap<&str, String>| {
        let fact = |key| facts.get(key).map(String::as_str);
        Stage::read(fact(OWED), fact(COURSE))
    };
    assert_eq!(read(&facts), Stage::Untyped);
    for stage in [
        pasted(),
        Stage::Draining { dropped: 7 },
        Stage::Untyped,
        pasted(),
        Stage::End,
        Stage::Paid,
    ] {
        let (key, text) = stage.fact();
        facts.insert(key, text);
        assert_eq!(read(&facts), stage);
    }
    assert_eq!(Stage::read(None, None), Stage::Paid);
}

#[test]
fn delay_counts_from_its_first_reason_and_calls_once_for_each() {
    let mut delay = Delay::default();
    let unseen = |why: &str| Reason::Unseen(why.to_owned());
    assert_eq!(delay.goes_on(&Reason::Begun, SECOND), Tell::Nothing);
    assert_eq!(delay.goes_on(&unseen("a"), SECOND * 20), Tell::Nothing);
    assert_eq!(delay.goes_on(&Reason::Begun, SECOND + LONG), Tell::Call);
    assert_eq!(delay.goes_on(&Reason::Begun, SECOND + LONG), Tell::Call);
    delay.called(&Reason::Begun);
    assert_eq!(delay.goes_on(&Reason::Begun, SECOND + LONG), Tell::Show);
    assert_eq!(delay.goes_on(&unseen("a"), SECOND + LONG), Tell::Call);
    delay.called(&unseen("a"));
    assert_eq!(delay.goes_on(&unseen("b"), SECOND + LONG), Tell::Show);
    delay.ends();
    assert_eq!(delay.goes_on(&Reason::Begun, SECOND * 99), Tell::Nothing);
}

#[test]
fn reasons_are_told_as_sentences_that_name_the_session() {
    let refused = Reason::Refused(
        "a dialog is open:".to_owned(),
        "`hd answer NAME CHOICE` answers it".to_owned(),
    );
    assert_eq!(refused.text(), "a dialog is open");
    assert_eq!(
        refused.advice("Toast"),
        "`hd answer Toast CHOICE` answers it."
    );
    assert_eq!(
        Reason::Refused(String::new(), String::new()).advice("x"),
        ""
    );
    assert!(
        Reason::Unknown
            .advice("Toast")
            .contains("`hd attach Toast`")
    );
}
