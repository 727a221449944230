//! Sightings and reports, and the notices about them.

use super::*;
use crate::domain::account::Why;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn patterns() -> Patterns {
    let pattern = |text: &str| vec![Pattern::new(text).unwrap()];
    Patterns {
        asks: pattern("^Allow"),
        input: pattern("^❯ $"),
        working: pattern("esc to interrupt"),
        limit: pattern(r"hit your limit · resets (?P<until>.+)$"),
        auth: pattern("Please run /login"),
    }
}

fn seen(text: &str) -> Sighting {
    let view = ScreenView::of_text(text);
    judge(&patterns(), &view, at(0), &TimeZone::UTC)
}

fn word(sighting: &Sighting) -> Option<&'static str> {
    sighting.condition.as_ref().map(Condition::word)
}

/// A screen with this question, or without any.
fn question(text: Option<&str>) -> Sighting {
    let condition = text.map(|text| Condition::NeedsInput {
        question: text.to_owned(),
        choices: Vec::new(),
    });
    Sighting {
        condition,
        ..Sighting::default()
    }
}

#[test]
fn screen_shows_a_question_a_limit_or_a_login() {
    let limit = "You've hit your limit · resets 9am (UTC)\n";
    for (text, expected) in [
        ("working", None),
        ("Allow this?", Some("needs_input")),
        (limit, Some("rate_limited")),
        ("Not logged in · Please run /login", Some("auth")),
        (
            "hit your limit · resets 9am\nWhat now?\n❯ 1. Wait\n  2. Stop",
            Some("rate_limited"),
        ),
    ] {
        assert_eq!(word(&seen(text)), expected, "{text}");
    }
    let gone_on = seen(&format!("{limit}\n* Thinking (esc to interrupt)"));
    assert_eq!((word(&gone_on), gone_on.goes_on), (None, true));
    let until = seen(limit).condition.and_then(|limit| limit.until());
    assert!(until.is_some_and(|until| until > at(0)));
}

#[test]
fn screen_is_looked_at_again_when_something_was_written() {
    let mut watch = Watch::new("t");
    assert!(watch.holds() && !watch.is_fresh(None), "never seen");
    watch.observe(question(None), Some(at(10)), at(11));
    assert!(
        !watch.holds() && !watch.is_fresh(Some(at(10))),
        "not settled"
    );
    watch.observe(question(None), Some(at(10)), at(12));
    assert!(watch.is_fresh(Some(at(10))));
    assert!(!watch.is_fresh(Some(at(13))) && !watch.is_fresh(None));
    watch.missed();
    assert!(watch.holds() && !watch.is_known() && !watch.is_fresh(Some(at(10))));
    watch.observe(question(Some("a")), None, at(13));
    assert!(watch.holds() && watch.is_known());
    watch.missed();
    assert!(watch.holds() && !watch.is_known(), "it may be answered");
}

#[test]
fn each_condition_is_told_once_and_a_flickering_one_seldom() {
    let mut watch = Watch::new("t");
    let mut look = |second: i64, text: Option<&str>| {
        watch.observe(question(text), None, at(second));
        watch.due_notice(at(second)).is_some()
    };
    assert!(!look(0, None));
    assert!(look(1, Some("a")), "at once");
    assert!(!look(100, Some("a")), "told before");
    assert!(look(101, Some("b")), "another one");
    assert!(!look(102, None));
    assert!(!look(103, Some("b")), "too soon");
    assert!(look(162, Some("b")), "but not forgotten");
    assert!(!look(164, Some("c")));
    assert!(!look(165, None), "answered meanwhile");
    assert!(look(10, Some("d")), "a clock that was set back");
    assert!(look(300, Some("Allow? (23s)")));
    assert!(!look(400, Some("Allow? (22s)")), "a counter");
}

#[test]
fn end_of_a_condition_is_told_once() {
    let mut watch = Watch::new("t");
    watch.observe(question(Some("a")), None, at(1));
    assert!(watch.due_notice(at(1)).is_some() && watch.end_notice().is_none());
    watch.observe(question(None), None, at(2));
    assert!(watch.end_notice().is_some_and(|over| over.text() == "a"));
    assert_eq!(watch.end_notice(), None);
}

