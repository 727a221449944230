//! The text that tells an agent the state of its totem: the present step, how to close it, and what comes after.

use super::{Step, Totem};
use crate::domain::ids::RelicId;

/// The maximum number of steps that are listed.
const LISTED: usize = 20;
/// The maximum length of a step's title in a list, in bytes: a variable may have made it long.
const TITLE_SHOWN: usize = 200;
/// The maximum length of the part with the present step in a prompt, in bytes.
const PRESENT_MAX: usize = 8_000;
/// The beginning of the part behind the present step.
const AFTER: &str = "\n\nWhen this step is done, commit, and run ";

/// Returns the orders for a prompt, for command lines are limited: a long body of the present step is cut, and its rest
/// left to the task file.
#[must_use]
pub fn shortened(orders: &str, task_file: &str) -> String {
    let end = orders.rfind(AFTER).unwrap_or(orders.len());
    if end <= PRESENT_MAX {
        return orders.to_owned();
    }
    let (present, after) = orders.split_at(end);
    let shown = &present[..present.floor_char_boundary(PRESENT_MAX)];
    format!("{shown}\n[... the rest is in {task_file}]{after}")
}

/// Returns the title of a step as lists show it.
fn listed(step: &Step) -> &str {
    let title = &step.relic.title;
    &title[..title.floor_char_boundary(TITLE_SHOWN)]
}

/// Returns the text for prompts, the task file and `hd rally`. `hd` is the command as any shell finds it.
#[must_use]
pub fn orders(totem: &Totem, hd: &str) -> String {
    let (ritual, all) = (&totem.row.ritual, totem.steps.len());
    let head = format!(
        "This task is done in steps (ritual {ritual}, {} of {all} done).",
        totem.done()
    );
    if totem.is_finished() {
        return format!(
            "{head} {} Work that came back from a review, a gate or a conflict comes with its steps done: repair what is said above, \
             commit, and finish then.",
            finished(hd)
        );
    }
    let Some(step) = totem.present() else {
        return format!("{head} {}", waiting(totem, hd));
    };
    let (id, title) = (&step.relic.id, &step.relic.title);
    let at = totem.steps.iter().position(|it| it.name == step.name);
    let number = at.map_or(0, |at| at + 1);
    let body = step.relic.body.trim();
    let body = if body.is_empty() {
        String::new()
    } else {
        format!("\n\n{body}")
    };
    let others = totem.open().filter(|other| other.name != step.name);
    let after = list(others, hd);
    format!(
        "{head} Work on the present step only.\n\n\
         Step {number}, {id}: {title}{body}\
         {AFTER}`{hd} step done {id}`: it prints the next step.{after}"
    )
}

/// Returns the next open step, and the sentence that names the open ones, for work that was declared complete; none when every step is
/// done.
#[must_use]
pub fn open(totem: &Totem) -> Option<(RelicId, String)> {
    let next = totem.present().or_else(|| totem.open().next())?;
    let (of, id, title) = (&totem.row.relic, &next.relic.id, &next.relic.title);
    let sentence = match totem.open().count() {
        1 => format!("a step of {of} is not done: {id} ({title})"),
        left => format!("{left} steps of {of} are not done, the next is {id} ({title})"),
    };
    Some((id.clone(), sentence))
}

/// Returns the sentence for a totem whose steps are all done.
#[must_use]
pub fn finished(hd: &str) -> String {
    format!("Every step is done: finish with `{hd} done`.")
}

/// Returns the sentences for a totem of which no step is ready.
#[must_use]
pub fn waiting(totem: &Totem, hd: &str) -> String {
    let lines = totem.open().take(LISTED).map(|step| {
        let waits = step.waits_for.iter().map(ToString::to_string);
        let waits = match waits.collect::<Vec<_>>() {
            none if none.is_empty() => "a person".to_owned(),
            some => some.join(", "),
        };
        format!("\n- {}: {} waits for {waits}", step.relic.id, listed(step))
    });
    let lines: String = lines.collect();
    format!(
        "No step is ready:{lines}\n\
         Declare a wait (`{hd} wait 30m --reason \"what for\"`), or `{hd} done --status deferred --reason \"what for\"`."
    )
}

