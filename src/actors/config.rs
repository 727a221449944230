//! Watches the configuration: an edit is validated as soon as it is seen, and `status` says what
//! became of it. It is applied by the next start; until then the old one is kept, whole.

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::world::World;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::ports::config::ConfigSource;

/// Messages to the configuration's watcher.
#[derive(Debug)]
pub enum ConfigMsg {
    /// Somebody asked (SIGHUP), or it is time: look at the files.
    Check,
    /// What the look came to.
    Checked(Result<String, String>),
}

/// What it is made from.
#[derive(Clone)]
pub struct ConfigArgs {
    /// The world.
    pub world: Arc<World>,
    /// The files.
    pub source: Arc<dyn ConfigSource>,
}

/// Its state.
pub struct Config {
    args: ConfigArgs,
    /// What the last look came to; an edit is reported once.
    last: Result<String, String>,
    checking: bool,
}

/// The actor.
pub struct ConfigActor;

impl Actor for ConfigActor {
    type Msg = ConfigMsg;
    type State = Config;
    type Arguments = ConfigArgs;

    async fn pre_start(
        &self,
        me: ActorRef<ConfigMsg>,
        args: ConfigArgs,
    ) -> Result<Config, ActorProcessingErr> {
        args.world.directory.set_config(me);
        let last = Ok(args.world.city.revision.clone());
        Ok(Config {
            args,
            last,
            checking: false,
        })
    }

    async fn handle(
        &self,
        me: ActorRef<ConfigMsg>,
        msg: ConfigMsg,
        config: &mut Config,
    ) -> Result<(), ActorProcessingErr> {
        match msg {
            ConfigMsg::Check if config.checking => {}
            ConfigMsg::Check => {
                config.checking = true;
                let source = Arc::clone(&config.args.source);
                tokio::task::spawn_blocking(move || {
                    // A successor looks for itself.
                    let _restarted = me.cast(ConfigMsg::Checked(source.check()));
                });
            }
            ConfigMsg::Checked(result) => {
                config.checking = false;
                config.checked(result);
            }
        }
        Ok(())
    }
}

impl Config {
    fn checked(&mut self, result: Result<String, String>) {
        if result == self.last {
            return;
        }
        let world = &self.args.world;
        let error = match &result {
            Ok(revision) if *revision == world.city.revision => None,
            Ok(revision) => Some(format!(
                "the configuration on disk ({revision}) takes effect at the next start"
            )),
            Err(wrong) => Some(wrong.clone()),
        };
        if let Some(error) = &error {
            let data = serde_json::json!({ "error": error, "kept": world.city.revision });
            let kind = match &result {
                Ok(_) => EventType::ConfigRestartNeeded,
                Err(_) => EventType::ConfigRejected,
            };
            let event = NewEvent::new(kind, &world.city.name, Cause::Config);
            world.store.note(vec![event.with(data)]);
        }
        world.directory.set_reload_error(error);
        self.last = result;
    }
}
