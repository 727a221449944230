//! The command line of `hd`. Arguments that go over the wire are the protocol's own
//! ([`crate::control::protocol::args`]), so that both ends and the help say the same.

mod cv;
mod drums;
mod harness;
mod mq;
mod relic;
mod rig;
mod totem;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

pub(super) use self::cv::{Cv, CvFile, CvTo, CvVerb};
pub(super) use self::drums::DrumsVerb;
pub(super) use self::harness::{HarnessSetup, HarnessTest, HarnessVerb};
pub(super) use self::mq::MqVerb;
pub(super) use self::relic::{DepVerb, RelicEditing, RelicFile, RelicTo, RelicVerb};
pub(super) use self::rig::{RigAdd, RigRemove, RigVerb};
pub(super) use self::totem::{RitualVerb, StepVerb, TotemVerb};
use crate::control::protocol::{Exit, args};

/// Talks to the supervisor of a city of coding agents.
#[derive(Debug, Parser)]
#[command(
    name = "hd",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = Exit::TABLE,
    after_long_help = format!("{FIRST_STEPS}\n\n{}", Exit::TABLE)
)]
pub(super) struct Cli {
    /// The city: a city.toml or its directory; without it the nearest one upwards
    #[arg(
        long,
        global = true,
        env = "HORDE_CITY",
        hide_env_values = true,
        value_name = "PATH"
    )]
    pub city: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Do not ask before something destructive
    #[arg(short, long, global = true)]
    pub yes: bool,
    #[command(subcommand)]
    pub verb: Verb,
}

const FIRST_STEPS: &str = "First steps:
  hd demo                        watch raiders land work on a repository made for it
  hd init                        write a city.toml beside the repository you are in
  hd up -d                       start its supervisor
  hd run \"add a --json flag\"     give a raider something to do
  hd status --watch              see how it goes

Inside a session: hd rally, hd hook, hd step done, hd drums, hd wait, hd handoff, hd escalate, hd done.";

