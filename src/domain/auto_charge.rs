//! Automatic charging: its pauses, and the reasons why an open relic is not charged without a request.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ids::{RaiderId, RelicId, RigName};
use super::relic::{Relic, RelicStatus};

/// A pause of automatic charging.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pause {
    /// When it began.
    pub since: Timestamp,
    /// The caller that asked for it.
    pub by: String,
}

/// The pause that holds for a rig.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InForce {
    /// The pause.
    #[serde(flatten)]
    pub pause: Pause,
    /// Set when it is a pause of the whole city.
    pub city: bool,
}

/// The pauses in force: one of the city, which holds for each rig, and one per rig.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pauses {
    /// The pause of the city.
    #[serde(default)]
    city: Option<Pause>,
    /// The pauses of single rigs.
    #[serde(default)]
    rigs: BTreeMap<RigName, Pause>,
}

/// The refusal to resume one rig while the city is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CityIsPaused;

impl Pauses {
    /// Returns the pause that holds for a rig, if any: that of the city first, because it outlasts that of the rig.
    #[must_use]
    pub fn of(&self, rig: &RigName) -> Option<InForce> {
        let city = self.city.iter().map(|pause| (pause, true));
        let own = self.rigs.get(rig).map(|pause| (pause, false));
        let (pause, city) = city.chain(own).next()?;
        Some(InForce {
            pause: pause.clone(),
            city,
        })
    }

    /// Adds a pause of a rig, or of the city. Returns false when one is in force already, which stays.
    pub fn pause(&mut self, rig: Option<&RigName>, pause: Pause) -> bool {
        let is_paused = match rig {
            None => self.city.is_some(),
            Some(rig) => self.of(rig).is_some(),
        };
        if is_paused {
            return false;
        }
        match rig {
            None => self.city = Some(pause),
            Some(rig) => drop(self.rigs.insert(rig.clone(), pause)),
        }
        true
    }

    /// Ends the pause of a rig; without one all pauses. Returns false when there was none.
    ///
    /// # Errors
    /// [`CityIsPaused`]: one rig cannot be resumed then.
    pub fn resume(&mut self, rig: Option<&RigName>) -> Result<bool, CityIsPaused> {
        match rig {
            None => {
                let had = self.city.is_some() || !self.rigs.is_empty();
                *self = Self::default();
                Ok(had)
            }
            Some(_) if self.city.is_some() => Err(CityIsPaused),
            Some(rig) => Ok(self.rigs.remove(rig).is_some()),
        }
    }

    /// Forgets the pauses of rigs that are not configured, so that their number is bounded.
    pub fn keep(&mut self, rigs: &BTreeSet<RigName>) {
        self.rigs.retain(|rig, _| rigs.contains(rig));
    }
}

/// The facts about a relic and its rig.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// The relic.
    pub relic: &'a Relic,
    /// The dependencies that are not closed.
    pub open_deps: Vec<RelicId>,
    /// The raider of an earlier attempt whose sandbox is still kept.
    pub kept: Option<RaiderId>,
    /// Set when that raider declared no end of its work, and may continue it.
    pub goes_on: bool,
    /// Why the rig gets no new work, if it gets none.
    pub closed: Option<&'static str>,
    /// The pause in force.
    pub pause: Option<InForce>,
    /// Set when the relic is charged without a request as soon as it can be.
    pub automatic: bool,
}

/// A blocked or deferred relic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutOff {
    /// The state in a few words.
    is: String,
    /// The raider whose sandbox is still kept, and true where it may continue.
    kept: Option<(RaiderId, bool)>,
    /// Why it is not charged without a request once it is open.
    then: Option<Waits>,
}

/// A reason why a relic is not charged without a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waits {
    /// It is blocked or deferred.
    PutOff(Box<PutOff>),
    /// Relics that must be closed first, and the reason that holds after that.
    Deps(Vec<RelicId>, Option<Box<Waits>>),
    /// It is assigned to a person, agent or pool.
    Assigned(String),
    /// The sandbox of an earlier attempt is not removed yet.
    Kept(RaiderId),
    /// The rig gets no new work.
    Closed(&'static str),
    /// Automatic charging is paused.
    Paused(InForce),
    /// The rig does not charge automatically.
    OnRequest,
}

