//! The acts of the storm: edits of the configuration, accidents, persons, time.

use crate::actors::mail::RootMail;
use std::time::Duration;

use proptest::prelude::{Strategy as Generator, *};

use super::model::{CHECK, Model, NAMES, SLOTS};
use crate::actors::ask;
use crate::actors::mail::DispatcherMsg;
use crate::actors::mail::StopMode;
use crate::actors::mail::WitnessMsg;
use crate::actors::records::operator_orders;
use crate::actors::session::child::ChildMsg;
use crate::domain::cause::Cause;
use crate::domain::city::{RestartType, Strategy};
use crate::domain::ids::{ChildId, SessionId};
use crate::domain::restart::History;
use crate::ports::sessions::{Sessions, StartError};
use crate::testing::world::{TestCity, agent, raider};

/// A single act. An agent is named by its index, a session by its index among the running ones.
#[derive(Debug, Clone)]
pub(super) enum Act {
    There(usize, bool),
    Command(usize, u8),
    Env(usize, u8),
    Type(usize, RestartType),
    Idle(usize, bool),
    Grace(usize, u64),
    Needs(usize, u8),
    Off(usize, bool),
    Pool(usize, Option<(u32, u32, bool)>),
    Group(Option<(Strategy, u8)>),
    CityOff(bool),
    RigOff(bool),
    RigGone(bool),
    History(History),
    /// The answer of the pools' check.
    Answer(Option<u32>),
    Crash(usize),
    Exit(usize),
    Lose(usize),
    Unheard(usize),
    /// The next starts of this agent fail.
    Refuse(usize, usize),
    Hide(usize),
    Blind,
    /// Everything can be observed and started again, and no person is attached.
    Clear,
    Attach(usize, bool),
    /// The session was idle for a long time.
    Doze(usize),
    KillChildren,
    KillWitness,
    KillDispatcher,
    Stop(usize),
    Start(usize),
    Handoff(usize),
    Suspend(usize, bool),
    SuspendRaider(usize, bool),
    Charge,
    Nuke(usize),
    Pass(u64),
    /// Another version of the supervisor would have stored other texts.
    Reword,
    /// A new supervisor; the last one was killed, or asked to stop.
    Restart(Option<StopMode>),
}

pub(super) fn act() -> impl Generator<Value = Act> {
    let who = 0usize..NAMES.len();
    let any_session = 0usize..8;
    let of_three = 0u8..3;
    prop_oneof![
        edit(),
        prop_oneof![
            4 => any_session.clone().prop_map(Act::Crash),
            2 => any_session.clone().prop_map(Act::Exit),
            2 => any_session.clone().prop_map(Act::Lose),
            1 => any_session.clone().prop_map(Act::Unheard),
            2 => (who.clone(), 1usize..4).prop_map(|(who, times)| Act::Refuse(who, times)),
            1 => any_session.clone().prop_map(Act::Hide),
            1 => Just(Act::Blind),
            2 => Just(Act::Clear),
            1 => (any_session.clone(), any::<bool>()).prop_map(|(who, on)| Act::Attach(who, on)),
            1 => any_session.clone().prop_map(Act::Doze),
            1 => Just(Act::KillChildren),
            1 => of_three.prop_map(|n| if n > 0 { Act::KillWitness } else { Act::KillDispatcher }),
        ],
        prop_oneof![
            2 => who.clone().prop_map(Act::Stop),
            3 => who.clone().prop_map(Act::Start),
            2 => any_session.prop_map(Act::Handoff),
            2 => (who, seldom()).prop_map(|(who, on)| Act::Suspend(who, on)),
            1 => (0..SLOTS.len(), seldom()).prop_map(|(who, on)| Act::SuspendRaider(who, on)),
            2 => Just(Act::Charge),
            1 => (0..SLOTS.len()).prop_map(Act::Nuke),
        ],
        prop_oneof![
            20 => (0u64..90).prop_map(Act::Pass),
            1 => Just(Act::Reword),
            1 => Just(Act::Restart(None)),
            1 => prop_oneof![
                Just(StopMode::Graceful),
                Just(StopMode::Now),
                Just(StopMode::KeepSessions)
            ]
            .prop_map(|mode| Act::Restart(Some(mode))),
        ],
    ]
}

