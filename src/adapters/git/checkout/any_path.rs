//! A path of any bytes as JSON, for `#[serde(with)]`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

pub(super) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    path.as_os_str().serialize(to)
}

pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<PathBuf, D::Error> {
    OsString::deserialize(from).map(PathBuf::from)
}
