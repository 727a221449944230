//! The outcome of an action in a sentence; `--json` prints the whole record.

use serde_json::Value;

use crate::cli::output::{Style, Tone};
use crate::control::protocol::answers::{
    AgentDone, Answered, BegunRun, Cancelled, Charging, Decided, DeliveryState, Done, Escalation,
    HandedOff, Leaves, MrRow, NotedRelic, Nuke, Nuked, Ordered, OrderedState, PullRequest,
    RaiderDone, Raised, Rehearsed, Relic, Reloaded, Repaired, Restored, SelfReview, Switched,
    Taken, Waiting, Would,
};
use crate::domain::answers::HeldRig;
use crate::domain::ids::verb_group;
use crate::domain::ignored::Ignored;
use crate::domain::reload::Change;
use crate::domain::saved_work;
use crate::domain::self_review::Verdict;

use super::words::{at, cell, clean, clean_lines, plural, short};

/// The number of new ids that an import tells as text.
const NEW_IDS_MAX: usize = 20;

/// Tells the state of an agent or raider after a request to start, stop or rest.
pub(in crate::cli) fn child(told: &Ordered, _: Style) -> String {
    let name = cell(&told.name);
    let group = verb_group(&name);
    match told.state {
        OrderedState::Stopped => format!("{name} is stopped, until `hd agent start {name}`"),
        OrderedState::Suspended => {
            format!("{name} is suspended, until `hd {group} resume {name}`")
        }
        OrderedState::Starting | OrderedState::Resumed => {
            format!("{name} is {}", cell(&told.state))
        }
    }
}

/// Tells the state of automatic charging.
pub(in crate::cli) fn charging(told: &Charging, _: Style) -> String {
    let (of, flag) = match &told.rig {
        None => ("in every rig".to_owned(), String::new()),
        Some(rig) => (format!("in rig {rig}"), format!(" --rig {rig}")),
    };
    match (told.paused, told.changed) {
        (true, true) => format!(
            "automatic charging is paused {of}, until `hd charge resume{flag}`; `hd charge RELIC RIG` still charges"
        ),
        (true, false) => format!("automatic charging was paused {of} already"),
        (false, true) => format!("automatic charging goes on {of}"),
        (false, false) => match &told.rig {
            None => "automatic charging is not paused in any rig".to_owned(),
            Some(rig) => format!("automatic charging is not paused in rig {rig}"),
        },
    }
}

/// Tells that a raider was removed, or what a removal would do.
pub(in crate::cli) fn nuke(told: &Nuke, style: Style) -> String {
    match told {
        Nuke::Rehearsed(told) => rehearsed(told, style),
        Nuke::Done(told) => nuked(told),
    }
}

fn nuked(told: &Nuked) -> String {
    let raider = &told.raider;
    let mut gone = match (&told.salvage, told.stashes.is_empty()) {
        (None, true) => format!("{raider} is removed; it held no work that had to be saved"),
        (None, false) => format!("{raider} is removed"),
        (Some(id), _) => match (clean(id), saved_work::loss(&told.damaged)) {
            (id, None) => {
                format!("{raider} is removed; its work is saved: hd salvage restore {id}")
            }
            (id, Some(loss)) => format!(
                "{raider} is removed; what could be read of its work is saved: hd salvage restore {id}; {loss}"
            ),
        },
    };
    if !told.stashes.is_empty() {
        gone += &format!(
            "; its stash entries are kept, for `git stash apply ID` in a worktree of the rig: {}",
            cell(&told.stashes)
        );
    }
    with_ignored(gone, &told.ignored)
}

/// Appends the list of ignored files that go with the sandbox, if it has any.
pub(in crate::cli) fn with_ignored(text: String, ignored: &Ignored) -> String {
    match ignored.line() {
        None => text,
        Some(line) => format!("{text}\n  {}", clean(&line)),
    }
}

/// Tells why a raider is kept and what it holds, a line each, also when file names contain control characters.
pub(in crate::cli) fn refused(told: &Rehearsed) -> String {
    let why = told.message.as_deref();
    let why = clean(why.unwrap_or("work would be lost"));
    with_ignored(with_losses(why, told), &told.ignored)
}

fn with_losses(text: String, told: &Rehearsed) -> String {
    let losses = told.losses.iter();
    losses.fold(text, |text, loss| text + "\n  " + &clean(loss))
}