pub(super) fn edit() -> impl Generator<Value = Act> {
    let who = 0usize..NAMES.len();
    let which = prop_oneof![
        4 => Just(RestartType::Permanent),
        1 => Just(RestartType::Transient),
        1 => Just(RestartType::Temporary),
    ];
    let strategy = prop_oneof![
        Just(Strategy::OneForOne),
        Just(Strategy::OneForAll),
        Just(Strategy::RestForOne)
    ];
    let size =
        (0u32..3, 0u32..3, any::<bool>()).prop_map(|(min, more, asks)| (min, min + more, asks));
    prop_oneof![
        3 => (who.clone(), seldom()).prop_map(|(who, gone)| Act::There(who, !gone)),
        2 => (who.clone(), 0u8..3).prop_map(|(who, command)| Act::Command(who, command)),
        1 => (who.clone(), 0u8..3).prop_map(|(who, env)| Act::Env(who, env)),
        2 => (who.clone(), which).prop_map(|(who, which)| Act::Type(who, which)),
        1 => (who.clone(), any::<bool>()).prop_map(|(who, idle)| Act::Idle(who, idle)),
        1 => (who.clone(), 0u64..9).prop_map(|(who, grace)| Act::Grace(who, grace)),
        2 => (who.clone(), 0u8..8).prop_map(|(who, needs)| Act::Needs(who, needs)),
        2 => (who.clone(), seldom()).prop_map(|(who, off)| Act::Off(who, off)),
        2 => (who, proptest::option::of(size)).prop_map(|(who, pool)| Act::Pool(who, pool)),
        2 => proptest::option::weighted(0.8, (strategy, 0u8..16)).prop_map(Act::Group),
        1 => seldom().prop_map(Act::CityOff),
        1 => seldom().prop_map(Act::RigOff),
        1 => seldom().prop_map(Act::RigGone),
        1 => any::<bool>().prop_map(|kept| {
            Act::History(if kept { History::Persistent } else { History::Memory })
        }),
        2 => proptest::option::of(0u32..5).prop_map(Act::Answer),
    ]
}

/// Weighted, because a suspended object asks for little: mostly it is resumed.
fn seldom() -> impl Generator<Value = bool> {
    proptest::bool::weighted(0.25)
}

/// Returns the session of this index.
fn pick(city: &TestCity, which: usize) -> Option<SessionId> {
    let running = city.parts.sessions.running();
    let place = which.checked_rem(running.len())?;
    running.get(place).cloned()
}

impl Act {
    /// Changes the configuration; returns false when it is no such act.
    pub(super) fn edits(&self, model: &mut Model) -> bool {
        match *self {
            Self::There(who, there) => model.agents[who].there = there,
            Self::Command(who, command) => model.agents[who].command = command,
            Self::Env(who, env) => model.agents[who].env = env,
            Self::Type(who, restart) if model.agents[who].pool.is_none() => {
                model.agents[who].restart = restart;
            }
            Self::Idle(who, idle) => model.agents[who].idle = idle,
            Self::Grace(who, grace) => model.agents[who].grace = grace,
            Self::Needs(who, needs) => model.agents[who].needs = needs,
            Self::Off(who, off) => model.agents[who].suspended = off,
            Self::Pool(who, pool) => {
                model.agents[who].pool = pool;
                model.agents[who].restart = RestartType::Permanent;
            }
            Self::Group(group) => model.group = group,
            Self::CityOff(off) => model.city_suspended = off,
            Self::RigOff(off) => model.rig_suspended = off,
            Self::RigGone(gone) => model.rig_draining = gone,
            Self::History(history) => model.history = history,
            _ => return false,
        }
        true
    }

    /// Performs the act.
    pub(super) async fn befall(&self, city: TestCity, model: &mut Model) -> TestCity {
        if self.edits(model) {
            city.reload(|city| model.configure(city)).await;
            return city;
        }
        if let Self::Reword = self {
            city.reword().await;
            return city;
        }
        if let Self::Restart(how) = self {
            return restart(city, model, *how).await;
        }
        if !self.breaks(&city, model) {
            self.person(&city, model).await;
        }
        city
    }

    /// Causes an accident; returns false when it is none.
    fn breaks(&self, city: &TestCity, model: &mut Model) -> bool {
        let sessions = &city.parts.sessions;
        let with = |which: usize, act: &dyn Fn(&SessionId)| {
            if let Some(session) = pick(city, which) {
                act(&session);
            }
        };
        match *self {
            Self::Answer(answer) => {
                model.answer = answer;
                let code = i32::from(answer.is_none());
                city.parts.runner.let_go(CHECK, Duration::ZERO, code);
                let text = answer.unwrap_or_default().to_string();
                city.parts.runner.set_output(CHECK, &text);
            }
            Self::Crash(which) => with(which, &|id| sessions.crash(id, 9)),
            Self::Exit(which) => with(which, &|id| sessions.exit(id, 0)),
            Self::Lose(which) => with(which, &|id| sessions.lose(id, "gone")),
            Self::Unheard(which) => with(which, &|id| sessions.exit_unheard(id, 1)),
            Self::Hide(which) => with(which, &|id| sessions.hide(id, Some("fog"))),
            Self::Attach(which, on) => with(which, &|id| sessions.set_attached(id, on)),
            Self::Doze(which) => with(which, &|id| {
                let last = "2020-01-01T00:00:00Z".parse().unwrap();
                sessions.set_last_activity(id, Some(last));
            }),
            Self::Refuse(who, times) => {
                for _ in 0..times {
                    let error = StartError::Provider("no memory".into());
                    sessions.refuse_start(&city.session(&agent(NAMES[who])), error);
                }
            }
            Self::Blind => sessions.blind(Some("night")),
            Self::Clear => clear(city),
            Self::KillChildren => drop(city.kill_actors::<ChildMsg>()),
            Self::KillWitness => drop(city.kill_actors::<WitnessMsg>()),
            Self::KillDispatcher => drop(city.kill_actors::<DispatcherMsg>()),
            _ => return false,
        }
        true
    }

