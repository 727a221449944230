//! The verbs: one file per group, and one `match` that is the index of them all.

mod attach;
mod auto;
mod config;
mod cv;
mod daemon;
mod demo;
mod diff;
mod doctor;
mod done;
mod drums;
mod escalation;
mod export_file;
mod harness;
mod help;
mod hook_event;
mod init;
mod input_file;
mod raider;
mod relic;
mod rig;
mod run;
mod status;
mod supervisor;
mod systemd;
mod totem;

use serde_json::Value;

use crate::control::protocol::Op;
use crate::control::protocol::answers::{LogText, Metrics, Screen};
use crate::control::protocol::args::{MrRef, Nothing, SalvageRef};

use super::args::{AgentVerb, Charge, ChargeVerb, MqVerb, SalvageVerb, Verb};
use super::context::Context;
use super::error::CliError;
use super::output;
use super::render::{cost, event, lists, outcome_lines, show};

/// Runs one verb.
pub(super) fn run(verb: Verb, context: &mut Context) -> Result<(), CliError> {
    match verb {
        Verb::Init(args) => init::run(&args, context),
        Verb::Up(args) => daemon::up(&args, context),
        Verb::Stop(args) => daemon::stop(args, context),
        Verb::Reload(args) => daemon::reload(args, context),
        Verb::Ping => daemon::ping(context),
        Verb::Status(args) => status::run(&args, context),
        Verb::Run(args) => run::run(args, context),
        Verb::Charge(args) => charge(args, context),
        Verb::Done(args) => done::run(args, context),
        Verb::Handoff(args) => context.show(&Op::Handoff(args), outcome_lines::handed_off),
        Verb::Wait(args) => context.show(&Op::Wait(args), outcome_lines::waits),
        Verb::Review(args) => context.show(&Op::Review(args), outcome_lines::reviewed),
        Verb::HookEvent { hooks, name } => {
            hook_event::run(hooks, name, context);
            Ok(())
        }
        Verb::Rally => context.show(&Op::Rally(Nothing {}), show::orders::<Value>),
        Verb::Hook(_) => context.show(&Op::Hook(Nothing {}), show::orders::<Value>),
        Verb::Relic(verb) => relic::run(verb, context),
        Verb::Cancel(args) => relic::cancel(args, context),
        Verb::Diff(args) => diff::run(args, context),
        Verb::Ritual(verb) => totem::ritual(verb, context),
        Verb::Totem(verb) => totem::totem(verb, context),
        Verb::Step(verb) => totem::step(verb, context),
        Verb::Rig(verb) => rig::run(verb, context),
        Verb::Raider(verb) => raider::run(verb, context),
        Verb::Attach(args) => attach::attach(args, context),
        Verb::Peek(args) => context.show(&Op::Peek(args), show::text::<Screen>),
        Verb::Send(args) => context.show(&Op::Send(args), outcome_lines::taken),
        Verb::Answer(args) => context.show(&Op::Answer(args), outcome_lines::answered),
        Verb::Logs(args) if args.follow => attach::watch(args.logs.name, context),
        Verb::Logs(args) if args.logs.raw => raw(&Op::Logs(args.logs), context),
        Verb::Logs(args) => context.show(&Op::Logs(args.logs), show::text::<LogText>),
        Verb::Agent(verb) => agent(verb, context),
        Verb::Mq(verb) => mq(verb, context),
        Verb::Auto(verb) => auto::run(verb, context),
        Verb::Metrics => context.show(&Op::Metrics(Nothing {}), show::text::<Metrics>),
        Verb::Cost(args) => context.show(&Op::Cost(args), cost::cost),
        Verb::Cv(args) => cv::run(args, context),
        Verb::Events(args) => context.follow(&Op::Events(args), event::event),
        Verb::Why(args) => context.show(&Op::Why(args), event::why),
        Verb::Salvage(verb) => salvage(verb, context),
        Verb::Drums(verb) => drums::run(verb, context),
        Verb::Escalate(args) => escalation::escalate(args, context),
        Verb::Escalations(args) => escalation::escalations(args.verb, context),
        Verb::Config(verb) => config::run(&verb, context),
        Verb::Harness(verb) => harness::run(verb, context),
        Verb::Doctor(args) => doctor::run(args, context),
        Verb::Demo(args) => demo::run(&args, context),
        Verb::Completions { shell } => help::completions(shell),
        Verb::Man { out } => help::man(out.as_deref()),
        Verb::Schema(args) => help::schema(args.op.as_deref()),
        Verb::Version => help::version(context),
    }
}

