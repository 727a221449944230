//! Groups: restart of the other members when a member dies (OTP's one_for_all and rest_for_one).
//!
//! ```text
//!  a member died ─► affected members end, the last first ─► its delay has passed ─► they start, the
//!                                                                         first first, each when
//!  another dies meanwhile: counted, and the restart begins again          the one before is up
//! ```
//!
//! Only the member that died has its death counted. While it is quarantined the others wait with it: they are not meant
//! to run without it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use ractor::ActorRef;

use super::slot::{Desired, answer};
use super::{Root, RootMsg};
use crate::actors::mail::ChildState;
use crate::actors::session::child::ChildMsg;
use crate::domain::cause::Cause;
use crate::domain::city::{Group, RestartType};
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{AgentName, ChildId};

/// A restart of a group that is under way.
pub(super) struct Together {
    /// The group as it was when it began.
    group: Group,
    /// The member whose death started this restart.
    culprit: ChildId,
    /// Members still to be ended; the last one ends first.
    stopping: Vec<ChildId>,
    /// Members still to be started; the first one starts first.
    starting: VecDeque<ChildId>,
    /// The member being started: the next one waits for it.
    awaited: Option<ChildId>,
    /// Set when the restart delay of the death has passed.
    due: bool,
    epoch: u64,
}

impl Together {
    /// Returns the member that the restart waits for.
    fn waits_for(&self) -> &ChildId {
        let ending = self.stopping.last();
        ending.or(self.awaited.as_ref()).unwrap_or(&self.culprit)
    }
}