fn list<'a>(steps: impl Iterator<Item = &'a Step>, hd: &str) -> String {
    let lines = steps.map(|step| {
        let fresh = match step.fresh_session {
            true => " (in a fresh session, which starts by itself)",
            false => "",
        };
        let ready = match step.is_ready() {
            true => " (ready, too)",
            false => "",
        };
        format!("\n- {}: {}{fresh}{ready}", step.relic.id, listed(step))
    });
    let lines: Vec<String> = lines.collect();
    match lines.len() {
        0 => format!(" It is the last one; then `{hd} done`."),
        more => {
            let shown: String = lines.into_iter().take(LISTED).collect();
            let rest = match more.checked_sub(LISTED) {
                Some(rest) if rest > 0 => format!("\n- and {rest} more"),
                _ => String::new(),
            };
            format!(" After it come:{shown}{rest}")
        }
    }
}

/// Returns the workflow of a task with steps: it replaces the one of a task without.
#[must_use]
pub fn workflow(task_file: &str, hd: &str, review: &str, max: u32) -> String {
    let times = if max == 1 { "time" } else { "times" };
    format!(
        "Work in this order:\n\
         1. Read {task_file}: the whole task, and its present step.\n\
         2. Read CLAUDE.md and AGENTS.md, where the repository has them, and keep to them.\n\
         3. Do the present step as it says. The later steps are not yet your business.\n\
         4. Commit everything to your branch. Uncommitted files do not count.\n\
         5. Run `{hd} step done ID` with the id of the step, and continue with the step that it prints.\n\
         6. Where a step asks for a review of your work: {review}. Record each review: `{hd} review passed`, or \
         `{hd} review failed -m \"what it found\"`. When it finds something, fix it, commit, and review again. After it \
         has failed {max} {times}, stop with the outcome `stuck`.\n\
         7. When every step is done, write the outcome, and stop."
    )
}

#[cfg(test)]
mod tests {
    use crate::domain::totem::tests::{id, totem};

    use super::*;

    #[test]
    fn orders_show_the_present_step_how_to_close_it_and_what_follows() {
        let mut totem = totem(&[
            (true, &[], false),
            (false, &[1], false),
            (false, &[2], true),
        ]);
        totem.steps[1].relic.title = "Implement".into();
        totem.steps[1].relic.body = "Make the change.\n".into();
        totem.steps[2].relic.title = "Review".into();
        let text = orders(&totem, "/bin/hd");
        for part in [
            "ritual work, 1 of 3 done",
            "Step 2, gt-1.2: Implement\n\nMake the change.\n",
            "`/bin/hd step done gt-1.2`",
            "- gt-1.3: Review (in a fresh session",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("gt-1.1:"), "{text}");
    }

    /// The prompt of a harness may be an argument of its command line, which is limited.
    #[test]
    fn long_steps_are_cut_in_prompts_and_left_whole_in_the_task_file() {
        let mut totem = totem(&[(false, &[], false), (false, &[1], false)]);
        totem.steps[0].relic.body = "é".repeat(60_000);
        totem.steps[1].relic.title = "t".repeat(4_000);
        let whole = orders(&totem, "hd");
        assert!(whole.len() > 120_000);
        let short = shortened(&whole, "TASK.md");
        assert!(short.len() < 9_000, "{}", short.len());
        for part in [
            "[... the rest is in TASK.md]",
            "`hd step done gt-1.1`",
            "- gt-1.2: ttt",
        ] {
            assert!(short.contains(part), "{part}: {short}");
        }
        let own = orders(&super::super::tests::totem(&[(false, &[], false)]), "hd");
        assert_eq!(shortened(&own, "TASK.md"), own);
    }

    #[test]
    fn the_last_step_and_the_end_say_hd_done() {
        let last = orders(&totem(&[(true, &[], false), (false, &[1], false)]), "hd");
        assert!(
            last.contains("It is the last one; then `hd done`"),
            "{last}"
        );
        let end = orders(&totem(&[(true, &[], false)]), "hd");
        assert!(
            end.contains("Every step is done: finish with `hd done`"),
            "{end}"
        );
    }

    #[test]
    fn a_totem_without_a_ready_step_says_what_each_waits_for() {
        let mut totem = totem(&[(false, &[], false), (false, &[1], false)]);
        totem.steps[0].waits_for.push("gt-9".parse().unwrap());
        let text = orders(&totem, "hd");
        assert!(
            text.contains("gt-1.1") && text.contains("waits for gt-9"),
            "{text}"
        );
        assert!(text.contains(&format!("waits for {}", id(1))), "{text}");
    }

    #[test]
    fn a_long_totem_is_listed_in_part() {
        let steps: Vec<(bool, &[usize], bool)> = vec![(false, &[], false); 60];
        let text = orders(&totem(&steps), "hd");
        assert!(text.contains("- and 39 more"), "{text}");
    }
}
