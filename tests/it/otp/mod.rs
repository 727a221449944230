//! The cases of Erlang/OTP's `supervisor_SUITE`, against the real daemon (`rules.md`, restart: names and
//! meaning are OTP's). The translation: a child is an agent of `city.toml`, adding and deleting one is a reload,
//! `simple_one_for_one` is a pool, and a supervisor that gives up is a quarantine.
//!
//! | Case | Test |
//! |---|---|
//! | `sup_start_normal` | `start::a_city_without_agents_starts_answers_and_stops_without_a_trace` |
//! | `sup_start_ignore_init` | does not apply: nothing in `city.toml` says that there shall be no daemon |
//! | `sup_start_ignore_child` | `start::a_suspended_agent_is_listed_and_the_next_one_starts` |
//! | `sup_start_ignore_temporary_child`, `.._start_child`, `.._permanent_child_start_child_simple`, `simple_one_for_one_restart_ignore` | do not apply: a program that was started cannot say that there is nothing to run |
//! | `sup_start_error_return`, `sup_start_fail`, `sup_start_map_faulty_specs`, `child_specs`, `sup_flags` | `start::a_configuration_that_cannot_be_is_refused_before_anything_is_started` |
//! | `sup_start_child_returns_error`, `sup_start_restart_child_returns_error` | `adm::failed_start_is_answered_with_its_reason`; of a raider: the root's `a_first_start_that_fails_is_answered_and_leaves_nothing` |
//! | `sup_start_child_returns_error_simple` | `pools::members_are_called_by_name_and_others_are_left_alone` |
//! | `sup_start_map` | `start::missing_restart_settings_have_defaults` |
//! | `sup_start_map_simple`, `simple_one_for_one`, `simple_one_for_one_extra`, `simple_one_for_one_escalation` | `pools::member_that_dies_comes_back_with_its_name` |
//! | `sup_stop_infinity`, `sup_stop_timeout`, `sup_stop_timeout_dynamic`, `sup_stop_brutal_kill`, `sup_stop_brutal_kill_dynamic`, `sup_stop_non_shutdown_exit_dynamic`, `simple_one_for_one_shutdown`, `do_terminate` | `stop::dozen_stubborn_agents_cost_one_grace_and_no_other_is_killed` |
//! | `sup_stop_race` | `exits::child_that_ends_during_the_stop_stays_down` |
//! | `child_adm` | `adm::every_order_is_answered_in_every_state`; delete: `reload::a_specification_can_go_in_every_state_and_come_again`; idle: the benches |
//! | `child_adm_simple` | `pools::members_are_called_by_name_and_others_are_left_alone` |
//! | `extra_return` | `adm::the_name_of_a_session_outlives_it_and_there_is_only_ever_one` |
//! | `child_specs_map`, `nonsignificant_*`, `significant_*` | do not apply: no child ends its supervisor; the key is refused by name, see `child_specs` |
//! | `permanent_*`, `transient_*`, `temporary_*` (`normal`, `shutdown`, `abnormal`) | `exits::restart_type_decides_after_which_exit_a_child_restarts` |
//! | `temporary_bystander` | `groups::a_temporary_bystander_ends_with_its_group` |
//! | `faulty_application_shutdown` | `exits::a_command_that_does_not_exist_is_named` |
//! | `multiple_restarts` | `intensity::deaths_that_are_a_window_apart_never_quarantine` |
//! | `one_for_one`, `one_for_all`, `rest_for_one` | `groups::strategy_decides_which_members_are_restarted_after_a_death` |
//! | `one_for_one_escalation` | `intensity::failed_attempts_count_and_the_limit_is_per_child` |
//! | `one_for_all_escalation`, `rest_for_one_escalation` | `groups::members_that_a_quarantine_concerns_wait_and_go_on_with_it` |
//! | `one_for_all_other_child_fails_restart`, `rest_for_one_other_child_fails_restart` | `groups::member_that_dies_at_a_restart_of_its_group_is_restarted_as_the_strategy_says` |
//! | `simple_one_for_one_corruption`, `do_not_save_child_specs_for_temporary_children` | `pools::members_come_and_go_and_leave_nothing` |
//! | `do_not_save_start_parameters_for_temporary_children` | does not apply: what an agent is started with stands in `city.toml` |
//! | `child_unlink` | `stop::runaway_process_is_ended_with_its_agent_while_the_daemon_answers` |
//! | `tree` | does not apply: one level of supervision; `depends_on` in `stop::dependent_agent_starts_after_and_ends_before_its_dependency` |
//! | `count_children`, `count_children_supervisor`, `which_children`, `scale_start_stop_many_children`, `simple_one_for_one_scale_many_temporary_children` | `start::a_hundred_agents_start_are_counted_and_stop`; more of them: the benches |
//! | `count_restarting_children` | `intensity::child_that_waits_for_its_restart_is_listed_as_such` |
//! | `order_of_children` | `stop::dependent_agent_starts_after_and_ends_before_its_dependency` |
//! | `hanging_restart_loop`, `hanging_restart_loop_simple` | `hanging::restart_loop_delays_no_other_and_a_stop_ends_it`, `hanging::a_stop_of_everything_ends_the_loop` |
//! | `hanging_restart_loop_rest_for_one` | `hanging::those_after_it_wait_and_can_be_stopped` |
//! | `code_change`, `code_change_map`, `code_change_simple`, `code_change_simple_map` | `reload::reload_changes_flags_and_children_and_no_other_pid`; a bad one: `e2e::reload::a_broken_edit_keeps_the_old_configuration` |
//! | `already_started_outside_supervisor` | `adm::a_strangers_session_of_the_same_name_is_not_ended`; the socket's: `e2e::stop::a_second_supervisor_ends_at_once_and_leaves_the_first_alone` |
//! | `simple_global_supervisor` | `e2e::daemon_kills::sessions_survive_the_kill_of_the_daemon_and_are_adopted`, `e2e::crash::a_session_that_is_lost_with_its_holder_is_started_again` |
//! | `external_start_no_progress_log` | `exits::restart_type_decides_after_which_exit_a_child_restarts` |

