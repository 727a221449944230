//! Start-up and patrol: observe everything (look.rs), and apply the plan. The same code serves both, so a crash and
//! restart are one more patrol.

use crate::actors::outbox;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ractor::{ActorRef, RpcReplyPort};

use super::super::claims::ClaimKey;
use super::super::effects;
use super::super::look_timer::{self, NoLook};
use super::super::mail::RootMail;
use super::super::world::World;
use super::child_record::ChildRecord;
use super::look::{self, Look, RootState};
use super::{Root, RootMsg, reload};
use crate::actors::mail::ConfigMsg;
use crate::actors::mail::DispatcherMsg;
use crate::actors::mail::ForgeMsg;
use crate::actors::mail::ShamanMsg;
use crate::actors::mail::WitnessMsg;
use crate::actors::mail::{ChildSpec, ChildState};
use crate::actors::rig_settings;
use crate::domain::cause::Cause;
use crate::domain::child::{ChildPhase, Event, Successor};
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ground::{FileFault, Part};
use crate::domain::ids::{ChildId, RaiderId, SessionId};
use crate::domain::reconcile::{Decision, Tended};
use crate::ports::sessions::{SessionError, SessionHandle, Stopped};

impl Root {
    /// Starts the infrastructure in order, then looks at the world; answers when the first look is applied. Meanwhile
    /// the root handles messages, because it may have to restart an actor that the look waits for.
    pub(super) async fn boot(&mut self, me: &ActorRef<RootMsg>, reply: RpcReplyPort<()>) {
        self.start_infra(me).await;
        effects::empty_trash(&self.world);
        reload::close_notices(&self.world, rig_settings::close_configured);
        self.booting.push(reply);
        self.arm_patrol(me);
        self.reconciling = true;
        self.start_look(me);
    }

    pub(super) fn arm_patrol(&mut self, me: &ActorRef<RootMsg>) {
        self.patrol_epoch += 1;
        let epoch = self.patrol_epoch;
        let interval = self.world.city.daemon.patrol_interval;
        let _timer = me.send_after(interval, move || RootMsg::Patrol(epoch));
    }

    /// Looks again, and tells the other actors to. One look at a time; the timer is armed anew each time, so slow looks
    /// never pile up.
    pub(super) fn patrol(&mut self, me: &ActorRef<RootMsg>, epoch: u64) {
        if epoch != self.patrol_epoch || self.stopping.is_some() {
            return;
        }
        self.arm_patrol(me);
        self.world.prune_ages();
        self.world.directory.tell_config(ConfigMsg::Check);
        self.look_at_accounts(me);
        if self.reconciling {
            // A look that hangs must not hold up the dispatcher.
            self.reconciled();
        }
        self.tell_all_to_look();
        self.patrolling = true;
        self.start_look(me);
    }

    fn reconciled(&mut self) {
        self.reconciling = false;
        let directory = &self.world.directory;
        directory.tell_dispatcher(DispatcherMsg::Reconciled);
    }

    /// Tells the other actors to check what is due; the dispatcher follows when the next look is applied (`rules.md`,
    /// patrol order).
    pub(super) fn tell_all_to_look(&mut self) {
        self.reconciling = true;
        let directory = &self.world.directory;
        directory.tell_shaman(ShamanMsg::Look);
        for rig in &self.world.city.rigs {
            directory.tell_witness(&rig.name, WitnessMsg::Patrol);
            directory.tell_forge(&rig.name, ForgeMsg::Look);
        }
    }