#[test]
fn report_of_a_question_holds_until_the_screen_shows_that_it_goes_on() {
    let mut watch = Watch::new("t");
    let asks = Report::Asks {
        question: "Red?".into(),
        choices: vec!["yes".into()],
    };
    watch.reported(&asks, at(0));
    assert!(watch.is_known() && watch.due_notice(at(0)).is_some());
    watch.observe(question(None), None, at(10));
    assert!(watch.is_known(), "a screen that says nothing ends nothing");
    let goes_on = Sighting {
        goes_on: true,
        ..Sighting::default()
    };
    watch.observe(goes_on.clone(), None, at(1));
    assert!(watch.is_known(), "the dialog may not be drawn yet");
    watch.observe(goes_on, None, at(4));
    assert!(!watch.is_known());
    watch.reported(&asks, at(5));
    watch.reported(&Report::Works, at(6));
    assert!(!watch.is_known(), "answered");
}

/// Esc closes a dialog, and no hook reports it.
#[test]
fn reported_question_is_over_as_soon_as_its_dialog_has_gone() {
    let mut watch = Watch::new("t");
    let asks = Report::Asks {
        question: "Red?".into(),
        choices: Vec::new(),
    };
    let waits = seen("done\n❯ ");
    watch.reported(&asks, at(0));
    assert_eq!(watch.look_again(at(1)), Some(Duration::from_secs(2)));
    watch.observe(waits.clone(), None, at(0));
    assert!(watch.is_known(), "the dialog may not be drawn yet");
    watch.observe(seen("Allow Red?"), None, at(1));
    assert!(watch.is_known());
    watch.observe(waits.clone(), None, at(2));
    assert!(!watch.is_known(), "it was drawn, and has gone");
    assert_eq!(watch.look_again(at(2)), None);
    watch.reported(&asks, at(3));
    watch.observe(waits, None, at(3));
    assert!(watch.is_known(), "the next one");
}

#[test]
fn limit_that_is_over_stays_over_while_its_text_is_on_the_screen() {
    let mut watch = Watch::new("t");
    let limit = seen("hit your limit · resets 9am (UTC)");
    watch.observe(limit.clone(), None, at(1));
    assert_eq!(watch.condition().map(Condition::word), Some("rate_limited"));
    watch.reported(&Report::Works, at(2));
    watch.observe(limit.clone(), None, at(3));
    assert_eq!(watch.condition(), None);
    let other = seen("hit your limit · resets 11pm (UTC)");
    watch.observe(other, None, at(4));
    assert_eq!(watch.condition().map(Condition::word), Some("rate_limited"));
}

#[test]
fn same_limit_is_a_new_one_when_its_text_is_there_once_more() {
    let text = "hit your limit · resets 9am (UTC)\n";
    let (once, twice) = (seen(text), seen(&text.repeat(2)));
    let mut watch = Watch::new("t");
    watch.observe(once.clone(), None, at(1));
    watch.pass();
    watch.observe(once.clone(), None, at(2));
    assert_eq!(watch.condition(), None, "the old text");
    watch.observe(twice, None, at(3));
    assert!(watch.condition().is_some(), "a second one");
    watch.pass();
    watch.observe(seen("nothing"), None, at(4));
    watch.observe(once, None, at(5));
    assert!(watch.condition().is_some(), "the first had left the screen");
}

