//! The session that a caller speaks for. It is the session of its process, and for a raider only while the
//! process stands in the raider's sandbox: a program that several raiders share (the background server of a
//! harness) runs the commands of one in the session of another, and the directory tells them apart.

use std::path::Path;

use super::relic::guard::Speaker;
use super::{names, rights_of};
use crate::actors::effects;
use crate::actors::world::World;
use crate::control::protocol::ControlError;
use crate::control::rights::CallerRole;
use crate::control::server::Caller;
use crate::domain::asker::Asker;
use crate::domain::city::Rights;
use crate::domain::relic::Hook;
use crate::ports::sessions::{CallerPlace, Member, Membership};

/// The name of a command whose process cannot be read.
const UNREAD: &str = "unread";

/// Returns the kind of the calling process, with its session. A process that cannot be read in time is
/// [`CallerRole::Unrecognised`]: it may only look.
pub(super) async fn identify(world: &World, pid: u32) -> CallerRole {
    let seen = effects::caller(world, pid, move |sessions, runner| {
        let membership = sessions.membership(pid);
        let errand = match membership {
            Membership::Unowned => runner.errand_of(pid),
            Membership::Of(_) | Membership::Unknown => None,
        };
        (membership, errand)
    });
    match seen.await {
        None | Some((Membership::Unknown, _)) => CallerRole::Unrecognised,
        Some((Membership::Of(Member { session, .. }), _)) => match world.city.is_agents(&session) {
            true => CallerRole::Agent(session),
            false => CallerRole::Raider(session),
        },
        // A command that the supervisor runs for the city's owner has the owner's rights.
        Some((Membership::Unowned, None | Some(Rights::All))) => CallerRole::Operator,
        Some((Membership::Unowned, Some(rights))) => CallerRole::OwnCommand(rights),
    }
}

/// Returns the session that the caller's process is in now. The connection may be older than the session
/// that has the name by now, and speaks only for the session it was opened in.
///
/// # Errors
/// `forbidden` when the process is in no session, or in another one by now; `unavailable` when that cannot be read.
pub(super) async fn own_member(world: &World, caller: &Caller) -> Result<Member, ControlError> {
    let now = match caller.pid {
        Some(pid) => {
            let read = effects::caller(world, pid, move |sessions, _| sessions.membership(pid));
            let unread = || ControlError::unavailable("this process cannot be read in time");
            Some(read.await.ok_or_else(unread)?)
        }
        None => None,
    };
    match now {
        Some(Membership::Of(member))
            if caller.who.session() == Some(&member.session) && caller.peer.lives() =>
        {
            Ok(member)
        }
        _ => Err(ControlError::forbidden("this process is not in a session")),
    }
}

/// Returns the hook of the raider in whose session the caller runs. Every verb of a raider about itself
/// begins here.
///
/// # Errors
/// `forbidden` for a late process of an earlier incarnation, and for a process that does not stand in the
/// raider's sandbox or names another session; `not_found` when the session has no work.
pub(super) async fn own_hook(world: &World, caller: &Caller) -> Result<Hook, ControlError> {
    let Member {
        session,
        incarnation,
    } = own_member(world, caller).await?;
    let hooks = names::hooks(world).await?;
    let hook = hooks
        .into_iter()
        .find(|hook| hook.raider.session_id() == session);
    let hook = hook.ok_or_else(|| {
        ControlError::not_found(format!("session {session} has no work on its hook"))
    })?;
    if hook.incarnation != incarnation {
        return Err(ControlError::forbidden(format!(
            "this process belongs to incarnation {incarnation}, but {} is now at incarnation {}",
            hook.raider, hook.incarnation
        )));
    }
    stands_in_sandbox(world, caller, &hook).await?;
    Ok(hook)
}

/// Returns the caller's name for the events and relics that result from its request.
pub(super) async fn asker(world: &World, caller: &Caller) -> Asker {
    let errand = || async {
        let pid = caller.pid?;
        let read = effects::caller(world, pid, move |_, runner| runner.errand_name(pid));
        // A process that cannot be read in time may be a command of the supervisor.
        read.await.unwrap_or_else(|| Some(UNREAD.to_owned()))
    };
    match &caller.who {
        CallerRole::Agent(session) => {
            let agent = world.city.standing(session);
            Asker::agent(agent.map_or_else(|| session.to_string(), |name| name.to_string()))
        }
        CallerRole::Raider(session) => Asker::agent(session.as_str()),
        CallerRole::Operator => errand().await.map_or_else(Asker::person, Asker::errand),
        CallerRole::OwnCommand(_) => {
            let name = errand().await;
            Asker::errand(name.unwrap_or_else(|| caller.who.name().to_owned()))
        }
        // The caller can only read.
        CallerRole::Unrecognised => Asker::agent(caller.who.name()),
    }
}

