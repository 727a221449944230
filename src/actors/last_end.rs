//! The session fact that tells how the session before it ended: kept with the session, so that it outlives the
//! supervisor, and gone with it.

use std::time::Duration;

use super::effects;
use super::world::World;
use crate::domain::ids::SessionId;
use crate::domain::last_end::LastEnd;

/// The name of the fact.
pub(in crate::actors) const LAST_END: &str = "last_end";
/// Its value in a first session.
const FIRST: &str = "first";

/// The time that a read of the fact has.
const LIMIT: Duration = Duration::from_secs(30);

/// Returns the value of the fact.
pub(in crate::actors) fn fact(end: Option<LastEnd>) -> String {
    end.map_or(FIRST, LastEnd::as_str).to_owned()
}

/// Returns how the session before this one ended; none for a first session.
pub async fn read(world: &World, session: &SessionId) -> Option<LastEnd> {
    let id = session.clone();
    let fact = effects::sessions(world, session, move |provider| {
        provider.get_meta(&id, LAST_END)
    });
    match tokio::time::timeout(LIMIT, fact).await {
        Ok(Ok(Some(word))) if word == FIRST => None,
        Ok(Ok(Some(word))) => Some(LastEnd::named(&word).unwrap_or(LastEnd::Unknown)),
        Ok(Ok(None)) => Some(LastEnd::Unknown),
        Err(_) => {
            tracing::warn!(%session, limit = ?LIMIT, "the fact that tells how the last session ended was not read in time; `hd rally` says so");
            Some(LastEnd::Unknown)
        }
        Ok(Err(error)) => {
            tracing::warn!(
                %session,
                %error,
                "the fact that tells how the last session ended cannot be read; `hd rally` says so"
            );
            Some(LastEnd::Unknown)
        }
    }
}
