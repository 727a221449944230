//! The outcome of an action in a sentence; `--json` prints the whole record.

use serde_json::Value;

use crate::cli::output::{Style, Tone};
use crate::domain::ids::{Oid, verb_group};
use crate::domain::ignored::Ignored;
use crate::domain::saved_work;

use super::words::{at, cell, clean, clean_lines};

/// Tells the state of an agent or raider after a request to start, stop or rest.
pub(in crate::cli) fn child(told: &Value, _: Style) -> String {
    let name = at(told, "/name");
    let group = verb_group(&name);
    match at(told, "/state").as_str() {
        "stopped" => format!("{name} is stopped, until `hd agent start {name}`"),
        "suspended" => format!("{name} is suspended, until `hd {group} resume {name}`"),
        "draining" => format!("{name} has finished and leaves the pool"),
        state => format!("{name} is {state}"),
    }
}

/// Tells the state of automatic charging.
pub(in crate::cli) fn charging(told: &Value, _: Style) -> String {
    let is = |key: &str| told.get(key) == Some(&Value::Bool(true));
    let (of, flag) = match at(told, "/rig").as_str() {
        "-" => ("in every rig".to_owned(), String::new()),
        rig => (format!("in rig {rig}"), format!(" --rig {rig}")),
    };
    match (is("paused"), is("changed")) {
        (true, true) => format!(
            "automatic charging is paused {of}, until `hd charge resume{flag}`; `hd charge RELIC RIG` still charges"
        ),
        (true, false) => format!("automatic charging was paused {of} already"),
        (false, true) => format!("automatic charging goes on {of}"),
        (false, false) => format!("automatic charging was not paused {of}"),
    }
}

/// Tells that a raider was removed.
pub(in crate::cli) fn nuked(told: &Value, _: Style) -> String {
    let raider = at(told, "/raider");
    let (salvage, stashes) = (at(told, "/salvage"), at(told, "/stashes"));
    let mut gone = match (salvage.as_str(), stashes.as_str()) {
        ("-", "-") => format!("{raider} is removed; it held no work that had to be saved"),
        ("-", _) => format!("{raider} is removed"),
        (id, _) => match loss(told) {
            None => format!("{raider} is removed; its work is saved: hd salvage restore {id}"),
            Some(loss) => format!(
                "{raider} is removed; what could be read of its work is saved: hd salvage restore {id}; {loss}"
            ),
        },
    };
    if stashes != "-" {
        gone += &format!(
            "; its stash entries are kept, for `git stash apply ID` in a worktree of the rig: {stashes}"
        );
    }
    with_ignored(gone, told)
}

/// Returns the clause about damaged commits, if any.
fn loss(told: &Value) -> Option<String> {
    let damaged = told.get("damaged").cloned().unwrap_or_default();
    let damaged: Vec<Oid> = serde_json::from_value(damaged).ok()?;
    saved_work::loss(&damaged)
}

/// Appends the list of ignored files that go with the sandbox, if it has any.
pub(in crate::cli) fn with_ignored(text: String, told: &Value) -> String {
    let ignored = serde_json::from_value::<Ignored>(told.clone());
    match ignored.ok().and_then(|ignored| ignored.line()) {
        None => text,
        Some(line) => format!("{text}\n  {}", clean(&line)),
    }
}

/// Tells why a raider is kept and what it holds, a line each, also when file names contain control characters.
pub(in crate::cli) fn refused(told: &Value) -> String {
    let why = told.get("message").and_then(Value::as_str);
    let why = clean(why.unwrap_or("work would be lost"));
    with_ignored(with_losses(why, told), told)
}

fn with_losses(text: String, told: &Value) -> String {
    let losses = told.get("losses").and_then(Value::as_array);
    let losses = losses.into_iter().flatten().filter_map(Value::as_str);
    losses.fold(text, |text, loss| text + "\n  " + &clean(loss))
}

