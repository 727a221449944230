//! The number of connections, and which of them make room. An idle connection keeps its place only while no other
//! caller needs it.
//!
//! | Caller | Places | When they are taken |
//! |---|---|---|
//! | a session, all errands, all that cannot be seen: each | 8, and 64 together | its own longest idle one is closed |
//! | a session that has none | one more, always | |
//! | a person | 64, apart from those | the longest idle one is closed, then the oldest stream, then there is one more |

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::control::protocol::ControlError;
use crate::control::rights::CallerRole;

/// The limit of connections of persons, and apart from those of all other callers together, which so can never shut a
/// person out. A session without a connection gets one even above the limit: a busy session must not keep another from
/// sending `hd done`.
pub const CONNECTIONS_MAX: usize = 64;
/// The limit of connections of one session, of all errands, and of all invisible callers: none of these can shut out
/// the others.
pub const CONNECTIONS_MAX_PER_SESSION: usize = 8;

/// The activity of a connection, least important first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doing {
    /// Waits for a request.
    Idle,
    /// Sends a stream, which may last for days.
    Streaming,
    /// Carries out a request.
    Busy,
}

/// The connections of all callers.
#[derive(Debug, Default)]
pub struct Places(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    last: u64,
    by_number: BTreeMap<u64, Holder>,
}

#[derive(Debug)]
struct Holder {
    who: CallerRole,
    doing: Doing,
    since: Instant,
    closed: Arc<Notify>,
}

/// The place of a connection; returned when dropped.
pub struct ConnectionPermit {
    places: Arc<Places>,
    number: u64,
    closed: Arc<Notify>,
}

impl Places {
    fn held(&self) -> MutexGuard<'_, Table> {
        // Every change is a single call, so a panic elsewhere left it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a new connection of this caller.
    ///
    /// # Errors
    /// No place is free, and no connection may be closed to make room.
    pub fn take(places: &Arc<Self>, who: &CallerRole) -> Result<ConnectionPermit, ControlError> {
        let mut held = places.held();
        held.make_room(who)?;
        held.last += 1;
        let (number, closed) = (held.last, Arc::new(Notify::new()));
        let holder = Holder {
            who: who.clone(),
            doing: Doing::Idle,
            since: Instant::now(),
            closed: Arc::clone(&closed),
        };
        held.by_number.insert(number, holder);
        drop(held);
        Ok(ConnectionPermit {
            places: Arc::clone(places),
            number,
            closed,
        })
    }
}

impl Table {
    fn make_room(&mut self, who: &CallerRole) -> Result<(), ControlError> {
        let is_person = *who == CallerRole::Operator;
        let own = self.count(|holder| holder == who);
        let alike = self.count(|holder| (*holder == CallerRole::Operator) == is_person);
        if is_person {
            if alike >= CONNECTIONS_MAX && !self.close(who, Doing::Idle) {
                self.close(who, Doing::Streaming);
            }
            return Ok(());
        }
        let full = match () {
            () if own >= CONNECTIONS_MAX_PER_SESSION => {
                full(CONNECTIONS_MAX_PER_SESSION, "from one session")
            }
            () if own > 0 && alike >= CONNECTIONS_MAX => full(CONNECTIONS_MAX, "at once"),
            () => return Ok(()),
        };
        match self.close(who, Doing::Idle) {
            true => Ok(()),
            false => Err(full),
        }
    }

    fn count(&self, counts: impl Fn(&CallerRole) -> bool) -> usize {
        let holders = self.by_number.values();
        holders.filter(|holder| counts(&holder.who)).count()
    }

    /// Closes the connection of this caller that has been in this activity for longest. Returns whether there was one.
    fn close(&mut self, who: &CallerRole, doing: Doing) -> bool {
        let holders = self.by_number.iter();
        let alike = holders.filter(|(_, holder)| holder.who == *who && holder.doing == doing);
        let oldest = alike.min_by_key(|(_, holder)| holder.since);
        let Some(number) = oldest.map(|(number, _)| *number) else {
            return false;
        };
        if let Some(holder) = self.by_number.remove(&number) {
            holder.closed.notify_one();
        }
        true
    }
}

