//! `hd config show`: the effective configuration, every default filled in. It can be loaded again.

use super::Loaded;
use super::document::plain;

/// Renders it as TOML.
#[must_use]
pub fn show(loaded: &Loaded) -> String {
    toml::to_string_pretty(&plain(&loaded.effective))
        .expect("a document that was read as TOML can be written as TOML")
}

/// Renders it as JSON.
#[must_use]
pub fn show_json(loaded: &Loaded) -> serde_json::Value {
    serde_json::to_value(plain(&loaded.effective))
        .expect("numbers of TOML, tables and strings are JSON")
}