/// Tells what `nuke --dry-run` found that a removal would do.
pub(in crate::cli) fn rehearsed(told: &Rehearsed, style: Style) -> String {
    let raider = &told.raider;
    if told.safe && told.would != Would::Salvage {
        let safe = format!("{raider} would be removed; no work would be lost");
        return with_ignored(safe, &told.ignored);
    }
    let head = match told.would {
        Would::Salvage => style.paint(
            Tone::Waits,
            &format!("{raider} would be removed, and salvage refs would keep:"),
        ),
        Would::Nuke | Would::Refuse => style.paint(
            Tone::Bad,
            &format!("{raider} would be kept, because it holds:"),
        ),
    };
    with_ignored(with_losses(head, told), &told.ignored)
}

/// Tells that a sandbox was repaired.
pub(in crate::cli) fn repaired(told: &Repaired, _: Style) -> String {
    let mut said = format!("{} of {} is usable", cell(&told.sandbox), told.raider);
    if let Some(was) = &told.was {
        said += &format!("; repaired fault: {}", cell(was));
    }
    if let Some(id) = &told.salvage {
        said += &format!("; its earlier content is saved as {}", cell(id));
    }
    said
}

/// Tells what a relic waits for.
pub(in crate::cli) fn waits_for(told: &Relic, _: Style) -> String {
    match told.deps.is_empty() {
        true => format!("{} waits for no relic", told.id),
        false => format!("{} waits for {}", told.id, cell(&told.deps)),
    }
}

