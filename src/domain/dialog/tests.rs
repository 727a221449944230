//! Screens, as terminal programs draw them, and their dialogs.

use super::*;
use crate::domain::screen::Span;

mod several;

fn screen(text: &str) -> ScreenView {
    let mut view = ScreenView::of_text(text.trim_matches('\n'));
    let last = view.rows.len() - 1;
    let column = view.rows[last].chars().count();
    view.cursor = Some((u16::try_from(last).unwrap(), u16::try_from(column).unwrap()));
    view
}

fn found(text: &str) -> Option<Dialog> {
    find(&Looks::default(), &screen(text))
}

fn labels(dialog: &Dialog) -> Vec<&str> {
    let choices = dialog.choices().iter();
    choices.map(|choice| choice.label.as_str()).collect()
}

fn selected(dialog: &Dialog) -> Option<usize> {
    match dialog.form {
        Form::Menu { selected, .. } => selected,
        _ => None,
    }
}

#[test]
fn numbered_menu_with_a_marker_is_a_dialog() {
    let dialog = found(
        "
╭──────────────────────────────╮
│ Bash command                 │
│   rm -rf ./build             │
│ Do you want to proceed?      │
│ ❯ 1. Yes                     │
│   2. Yes, and don't ask again│
│      for rm commands         │
│   3. No, tell it what to do  │
╰──────────────────────────────╯
  Esc to cancel",
    )
    .unwrap();
    assert_eq!(dialog.question, "Do you want to proceed?");
    assert_eq!(
        labels(&dialog),
        ["Yes", "Yes, and don't ask again", "No, tell it what to do"]
    );
    assert_eq!(selected(&dialog), Some(0));
    assert_eq!(dialog.choices()[2].key, Some('3'));
}

#[test]
fn plain_menu_under_a_question_is_a_dialog() {
    let dialog =
        found("Allow this tool?  rm -rf ./build\n > Allow once\n   Always allow\n   Deny").unwrap();
    assert_eq!(dialog.question, "Allow this tool? rm -rf ./build");
    assert_eq!(labels(&dialog), ["Allow once", "Always allow", "Deny"]);
    assert_eq!(selected(&dialog), Some(0));
}

#[test]
fn menu_whose_selection_only_stands_out_is_a_dialog() {
    let mut view =
        screen("Which colour?\n 1. Red\n 2. Blue\n\n ↑↓ select  enter submit  esc dismiss");
    view.marked = vec![Span {
        row: 2,
        from: 0,
        to: 9,
    }];
    let dialog = find(&Looks::default(), &view).unwrap();
    assert_eq!(
        (labels(&dialog), selected(&dialog)),
        (vec!["Red", "Blue"], Some(1))
    );
}

#[test]
fn text_that_only_looks_like_a_menu_is_none() {
    for text in [
        "1. read the code\n2. change it\n3. test it\n\n$ ",
        "> quoted words\n> more of them\n\nwhat next",
        "────────\n❯ Try \"fix the tests\"\n────────\n  ? for shortcuts",
        "› Summarize recent commits\n\n  100% context left · ? for shortcuts",
        "* item one\n* item two\n",
        "$ ls\na.txt\n> a\n",
    ] {
        assert_eq!(found(text), None, "{text}");
    }
    let far = format!("Sure?\n❯ 1. Yes\n  2. No\n{}", "later\n".repeat(20));
    assert_eq!(found(&far), None, "answered long ago");
}

#[test]
fn questions_at_the_cursor_are_dialogs() {
    for (text, keys) in [
        ("Overwrite it? [y/N] ", "yn"),
        ("Go on (yes/no): ", "yn"),
        ("Continue? (Y/n)", "yn"),
        (
            "Add file to the chat? (Y)es/(N)o/(D)on't ask again [Yes]: ",
            "ynd",
        ),
        ("Would you like to log in? [(y)es, (n)o]", "yn"),
        ("(Y)es/(N)o/(D)on't ask again [Yes]: no", "ynd"),
    ] {
        let dialog = found(text).unwrap_or_else(|| panic!("{text}"));
        let found: String = dialog.choices().iter().filter_map(|one| one.key).collect();
        assert_eq!(found, keys, "{text}");
    }
    let form = |text: &str| found(text).map(|dialog| dialog.form);
    assert_eq!(form("Press Enter to continue..."), Some(Form::AnyKey));
    assert_eq!(form("[sudo] password for me: "), Some(Form::Secret));
    for text in [
        "I shall press Enter later, and then",
        "Is it done? yes\n$ ",
        "the password is set",
    ] {
        assert_eq!(found(text), None, "{text}");
    }
}

