//! The context of every verb: the city, the supervisor, and how results are shown.

use std::io::{self, BufRead, IsTerminal};
use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::control::client::seat::Holder;
use crate::control::client::{self, Client, Flow};
use crate::control::protocol::{Op, OpName};
use crate::domain::shown;

use super::answer;
use super::args::Cli;
use super::city::{self, City};
use super::environment;
use super::error::{CliError, Doing};
use super::output::{self, Style};

/// The global flags, and the city once it was looked for.
pub(super) struct Context {
    given: Option<PathBuf>,
    found: Option<City>,
    pub json: bool,
    pub yes: bool,
    pub style: Style,
}

impl Context {
    pub fn new(cli: &Cli) -> Self {
        Self {
            given: cli.city.clone(),
            found: None,
            json: cli.json,
            yes: cli.yes,
            style: Style::of_stdout(),
        }
    }

    /// Returns the city of this call.
    pub fn city(&mut self) -> Result<City, CliError> {
        if let Some(city) = &self.found {
            return Ok(city.clone());
        }
        let city = city::find(self.given.as_deref())?;
        self.found = Some(city.clone());
        Ok(city)
    }

    /// Returns the `city.toml` of this call.
    pub fn city_file(&self) -> Result<PathBuf, CliError> {
        city::file(self.given.as_deref())
    }

    /// A connection to the city's supervisor.
    pub fn client(&mut self) -> Result<Client, CliError> {
        let city = self.city()?;
        Client::connect(&city.socket).map_err(|mut error| {
            let log = city.log();
            // The supervisor does not answer, so point at its log. A foreign socket is another user's: the log is not
            // about it.
            let ours = !client::is_foreign(&city.socket);
            if let (Some(hint), true) = (&mut error.hint, ours && log.is_file()) {
                hint.push_str(&format!("; its log is {}", log.display()));
            }
            if let (Some(holder), true) = (city.seated(), ours) {
                let (said, hint) = of_seated(&holder);
                error.message.push_str(&said);
                error.hint = Some(hint);
            }
            error.into()
        })
    }

    /// Asks the supervisor. Returns the answer as it came.
    pub fn ask_raw(&mut self, op: &Op) -> Result<Value, CliError> {
        Ok(self.client()?.call(op)?)
    }

    /// Asks the supervisor.
    pub fn ask<T: DeserializeOwned>(&mut self, op: &Op) -> Result<T, CliError> {
        answer::read_text(op.name(), &self.client()?.call_text(op)?)
    }

    /// Asks the supervisor, and shows the answer.
    pub fn show<T: DeserializeOwned>(
        &mut self,
        op: &Op,
        render: impl FnOnce(&T, Style) -> String,
    ) -> Result<(), CliError> {
        let text = self.client()?.call_text(op)?;
        if self.json {
            return output::json(&text);
        }
        let answer = answer::read_text(op.name(), &text)?;
        self.print_text(&render(&answer, self.style))
    }

    /// Asks the supervisor, and shows the answer, which is a list.
    pub fn show_list<T: DeserializeOwned>(
        &mut self,
        op: &Op,
        render: impl FnOnce(&[T], Style) -> String,
    ) -> Result<(), CliError> {
        self.show(op, |items: &Vec<T>, style| render(items, style))
    }

    /// Asks the supervisor, shows the answer, and returns it.
    pub fn show_and_return<T: DeserializeOwned>(
        &mut self,
        op: &Op,
        render: impl FnOnce(&T, Style) -> String,
    ) -> Result<T, CliError> {
        let raw = self.ask_raw(op)?;
        if self.json {
            output::json(&raw)?;
            return answer::read(op.name(), &raw);
        }
        let answer = answer::read(op.name(), &raw)?;
        self.print_text(&render(&answer, self.style))?;
        Ok(answer)
    }

    /// Shows an answer, or an item of a stream: as it came with `--json`, else as text by `render`.
    pub fn print_raw<T: DeserializeOwned>(
        &self,
        op: OpName,
        raw: &Value,
        render: impl FnOnce(&T, Style) -> String,
    ) -> Result<(), CliError> {
        if self.json {
            return output::json(raw);
        }
        self.print_text(&render(&answer::read(op, raw)?, self.style))
    }

    /// Shows a result of `hd` itself: as JSON with `--json`, else as text by `render`.
    pub fn print<T: Serialize>(
        &self,
        result: &T,
        render: impl FnOnce(&T, Style) -> String,
    ) -> Result<(), CliError> {
        if self.json {
            let json = serde_json::to_value(result);
            return output::json(&json.map_err(|error| CliError::failed(error.to_string()))?);
        }
        self.print_text(&render(result, self.style))
    }

    fn print_text(&self, text: &str) -> Result<(), CliError> {
        if text.is_empty() {
            return Ok(());
        }
        output::line(text)
    }

    /// Shows the items of a stream as they come.
    pub fn follow<T: DeserializeOwned>(
        &mut self,
        op: &Op,
        render: fn(&T, Style) -> String,
    ) -> Result<(), CliError> {
        let mut client = self.client()?;
        client.stream(op, |item| {
            self.print_raw(op.name(), &item, render)
                .map(|()| Flow::Continue)
        })
    }

    /// Returns whether standard output is a terminal.
    pub fn on_terminal(&self) -> bool {
        io::stdout().is_terminal() && !self.json
    }

    /// Returns whether a person can be asked. Never in the terminal of a session: the agent there would hang on the
    /// question, and the decision is not the agent's.
    pub fn can_ask() -> bool {
        let in_session = environment::raw("HD_SESSION").is_some();
        !in_session && io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Asks for consent to something destructive: `--yes`, or a person's answer. Without either it fails.
    pub fn consent(&self, question: &str) -> Result<(), CliError> {
        if self.yes {
            return Ok(());
        }
        if !Self::can_ask() {
            return Err(
                CliError::usage(format!("this needs confirmation: {question}")).hint("pass --yes"),
            );
        }
        eprint!("{} [y/N] ", shown::lines(question));
        let mut answer = String::new();
        io::stdin()
            .lock()
            .read_line(&mut answer)
            .doing("standard input")?;
        if matches!(answer.trim(), "y" | "Y" | "yes") {
            Ok(())
        } else {
            Err(CliError::failed("not done"))
        }
    }
}

/// Returns words about the process that holds the path of a city whose socket does not answer, and a hint.
fn of_seated(Holder { pid, stranger }: &Holder) -> (String, String) {
    match stranger {
        None => (
            format!(
                "; but a supervisor (pid {pid}) runs for this path: it is starting or ending, or the city's \
                directory was moved, removed or replaced while it ran"
            ),
            format!(
                "where the directory was replaced, it ends its sessions and itself within seconds: try again \
                then. If it does not end, `kill {pid}` ends it"
            ),
        ),
        Some(name) => (
            format!(
                "; but a process (pid {pid}, {name}) has the socket by which a supervisor holds this path, and is \
                none by its name"
            ),
            format!("no supervisor starts here before it has ended: `kill {pid}` ends it"),
        ),
    }
}
