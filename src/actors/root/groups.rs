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
    /// Whose death it answers.
    culprit: ChildId,
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

impl Together {
    /// The member that the restart waits for.
    fn waits_for(&self) -> &ChildId {
        let ending = self.stopping.last();
        ending.or(self.awaited.as_ref()).unwrap_or(&self.culprit)
    }
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
            let Some(slot) = self.slots.get_mut(id) else {
                continue;
            };
            // One that died too often itself waits for its own time.
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

    /// Whether the death of the child concerns others.
    pub(super) fn concerns_others(&self, dead: &ChildId) -> bool {
        matches!(dead, ChildId::Agent(name) if self.affected(name).is_some())
    }

    /// Group and members that are restarted with it, when there is more than one.
    fn affected(&self, dead: &AgentName) -> Option<(Group, Vec<AgentName>)> {
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
        (affected.len() > 1).then(|| (group.clone(), affected.to_vec()))
    }

    /// Starts a child that need not wait any longer. One that its group waits for starts in its turn.
    pub(super) async fn start_now(&mut self, me: &ActorRef<RootMsg>, id: &ChildId) {
        let now = self.world.clock.now();
        if let Some(slot) = self.slots.get(id)
            && slot.state == ChildState::Quarantined
        {
            self.note(NewEvent::new(EventType::AgentUnquarantined, id, slot.cause));
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

    /// Whether the child waits for the restart of its group, and the group not for it.
    pub(super) fn waits_for_others(&self, id: &ChildId) -> bool {
        let together = self
            .group_of(id)
            .and_then(|group| self.together.get(&group));
        let waits = self.slots.get(id).is_some_and(|slot| slot.together);
        waits && together.is_some_and(|together| together.culprit != *id)
    }

    /// Groups that are not what they were when their restart began are not restarted any more:
    /// everybody starts alone.
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
        let ended = slot.ended(EventType::AgentStopped, Cause::Group);
        let waits = slot.together;
        self.note(ended);
        match self.group_of(id) {
            Some(group) if waits => self.advance(me, &group).await,
            // Its group was changed meanwhile.
            _ => self.spawn_child(me, id).await,
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
            // Nobody waits for who does not come back.
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

    /// Answers operators whose start waited for a whole patrol: for the restart of a group, which may wait for a session
    /// that cannot be seen or for a quarantine. The child starts all the same when it can.
    pub(super) fn refuse_starts(&mut self) {
        let waiting = self.slots.iter();
        let waiting = waiting.filter(|(_, slot)| !slot.for_wake.is_empty() && !slot.has_actor());
        let waiting: Vec<_> = waiting.map(|(id, _)| id.clone()).collect();
        let (now, patrol) = (
            self.world.clock.mono(),
            self.world.city.daemon.patrol_interval,
        );
        for id in waiting {
            let group = self.group_of(&id);
            let together = group.and_then(|group| self.together.get(&group));
            let why = together.map_or_else(
                || "it waits to be started again".to_owned(),
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
                answer(&mut slot.for_wake, &Err(why));
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