#[test]
fn account_is_told_once_of_each_limit_and_of_its_end() {
    let mut watch = Watch::new("t");
    let limit = seen("hit your limit · resets 9am (UTC)");
    let told = AccountReport::of(limit.condition.as_ref().unwrap()).map(AccountNews::Told);
    watch.observe(limit.clone(), None, at(1));
    assert_eq!(watch.account_news(), told);
    watch.observe(limit, None, at(2));
    assert_eq!(watch.account_news(), None, "known");
    watch.observe(seen("another screen"), None, at(3));
    assert_eq!(
        watch.account_news(),
        None,
        "the text is gone, the limit is not"
    );
    let busy = seen("* Thinking (esc to interrupt)");
    watch.observe(busy.clone(), Some(at(4)), at(4));
    assert_eq!(watch.account_news(), None, "it may be refused again");
    assert!(!watch.is_fresh(Some(at(4))), "a later look decides");
    watch.observe(busy, Some(at(4)), at(14));
    assert_eq!(watch.account_news(), Some(AccountNews::Over));
    assert_eq!(watch.account_news(), None);
    assert!(watch.is_fresh(Some(at(4))));
}

/// The first prompt of a session comes after its first screen, and a person may type another: each is refused again.
#[test]
fn prompt_that_was_submitted_ends_no_limit_and_no_login() {
    let texts = ["Please run /login", "hit your limit · resets 9am (UTC)"];
    for text in texts {
        let (at_rest, busy) = (
            seen(&format!("{text}\n❯ ")),
            seen(&format!("{text}\n* Thinking (esc to interrupt)")),
        );
        let mut watch = Watch::new("t");
        watch.observe(at_rest.clone(), None, at(1));
        let told = watch.account_news();
        assert!(matches!(told, Some(AccountNews::Told(_))), "{text}");
        assert!(watch.due_notice(at(1)).is_some());
        for (second, look) in [(2, &busy), (4, &busy), (5, &at_rest), (200, &at_rest)] {
            if second == 2 {
                watch.reported(&Report::Begins, at(second));
            }
            watch.observe(look.clone(), None, at(second));
            assert!(watch.is_known(), "{text} at {second}");
            assert_eq!(watch.account_news(), None, "{text} at {second}");
            assert_eq!(watch.end_notice(), None, "{text} at {second}");
        }
        // The program may try for long: only its hooks report an answer.
        watch.reported(&Report::Begins, at(300));
        for second in (300..400).step_by(5) {
            watch.observe(busy.clone(), None, at(second));
            assert_eq!(watch.account_news(), None, "{text} at {second}");
        }
        assert!(watch.end_notice().is_some(), "it works, as far as is seen");
        watch.reported(&Report::Waits, at(400));
        watch.observe(at_rest.clone(), None, at(401));
        assert!(watch.is_known(), "{text}: it was in vain");
        assert_eq!(watch.account_news(), None, "{text}: known");
        watch.reported(&Report::Begins, at(500));
        watch.reported(&Report::Answers, at(501));
        assert_eq!(watch.account_news(), Some(AccountNews::Over), "{text}");
        watch.observe(at_rest, None, at(502));
        assert_eq!(watch.condition(), None, "{text} is old");
    }
}

/// A login may be made in the session itself: its screen then shows no request any more, and no hook reports it.
#[test]
fn screen_that_shows_no_login_any_more_ends_one_after_a_while() {
    let mut watch = Watch::new("t");
    watch.reported(&Report::Begins, at(0));
    watch.observe(seen("Please run /login\n❯ "), None, at(1));
    assert!(matches!(watch.account_news(), Some(AccountNews::Told(_))));
    watch.observe(seen("❯ "), Some(at(2)), at(2));
    assert_eq!(watch.account_news(), None, "the rest may not be drawn yet");
    watch.observe(seen("Please run /login\n❯ "), None, at(3));
    watch.observe(seen("❯ "), Some(at(20)), at(20));
    assert!(!watch.is_fresh(Some(at(20))));
    watch.observe(seen("❯ "), Some(at(20)), at(30));
    assert_eq!(watch.account_news(), Some(AccountNews::Over));
}

/// An account that missed the news gets it again, even without new output.
#[test]
fn screen_is_looked_at_again_until_the_account_was_told() {
    let mut watch = Watch::new("t");
    watch.observe(seen("Please run /login"), Some(at(0)), at(10));
    assert!(matches!(watch.account_news(), Some(AccountNews::Told(_))));
    assert!(watch.is_fresh(Some(at(0))));
    watch.forget_account();
    assert!(!watch.is_fresh(Some(at(0))));
    watch.observe(seen("Please run /login"), Some(at(0)), at(40));
    assert!(matches!(watch.account_news(), Some(AccountNews::Told(_))));
}

