//! Identity chains: the history of a name, where each entry is sealed by the hash of the previous one
//! (`raider-lifecycle.md`, identity). Append-only; [`Head::follow`] finds the first changed entry.
//!
//! The hash of an entry is SHA-256, in lower-case hex, over the canonical JSON (UTF-8, no spaces, keys in the order of
//! their bytes) of `{"data":..,"kind":..,"name":..,"prev":..,"seq":..}`. A golden file keeps this form.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// An entry of an identity chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CvEntry {
    /// 1 for the first.
    pub seq: u64,
    /// Hash of the previous entry, empty for the first.
    pub prev: String,
    /// SHA-256 over name, seq, prev, kind and data.
    pub hash: String,
    /// The result (`merged`, `merge_failed`, `escalated`, ...).
    pub kind: String,
    /// Details.
    pub data: Value,
}

/// The end of a chain: number and hash of its last entry; 0 and empty before the first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Head {
    /// The number of the last entry.
    pub seq: u64,
    /// Its hash.
    pub hash: String,
}

words! {
    /// The reason why an entry does not follow from those before it.
    #[derive(JsonSchema)]
    Flaw {
        /// An entry is missing, or there are too many.
        Missing => "missing",
        /// It does not name the hash of the entry before it.
        Unlinked => "unlinked",
        /// Its hash is not that of its content.
        Changed => "changed",
        /// Its columns in the store are not those of its data.
        Columns => "columns",
        /// The noted end of the chain does not have it.
        Unnoted => "unnoted",
    }
}

impl Flaw {
    /// Returns the reason as the end of a sentence about the entry.
    #[must_use]
    pub fn says(self) -> &'static str {
        match self {
            Self::Missing => "is missing",
            Self::Unlinked => "does not follow the entry before it",
            Self::Changed => "was changed: its hash is not that of its content",
            Self::Columns => "has columns in the store that differ from its data",
            Self::Unnoted => "is not what the noted end of the chain says",
        }
    }
}

/// The place at which a chain breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Break {
    /// The number of the first entry that does not follow.
    pub seq: u64,
    /// The reason.
    pub flaw: Flaw,
}

impl Head {
    /// Returns the entry that follows in the chain of `name`.
    #[must_use]
    pub fn next(&self, name: &str, kind: &str, data: &Value) -> CvEntry {
        let mut entry = CvEntry {
            seq: self.seq + 1,
            prev: self.hash.clone(),
            hash: String::new(),
            kind: kind.to_owned(),
            data: data.clone(),
        };
        entry.hash = hash(name, &entry);
        entry
    }

    /// Checks that an entry follows in the chain of `name`, and moves on to it.
    ///
    /// # Errors
    /// [`Break`] with the number that the entry should have.
    pub fn follow(&mut self, name: &str, entry: &CvEntry) -> Result<(), Break> {
        let seq = self.seq + 1;
        let broken = |flaw| Err(Break { seq, flaw });
        if entry.seq != seq {
            return broken(Flaw::Missing);
        }
        if entry.prev != self.hash {
            return broken(Flaw::Unlinked);
        }
        if entry.hash != hash(name, entry) {
            return broken(Flaw::Changed);
        }
        (self.seq, self.hash) = (seq, entry.hash.clone());
        Ok(())
    }
}

/// Checks the whole chain of `name`, the first entry first, and returns its end.
///
/// # Errors
/// The first entry that does not follow from the previous ones.
pub fn verify(name: &str, chain: &[CvEntry]) -> Result<Head, Break> {
    let mut head = Head::default();
    for entry in chain {
        head.follow(name, entry)?;
    }
    Ok(head)
}