    /// Starts a look. A request during a look causes another look after it, since the first may miss later changes.
    pub(super) fn start_look(&mut self, me: &ActorRef<RootMsg>) {
        if self.looking.is_some() {
            self.look_again = true;
            return;
        }
        let world = Arc::clone(&self.world);
        self.looking = Some(Arc::clone(&world));
        let up = self.children.values().filter_map(|record| {
            let session = record.session.as_ref()?;
            Some((session.handle.id.clone(), session.handle.token.clone()))
        });
        let known = RootState {
            tended: self
                .children
                .iter()
                .map(|(id, record)| (id.clone(), tended(record)))
                .collect(),
            sizes: self.sizes(),
            resting: self.resting.clone(),
            up: up.collect(),
            histories: self.histories.loaded,
            patrol: std::mem::take(&mut self.patrolling),
        };
        let (me, first) = (me.clone(), !self.booting.is_empty());
        let own = Arc::clone(&world);
        let look = async move {
            if first {
                // A raider that ran `hd done` while no supervisor ran needs no session.
                outbox::drain(&own).await;
            }
            let begun = own.clock.mono();
            let look = look::observe(&own, known).await;
            let took = own.clock.mono().saturating_sub(begun);
            own.store.metrics().patrolled(took);
            look
        };
        tokio::spawn(async move {
            // A look that panics or hangs must not be the last one.
            let looked = look_timer::watched(&world, "root", look).await;
            report_look(&world, matches!(looked, Err(NoLook::Hangs)));
            let look = Box::new(looked.unwrap_or_default());
            // The root lives as long as the process.
            let _gone = me.cast(RootMsg::Planned(look));
        });
    }

    pub(super) async fn apply(&mut self, me: &ActorRef<RootMsg>, mut look: Look) {
        // A plan made for a configuration that is no longer in force is dropped. Other changes since then are guarded
        // against per decision, so a slow look is still of use.
        let in_force = |world: Arc<World>| Arc::ptr_eq(&world, &self.world);
        let stale = !self.looking.take().is_some_and(in_force);
        let again = std::mem::take(&mut self.look_again);
        if self.stopping.is_none() {
            for event in &look.ended {
                self.session_event(event.clone());
            }
            if let Some(said) = &look.standing {
                if self.infra_only() {
                    self.resting.extend(said.resting.clone());
                }
                self.suspended.clone_from(&said.suspended);
                self.suspensions.clone_from(&said.suspensions);
            }
            if let Some(hooked) = &look.hooked
                && !self.histories.loaded
                && let Some(left) = look.deaths.take()
            {
                self.load_histories(left, hooked);
            }
            if !stale {
                self.converge(me, &look).await;
                // Only the look of a patrol inspects processes.
                if let Some(dead_agents) = look.dead_agents {
                    self.release_hooks();
                    self.replace_dead_agents(dead_agents);
                }
            }
            self.send_notices(me);
            if let Some(hooked) = &look.hooked {
                self.forget_finished(hooked);
                self.note_unseen(look.unseen);
                if !stale && !std::mem::replace(&mut self.seen, true) {
                    self.look_at_accounts(me);
                }
            }
            self.refuse_starts();
            self.keep_all();
            if again {
                self.start_look(me);
            }
            // The new configuration requested another look.
            if stale {
                return;
            }
            if self.reconciling && !again {
                self.reconciled();
            }
        }
        for reply in self.booting.drain(..) {
            let _gave_up = reply.send(());
        }
    }

    /// Returns true when there is no child yet: before the first look.
    fn infra_only(&self) -> bool {
        self.children.is_empty()
    }

    async fn converge(&mut self, me: &ActorRef<RootMsg>, look: &Look) {
        for (id, spec) in &look.specs {
            match id {
                ChildId::Agent(_) => self.respec(me, spec).await,
                // Only `grace` applies to a running raider; other changes of its spec wait for its next start.
                ChildId::Raider(_) => {
                    if let Some(record) = self.children.get_mut(id) {
                        record.spec.grace = spec.grace;
                    }
                }
            }
        }
        // Quarantined members come last: their group waits with them.
        let (held, free): (Vec<_>, Vec<_>) =
            (look.decisions.iter()).partition(|decision| self.is_held_back(decision));
        for decision in free.into_iter().chain(held) {
            self.decided(me, decision, look).await;
        }
        // A child may depend on less than before.
        self.unblock(me).await;
        self.arm_idle(me, look.idle_at);
    }

