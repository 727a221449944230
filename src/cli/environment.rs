//! The environment of this process. Every other file of the command line asks here.
#![expect(
    clippy::disallowed_methods,
    reason = "the command line runs without a supervisor that could hand it an environment"
)]

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

/// Returns the value of a variable, which may be empty.
pub fn raw(name: &str) -> Option<OsString> {
    env::var_os(name)
}

/// Returns the value of a variable, unless it is empty.
pub fn value(name: &str) -> Option<OsString> {
    raw(name).filter(|value| !value.is_empty())
}

/// Returns the value of a variable, unless it is empty or no UTF-8.
pub fn text(name: &str) -> Option<String> {
    value(name)?.into_string().ok()
}

/// Returns all variables that are UTF-8.
pub fn all() -> BTreeMap<String, String> {
    let pairs = env::vars_os().map(|(name, value)| (name.into_string(), value.into_string()));
    pairs
        .filter_map(|(name, value)| name.ok().zip(value.ok()))
        .collect()
}

/// Returns where a program may be, by the `PATH`, in its order.
pub fn places(program: &str) -> Vec<PathBuf> {
    let path = raw("PATH");
    let dirs = path.iter().flat_map(env::split_paths);
    dirs.map(|dir| dir.join(program)).collect()
}
