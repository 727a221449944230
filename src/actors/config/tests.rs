//! When the files are looked at.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ractor::Actor;

use super::{ConfigActor, ConfigArgs, ConfigMsg};
use crate::domain::city::{City, Rig};
use crate::ports::config::{ConfigListener, ConfigSource, Loaded};
use crate::ports::repo::Repo;
use crate::testing::world::Scenario;

/// Files that never change, and how often they were read.
struct Files(City, AtomicUsize);

impl ConfigSource for Files {
    fn load(&self) -> Result<Loaded, String> {
        self.1.fetch_add(1, Ordering::SeqCst);
        Ok(Loaded {
            city: self.0.clone(),
            shown: serde_json::Value::Null,
            dirs: Vec::new(),
        })
    }

    fn open_rig(&self, _: &City, rig: &Rig) -> Result<Arc<dyn Repo>, String> {
        Err(format!("{} is not new", rig.name))
    }

    fn listen(&self, _: ConfigListener) {}

    fn watch(&self, _: &[PathBuf]) {}
}

/// `health-patrol.md`, testing: debounce.
#[tokio::test(start_paused = true)]
async fn an_editors_several_writes_are_one_look() {
    let town = Scenario::new().start().await;
    let files = Files(City::clone(&town.world.city), AtomicUsize::new(0));
    let files = Arc::new(files);
    let args = ConfigArgs {
        world: Arc::clone(&town.world),
        source: Arc::clone(&files) as _,
        told: Arc::new(|_| ()),
    };
    let (config, _task) = ConfigActor::spawn(None, ConfigActor, args).await.unwrap();
    let reads = || files.1.load(Ordering::SeqCst);
    town.settle().await;
    assert_eq!(reads(), 1, "at the start");
    for _ in 0..5 {
        config.cast(ConfigMsg::Touched).unwrap();
        town.pass(Duration::from_millis(60)).await;
        assert_eq!(reads(), 1, "it has not settled");
    }
    town.pass(Duration::from_millis(60)).await;
    assert_eq!(reads(), 2);
    config.stop(None);
}
