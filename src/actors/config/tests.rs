//! The times at which the files are checked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ractor::{Actor, ActorRef};

use super::{ConfigActor, ConfigArgs};
use crate::actors::ask;
use crate::actors::mail::{ConfigMsg, Reloaded};
use crate::actors::mail::{RootMail, StopMode};
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::domain::asker::Asker;
use crate::domain::city::{City, Provider, RestartType, Rig};
use crate::domain::event::EventType;
use crate::ports::config::{ConfigListener, ConfigSource, Loaded};
use crate::ports::repo::Repo;
use crate::testing::fake_repo::FakeRepo;
use crate::testing::hang::{Door, Hang};
use crate::testing::world::{Scenario, TestCity, agent};

/// Files that only a test changes, and the number of reads.
struct Files(Mutex<City>, AtomicUsize);

impl ConfigSource for Files {
    fn load(&self) -> Result<Loaded, String> {
        self.1.fetch_add(1, Ordering::SeqCst);
        Ok(Loaded {
            city: self.0.lock().unwrap().clone(),
            shown: serde_json::Value::Null,
        })
    }

    fn rig(&self, _: &City, rig: &Rig) -> Arc<dyn Repo> {
        panic!("{} is not new", rig.name)
    }

    fn listen(&self, _: ConfigListener) {}
}

/// The same files on a disk that hangs.
struct HungFiles(Files, Door);

impl ConfigSource for HungFiles {
    fn load(&self) -> Result<Loaded, String> {
        self.1.enter();
        self.0.load()
    }

    fn rig(&self, city: &City, rig: &Rig) -> Arc<dyn Repo> {
        self.0.rig(city, rig)
    }

    fn listen(&self, _: ConfigListener) {}
}

async fn watcher(test_city: &TestCity, city: City) -> (ActorRef<ConfigMsg>, Arc<Files>) {
    let files = Arc::new(Files(Mutex::new(city), AtomicUsize::new(0)));
    let args = ConfigArgs {
        world: Arc::clone(&test_city.world),
        source: Arc::clone(&files) as _,
        listener: Arc::new(|_| ()),
    };
    let (config, _task) = ConfigActor::spawn(None, ConfigActor, args).await.unwrap();
    (config, files)
}

/// `health-patrol.md`, testing: debounce.
#[tokio::test(start_paused = true)]
async fn an_editors_several_writes_are_one_look() {
    let test_city = Scenario::new().start().await;
    let (config, files) = watcher(&test_city, City::clone(&test_city.world.city)).await;
    let reads = || files.1.load(Ordering::SeqCst);
    test_city.settle().await;
    assert_eq!(reads(), 1, "at the start");
    for _ in 0..5 {
        config.cast(ConfigMsg::Touched).unwrap();
        test_city.pass(Duration::from_millis(60)).await;
        assert_eq!(reads(), 1, "it has not settled");
    }
    test_city.pass(Duration::from_millis(60)).await;
    assert_eq!(reads(), 2);
    config.stop(None);
}

/// A program writes into a watched directory all the time.
#[tokio::test(start_paused = true)]
async fn constant_writes_do_not_postpone_the_check_of_the_files() {
    let test_city = Scenario::new().start().await;
    let (config, files) = watcher(&test_city, City::clone(&test_city.world.city)).await;
    test_city.settle().await;
    for _ in 0..60 {
        config.cast(ConfigMsg::Touched).unwrap();
        test_city.pass(Duration::from_millis(50)).await;
    }
    let reads = files.1.load(Ordering::SeqCst) - 1;
    assert!((2..=3).contains(&reads), "{reads} in three seconds");
    config.stop(None);
}

/// A timer that each change restarts would never end. In real time, which goes on between two changes.
#[tokio::test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test waits for real work, in real time"
)]
async fn a_flood_of_changes_keeps_no_look_from_being_made() {
    let test_city = Scenario::new().start().await;
    let (config, files) = watcher(&test_city, City::clone(&test_city.world.city)).await;
    let deadline = Instant::now() + Duration::from_secs(20);
    while files.1.load(Ordering::SeqCst) < 3 {
        assert!(Instant::now() < deadline);
        config.cast(ConfigMsg::Touched).unwrap();
        tokio::task::yield_now().await;
    }
    config.stop(None);
}

async fn reload(config: &ActorRef<ConfigMsg>, dry_run: bool) -> Result<Reloaded, Refusal> {
    let message = |reply| ConfigMsg::Reload {
        dry_run,
        by: Asker::person(),
        reply,
    };
    ask::ask(
        Some(config.get_derived()),
        message,
        Duration::from_secs(3600),
    )
    .await?
}

/// The same files, with new rigs. Notes when each is made, and when it is prepared.
struct NewRigs(Files, Arc<Mutex<Vec<String>>>);

