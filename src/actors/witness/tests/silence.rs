//! The time that is shown of a stalled session.

use std::time::Duration;

use crate::actors::records::stalls;
use crate::testing::world::Scenario;

const MINUTE: Duration = Duration::from_secs(60);

/// The time at which the stall was found was shown.
#[tokio::test(start_paused = true)]
async fn silence_is_shown_from_the_last_progress_on() {
    let city = Scenario::new().rig(|rig| rig.raiders.stall_after = Some(10 * MINUTE));
    let city = city.start().await;
    let charged = city.worker("a").await;
    let began = city.world.clock.now();
    city.pass(12 * MINUTE).await;
    let hook = city.hook(&charged.raider).await.unwrap();
    let steps = city.store(move |txn| stalls::steps(txn, &hook)).await;
    let since = steps.unwrap().since.duration_since(began);
    assert!(since.abs() < jiff::SignedDuration::from_mins(2), "{since}");
}
