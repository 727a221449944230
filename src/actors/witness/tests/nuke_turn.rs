//! A nuke that is requested while another task holds the claim.

use std::time::Duration;

use crate::actors::claims::{Claim, ClaimKey};
use crate::actors::mail::{Charged, NukeTarget};
use crate::actors::refusal::RefusalKind;
use crate::actors::sagas::nuke;
use crate::domain::answers::Would;
use crate::domain::cause::Cause;
use crate::testing::world::{Scenario, TestCity};

const SECOND: Duration = Duration::from_secs(1);

fn held(city: &TestCity, charged: &Charged) -> Claim {
    let key = ClaimKey::Nuke(charged.raider.clone());
    city.world.claims.claim(key).unwrap()
}

/// The witness judged the sandbox, kept it, and the request was refused with "is being nuked".
#[tokio::test(start_paused = true)]
async fn requested_nuke_waits_for_a_judgement_and_is_carried_out() {
    let (city, charged) = Scenario::at_work().await;
    let claim = held(&city, &charged);
    let judged = async {
        city.pass(5 * SECOND).await;
        drop(claim);
    };
    let (nuked, ()) = tokio::join!(city.nuke(&charged.raider, true), judged);
    nuked.unwrap();
    assert!(city.hook(&charged.raider).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn rehearsal_waits_for_a_judgement() {
    let (city, charged) = Scenario::at_work().await;
    let hook = city.hook(&charged.raider).await.unwrap();
    let claim = held(&city, &charged);
    let judged = async {
        city.pass(5 * SECOND).await;
        drop(claim);
    };
    let target = NukeTarget::of(&hook, Cause::Operator);
    let (rehearsed, ()) = tokio::join!(nuke::rehearse(&city.world, &target, true), judged);
    assert_eq!(rehearsed.unwrap().would, Would::Salvage);
}

#[tokio::test(start_paused = true)]
async fn requested_nuke_is_refused_when_the_other_takes_long() {
    let (city, charged) = Scenario::at_work().await;
    let _claim = held(&city, &charged);
    let refused = city.nuke(&charged.raider, true).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Conflict);
    assert!(city.runs(&charged.session), "nothing was touched");
}
