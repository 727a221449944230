//! Faults on purpose, against the real daemon: what may happen to a supervisor, and which test shows that
//! it gets over it. About half of them run in `cargo test`, on tmux one; those with `#[ignore = "long tier: chaos"]` run only in the long
//! tier, where `by_tier` also chooses larger numbers: those of the table in docs/faults.md. Seeds are printed, and
//! `HORDE_SEED` repeats one.
//!
//! | | Fault | tests |
//! |---|---|---|
//! | C1 | one child killed at a time, 1000 times at random | every_kill_is_answered_by_one_restart |
//! | C2 | 100 children killed at once | agents_killed_all_at_once_come_back_without_quarantine |
//! | C3 | the daemon killed at random, and at every journalled step | a_daemon_killed_at_random_moments_loses_nothing, a_daemon_that_dies_at_any_fault_point_comes_to_the_same_end, daemon_killed_during_its_stop_neither_doubles_nor_loses_an_agent, sessions_survive_the_kill_of_the_daemon_and_are_adopted |
//! | C3 | counters and quarantine, with `restart_history = "persistent"` | a_quarantine_outlives_the_kill_of_the_daemon_until_an_operator_ends_it |
//! | C4 | a holder killed | a_killed_holder_is_lost_and_never_leads_to_a_second_copy, a_session_that_is_lost_with_its_holder_is_started_again |
//! | C5 | the daemon and all holders killed | agent_that_outlives_daemon_and_holder_is_replaced_and_never_doubled |
//! | C6 | TERM ignored; agent or holder stopped by SIGSTOP | deaf_or_frozen_agent_is_ended_and_delays_no_other, dozen_stubborn_agents_cost_one_grace_and_no_other_is_killed |
//! | C6 | KILL survived (state D) | a_session_that_survives_a_kill_raises_one_alarm |
//! | C7 | setsid grandchildren that hold the terminal | runaway_process_is_ended_with_its_agent_while_the_daemon_answers, a_child_that_holds_and_floods_the_terminal_does_not_delay_the_end |
//! | C8 | flapping at every pace | quarantine_iff_more_than_max_deaths_in_the_window, back_off_grows_as_configured_and_the_death_after_the_last_quarantines, deaths_leave_the_restart_window_separately |
//! | C9 | a start that takes for ever | hanging_start_is_a_death_and_its_late_session_is_ended |
//! | C10 | the wall clock set an hour forth or back | a_jump_makes_nothing_old_and_keeps_nothing_young, a_jump_of_the_wall_clock_makes_no_session_idle_before_its_time_or_after, jump_of_the_wall_clock_ends_no_quarantine_and_restarts_no_child, a_jump_of_the_wall_clock_makes_no_completion_overdue_before_its_time_or_after |
//! | C11 | the store cannot grow | sessions_run_on_and_restart_while_nothing_can_be_written |
//! | C11 | a full disk | on_a_full_disk_sessions_run_on_and_all_is_well_when_there_is_room, a_nuke_whose_salvage_has_no_room_destroys_nothing, supervisor_killed_on_a_full_disk_loses_no_agent, a_log_that_takes_nothing_costs_only_the_log, used_up_quota_is_a_full_disk |
//! | C11 | a disk that turns read-only | a_city_that_turns_read_only_loses_nothing_and_goes_on_when_it_may_be_written_to |
//! | C11 | a start where nothing can be written | a_supervisor_that_has_no_room_to_start_says_so_and_starts_when_there_is_some |
//! | C11 | the store itself: a full disk, a read-only one, torn writes | a_really_full_disk_refuses_and_recovers_when_there_is_room_again, a_disk_that_turns_read_only_refuses_and_recovers, only_committed_transactions_survive_a_crash |
//! | C12 | a program that is not there, a start that fails | a_command_that_does_not_exist_is_named, failed_attempts_count_and_the_limit_is_per_child |
//! | C12 | no file descriptor, no memory for the daemon | shortage_of_file_descriptors_loses_no_agent_and_is_recovered_from, without_memory_no_session_is_lost_or_doubled |
//! | C13 | the daemon stopped by SIGSTOP while children die | a_daemon_that_was_frozen_catches_up_without_a_storm |
//! | C14 | output without end, newline or encoding | flood_of_output_is_bounded_and_stops_no_other_agent, a_flood_is_bounded_on_disk_and_does_not_stop |
//! | C15 | reloads in a storm of kills, half of them invalid | reloads_in_a_storm_touch_no_other_agent |
//! | C16 | clients that send nothing, parts of a line, or garbage | clients_that_hang_or_rave_delay_no_restart |
//! | C16 | a session that opens every connection; callers that cannot be read | session_that_opens_every_connection_shuts_out_no_person, callers_that_cannot_be_read_hold_up_neither_a_person_nor_the_end, caller_that_cannot_be_read_keeps_no_other_waiting |
//! | C17 | a second daemon; a reused pid | a_second_supervisor_ends_at_once_and_leaves_the_first_alone, a_zombie_does_not_live_and_a_reused_pid_is_another_process, foreign_process_with_a_reused_pid_is_neither_adopted_nor_ended, caller_whose_pid_is_given_to_another_process_only_looks |
//! | C18 | orders in every state, at the same time | every_order_is_answered_in_every_state, each_wanted_child_runs_once_after_any_edits_and_failures, stop_in_a_storm_leaves_no_process |
//! | C19 | lock, socket, `.horde`, the city itself removed, moved or replaced at runtime | removed_lock_and_socket_are_made_again_and_no_second_supervisor_runs, file_in_the_place_of_the_socket_is_reported_and_left_alone, removed_state_doubles_no_agent_and_its_store_is_not_begun_anew_silently, state_that_is_moved_away_is_moved_back, city_that_is_moved_is_said_and_a_stop_at_its_new_place_ends_everybody, city_that_is_moved_for_some_patrols_is_moved_back_and_its_work_goes_on |
//! | C19 | the city's directory replaced by a backup, a copy or a new one, or removed, and a supervisor started there | backup_that_replaces_a_running_city_waits_for_the_end_of_its_supervisor, copy_that_takes_the_place_of_a_moved_running_city_waits_for_the_end_of_its_supervisor, city_made_afresh_in_the_place_of_a_running_one_waits_for_the_end_of_its_supervisor, copy_of_a_city_that_was_moved_while_it_runs_is_refused, something_new_in_the_place_of_a_moved_city_ends_its_supervisor, city_that_is_removed_ends_its_supervisor_and_its_sessions, work_under_way_changes_nothing_in_the_directory_that_replaces_the_city, removal_under_way_changes_nothing_in_the_directory_that_replaces_the_city |
//! | C19 | none: what looks for such replacements wakes no supervisor at rest | supervisor_at_rest_is_not_woken |
//! | C19 | a link as `.horde`, something else in the place of the socket, at the start | link_as_state_directory_is_refused_and_its_target_keeps_its_mode, without_a_socket_no_session_is_started |
//! | C19 | a copy of the city is started, a backup takes its place | copy_of_a_city_is_refused_and_ends_no_agent_and_a_backup_in_its_place_starts |
//! | C19 | the supervisor's own repositories moved away or removed | repository_that_vanishes_holds_its_rig_calls_a_person_and_heals_when_it_is_back, repository_that_was_made_once_is_made_anew_only_for_a_person |
//! | C19 | the relic store deleted under it, lost, or older than it was | lost_store_is_refused_until_a_person_decides, store_that_lost_its_newest_commits_is_told_from_the_one_that_was |
//! | C20 | a session's directory or record removed, garbled, forged | session_whose_record_is_lost_or_garbled_is_taken_over_and_never_doubled, record_that_is_garbled_while_it_runs_is_written_again_by_a_patrol, stranger_that_a_record_names_is_left_alone |
//! | C19 | `.horde`, the directory of the sessions or that of one session replaced by a file, FIFO or link | state_directory_that_is_replaced_is_put_back_and_nothing_goes_through_a_link, directory_of_the_sessions_that_is_replaced_is_put_back, directory_of_a_session_that_is_replaced_is_put_back, death_is_answered_whatever_replaced_the_directory_of_the_session |
//! | C20 | a session's log replaced by a FIFO or links while its agent dies | death_is_answered_whatever_was_made_of_the_log |
//! | C21 | a stop that cannot end everybody | stop_names_the_session_that_survives_a_kill_and_the_next_supervisor_doubles_nothing, stop_names_the_sessions_that_it_could_not_end, with_few_descriptors_a_stop_ends_everybody_or_names_those_that_are_left |
//! | C22 | signals ignored or blocked by the parent | signals_that_were_ignored_or_blocked_at_the_start_are_heard |
//! | C22 | a log that nothing reads, is closed, is rotated | log_that_takes_nothing_holds_up_nothing, supervisor_whose_log_takes_nothing_is_stopped_by_a_signal_and_by_a_command, supervisor_without_a_standard_error_works_and_ends, log_is_opened_again_after_it_was_rotated |
//! | C22 | FIFO, device, directory, 100 MB as a file that is read | odd_files_are_said_and_hold_up_nothing, odd_thing_as_city_toml_is_said_and_changes_nothing, irregular_file_to_copy_refuses_its_charge_and_delays_no_other, link_to_an_endless_device_and_a_large_file_to_copy_hold_up_nothing |
//! | C22 | hundreds of idle connections; 64 descriptors; `ulimit -f`; no inotify; values of 100 kB | idle_connections_do_not_block_other_clients, with_few_descriptors_a_stop_ends_everybody_or_names_those_that_are_left, limit_of_the_size_of_files_ends_nothing, without_inotify_changes_are_found_by_patrols_and_it_is_said, values_of_a_hundred_kilobytes_reach_the_agent |
//! | C23 | a rig whose git or disk hangs, at work and at the start | rig_whose_git_hangs_is_unseen_and_holds_up_nothing, rig_that_hangs_at_the_start_is_held_and_the_others_start, rig_that_hangs_uses_up_its_own_budget_and_counts_as_unseen, short_work_on_a_rig_is_given_up_after_its_limit |
//! | C23 | a look or a start that hangs | root_look_that_hangs_is_reported_and_another_follows, look_that_hangs_or_panics_ends_and_others_have_their_time, starts_that_hang_keep_no_other_session_from_starting |

