//! Groups: what the death of a member means for the others (OTP's one_for_all and rest_for_one).
//!
//! ```text
//!  a member died ─► those affected end, the last first ─► its delay has passed ─► they start, the
//!                                                                       first first, each when
//!  another one dies meanwhile: counted, and all over again              the one before is up
//! ```
//!
//! Only the dead one's death is counted. While it is quarantined the others wait with it: they were
//! not meant to run without it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;

use super::super::child::ChildMsg;
use super::slot::{ChildState, Desired};
use super::{Root, RootMsg};
use crate::domain::cause::Cause;
use crate::domain::city::{City, RestartType};
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{AgentName, ChildId};

/// A restart of a group that is under way.
pub(super) struct Together {
    /// Still to be ended, the last first.
    stopping: Vec<ChildId>,
    /// To be started, the first first.
    starting: VecDeque<ChildId>,
    /// Being started: the next one waits for it.
    awaited: Option<ChildId>,
    /// The delay that answers the death has passed.
    due: bool,
    epoch: u64,
}

impl Root {
    /// Restarts the group of a member that died, if its strategy concerns others. False when it
    /// does not: the child is restarted by itself.
    pub(super) fn restart_together(
        &mut self,
        me: &ActorRef<RootMsg>,
        dead: &ChildId,
        delay: Duration,
    ) -> bool {
        let ChildId::Agent(name) = dead else {
            return false;
        };
        let Some((group, affected)) = self.affected(name) else {
            return false;
        };
        // Never one that a timer of an earlier restart still carries.
        self.group_epoch += 1;
        let epoch = self.group_epoch;
        let members: Vec<_> = affected.into_iter().map(ChildId::Agent).collect();
        for id in &members {
            if let Some(slot) = self.slots.get_mut(id) {
                slot.together = !slot.is_at_rest();
            }
        }
        let takes_part = |id: &&ChildId| self.slots.get(*id).is_some_and(|slot| slot.together);
        let starting: VecDeque<_> = members.iter().filter(takes_part).cloned().collect();
        let stopping = starting.iter().filter(|id| *id != dead).cloned().collect();
        let together = Together {
            stopping,
            starting,
            awaited: None,
            due: false,
            epoch,
        };
        self.together.insert(group.clone(), together);
        let name = group.clone();
        let _timer = me.send_after(delay, move || RootMsg::GroupDue { group: name, epoch });
        self.stop_next(&group);
        true
    }

    /// Whether the death of the child concerns others.
    pub(super) fn concerns_others(&self, dead: &ChildId) -> bool {
        matches!(dead, ChildId::Agent(name) if self.affected(name).is_some())
    }

    /// Group and members that are restarted with it, when there is more than one.
    fn affected(&self, dead: &AgentName) -> Option<(String, Vec<AgentName>)> {
        let mut groups = self.world.city.groups.iter();
        let group = groups.find(|group| group.members.contains(dead))?;
        let mut affected = group.affected(dead);
        if let Some(under_way) = self.together.get(&group.name) {
            // An earlier death concerns more of them.
            let first = under_way.starting.front().or(under_way.awaited.as_ref());
            let earlier = group.members.iter().position(|member| {
                first.is_some_and(|first| *first == ChildId::Agent(member.clone()))
            });
            let more = &group.members[earlier.unwrap_or(group.members.len())..];
            if more.len() > affected.len() {
                affected = more;
            }
        }
        (affected.len() > 1).then(|| (group.name.clone(), affected.to_vec()))
    }

    /// Ends the last of those still to be ended; true when none is left.
    fn stop_next(&mut self, group: &str) -> bool {
        let now = self.world.clock.now();
        loop {
            let Some(together) = self.together.get_mut(group) else {
                return false;
            };
            let Some(id) = together.stopping.last().cloned() else {
                return true;
            };
            let slot = self.slots.get_mut(&id);
            // Whoever is laid to rest meanwhile takes no part any more.
            let Some(slot) = slot.filter(|slot| slot.together && !slot.is_at_rest()) else {
                together.stopping.pop();
                continue;
            };
            if !slot.has_actor() {
                together.stopping.pop();
                slot.epoch += 1;
                if slot.state != ChildState::Quarantined {
                    slot.become_state(ChildState::Backoff, now);
                }
                continue;
            }
            if !matches!(slot.desired, Desired::Together) {
                slot.desired = Desired::Together;
                slot.become_state(ChildState::Ending, now);
                slot.tell(ChildMsg::End(slot.spec.grace));
            }
            return false;
        }
    }

    /// A member's session ended in its turn.
    pub(super) async fn ended_together(&mut self, me: &ActorRef<RootMsg>, id: &ChildId) {
        let now = self.world.clock.now();
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        slot.desired = Desired::Up;
        slot.become_state(ChildState::Backoff, now);
        self.note(NewEvent::new(EventType::AgentStopped, id, Cause::Group));
        match self.group_of(id) {
            Some(group) if self.together.contains_key(&group) => self.advance(me, &group).await,
            Some(_) | None => self.spawn_child(me, id).await,
        }
    }

