//! The start of a standing agent's session.

use crate::actors::conversation;
use crate::actors::effects;
use crate::actors::mail::How;
use crate::actors::session::launch::Start;
use crate::actors::session::launch::api_key;
use crate::actors::session::launch::driven::{self, Site};
use crate::actors::world::World;
use crate::domain::cause::Cause;
use crate::domain::child::ChildExit;
use crate::domain::city::Agent;
use crate::domain::facts::SessionFacts;
use crate::domain::harness;
use crate::domain::harness::fill::Placeholder;
use crate::domain::ids::{ChildId, Incarnation};
use crate::domain::last_end::{self, LastEnd};
use crate::domain::session_env::SessionEnv;

/// The reason why a session is started.
#[derive(Clone, Copy)]
pub(super) struct Why {
    pub(super) cause: Cause,
    /// Set when the last session that was up died.
    pub(super) crashed: bool,
}

/// Returns the parts that a session of a standing agent is started with.
pub(super) async fn start(
    world: &World,
    agent: &Agent,
    id: &ChildId,
    Why { cause, crashed }: Why,
    before: Option<&SessionFacts>,
) -> Result<Start, ChildExit> {
    let session = id.session_id(&world.city.name);
    let env = SessionEnv {
        own: &world.env,
        bin: &world.bin_dir,
        city: &world.city.root,
        workspace: &world.city.name,
        socket: &world.socket,
        child: id,
        session: &session,
        hook: None,
        email: None,
        pass: &agent.env_pass,
        configured: &agent.env,
    };
    let mut start = Start {
        argv: agent.command.clone(),
        first_prompt: None,
        env: env.build(),
        cwd: agent.dir.clone(),
        incarnation: Incarnation(0),
        how: match before {
            Some(_) => How::Respawned,
            None => How::Fresh,
        },
        last_end: LastEnd::of(last_end::Start {
            cause,
            crashed,
            // The note of an agent stays in its mailbox when it was read.
            has_note: false,
            is_refused: false,
            is_first: before.is_none(),
        }),
        notes: Vec::new(),
        resumes: None,
        harness: agent.harness.as_ref().map(ToString::to_string),
    };
    let harness = agent.harness.as_ref();
    let harness = harness.and_then(|name| world.city.harnesses.get(name));
    if let (Some(harness), Some(prompt)) = (harness, &agent.prompt) {
        let own_helper = api_key::spare(world, harness, &agent.env, &mut start.env).await;
        let site = Site {
            dir: &agent.dir,
            rig: "",
            owner: effects::Owner::Session(session.clone()),
            files: world.city.agent_dir(&session),
            env: &start.env,
            own_helper,
        };
        let mut fill = driven::fill(world, harness, site).await?;
        // Resumes whatever ended the last session: a session that wants a fresh successor has marked that.
        start.resumes = conversation::to_resume(world, harness, cause, before)
            .await
            .map_err(ChildExit::Unseen)?;
        if let Some(conversation) = &start.resumes {
            fill.set(Placeholder::SessionId, conversation.as_str());
        }
        let launch = harness::launch(
            harness,
            &harness::Start {
                fill: &fill,
                prompt: &prompt.text,
                prompt_file: &prompt.file,
                reduced: false,
                resumes: start.resumes.is_some(),
            },
        );
        (start.argv, start.first_prompt) = (launch.argv, launch.first_prompt);
        start.env = driven::filled(&fill, start.env);
    }
    Ok(start)
}
