//! The start of a raider's session: prompt, environment and command line from its hook.

use std::path::PathBuf;
use std::sync::Arc;

use crate::actors::briefs::{Assignment, brief};
use crate::actors::conversation;
use crate::actors::effects;
use crate::actors::mail::How;
use crate::actors::outbox;
use crate::actors::records::handoffs;
use crate::actors::rig_settings::raider_env;
use crate::actors::session::endings;
use crate::actors::session::launch::Start;
use crate::actors::session::launch::driven::{self, Site};
use crate::actors::session::launch::{api_key, moved};
use crate::actors::world::World;
use crate::domain::cause::Cause;
use crate::domain::child::ChildExit;
use crate::domain::city::{Harness, Rig};
use crate::domain::facts::SessionFacts;
use crate::domain::harness;
use crate::domain::harness::fill::Placeholder;
use crate::domain::intent::KEY_VARIABLE;
use crate::domain::last_end::{self, LastEnd};
use crate::domain::message::Handoff;
use crate::domain::prompt::{self, After, Brief, Problem};
use crate::domain::relic::Hook;
use crate::ports::repo::RepoError;
use crate::ports::tasks::TaskError;

/// The reason why a session is started.
pub(super) struct Why<'a> {
    /// The problem with the outcome of the last session.
    pub(super) problem: Option<&'a Problem>,
    pub(super) cause: Cause,
    /// Set when the last session that was up died.
    pub(super) crashed: bool,
}

/// Returns the parts that a session of a raider is started with.
pub(super) async fn start(
    world: &Arc<World>,
    hook: &Hook,
    why: Why<'_>,
    before: Option<&SessionFacts>,
) -> Result<Start, ChildExit> {
    let (problem, cause, crashed) = (why.problem, why.cause, why.crashed);
    let hook = &moved::hook_now(world, hook)
        .await
        .map_err(|error| ChildExit::Unseen(error.to_string()))?;
    let asked = match problem {
        None if cause == Cause::Operator => endings::problem(world, hook).await,
        None | Some(_) => None,
    };
    let problem = problem.or(asked.as_ref());
    is_open(world, hook, problem).await?;
    let (rig, harness) = configured(world, hook)?;
    let (work, notes) = assignment(world, hook).await?;
    let sandbox = habitable(world, hook).await?;
    // A session that is started before would do the work again.
    if outbox::settle(world, hook).await {
        is_open(world, hook, problem).await?;
    }
    let (task_file, hd) = (world.tasks.task_file(&sandbox), world.hd());
    let brief = brief(world, rig, hook, &work, task_file, &hd);
    let less = crashed && rig.raiders.respawn_reduced && !harness.reduced.is_empty();
    let newest = notes.last();
    // Its account may have been parked before its first session started.
    let begins = matches!(cause, Cause::Charged | Cause::RateLimit | Cause::Login);
    let last_end = LastEnd::of(last_end::Start {
        cause,
        crashed,
        has_note: newest.is_some(),
        is_refused: problem.is_some(),
        is_first: before.is_none() && begins,
    });
    let after = After {
        cause,
        problem,
        note: newest.and_then(|(_, note)| note.note.as_deref()),
        reduced: less,
    };
    let (text, how) = first_prompt(&brief, last_end, after);
    // A handoff asks for a fresh context, unless its note says otherwise.
    let goes_on = match how {
        How::Respawned => true,
        How::HandedOver => newest.is_some_and(|(_, note)| note.resume),
        How::Adopted | How::Fresh => false,
    };
    let resumes = match goes_on {
        true => conversation::to_resume(world, harness, cause, before)
            .await
            .map_err(ChildExit::Unseen)?,
        false => None,
    };
    let session = Session {
        sandbox,
        text,
        how,
        last_end,
        reduced: how == How::Respawned && less,
        notes: notes.into_iter().map(|(id, _)| id).collect(),
        resumes,
    };
    session.launch(world, rig, harness, hook).await
}

/// Refuses a start when the work needs no session.
async fn is_open(world: &World, hook: &Hook, problem: Option<&Problem>) -> Result<(), ChildExit> {
    // A session started to fix a bad outcome file starts although that file exists.
    let finished = match problem {
        Some(_) => Ok(endings::work_is_over(world, hook).await == Some(true)),
        None => endings::is_finished(world, hook).await,
    };
    match finished {
        Ok(false) => Ok(()),
        Ok(true) => Err(ChildExit::Finished),
        Err(error) => Err(ChildExit::Unseen(error.to_string())),
    }
}