/// The verbs.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Write a commented city.toml
    Init(Init),
    /// Start the supervisor
    Up(Up),
    /// Stop the supervisor and its sessions; returns when all have ended
    Stop(args::Stop),
    /// Apply changes of the configuration; prints the effect on each agent
    Reload(args::Reload),
    /// Check that the supervisor answers
    Ping,
    /// Everything on one screen; rows that need a person come first
    Status(args::Status),
    /// Make a relic of each task and charge it to a raider
    Run(Run),
    /// Put a relic into the hands of a raider: slot, sandbox, hook, session, all or nothing
    #[command(visible_alias = "sling")]
    Charge(Charge),
    /// From inside a session: the work on its hook is finished
    Done(args::Done),
    /// From inside a session: continue in a fresh one, with a note
    Handoff(args::Handoff),
    /// From inside a session: declare a wait, so that it does not count as a stall
    Wait(args::Wait),
    /// From inside a session: record a round of self-review
    Review(args::Review),
    /// An event of the harness of this session, as JSON on standard input
    #[command(hide = true)]
    HookEvent {
        /// The kind of hooks
        hooks: String,
        /// The name of the event, where the event does not tell it
        name: Option<String>,
    },
    /// From inside a session: print its identity, its task and its progress
    #[command(visible_alias = "prime")]
    Rally,
    /// From inside a session: the relic on its hook; a standing agent takes the oldest ready one that is assigned to it
    Hook(Hook),
    /// Units of work
    #[command(subcommand)]
    Relic(RelicVerb),
    /// End the work on a relic for good: stop and remove its raider, save its work, close it; asks first
    Cancel(args::RelicCancel),
    /// The changes of a raider, or of a merge request, against the branch that they would land on
    Diff(args::Diff),
    /// Rituals: templates of work in steps
    #[command(subcommand, visible_alias = "formula")]
    Ritual(RitualVerb),
    /// Totems: rituals at work on relics
    #[command(subcommand, visible_alias = "molecule")]
    Totem(TotemVerb),
    /// The steps of this session's totem
    #[command(subcommand)]
    Step(StepVerb),
    /// Rigs: the repositories of the city
    #[command(subcommand)]
    Rig(RigVerb),
    /// Raiders
    #[command(subcommand, visible_alias = "polecat")]
    Raider(RaiderVerb),
    /// The terminal of a raider or agent; detach with Ctrl-\
    Attach(args::Named),
    /// The screen of a raider or agent, as text
    Peek(args::Named),
    /// Submit a text to the terminal of a raider or agent
    #[command(visible_alias = "nudge")]
    Send(args::Send),
    /// Answer the dialog of a raider or agent, and wait until it has closed
    Answer(args::Answer),
    /// The terminal log of a raider or agent; a line marks the beginning of each session
    Logs(Logs),
    /// Standing agents
    #[command(subcommand)]
    Agent(AgentVerb),
    /// The merge queue
    #[command(subcommand)]
    Mq(MqVerb),
    /// Automations: commands that run by schedule, condition or event
    #[command(subcommand)]
    Auto(AutoVerb),
    /// Numbers for Prometheus, as its text format
    Metrics,
    /// Tokens and money, from the transcripts of sessions
    Cost(args::Cost),
    /// The records of agent identities: chains of results, each entry hashed over the one before
    Cv(Cv),
    /// The events of the journal
    Events(args::Events),
    /// Why something is as it is: the events about a raider, agent, relic, merge request, rig or account ("account
    /// claude"), with causes
    Why(args::Named),
    /// The saved contents of removed sandboxes
    #[command(subcommand)]
    Salvage(SalvageVerb),
    /// Mail between raiders, agents and people
    #[command(subcommand, visible_alias = "mail")]
    Drums(DrumsVerb),
    /// Call a person, inside a session about itself, outside about any raider or agent
    Escalate(args::Escalate),
    /// Open escalations; `hd relic close ID` closes a resolved one
    Escalations(Escalations),
    /// The configuration
    #[command(subcommand)]
    Config(ConfigVerb),
    /// The programs that can work as raiders and agents
    #[command(subcommand)]
    Harness(HarnessVerb),
    /// Problems of the city, and their remedies
    Doctor(args::Doctor),
    /// A demonstration city: raiders land real commits on a real repository
    Demo(Demo),
    /// Completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// The manual page, or with --out the pages of every verb
    Man {
        /// Write all pages into this directory
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// The JSON schemas of answers: what `--json` prints, and what the socket answers
    Schema(Schema),
    /// The version of hd and of the protocol it speaks
    Version,
}

/// `hd schema`.
#[derive(Debug, Args)]
pub(super) struct Schema {
    /// Only this operation, as on the socket: status, mq.list, ...
    pub op: Option<String>,
}

/// `hd init`.
#[derive(Debug, Args)]
pub(super) struct Init {
    /// The directory; default: `<repository>-city` beside the repository, or here
    pub dir: Option<PathBuf>,
    /// The repository to work on; default: the one you are in
    #[arg(long, value_name = "PATH")]
    pub rig: Option<PathBuf>,
    /// The harness, by its preset; default: the first whose program is in the PATH
    #[arg(long, value_name = "NAME")]
    pub harness: Option<String>,
    /// Make the city inside the repository, and keep its files out of git by .git/info/exclude
    #[arg(long, conflicts_with = "dir")]
    pub here: bool,
}

/// `hd up`.
#[derive(Debug, Args)]
pub(super) struct Up {
    /// Detach: run in the background, log to .horde/supervisor.log, return when it answers
    #[arg(short, long)]
    pub detach: bool,
    /// Take the relic store as it is, also where it is empty, or older than it was
    #[arg(long)]
    pub accept_store: bool,
}

