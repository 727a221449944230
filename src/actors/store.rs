//! The store actor: the single owner of the relic store. All other code uses a handle.
//!
//! ```text
//!   StoreHandle ─ run(job)  ─┐                        ┌─ answers, after the commit
//!   StoreHandle ─ journal(..)─┼─► queue ─► writer ─────┼─ subscribe(): events, in order of their number
//!   ...                      │            (a thread   └─ tracing, target `horde::journal`
//!                            │             that owns
//!   StoreActor starts it, ───┘             the file)
//!   fails when it crashed
//! ```
//!
//! The queue belongs to the handles, so it outlives a crash: the root starts the actor again, and the new writer
//! reopens the file and continues with the queue. A job that panics fails alone; it still counts as a crash, because
//! the writer's state may be corrupt.

pub mod about;
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

/// The arguments of the actor, also at every restart.
#[derive(Clone)]
pub struct Args {
    /// The handle that all other code has a clone of.
    pub handle: StoreHandle,
    /// Opens the store.
    pub open: Open,
}

/// The actor's messages.
#[derive(Debug)]
pub enum Msg {
    /// The writer crashed, with its panic's text. Sent by the writer only.
    WriterCrashed(String),
}

/// The actor.
#[derive(Debug)]
pub struct StoreActor;

/// A running writer.
pub struct StoreState {
    handle: StoreHandle,
    /// Resolves when the writer's thread has closed the store.
    ended: oneshot::Receiver<()>,
}

impl Actor for StoreActor {
    type Msg = Msg;
    type State = StoreState;
    type Arguments = Args;

    async fn pre_start(
        &self,
        me: ActorRef<Msg>,
        args: Args,
    ) -> Result<StoreState, ActorProcessingErr> {
        let Args { handle, open } = args;
        let writer = Writer::new(handle.queue(), open);
        let (finished, ended) = oneshot::channel();
        std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || {
                let end = writer.run();
                drop(finished);
                if let Err(crash) = end {
                    // If the actor has ended too, the message is dropped.
                    let _told = me.cast(Msg::WriterCrashed(crash));
                }
            })?;
        Ok(StoreState { handle, ended })
    }

    async fn handle(
        &self,
        _me: ActorRef<Msg>,
        message: Msg,
        _state: &mut StoreState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Msg::WriterCrashed(why) => Err(format!("the store's writer crashed: {why}").into()),
        }
    }

    /// Accepts no new jobs, and waits until the queue is written.
    async fn post_stop(
        &self,
        _me: ActorRef<Msg>,
        state: &mut StoreState,
    ) -> Result<(), ActorProcessingErr> {
        state.handle.queue().close();
        // The sender is dropped unused: an error means that the writer ended.
        let _finished = (&mut state.ended).await;
        state.handle.queue().abandon();
        Ok(())
    }
}