mod adm;
mod exits;
mod groups;
mod hanging;
mod intensity;
mod pools;
mod reload;
mod start;
mod stop;

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::git::write;
use crate::support::live::{City, wait};
use crate::support::plan::{self, Plan};
use crate::support::{processes, program};

/// An agent that runs these lines after those of `stub.sh`, with further keys.
fn agent(name: &str, lines: &str, keys: &str) -> String {
    plan::agent(name, &format!(". ./stub.sh\n{lines}"), keys)
}

/// A group of agents.
fn group(strategy: &str, members: &[&str]) -> String {
    format!("[[groups]]\nname = \"together\"\nstrategy = \"{strategy}\"\nmembers = {members:?}\n")
}

/// Makes the city of a plan, with the stub available, not started yet.
fn made(plan: &Plan) -> City {
    let city = City::made(plan);
    write(city.root(), "stub.sh", include_str!("stub.sh"));
    write(city.root(), "stamps", "");
    city
}

/// Makes and starts the city of a plan.
fn started(plan: &Plan) -> City {
    let mut city = made(plan);
    city.start();
    city
}

/// A plan with these agents and groups.
fn with(parts: &[String]) -> Plan {
    Plan::new().add(&parts.concat())
}

/// Returns the stamps that the stubs have written, in order.
fn stamps(city: &City) -> Vec<String> {
    let stamps = fs::read_to_string(city.root().join("stamps")).unwrap();
    stamps.lines().map(str::to_owned).collect()
}

/// Returns the stamps of one stub.
fn stamps_of(city: &City, name: &str) -> Vec<String> {
    let prefix = format!("{name} ");
    let own = stamps(city).into_iter();
    own.filter_map(|line| line.strip_prefix(&prefix).map(str::to_owned))
        .collect()
}

/// Returns an agent as the daemon shows it; null when it is not shown.
fn shown(city: &City, name: &str) -> Value {
    let agents = city.ask("agent.list", json!({})).unwrap();
    let mut agents = agents.as_array().unwrap().iter();
    let found = agents.find(|agent| agent["name"] == name);
    found.cloned().unwrap_or_default()
}

/// Waits until the daemon shows an agent in a state.
fn in_state(city: &City, name: &str, state: &str) -> Value {
    wait(&format!("{name} is {state}"), || {
        Some(shown(city, name)).filter(|agent| agent["state"] == state)
    })
}

/// Waits until an agent runs in this generation, and returns its pid.
fn runs_as(city: &City, name: &str, generation: u64) -> u32 {
    wait(&format!("{name} runs, generation {generation}"), || {
        let agent = shown(city, name);
        let up = agent["state"] == "running" && agent["generation"] == generation;
        up.then(|| pid(&agent))
    })
}

/// Kills the process of a stub that runs.
fn kill(city: &City, name: &str) {
    processes::signal(counted(city, name), Signal::SIGKILL);
}

/// Waits until a stub runs and has counted its start, and returns its pid. A stub that ended earlier would take its
/// next start for the first.
fn counted(city: &City, name: &str) -> u32 {
    let counted = city.root().join("counted");
    wait(&format!("{name} has counted its start"), || {
        let pid = pid(Some(shown(city, name))
            .filter(|agent| agent["state"] == "running")
            .as_ref()?);
        let pids = fs::read_to_string(&counted).unwrap_or_default();
        let is_counted = pids.lines().any(|line| line == pid.to_string());
        is_counted.then_some(pid)
    })
}

/// Returns the process of an agent that is shown as running.
fn pid(agent: &Value) -> u32 {
    let pid = agent["pid"].as_u64().unwrap_or_else(|| panic!("{agent}"));
    pid.try_into().unwrap()
}

/// Restarts the bystander and waits for its event: the journal has everything that happened before then.
fn later(city: &City) {
    in_state(city, "later", "running");
    let before = city.happened("agent.restarted", "later").len();
    city.hd(&["agent", "restart", "later"]).json();
    city.wait_event(before + 1, "agent.restarted", "later");
}

/// The agent that [`later`] needs.
fn bystander() -> String {
    agent("later", "rest", "shutdown_timeout = \"0s\"")
}

/// An agent whose program is written by [`put_flaky`], and may disappear.
fn flaky() -> String {
    "[[agents]]\nname = \"flaky\"\ncommand = [\"./flaky\"]\n".to_owned()
}

/// Writes the program of the flaky agent: these lines after those of `stub.sh`.
fn put_flaky(city: &City, lines: &str) {
    let program = city.root().join("flaky");
    program::script(&program, &format!(". ./stub.sh\n{lines}"));
}