    /// Takes over the parts of a changed spec that need no restart; a child whose spec changed is released from
    /// quarantine (`rules.md`, restart).
    async fn respec(&mut self, me: &ActorRef<RootMsg>, spec: &ChildSpec) {
        let Some(record) = self.children.get_mut(&spec.id) else {
            return;
        };
        if record.spec.is_same(spec) {
            return;
        }
        record.spec = spec.clone();
        self.step(me, &spec.id, Event::Respecified).await;
    }

    async fn decided(&mut self, me: &ActorRef<RootMsg>, decision: &Decision, look: &Look) {
        match decision {
            Decision::Adopt(id) => self.bring_up(me, id, look, Cause::Adopted).await,
            Decision::Start(id) => {
                let cause = match id {
                    ChildId::Raider(_) => Cause::Recovered,
                    ChildId::Agent(_) => Cause::Config,
                };
                self.bring_up(me, id, look, cause).await;
            }
            Decision::Resume(id) => self.resume(me, id, look).await,
            Decision::Suspend(id, cause) => self.step(me, id, Event::Rest(*cause)).await,
            Decision::Cycle(id, cause) => {
                if self.is_as_seen(id, look) {
                    let cycle = Event::Cycle {
                        cause: *cause,
                        tail: None,
                        progress: None,
                    };
                    self.step(me, id, cycle).await;
                }
            }
            Decision::Drain(id) => self.drain(me, id).await,
            Decision::KeepOn(id) => self.step(me, id, Event::KeepOn).await,
            // It came up since the look: it has work to finish.
            Decision::Remove(id) if look.specs.contains_key(id) && self.is_running(id) => {
                self.drain(me, id).await;
            }
            Decision::Remove(id @ ChildId::Raider(raider)) => {
                let hooked = look.hooked.as_ref();
                let lost = hooked.is_some_and(|hooked| !hooked.contains(raider));
                // Its name may have been given to another raider since.
                if lost && self.is_as_seen(id, look) {
                    self.step(me, id, Event::Remove(Cause::HookLost)).await;
                }
            }
            Decision::Remove(id) => self.remove(me, id).await,
            Decision::StopOrphan {
                session,
                token,
                owner,
                suspended,
            } => {
                if !self.is_held(session) {
                    let (id, token) = (session.clone(), token.clone());
                    let event = match owner {
                        Some(child) if *suspended => self.orphan_suspended(child),
                        owner => {
                            let subject = owner
                                .as_ref()
                                .map_or(session.to_string(), ChildId::to_string);
                            NewEvent::new(EventType::AgentOrphanStopped, subject, Cause::Removed)
                        }
                    };
                    self.stop_orphan(SessionHandle { id, token }, event);
                }
            }
        }
    }

    fn is_running(&self, id: &ChildId) -> bool {
        let record = self.children.get(id);
        record.is_some_and(|record| record.child.state() == ChildState::Running)
    }

    /// Returns true when a child has taken this session since the look began: it is not an orphan.
    fn is_held(&self, session: &SessionId) -> bool {
        let mut records = self.children.values();
        records.any(|record| record.has_actor() && &record.spec.session == session)
    }

    async fn bring_up(&mut self, me: &ActorRef<RootMsg>, id: &ChildId, look: &Look, cause: Cause) {
        if let Some(spec) = look.specs.get(id).filter(|_| self.is_free(id)) {
            self.want(me, spec.clone(), cause, None).await;
        }
    }

    /// Returns true when the child has no record and was not stopped by an operator since the look began.
    fn is_free(&self, id: &ChildId) -> bool {
        let rests = match id {
            ChildId::Raider(_) => false,
            ChildId::Agent(agent) => self.resting.contains(agent),
        };
        !rests && !self.children.contains_key(id)
    }

    /// Returns true when the child's session is the one that the look saw.
    fn is_as_seen(&self, id: &ChildId, look: &Look) -> bool {
        let session = self
            .children
            .get(id)
            .and_then(|record| record.session.as_ref());
        session
            .is_some_and(|session| look.up.get(&session.handle.id) == Some(&session.handle.token))
    }

