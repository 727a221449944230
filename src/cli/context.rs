//! The context of every verb: the city, the supervisor, and how results are shown.

use std::io::{self, BufRead, IsTerminal};
use std::path::PathBuf;

use serde_json::Value;

use crate::control::client::{self, Client, Flow};
use crate::control::protocol::Op;
use crate::domain::shown;

use super::args::Cli;
use super::city::{self, City};
use super::environment;
use super::error::{CliError, Doing};
use super::output::{self, Style};

/// Turns a result into text for people.
pub(super) type Render = fn(&Value, Style) -> String;

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
            error.into()
        })
    }

    /// Asks the supervisor.
    pub fn ask(&mut self, op: &Op) -> Result<Value, CliError> {
        Ok(self.client()?.call(op)?)
    }

    /// Asks the supervisor and shows the result.
    pub fn show(&mut self, op: &Op, render: Render) -> Result<(), CliError> {
        let result = self.ask(op)?;
        self.print(&result, render)
    }

    /// Shows a result: as JSON with `--json`, else as text by `render`.
    pub fn print(&self, result: &Value, render: Render) -> Result<(), CliError> {
        if self.json {
            return output::json(result);
        }
        let text = render(result, self.style);
        if text.is_empty() {
            return Ok(());
        }
        output::line(&text)
    }

    /// Shows the items of a stream as they come.
    pub fn follow(&mut self, op: &Op, render: Render) -> Result<(), CliError> {
        let client = self.client()?;
        client.stream(op, |item| {
            self.print(&item, render).map(|()| Flow::Continue)
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