/// Returns the SHA-256, in hex, over the canonical JSON of everything in the entry but its hash.
fn hash(name: &str, entry: &CvEntry) -> String {
    let sealed = serde_json::json!({
        "name": name,
        "seq": entry.seq,
        "prev": entry.prev,
        "kind": entry.kind,
        "data": entry.data,
    });
    let mut text = String::new();
    canonical(&sealed, &mut text);
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes JSON without spaces and with sorted keys. `Value` keeps its keys sorted only while no crate in the build
/// enables serde_json's `preserve_order`, so they are sorted here.
fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (index, (key, value)) in fields.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                canonical(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, value) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                canonical(value, out);
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push_str(&value.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn chain(name: &str, kinds: &[&str]) -> Vec<CvEntry> {
        let mut head = Head::default();
        let mut chain: Vec<CvEntry> = Vec::new();
        for (index, kind) in kinds.iter().enumerate() {
            let data = json!({"relic": format!("gt-{index}"), "usd": 0.1});
            let entry = head.next(name, kind, &data);
            head.follow(name, &entry).unwrap();
            chain.push(entry);
        }
        chain
    }

    fn broken(seq: u64, flaw: Flaw) -> Result<Head, Break> {
        Err(Break { seq, flaw })
    }

    #[test]
    fn a_chain_as_appended_is_whole() {
        let chain = chain("claude", &["merged", "escalated", "merged"]);
        let head = verify("claude", &chain).unwrap();
        assert_eq!((head.seq, &head.hash), (3, &chain[2].hash));
        assert_eq!(verify("claude", &[]), Ok(Head::default()));
        assert_eq!(chain[0].prev, "");
        assert_eq!(chain[2].prev, chain[1].hash);
        assert_eq!(chain[2].seq, 3);
    }

    #[test]
    fn hash_is_over_sorted_keys_and_stable() {
        let entry = Head::default().next(
            "Toast",
            "merged",
            &json!({"b": [1, {"y": 2, "x": 1.5}], "a": "ä\""}),
        );
        let text = r#"{"data":{"a":"ä\"","b":[1,{"x":1.5,"y":2}]},"kind":"merged","name":"Toast","prev":"","seq":1}"#;
        let digest = Sha256::digest(text.as_bytes());
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(entry.hash, hex);
    }

    #[test]
    fn another_name_order_or_gap_breaks_it_at_that_entry() {
        let whole = chain("Toast", &["merged", "merged", "merged"]);
        assert_eq!(verify("Nux", &whole), broken(1, Flaw::Changed));
        let mut swapped = whole.clone();
        swapped.swap(1, 2);
        assert_eq!(verify("Toast", &swapped), broken(2, Flaw::Missing));
        let mut relinked = whole.clone();
        relinked[1].prev = "0".repeat(64);
        assert_eq!(verify("Toast", &relinked), broken(2, Flaw::Unlinked));
        assert_eq!(verify("Toast", &whole[1..]), broken(1, Flaw::Missing));
    }

    /// A change of this file means that chains of older versions no longer verify.
    #[test]
    fn format_of_a_chain_is_that_of_the_golden_file() {
        let golden = include_str!("../../tests/data/identity/chain.jsonl");
        let stored: Vec<CvEntry> = golden
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(stored.len(), 3);
        assert!(verify("claude/opus-4.5", &stored).is_ok());
        let mut head = Head::default();
        for entry in &stored {
            let again = head.next("claude/opus-4.5", &entry.kind, &entry.data);
            assert_eq!(again, *entry);
            head.follow("claude/opus-4.5", &again).unwrap();
        }
    }

    proptest! {
        #[test]
        fn any_changed_entry_is_found(at in 0usize..5, what in 0usize..5) {
            let mut chain = chain("Toast", &["a", "b", "c", "d", "e"]);
            match what {
                0 => chain[at].kind.push('x'),
                1 => chain[at].data = json!({"relic": "other"}),
                2 => chain[at].seq += 1,
                3 => chain[at].prev.push('0'),
                _ => chain[at].hash = "0".repeat(64),
            }
            let found = verify("Toast", &chain).map_err(|broken| broken.seq);
            prop_assert_eq!(found, Err(at as u64 + 1));
        }

        #[test]
        fn chain_read_back_from_text_still_verifies(usd in any::<f64>().prop_filter("finite", |f| f.is_finite())) {
            let entry = Head::default().next("Toast", "merged", &json!({"usd": usd}));
            let text = serde_json::to_string(&entry).unwrap();
            let back: CvEntry = serde_json::from_str(&text).unwrap();
            prop_assert!(verify("Toast", &[back]).is_ok());
        }
    }
}
