//! A raider or agent: the OTP child. It owns one session of its provider and lives exactly as long as that session.
//!
//! ```text
//!            Opened(Ok)    root: Seen, session ended     Judged
//!  Opening ─────────────► Open ────────────────► Judging ────────► Err(ChildExit)  "let it crash"
//!     │ Opened(Err)        │ End                                        ▲
//!     └──── Err ───────────┼──────────► Closing ── Closed ──► stop      │ root decides
//!                          │ Detach ───────────────────────► stop      ─┘
//! ```
//!
//! A supervision event overtakes messages: if the child died before the root has read `Up`, the root would never learn
//! that there was a session. So the child waits for `Seen` before it dies.
//!
//! A child decides nothing: its end, with a typed reason, goes to the root, which restarts it or not.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::actors::effects;
use crate::actors::mail::Written;
use crate::actors::mail::{ChildSpec, RootMail, SessionView};
use crate::actors::session::endings;
use crate::actors::session::launch::{self, Opened};
use crate::actors::world::World;
use crate::domain::cause::Cause;
use crate::domain::child::ChildExit;
use crate::domain::ids::Generation;
use crate::ports::sessions::{SessionError, SessionEvent, SessionHandle, Stopped};

/// Messages to a child.
#[derive(Debug)]
pub enum ChildMsg {
    /// The result of the attempt to open a session.
    Opened(Box<Result<Opened, ChildExit>>),
    /// The root knows that the session is up.
    Seen,
    /// The provider reports that a session of this id ended.
    Session(SessionEvent),
    /// The judged reason why the session ended.
    Judged(ChildExit),
    /// The session is no longer wanted: end it within the grace, then stop.
    End(Duration),
    /// Stop, and leave the session running for the next supervisor.
    Detach,
    /// The result of ending the session.
    Closed(Result<Stopped, SessionError>),
}

/// The parts that a child is made from.
#[derive(Clone)]
pub struct ChildArgs {
    /// The world.
    pub world: Arc<World>,
    /// The child's spec.
    pub spec: ChildSpec,
    /// The least generation that its session may have.
    pub generation: Generation,
    /// The cause of the start.
    pub cause: Cause,
    /// Set when its last session came to no planned end: if it does not run, it died.
    pub unattended: bool,
    /// The time of the last death that an earlier supervisor counted: sessions from before count no more.
    pub counted: Option<Timestamp>,
    /// Set when its last session died, regardless of later failed starts.
    pub crashed: bool,
    /// The session starts only after this write has ended.
    pub written: Option<Written>,
}

enum Phase {
    Opening {
        ended: Vec<SessionEvent>,
        end: Option<Duration>,
        detach: bool,
    },
    Open {
        handle: SessionHandle,
        seen: bool,
        ended: Option<SessionEvent>,
    },
    Judging,
    /// Told to end, within this grace.
    Closing(SessionHandle, Duration),
}

/// A child's state.
pub struct Child {
    args: ChildArgs,
    phase: Phase,
}

/// The actor.
pub struct ChildActor;

impl Actor for ChildActor {
    type Msg = ChildMsg;
    type State = Child;
    type Arguments = ChildArgs;

    async fn pre_start(
        &self,
        me: ActorRef<ChildMsg>,
        args: ChildArgs,
    ) -> Result<Child, ActorProcessingErr> {
        let opening = args.clone();
        tokio::spawn(async move {
            let opened = launch::open(&opening).await;
            // A child that is gone by now was killed; the next look finds the session.
            let _gone = me.cast(ChildMsg::Opened(Box::new(opened)));
        });
        let phase = Phase::Opening {
            ended: Vec::new(),
            end: None,
            detach: false,
        };
        Ok(Child { args, phase })
    }

    async fn handle(
        &self,
        me: ActorRef<ChildMsg>,
        msg: ChildMsg,
        child: &mut Child,
    ) -> Result<(), ActorProcessingErr> {
        match msg {
            ChildMsg::Opened(result) => match *result {
                Ok(opened) => child.opened(&me, opened),
                Err(_) if child.is_detached() => me.stop(None),
                Err(failure) => return Err(failure.into()),
            },
            ChildMsg::Seen => child.seen(&me),
            ChildMsg::Session(event) => child.session_ended(&me, event),
            ChildMsg::Judged(exit) => return Err(exit.into()),
            ChildMsg::End(grace) => child.end(&me, grace),
            ChildMsg::Detach => child.detach(&me),
            ChildMsg::Closed(Ok(how)) => return Err(ChildExit::Ended(how).into()),
            ChildMsg::Closed(Err(error)) => {
                return Err(ChildExit::NotEnded(error.to_string()).into());
            }
        }
        Ok(())
    }
}

