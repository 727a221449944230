//! The infrastructure: specifications of its actors, in the order of their start.

use std::sync::Arc;

use ractor::{Actor, ActorCell};

use super::manager::Manager;
use crate::actors::config::{ConfigActor, ConfigArgs};
use crate::actors::dispatcher::DispatcherActor;
use crate::actors::forge::{ForgeActor, ForgeArgs};
use crate::actors::root::{InfraSpec, Spawn};
use crate::actors::shaman::{ShamanActor, ShamanArgs};
use crate::actors::store::{self, StoreActor};
use crate::actors::witness::{WitnessActor, WitnessArgs};
use crate::actors::world::World;
use crate::domain::ids::RigName;
use crate::ports::config::ConfigSource;

/// Returns all actors in the order of their start; they are stopped in reverse.
pub(super) fn all(
    world: &Arc<World>,
    open: store::Open,
    source: Arc<dyn ConfigSource>,
    manager: Arc<Manager>,
) -> Vec<InfraSpec> {
    let handle = world.store.clone();
    let mut specs = vec![spec("store", move |root| {
        let args = store::Args {
            handle: handle.clone(),
            open: Arc::clone(&open),
        };
        async move { cell(StoreActor::spawn_linked(None, StoreActor, args, root).await) }
    })];
    let args = ShamanArgs {
        world: Arc::clone(world),
        notices: Arc::default(),
    };
    specs.push(spec("shaman", move |root| {
        let args = args.clone();
        async move { cell(ShamanActor::spawn_linked(None, ShamanActor, args, root).await) }
    }));
    let args = ConfigArgs {
        world: Arc::clone(world),
        source,
        listener: Arc::new(move |reloading| manager.reloads(&reloading)),
    };
    specs.push(spec("config", move |root| {
        let args = args.clone();
        async move { cell(ConfigActor::spawn_linked(None, ConfigActor, args, root).await) }
    }));
    for rig in &world.city.rigs {
        specs.extend(of_rig(world, &rig.name));
    }
    let own = Arc::clone(world);
    specs.push(spec("dispatcher", move |root| {
        let world = Arc::clone(&own);
        async move { cell(DispatcherActor::spawn_linked(None, DispatcherActor, world, root).await) }
    }));
    specs
}

/// Returns the forge and witness of a rig.
pub(super) fn of_rig(world: &Arc<World>, rig: &RigName) -> Vec<InfraSpec> {
    let forge = ForgeArgs {
        world: Arc::clone(world),
        rig: rig.clone(),
        tried: Arc::default(),
    };
    let witness = WitnessArgs {
        world: Arc::clone(world),
        rig: rig.clone(),
        memory: Arc::default(),
    };
    vec![
        spec(&format!("{rig}/forge"), move |root| {
            let args = forge.clone();
            async move { cell(ForgeActor::spawn_linked(None, ForgeActor, args, root).await) }
        }),
        spec(&format!("{rig}/witness"), move |root| {
            let args = witness.clone();
            async move { cell(WitnessActor::spawn_linked(None, WitnessActor, args, root).await) }
        }),
    ]
}

type Spawned<M> = Result<(ractor::ActorRef<M>, tokio::task::JoinHandle<()>), ractor::SpawnErr>;

fn cell<M>(spawned: Spawned<M>) -> Result<ActorCell, ractor::SpawnErr> {
    spawned.map(|(actor, _task)| actor.get_cell())
}

fn spec<F>(name: &str, spawn: impl Fn(ActorCell) -> F + Send + Sync + 'static) -> InfraSpec
where
    F: Future<Output = Result<ActorCell, ractor::SpawnErr>> + Send + 'static,
{
    let spawn: Spawn = Arc::new(move |root| Box::pin(spawn(root)));
    InfraSpec {
        name: name.to_owned(),
        spawn,
    }
}