    /// Removes the records of finished raiders whose hook was released meanwhile.
    fn forget_finished(&mut self, hooked: &BTreeSet<RaiderId>) {
        self.children.retain(|id, record| match id {
            ChildId::Raider(raider) => {
                *record.child.phase() != ChildPhase::Finished || hooked.contains(raider)
            }
            ChildId::Agent(_) => true,
        });
    }

    /// Looks again when the next session reaches its idle timeout.
    fn arm_idle(&mut self, me: &ActorRef<RootMsg>, at: Option<Timestamp>) {
        if let Some(before) = self.idle.take() {
            before.abort();
        }
        let Some(at) = at else { return };
        let wait = Duration::try_from(at - self.world.clock.now()).unwrap_or_default();
        let wait = wait + Duration::from_millis(1);
        self.idle = Some(me.send_after(wait, || RootMail::Look.into()).abort_handle());
    }

    /// Ends an orphan session, once, even if several looks see it before it has ended.
    fn stop_orphan(&self, handle: SessionHandle, event: NewEvent) {
        let world = Arc::clone(&self.world);
        let session = handle.id.clone();
        tokio::spawn(async move {
            if let Some(Err(error)) = end_orphan(&world, handle, event).await {
                tracing::warn!(
                    %session,
                    %error,
                    "an orphan session could not be ended; the next look retries"
                );
            }
        });
    }
}

/// Notes that the root's look hangs, or that one has ended again; the keeper of the ground reports it.
fn report_look(world: &World, hangs: bool) {
    let trouble = hangs.then(|| FileFault {
        part: Part::Look,
        path: world.city.state_dir().join("sessions"),
        says: "the sessions cannot be looked at: a look has not ended in time".to_owned(),
        hint:
            "until one ends, only announced ends of sessions are noticed; check for a process or a \
            disk that does not answer"
                .to_owned(),
    });
    world.directory.ground.set_fault(Part::Look, trouble);
}

/// Ends an orphan session, and journals it. Returns none while another task is ending it.
pub async fn end_orphan(
    world: &World,
    handle: SessionHandle,
    event: NewEvent,
) -> Option<Result<Stopped, SessionError>> {
    let claim = world.claims.claim(ClaimKey::Orphan(handle.token.clone()))?;
    let grace: Duration = world.city.daemon.shutdown_timeout;
    let ended = effects::stop(world, handle, grace).await;
    drop(claim);
    match &ended {
        // `Already`: the session ended by itself after the look observed it.
        Ok(Stopped::Already) | Err(_) => {}
        Ok(how) => {
            let data = serde_json::json!({ "how": format!("{how:?}") });
            world.store.journal(vec![event.with(data)]);
            // A child that wants its name may have waited for this.
            world.directory.tell_root(RootMail::Look);
        }
    }
    Some(ended)
}

/// Maps a record to the plan's view of it.
fn tended(record: &ChildRecord) -> Tended {
    match record.child.phase() {
        ChildPhase::Leaving { .. }
        | ChildPhase::Gone
        | ChildPhase::Replacing {
            by: Successor::Group,
            ..
        } => Tended::Ending,
        ChildPhase::Resting(rest) => match rest.until() {
            Some(_) => Tended::Suspended,
            None => Tended::Resting,
        },
        ChildPhase::Running { .. } => Tended::Up {
            fingerprint: record
                .session
                .as_ref()
                .and_then(|session| session.fingerprint.clone()),
            draining: record.child.is_draining(),
        },
        ChildPhase::Blocked
        | ChildPhase::Starting { .. }
        | ChildPhase::Replacing {
            by: Successor::Fresh { .. },
            ..
        }
        | ChildPhase::Backoff { .. }
        | ChildPhase::Quarantined { .. }
        | ChildPhase::Finished => Tended::Waiting,
    }
}
