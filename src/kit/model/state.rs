//! The state of the model: its scenarios, the released gates, and the requests that it received.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::acts::{self, Reply};
use super::protocols::{self, Answer, Refusal};
use super::request::{Protocol, Request};
use super::schema;
use super::script::{self, Scenario, Step};

/// The answer when a scenario has no step left.
const END: &str = "Everything in the script is done.";
/// The answer to a conversation without a marker.
const NO_SCRIPT: &str = "There is no script for this conversation.";
/// The answer to a request beside a conversation.
const ASIDE: &str = "Ready.";

/// A request to the model, and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// The protocol.
    pub protocol: Protocol,
    /// The requested model.
    pub model: String,
    /// The names of the tools that were declared.
    pub tools: Vec<String>,
    /// The texts of the user, oldest first: prompts, and what programs add to them.
    pub user: Vec<String>,
    /// The result of the last tool.
    pub result: Option<String>,
    /// The marker of the scenario that the conversation follows.
    pub marker: Option<String>,
    /// The number of the step that the conversation has reached, from 0.
    pub step: Option<usize>,
    /// The answer.
    pub given: Given,
}

/// The kind of answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Given {
    /// None yet: the conversation waits at [`Step::Wait`]. Stays so when the program gives up.
    Waiting,
    /// A text.
    Text(String),
    /// A call of this tool.
    Call(String),
    /// A refusal, with this status code.
    Refused(u16),
    /// A harmless answer to a request beside the conversation, which uses no step.
    Aside,
    /// A useless text, because the program declared no tool for the step.
    NoTool,
}

/// A request that is not for a model: an unknown path, or a body that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// The method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The status code of the answer.
    pub status: u16,
    /// The reason of the refusal.
    pub why: String,
}

/// The state of a model.
#[derive(Debug, Default)]
pub struct ModelState {
    scenarios: Vec<Scenario>,
    /// The number of released gates per scenario, by its marker.
    released: BTreeMap<String, usize>,
    /// All requests, in the order in which they came.
    pub heard: Vec<Heard>,
    /// All other requests.
    pub strays: Vec<Stray>,
    answers: u64,
}

impl ModelState {
    /// Adds a scenario; replaces the one with the same marker.
    pub fn play(&mut self, scenario: Scenario) {
        self.scenarios
            .retain(|known| known.marker != scenario.marker);
        self.scenarios.push(scenario);
    }

    /// Opens the next gate of a scenario.
    pub fn release(&mut self, marker: &str) {
        *self.released.entry(marker.to_owned()).or_default() += 1;
    }

    /// Records a request, and returns its number.
    pub fn hear(&mut self, request: &Request) -> usize {
        let tools = request.tools.iter().map(|tool| tool.name.clone());
        let user = request.user_texts().map(ToOwned::to_owned);
        self.heard.push(Heard {
            protocol: request.protocol,
            model: request.model.clone(),
            tools: tools.collect(),
            user: user.collect(),
            result: request.last_result().map(ToOwned::to_owned),
            marker: None,
            step: None,
            given: Given::Waiting,
        });
        self.heard.len() - 1
    }

    /// Returns the answer to the request of this number; none while it has to wait.
    pub fn answer(&mut self, number: usize, request: &Request, now: Timestamp) -> Option<Answer> {
        let decided = self.decide(request);
        let answer = match &decided.says {
            Says::Wait => None,
            Says::Refuse(refusal) => Some(protocols::refuse(request.protocol, *refusal, now)),
            Says::Reply(reply) => {
                self.answers += 1;
                Some(protocols::answer(request, reply, self.answers))
            }
        };
        let heard = self.heard.get_mut(number)?;
        heard.marker = decided.marker;
        heard.step = decided.step;
        if let Some(answer) = &answer {
            heard.given = decided.given.unwrap_or(Given::Refused(answer.status));
        }
        answer
    }

    fn decide(&self, request: &Request) -> Decided {
        if request.is_aside() {
            let text = request.schema.as_ref().map(schema::example);
            let text = text.map_or_else(|| ASIDE.to_owned(), |json| json.to_string());
            return Decided::beside(text, Given::Aside);
        }
        let Some(scenario) = script::find(&self.scenarios, request) else {
            return Decided::beside(NO_SCRIPT.to_owned(), Given::Text(NO_SCRIPT.to_owned()));
        };
        let released = self.released.get(&scenario.marker).copied();
        let texts = texts(scenario, request);
        let position = scenario.position(request, released.unwrap_or_default(), &texts);
        let (says, given) = match position.step {
            Some(Step::Wait) => (Says::Wait, None),
            Some(Step::Unauthorised) => (Says::Refuse(Refusal::Unauthorised), None),
            Some(Step::Limit {
                retry_after,
                resets_at,
            }) => {
                let (retry_after, resets_at) = (*retry_after, *resets_at);
                let limit = Refusal::Limit {
                    retry_after,
                    resets_at,
                };
                (Says::Refuse(limit), None)
            }
            Some(step) => act(step, request),
            None => reply_text(END.to_owned()),
        };
        Decided {
            marker: Some(scenario.marker.clone()),
            step: Some(position.index),
            says,
            given,
        }
    }
}

/// The decision that an answer is made from.
struct Decided {
    marker: Option<String>,
    step: Option<usize>,
    says: Says,
    /// None for a request without an answer yet, and for a refusal, whose status code tells enough.
    given: Option<Given>,
}

enum Says {
    Wait,
    Refuse(Refusal),
    Reply(Reply),
}

impl Decided {
    fn beside(text: String, given: Given) -> Self {
        Self {
            marker: None,
            step: None,
            says: Says::Reply(Reply::Text(text)),
            given: Some(given),
        }
    }
}

fn reply_text(text: String) -> (Says, Option<Given>) {
    let given = Given::Text(text.clone());
    (Says::Reply(Reply::Text(text)), Some(given))
}

fn act(step: &Step, request: &Request) -> (Says, Option<Given>) {
    match acts::reply(step, request) {
        Some(Reply::Text(text)) => reply_text(text),
        Some(Reply::Call(call)) => {
            let given = Given::Call(call.tool.clone());
            (Says::Reply(Reply::Call(call)), Some(given))
        }
        None => {
            let text = "No tool that was declared can do this.".to_owned();
            (Says::Reply(Reply::Text(text)), Some(Given::NoTool))
        }
    }
}

/// Returns the texts by which a conversation shows that an act of its scenario was done.
fn texts(scenario: &Scenario, request: &Request) -> BTreeSet<String> {
    let replies = scenario.steps.iter();
    let replies = replies.filter_map(|step| acts::reply(step, request));
    let text = |reply| match reply {
        Reply::Text(text) => Some(text.trim().to_owned()),
        Reply::Call(_) => None,
    };
    replies.filter_map(text).collect()
}