impl ConfigSource for NewRigs {
    fn load(&self) -> Result<Loaded, String> {
        self.0.load()
    }

    fn rig(&self, _: &City, _: &Rig) -> Arc<dyn Repo> {
        let repo = FakeRepo::new();
        self.1.lock().unwrap().push("made".to_owned());
        let notes = Arc::clone(&self.1);
        repo.interlude("prepare", move || {
            notes.lock().unwrap().push("prepared".to_owned())
        });
        Arc::new(repo)
    }

    fn listen(&self, _: ConfigListener) {}
}

/// A rig that was prepared beside others did not know the settings that their checkouts share with its own.
#[tokio::test(start_paused = true)]
async fn new_rigs_are_all_made_before_the_first_is_prepared() {
    let test_city = Scenario::new().start().await;
    let mut city = City::clone(&test_city.world.city);
    for name in ["one", "two", "three"] {
        let mut rig = city.rigs[0].clone();
        rig.name = name.parse().unwrap();
        city.rigs.push(rig);
    }
    city.revision = "new".to_owned();
    let notes = Arc::default();
    let files = NewRigs(
        Files(Mutex::new(city), AtomicUsize::new(0)),
        Arc::clone(&notes),
    );
    let args = ConfigArgs {
        world: Arc::clone(&test_city.world),
        source: Arc::new(files),
        listener: Arc::new(|_| ()),
    };
    let (config, _task) = ConfigActor::spawn(None, ConfigActor, args).await.unwrap();
    assert_eq!(reload(&config, false).await.unwrap().errors, [""; 0]);
    let notes = notes.lock().unwrap().clone();
    let first = [["made"; 3], ["prepared"; 3]].concat();
    assert_eq!(notes[..first.len()], first);
}

/// A configuration that cannot be applied changes nothing, however often it is tried.
#[tokio::test(start_paused = true)]
async fn start_limit_is_reapplied_once_and_only_by_the_configuration_in_force() {
    let test_city = Scenario::new().start().await;
    let starts = Arc::clone(&test_city.world.starts);
    for (permits, others) in [(20, 16), (4, 20)] {
        let mut city = City::clone(&test_city.world.city);
        city.daemon.start_concurrency = permits;
        city.revision = format!("{permits}");
        let (config, _) = watcher(&test_city, city).await;
        test_city.parts.sessions.blind(Some("fog"));
        for _ in 0..3 {
            reload(&config, false).await.unwrap_err();
            reload(&config, true).await.unwrap_err();
            test_city.settle().await;
            assert_eq!(starts.available_permits(), others);
        }
        test_city.parts.sessions.blind(None);
        for _ in 0..3 {
            reload(&config, false).await.unwrap();
            test_city.settle().await;
            assert_eq!(starts.available_permits(), permits);
        }
        config.stop(None);
    }
}

/// `--dry-run` reports what the reload would, including a refusal.
#[tokio::test(start_paused = true)]
async fn a_city_moves_to_another_provider_only_where_there_is_one() {
    let test_city = Scenario::new().start().await;
    let before = test_city.parts.sessions.preferred();
    let mut city = City::clone(&test_city.world.city);
    city.revision = "new".to_owned();
    city.session.provider = Provider::Tmux;
    test_city
        .parts
        .sessions
        .lack(Provider::Tmux, "no tmux in PATH");
    let (config, _) = watcher(&test_city, city).await;
    for dry_run in [true, false] {
        let told = reload(&config, dry_run).await.unwrap();
        assert_eq!(told.errors, ["no tmux in PATH"], "dry run: {dry_run}");
    }
    assert_eq!(test_city.parts.sessions.preferred(), before);
    test_city
        .parts
        .sessions
        .lack(Provider::Holder, "it would not matter");
    let told = reload(&config, true).await.unwrap();
    assert!(told.errors.is_empty());
    assert_eq!(test_city.parts.sessions.preferred(), before, "only asked");
    reload(&config, false).await.unwrap();
    assert_eq!(test_city.parts.sessions.preferred(), Some(Provider::Tmux));
    config.stop(None);
}

#[tokio::test(start_paused = true)]
async fn reload_during_a_stop_is_not_reported_as_applied() {
    let test_city = Scenario::new().agent("mayor", RestartType::Permanent);
    let test_city = test_city.start().await;
    let session = test_city.session(&agent("mayor"));
    let mut city = City::clone(&test_city.world.city);
    city.revision = "new".to_owned();
    city.daemon.start_concurrency = 20;
    let (config, _) = watcher(&test_city, city).await;
    test_city.parts.sessions.hold_stop(&session);
    let (mode, reply) = (StopMode::Graceful, None);
    test_city
        .send_to_root(RootMail::Stop { mode, reply })
        .unwrap();
    reload(&config, false).await.unwrap_err();
    assert_eq!(test_city.events(EventType::ConfigReloaded).await.len(), 0);
    assert_eq!(test_city.world.starts.available_permits(), 16);
    test_city.parts.sessions.release_stop(&session);
    config.stop(None);
}