    /// Performs a person's act, as the control socket's handlers do it.
    async fn person(&self, city: &TestCity, model: &mut Model) {
        match *self {
            Self::Stop(who) => stop(city, model, NAMES[who]).await,
            Self::Start(who) => start(city, model, NAMES[who]).await,
            Self::Handoff(which) => {
                let views = ask::views(&city.world).await.unwrap();
                let place = which.checked_rem(views.len());
                if let Some(view) = place.map(|place| &views[place]) {
                    let id = view.spec.id.clone();
                    drop(ask::cycle(&city.world, id, Cause::Handoff).await);
                }
            }
            Self::Suspend(who, on) if model.agents[who].there => {
                suspend(city, model, agent(NAMES[who]), on).await;
            }
            Self::SuspendRaider(who, on) => {
                let record = raider(SLOTS[who]);
                if city.hook(&record).await.is_some() {
                    suspend(city, model, ChildId::Raider(record), on).await;
                }
            }
            Self::Charge => {
                // Orders about a raider are dropped with it.
                for record in SLOTS.map(raider) {
                    if city.hook(&record).await.is_none() {
                        model.suspended.remove(&ChildId::Raider(record));
                    }
                }
                let relic = city.relic("more").await;
                drop(city.charge(&relic).await);
            }
            Self::Nuke(who) => {
                let record = raider(SLOTS[who]);
                if city.hook(&record).await.is_some() {
                    drop(city.nuke(&record, true).await);
                }
            }
            Self::Pass(seconds) => city.pass(Duration::from_secs(seconds)).await,
            _ => {}
        }
    }
}

fn clear(city: &TestCity) {
    let sessions = &city.parts.sessions;
    sessions.blind(None);
    sessions.accept_starts();
    for facts in sessions.list().unwrap() {
        sessions.hide(&facts.id, None);
        sessions.set_attached(&facts.id, false);
    }
}

async fn update_orders(
    city: &TestCity,
    change: impl Fn(&mut operator_orders::OperatorOrders) + Send + 'static,
) {
    city.store(move |txn| operator_orders::update(txn, &change))
        .await;
}

async fn stop(city: &TestCity, model: &mut Model, name: &'static str) {
    let ChildId::Agent(who) = agent(name) else {
        return;
    };
    if city.view(&agent(name)).await.is_none() {
        return;
    }
    update_orders(city, move |said| {
        said.resting.insert(who.clone());
    })
    .await;
    model.resting.insert(name);
    model.unsure.remove(name);
    if city.rest(&agent(name)).await.is_err() {
        model.unsure.insert(name);
    }
}

async fn start(city: &TestCity, model: &mut Model, name: &'static str) {
    let (id, place) = (agent(name), NAMES.iter().position(|n| *n == name).unwrap());
    let known = model.agents[place].there && model.agents[place].pool.is_none();
    let ChildId::Agent(who) = id.clone() else {
        return;
    };
    if !known || model.suspended.contains(&id) {
        return;
    }
    update_orders(city, move |said| {
        said.resting.remove(&who);
    })
    .await;
    model.resting.remove(name);
    model.unsure.remove(name);
    if city.wake(&id).await.is_err() {
        model.unsure.insert(name);
    }
}

async fn suspend(city: &TestCity, model: &mut Model, id: ChildId, on: bool) {
    let whom = id.clone();
    update_orders(city, move |said| {
        match on {
            true => said.suspended.insert(whom.clone()),
            false => said.suspended.remove(&whom),
        };
    })
    .await;
    match on {
        true => model.suspended.insert(id),
        false => model.suspended.remove(&id),
    };
    city.send_to_root(RootMail::Look).unwrap();
    city.settle().await;
}

async fn restart(city: TestCity, model: &Model, how: Option<StopMode>) -> TestCity {
    let clock = city.world.clock.clone();
    let parts = match how {
        None => city.crash().await,
        Some(mode) => {
            let parts = city.parts.clone();
            city.stop(mode).await;
            parts.rewired()
        }
    };
    model.scenario().start_on(parts, clock).await
}