#[test]
fn question_is_asked_only_where_the_cursor_stands() {
    let mut view = screen("Overwrite it? [y/N]\n\nworking");
    assert_eq!(find(&Looks::default(), &view), None);
    view.cursor = Some((0, 19));
    assert!(find(&Looks::default(), &view).is_some());
}

#[test]
fn text_is_typed_only_where_something_says_that_it_is_taken() {
    let none = Looks::default();
    let patterns = [Pattern::new("^❯ ").unwrap()];
    let known = Looks {
        input: &patterns,
        ..none
    };
    let view = |text: &str, lines: Option<bool>, paste: Option<bool>| ScreenView {
        reads_lines: lines,
        bracketed_paste: paste,
        ..screen(text)
    };
    for (looks, text, lines, paste, ready) in [
        (none, "❯ ", Some(true), Some(false), true),
        (none, "❯ ", Some(false), Some(true), true),
        (none, "❯ ", None, None, true),
        (none, "❯ ", Some(false), Some(false), false),
        (known, "❯ ", Some(false), Some(false), true),
        // An unknown panel of a program whose input line is known.
        (known, "What is new in 3.0", Some(false), Some(true), false),
        (known, "What is new in 3.0", Some(true), Some(false), false),
        (known, "What is new in 3.0", None, None, false),
    ] {
        let is = readiness(&looks, &view(text, lines, paste));
        assert_eq!(
            is == Readiness::Ready,
            ready,
            "{text} {lines:?} {paste:?} {looks:?}"
        );
    }
    let menu = "Sure?\n❯ yes\n  no";
    let is = readiness(&none, &view(menu, Some(false), Some(true)));
    assert!(matches!(is, Readiness::Asks(_)), "{is:?}");
}

#[test]
fn pattern_of_the_harness_finds_dialogs_that_no_rule_knows() {
    let patterns = [Pattern::new("^Trust this").unwrap()];
    let looks = Looks {
        asks: &patterns,
        ..Looks::default()
    };
    let dialog = find(&looks, &screen("Trust this folder: ")).unwrap();
    assert_eq!(
        (dialog.question.as_str(), dialog.form),
        ("Trust this folder:", Form::Unrecognised)
    );
    let dialog = find(&looks, &screen("Trust this folder?\n❯ 1. Yes\n  2. No")).unwrap();
    assert_eq!(labels(&dialog), ["Yes", "No"]);
}

fn menu(selected: usize) -> Dialog {
    let text: Vec<String> = ["Red", "Blue", "Type something."]
        .iter()
        .enumerate()
        .map(|(at, label)| {
            let marker = if at == selected { '❯' } else { ' ' };
            format!("{marker} {}. {label}", at + 1)
        })
        .collect();
    found(&format!("Which colour?\n{}", text.join("\n"))).unwrap()
}

#[test]
fn answers_are_found_by_number_key_text_or_beginning() {
    let dialog = menu(0);
    for (answer, reply) in [
        ("2", Ok(Reply::Entry(1))),
        ("blue", Ok(Reply::Entry(1))),
        ("Bl", Ok(Reply::Entry(1))),
        (
            "green",
            Ok(Reply::Words {
                at: Some(2),
                text: "green".into(),
            }),
        ),
        ("", Err(Unanswerable::NotALine)),
        ("a\u{3}", Err(Unanswerable::NotALine)),
    ] {
        assert_eq!(choose(&dialog, answer), reply, "{answer:?}");
    }
    let letters = found("Overwrite? [y/N] ").unwrap();
    assert_eq!(choose(&letters, "No"), Ok(Reply::Entry(1)));
    assert_eq!(choose(&letters, "1"), Ok(Reply::Entry(0)));
    assert!(matches!(
        choose(&letters, "maybe"),
        Err(Unanswerable::NoSuchChoice(_))
    ));
    let twins = found("Allow?\n❯ 1. Allow once\n  2. Allow always\n  3. Deny").unwrap();
    assert!(matches!(
        choose(&twins, "allow"),
        Err(Unanswerable::Ambiguous(_))
    ));
}

