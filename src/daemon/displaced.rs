//! The end of a supervisor whose city's directory was removed, or has another directory in its place. Its paths lead
//! into nothing, or into a directory that another supervisor is entitled to: nothing is done by path any more.
//!
//! ```text
//!  displaced ─┬─► store: refuses                 (`tree::store_opener`)
//!             ├─► effects: no work begins        (`actors::effects`)
//!             ├─► work under way: stands still   (`adapters::standstill`), its processes are killed
//!             └─► sessions: no start begins, all are ended by the handles of their processes ─► exit
//! ```
//!
//! The process exits as if it had crashed, which the store outlives. A service manager then starts a supervisor on the
//! directory that is there.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::ground::Ground;
use super::moves::Moves;
use super::{Built, DaemonError, child_processes};
use crate::actors::world::World;

/// Returns the reason as soon as the path of the city must not be used any more. Answers those that ask which process
/// holds the city meanwhile.
pub(super) async fn noticed(ground: Arc<Ground>) -> String {
    tokio::select! {
        why = looked(&ground) => why,
        never = ground.answer() => match never {},
    }
}

async fn looked(ground: &Arc<Ground>) -> String {
    let mut moves = Moves::of(ground.city());
    loop {
        let own = Arc::clone(ground);
        // A disk that hangs keeps one thread.
        let look = tokio::task::spawn_blocking(move || (own.displaced(), own.is_away()));
        let is_away = match look.await {
            Ok((Some(why), _)) => return why,
            Ok((None, is_away)) => is_away,
            // A panic tells nothing.
            Err(_) => false,
        };
        tokio::select! {
            () = moves.next(is_away) => {}
            // The patrol, or work by path, found it.
            () = ground.found_displaced() => {}
        }
    }
}

/// Ends everything that this supervisor has started.
pub(super) async fn end(built: &Built, why: String) -> DaemonError {
    tracing::error!(
        why,
        "the city's directory is not at its path any more; this supervisor ends its sessions and exits"
    );
    if let Some(world) = built.world.get().map(World::newest) {
        world.stopping.store(true, Ordering::Relaxed);
        world.starts.close();
    }
    let sessions = built.sessions.get().cloned();
    let ending = tokio::task::spawn_blocking(move || {
        child_processes::kill();
        let left = sessions.map(|sessions| {
            sessions.stopping();
            sessions.end_known()
        });
        // A thread that did not yet stand still may have started one.
        child_processes::kill();
        left.unwrap_or_default()
    });
    DaemonError::Displaced(match ending.await {
        Ok(left) if left.is_empty() => format!("{why}; its sessions have ended"),
        Ok(left) => format!(
            "{why}; these sessions could not be ended: {}",
            left.join(", ")
        ),
        Err(panic) => format!("{why}; its sessions could not be ended: {panic}"),
    })
}