    /// Gives up the restarts of groups that are configured otherwise now: everybody starts alone.
    pub(super) async fn regroup(&mut self, me: &ActorRef<RootMsg>, old: &City) {
        let new = Arc::clone(&self.world);
        let stays = |name: &String| {
            let of = |city: &City| {
                city.groups
                    .iter()
                    .find(|group| &group.name == name)
                    .cloned()
            };
            of(old) == of(&new.city)
        };
        let (stay, gone) =
            (std::mem::take(&mut self.together).into_iter()).partition(|(name, _)| stays(name));
        self.together = stay;
        let gone: BTreeMap<_, _> = gone;
        for id in gone.into_values().flat_map(|together| together.starting) {
            let mono = self.world.clock.mono();
            let Some(slot) = self.slots.get_mut(&id).filter(|slot| slot.together) else {
                continue;
            };
            slot.together = false;
            if slot.has_actor() || slot.is_at_rest() {
                continue;
            }
            let held = slot.deaths.quarantined_until(mono);
            match held.filter(|_| slot.state == ChildState::Quarantined) {
                Some(until) => {
                    let epoch = slot.epoch;
                    let retry = move || RootMsg::Retry { id, epoch };
                    let _timer = me.send_after(until.saturating_sub(mono), retry);
                }
                None => self.spawn_child(me, &id).await,
            }
        }
    }

    /// Starts a child that was released from its quarantine or its delay, and the group that waits
    /// with it.
    pub(super) async fn release(&mut self, me: &ActorRef<RootMsg>, id: &ChildId) {
        let now = self.world.clock.now();
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        if slot.state == ChildState::Quarantined {
            slot.become_state(ChildState::Backoff, now);
            let event = NewEvent::new(EventType::AgentUnquarantined, id, slot.cause);
            self.world.store.note(vec![event]);
        }
        let waits = slot.together;
        let group = self.group_of(id).filter(|_| waits);
        match group.and_then(|name| Some((self.together.get_mut(&name)?, name.clone()))) {
            Some((together, name)) => {
                together.due = true;
                self.advance(me, &name).await;
            }
            None => self.spawn_child(me, id).await,
        }
    }

    /// The delay after the death has passed.
    pub(super) async fn group_due(&mut self, me: &ActorRef<RootMsg>, group: &str, epoch: u64) {
        if let Some(together) = self.together.get_mut(group)
            && together.epoch == epoch
        {
            together.due = true;
            self.advance(me, group).await;
        }
    }

    /// A member came up in its turn.
    pub(super) async fn up_together(&mut self, me: &ActorRef<RootMsg>, id: &ChildId) {
        let Some(group) = self.group_of(id) else {
            return;
        };
        if let Some(together) = self.together.get_mut(&group)
            && together.awaited.as_ref() == Some(id)
        {
            together.awaited = None;
            self.advance(me, &group).await;
        }
    }

    /// A child's session or actor ended: a restart that waited for it goes on without it when it is
    /// not to come back.
    pub(super) async fn go_on_together(&mut self, me: &ActorRef<RootMsg>, id: &ChildId) {
        let Some(group) = self.group_of(id) else {
            return;
        };
        let back = self.slots.get(id).is_some_and(|slot| !slot.is_at_rest());
        if let Some(together) = self.together.get_mut(&group)
            && !back
        {
            together.awaited.take_if(|awaited| awaited == id);
            self.advance(me, &group).await;
        }
    }

    async fn advance(&mut self, me: &ActorRef<RootMsg>, group: &str) {
        let mono = self.world.clock.mono();
        if self.stopping.is_some() || !self.stop_next(group) {
            return;
        }
        loop {
            let Some(together) = self.together.get_mut(group) else {
                return;
            };
            if !together.due || together.awaited.is_some() {
                return;
            }
            let Some(id) = together.starting.pop_front() else {
                self.together.remove(group);
                return;
            };
            // Somebody may have stopped, suspended or started it meanwhile.
            let Some(slot) = self.slots.get_mut(&id).filter(|slot| slot.together) else {
                continue;
            };
            if slot.state == ChildState::Quarantined
                && let Some(until) = slot.deaths.quarantined_until(mono)
            {
                // Nobody's death ends its quarantine: it and those after it go on waiting.
                together.starting.push_front(id);
                together.due = false;
                let (group, epoch) = (group.to_owned(), together.epoch);
                let due = move || RootMsg::GroupDue { group, epoch };
                let _timer = me.send_after(until.saturating_sub(mono), due);
                return;
            }
            slot.together = false;
            if slot.has_actor() || slot.is_at_rest() {
                continue;
            }
            if slot.state == ChildState::Quarantined {
                let event = NewEvent::new(EventType::AgentUnquarantined, &id, Cause::WindowPassed);
                self.world.store.note(vec![event]);
            }
            if slot.spec.restart == RestartType::Temporary {
                slot.become_state(ChildState::Stopped, self.world.clock.now());
                continue;
            }
            slot.cause = Cause::Group;
            self.spawn_child(me, &id).await;
            let slot = self.slots.get(&id);
            if slot.is_some_and(|slot| slot.state == ChildState::Blocked) {
                // It waits for somebody else, and nobody for it: perhaps that is who comes next.
                continue;
            }
            if let Some(together) = self.together.get_mut(group) {
                together.awaited = Some(id);
            }
            return;
        }
    }

    fn group_of(&self, id: &ChildId) -> Option<String> {
        let ChildId::Agent(name) = id else {
            return None;
        };
        let mut groups = self.world.city.groups.iter();
        let group = groups.find(|group| group.members.contains(name))?;
        Some(group.name.clone())
    }
}
