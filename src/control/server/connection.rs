//! A single connection: reads a line, writes an answer, until the peer goes or the server stops.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::codec::FramedRead;

use crate::control::codec::{Line, LineCodec};
use crate::control::protocol::{
    Body, ControlError, ErrorKind, LINE_MAX, Op, Request, Response, done_line, item_line,
};
use crate::control::rights;

use super::connection_limits::{ConnectionPermit, Doing};
use super::{Answer, Caller, Items, Service, WRITE_LIMIT, stopped};

/// The interval of checking for a hangup of a peer that closed its sending half, while a stream is silent.
const HANGUP_TICK: Duration = Duration::from_secs(10);

/// The limit after which an idle connection is closed.
const IDLE_LIMIT: Duration = Duration::from_secs(600);

/// The state of the connection after a request.
#[derive(PartialEq, Eq)]
enum Next {
    Line,
    Close,
}

struct Connection<S> {
    lines: FramedRead<OwnedReadHalf, LineCodec>,
    writer: OwnedWriteHalf,
    caller: Caller,
    service: Arc<S>,
    stopping: watch::Receiver<bool>,
    place: ConnectionPermit,
}

/// Serves an admitted peer to its end.
pub(super) async fn run<S: Service>(
    stream: UnixStream,
    caller: Caller,
    service: Arc<S>,
    stopping: watch::Receiver<bool>,
    place: ConnectionPermit,
) {
    let (reader, writer) = stream.into_split();
    let mut connection = Connection {
        lines: FramedRead::new(reader, LineCodec::default()),
        writer,
        caller,
        service,
        stopping,
        place,
    };
    if let Err(error) = connection.serve().await {
        tracing::debug!(%error, pid = connection.caller.pid, "a control connection ended with an I/O error");
    }
}

impl<S: Service> Connection<S> {
    async fn serve(&mut self) -> io::Result<()> {
        loop {
            let line = tokio::select! {
                biased;
                () = stopped(&mut self.stopping) => return Ok(()),
                line = self.lines.next() => line,
                () = self.place.is_needed() => return self.close("another connection needed its place").await,
                () = tokio::time::sleep(IDLE_LIMIT) => return self.close("it sent no request").await,
            };
            let Some(line) = line.transpose()? else {
                return Ok(());
            };
            self.place.does(Doing::Busy);
            if self.line(line).await? == Next::Close {
                return Ok(());
            }
            self.place.does(Doing::Idle);
        }
    }

    /// Tells the peer why an idle connection is closed.
    async fn close(&mut self, why: &str) -> io::Result<()> {
        let error = ControlError::unavailable(format!("an idle connection was closed: {why}"));
        self.write(Value::Null, Body::Failed(error)).await
    }

    async fn line(&mut self, line: Line) -> io::Result<Next> {
        let text = match line {
            Line::Text(text) => text,
            Line::NotText => {
                let error = ControlError::bad_request("the line is not UTF-8");
                self.write(Value::Null, Body::Failed(error)).await?;
                return Ok(Next::Line);
            }
            Line::TooLong => {
                let error =
                    ControlError::bad_request(format!("a line is longer than {LINE_MAX} bytes"));
                self.write(Value::Null, Body::Failed(error)).await?;
                return Ok(Next::Close);
            }
        };
        let request = match Request::parse(&text) {
            Ok(request) => request,
            Err(rejected) => {
                self.write(rejected.id, Body::Failed(rejected.error))
                    .await?;
                return Ok(Next::Line);
            }
        };
        let id = request.id.clone();
        let (op, asked) = (request.op, Instant::now());
        let answer = self.ask(request).await;
        let error = answer.as_ref().err();
        let failed = error.map(|error| error.kind);
        if let Some(error) = error.filter(|error| error.kind == ErrorKind::Forbidden) {
            self.service.forbidden(&self.caller, Some(op), error);
        }
        self.service.answered(op, failed, asked.elapsed());
        match answer {
            Ok(Answer::Value(result)) => self.write(id, Body::Done(result)).await?,
            Ok(Answer::Text(result)) => self.write_line(done_line(&id, &result)).await?,
            Ok(Answer::Stream(items)) => return self.stream(id, items).await,
            Err(error) => self.write(id, Body::Failed(error)).await?,
        }
        Ok(Next::Line)
    }

    /// Checks rights, then arguments, then calls the service.
    async fn ask(&self, request: Request) -> Result<Answer, ControlError> {
        let rights_of = |session: &_| self.service.rights(session);
        rights::check(&self.caller.who, request.op, rights_of)?;
        let op = Op::parse(request.op, request.args)?;
        op.consented()?;
        // A task of its own: the call ends by itself even if this peer goes away, and a panic becomes an error answer
        // instead of ending the connection.
        let call = tokio::spawn(self.service.call(self.caller.clone(), op));
        call.await.unwrap_or_else(|failed| {
            tracing::error!(error = %failed, op = %request.op, "a control request panicked; its caller gets an internal error");
            Err(
                ControlError::internal(format!("{} failed with an internal error", request.op))
                    .hint("the supervisor's log has the details"),
            )
        })
    }

    /// Sends a stream, which owns its connection: lines behind it wait until it has ended.
    async fn stream(&mut self, id: Value, mut items: Items) -> io::Result<Next> {
        self.place.does(Doing::Streaming);
        loop {
            let said = tokio::select! {
                biased;
                item = items.recv() => match item {
                    Some(Ok(item)) => {
                        self.write_line(item_line(&id, &item)).await?;
                        continue;
                    }
                    Some(Err(error)) => Body::Failed(error),
                    None => Body::Done(Value::Null),
                },
                () = stopped(&mut self.stopping) => {
                    Body::Failed(ControlError::unavailable("the supervisor is stopping"))
                }
                () = self.place.is_needed() => {
                    Body::Failed(ControlError::unavailable("another connection needed the place of this stream"))
                }
                () = hung_up(self.lines.get_ref()) => return Ok(Next::Close),
            };
            let next = match said {
                Body::Failed(_) => Next::Close,
                Body::Done(_) | Body::Item(_) => Next::Line,
            };
            self.write(id, said).await?;
            return Ok(next);
        }
    }

    async fn write(&mut self, id: Value, body: Body) -> io::Result<()> {
        self.write_line(Response { id, body }.line()).await
    }

    async fn write_line(&mut self, mut line: String) -> io::Result<()> {
        line.push('\n');
        tokio::time::timeout(WRITE_LIMIT, self.writer.write_all(line.as_bytes()))
            .await
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the peer does not read"))?
    }
}

/// Returns when the peer has closed both ways. A peer that only stopped sending (`echo .. | socat`) still reads; only
/// polling tells the difference.
async fn hung_up(reader: &OwnedReadHalf) {
    // If this fails, the next write reports the error.
    let _readable = reader.ready(Interest::READABLE).await;
    loop {
        let stream: &UnixStream = reader.as_ref();
        let mut fds = [PollFd::new(stream, PollFlags::empty())];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        if poll(&mut fds, Some(&now)).is_ok()
            && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
        {
            return;
        }
        tokio::time::sleep(HANGUP_TICK).await;
    }
}
