//! The store actor: gives the relic store one owner, and everybody else a handle to it.
//!
//! ```text
//!   StoreHandle ─ run(job)  ─┐                        ┌─ answers, after the commit
//!   StoreHandle ─ note(..)  ─┼─► queue ─► writer ─────┼─ subscribe(): events, in order of their number
//!   ...                      │            (a thread   └─ tracing, target `horde::journal`
//!                            │             that owns
//!   StoreActor starts it, ───┘             the file)
//!   fails when it crashed
//! ```
//!
//! The queue belongs to the handles, so it outlives a crash: the root starts the actor again, the new
//! writer opens the file afresh and goes on with what is queued. A job that panics fails alone; it
//! still counts as a crash, because the writer's state may have been hurt.

mod handle;
mod queue;
mod writer;

#[cfg(any(test, feature = "testing"))]
pub mod in_memory;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use crate::ports::relics::{Relics, StoreError};

pub use handle::StoreHandle;
use writer::Writer;

/// Opens the relic store; called on the writer's thread, again after every crash.
pub type Open = Arc<dyn Fn() -> Result<Box<dyn Relics>, StoreError> + Send + Sync>;

/// What the actor starts with, at first and at every restart.
#[derive(Clone)]
pub struct Args {
    /// The handle that everybody else has a clone of.
    pub handle: StoreHandle,
    /// Opens the store.
    pub open: Open,
}

/// What the actor hears.
#[derive(Debug)]
pub enum Msg {
    /// The writer crashed, and what it said. Only the writer sends this.
    WriterCrashed(String),
}

/// The actor.
#[derive(Debug)]
pub struct StoreActor;

/// A running writer.
pub struct State {
    handle: StoreHandle,
    /// Resolves when the writer's thread is finished with the store.
    ended: oneshot::Receiver<()>,
}

impl Actor for StoreActor {
    type Msg = Msg;
    type State = State;
    type Arguments = Args;

    async fn pre_start(&self, me: ActorRef<Msg>, args: Args) -> Result<State, ActorProcessingErr> {
        let Args { handle, open } = args;
        let writer = Writer::new(handle.queue(), open);
        let (finished, ended) = oneshot::channel();
        std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || {
                let end = writer.run();
                drop(finished);
                if let Err(crash) = end {
                    // When the actor is gone too, there is nobody left to tell.
                    let _told = me.cast(Msg::WriterCrashed(crash));
                }
            })?;
        Ok(State { handle, ended })
    }

    async fn handle(
        &self,
        _me: ActorRef<Msg>,
        message: Msg,
        _state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Msg::WriterCrashed(why) => Err(format!("the store's writer crashed: {why}").into()),
        }
    }

    /// Nothing new is taken; what is queued is still written.
    async fn post_stop(
        &self,
        _me: ActorRef<Msg>,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        state.handle.queue().close();
        // The sender is dropped, never used: an error is the answer.
        let _finished = (&mut state.ended).await;
        state.handle.queue().abandon();
        Ok(())
    }
}