/// Returns whether the caller may take a decision that is reserved for a person.
pub(super) fn speaks_for_person(world: &World, caller: &Caller) -> bool {
    match &caller.who {
        CallerRole::Operator => true,
        CallerRole::Agent(session) => rights_of(world, session) >= Rights::All,
        CallerRole::Raider(_) | CallerRole::OwnCommand(_) | CallerRole::Unrecognised => false,
    }
}

/// Returns the caller, as far as the rights on relics depend on it.
pub(super) fn speaker(world: &World, caller: &Caller) -> Speaker {
    let agent = match &caller.who {
        CallerRole::Agent(session) => world.city.standing(session),
        CallerRole::Operator
        | CallerRole::Raider(_)
        | CallerRole::OwnCommand(_)
        | CallerRole::Unrecognised => None,
    };
    Speaker {
        for_person: speaks_for_person(world, caller),
        agent,
    }
}

/// Checks that the caller's process stands in the sandbox of its raider.
async fn stands_in_sandbox(
    world: &World,
    caller: &Caller,
    hook: &Hook,
) -> Result<(), ControlError> {
    let sandbox = world.city.sandbox(&hook.raider);
    let of = sandbox.clone();
    let standing = match caller.pid {
        Some(pid) => {
            let look =
                effects::caller(world, pid, move |sessions, _| sessions.standing(pid, &of)).await;
            look.unwrap_or_else(|| Err("it cannot be read in time".to_owned()))
        }
        None => Err("its pid is unknown".to_owned()),
    };
    // The directory is the caller's only if the pid still is.
    let standing = standing.and_then(|standing| match caller.peer.lives() {
        true => Ok(standing),
        false => Err("it has ended".to_owned()),
    });
    accept(hook, &sandbox, standing)
}

fn accept(
    hook: &Hook,
    sandbox: &Path,
    standing: Result<CallerPlace, String>,
) -> Result<(), ControlError> {
    let (raider, own) = (&hook.raider, hook.raider.session_id());
    let shown = sandbox.display();
    let standing = standing.map_err(|why| {
        let message = format!(
            "cannot check whether this process of {raider} is inside the sandbox {shown}: {why}"
        );
        ControlError::forbidden(message).hint("wait for the answer")
    })?;
    if !standing.inside {
        let message = format!(
            "this process is in the session of {raider}, whose sandbox is {shown}, but its working directory is {}",
            standing.dir.display()
        );
        return Err(ControlError::forbidden(message).hint(format!(
            "run it inside {shown}; if that is not your sandbox, a program that you share with \
            {raider} ran this command"
        )));
    }
    match standing.claims {
        Some(claimed) if claimed != own.as_str() => {
            let message = format!(
                "this process is in the session of {raider} ({own}, sandbox {shown}), and its environment \
                 names session {claimed}"
            );
            Err(ControlError::forbidden(message)
                .hint("run it with the HD_SESSION that the session set"))
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::protocol::ErrorKind;
    use crate::control::rights::CallerRole;
    use crate::testing::world::Scenario;

    const PID: u32 = 4242;

    #[tokio::test(start_paused = true)]
    async fn a_raiders_process_speaks_for_it_only_from_inside_its_sandbox() {
        let (city, charged) = Scenario::at_work().await;
        city.parts.sessions.place(PID, &charged.session);
        let caller = Caller::stand_in(PID, CallerRole::Raider(charged.session.clone()));
        let sandbox = city.world.city.sandbox(&charged.raider);
        let stand = |dir: Option<&Path>| {
            let dir = dir.map(Path::to_owned);
            city.parts.sessions.stand(PID, dir);
        };
        for inside in [sandbox.clone(), sandbox.join("src/deep")] {
            stand(Some(&inside));
            assert!(own_hook(&city.world, &caller).await.is_ok());
        }
        let outside = sandbox.with_file_name("Other");
        stand(Some(&outside));
        let refused = own_hook(&city.world, &caller).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden);
        for dir in [&sandbox, &outside] {
            let dir = dir.to_str().unwrap();
            assert!(refused.message.contains(dir), "{refused}");
        }
        stand(None);
        let refused = own_hook(&city.world, &caller).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden);
        assert!(refused.message.contains("is gone"), "{refused}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_whose_environment_names_another_session_speaks_for_none() {
        let (city, charged) = Scenario::at_work().await;
        city.parts.sessions.place(PID, &charged.session);
        let caller = Caller::stand_in(PID, CallerRole::Raider(charged.session.clone()));
        city.parts.sessions.claim(PID, charged.session.as_str());
        assert!(own_hook(&city.world, &caller).await.is_ok());
        city.parts.sessions.claim(PID, "gt-horde-Other");
        let refused = own_hook(&city.world, &caller).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden);
        assert!(refused.message.contains("gt-horde-Other"), "{refused}");
    }
}