/// Tells that a relic was cancelled, and where its work is.
pub(in crate::cli) fn cancelled(told: &Cancelled, style: Style) -> String {
    let mut text = relic(&told.relic, style);
    match (&told.nuked, &told.salvage) {
        (None, _) => {}
        (Some(raider), None) => {
            text += &format!("\n{raider} is removed; it held no work that had to be saved");
        }
        (Some(raider), Some(id)) => {
            let id = cell(id);
            text += &format!("\n{raider} is removed; its work is saved: hd salvage restore {id}");
        }
    }
    if !told.withdrawn.is_empty() {
        text += &format!("\n{} is taken out of the queue", cell(&told.withdrawn));
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
    let made = usize::try_from(count("created")).unwrap_or(usize::MAX);
    let mut text = format!(
        "{} made, {} updated, {} unchanged; {}",
        plural(made, "relic"),
        count("updated"),
        count("unchanged"),
        at(told, "/priorities")
    );
    let skipped = told.get("skipped").and_then(Value::as_object);
    for (kind, number) in skipped.into_iter().flatten() {
        text += &format!("\nleft out: {} {}", short(number), kind.replace('_', " "));
    }
    let unresolved = told.get("unresolved").and_then(Value::as_array);
    for one in unresolved.into_iter().flatten() {
        text += &format!(
            "\n{}: left out what is neither in the file nor in the city: {}",
            at(one, "/record"),
            at(one, "/missing")
        );
    }
    text + &new_ids(told)
}

/// Returns a line for each imported record that has another id here. A large import has the rest in its JSON.
fn new_ids(told: &Value) -> String {
    let relics = told.get("relics").and_then(Value::as_array);
    let mut renamed = relics
        .into_iter()
        .flatten()
        .filter(|one| at(one, "/change") != "unchanged")
        .map(|one| (at(one, "/record"), at(one, "/relic")))
        .filter(|(record, relic)| record != relic);
    let mut text: String = renamed
        .by_ref()
        .take(NEW_IDS_MAX)
        .map(|(record, relic)| format!("\n{record} is now {relic}"))
        .collect();
    match renamed.count() {
        0 => {}
        more => text += &format!("\n--json names {more} more"),
    }
    text
}

/// Tells that a relic was made, closed or reopened.
pub(in crate::cli) fn relic(told: &Relic, _: Style) -> String {
    let (status, title) = (cell(&told.status), cell(&told.title));
    format!("{} is {status}: {title}", told.id)
}

/// Tells the state of a relic that was made or edited.
pub(in crate::cli) fn noted(told: &NotedRelic, style: Style) -> String {
    with_note(relic(&told.relic, style), told.note.as_deref())
}

/// Appends a note on a line of its own, if there is one.
fn with_note(said: String, note: Option<&str>) -> String {
    match note {
        None => said,
        Some(note) => format!("{said}\n{}", cell(&note)),
    }
}

/// Tells the state of a merge request.
pub(in crate::cli) fn merge_request(told: &MrRow, _: Style) -> String {
    let said = format!("{} of {} is {}", told.id, told.relic, cell(&told.state));
    match &told.note {
        None => said,
        Some(note) => format!("{said}: {}", cell(note)),
    }
}

/// Tells the state of a merge request after a person decided on it.
pub(in crate::cli) fn decided(told: &Decided, style: Style) -> String {
    let said = merge_request(&told.mr, style);
    let back_to = cell(&told.back_to);
    match &told.delivery {
        None if told.charge_paused => {
            let (relic, rig) = (&told.mr.relic, &told.mr.rig);
            format!(
                "{said}\n{relic} waits, because automatic charging is paused: hd charge {relic} {rig}"
            )
        }
        None => said,
        Some(delivery) if delivery.state == DeliveryState::Delivered => {
            let why = delivery.why.as_ref().map(|why| format!("; {}", cell(why)));
            let why = why.unwrap_or_default();
            format!("{said}\n{back_to} has the note and works on{why}")
        }
        Some(delivery) => format!(
            "{said}\n{back_to} works on; its session could not be told yet: {}; `hd rally` and its next session have \
             the note",
            cell(&delivery.why)
        ),
    }
}

/// Tells the address of a pull request, on a line of its own.
pub(in crate::cli) fn pull_request(told: &PullRequest, style: Style) -> String {
    let url = cell(&told.url);
    if !told.already {
        return url;
    }
    let id = &told.mr.id;
    let said = format!("it was opened before; if it was closed at the host: hd mq pr {id} --anew");
    format!("{url}\n{}", style.paint(Tone::Faint, &said))
}

/// Tells that an automation was enabled or disabled.
pub(in crate::cli) fn switched(told: &Switched, _: Style) -> String {
    let word = match told.enabled {
        true => "enabled",
        false => "disabled",
    };
    format!("{} is {word}", told.name)
}

/// Tells that a run was started by hand.
pub(in crate::cli) fn begun(told: &BegunRun, _: Style) -> String {
    let name = &told.name;
    let run = told.run;
    format!("run {run} of {name} has started: hd auto history {name}")
}

/// Tells that an operator was called, now or before.
pub(in crate::cli) fn escalated(told: &Raised, _: Style) -> String {
    let escalation = &told.escalation;
    let how = match (told.known, told.called, escalation.acked) {
        (false, ..) => "is open, and in `hd escalations`",
        (true, true, _) => "was open with a lower severity; its severity is raised",
        (true, false, true) => "is open and was acknowledged; no new notice is sent",
        (true, false, false) => "is open already; no new notice is sent for now",
    };
    let relic = &escalation.relic;
    format!("{} {how}: {}", relic.id, cell(&relic.title))
}

/// Tells that an escalation was acknowledged.
pub(in crate::cli) fn acked(told: &Escalation, _: Style) -> String {
    let id = &told.relic.id;
    format!("{id} is acknowledged and sends no more notices; `hd relic close {id}` closes it")
}

/// Tells that a text was typed into a terminal.
pub(in crate::cli) fn taken(told: &Taken, _: Style) -> String {
    format!("{} accepted the text", cell(&told.name))
}

/// Tells that a dialog was answered.
pub(in crate::cli) fn answered(told: &Answered, _: Style) -> String {
    let next = told.next.as_ref();
    let next = next.map_or_else(String::new, |next| {
        format!("; its next question: {}", clean(next))
    });
    let (name, answer) = (cell(&told.name), cell(&told.answer));
    format!("{name} accepted the answer {answer}{next}")
}

/// Tells that a completion was declared.
pub(in crate::cli) fn done(told: &Done, _: Style) -> String {
    match told {
        Done::Raider(told) => of_raider(told),
        Done::Agent(told) => of_agent(told),
    }
}

/// Tells that a completion was left in the outbox.
pub(in crate::cli) fn left_in_outbox(told: &Value, _: Style) -> String {
    format!("it is saved in {}", at(told, "/outbox"))
}

fn of_raider(told: &RaiderDone) -> String {
    let declared = match told.already {
        true => "is already declared",
        false => "is declared",
    };
    let said = format!(
        "{} {declared} {}; its branch {} is pushed by the supervisor",
        told.relic,
        cell(&told.exit),
        cell(&told.branch)
    );
    let said = match told.may_be_reviewed {
        true => format!(
            "{said}; end your turn now: if a person reviews it, this session stays, a rejection arrives as a drum, and \
            later commits are submitted by another `hd done`"
        ),
        false => said,
    };
    with_note(said, told.note.as_deref())
}

/// Tells what `done` of a standing agent made of its relic, and that it leaves its pool.
fn of_agent(told: &AgentDone) -> String {
    let relic = told.relic.as_ref();
    let relic = relic.map(|relic| format!("{relic} is {}", cell(&told.status)));
    let leaves = told.state.map(|Leaves::Draining| {
        let name = &told.name;
        format!("{name} has finished and leaves the pool")
    });
    let parts: Vec<_> = [relic, leaves].into_iter().flatten().collect();
    parts.join("; ")
}

/// Tells that a session makes room for a fresh one.
pub(in crate::cli) fn handed_off(told: &HandedOff, _: Style) -> String {
    format!("{} continues in a fresh session", cell(&told.name))
}

/// Tells that a wait was declared.
pub(in crate::cli) fn waits(told: &Waiting, _: Style) -> String {
    let (until, reason) = (cell(&told.until), cell(&told.reason));
    format!("{} declared a wait until {until}: {reason}", told.name)
}

/// Tells which round of self-review was recorded, and what follows.
pub(in crate::cli) fn reviewed(told: &SelfReview, _: Style) -> String {
    let round = &told.round;
    let next = match (round.verdict, told.left) {
        (Verdict::Passed, _) => "commit everything, then run `hd done`".to_owned(),
        (Verdict::Stuck, _) => "its relic waits for a person".to_owned(),
        (Verdict::Failed, 0) => "no self-review is left; run `hd review stuck -m WHY`".to_owned(),
        (Verdict::Failed, left) => {
            format!("repair it and review again; {left} may still fail")
        }
    };
    let (raider, verdict) = (&round.raider, round.verdict);
    format!("{raider}: self-review {} {verdict}: {next}", round.round)
}

/// Tells where a salvage was restored.
pub(in crate::cli) fn restored(told: &Restored, _: Style) -> String {
    let mut said = format!("{} is restored in {}", cell(&told.id), cell(&told.path));
    if !told.lost.is_empty() {
        said.push_str(&format!(
            ", without its refs whose commits are LOST ({})",
            cell(&told.lost)
        ));
    }
    match told.stash_ids.is_empty() {
        true => said,
        false => format!(
            "{said}; `git stash apply ID` there applies a stash entry: {}",
            cell(&told.stash_ids)
        ),
    }
}

/// Tells which rigs are held after a reload, and which are no longer.
fn reloaded_rigs(told: &Reloaded, style: Style) -> Vec<String> {
    let held = told.held.iter().map(|HeldRig { rig, why }| {
        let text = format!(
            "! rig {rig} is held, and each patrol retries it: {}",
            cell(&why)
        );
        style.paint(Tone::Bad, &text)
    });
    let prepared = told.prepared.iter();
    held.chain(prepared.map(|rig| format!("rig {rig} is held no longer; its work continues")))
        .collect()
}

/// Tells what a reload did to each agent and rig, and which raiders apply it later.
pub(in crate::cli) fn reloaded(told: &Reloaded, style: Style) -> String {
    let mut lines = reloaded_rigs(told, style);
    if told.unchanged {
        let since = cell(&told.applied_at);
        let same = format!(
            "the configuration has not changed since {since}; git's settings were read again"
        );
        lines.insert(0, style.paint(Tone::Faint, &same));
        return lines.join("\n");
    }
    // With file, line and caret.
    lines.extend(told.errors.iter().map(|error| clean_lines(error)));
    for change in &told.actions {
        lines.push(format!("{:<9} {}", cell(&change.action), change.agent));
    }
    for change in &told.rigs {
        let keys = match change.keys.is_empty() {
            true => String::new(),
            false => format!(": {}", cell(&change.keys)),
        };
        lines.push(format!(
            "{:<9} rig {}{keys}",
            cell(&change.action),
            change.rig
        ));
    }
    for change in &told.raiders {
        let why = match change.action {
            Change::Drain => "it is suspended, and its session ends".to_owned(),
            _ => format!("its next session uses the new {}", change.harness),
        };
        let (action, raider) = (cell(&change.action), &change.raider);
        lines.push(format!("{action:<9} {raider}: {why}"));
    }
    let pending = told.pending.iter().map(|key| clean(key));
    lines.extend(pending.map(|key| format!("at the next start: {key}")));
    if lines.is_empty() {
        lines.push(style.paint(Tone::Faint, "no agent, raider or rig is affected"));
    }
    lines.join("\n")
}