/// A menu that selects at once, a menu that only moves, and a menu that ignores numbers.
#[test]
fn menu_is_answered_by_the_keys_that_it_takes() {
    let mut at_once = Answering::new(menu(0), Reply::Entry(1), false);
    assert_eq!(at_once.next(Some(&menu(0))), Step::Press(b"2".to_vec()));
    assert_eq!(at_once.next(None), Step::Gone);

    let mut moves = Answering::new(menu(0), Reply::Entry(1), false);
    assert_eq!(moves.next(Some(&menu(0))), Step::Press(b"2".to_vec()));
    assert_eq!(moves.next(Some(&menu(1))), Step::Press(b"\r".to_vec()));
    assert_eq!(moves.next(None), Step::Gone);

    let mut arrows = Answering::new(menu(0), Reply::Entry(2), false);
    assert_eq!(arrows.next(Some(&menu(0))), Step::Press(b"3".to_vec()));
    assert_eq!(arrows.next(Some(&menu(0))), Step::Press(DOWN.to_vec()));
    assert_eq!(arrows.next(Some(&menu(1))), Step::Press(DOWN.to_vec()));
    assert_eq!(arrows.next(Some(&menu(2))), Step::Press(b"\r".to_vec()));
    assert!(
        matches!(arrows.next(Some(&menu(2))), Step::Stuck(_)),
        "Enter twice"
    );
}

const DOWN: &[u8] = b"\x1b[B";

#[test]
fn menu_that_does_not_react_is_given_up() {
    let mut answering = Answering::new(menu(0), Reply::Entry(1), false);
    let steps: Vec<Step> = (0..5).map(|_| answering.next(Some(&menu(0)))).collect();
    assert!(matches!(steps[4], Step::Stuck(_)), "{steps:?}");
    let entered = steps
        .iter()
        .any(|step| *step == Step::Press(b"\r".to_vec()));
    assert!(!entered, "Enter would have chosen another entry");
}

#[test]
fn words_of_ones_own_are_typed_at_the_entry_that_takes_them() {
    let reply = Reply::Words {
        at: Some(2),
        text: "green".into(),
    };
    let mut answering = Answering::new(menu(0), reply, false);
    assert_eq!(answering.next(Some(&menu(0))), Step::Press(DOWN.to_vec()));
    assert_eq!(answering.next(Some(&menu(1))), Step::Press(DOWN.to_vec()));
    assert_eq!(
        answering.next(Some(&menu(2))),
        Step::Press(b"green".to_vec())
    );
    assert_eq!(answering.next(Some(&menu(2))), Step::Press(b"\r".to_vec()));
    assert_eq!(answering.next(None), Step::Gone);
}

#[test]
fn letters_are_followed_by_enter_where_the_program_reads_lines() {
    let dialog = found("Overwrite? [y/N] ").unwrap();
    let mut lines = Answering::new(dialog.clone(), Reply::Entry(1), true);
    assert_eq!(lines.next(Some(&dialog)), Step::Press(b"n\r".to_vec()));
    assert_eq!(lines.next(None), Step::Gone);
    let mut keys = Answering::new(dialog.clone(), Reply::Entry(0), false);
    assert_eq!(keys.next(Some(&dialog)), Step::Press(b"y".to_vec()));
    assert_eq!(keys.next(None), Step::Gone);
}