/// A changed git configuration of the user is in no file of the city: a requested reload applies it.
#[tokio::test(start_paused = true)]
async fn asked_for_a_reload_each_rig_takes_its_settings_over_although_the_city_is_the_same() {
    let test_city = Scenario::new().start().await;
    let (config, _files) = watcher(&test_city, City::clone(&test_city.world.city)).await;
    test_city.settle().await;
    let before = test_city.parts.repo.count("prepare");
    config.cast(ConfigMsg::Touched).unwrap();
    test_city.pass(Duration::from_secs(1)).await;
    assert_eq!(
        test_city.parts.repo.count("prepare"),
        before,
        "no reload was requested"
    );
    reload(&config, true).await.unwrap();
    assert_eq!(test_city.parts.repo.count("prepare"), before, "a rehearsal");
    reload(&config, false).await.unwrap();
    assert_eq!(test_city.parts.repo.count("prepare"), before + 1);
    config.stop(None);
}

/// An include on a mount that is away.
#[tokio::test(start_paused = true)]
async fn files_that_hang_end_their_check_and_later_ones_until_they_answer() {
    let test_city = Scenario::new().start().await;
    let hang = Hang::default();
    let files = Files(
        Mutex::new(City::clone(&test_city.world.city)),
        AtomicUsize::new(0),
    );
    let args = ConfigArgs {
        world: Arc::clone(&test_city.world),
        source: Arc::new(HungFiles(files, hang.door())),
        listener: Arc::new(|_| ()),
    };
    let (config, _task) = ConfigActor::spawn(None, ConfigActor, args).await.unwrap();
    test_city
        .until("the first check hangs", || hang.entered() == 1)
        .await;
    let asked =
        |config: ActorRef<ConfigMsg>| tokio::spawn(async move { reload(&config, false).await });
    let request = asked(config.clone());
    tokio::time::advance(Duration::from_secs(301)).await;
    let refused = request.await.unwrap().unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Timeout, "{refused}");
    let told = test_city.world.directory.reload_error().unwrap();
    assert!(told.contains("the configuration files"), "{told}");
    // Each later request is answered at once, and holds no further thread.
    asked(config.clone()).await.unwrap().unwrap_err();
    assert_eq!(hang.entered(), 1);
    hang.release();
    test_city.settle().await;
    reload(&config, false).await.unwrap();
    assert_eq!(test_city.world.directory.reload_error(), None);
    config.stop(None);
}

/// The provider may ask a program, which may not answer.
#[tokio::test(start_paused = true)]
async fn session_provider_that_hangs_ends_the_check() {
    let test_city = Scenario::new().start().await;
    let mut city = City::clone(&test_city.world.city);
    city.revision = "new".to_owned();
    let (config, _) = watcher(&test_city, city).await;
    test_city.settle().await;
    let hang = Hang::default();
    let door = hang.door();
    test_city
        .parts
        .sessions
        .interlude("check", move || door.enter());
    let own = config.clone();
    let request = tokio::spawn(async move { reload(&own, true).await });
    test_city.until("it hangs", || hang.entered() == 1).await;
    tokio::time::advance(Duration::from_secs(301)).await;
    let refused = request.await.unwrap().unwrap_err();
    assert!(refused.message.contains("session provider"), "{refused}");
    hang.release();
    test_city.settle().await;
    reload(&config, true).await.unwrap();
    config.stop(None);
}

/// A change that a watched file brings in names no caller.
#[tokio::test(start_paused = true)]
async fn event_of_a_reload_names_the_caller_that_asked_for_it() {
    let test_city = Scenario::new().start().await;
    let (config, files) = watcher(&test_city, City::clone(&test_city.world.city)).await;
    test_city.settle().await;
    let person = serde_json::json!(Asker::person().data());
    for (revision, asker) in [("asked", person), ("seen", serde_json::Value::Null)] {
        files.0.lock().unwrap().revision = revision.to_owned();
        match asker.is_null() {
            true => config.cast(ConfigMsg::Hangup).unwrap(),
            false => drop(reload(&config, false).await.unwrap()),
        }
        test_city.settle().await;
        let told = test_city.events(EventType::ConfigReloaded).await;
        let told = told.last().unwrap();
        assert_eq!(told.data["revision"], revision);
        assert_eq!(
            (told.cause.as_str(), &told.data["asker"]),
            ("config", &asker)
        );
    }
    config.stop(None);
}