fn full(limit: usize, which: &str) -> ControlError {
    ControlError::unavailable(format!("there are {limit} connections {which} already"))
        .hint("close some, or try again")
}

impl ConnectionPermit {
    /// Notes the connection's present activity.
    pub fn does(&self, doing: Doing) {
        if let Some(holder) = self.places.held().by_number.get_mut(&self.number) {
            (holder.doing, holder.since) = (doing, Instant::now());
        }
    }

    /// Returns when the place is needed for another connection.
    pub async fn is_needed(&self) {
        self.closed.notified().await;
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.places.held().by_number.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn session(number: usize) -> CallerRole {
        CallerRole::Raider(format!("gt-horde-{number}").parse().unwrap())
    }

    fn take(places: &Arc<Places>, who: &CallerRole, doing: Doing) -> Option<ConnectionPermit> {
        let place = Places::take(places, who).ok()?;
        place.does(doing);
        Some(place)
    }

    fn is_closed(place: &ConnectionPermit) -> bool {
        place.is_needed().now_or_never().is_some()
    }

    #[test]
    fn sessions_cannot_shut_a_person_out() {
        let places = Arc::default();
        let taken: Vec<_> = (0..CONNECTIONS_MAX)
            .map_while(|number| take(&places, &session(number), Doing::Busy))
            .collect();
        assert_eq!(taken.len(), CONNECTIONS_MAX);
        assert!(take(&places, &CallerRole::Operator, Doing::Idle).is_some());
        let more = take(&places, &session(0), Doing::Busy);
        assert!(more.is_none(), "none is left");
    }

    #[test]
    fn sessions_that_took_every_place_keep_no_other_from_being_done() {
        let places = Arc::default();
        let taken: Vec<_> = (0..CONNECTIONS_MAX)
            .map_while(|number| {
                let session = session(number / CONNECTIONS_MAX_PER_SESSION);
                take(&places, &session, Doing::Busy)
            })
            .collect();
        assert_eq!(taken.len(), CONNECTIONS_MAX);
        let one = take(&places, &session(99), Doing::Busy);
        assert!(one.is_some());
        let two = take(&places, &session(99), Doing::Busy);
        assert!(two.is_none(), "one is enough");
    }

    #[test]
    fn caller_with_all_its_places_loses_its_own_idle_connection_and_no_other() {
        use crate::domain::city::Rights::Read;
        for who in [
            CallerRole::Unrecognised,
            CallerRole::OwnCommand(Read),
            session(1),
        ] {
            let places = Arc::default();
            let other = take(&places, &session(2), Doing::Idle).unwrap();
            let taken: Vec<_> = (0..CONNECTIONS_MAX_PER_SESSION)
                .map_while(|_| take(&places, &who, Doing::Busy))
                .collect();
            assert_eq!(taken.len(), CONNECTIONS_MAX_PER_SESSION, "{who:?}");
            assert!(take(&places, &who, Doing::Busy).is_none());
            taken[3].does(Doing::Idle);
            let more = take(&places, &who, Doing::Idle);
            assert!(more.is_some() && is_closed(&taken[3]) && !is_closed(&other));
        }
    }

    #[test]
    fn person_always_gets_a_place() {
        let places = Arc::default();
        let person = |doing| take(&places, &CallerRole::Operator, doing).unwrap();
        let first = person(Doing::Streaming);
        let mut taken: Vec<_> = (1..CONNECTIONS_MAX).map(|_| person(Doing::Idle)).collect();
        taken.push(person(Doing::Busy));
        assert!(
            is_closed(&taken[0]) && !is_closed(&first),
            "idle ones go first"
        );
        for place in &taken {
            place.does(Doing::Busy);
        }
        taken.push(person(Doing::Busy));
        assert!(is_closed(&first), "then streams");
        taken.push(person(Doing::Busy));
        assert!(!taken[1..].iter().any(is_closed), "a request is never lost");
    }
}