/// The next question of the same kind gets no Enter, which would choose its default.
#[test]
fn answer_by_a_letter_is_not_the_answer_to_the_next_question() {
    let first = found("Remove a.txt? [y/N] ").unwrap();
    let mut keys = Answering::new(first.clone(), Reply::Entry(0), false);
    assert_eq!(keys.next(Some(&first)), Step::Press(b"y".to_vec()));
    let second = found("Remove a.txt? [y/N] y\nFormat disk? [Y/n] ").unwrap();
    assert_eq!(keys.next(Some(&second)), Step::Gone);
    // The program shows the letter and waits for Enter, as aider does.
    let mut keys = Answering::new(first.clone(), Reply::Entry(0), false);
    assert_eq!(keys.next(Some(&first)), Step::Press(b"y".to_vec()));
    let typed = found("Remove a.txt? [y/N] y").unwrap();
    assert_eq!(keys.next(Some(&typed)), Step::Press(b"\r".to_vec()));
    // The program reads one key and works on: Enter would answer the next question.
    let mut keys = Answering::new(first.clone(), Reply::Entry(0), false);
    assert_eq!(keys.next(Some(&first)), Step::Press(b"y".to_vec()));
    keys.reads_lines(true);
    assert_eq!(keys.next(Some(&typed)), Step::Gone);
    // Another answer stands there: both together would be one answer.
    let mut keys = Answering::new(typed.clone(), Reply::Entry(1), false);
    assert!(matches!(keys.next(Some(&typed)), Step::Stuck(_)));
}

fn proceed(command: &str, selected: usize) -> Dialog {
    let marker = |at| if at == selected { '❯' } else { ' ' };
    let (yes, no) = (marker(0), marker(1));
    found(&format!(
        "Bash command\n  {command}\nDo you want to proceed?\n{yes} 1. Yes\n{no} 2. No"
    ))
    .unwrap()
}

/// Two commands in a row are asked about with the same words: no key for the first may reach the second.
#[test]
fn answer_is_not_the_answer_to_the_next_dialog_with_the_same_choices() {
    for (entry, key) in [(1, "2"), (0, "\r")] {
        let mut keys = Answering::new(proceed("ls", 0), Reply::Entry(entry), false);
        let pressed = keys.next(Some(&proceed("ls", 0)));
        assert_eq!(pressed, Step::Press(key.as_bytes().to_vec()));
        assert_eq!(keys.next(Some(&proceed("rm -rf x", 0))), Step::Gone);
    }
    // A changed clock above a dialog does not make it another dialog.
    let mut keys = Answering::new(proceed("Running (12s)", 0), Reply::Entry(1), false);
    let pressed = keys.next(Some(&proceed("Running (13s)", 0)));
    assert_eq!(pressed, Step::Press(b"2".to_vec()));
    let moved = keys.next(Some(&proceed("Running (14s)", 1)));
    assert_eq!(moved, Step::Press(b"\r".to_vec()));
    let open = keys.next(Some(&proceed("Running (15s)", 1)));
    assert!(matches!(open, Step::Stuck(_)), "{open:?}");
}

#[test]
fn words_are_not_said_to_be_typed_when_the_dialog_closed_before() {
    let reply = choose(&menu(0), "green").unwrap();
    let mut keys = Answering::new(menu(0), reply, false);
    assert_eq!(keys.next(Some(&menu(0))), Step::Press(DOWN.to_vec()));
    assert!(matches!(keys.next(None), Step::Stuck(_)));
}

/// A digit in the text would choose an entry.
#[test]
fn words_are_typed_only_into_an_entry_that_says_it_takes_them() {
    for label in [
        "Other strategy",
        "Other",
        "Custom build",
        "Enter production",
        "None of the above",
    ] {
        let dialog = found(&format!("Which?\n❯ 1. Red\n  2. {label}")).unwrap();
        let chosen = choose(&dialog, "with 2 workers");
        assert!(
            matches!(chosen, Err(Unanswerable::NoSuchChoice(_))),
            "{label}: {chosen:?}"
        );
    }
    for label in [
        "Other (type your answer)",
        "• Other (type your answer)",
        "Enter a custom value",
        "Type your own answer",
        "No, and tell Claude what to do differently (esc)",
    ] {
        let dialog = found(&format!("Which?\n❯ 1. Red\n  2. {label}")).unwrap();
        let chosen = choose(&dialog, "with 2 workers");
        assert!(
            matches!(chosen, Ok(Reply::Words { .. })),
            "{label}: {chosen:?}"
        );
    }
}