/// Makes a second test of each of these, with sessions on tmux. All but the first group are of the long tier.
macro_rules! on_tmux_too {
    (daily: $($daily:ident),*; long: $($long:ident),*) => {
        mod on_tmux {
            $(
                #[test]
                fn $daily() {
                    $crate::support::tmux::run_on_tmux(super::$daily);
                }
            )*
            $(
                #[test]
                #[ignore = "long tier: chaos"]
                fn $long() {
                    $crate::support::tmux::run_on_tmux(super::$long);
                }
            )*
        }
    };
}

mod clients;
mod disk;
mod displaced;
mod frozen;
mod ground;
mod hindered;
mod hung;
mod kills;
mod records;
mod replaced;
mod reused;
mod scarce;
mod undying;

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::live::{City, until, wait};
use crate::support::plan::{self, Plan};
use crate::support::{processes, tmux};

/// An agent that runs this script.
fn agent(name: &str, script: &str) -> String {
    plan::agent(name, script, "")
}

fn name(number: usize) -> String {
    format!("a{number}")
}

/// A city whose provider of sessions is the one that the test is run for.
fn plan() -> Plan {
    match tmux::is_asked_for() {
        true => Plan::new().set("session", "provider", "\"tmux\""),
        false => Plan::new(),
    }
}