/// Tells what `nuke --dry-run` found that a removal would do.
pub(in crate::cli) fn rehearsed(told: &Value, style: Style) -> String {
    let raider = at(told, "/raider");
    let would = at(told, "/would");
    if told.get("safe") != Some(&Value::Bool(false)) && would != "salvage" {
        let safe = format!("{raider} would be removed; no work would be lost");
        return with_ignored(safe, told);
    }
    let head = match would.as_str() {
        "salvage" => style.paint(
            Tone::Waits,
            &format!("{raider} would be removed, and salvage refs would keep:"),
        ),
        _ => style.paint(
            Tone::Bad,
            &format!("{raider} would be kept, because it holds:"),
        ),
    };
    with_ignored(with_losses(head, told), told)
}

/// Tells that a sandbox was repaired.
pub(in crate::cli) fn repaired(told: &Value, _: Style) -> String {
    let sandbox = format!(
        "{} of {} is usable",
        at(told, "/sandbox"),
        at(told, "/raider")
    );
    let was = match at(told, "/was").as_str() {
        "-" => String::new(),
        was => format!("; repaired fault: {was}"),
    };
    match at(told, "/salvage").as_str() {
        "-" => sandbox + &was,
        id => format!("{sandbox}{was}; its earlier content is saved as {id}"),
    }
}

/// Tells what a relic waits for.
pub(in crate::cli) fn waits_for(told: &Value, _: Style) -> String {
    let deps = told.get("deps").and_then(Value::as_array);
    let deps: Vec<_> = deps.into_iter().flatten().map(cell).collect();
    let id = at(told, "/id");
    match deps.is_empty() {
        true => format!("{id} waits for no relic"),
        false => format!("{id} waits for {}", deps.join(", ")),
    }
}

/// Tells that a relic was cancelled, and where its work is.
pub(in crate::cli) fn cancelled(told: &Value, style: Style) -> String {
    let mut text = relic(told, style);
    let (raider, salvage) = (at(told, "/nuked"), at(told, "/salvage"));
    match (raider.as_str(), salvage.as_str()) {
        ("-", _) => {}
        (raider, "-") => {
            text += &format!("\n{raider} is removed; it held no work that had to be saved")
        }
        (raider, id) => {
            text += &format!("\n{raider} is removed; its work is saved: hd salvage restore {id}");
        }
    }
    let withdrawn = told.get("withdrawn").and_then(Value::as_array);
    let withdrawn: Vec<_> = withdrawn.into_iter().flatten().map(cell).collect();
    if !withdrawn.is_empty() {
        text += &format!("\n{} is taken out of the queue", withdrawn.join(", "));
    }
    text
}

/// Tells what an export wrote.
pub(in crate::cli) fn exported(told: &Value, _: Style) -> String {
    format!(
        "{} relics are in {}",
        at(told, "/relics"),
        at(told, "/file")
    )
}

/// Tells what an import did.
pub(in crate::cli) fn imported(told: &Value, _: Style) -> String {
    let count = |key: &str| told.get(key).and_then(Value::as_u64).unwrap_or_default();
    let mut text = format!(
        "{} relics made, {} updated, {} unchanged; {}",
        count("created"),
        count("updated"),
        count("unchanged"),
        at(told, "/priorities")
    );
    let skipped = told.get("skipped").and_then(Value::as_object);
    for (kind, number) in skipped.into_iter().flatten() {
        text += &format!("\nleft out: {} {}", cell(number), kind.replace('_', " "));
    }
    let unresolved = told.get("unresolved").and_then(Value::as_array);
    for one in unresolved.into_iter().flatten() {
        text += &format!(
            "\n{}: left out what is neither in the file nor in the city: {}",
            at(one, "/record"),
            at(one, "/missing")
        );
    }
    text
}

/// Tells that a relic was made, edited, closed or reopened.
pub(in crate::cli) fn relic(told: &Value, _: Style) -> String {
    let (id, status) = (at(told, "/id"), at(told, "/status"));
    with_note(format!("{id} is {status}: {}", at(told, "/title")), told)
}

/// Appends a note on a line of its own, if there is one.
fn with_note(said: String, told: &Value) -> String {
    match at(told, "/note").as_str() {
        "-" => said,
        note => format!("{said}\n{note}"),
    }
}

