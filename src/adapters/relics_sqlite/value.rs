//! The forms of domain values in columns: words, JSON, times. Also converts SQLite's errors.

use jiff::Timestamp;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Error, ErrorCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::ports::relics::StoreError;

/// An id or an enum, stored as the text of its JSON string.
#[derive(Debug)]
pub(super) struct Word<T>(pub T);

impl<T: Serialize> ToSql for Word<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match serde_json::to_value(&self.0) {
            Ok(Value::String(text)) => Ok(text.into()),
            Ok(other) => Err(Error::ToSqlConversionFailure(
                format!("not a word: {other}").into(),
            )),
            Err(error) => Err(Error::ToSqlConversionFailure(error.into())),
        }
    }
}

impl<T: DeserializeOwned> FromSql for Word<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = Value::from(value.as_str()?);
        serde_json::from_value(text)
            .map(Self)
            .map_err(FromSqlError::other)
    }
}

/// Any value, stored as JSON.
#[derive(Debug)]
pub(super) struct Json<T>(pub T);

impl<T: Serialize> ToSql for Json<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match serde_json::to_string(&self.0) {
            Ok(text) => Ok(text.into()),
            Err(error) => Err(Error::ToSqlConversionFailure(error.into())),
        }
    }
}

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        serde_json::from_str(value.as_str()?)
            .map(Self)
            .map_err(FromSqlError::other)
    }
}

/// A time, stored as microseconds since 1970.
#[derive(Debug)]
pub(super) struct Time(pub Timestamp);

impl ToSql for Time {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.as_microsecond().into())
    }
}

impl FromSql for Time {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Timestamp::from_microsecond(value.as_i64()?)
            .map(Self)
            .map_err(FromSqlError::other)
    }
}

/// Returns the time as a column stores it: in whole microseconds.
pub(super) fn whole_micros(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Locked(error.to_string())
            }
            Some(
                ErrorCode::DiskFull
                | ErrorCode::ReadOnly
                | ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
                | ErrorCode::PermissionDenied
                | ErrorCode::FileLockingProtocolFailed
                | ErrorCode::OperationAborted
                | ErrorCode::OutOfMemory,
            ) => Self::Unavailable(error.to_string()),
            Some(_) | None => Self::Failed(error.to_string()),
        }
    }
}
