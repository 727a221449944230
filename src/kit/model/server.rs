//! The HTTP/1.1 server in front of the model.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use futures_util::stream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, UPGRADE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Response, StatusCode};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::{oneshot, watch};

use super::protocols::{self, Answer, Body, Event};
use super::request::{Protocol, Request};
use super::script::Scenario;
use super::state::{Heard, ModelState, Stray};

/// The maximum size of a request's body: conversations carry images.
const BODY_MAX: usize = 64 << 20;
/// The pause after a connection could not be accepted, which happens when file descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A model on a port of its own on the loopback address, until it is dropped.
#[derive(Debug)]
pub struct Model {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<ModelState>,
    /// Wakes threads that wait for a request.
    heard: Condvar,
    /// Wakes conversations that wait for a gate.
    released: watch::Sender<u64>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, ModelState> {
        // Each change of the state is a single statement, so a panic leaves it consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Model {
    /// Starts a model that has no scenario yet.
    ///
    /// # Errors
    /// When no port or thread is available.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            heard: Condvar::new(),
            released: watch::Sender::new(0),
        });
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let served = Arc::clone(&shared);
        let serve = move || {
            runtime.block_on(async {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
                    return;
                };
                tokio::select! {
                    () = accept(&listener, &served) => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = thread::Builder::new().name("kit-model".to_owned());
        Ok(Self {
            address,
            shared,
            stop: Some(stop),
            thread: Some(thread.spawn(serve)?),
        })
    }

    /// Returns the base URL of the model: `http://127.0.0.1:PORT`, without a path.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the address of [`Self::url`].
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds a scenario; replaces the one with the same marker. Earlier scenarios take precedence.
    pub fn play(&self, scenario: Scenario) {
        self.shared.state().play(scenario);
        self.wake();
    }

    /// Opens the next gate of the scenario with this marker, even if no conversation waits there.
    pub fn release(&self, marker: &str) {
        self.shared.state().release(marker);
        self.wake();
    }

    fn wake(&self) {
        self.shared.released.send_modify(|changes| *changes += 1);
    }

    /// Returns all requests to the model so far, in the order in which they came.
    #[must_use]
    pub fn heard(&self) -> Vec<Heard> {
        self.shared.state().heard.clone()
    }

    /// Returns all other requests so far.
    #[must_use]
    pub fn strays(&self) -> Vec<Stray> {
        self.shared.state().strays.clone()
    }

    /// Waits until `look` finds something in the requests; none at the timeout.
    pub fn wait_for<T>(
        &self,
        within: Duration,
        mut look: impl FnMut(&[Heard]) -> Option<T>,
    ) -> Option<T> {
        let mut found = None;
        let mut missing = |state: &mut ModelState| {
            found = look(&state.heard);
            found.is_none()
        };
        let state = self.shared.state();
        let waited = self
            .shared
            .heard
            .wait_timeout_while(state, within, &mut missing);
        drop(waited);
        found
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // A failed send means that the thread has ended; a panic in it was reported there.
        let _gone = self.stop.take().map(|stop| stop.send(()));
        let _panicked = self.thread.take().map(JoinHandle::join);
    }
}

async fn accept(listener: &tokio::net::TcpListener, shared: &Arc<Shared>) {
    loop {
        let Ok((connection, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            let serve = service_fn(|request| serve(request, &shared));
            let served = http1::Builder::new().serve_connection(TokioIo::new(connection), serve);
            // A program that hangs up or breaks HTTP ends only its own connection.
            let _ended = served.await;
        });
    }
}

type Sent = Response<BoxBody<Bytes, Infallible>>;

async fn serve(request: hyper::Request<Incoming>, shared: &Shared) -> Result<Sent, Infallible> {
    let (head, body) = request.into_parts();
    let route = Route::of(&head.method, head.uri.path(), &head.headers);
    let answer = match route {
        Route::Models => Ok(protocols::models()),
        Route::Refused(status, why) => Err((Protocol::Chat, status, why.to_owned())),
        Route::Count(protocol) => read(body, &head.headers, protocol)
            .await
            .map(|_| protocols::count(protocol)),
        Route::Generate {
            protocol,
            model,
            stream,
        } => match read(body, &head.headers, protocol).await {
            Ok(body) => match protocols::read(protocol, &body, model, stream) {
                Ok(request) => Ok(converse(&request, shared).await),
                Err(why) => Err((protocol, 400, why)),
            },
            Err(refused) => Err(refused),
        },
    };
    let answer = answer.unwrap_or_else(|(protocol, status, why)| {
        let answer = protocols::error(protocol, status, &why);
        shared.state().strays.push(Stray {
            method: head.method.to_string(),
            path: head.uri.path().to_owned(),
            status,
            why,
        });
        answer
    });
    Ok(send(answer))
}

/// Returns the answer to a request, once there is one.
async fn converse(request: &Request, shared: &Shared) -> Answer {
    let mut released = shared.released.subscribe();
    let number = shared.state().hear(request);
    loop {
        released.mark_unchanged();
        let answer = shared.state().answer(number, request, Timestamp::now());
        shared.heard.notify_all();
        if let Some(answer) = answer {
            return answer;
        }
        if released.changed().await.is_err() {
            // The model was dropped, and this connection is about to be.
            return protocols::error(request.protocol, 503, "the model has ended");
        }
    }
}

/// The handler of a request.
enum Route<'a> {
    Generate {
        protocol: Protocol,
        model: Option<&'a str>,
        stream: bool,
    },
    Count(Protocol),
    Models,
    Refused(u16, &'static str),
}

impl<'a> Route<'a> {
    fn of(method: &Method, path: &'a str, headers: &HeaderMap) -> Self {
        if headers.contains_key(UPGRADE) {
            return Self::Refused(426, "the model speaks plain HTTP only");
        }
        let generate = |protocol| Self::Generate {
            protocol,
            model: None,
            stream: false,
        };
        let (route, allowed) = match path {
            "/v1/messages" => (generate(Protocol::Anthropic), Method::POST),
            "/v1/messages/count_tokens" => (Self::Count(Protocol::Anthropic), Method::POST),
            "/v1/responses" => (generate(Protocol::Responses), Method::POST),
            "/v1/chat/completions" => (generate(Protocol::Chat), Method::POST),
            "/v1/models" => (Self::Models, Method::GET),
            other => match Self::gemini(other) {
                Some(route) => (route, Method::POST),
                None => return Self::Refused(404, "the model knows no such path"),
            },
        };
        if *method == allowed {
            route
        } else {
            Self::Refused(405, "the model does not take this method here")
        }
    }

    fn gemini(path: &'a str) -> Option<Self> {
        let (model, verb) = path.strip_prefix("/v1beta/models/")?.rsplit_once(':')?;
        let generate = |stream| Self::Generate {
            protocol: Protocol::Gemini,
            model: Some(model),
            stream,
        };
        match verb {
            "generateContent" => Some(generate(false)),
            "streamGenerateContent" => Some(generate(true)),
            "countTokens" => Some(Self::Count(Protocol::Gemini)),
            _ => None,
        }
    }
}

/// Returns the body as JSON, or the reason why it is refused.
async fn read(
    body: Incoming,
    headers: &HeaderMap,
    protocol: Protocol,
) -> Result<Value, (Protocol, u16, String)> {
    let encoding = headers.get(CONTENT_ENCODING);
    if encoding.is_some_and(|encoding| encoding != "identity") {
        let why = "compressed bodies are not read".to_owned();
        return Err((protocol, 415, why));
    }
    let body = Limited::new(body, BODY_MAX).collect().await;
    let body = body.map_err(|error| {
        let status = if error.is::<LengthLimitError>() {
            413
        } else {
            400
        };
        (protocol, status, error.to_string())
    })?;
    serde_json::from_slice(&body.to_bytes())
        .map_err(|error| (protocol, 400, format!("the body is no JSON: {error}")))
}

fn send(answer: Answer) -> Sent {
    let (kind, body) = match answer.body {
        Body::Json(json) => {
            let body = Full::new(Bytes::from(json.to_string())).boxed();
            ("application/json", body)
        }
        Body::Events(events) => {
            let frames = events.iter().map(frame).map(Ok).collect::<Vec<_>>();
            let body = BodyExt::boxed(StreamBody::new(stream::iter(frames)));
            ("text/event-stream", body)
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    for (name, value) in answer.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    response
}

fn frame(event: &Event) -> Frame<Bytes> {
    let name = event.name.iter().map(|name| format!("event: {name}\n"));
    let name: String = name.collect();
    Frame::data(Bytes::from(format!("{name}data: {}\n\n", event.data)))
}