/// Tells the state of a merge request after a person decided on it.
pub(in crate::cli) fn merge_request(told: &Value, _: Style) -> String {
    let said = format!(
        "{} of {} is {}",
        at(told, "/id"),
        at(told, "/relic"),
        at(told, "/state")
    );
    let said = match at(told, "/note").as_str() {
        "-" => said,
        note => format!("{said}: {note}"),
    };
    let back_to = at(told, "/back_to");
    match at(told, "/delivery/state").as_str() {
        "-" => said,
        "delivered" => format!("{said}\n{back_to} has the note and works on"),
        _ => format!(
            "{said}\n{back_to} works on; its session could not be told yet: {}; `hd rally` and its next session have \
             the note",
            at(told, "/delivery/why")
        ),
    }
}

/// Tells the address of a pull request.
pub(in crate::cli) fn pull_request(told: &Value, _: Style) -> String {
    at(told, "/url")
}

/// Tells that an automation was enabled or disabled.
pub(in crate::cli) fn switched(told: &Value, _: Style) -> String {
    let word = match told.get("enabled") == Some(&Value::Bool(true)) {
        true => "enabled",
        false => "disabled",
    };
    format!("{} is {word}", at(told, "/name"))
}

/// Tells that a run was started by hand.
pub(in crate::cli) fn begun(told: &Value, _: Style) -> String {
    let name = at(told, "/name");
    format!(
        "run {} of {name} has started: hd auto history {name}",
        at(told, "/run")
    )
}

/// Tells that an operator was called, now or before.
pub(in crate::cli) fn escalated(told: &Value, _: Style) -> String {
    let is = |key: &str| told.get(key) == Some(&Value::Bool(true));
    let how = match (is("known"), is("called"), is("acked")) {
        (false, ..) => "is open, and in `hd escalations`",
        (true, true, _) => "was open with a lower severity; its severity is raised",
        (true, false, true) => "is open and was acknowledged; no new notice is sent",
        (true, false, false) => "is open already; no new notice is sent for now",
    };
    format!("{} {how}: {}", at(told, "/id"), at(told, "/title"))
}

/// Tells that an escalation was acknowledged.
pub(in crate::cli) fn acked(told: &Value, _: Style) -> String {
    let id = at(told, "/id");
    format!("{id} is acknowledged and sends no more notices; `hd relic close {id}` closes it")
}

/// Tells that a text was typed into a terminal.
pub(in crate::cli) fn taken(told: &Value, _: Style) -> String {
    format!("{} accepted the text", at(told, "/name"))
}

/// Tells that a dialog was answered.
pub(in crate::cli) fn answered(told: &Value, _: Style) -> String {
    let next = told.get("next").and_then(Value::as_str);
    let next = next.map_or_else(String::new, |next| {
        format!("; its next question: {}", clean(next))
    });
    format!(
        "{} accepted the answer {}{next}",
        at(told, "/name"),
        at(told, "/answer")
    )
}

/// Tells that a completion was declared.
pub(in crate::cli) fn done(told: &Value, style: Style) -> String {
    if told.get("outbox").is_some() {
        return format!("it is saved in {}", at(told, "/outbox"));
    }
    if told.get("state").is_some() {
        return of_agent(told, style);
    }
    let declared = match told.get("already") == Some(&Value::Bool(true)) {
        true => "is already declared",
        false => "is declared",
    };
    let said = format!(
        "{} {declared} {}; its branch {} is pushed by the supervisor",
        at(told, "/relic"),
        at(told, "/exit"),
        at(told, "/branch")
    );
    let said = match told.get("may_be_reviewed") == Some(&Value::Bool(true)) {
        true => format!(
            "{said}; end your turn now: if a person reviews it, this session stays, a rejection arrives as a drum, and \
            later commits are submitted by another `hd done`"
        ),
        false => said,
    };
    with_note(said, told)
}

