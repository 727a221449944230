//! The root on fakes, under the paused clock. And where each rule of `health-patrol.md` is held:
//!
//! | invariant | tests |
//! |---|---|
//! | single controller | a_second_supervisor_ends_at_once_and_leaves_the_first_alone, a_second_holder_is_refused_and_the_first_left_alone |
//! | reconciliation is idempotent | a_second_look_at_a_converged_city_decides_nothing, a_patrol_on_a_quiet_city_does_nothing, each_wanted_child_runs_once_after_any_edits_and_failures |
//! | crash tracking is bounded | quarantine_iff_more_than_max_deaths_in_the_window, zero_is_unlimited_and_keeps_nothing, rows_are_bounded_and_go_with_their_child |
//! | quarantine auto-expires | quarantine_ends_when_the_oldest_death_leaves_the_window, quarantine_ends_when_the_oldest_death_has_left_the_window |
//! | crash tracking resets | crash_tracking_resets_when_the_supervisor_restarts |
//! | drift is a matter of content | agent_fingerprint_changes_only_with_keys_that_need_a_restart, the_revision_changes_with_every_source_and_with_nothing_else |
//! | tracked before it is run | an_automation_whose_run_cannot_be_recorded_does_not_run, a_run_that_a_crash_interrupted_is_reported_once_and_not_repeated |
//! | no pid files for liveness | a_zombie_does_not_live_and_a_reused_pid_is_another_process, a_living_holder_runs_and_a_reused_pid_is_lost, a_lock_is_seen_while_it_is_held |
//! | no role names in code | the_core_knows_no_role |
//! | self-sufficiency | patrols_need_no_agent |
//!
//! | state, or part of a patrol | tests |
//! |---|---|
//! | not running: start | wanted_child_is_started_adopted_or_replaced, unannounced_exit_is_found_by_the_patrol |
//! | healthy: skip | a_patrol_on_a_quiet_city_does_nothing |
//! | orphan: stop | unwanted_child_is_removed, a_session_that_nothing_asks_for_is_ended_at_the_next_patrol |
//! | drifted: stop and start | a_drifted_agent_gets_one_fresh_session, drift_waits_while_a_person_is_attached, drift_waits_while_a_question_is_open, raiders_are_not_restarted_for_drift_and_are_removed_only_without_a_hook |
//! | restart requested | a_handoff_starts_a_fresh_session_that_has_the_note, ten_planned_cycles_are_no_deaths_and_the_eleventh_is_one |
//! | idle | an_idle_session_is_replaced_when_its_time_is_up, unknown_activity_is_no_reason_to_end_a_session |
//! | in this order | sub_states_of_a_running_session_are_asked_in_order |
//! | quarantined: passed over | patrols_skip_a_quarantined_child_and_its_state_shows_it, a_crash_loop_is_quarantined_and_others_work_on |
//! | pool excess drains | a_member_drains_in_its_own_time, as_many_as_wanted_and_a_second_choice_changes_nothing |
//! | suspended: stopped | child_that_should_not_run_is_suspended_or_drained, a_suspended_agent_rests_until_it_is_resumed, a_suspended_rig_stops_sessions_and_keeps_sandboxes |
//! | unknown: left alone | unobservable_session_is_never_acted_on |
//! | parallel starts | starts_are_bounded_and_served_in_the_order_they_were_asked_for, the_order_in_which_parallel_starts_end_changes_nothing, a_slow_start_is_no_death_and_a_failed_one_is |
//! | zombie capture | a_death_is_told_with_its_code_and_the_end_of_the_terminal |
//! | pools are asked for their size | the_check_decides_within_bounds, a_pool_is_as_large_as_its_check_says |
//! | reload when something changed | an_edit_is_applied_by_itself_and_touches_only_whom_it_concerns, a_broken_edit_keeps_the_old_configuration, an_editors_several_writes_are_one_look |
//!
//! | interaction | tests |
//! |---|---|
//! | one_for_one, one_for_all, rest_for_one | group_strategy_decides_which_members_restart, strategy_selects_the_members_that_restart |
//! | max_restarts, restart_window | n_restarts_pass_and_the_next_death_quarantines, back_off_grows_as_configured_and_the_death_after_the_last_quarantines |
//! | links: depends_on | agent_starts_when_its_dependencies_are_up, the_stop_goes_in_the_reverse_order_of_dependence |
//! | let it crash, the hook persists | a_raider_that_dies_is_restarted_on_its_sandbox_with_the_respawn_prompt |
//! | mailbox | messages_wait_until_they_are_handled |
//! | agent.started | a_standing_agent_is_started_and_restarted_on_death |
//! | agent.stopped | restart_types_behave_as_in_otp |
//! | agent.crashed | a_death_is_told_with_its_code_and_the_end_of_the_terminal |
//! | agent.quarantined | patrols_skip_a_quarantined_child_and_its_state_shows_it |
//! | agent.idle_killed | an_idle_session_is_replaced_when_its_time_is_up |
//! | agent.suspended | a_suspended_agent_rests_until_it_is_resumed |
//! | controller.started, controller.stopped | the_journal_says_when_a_supervisor_began_and_ended |
//! | automation.fired, completed, failed | a_cooldown_counts_from_the_start_of_the_last_run, failed_run_is_retried_and_its_end_is_recorded |
//!
//! | configuration | tests |
//! |---|---|
//! | all defaults | the_defaults_are_those_of_the_contract |
//! | patrol_interval | unannounced_exit_is_found_by_the_patrol, a_stopped_agent_stays_stopped_until_it_is_started |
//! | max_restarts, restart_window | quarantine_iff_more_than_max_deaths_in_the_window |
//! | restart_history | a_quarantine_outlives_the_supervisor_and_ends_in_its_time, no_child_respawns_without_limit_though_the_supervisor_is_killed_each_time, a_quarantine_outlives_the_kill_of_the_daemon_until_an_operator_ends_it |
//! | stable_after | a_session_healthy_for_long_enough_clears_its_history |
//! | shutdown_timeout | a_graceful_stop_ends_every_session_and_restarts_none, stop_that_takes_too_long_goes_on_without_hanging_sessions |
//! | start_concurrency | starts_are_bounded_and_served_in_the_order_they_were_asked_for |
//! | wisp_gc_interval, wisp_ttl | wisp_gc_interval_is_how_often_expired_wisps_go, wisp_ttl_is_how_long_a_closed_wisp_survives, closed_wisps_go_after_the_start_and_open_ones_stay |
//! | idle_timeout | an_idle_session_is_replaced_when_its_time_is_up |
//! | skip, max_timeout | automations_are_found_beside_the_city_and_in_rigs_that_are_trusted |
//!
//! | coverage that the seed asks for | tests |
//! |---|---|
//! | controller: tick, reload, dirty, debounce, dispatch | a_patrol_on_a_quiet_city_does_nothing, an_edit_is_applied_by_itself_and_touches_only_whom_it_concerns, an_editors_several_writes_are_one_look, patrols_need_no_agent |
//! | reconcile: four states, parallel, zombies, quarantine, idle, drain, suspended | wanted_child_is_started_adopted_or_replaced |
//! | crash_tracker: pruning, threshold, clear, disabled | quarantine_iff_more_than_max_deaths_in_the_window, n_restarts_pass_and_the_next_death_quarantines, a_release_clears_the_history, zero_is_unlimited_and_keeps_nothing |
//! | idle_tracker: detection, zero time, per agent, disabled | an_idle_session_is_replaced_when_its_time_is_up, unknown_activity_is_no_reason_to_end_a_session, sub_states_of_a_running_session_are_asked_in_order |
//! | automation_dispatch: cooldown | a_cooldown_counts_from_the_start_of_the_last_run, it_opens_an_interval_after_the_start_of_the_last_run |
//! | cron | a_schedule_runs_at_its_slots_and_passes_over_one_that_comes_too_early, slots_that_were_missed_are_over_or_made_up_for_once |
//! | condition | a_condition_is_asked_until_it_holds_and_then_fires_once_per_interval |
//! | event | each_event_fires_once_in_order_from_discovery_on, an_automation_never_fires_on_its_own_events |
//! | manual | a_manual_gate_opens_by_hand_only_and_for_one_run_at_a_time |
//! | exec, tracking, timeout, rigs | a_manual_run_finds_its_script_and_the_supervisor, an_automation_whose_run_cannot_be_recorded_does_not_run, a_timeout_ends_everything_that_was_started, a_rig_carries_automations_only_when_it_is_trusted |
//!
//! | known limitation of the seed, lifted here | tests |
//! |---|---|
//! | no cascading restarts | the_others_end_last_first_and_start_first_first, agent_starts_when_its_dependencies_are_up |
//! | history in memory only | a_quarantine_outlives_the_supervisor_and_ends_in_its_time |
//! | fire and forget | failed_run_is_retried_and_its_end_is_recorded, a_run_that_outlives_its_supervisor_is_ended_and_reported_once |
//! | a renamed workspace is refused | a_renamed_workspace_is_refused_with_the_reason |

mod accounts;
mod clock;
mod compaction;
mod conditions;
mod converge;
mod dead_agents;
mod groups;
mod handoffs;
mod history;
mod orders;
mod patrol;
mod person;
mod planned;
mod pools;
mod recovery;
mod released;
mod restart;
mod shutdown;
mod storm;
mod unobservable;
