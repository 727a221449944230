//! Groups: restart of the other members when a member dies (OTP's one_for_all and rest_for_one).
//!
//! ```text
//!  a member died ─► affected members end, the last first ─► its delay has passed ─► they start, the
//!                                                                         first first, each when
//!  another dies meanwhile: counted, and the restart begins again          the one before is up, or
//!                                                                         cannot start
//! ```
//!
//! Only the member that died has its death counted. While it is quarantined the others wait with it: they are not meant
//! to run without it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use ractor::ActorRef;

use super::child_record::{ChildRecord, answer};
use super::{Root, RootMsg};
use crate::actors::mail::ChildState;
use crate::domain::child::{Event, Token, Turn};
use crate::domain::city::Group;
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
    /// The mark of its timers.
    token: Token,
}

impl Together {
    /// Returns the member that the restart waits for.
    fn waits_for(&self) -> &ChildId {
        let ending = self.stopping.last();
        ending.or(self.awaited.as_ref()).unwrap_or(&self.culprit)
    }
}

impl Root {
    /// Restarts the group of a member that died and whose death concerns others.
    pub(super) async fn restart_together(
        &mut self,
        me: &ActorRef<RootMsg>,
        dead: &ChildId,
        delay: Duration,
    ) {
        let ChildId::Agent(name) = dead else {
            return;
        };
        let Some((group, affected)) = self.affected(name) else {
            return;
        };
        // Timers of earlier restarts become void.
        let token = self.token();
        let members: Vec<_> = affected.into_iter().map(ChildId::Agent).collect();
        for id in &members {
            let Some(record) = self.children.get_mut(id) else {
                continue;
            };
            // Another member that is quarantined for its own deaths waits for its own release.
            let alone = id != dead && record.child.state() == ChildState::Quarantined;
            record.together = !alone && !record.child.is_at_rest();
            if alone {
                self.step(me, id, Event::Alone).await;
            }
        }
        let takes_part =
            |id: &&ChildId| self.children.get(*id).is_some_and(|record| record.together);
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
            token,
        };
        self.together.insert(name.clone(), together);
        let group = name.clone();
        let _timer = me.send_after(delay, move || RootMsg::GroupDue { group, token });
        self.stop_next(me, &name).await;
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

    /// Ends the delay of the restart that the child's death began.
    pub(super) async fn end_group_delay(&mut self, me: &ActorRef<RootMsg>, id: &ChildId) {
        let Some(group) = self.group_of(id) else {
            return;
        };
        if let Some(together) = self.together.get_mut(&group) {
            together.due = true;
            self.advance(me, &group).await;
        }
    }

    /// Returns the child's part in the restart of its group.
    pub(super) fn turn_of(&self, id: &ChildId) -> Turn {
        let record = self.children.get(id).filter(|record| record.together);
        let group = record.and_then(|_| self.group_of(id));
        match group.and_then(|group| self.together.get(&group)) {
            Some(together) if together.culprit == *id => Turn::Culprit,
            Some(_) => Turn::Member,
            None => Turn::None,
        }
    }

    /// Cancels the restarts of groups whose configuration changed since they began: the members start alone.
    pub(super) async fn dissolve(&mut self, me: &ActorRef<RootMsg>) {
        let (kept, gone): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.together)
            .into_iter()
            .partition(|(_, together)| self.world.city.groups.contains(&together.group));
        self.together = kept;
        for id in gone.into_values().flat_map(|gone| gone.starting) {
            let Some(record) = self.children.get_mut(&id).filter(|record| record.together) else {
                continue;
            };
            record.together = false;
            self.step(me, &id, Event::Alone).await;
        }
    }

    /// Ends the next member in stop order; returns true when none is left.
    async fn stop_next(&mut self, me: &ActorRef<RootMsg>, group: &str) -> bool {
        loop {
            let Some(together) = self.together.get_mut(group) else {
                return false;
            };
            let Some(id) = together.stopping.last().cloned() else {
                return true;
            };
            let record = self.children.get(&id);
            // A member that was stopped or suspended meanwhile takes no part any more.
            let takes_part =
                record.is_some_and(|record| record.together && !record.child.is_at_rest());
            if takes_part {
                self.step(me, &id, Event::AwaitTurn).await;
                if self.children.get(&id).is_some_and(ChildRecord::has_actor) {
                    return false;
                }
            }
            if let Some(together) = self.together.get_mut(group) {
                together.stopping.pop();
            }
        }
    }

    /// Continues when the restart delay of the death has passed.
    pub(super) async fn group_due(&mut self, me: &ActorRef<RootMsg>, group: &str, token: Token) {
        if let Some(together) = self.together.get_mut(group)
            && together.token == token
        {
            together.due = true;
            self.advance(me, group).await;
        }
    }

    /// Continues a restart that waits for this child no longer: it came up in its turn, or has no session and is not
    /// about to start.
    pub(super) async fn go_on_together(&mut self, me: &ActorRef<RootMsg>, id: &ChildId) {
        use ChildState::{Backoff, Ending, Finished, Starting, Stopped};
        let Some(group) = self.group_of(id) else {
            return;
        };
        let state = self.children.get(id).map(|record| record.child.state());
        let Some(together) = self.together.get_mut(&group) else {
            return;
        };
        let comes = matches!(state, Some(Backoff | Ending | Starting));
        let is_gone = matches!(state, None | Some(Finished | Stopped));
        let was_awaited = (together.awaited).take_if(|awaited| awaited == id && !comes);
        together.due |= is_gone && together.culprit == *id;
        if was_awaited.is_some() || is_gone {
            self.advance(me, &group).await;
        }
    }

    pub(super) async fn advance(&mut self, me: &ActorRef<RootMsg>, group: &str) {
        let mono = self.world.clock.mono();
        if self.stopping.is_some() || !self.stop_next(me, group).await {
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
            let Some(record) = self.children.get_mut(&id).filter(|record| record.together) else {
                continue;
            };
            if record.child.state() == ChildState::Quarantined
                && let Some(until) = record.child.deaths().quarantined_until(mono)
            {
                // A group restart never ends a member's quarantine: the restart waits until it expires.
                together.starting.push_front(id);
                together.due = false;
                let (group, token) = (group.to_owned(), together.token);
                let due = move || RootMsg::GroupDue { group, token };
                let _timer = me.send_after(until.saturating_sub(mono), due);
                return;
            }
            record.together = false;
            if record.has_actor() || record.child.is_at_rest() {
                continue;
            }
            together.awaited = Some(id.clone());
            // This goes on if the member does not start: a temporary one rests, another one is parked or waits for a
            // dependency, which may be a later member of this group.
            return self.step(me, &id, Event::Turn).await;
        }
    }

    /// Answers operators whose start has waited for a whole patrol interval: for a group's restart, which may wait for
    /// a session whose state is unknown or for a quarantine. The child still starts when it can.
    pub(super) fn refuse_starts(&mut self) {
        let waiting = self.children.iter();
        let waiting =
            waiting.filter(|(_, record)| !record.waiting_wake.is_empty() && !record.has_actor());
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
            let Some(record) = self.children.get_mut(&id) else {
                continue;
            };
            if now.saturating_sub(*record.wake_waited.get_or_insert(now)) >= patrol {
                record.wake_waited = None;
                answer(&mut record.waiting_wake, &Err(why));
            }
        }
    }

    pub(super) fn group_of(&self, id: &ChildId) -> Option<String> {
        let ChildId::Agent(name) = id else {
            return None;
        };
        let mut groups = self.world.city.groups.iter();
        let group = groups.find(|group| group.members.contains(name))?;
        Some(group.name.clone())
    }
}
