//! `hd config`: works on the files alone, whether a supervisor runs or not.

use serde_json::{Value, json};

use super::systemd;
use crate::cli::args::ConfigVerb;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::output::{self, Style};
use crate::config::{self, Diagnostics, Env, Loaded};

pub(super) fn run(verb: &ConfigVerb, context: &Context) -> Result<(), CliError> {
    match verb {
        ConfigVerb::Check => {
            let loaded = load(context)?;
            let result = json!({
                "ok": true,
                "revision": loaded.city.revision,
                "warnings": loaded.warnings.to_json(),
                "errors": [],
            });
            print(context, &loaded, &result, &summary(&loaded))
        }
        ConfigVerb::Show => {
            let loaded = load(context)?;
            let result = config::show_json(&loaded);
            print(context, &loaded, &result, &config::show(&loaded))
        }
        ConfigVerb::Schema => match config::schema() {
            schema if context.json => output::json(&schema),
            schema => output::line(&format!("{schema:#}")),
        },
        ConfigVerb::Systemd { user } => {
            let loaded = load(context)?;
            let unit = systemd::unit(&loaded.city, *user)?;
            print(context, &loaded, &json!({ "unit": unit }), &unit)
        }
    }
}

fn print(context: &Context, loaded: &Loaded, result: &Value, text: &str) -> Result<(), CliError> {
    if context.json {
        return output::json(result);
    }
    if !loaded.warnings.is_empty() {
        output::message(&loaded.warnings.render(Style::of_stderr().color));
    }
    output::line(text)
}

/// Loads the configuration, or returns all of its errors.
pub(super) fn load(context: &Context) -> Result<Loaded, CliError> {
    let path = context.city_file()?;
    config::load(&path, &Env::of_process()).map_err(|errors| {
        if context.json {
            let result = json!({"ok": false, "errors": errors.to_json()});
            if let Err(unprinted) = output::json(&result) {
                return unprinted;
            }
        } else {
            output::message(&errors.render(Style::of_stderr().color));
        }
        CliError::usage(count(&errors))
    })
}

fn count(errors: &Diagnostics) -> String {
    match errors.iter().count() {
        1 => "the configuration has an error".to_owned(),
        many => format!("the configuration has {many} errors"),
    }
}

fn summary(loaded: &Loaded) -> String {
    let city = &loaded.city;
    let (rigs, agents) = (city.rigs.len(), city.agents.len());
    format!(
        "{} is valid: rigs {rigs}, agents {agents} ({})",
        city.name, city.revision
    )
}
