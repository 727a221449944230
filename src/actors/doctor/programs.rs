//! Programs that the city's sessions could not be started with: those of harnesses in use, and those of standing
//! agents.

use std::collections::{BTreeMap, BTreeSet};

use super::super::effects;
use super::super::world::World;
use crate::domain::doctor::Lacking;
use crate::domain::facts::Probed;
use crate::domain::ids::HarnessName;
use crate::domain::relic::Hook;
use crate::domain::session_env;

/// A program, with the environment in which it is searched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted {
    of: String,
    program: String,
    path: String,
}

/// Returns the programs that sessions do not find, or for which that is unknown. A program whose path is relative to
/// the working directory is not checked here.
pub(super) async fn lacking(world: &World, hooks: &[Hook]) -> Probed<Vec<Lacking>> {
    let wanted = wanted(world, hooks);
    let sessions = world.sessions.clone();
    let looked = effects::city_files(world, move || {
        let lacks = |(one, users): (Wanted, BTreeSet<String>)| {
            let unseen = match sessions.finds(&one.program, &one.path) {
                Ok(true) => return None,
                Ok(false) => None,
                Err(why) => Some(why),
            };
            Some(Lacking {
                of: one.of,
                program: one.program,
                users: users.into_iter().collect(),
                unseen,
            })
        };
        wanted.into_iter().filter_map(lacks).collect()
    });
    Probed::from(looked.await.ok_or("the search was interrupted"))
}

fn wanted(world: &World, hooks: &[Hook]) -> BTreeMap<Wanted, BTreeSet<String>> {
    let city = &world.city;
    let mut wanted: BTreeMap<Wanted, BTreeSet<String>> = BTreeMap::new();
    let mut want = |of: String, command: &[String], env: &BTreeMap<String, String>, user| {
        let Some(program) = command.first() else {
            return;
        };
        if program.contains('/') && !program.starts_with('/') {
            return;
        }
        let path = env.get("PATH").or(world.env.get("PATH"));
        let one = Wanted {
            of,
            program: program.clone(),
            path: session_env::path(&world.bin_dir, path),
        };
        wanted.entry(one).or_default().insert(user);
    };
    let mut harness = |name: &HarnessName, user: String| {
        if let Some(harness) = city.harnesses.get(name) {
            let of = format!("harness {name}");
            want(of, &harness.command, &harness.env, user);
        }
    };
    for rig in &city.rigs {
        let routes = rig.raiders.routes.values().flatten();
        for name in routes.chain([&rig.raiders.harness]) {
            harness(name, format!("rig {}", rig.name));
        }
    }
    for hook in hooks {
        harness(&hook.harness, hook.raider.to_string());
    }
    for agent in &city.agents {
        let user = format!("agent {}", agent.name);
        let of = match &agent.harness {
            Some(name) => format!("harness {name}"),
            None => user.clone(),
        };
        want(of, &agent.command, &agent.env, user);
    }
    wanted
}