/// A single label that ends in a letter names no key, and a number is a key in any case.
#[test]
fn letters_behind_labels_are_keys_only_where_several_have_them_and_no_numbers_stand_there() {
    let one = found("Which?\n❯ 1. Plan (a)\n  2. Type something.").unwrap();
    let chosen = choose(&one, "neither of them");
    assert!(matches!(chosen, Ok(Reply::Words { .. })), "{chosen:?}");
    let numbered = found("Which?\n❯ 1. Plan (a)\n  2. Plan (b)").unwrap();
    let mut keys = Answering::new(numbered.clone(), choose(&numbered, "b").unwrap(), false);
    assert_eq!(keys.next(Some(&numbered)), Step::Press(b"2".to_vec()));
}

/// A program that uses the whole screen may draw its dialog at the top and a footer at the end.
#[test]
fn menu_at_the_top_of_a_tall_screen_is_a_dialog() {
    let menu = "Do you want to proceed?\n❯ 1. Yes\n  2. No\n\n  Esc to cancel";
    let footer = "~/project   main   3 % of context";
    let tall = format!("{menu}{}{footer}", "\n".repeat(45));
    let dialog = found(&tall).unwrap();
    assert_eq!(labels(&dialog), ["Yes", "No"]);
    let answered = format!("{menu}{}", "\nlater".repeat(20));
    assert_eq!(found(&answered), None);
}

#[test]
fn menu_under_a_request_to_choose_is_a_dialog() {
    for request in [
        "Select a model",
        "Please choose an environment:",
        "Pick one",
    ] {
        let dialog = found(&format!("{request}\n\n❯ staging\n  production")).unwrap();
        assert_eq!(labels(&dialog), ["staging", "production"], "{request}");
    }
}

/// A terminal that hides typed text waits for a secret, in any words.
#[test]
fn line_that_is_not_shown_is_a_secret() {
    for (text, question) in [
        ("Enter PIN for card: ", "Enter PIN for card:"),
        ("", "it reads a word that is not shown"),
    ] {
        let view = ScreenView {
            reads_lines: Some(true),
            hides_input: Some(true),
            ..ScreenView::of_text(text)
        };
        let dialog = find(&Looks::default(), &view).unwrap();
        assert_eq!(
            (dialog.form, dialog.question.as_str()),
            (Form::Secret, question)
        );
    }
    // The list further up was answered.
    let list = "1. GitHub.com\n2. Enterprise\nPress enter to select: 1\nToken: ";
    let view = ScreenView {
        reads_lines: Some(true),
        hides_input: Some(true),
        ..screen(list)
    };
    let dialog = find(&Looks::default(), &view).unwrap();
    assert_eq!(dialog.form, Form::Secret);
}

#[test]
fn buttons_side_by_side_are_a_dialog() {
    let mut view = screen(
        "  ┃  △ Permission required\n  ┃  $ cargo test\n  ┃\n  ┃   Allow once   Allow always   Reject        ctrl+f fullscreen  ⇆ select  enter confirm",
    );
    view.marked = vec![Span {
        row: 3,
        from: 5,
        to: 17,
    }];
    let dialog = find(&Looks::default(), &view).unwrap();
    assert_eq!(labels(&dialog), ["Allow once", "Allow always", "Reject"]);
    assert_eq!(selected(&dialog), Some(0));
    let mut answering = Answering::new(dialog.clone(), Reply::Entry(2), false);
    assert_eq!(
        answering.next(Some(&dialog)),
        Step::Press(b"\x1b[C".to_vec())
    );
}

#[test]
fn numbered_list_over_a_hint_about_keys_is_a_dialog() {
    let dialog = found("  ┃  Which colour shall I take?\n  ┃\n  ┃  1. Red\n  ┃     Take red\n  ┃  2. Blue\n  ┃  3. Type your own answer\n  ┃  ↑↓ select  enter submit  esc dismiss").unwrap();
    assert_eq!(labels(&dialog), ["Red", "Blue", "Type your own answer"]);
    assert_eq!(
        (dialog.question.as_str(), selected(&dialog)),
        ("Which colour shall I take?", None)
    );
    let mut answering = Answering::new(dialog.clone(), choose(&dialog, "green").unwrap(), false);
    assert_eq!(answering.next(Some(&dialog)), Step::Press(b"3".to_vec()));
    assert_eq!(
        answering.next(Some(&dialog)),
        Step::Press(b"green".to_vec())
    );
}