impl Root {
    /// Restarts the group of a member that died, if its strategy concerns others. Returns false otherwise: then the
    /// child restarts alone.
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
        // A fresh epoch: timers of earlier restarts become void.
        self.group_epoch += 1;
        let epoch = self.group_epoch;
        let members: Vec<_> = affected.into_iter().map(ChildId::Agent).collect();
        for id in &members {
            let Some(slot) = self.slots.get_mut(id) else {
                continue;
            };
            // Another member that is quarantined for its own deaths waits for its own release.
            let alone = id != dead && slot.state == ChildState::Quarantined;
            slot.together = !alone && !slot.is_at_rest();
            if alone {
                self.release_in_time(me, id);
            }
        }
        let takes_part = |id: &&ChildId| self.slots.get(*id).is_some_and(|slot| slot.together);
        let starting: VecDeque<_> = members.iter().filter(takes_part).cloned().collect();
        let stopping = starting.iter().filter(|id| *id != dead).cloned().collect();
        let name = group.name.clone();
        let together = Together {
            group,
            culprit: dead.clone(),
            stopping,
            starting,
            awaited: None,
            due: false,
            epoch,
        };
        self.together.insert(name.clone(), together);
        let group = name.clone();
        let _timer = me.send_after(delay, move || RootMsg::GroupDue { group, epoch });
        self.stop_next(&name);
        true
    }

    /// Returns true when the death of the child restarts other members, too.
    pub(super) fn concerns_others(&self, dead: &ChildId) -> bool {
        matches!(dead, ChildId::Agent(name) if self.affected(name).is_some())
    }

    /// Returns the group and the members that restart with `dead`, when there is more than one.
    fn affected(&self, dead: &AgentName) -> Option<(Group, Vec<AgentName>)> {
        let mut groups = self.world.city.groups.iter();
        let group = groups.find(|group| group.members.contains(dead))?;
        let mut affected = group.affected(dead);
        if let Some(under_way) = self.together.get(&group.name) {
            // An earlier death that is still being handled may concern more members.
            let first = under_way.starting.front().or(under_way.awaited.as_ref());
            let earlier = group.members.iter().position(|member| {
                first.is_some_and(|first| *first == ChildId::Agent(member.clone()))
            });
            let more = &group.members[earlier.unwrap_or(group.members.len())..];
            if more.len() > affected.len() {
                affected = more;
            }
        }
        (affected.len() > 1).then(|| (group.clone(), affected.to_vec()))
    }

    /// Starts a child whose wait is over. A member that its group waits for starts in its turn.
    pub(super) async fn start_now(&mut self, me: &ActorRef<RootMsg>, id: &ChildId) {
        let now = self.world.clock.now();
        if let Some(slot) = self.slots.get(id)
            && slot.state == ChildState::Quarantined
        {
            self.journal(NewEvent::new(EventType::AgentUnquarantined, id, slot.cause));
        }
        let waiting = |together: &&mut Together| together.culprit == *id;
        let group = self.group_of(id);
        let together = group
            .as_ref()
            .and_then(|group| self.together.get_mut(group));
        let slot = self.slots.get_mut(id).filter(|slot| slot.together);
        match (group.as_ref(), together.filter(waiting), slot) {
            (Some(group), Some(together), Some(slot)) => {
                together.due = true;
                slot.become_state(ChildState::Backoff, now);
                self.advance(me, group).await;
            }
            _ => self.spawn_child(me, id).await,
        }
    }

    /// Returns true when the child waits for the restart of its group, and is not the member whose death caused it.
    pub(super) fn waits_for_others(&self, id: &ChildId) -> bool {
        let together = self
            .group_of(id)
            .and_then(|group| self.together.get(&group));
        let waits = self.slots.get(id).is_some_and(|slot| slot.together);
        waits && together.is_some_and(|together| together.culprit != *id)
    }

    /// Cancels the restarts of groups whose configuration changed since they began: the members start alone.
    pub(super) async fn dissolve(&mut self, me: &ActorRef<RootMsg>) {
        let (kept, gone): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.together)
            .into_iter()
            .partition(|(_, together)| self.world.city.groups.contains(&together.group));
        self.together = kept;
        for id in gone.into_values().flat_map(|gone| gone.starting) {
            let Some(slot) = self.slots.get_mut(&id).filter(|slot| slot.together) else {
                continue;
            };
            slot.together = false;
            if slot.state == ChildState::Quarantined {
                self.release_in_time(me, &id);
            } else if !slot.has_actor() && !slot.is_at_rest() {
                self.spawn_child(me, &id).await;
            }
        }
    }

    /// Ends the next member in stop order; returns true when none is left.
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
            // A member that was stopped or suspended meanwhile takes no part any more.
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
                slot.send(ChildMsg::End(slot.spec.grace));
            }
            return false;
        }
    }

    /// Handles the end of a member's session that was ended for the group's restart.
    pub(super) async fn ended_together(&mut self, me: &ActorRef<RootMsg>, id: &ChildId) {
        let now = self.world.clock.now();
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        slot.desired = Desired::Up;
        slot.become_state(ChildState::Backoff, now);
        let ended = slot.ended(EventType::AgentStopped, Cause::Group);
        let waits = slot.together;
        self.journal(ended);
        match self.group_of(id) {
            Some(group) if waits => self.advance(me, &group).await,
            // The group was changed meanwhile.
            _ => self.spawn_child(me, id).await,
        }
    }

    /// Continues when the restart delay of the death has passed.
    pub(super) async fn group_due(&mut self, me: &ActorRef<RootMsg>, group: &str, epoch: u64) {
        if let Some(together) = self.together.get_mut(group)
            && together.epoch == epoch
        {
            together.due = true;
            self.advance(me, group).await;
        }
    }

    /// Continues when a member came up in its turn.
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

    /// Continues a restart that waited for a child whose session or actor ended, unless the child is to come back.
    pub(super) async fn go_on_together(&mut self, me: &ActorRef<RootMsg>, id: &ChildId) {
        let Some(group) = self.group_of(id) else {
            return;
        };
        let back = self.slots.get(id).is_some_and(|slot| !slot.is_at_rest());
        if let Some(together) = self.together.get_mut(&group)
            && !back
        {
            together.awaited.take_if(|awaited| awaited == id);
            // A member that does not come back is not waited for.
            together.due |= together.culprit == *id;
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
            // The member may have been stopped, suspended or started meanwhile.
            let Some(slot) = self.slots.get_mut(&id).filter(|slot| slot.together) else {
                continue;
            };
            if slot.state == ChildState::Quarantined
                && let Some(until) = slot.deaths.quarantined_until(mono)
            {
                // A group restart never ends a member's quarantine: the restart waits until it expires.
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
                self.world.store.journal(vec![event]);
            }
            if slot.spec.restart == RestartType::Temporary {
                slot.become_state(ChildState::Stopped, self.world.clock.now());
                continue;
            }
            slot.cause = Cause::Group;
            self.spawn_child(me, &id).await;
            let slot = self.slots.get(&id);
            if slot.is_some_and(|slot| slot.state == ChildState::Blocked) {
                // The member waits for a dependency, which may be a later member of this group: go on with the next.
                continue;
            }
            if let Some(together) = self.together.get_mut(group) {
                together.awaited = Some(id);
            }
            return;
        }
    }

    /// Answers operators whose start has waited for a whole patrol interval: for a group's restart, which may wait for
    /// a session whose state is unknown or for a quarantine. The child still starts when it can.
    pub(super) fn refuse_starts(&mut self) {
        let waiting = self.slots.iter();
        let waiting =
            waiting.filter(|(_, slot)| !slot.waiting_wake.is_empty() && !slot.has_actor());
        let waiting: Vec<_> = waiting.map(|(id, _)| id.clone()).collect();
        let (now, patrol) = (
            self.world.clock.mono(),
            self.world.city.daemon.patrol_interval,
        );
        for id in waiting {
            let group = self.group_of(&id);
            let together = group.and_then(|group| self.together.get(&group));
            let why = together.map_or_else(
                || "it waits for its restart".to_owned(),
                |together| {
                    format!(
                        "it starts with its group, which waits for {}",
                        together.waits_for()
                    )
                },
            );
            let Some(slot) = self.slots.get_mut(&id) else {
                continue;
            };
            if now.saturating_sub(*slot.wake_waited.get_or_insert(now)) >= patrol {
                slot.wake_waited = None;
                answer(&mut slot.waiting_wake, &Err(why));
            }
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