impl Waits {
    /// Returns the first reason; none for a relic that is hooked or closed, or that waits for a free slot, an account or a
    /// budget.
    #[must_use]
    pub fn of(facts: Facts<'_>) -> Option<Self> {
        let is = match (facts.relic.status, facts.relic.until) {
            (RelicStatus::Open, _) => return Self::of_open(facts),
            (RelicStatus::Blocked, _) => "blocked".to_owned(),
            (RelicStatus::Deferred, Some(until)) => format!("deferred until {until}"),
            (RelicStatus::Deferred, None) => "deferred".to_owned(),
            (RelicStatus::Hooked | RelicStatus::Closed, _) => return None,
        };
        let kept = facts.kept.clone().map(|raider| (raider, facts.goes_on));
        let then = Self::of_open(Facts {
            kept: None,
            ..facts
        });
        Some(Self::PutOff(Box::new(PutOff { is, kept, then })))
    }

    fn of_open(mut facts: Facts<'_>) -> Option<Self> {
        let deps = std::mem::take(&mut facts.open_deps);
        if !deps.is_empty() {
            return Some(Self::Deps(deps, Self::of_open(facts).map(Box::new)));
        }
        if let Some(assignee) = &facts.relic.assignee {
            return Some(Self::Assigned(assignee.clone()));
        }
        if let Some(raider) = facts.kept {
            return Some(Self::Kept(raider));
        }
        if let Some(why) = facts.closed {
            return Some(Self::Closed(why));
        }
        match (facts.automatic, facts.pause) {
            (false, _) => Some(Self::OnRequest),
            (true, Some(pause)) => Some(Self::Paused(pause)),
            (true, None) => None,
        }
    }

    /// Returns the reason in a few words.
    #[must_use]
    pub fn brief(&self) -> String {
        match self {
            Self::PutOff(relic) => relic.is.clone(),
            Self::Deps(deps, _) => format!("waits for {}", listed(deps)),
            Self::Assigned(assignee) => format!("assigned to {assignee}"),
            Self::Kept(raider) => format!("the sandbox of {raider} is kept"),
            Self::Closed(why) => (*why).to_owned(),
            Self::Paused(_) => "automatic charging is paused".to_owned(),
            Self::OnRequest => "auto_charge is off".to_owned(),
        }
    }

    /// Returns the reason in a sentence, with what a person can do.
    #[must_use]
    pub fn text(&self, relic: &RelicId, rig: &RigName) -> String {
        let charge = format!("`hd charge {relic} {rig}` charges it now");
        match self {
            Self::PutOff(state) => state.text(relic, rig),
            Self::Deps(deps, then) => {
                let then = then_text(then.as_deref(), relic, rig);
                let remove = deps.iter().take(1).map(|dep| {
                    format!("; `hd relic dep remove {relic} {dep}` removes that dependency")
                });
                format!(
                    "{relic} {}, which must be closed first; then {then}{}",
                    self.brief(),
                    remove.collect::<String>(),
                )
            }
            Self::Assigned(_) => format!(
                "{relic} is {}, so it is not charged automatically; `hd relic edit {relic} --assignee ''` changes that",
                self.brief()
            ),
            Self::Kept(raider) => format!(
                "{relic} is not charged: the sandbox of {raider}, of the attempt before, is not removed yet; \
                 `hd raider nuke {raider} --salvage` saves what it holds and frees the relic"
            ),
            Self::Closed(why) => format!("{relic} is not charged: {why}"),
            Self::Paused(InForce { pause, city }) => {
                let resume = match city {
                    true => "hd charge resume".to_owned(),
                    false => format!("hd charge resume --rig {rig}"),
                };
                format!(
                    "{relic} is not charged automatically: {} paused automatic charging at {}; \
                     `{resume}` resumes it; {charge}",
                    pause.by, pause.since
                )
            }
            Self::OnRequest => format!(
                "{relic} is not charged automatically, because auto_charge of rig {rig} is off; {charge}"
            ),
        }
    }
}

