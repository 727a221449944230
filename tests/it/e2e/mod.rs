//! End to end: the real daemon, real git, and a scripted agent that follows its task.
//!
//! The tests to begin with, by what they show:
//!
//! | Shown | tests |
//! |---|---|
//! | the life of a raider, as docs/seeds/raider-lifecycle.md describes it | one_raider_lives_through_three_sessions_and_a_fresh_one_resolves_the_conflict, one_raider_lives_through_a_handoff_and_a_crash_from_charge_to_merge |
//! | relics: create, show, list, edit, close, reopen, cancel, dep, ready | list_and_show_from_the_command_line, edit_dep_ready_and_reopen_from_the_command_line, cancel_ends_the_raider_and_keeps_its_work, work_after_other_work_is_charged_when_that_has_closed |
//! | relics: export and import | an_export_restores_the_same_relics_in_another_city, beads_are_imported_once_and_updated_afterwards, issues_of_github_are_imported_once_and_updated_afterwards |
//! | rituals and totems | a_totem_is_done_step_by_step_and_cycles_the_session_where_the_ritual_says_so, a_totem_survives_a_killed_supervisor_and_a_crashed_session |
//! | hook and rally | hook_and_rally_tell_a_session_its_work_and_where_it_was, a_standing_agent_takes_its_relic_and_closes_it_and_keeps_its_note |
//! | sandbox and task files | task_and_outcome_are_links_that_git_overlooks_and_that_outlive_the_sandbox, an_outcome_file_alone_completes |
//! | standing agents: start, death, a program that died inside its wrapper | a_standing_agent_is_started_and_restarted_on_death, a_wrapper_whose_program_died_is_replaced |
//! | self-review | rounds_of_self_review_are_recorded_and_shown, after_the_last_failed_round_the_outcome_must_be_stuck |
//! | human review | merge_request_in_review_lands_when_it_is_approved, session_stays_for_its_reviewer_and_works_on_after_a_rejection, reviewer_talks_to_the_session_whose_work_waits, reviewer_is_shown_the_notes_of_the_raider, change_of_a_review_path_waits_for_a_person |
//! | drums | a_raider_asks_a_person_and_finds_the_reply_at_rally |
//! | automatic charging | ready_relics_are_charged_by_priority_then_age, pause_of_automatic_charging_outlives_a_killed_supervisor |
//! | identity: chains, federation, choice of a harness | chain_of_an_identity_outlives_a_crash_and_goes_to_another_city, row_that_was_changed_in_the_store_is_named, label_with_several_harnesses_goes_to_the_better_record |
//! | looking at work | diff_shows_the_work_of_a_raider_and_of_its_merge_request, diff_on_a_terminal_is_shown_in_the_pager |
//! | rigs added and removed by hand | rig_is_added_works_and_is_removed_without_a_restart, rig_is_added_by_its_url_and_its_work_lands_at_the_remote, rig_is_added_to_a_city_that_does_not_run |
//! | the older words for verbs | the_older_words_take_work_all_the_way_too |

mod accounts;
mod agent_text;
mod agents;
mod attach;
mod automations;
mod branches;
mod charge;
mod commands;
mod config;
mod cost;
mod crash;
mod daemon_kills;
mod default_branch;
mod dialogs;
mod diff;
mod doctor;
mod done;
mod drums;
mod earlier_attempts;
mod escalations;
mod finding_hd;
mod git_programs;
mod handoff;
mod held_rig;
mod history;
mod hook;
mod identity;
mod inside_sandbox;
mod landing;
mod lfs;
mod lifecycle;
mod manager;
mod metrics;
mod mounts;
mod names;
mod nuke;
mod outcome;
mod push;
mod questions;
mod relics;
mod reload;
mod repair;
mod retention;
mod review;
mod rights;
mod rigs;
mod run;
mod self_review;
mod settings_of_user;
mod snapshot;
mod stall;
mod stop;
mod strays;
mod terminals;
mod tmux;
mod totems;
mod upgrade;
mod watched_files;
mod zombies;
