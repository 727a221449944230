//! Every operation reaches its handler.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;

use crate::control::handlers::{Handlers, served_elsewhere};
use crate::control::protocol::{Op, Request};
use crate::control::rights::CallerRole;
use crate::control::server::{Caller, Service};
use crate::testing::world::Scenario;

/// A group of operations has an arm for each of them: the compiler does not ask for one.
#[tokio::test(start_paused = true)]
async fn every_operation_is_served_where_it_arrives() {
    let city = Scenario::new().start().await;
    // No process takes the request to stop, so the city goes on.
    let (stop, _) = mpsc::channel(1);
    let handlers = Handlers::new(Arc::clone(&city.world), stop);
    let requests = include_str!("../../../../tests/data/protocol/requests.json");
    let requests: Vec<Value> = serde_json::from_str(requests).unwrap();
    for line in requests {
        let request = Request::parse(&line.to_string()).unwrap();
        let op = Op::parse(request.op, request.args).unwrap();
        let caller = Caller::stand_in(None, CallerRole::Operator);
        let call = handlers.call(caller, op);
        let answer = tokio::time::timeout(Duration::from_secs(3600), call).await;
        let answer = answer.unwrap_or_else(|_| panic!("no answer: {line}"));
        assert_ne!(answer.err(), Some(served_elsewhere()), "{line}");
    }
}