impl PutOff {
    fn text(&self, relic: &RelicId, rig: &RigName) -> String {
        let is = &self.is;
        let reopen = format!("`hd relic reopen {relic}`");
        let then = then_text(self.then.as_ref(), relic, rig);
        let abandon = format!("`hd relic close {relic}` abandons it");
        let Some((raider, goes_on)) = &self.kept else {
            return format!("{relic} is {is}; {reopen} opens it again, and then {then}; {abandon}");
        };
        let fresh = format!(
            "`hd raider nuke {raider} --salvage` saves the work in its sandbox, and then {reopen} opens it for a fresh raider"
        );
        match goes_on {
            true => format!("{relic} is {is}; {reopen} has {raider} try again; {fresh}; {abandon}"),
            false => format!("{relic} is {is}; {fresh}; {abandon}"),
        }
    }
}

/// Returns what becomes of a relic once the obstacle before this one is gone, as the end of a sentence.
fn then_text(then: Option<&Waits>, relic: &RelicId, rig: &RigName) -> String {
    match then {
        None => "it is charged to the next free slot".to_owned(),
        Some(Waits::OnRequest | Waits::Paused(_)) => {
            format!("`hd charge {relic} {rig}` gives it to a raider")
        }
        Some(Waits::Assigned(assignee)) => format!("it is left to {assignee}, its assignee"),
        Some(Waits::Deps(deps, _)) => format!("it waits for {}", listed(deps)),
        Some(other @ (Waits::PutOff(_) | Waits::Kept(_) | Waits::Closed(_))) => {
            format!("it waits: {}", other.brief())
        }
    }
}

