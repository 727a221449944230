//! Harnesses, and the results of testing one.

use serde_json::{Value, json};

use crate::cli::output::{Style, Tone};
use crate::control::protocol::answers::HarnessResumed;
use crate::kit::outcome::{Ended, Outcome};

use super::table::{Cell, Table};
use super::words::{clean, clean_lines, safe};

/// `hd harness resume`.
pub(in crate::cli) fn resumed(told: &HarnessResumed, _style: Style) -> String {
    let (harness, account) = (&told.harness, clean(&told.account));
    match told.resumed {
        true => {
            format!("the sessions of account {account} ({harness}) continue, one after another")
        }
        false => format!("account {account} of {harness} is not parked"),
    }
}

/// `hd harness list`.
pub(in crate::cli) fn list(rows: &Value, style: Style) -> String {
    let mut table = Table::new(&[
        "HARNESS",
        "PROGRAM",
        "VERSION",
        "STARTS",
        "SEEN BY",
        "AFTER A CRASH",
        "USED BY",
    ]);
    let (mut has_none, mut is_unproven) = (false, false);
    for row in rows.as_array().into_iter().flatten() {
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let program = row["program"].as_str().unwrap_or(NO_COMMAND);
        has_none |= row["program"].is_null();
        is_unproven |= row["unproven"] == true;
        let program = match row["found"].as_bool() {
            Some(false) if !row["program"].is_null() => {
                Cell(format!("{program} (not found)"), Tone::Faint)
            }
            _ => Cell(program.to_owned(), Tone::Plain),
        };
        table.row(vec![
            Cell(text("name"), Tone::Strong),
            program,
            version(row),
            starts(row),
            seen_by(row).into(),
            after_crash(row).into(),
            users(row).into(),
        ]);
    }
    let notes = [
        (
            has_none,
            "(no command): set `command` of that harness in city.toml to run your own program.",
        ),
        (
            is_unproven,
            "unproven: this preset was never run with its program. An unrecognised screen escalates to a person.",
        ),
    ];
    let mut lines = vec![table.text(style)];
    let notes = notes.iter().filter(|(is, _)| *is);
    lines.extend(notes.map(|(_, note)| style.paint(Tone::Faint, note)));
    lines.join("\n")
}

/// Stands for the program of a harness without a command.
const NO_COMMAND: &str = "(no command)";

/// Tells the version of the program, and whether its preset was never tried.
fn version(row: &Value) -> Cell {
    let version = row["version"].as_str().unwrap_or_default();
    match (row["unproven"] == true, version) {
        (true, "") => Cell("unproven".to_owned(), Tone::Waits),
        (true, version) => Cell(format!("{version} (unproven)"), Tone::Waits),
        (false, version) => version.to_owned().into(),
    }
}

/// Tells whether the harness's sessions start without a person; empty when that is not known.
fn starts(row: &Value) -> Cell {
    let asks = row["asks"].as_array().is_some_and(|asks| !asks.is_empty());
    let why = [
        (row["logged_in"] == false, "no login"),
        (row["refuses_root"] == true, "not as root"),
        (asks, "asks"),
    ];
    let why: Vec<_> = why
        .iter()
        .filter(|(is, _)| *is)
        .map(|(_, why)| *why)
        .collect();
    match (row["logged_in"].is_null(), why.is_empty()) {
        (true, _) => String::new().into(),
        (false, true) => Cell("alone".to_owned(), Tone::Good),
        (false, false) => Cell(why.join(", "), Tone::Bad),
    }
}

/// Tells how questions, limits and logins of the harness are recognised: by hooks, by the screen, or menus only.
fn seen_by(row: &Value) -> String {
    let patterns = row["patterns"].as_object().into_iter().flatten();
    let patterns = patterns
        .filter_map(|(_, count)| count.as_u64())
        .sum::<u64>();
    let hooks = row["hooks"].is_string().then_some("hooks");
    let patterns = (patterns > 0).then_some("screen");
    let both: Vec<_> = hooks.into_iter().chain(patterns).collect();
    match both[..] {
        [] => "menus only".to_owned(),
        _ => both.join(", "),
    }
}