/// `hd run`.
#[derive(Debug, Args)]
#[group(skip)]
pub(super) struct Run {
    #[command(flatten)]
    pub run: args::Run,
    /// Read tasks from a file, one in each line, as text or as JSON with title, body, priority, labels, deps and branch; `-` reads standard input; lines that begin with # are left out
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Return at once; without it, a terminal follows the work until it has landed
    #[arg(short, long)]
    pub detach: bool,
}

/// `hd charge`.
#[derive(Debug, Args)]
#[group(skip)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct Charge {
    #[command(subcommand)]
    pub verb: Option<ChargeVerb>,
    #[command(flatten)]
    pub charge: Option<args::Charge>,
}

/// Verbs of `hd charge`.
#[derive(Debug, Subcommand)]
pub(super) enum ChargeVerb {
    /// Charge nothing without a request: no ready relics, reworks and relics of automations; kept over restarts
    Pause(args::InRigFlag),
    /// End the pause; without --rig every pause
    Resume(args::InRigFlag),
}

/// `hd escalations`.
#[derive(Debug, Args)]
pub(super) struct Escalations {
    #[command(subcommand)]
    pub verb: Option<EscalationsVerb>,
}

/// Verbs of `hd escalations`.
#[derive(Debug, Subcommand)]
pub(super) enum EscalationsVerb {
    /// Acknowledge it: it stays open, and is not raised again
    Ack(args::EscalationRef),
}

/// `hd hook`.
#[derive(Debug, Args)]
pub(super) struct Hook {
    #[command(subcommand)]
    pub verb: Option<HookVerb>,
}

/// Verbs of `hd hook`.
#[derive(Debug, Subcommand)]
pub(super) enum HookVerb {
    /// The relic on the hook of this session
    Show,
}

/// Verbs of `hd raider`.
#[derive(Debug, Subcommand)]
pub(super) enum RaiderVerb {
    /// All raiders
    List(args::InRig),
    /// A raider in full
    Show(args::Named),
    /// End session, sandbox and slot, and open unfinished work again; refused (exit 5) when work would be lost
    Nuke(args::RaiderNuke),
    /// Make a broken or lost sandbox whole, keeping what it holds; asks, for it ends the session first
    Repair(args::RaiderRepair),
    /// No session for it until it is resumed; slot and sandbox stay
    Suspend(args::Named),
    /// The end of a suspension
    Resume(args::Named),
    /// End the quarantine of one
    Unquarantine(args::Named),
    /// Does not exist; says what to do instead
    #[command(hide = true)]
    Done {
        /// The name, which is ignored
        name: Option<String>,
    },
    /// Does not exist; says what to do instead
    #[command(hide = true)]
    Reset {
        /// The name, which is ignored
        name: Option<String>,
    },
}

/// `hd logs`.
#[derive(Debug, Args)]
#[group(skip)]
pub(super) struct Logs {
    #[command(flatten)]
    pub logs: args::Logs,
    /// Show the screen and follow its output
    #[arg(short, long, conflicts_with_all = ["bytes", "raw"])]
    pub follow: bool,
}

/// Verbs of `hd agent`.
#[derive(Debug, Subcommand)]
pub(super) enum AgentVerb {
    /// All standing agents
    List,
    /// Start one that was stopped
    Start(args::Named),
    /// Stop one; it stays stopped until it is started
    Stop(args::Named),
    /// Another session in place of the one that runs, with the same conversation where the harness can resume it
    Restart(args::Restart),
    /// No session for it until it is resumed
    Suspend(args::Named),
    /// The end of a suspension
    Resume(args::Named),
    /// End the quarantine of one
    Unquarantine(args::Named),
}

/// Verbs of `hd auto`.
#[derive(Debug, Subcommand)]
pub(super) enum AutoVerb {
    /// All automations, with their gates and when they run next
    List,
    /// Run one now, whatever its gate says, disabled or not; returns when the run has started
    Run(AutoRun),
    /// Runs and their ends, the newest first
    History(args::AutoHistory),
    /// Let its gate open again; times and events that passed while disabled are dropped
    Enable(args::AutoRef),
    /// Keep its gate closed, over restarts too; a current run continues
    Disable(args::AutoRef),
}

