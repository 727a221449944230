//! A completion that was declared while the supervisor was down: `hd done` leaves it in `<city>/.horde/outbox/`, and
//! the supervisor takes it up at its next start. It is signed with a key that only its session has, because a file
//! alone does not prove its author.

use std::fmt;
use std::path::PathBuf;

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::Sha256;

use super::ids::{Incarnation, SessionId};

/// The variable that holds the key in a raider's session.
pub const KEY_VARIABLE: &str = "HD_KEY";

/// A file of the outbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    /// Version of the protocol that it was written with.
    pub v: u64,
    /// The operation (`done`).
    pub op: String,
    /// Its arguments, as on the socket.
    pub args: Map<String, Value>,
    /// `HD_ACTOR` or `HD_RAIDER` of the session.
    pub raider: Option<String>,
    /// `HD_RIG` of the session.
    pub rig: Option<String>,
    /// `HD_INCARNATION` of the session: an intent of an earlier one is void.
    pub incarnation: Option<u64>,
    /// `HD_RELIC` of the session.
    pub relic: Option<String>,
    /// `HD_SESSION` of the session.
    pub session: Option<String>,
    /// The caller's working directory.
    pub cwd: PathBuf,
    /// The caller's process.
    pub pid: u32,
    /// When it was written.
    pub at: Timestamp,
    /// The signature of all fields: their HMAC-SHA-256 under the session's key, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
}

impl Intent {
    /// Adds the signature that the key makes.
    ///
    /// # Errors
    /// It has no JSON form: the name of its directory is not text.
    pub fn signed(mut self, key: &str) -> serde_json::Result<Self> {
        self.mac = Some(hex(&self.under(key)?.finalize().into_bytes()));
        Ok(self)
    }

    /// Returns true when the signature is the one that the key makes.
    #[must_use]
    pub fn is_signed(&self, key: &str) -> bool {
        let claimed = self.mac.as_deref().and_then(bytes);
        match (self.under(key), claimed) {
            (Ok(made), Some(claimed)) => made.verify_slice(&claimed).is_ok(),
            (Ok(_) | Err(_), _) => false,
        }
    }

    fn under(&self, key: &str) -> serde_json::Result<Hmac<Sha256>> {
        let plain = Self {
            mac: None,
            ..self.clone()
        };
        let mut mac = keyed(key.as_bytes());
        mac.update(&serde_json::to_vec(&plain)?);
        Ok(mac)
    }
}

/// The secret from which the keys of a city's sessions are derived. Only the supervisor reads it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

impl Secret {
    /// Makes a secret of random bytes.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the key of one incarnation of a raider's session; it is the same at each start.
    #[must_use]
    pub fn key(&self, session: &SessionId, incarnation: Incarnation) -> String {
        let mut mac = keyed(&self.0);
        mac.update(format!("outbox {session} {}", incarnation.0).as_bytes());
        hex(&mac.finalize().into_bytes())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("a key of any length")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pairs = hex.as_bytes().chunks(2);
    let pair = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intent() -> Intent {
        serde_json::from_str(include_str!("../../tests/data/protocol/intent.json")).unwrap()
    }

    #[test]
    fn signature_holds_for_the_intent_and_the_session_that_made_it() {
        let secret = Secret::new([1; 32]);
        let (toast, nux) = ["gt-horde-Toast", "gt-horde-Nux"]
            .map(|id| SessionId::new(id).unwrap())
            .into();
        let key = secret.key(&toast, Incarnation(3));
        let signed = intent().signed(&key).unwrap();
        assert!(signed.is_signed(&key));
        let written = serde_json::to_string_pretty(&signed).unwrap();
        let again: Intent = serde_json::from_str(&written).unwrap();
        assert!(again.is_signed(&key), "as a file, too");
        for other in [
            secret.key(&nux, Incarnation(3)),
            secret.key(&toast, Incarnation(4)),
            Secret::new([2; 32]).key(&toast, Incarnation(3)),
            String::new(),
        ] {
            assert!(!signed.is_signed(&other));
        }
        assert!(!intent().is_signed(&key), "it has no signature");
        let changed = Intent {
            relic: Some("gt-2".into()),
            ..signed.clone()
        };
        let garbled = Intent {
            mac: Some("é".into()),
            ..signed
        };
        assert!(!changed.is_signed(&key) && !garbled.is_signed(&key));
    }
}