impl Child {
    fn opened(&mut self, me: &ActorRef<ChildMsg>, opened: Opened) {
        let Phase::Opening { ended, end, detach } = &mut self.phase else {
            return;
        };
        let (ended, end, detach) = (std::mem::take(ended), *end, *detach);
        let handle = opened.started.handle.clone();
        self.phase = Phase::Open {
            handle,
            seen: false,
            ended: None,
        };
        if detach {
            return self.detach(me);
        }
        if let Some(grace) = end {
            return self.end(me, grace);
        }
        let session = SessionView {
            handle: opened.started.handle,
            agent: opened.started.agent,
            holder: opened.started.holder,
            generation: opened.started.generation,
            since: opened.since,
            fingerprint: opened.fingerprint,
        };
        let up = RootMail::Up {
            id: self.args.spec.id.clone(),
            actor: me.get_id(),
            session,
            how: opened.how,
        };
        self.args.world.directory.tell_root(up);
        for event in ended {
            self.session_ended(me, event);
        }
    }

    /// Returns true when it was told to detach before the session was up.
    fn is_detached(&self) -> bool {
        matches!(self.phase, Phase::Opening { detach: true, .. })
    }

    fn seen(&mut self, me: &ActorRef<ChildMsg>) {
        if let Phase::Open { seen, ended, .. } = &mut self.phase {
            *seen = true;
            if let Some(event) = ended.take() {
                self.judge(me, event);
            }
        }
    }

    fn session_ended(&mut self, me: &ActorRef<ChildMsg>, event: SessionEvent) {
        let (SessionEvent::Exited(named, _) | SessionEvent::Lost(named, _)) = &event;
        match &mut self.phase {
            // The event may be for this session, whose handle is not known yet.
            Phase::Opening { ended: kept, .. } => kept.push(event),
            Phase::Open {
                handle, seen: true, ..
            } if handle == named => self.judge(me, event),
            Phase::Open { handle, ended, .. } if handle == named => *ended = Some(event),
            Phase::Open { .. } | Phase::Judging | Phase::Closing(..) => {}
        }
    }

    fn judge(&mut self, me: &ActorRef<ChildMsg>, event: SessionEvent) {
        let (world, spec) = (Arc::clone(&self.args.world), self.args.spec.clone());
        let me = me.clone();
        self.phase = Phase::Judging;
        tokio::spawn(async move {
            let exit = endings::judge(&world, &spec, event).await;
            // If the child was killed meanwhile, the root knows.
            let _gone = me.cast(ChildMsg::Judged(exit));
        });
    }

    fn end(&mut self, me: &ActorRef<ChildMsg>, grace: Duration) {
        match &mut self.phase {
            Phase::Opening { end, .. } => *end = Some(end.map_or(grace, |e| e.min(grace))),
            Phase::Open { handle, .. } => {
                let handle = handle.clone();
                self.close(me, handle, grace);
            }
            // The session is gone already.
            Phase::Judging => me.stop(None),
            // A second stop request with a shorter grace replaces the first.
            Phase::Closing(handle, given) if grace < *given => {
                let handle = handle.clone();
                self.close(me, handle, grace);
            }
            Phase::Closing(..) => {}
        }
    }

    fn close(&mut self, me: &ActorRef<ChildMsg>, handle: SessionHandle, grace: Duration) {
        let world = Arc::clone(&self.args.world);
        self.phase = Phase::Closing(handle.clone(), grace);
        let me = me.clone();
        tokio::spawn(async move {
            let closed = effects::stop(&world, handle, grace).await;
            // If the child was killed meanwhile, the root knows.
            let _gone = me.cast(ChildMsg::Closed(closed));
        });
    }

    fn detach(&mut self, me: &ActorRef<ChildMsg>) {
        match &mut self.phase {
            Phase::Opening { detach, .. } => *detach = true,
            Phase::Open { .. } | Phase::Judging => me.stop(None),
            Phase::Closing(..) => {}
        }
    }
}