/// `hd auto run`.
#[derive(Debug, Args)]
#[group(skip)]
pub(super) struct AutoRun {
    #[command(flatten)]
    pub run: args::AutoRef,
    /// Wait for its end and print its output; exit code 1 when it failed
    #[arg(short, long)]
    pub wait: bool,
}

/// Verbs of `hd salvage`.
#[derive(Debug, Subcommand)]
pub(super) enum SalvageVerb {
    /// All salvages
    List(args::InRig),
    /// Stash entries of removed sandboxes that no salvage has, for `git stash apply ID`
    Stashes(args::InRig),
    /// A salvage: its refs and their contents
    Show(args::SalvageRef),
    /// Make a worktree as the sandbox was, untracked files included
    Restore(args::SalvageRestore),
    /// Destroy salvages for good: the named ones, or the expired ones
    Prune(args::SalvagePrune),
}

/// Verbs of `hd config`.
#[derive(Debug, Subcommand)]
pub(super) enum ConfigVerb {
    /// Report all errors of city.toml; needs no supervisor
    Check,
    /// The configuration in force, defaults included; needs no supervisor
    Show,
    /// The JSON schema of city.toml, for editors; needs no city
    Schema,
    /// A systemd unit for this city's supervisor, with how to install it; needs no supervisor
    Systemd {
        /// For your own service manager (`systemctl --user`) instead of the machine's
        #[arg(long)]
        user: bool,
    },
}

/// `hd demo`.
#[derive(Debug, Args)]
pub(super) struct Demo {
    /// A new or empty directory; default: a temporary one
    #[arg(long, value_name = "D")]
    pub dir: Option<PathBuf>,
    /// The number of raiders that work at once
    #[arg(
        long,
        value_name = "N",
        default_value_t = 6,
        value_parser = raiders
    )]
    pub raiders: u16,
    /// Leave the supervisor running
    #[arg(long)]
    pub keep: bool,
}

/// Reads the number of raiders of a demo.
fn raiders(text: &str) -> Result<u16, String> {
    let number = text.parse().ok().filter(|number| (1..=12).contains(number));
    number.ok_or_else(|| "expected a whole number from 1 to 12".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn older_words_mean_the_same() {
        let verb = |words: &[&str]| Cli::try_parse_from(words).unwrap().verb;
        assert!(matches!(
            verb(&["hd", "sling", "gt-1", "horde"]),
            Verb::Charge(_)
        ));
        assert!(matches!(verb(&["hd", "prime"]), Verb::Rally));
        let nuke = verb(&["hd", "polecat", "nuke", "Toast"]);
        assert!(matches!(nuke, Verb::Raider(RaiderVerb::Nuke(nuke)) if nuke.name == "Toast"));
    }

    #[test]
    fn global_flags_stand_anywhere() {
        let cli =
            Cli::try_parse_from(["hd", "raider", "nuke", "Toast", "--yes", "--json"]).unwrap();
        assert!(cli.yes && cli.json);
    }

    #[test]
    fn done_has_the_contracts_flags() {
        let words = [
            "hd",
            "done",
            "--status",
            "deferred",
            "--cleanup-status",
            "has_stash",
            "--no-change",
            "--until",
            "2026-01-31T12:00:00Z",
            "--reason",
            "later",
        ];
        let Verb::Done(done) = Cli::try_parse_from(words).unwrap().verb else {
            panic!("not done");
        };
        assert_eq!(
            serde_json::to_value(&done).unwrap()["cleanup_status"],
            "has_stash"
        );
        assert!(Cli::try_parse_from(["hd", "done", "--status", "finished"]).is_err());
    }
}