fn charge(args: Charge, context: &mut Context) -> Result<(), CliError> {
    match (args.verb, args.charge) {
        (Some(ChargeVerb::Pause(rig)), _) => {
            context.show(&Op::ChargePause(rig), outcome_lines::charging)
        }
        (Some(ChargeVerb::Resume(rig)), _) => {
            context.show(&Op::ChargeResume(rig), outcome_lines::charging)
        }
        (None, Some(charge)) => context.show(&Op::Charge(charge), show::charged),
        (None, None) => Err(CliError::usage("hd charge needs a relic")),
    }
}

/// Prints a session's output with its control sequences if standard output is no terminal.
fn raw(op: &Op, context: &mut Context) -> Result<(), CliError> {
    if context.json || context.on_terminal() {
        return context.show(op, show::text::<LogText>);
    }
    let log: LogText = context.ask(op)?;
    output::print(show::raw(&log.text).as_bytes())
}

fn agent(verb: AgentVerb, context: &mut Context) -> Result<(), CliError> {
    match verb {
        AgentVerb::List => context.show_list(&Op::AgentList(Nothing {}), lists::agents),
        AgentVerb::Start(args) => context.show(&Op::AgentStart(args), outcome_lines::child),
        AgentVerb::Stop(args) => context.show(&Op::AgentStop(args), outcome_lines::child),
        AgentVerb::Restart(args) => context.show(&Op::AgentRestart(args), outcome_lines::child),
        AgentVerb::Suspend(args) => context.show(&Op::AgentSuspend(args), outcome_lines::child),
        AgentVerb::Resume(args) => context.show(&Op::AgentResume(args), outcome_lines::child),
        AgentVerb::Unquarantine(args) => {
            context.show(&Op::AgentUnquarantine(args), outcome_lines::child)
        }
    }
}

fn mq(verb: MqVerb, context: &mut Context) -> Result<(), CliError> {
    match verb {
        MqVerb::List(args) => {
            let render = match args.all {
                true => lists::all_merge_requests,
                false => lists::merge_requests,
            };
            context.show_list(&Op::MqList(args.rig), render)
        }
        MqVerb::Show(args) => context.show(&Op::MqShow(args), show::facts::<Value>),
        MqVerb::Retry(args) => context.show(&Op::MqRetry(args), outcome_lines::merge_request),
        MqVerb::Approve(args) => context.show(&Op::MqApprove(args), outcome_lines::decided),
        MqVerb::Reject(mut args) => {
            if !context.yes {
                // A merge request that does not exist needs no consent.
                let mr = args.mr.clone();
                context.ask_raw(&Op::MqShow(MrRef { mr }))?;
            }
            context.consent(&format!("reject {}?", args.mr))?;
            args.yes = true;
            context.show(&Op::MqReject(args), outcome_lines::decided)
        }
        MqVerb::Pr(args) => context.show(&Op::MqPr(args), outcome_lines::pull_request),
    }
}

fn salvage(verb: SalvageVerb, context: &mut Context) -> Result<(), CliError> {
    match verb {
        SalvageVerb::List(args) => context.show_list(&Op::SalvageList(args), lists::salvages),
        SalvageVerb::Stashes(args) => context.show_list(&Op::SalvageStashes(args), lists::stashes),
        SalvageVerb::Show(args) => context.show(&Op::SalvageShow(args), show::facts::<Value>),
        SalvageVerb::Restore(mut args) => {
            // The supervisor has another working directory.
            args.to = args.to.as_deref().map(relic::absolute).transpose()?;
            context.show(&Op::SalvageRestore(args), outcome_lines::restored)
        }
        SalvageVerb::Prune(mut args) => {
            let which = match (&args.id[..], &args.older_than) {
                ([], None) => "every expired salvage".to_owned(),
                ([], Some(age)) => format!("every salvage older than {age}"),
                (ids, _) => ids.join(", "),
            };
            let asked = if context.yes {
                Vec::new()
            } else {
                args.id.clone()
            };
            for id in asked {
                // A salvage that does not exist needs no consent.
                context.ask_raw(&Op::SalvageShow(SalvageRef { id }))?;
            }
            context.consent(&format!("destroy {which} for good?"))?;
            args.yes = true;
            context.show(&Op::SalvagePrune(args), lists::pruned)
        }
    }
}
