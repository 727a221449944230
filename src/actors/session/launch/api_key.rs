//! The API key that a session does not get because its user is logged in (`domain/unattended/api_key.rs`).

use std::collections::BTreeMap;

use crate::actors::effects;
use crate::actors::world::World;
use crate::domain::city::Harness;
use crate::domain::unattended::{KEY, KeyUse, Trace, is_helper, key_use, logins};

/// Removes an API key from the environment that the configuration does not ask for and that the user's own login makes
/// needless. Returns true when the user has a command of its own that prints a key.
pub(super) async fn spare(
    world: &World,
    harness: &Harness,
    configured: &BTreeMap<String, String>,
    env: &mut BTreeMap<String, String>,
) -> bool {
    if key_use(harness.hooks, configured, env, false).is_none() {
        return false;
    }
    let traces = logins(env);
    let seen = effects::tasks(world, effects::Owner::City, move |tasks| {
        let traces = traces.into_iter();
        Ok(traces
            .filter(|trace| tasks.shows(trace))
            .collect::<Vec<Trace>>())
    });
    let seen = seen.await.unwrap_or_default();
    if key_use(harness.hooks, configured, env, !seen.is_empty()) == Some(KeyUse::Spared) {
        tracing::info!(
            harness = %harness.name,
            "the harness's user is logged in: {KEY} from the supervisor's environment is not \
            passed to its sessions"
        );
        env.remove(KEY);
    }
    seen.iter().any(is_helper)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::domain::harness::hooks::Hooks;
    use crate::ports::tasks::TaskFiles;
    use crate::testing::world::Scenario;

    const HOME: &str = "/home/u";

    /// Starts claude's session; returns whether the key is in its environment, and whether a helper prints it.
    async fn session(configured: bool, files: &[(&str, &str, &str)]) -> (bool, bool) {
        let scenario = Scenario::new().with(|city| {
            for harness in city.harnesses.values_mut() {
                harness.hooks = Hooks::Claude;
                harness.env.insert("HOME".into(), HOME.into());
                harness.env_pass = vec![KEY.into()];
                if configured {
                    harness.env.insert(KEY.into(), "k".into());
                }
            }
        });
        let city = scenario.start().await;
        let mut world = World::clone(&city.world);
        world.env.insert(KEY.to_owned(), "exported".to_owned());
        for (dir, name, text) in files {
            let dir = Path::new(HOME).join(dir);
            city.parts.tasks.write_beside(&dir, name, text).unwrap();
        }
        let harness = world.city.harnesses.values().next().unwrap().clone();
        let mut env = crate::domain::session_env::inherited(&world.env, &harness.env_pass);
        env.extend(harness.env.clone());
        let own_helper = spare(&world, &harness, &harness.env, &mut env).await;
        let has = |name: &str| env.contains_key(name);
        let setting = crate::domain::harness::hooks::Setting {
            hd: "hd",
            dir: "/s",
            has: &has,
            own_helper,
        };
        let mut fill = crate::domain::harness::fill::Fill::default();
        let files = harness.hooks.set_up(&setting, &mut fill);
        (has(KEY), files[0].text.contains("apiKeyHelper"))
    }

    #[tokio::test(start_paused = true)]
    async fn exported_key_is_used_only_where_the_user_has_no_login_of_its_own() {
        let login = [(".claude", ".credentials.json", "{\"claudeAiOauth\":{}}")];
        let chain = [("", ".claude.json", "{\"oauthAccount\":{\"a\":1}}")];
        let helper = [(".claude", "settings.json", "{\"apiKeyHelper\":\"pass k\"}")];
        assert_eq!(session(false, &[]).await, (true, true));
        assert_eq!(session(false, &login).await, (false, false));
        assert_eq!(session(false, &chain).await, (false, false));
        assert_eq!(session(false, &helper).await, (false, false));
        // The city configures the key.
        assert_eq!(session(true, &[]).await, (true, true));
        assert_eq!(session(true, &login).await, (true, true));
        // The user's own helper is never replaced.
        assert_eq!(session(true, &helper).await, (true, false));
    }
}
