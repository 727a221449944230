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
        inputs: None,
    }
}

/// The prompt after this number of pastes.
fn pasted_so_often(times: u32) -> Pasted {
    let (_, stands) = unsubmitted::rest(None, "do it", &line("")).unwrap();
    Pasted::new(stands, times)
}

fn pasted() -> Stage {
    Stage::Pasted(pasted_so_often(1))
}

/// A screen with this input line, and the cursor after it.
fn line(text: &str) -> ScreenView {
    ScreenView {
        cursor: Some((0, u16::try_from(text.len()).unwrap())),
        ..ScreenView::of_text(text)
    }
}

fn inputs(begun: u64, taken: u64) -> Option<Inputs> {
    Some(Inputs { begun, taken })
}

fn sent(pasted: Option<Pasted>) -> Stage {
    let before = inputs(1, 1);
    Stage::Sent { before, pasted }
}

#[track_caller]
fn check(stage: &Stage, screen: &Screen, expected: &Next) {
    let look = Look::Screen(screen.clone());
    let next = next(stage, LINES, &look, SECOND * 60);
    assert_eq!(&next, expected, "{stage:?} {screen:?}");
}

#[test]
fn each_stage_and_screen_has_its_next_step() {
    let back = Next::KeptBack;
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
    let at = |keys, age| next(&Stage::Untyped, LINES, &blank(keys), age);
    assert_eq!(at(false, SECOND), Next::Soon);
    assert_eq!(at(false, SILENT), Next::Type);
    assert_eq!(at(true, SECOND), Next::Type);
}

#[test]
fn session_that_cannot_be_seen_keeps_the_prompt_back_and_one_that_has_ended_does_not() {
    for stage in [Stage::Untyped, pasted(), sent(None), Stage::End] {
        let at = |look: Look| next(&stage, LINES, &look, SECOND);
        assert_eq!(at(Look::Gone), Next::Over);
        let unseen = Reason::Unseen("why".to_owned());
        let expected = Next::KeptBack(unseen);
        assert_eq!(at(Look::Unseen("why".to_owned())), expected);
    }
}

#[test]
fn pasted_prompt_counts_as_typed_once_submitted_and_is_not_pasted_again_otherwise() {
    let look = Look::Screen(screen(Takes::Known));
    let mut submitted = pasted_so_often(1);
    assert!(!submitted.begins(), "another text, if it is not seen");
    submitted.observe(&line("> do it"), None);
    assert!(submitted.begins());
    let submitted = next(&Stage::Pasted(submitted), "do it", &look, SECOND);
    assert_eq!(submitted, Next::Becomes(Stage::Paid));
    let look = Look::Screen(screen(Takes::Text));
    let again = |pasted| next(&Stage::Pasted(pasted), LINES, &look, SECOND);
    assert_eq!(again(pasted_so_often(MOST_PASTES - 1)), Next::Type);
    let mut last = pasted_so_often(MOST_PASTES);
    assert_eq!(again(last.clone()), Next::KeptBack(Reason::Unsubmitted));
    last.observe(&line("> do it"), None);
    assert_eq!(again(last), Next::Type, "only Enter is needed");
}

/// Only that person knows if the prompt was submitted.
#[test]
fn prompt_that_vanishes_from_the_input_line_beside_a_person_is_for_them() {
    let look = Look::Screen(screen(Takes::Text));
    let again = |pasted: &Pasted| next(&Stage::Pasted(pasted.clone()), LINES, &look, SECOND);
    let doubtful = Next::KeptBack(Reason::Doubtful);
    let mut seen = pasted_so_often(1);
    seen.observe(&line("> "), Some(true));
    assert_eq!(again(&seen), Next::Type, "it never stood there");
    seen.observe(&line("> do it"), Some(true));
    let mut left = seen.clone();
    seen.observe(&line("> "), Some(false));
    assert_eq!(again(&seen), doubtful);
    left.observe(&line("> do it"), Some(false));
    left.observe(&line("> "), Some(false));
    assert_eq!(again(&left), Next::Type, "they left it standing");
    let mut pressed = pasted_so_often(1);
    pressed.observe(&line("> do it"), Some(false));
    pressed.pressed();
    pressed.observe(&line("> "), Some(false));
    assert_eq!(again(&pressed), doubtful);
    let mut unwatched = pasted_so_often(1);
    unwatched.observe(&line("> do it"), Some(false));
    let mut unwatched = unwatched.unwatched();
    assert_eq!(again(&unwatched), Next::Type, "only Enter is needed");
    unwatched.observe(&line("> "), Some(false));
    assert_eq!(again(&unwatched), doubtful);
}

#[test]
fn prompt_that_was_sent_is_typed_again_only_if_nothing_of_it_was_taken() {
    let seen = |inputs, is_full| Screen {
        inputs,
        is_full,
        ..screen(Takes::Known)
    };
    let unsure = Next::KeptBack(Reason::Unsure);
    for (now, is_full, expected) in [
        (inputs(2, 2), false, Next::Becomes(Stage::End)),
        (inputs(2, 1), true, Next::KeptBack(Reason::Draining)),
        (inputs(1, 1), true, Next::KeptBack(Reason::Draining)),
        (inputs(1, 1), false, Next::Becomes(Stage::Untyped)),
        (inputs(2, 1), false, unsure.clone()),
        (None, true, Next::KeptBack(Reason::Draining)),
        (None, false, unsure),
    ] {
        check(&sent(None), &seen(now, is_full), &expected);
    }
    // After its Enter was sent, the screen decides.
    let stood = pasted_so_often(1);
    let entered = sent(Some(stood.clone()));
    let back = Next::Becomes(Stage::Pasted(stood.clone()));
    check(&entered, &seen(inputs(1, 1), false), &back);
    let doubtful = stood.entered();
    assert!(doubtful.is_doubtful());
    let doubtful = Next::Becomes(Stage::Pasted(doubtful));
    check(&entered, &seen(inputs(2, 1), false), &doubtful);
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
        sent(None),
        Stage::Untyped,
        pasted(),
        Stage::End,
        Stage::Paid,
    ] {
        let (key, text) = stage.fact();
        facts.insert(key, text);
        let expected = match stage {
            // It is unknown what happened while no supervisor ran.
            Stage::Pasted(pasted) => Stage::Pasted(pasted.unwatched()),
            stage => stage,
        };
        assert_eq!(read(&facts), expected);
    }
    assert_eq!(Stage::read(None, None), Stage::Paid);
    let other = Stage::read(Some(LINES), Some("{\"draining\":{\"dropped\":7}}"));
    let look = Look::Screen(screen(Takes::Text));
    let unsure = Next::KeptBack(Reason::Unsure);
    assert_eq!(next(&other, LINES, &look, SECOND), unsure);
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