/// A plan with this number of agents that only wait, each a process named `sleep`.
fn crowd(count: usize) -> Plan {
    let agents = (0..count).map(|number| agent(&name(number), "exec sleep 100000"));
    let agents: String = agents.collect();
    plan().set("daemon", "max_restarts", "0").add(&agents)
}

/// Waits until an agent runs in this generation, and returns its process.
fn runs_as(city: &City, name: &str, generation: u64) -> u32 {
    wait(&format!("{name} runs, generation {generation}"), || {
        let agents = city.ask("agent.list", json!({})).ok()?;
        let mut agents = agents.as_array()?.iter();
        let agent = agents.find(|agent| agent["name"] == name)?;
        let shown = agent["generation"].as_u64().unwrap_or_default();
        assert!(shown <= generation, "{name} was started too often: {agent}");
        let up = agent["state"] == "running" && shown == generation;
        up.then(|| pid(&agent["pid"]))
    })
}

fn pid(value: &Value) -> u32 {
    value.as_u64().unwrap().try_into().unwrap()
}

/// Returns the processes of the city with this name.
fn named(city: &City, name: &str) -> Vec<u32> {
    let is = |pid: &u32| {
        let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        comm.trim() == name && processes::runs(*pid)
    };
    let all = processes::of(city.root());
    all.into_iter().filter(is).collect()
}

/// Returns the number of events of this type, about any subject.
fn count(city: &City, kind: &str) -> usize {
    city.all_of(kind).len()
}

fn kill(pid: u32) {
    processes::signal(pid, Signal::SIGKILL);
}

/// Waits until no ended process is left unreaped.
fn no_zombies(city: &City) {
    until("every process is waited for", || {
        let ours = processes::of(city.root());
        let all = fs::read_dir("/proc").unwrap();
        let mut pids = all.filter_map(|entry| {
            let name = entry.ok()?.file_name();
            name.to_str()?.parse::<u32>().ok()
        });
        !pids.any(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
            let mut fields = rest.split(' ');
            let zombie = fields.next() == Some("Z");
            let parent = fields.next().and_then(|parent| parent.parse().ok());
            zombie && parent.is_some_and(|parent: u32| ours.contains(&parent))
        })
    });
}