/// Tells what `done` of a standing agent made of its relic, and that it leaves its pool.
fn of_agent(told: &Value, style: Style) -> String {
    let relic = match at(told, "/relic").as_str() {
        "-" => None,
        relic => Some(format!("{relic} is {}", at(told, "/status"))),
    };
    let leaves = (at(told, "/state") != "-").then(|| child(told, style));
    let parts: Vec<_> = [relic, leaves].into_iter().flatten().collect();
    parts.join("; ")
}

/// Tells that a session makes room for a fresh one.
pub(in crate::cli) fn handed_off(told: &Value, _: Style) -> String {
    format!("{} continues in a fresh session", at(told, "/name"))
}

/// Tells that a wait was declared.
pub(in crate::cli) fn waits(told: &Value, _: Style) -> String {
    let (name, until) = (at(told, "/name"), at(told, "/until"));
    format!(
        "{name} declared a wait until {until}: {}",
        at(told, "/reason")
    )
}

/// Tells which round of self-review was recorded, and what follows.
pub(in crate::cli) fn reviewed(told: &Value, _: Style) -> String {
    let (raider, round, verdict) = (
        at(told, "/raider"),
        at(told, "/round"),
        at(told, "/verdict"),
    );
    let next = match (verdict.as_str(), told["left"].as_u64()) {
        ("passed", _) => "commit everything, then run `hd done`".to_owned(),
        ("stuck", _) => "its relic waits for a person".to_owned(),
        (_, Some(0)) => "no self-review is left; run `hd review stuck -m WHY`".to_owned(),
        (_, left) => format!(
            "repair it and review again; {} may still fail",
            left.unwrap_or(0)
        ),
    };
    format!("{raider}: self-review {round} {verdict}: {next}")
}

/// Tells where a salvage was restored.
pub(in crate::cli) fn restored(told: &Value, _: Style) -> String {
    let said = format!("{} is restored in {}", at(told, "/id"), at(told, "/path"));
    match at(told, "/stash_ids").as_str() {
        "-" => said,
        ids => format!("{said}; `git stash apply ID` there applies a stash entry: {ids}"),
    }
}

/// Tells what a reload did to each agent and rig, and which raiders apply it later.
pub(in crate::cli) fn reloaded(result: &Value, style: Style) -> String {
    let texts = |key: &str| {
        let lines = result[key].as_array().into_iter().flatten();
        lines
            .filter_map(Value::as_str)
            .map(clean)
            .collect::<Vec<_>>()
    };
    if result["unchanged"] == true {
        let since = at(result, "/applied_at");
        let same = format!(
            "the configuration has not changed since {since}; git's settings were read again"
        );
        return style.paint(Tone::Faint, &same);
    }
    // With file, line and caret.
    let errors = result["errors"].as_array().into_iter().flatten();
    let errors = errors.filter_map(Value::as_str).map(clean_lines);
    let mut lines: Vec<String> = errors.collect();
    for action in result["actions"].as_array().into_iter().flatten() {
        let (agent, action) = (cell(&action["agent"]), cell(&action["action"]));
        lines.push(format!("{action:<9} {agent}"));
    }
    for change in result["rigs"].as_array().into_iter().flatten() {
        let (rig, action) = (cell(&change["rig"]), cell(&change["action"]));
        let keys = match at(change, "/keys").as_str() {
            "-" => String::new(),
            keys => format!(": {keys}"),
        };
        lines.push(format!("{action:<9} rig {rig}{keys}"));
    }
    for change in result["raiders"].as_array().into_iter().flatten() {
        let (raider, action) = (cell(&change["raider"]), cell(&change["action"]));
        let why = match action.as_str() {
            "drain" => "it is suspended, and its session ends".to_owned(),
            _ => format!("its next session uses the new {}", cell(&change["harness"])),
        };
        lines.push(format!("{action:<9} {raider}: {why}"));
    }
    let pending = texts("pending").into_iter();
    lines.extend(pending.map(|key| format!("at the next start: {key}")));
    if lines.is_empty() {
        lines.push(style.paint(Tone::Faint, "no agent, raider or rig is affected"));
    }
    lines.join("\n")
}