/// Returns the prompt of a session by the end of the one before.
fn first_prompt(brief: &Brief<'_>, last_end: Option<LastEnd>, after: After<'_>) -> (String, How) {
    match last_end {
        None => (prompt::first(brief), How::Fresh),
        Some(LastEnd::Handoff) => (prompt::handoff(brief, after.note), How::HandedOver),
        // A note that waits is for this session, whatever ended the last one.
        Some(_) => (prompt::respawn(brief, after), How::Respawned),
    }
}

fn configured<'a>(world: &'a World, hook: &Hook) -> Result<(&'a Rig, &'a Harness), ChildExit> {
    let missing = |what: String| ChildExit::StartFailed(what);
    let rig = world.city.rig(&hook.raider.rig);
    let rig = rig.ok_or_else(|| missing(format!("rig {} is not configured", hook.raider.rig)))?;
    let harness = world.city.harnesses.get(&hook.harness);
    let harness = harness.ok_or_else(|| missing(format!("no harness named {}", hook.harness)))?;
    Ok((rig, harness))
}

/// The decisions that the command line of a session is made from.
struct Session {
    sandbox: PathBuf,
    /// The prompt.
    text: String,
    how: How,
    /// The end of the session before.
    last_end: Option<LastEnd>,
    /// Set for reduced permissions.
    reduced: bool,
    /// Handoff notes that it will have read.
    notes: Vec<u64>,
    /// The conversation that it resumes.
    resumes: Option<String>,
}

impl Session {
    /// Writes the prompt and the hook files, and builds the command line.
    async fn launch(
        self,
        world: &World,
        rig: &Rig,
        harness: &Harness,
        hook: &Hook,
    ) -> Result<Start, ChildExit> {
        let files = world
            .city
            .task_dir(&hook.raider, &hook.relic, hook.incarnation);
        let (dir, told) = (files.clone(), self.text.clone());
        let owner = effects::Owner::Rig(rig.name.clone());
        let written = effects::tasks(world, owner.clone(), move |tasks| {
            tasks.write_prompt(&dir, &told)
        });
        let unwritable = |error: TaskError| ChildExit::Unwritable(error.to_string());
        let prompt_file = written.await.map_err(unwritable)?;
        let unseen = |error: RepoError| ChildExit::Unseen(error.to_string());
        let mut env = raider_env(world, rig, hook).await.map_err(unseen)?;
        let own_helper = api_key::spare(world, harness, &harness.env, &mut env).await;
        let key = world
            .secret
            .key(&hook.raider.session_id(), hook.incarnation);
        env.insert(KEY_VARIABLE.to_owned(), key);
        let site = Site {
            dir: &self.sandbox,
            rig: rig.name.as_str(),
            owner,
            files,
            env: &env,
            own_helper,
        };
        let mut fill = driven::fill(world, harness, site).await?;
        if let Some(conversation) = &self.resumes {
            fill.set(Placeholder::SessionId, conversation.as_str());
        }
        let launch = harness::launch(
            harness,
            &harness::Start {
                fill: &fill,
                prompt: &self.text,
                prompt_file: &prompt_file,
                reduced: self.reduced,
                resumes: self.resumes.is_some(),
            },
        );
        Ok(Start {
            argv: launch.argv,
            first_prompt: launch.first_prompt,
            env: driven::filled(&fill, env),
            cwd: self.sandbox,
            incarnation: hook.incarnation,
            how: self.how,
            last_end: self.last_end,
            notes: self.notes,
            resumes: self.resumes,
            harness: Some(harness.name.to_string()),
        })
    }
}

/// Returns the sandbox, if work can go on in it. Checked at each patrol, so it costs no process. A half-removed work
/// tree, or one that git cannot use, needs an operator: an agent would make it worse.
async fn habitable(world: &World, hook: &Hook) -> Result<PathBuf, ChildExit> {
    let sandbox = world.city.sandbox(&hook.raider);
    let path = sandbox.clone();
    let seen = effects::repo(world, &hook.raider.rig, move |repo| {
        repo.sandbox_fault(&path)
    })
    .await;
    match seen.map_err(|error| ChildExit::Unseen(error.to_string()))? {
        None => Ok(sandbox),
        Some(what) => Err(ChildExit::NoSandbox(format!(
            "{}: {}",
            what.problem(),
            what.says(&sandbox)
        ))),
    }
}

/// Returns the work, and the handoff notes that wait for the next session.
async fn assignment(
    world: &World,
    hook: &Hook,
) -> Result<(Assignment, Vec<(u64, Handoff)>), ChildExit> {
    let (hook, hd) = (hook.clone(), world.hd());
    let read = world.store.run(move |txn| {
        let notes = handoffs::unread(txn, &hook)?;
        Ok((Assignment::read(txn, &hook.relic, &hd)?, notes))
    });
    read.await
        .map_err(|error| ChildExit::StartFailed(error.to_string()))
}
