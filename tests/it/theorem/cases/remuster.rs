//! A fresh raider for work that conflicts, while the first raider still works in its sandbox.

use std::path::Path;
use std::sync::{Arc, Mutex};

use git2::Oid;

use super::super::ends::{Case, Tally};
use super::super::forms::{Agent, Form};
use super::super::lab::Lab;
use super::super::look::SandboxState;
use super::{Run, SECOND};
use horde_supervisor::actors::mail::Charged;
use horde_supervisor::domain::relic::RelicStatus;
use horde_supervisor::domain::saga::FaultPoint;

impl Run<'_> {
    /// Declares conflicting work done; its sandbox is still being worked in when MERGE_READY is sent.
    pub(super) async fn remustered<'a>(
        lab: &'a mut Lab,
        tally: &'a mut Tally,
        case: Case,
        charged: Charged,
        work: impl FnOnce() -> SandboxState + Send + 'static,
        before: Vec<Oid>,
    ) -> Run<'a> {
        let dir = charged.sandbox.clone();
        let agent = Agent {
            dir: &dir,
            text: b"mine".to_vec(),
            library: Path::new(""),
        };
        agent.make(Form::Ahead);
        lab.move_target("work", format!("theirs {}\n", case.seed).as_bytes());
        let seen = Arc::new(Mutex::new(None));
        let late = Arc::clone(&seen);
        lab.fate.meanwhile(FaultPoint::WitnessReadyAfter, move || {
            *late.lock().unwrap() = Some(work());
        });
        let mut run = Run {
            seen: SandboxState::of(&dir),
            lab,
            tally,
            charged,
            dir,
            before,
            poorer: false,
            refilled: false,
        };
        let relic = run.charged.relic.clone();
        run.lab.city().completed(&run.charged.raider).await.unwrap();
        for _ in 0..30 {
            run.lab.city().pass(SECOND).await;
            let now = run.lab.city().relic_now(&relic).await;
            // While the first raider's sandbox is kept, its relic waits.
            let waits = run.is_held().await && now.status == RelicStatus::Open;
            if now.reworks == 1 && (waits || now.status == RelicStatus::Hooked) {
                break;
            }
        }
        assert_eq!(run.lab.city().relic_now(&relic).await.reworks, 1);
        run.seen = seen.lock().unwrap().take().expect("it was worked in");
        if run.is_held().await {
            run.unchanged("a fresh raider");
        }
        // The fresh raider has no work yet: it is removed once the relic is closed.
        run.close(&relic).await;
        for _ in 0..30 {
            run.lab.city().pass(SECOND).await;
            let hooks = run.lab.city().store(|txn| txn.hooks(None)).await;
            if hooks.iter().all(|hook| {
                hook.incarnation == run.charged.incarnation && hook.raider == run.charged.raider
            }) {
                break;
            }
        }
        run
    }
}