/// A limit that a program reports again is new, although its screen still shows the text once.
#[test]
fn limit_that_is_reported_again_is_shown_again() {
    let limit = seen("hit your limit · resets 9am (UTC)\n❯ ");
    let mut watch = Watch::new("t");
    watch.observe(limit.clone(), None, at(1));
    watch.pass();
    watch.observe(limit.clone(), None, at(2));
    assert_eq!(watch.condition(), None);
    let again = Report::Limited {
        text: "hit your limit".into(),
        until: None,
    };
    watch.reported(&again, at(3));
    watch.observe(limit, None, at(10));
    assert_eq!(watch.condition().map(Condition::word), Some("rate_limited"));
}

/// copilot looks busy while it waits for the end of a limit.
#[test]
fn reported_limit_holds_while_its_program_only_looks_busy() {
    let limit = Report::Limited {
        text: "Rate limit reached".into(),
        until: Some(at(600)),
    };
    let mut watch = Watch::new("t");
    watch.reported(&limit, at(0));
    assert!(matches!(watch.account_news(), Some(AccountNews::Told(_))));
    let busy = seen("* Thinking (esc to interrupt)");
    watch.observe(busy.clone(), None, at(300));
    assert_eq!(watch.condition().map(Condition::word), Some("rate_limited"));
    assert_eq!(watch.account_news(), None, "a spinner is no end of it");
    watch.observe(busy.clone(), None, at(601));
    assert_eq!(watch.condition(), None, "its time is over");
    assert_eq!(watch.account_news(), None, "the account has a clock");
    watch.reported(&limit, at(0));
    watch.reported(&Report::Works, at(10));
    assert_eq!(watch.condition(), None, "it went on earlier");
    watch.reported(&limit, at(0));
    watch.observe(seen("done\n❯ "), None, at(10));
    assert_eq!(watch.condition(), None, "it waits for text");
}

/// A session may report anything, and its text is sent to people.
#[test]
fn reported_question_is_cut() {
    let mut watch = Watch::new("t");
    let asks = Report::Asks {
        question: "q".repeat(60_000),
        choices: vec!["c".repeat(60_000); 500],
    };
    watch.reported(&asks, at(0));
    let Some(Condition::NeedsInput { question, choices }) = watch.condition() else {
        panic!("it asks");
    };
    assert!(question.len() <= 1000 && choices.len() <= 32);
    assert!(choices.iter().all(|choice| choice.len() <= 1000));
}

/// A limit stays in the row until it ends, although a limit first seen so late does not count.
#[test]
fn limit_is_shown_until_its_end_and_not_only_until_a_minute_before() {
    let text = "hit your limit · resets 2027-01-15T08:05:00Z";
    let look = |now| {
        let view = ScreenView::of_text(text);
        judge(&patterns(), &view, now, &TimeZone::UTC)
    };
    assert_eq!(at(300).to_string(), "2027-01-15T08:05:00Z");
    let mut late = Watch::new("t");
    late.observe(look(at(250)), None, at(250));
    assert_eq!(late.condition(), None, "the program waits for it by itself");
    let mut watch = Watch::new("t");
    watch.observe(look(at(10)), None, at(10));
    watch.observe(look(at(250)), None, at(250));
    watch.observe(look(at(299)), None, at(299));
    assert_eq!(watch.condition().map(Condition::word), Some("rate_limited"));
    watch.observe(look(at(300)), None, at(300));
    assert_eq!(watch.condition(), None, "its time is over");
}