/// Tells the permissions of a session after a crash, and whether it resumes the conversation.
fn after_crash(row: &Value) -> String {
    let permissions = match (row["reduced"].as_bool(), row["reduced_asks"].as_bool()) {
        (Some(true), Some(true)) => "reduced (a person approves commits)",
        (Some(true), _) => "reduced",
        _ => "no reduced form",
    };
    let conversation = match row["resume"].as_bool() {
        Some(true) => "resumes",
        _ => "starts afresh",
    };
    format!("{permissions}, {conversation}")
}

fn users(row: &Value) -> String {
    let users = row["used_by"].as_array().into_iter().flatten();
    let users: Vec<_> = users.filter_map(Value::as_str).collect();
    users.join(", ")
}

/// `hd harness show`.
pub(in crate::cli) fn show(row: &Value, style: Style) -> String {
    let row = &safe(row);
    let name = row["name"].as_str().unwrap_or_default();
    let mut lines = vec![style.paint(Tone::Strong, name)];
    let program = row["program"].as_str().unwrap_or(NO_COMMAND);
    let version = row["version"]
        .as_str()
        .map(|version| format!(", {version}"));
    let version = version.unwrap_or_default();
    lines.push(match (row["file"].as_str(), row["found"].as_bool()) {
        (Some(file), _) => format!("program: {file}{version}"),
        (None, _) if row["program"].is_null() => {
            format!(
                "program: {NO_COMMAND}: set `command` of that harness in city.toml to run your own program"
            )
        }
        (None, Some(_)) => format!("program: {program}, not found"),
        (None, None) => format!("program: {program} in the sandbox"),
    });
    if let Some(why) = row["version_unknown"].as_str() {
        lines.push(format!("version: {why}"));
    }
    if let Some(proven) = row["proven"].as_str() {
        lines.push(format!("proven with: {proven}"));
    }
    if row["unproven"] == true {
        lines.push("unproven: never run with the real program".to_owned());
    }
    lines.push(match (row["login"].as_str(), row["logged_in"].as_bool()) {
        (Some(login), _) => format!("login: {login}"),
        (None, Some(_)) => "login: none found".to_owned(),
        (None, None) => "login: unknown".to_owned(),
    });
    let key = match row["api_key"].as_str() {
        Some("configured") => "ANTHROPIC_API_KEY is used, because `env` of the harness sets it",
        Some("used") => "ANTHROPIC_API_KEY is used: no other login was found",
        Some(_) => {
            "ANTHROPIC_API_KEY of the environment is not passed to sessions, because there is \
            another login; `env` of the harness sets it"
        }
        None => "",
    };
    if !key.is_empty() {
        lines.push(format!("key: {key}"));
    }
    for finding in row["findings"].as_array().into_iter().flatten() {
        let says = finding["says"].as_str().unwrap_or_default();
        let hint = finding["hint"].as_str().unwrap_or_default();
        lines.push(format!("{} {says}", style.paint(Tone::Bad, "wrong:")));
        lines.push(style.paint(Tone::Faint, &format!("  {hint}")));
    }
    let users = users(row);
    if !users.is_empty() {
        lines.push(format!("used by: {users}"));
    }
    lines.push(format!("seen by: {}", seen_by(row)));
    lines.push(format!("after a crash: {}", after_crash(row)));
    lines.push(String::new());
    let settings = json!({"harness": {name: row["settings"]}});
    let settings = toml::to_string(&settings);
    lines.push(settings.unwrap_or_else(|_| row["settings"].to_string()));
    for (placeholder, meaning) in row["placeholders"].as_object().into_iter().flatten() {
        let meaning = meaning.as_str().unwrap_or_default();
        lines.push(format!("{placeholder}: {meaning}"));
    }
    lines.join("\n")
}