fn listed(ids: &[RelicId]) -> String {
    let ids: Vec<_> = ids.iter().map(RelicId::as_str).collect();
    ids.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::SlotName;

    fn rig(name: &str) -> RigName {
        RigName::new(name).unwrap()
    }

    fn pause(by: &str) -> Pause {
        Pause {
            since: Timestamp::UNIX_EPOCH,
            by: by.to_owned(),
        }
    }

    fn of(pauses: &Pauses, name: &str) -> Option<(String, bool)> {
        let found = pauses.of(&rig(name))?;
        Some((found.pause.by, found.city))
    }

    #[test]
    fn pause_of_the_city_holds_for_each_rig_and_ends_with_all_others() {
        let mut pauses = Pauses::default();
        assert!(pauses.pause(Some(&rig("a")), pause("anna")));
        assert!(!pauses.pause(Some(&rig("a")), pause("ben")), "it stays");
        assert_eq!(of(&pauses, "a"), Some(("anna".into(), false)));
        assert_eq!(of(&pauses, "b"), None);
        assert!(pauses.pause(None, pause("cleo")));
        assert!(!pauses.pause(Some(&rig("b")), pause("ben")));
        assert_eq!(of(&pauses, "a"), Some(("cleo".into(), true)));
        assert_eq!(of(&pauses, "b"), Some(("cleo".into(), true)));
        assert_eq!(pauses.resume(Some(&rig("a"))), Err(CityIsPaused));
        assert_eq!(pauses.resume(None), Ok(true));
        assert_eq!(pauses, Pauses::default());
        assert_eq!(pauses.resume(None), Ok(false));
        assert_eq!(pauses.resume(Some(&rig("a"))), Ok(false));
    }

    #[test]
    fn pauses_of_rigs_that_are_not_configured_are_forgotten() {
        let mut pauses = Pauses::default();
        for name in ["a", "b"] {
            pauses.pause(Some(&rig(name)), pause("anna"));
        }
        pauses.keep(&BTreeSet::from([rig("b")]));
        assert_eq!((of(&pauses, "a"), of(&pauses, "b").is_some()), (None, true));
    }

    /// A row: dependency, assignee, kept sandbox, closed rig, pause, automatic; and the reason in a few words.
    #[test]
    fn first_reason_of_a_wait_is_told() {
        let dep = RelicId::new("gt-1").unwrap();
        let kept = RaiderId::new(rig("a"), SlotName::new("Toast").unwrap());
        let rows = [
            ("dakcp+", Some("waits for gt-1")),
            ("-akcp+", Some("assigned to anna")),
            ("--kcp+", Some("the sandbox of a/raiders/Toast is kept")),
            ("---cp+", Some("the rig is suspended")),
            ("----p+", Some("automatic charging is paused")),
            ("----p-", Some("auto_charge is off")),
            ("------", Some("auto_charge is off")),
            ("-----+", None),
        ];
        for (row, expected) in rows {
            let is = |sign: char| row.contains(sign);
            let mut relic = crate::testing::records::relic("gt-2");
            relic.assignee = is('a').then(|| "anna".to_owned());
            let in_force = InForce {
                pause: pause("anna"),
                city: false,
            };
            let mut facts = Facts {
                relic: &relic,
                open_deps: is('d').then(|| dep.clone()).into_iter().collect(),
                kept: is('k').then(|| kept.clone()),
                goes_on: false,
                closed: is('c').then_some("the rig is suspended"),
                pause: is('p').then_some(in_force),
                automatic: is('+'),
            };
            let why = Waits::of(facts.clone());
            assert_eq!(why.map(|why| why.brief()).as_deref(), expected);
            let mut hooked = relic.clone();
            hooked.status = RelicStatus::Hooked;
            facts.relic = &hooked;
            assert_eq!(Waits::of(facts), None, "a hooked relic does not wait");
        }
    }
    fn told(facts: Facts<'_>) -> String {
        let text = Waits::of(facts.clone()).map(|why| why.text(&facts.relic.id, &rig("a")));
        text.unwrap_or_default()
    }

    fn put_off(relic: &Relic) -> Facts<'_> {
        Facts {
            relic,
            open_deps: Vec::new(),
            kept: None,
            goes_on: false,
            closed: None,
            pause: None,
            automatic: false,
        }
    }

    #[test]
    fn blocked_relic_is_told_with_the_commands_that_work() {
        let mut relic = crate::testing::records::relic("gt-2");
        relic.status = RelicStatus::Blocked;
        let reopen = "`hd relic reopen gt-2` opens it again, and then";
        let close = "`hd relic close gt-2` abandons it";
        let facts = put_off(&relic);
        let text = told(facts.clone());
        let charge = "`hd charge gt-2 a` gives it to a raider";
        assert_eq!(text, format!("gt-2 is blocked; {reopen} {charge}; {close}"));
        let automatic = told(Facts {
            automatic: true,
            ..facts.clone()
        });
        let next = "it is charged to the next free slot";
        assert_eq!(
            automatic,
            format!("gt-2 is blocked; {reopen} {next}; {close}")
        );
        let raider = RaiderId::new(rig("a"), SlotName::new("Toast").unwrap());
        for goes_on in [true, false] {
            let text = told(Facts {
                kept: Some(raider.clone()),
                goes_on,
                ..facts.clone()
            });
            assert!(
                text.contains("`hd raider nuke a/raiders/Toast --salvage`"),
                "{text}"
            );
            let again = "`hd relic reopen gt-2` has a/raiders/Toast try again";
            assert_eq!(text.contains(again), goes_on, "{text}");
            assert!(!text.contains("hd charge"), "{text}");
        }
    }

    #[test]
    fn deferred_relic_is_told_with_its_time() {
        let mut relic = crate::testing::records::relic("gt-2");
        relic.status = RelicStatus::Deferred;
        relic.until = Some(Timestamp::UNIX_EPOCH);
        let text = told(put_off(&relic));
        assert!(
            text.starts_with("gt-2 is deferred until 1970-01-01T00:00:00Z; `hd relic reopen gt-2`"),
            "{text}"
        );
    }

    #[test]
    fn relic_that_waits_for_another_is_charged_after_that() {
        let relic = crate::testing::records::relic("gt-2");
        let mut facts = put_off(&relic);
        facts.open_deps = vec![RelicId::new("gt-1").unwrap()];
        let text = told(facts);
        assert_eq!(
            text,
            "gt-2 waits for gt-1, which must be closed first; then `hd charge gt-2 a` gives it to a raider; \
             `hd relic dep remove gt-2 gt-1` removes that dependency"
        );
    }
}