/// The session is told to go on at its turn, although its limit is no condition any more: the end passed between two
/// looks.
#[test]
fn session_is_told_of_a_passed_limit_at_its_turn() {
    let text = "hit your limit · resets 2027-01-15T08:05:00Z";
    let look = |text: &str, now| {
        let view = ScreenView::of_text(text);
        judge(&patterns(), &view, now, &TimeZone::UTC)
    };
    let mut first = Watch::new("t");
    first.observe(look(text, at(400)), None, at(400));
    assert_eq!(first.condition(), None);
    assert_eq!(first.trouble().map(|it| it.why), Some(Why::RateLimited));
    first.pass();
    first.observe(look(text, at(401)), None, at(401));
    assert_eq!(first.trouble(), None, "it was told");
    first.missed();
    first.observe(look(text, at(402)), None, at(402));
    assert_eq!(
        first.trouble(),
        None,
        "its old text is not a first one again"
    );
    let mut kept = Watch::new("t");
    kept.observe(look(text, at(10)), None, at(10));
    kept.observe(look(text, at(301)), None, at(301));
    kept.observe(look(text, at(330)), None, at(330));
    assert_eq!(kept.condition(), None);
    assert!(kept.trouble().is_some());
    kept.reported(&Report::Works, at(340));
    kept.observe(look(text, at(341)), None, at(341));
    assert_eq!(kept.trouble(), None, "it went on by itself");
}

/// A session that could not be seen at its turn would park its account again because of an old text.
#[test]
fn account_is_not_told_of_a_screen_that_is_hidden() {
    let mut watch = Watch::new("t");
    watch.observe(seen("hit your limit · resets 3pm"), None, at(0));
    assert!(matches!(watch.account_news(), Some(AccountNews::Told(_))));
    watch.missed();
    watch.forget_account();
    assert_eq!(watch.account_news(), None);
    watch.observe(seen("hit your limit · resets 3pm"), None, at(10));
    assert!(matches!(watch.account_news(), Some(AccountNews::Told(_))));
}

/// A text with a relative time stays on the screen as it is.
#[test]
fn end_of_a_limit_is_counted_from_when_its_text_came_up() {
    let (text, mut watch) = ("hit your limit · resets in 10m", Watch::new("t"));
    let mut until = |times: usize, second: i64| {
        let view = ScreenView::of_text(&format!("{text}\n").repeat(times));
        let sighting = judge(&patterns(), &view, at(second), &TimeZone::UTC);
        watch.observe(sighting, None, at(second));
        watch.condition().and_then(Condition::until)
    };
    assert_eq!(until(1, 0), Some(at(600)));
    assert_eq!(until(1, 300), Some(at(600)), "the same text");
    assert_eq!(until(2, 400), Some(at(1000)), "it was said once more");
    assert_eq!(until(1, 500), Some(at(1000)), "the first left the screen");
}

/// The trouble ends when its session works, even if the text stays on its screen.
#[test]
fn report_of_work_is_the_end_for_the_account() {
    let mut watch = Watch::new("t");
    watch.observe(seen("Please run /login"), None, at(1));
    assert!(matches!(watch.account_news(), Some(AccountNews::Told(_))));
    watch.reported(&Report::Works, at(2));
    assert_eq!(watch.account_news(), Some(AccountNews::Over));
}

/// A question below the old text of a limit is a question.
#[test]
fn question_below_an_old_limit_is_shown() {
    let text = "hit your limit · resets 9am (UTC)\n";
    let mut watch = Watch::new("t");
    watch.observe(seen(text), None, at(1));
    watch.pass();
    watch.observe(seen(&format!("{text}Allow this?")), None, at(2));
    assert_eq!(watch.condition().map(Condition::word), Some("needs_input"));
}

#[test]
fn last_lines_of_an_ended_program_show_the_trouble_of_its_account() {
    let why = |tail: &str| {
        let last = last_words(&patterns(), tail, at(0), &TimeZone::UTC);
        last.map(|trouble| trouble.why)
    };
    assert_eq!(why("a\nPlease run /login\n"), Some(Why::Auth));
    assert_eq!(
        why("hit your limit · resets 9am (UTC)\nbye"),
        Some(Why::RateLimited)
    );
    assert_eq!(why("panic"), None);
    let long_ago = format!("Please run /login\n{}", "work\n".repeat(40));
    assert_eq!(why(&long_ago), None, "it went on since");
}