/// Shows the changes that `hd harness setup` would make, file by file, and those that it leaves to a person.
pub(in crate::cli) fn changes(result: &Value, style: Style) -> String {
    let result = &safe(result);
    let mut lines = Vec::new();
    for change in result["changes"].as_array().into_iter().flatten() {
        let file = change["file"].as_str().unwrap_or_default();
        let what = change["what"].as_array().into_iter().flatten();
        let what: Vec<_> = what.filter_map(Value::as_str).collect();
        lines.push(style.paint(Tone::Strong, &format!("{file}: {}", what.join(", "))));
        for line in change["diff"].as_str().unwrap_or_default().lines() {
            let tone = match line.as_bytes().first() {
                Some(b'+') => Tone::Good,
                Some(b'-') => Tone::Bad,
                _ => Tone::Faint,
            };
            lines.push(style.paint(tone, line));
        }
    }
    if lines.is_empty() {
        lines.push("nothing to change in your settings".to_owned());
    }
    for left in result["by_hand"].as_array().into_iter().flatten() {
        let what = left["what"].as_str().unwrap_or_default();
        let how = left["how"].as_str().unwrap_or_default();
        lines.push(format!("{what} cannot be answered there: {how}"));
    }
    lines.join("\n")
}

/// Tells the files that `hd harness setup` has changed, and their backups.
pub(in crate::cli) fn changed(result: &Value) -> String {
    let result = &safe(result);
    let changes = result["changes"].as_array().into_iter().flatten();
    let told = changes.map(|change| {
        let file = change["file"].as_str().unwrap_or_default();
        match change["backup"].as_str() {
            Some(backup) => format!("changed {file}; backup: {backup}"),
            None => format!("wrote {file}"),
        }
    });
    told.collect::<Vec<_>>().join("\n")
}

/// Renders a case of `hd harness test`, with the screen of a case that failed.
/// One with the same reason as the one `before` it refers to that.
pub(in crate::cli) fn outcome(outcome: &Outcome, before: Option<&Outcome>, style: Style) -> String {
    let tone = match &outcome.result {
        Ok(_) => Tone::Good,
        Err(Ended::Failed { .. }) => Tone::Bad,
        Err(Ended::Untried(_)) => Tone::Faint,
    };
    let word = style.paint(tone, outcome.word());
    let seconds = outcome.took.as_secs_f64();
    let is_same = |before: &Outcome| before.why() == outcome.why();
    let why = outcome.why().map(|why| match before.is_some_and(is_same) {
        true => ": for the same reason".to_owned(),
        false => format!(": {}", clean_lines(why)),
    });
    let why = why.unwrap_or_default();
    let mut text = format!("{:<10}{word}{why} ({seconds:.1} s)", outcome.case);
    for line in outcome.screen().into_iter().flat_map(str::lines) {
        text.push_str(&style.paint(Tone::Faint, &format!("\n    | {}", clean(line.trim_end()))));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn reason_of_several_cases_in_a_row_is_told_once() {
        let style = Style {
            color: false,
            width: None,
        };
        let untried = |case| Outcome {
            case,
            took: Duration::ZERO,
            result: Err(Ended::Untried("it has no model".to_owned())),
        };
        let (first, second) = (untried("start"), untried("prompt"));
        let told = outcome(&first, None, style);
        assert_eq!(told, "start     cannot be tried: it has no model (0.0 s)");
        let told = outcome(&second, Some(&first), style);
        assert_eq!(
            told,
            "prompt    cannot be tried: for the same reason (0.0 s)"
        );
        let held = Outcome {
            result: Ok(None),
            ..untried("done")
        };
        assert_eq!(outcome(&held, Some(&held), style), "done      held (0.0 s)");
    }
}
