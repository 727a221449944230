//! Reads the supervisor's answers into their types, in one place. Fields that this `hd` does not know are ignored: a
//! newer supervisor may have added them.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::CliError;
use crate::control::protocol::OpName;

/// Reads the answer to an operation, or an item of its stream.
///
/// # Errors
/// The answer lacks something, or has a word that this `hd` does not know.
pub(super) fn read<T: DeserializeOwned>(op: OpName, answer: &Value) -> Result<T, CliError> {
    T::deserialize(answer).map_err(|error| unknown(op, &error))
}

/// Reads the answer to an operation from its JSON text.
///
/// # Errors
/// As [`read`].
pub(super) fn read_text<T: DeserializeOwned>(op: OpName, answer: &str) -> Result<T, CliError> {
    serde_json::from_str(answer).map_err(|error| unknown(op, &error))
}

fn unknown(op: OpName, error: &serde_json::Error) -> CliError {
    let message = format!(
        "the supervisor answered {op} with something that this hd ({}) does not know: {error}",
        env!("CARGO_PKG_VERSION")
    );
    CliError::failed(message).hint(
            "the request was carried out: do not repeat it; `hd ping --json` shows the supervisor's version: if it \
             differs, `hd stop --keep-sessions` and `hd up -d` start the installed one",
        )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::control::protocol::Exit;
    use crate::control::protocol::answers::{Nuke, Pong, Shown};

    #[test]
    fn field_of_a_newer_supervisor_is_ignored() {
        let answer = json!({ "city": "c", "pid": 1, "version": "99", "mood": "good" });
        assert_eq!(read::<Pong>(OpName::Ping, &answer).unwrap().version, "99");
    }

    /// An answer of several forms is told apart by one field.
    #[test]
    fn answer_of_several_forms_that_does_not_fit_is_an_error_that_names_the_field() {
        let rehearsed =
            json!({ "raider": "horde/raiders/Toast", "incarnation": 1, "would": "nuke" });
        let error = read::<Nuke>(OpName::RaiderNuke, &rehearsed).unwrap_err();
        assert!(error.message.contains("`safe`"), "{}", error.message);
        let escalation = json!({ "severity": "odd" });
        let error = read::<Shown>(OpName::RelicShow, &escalation).unwrap_err();
        assert!(!error.message.contains("any variant"), "{}", error.message);
    }

    #[test]
    fn text_of_an_answer_is_read_as_the_answer_itself() {
        let answer = json!({ "city": "c", "pid": 1, "version": "1", "mood": "good" });
        let read = read_text::<Pong>(OpName::Ping, &answer.to_string());
        assert_eq!(read.unwrap().city, "c");
        let error = read_text::<Pong>(OpName::Ping, "null").unwrap_err();
        let told = "answered ping with something that this hd";
        assert!(error.message.contains(told), "{}", error.message);
    }

    #[test]
    fn answer_that_does_not_fit_is_an_error_that_names_the_operation_and_the_field() {
        let answer = json!({ "city": "c", "pid": 1 });
        let error = read::<Pong>(OpName::Ping, &answer).unwrap_err();
        assert_eq!(error.exit, Exit::Failed);
        let told = "answered ping with something that this hd";
        assert!(error.message.contains(told), "{}", error.message);
        assert!(error.message.contains("`version`"), "{}", error.message);
        assert!(error.hint.unwrap().contains("hd ping --json"));
    }
}
