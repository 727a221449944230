//! Identity chains: the history of a name, where each entry is sealed by the hash of the previous one
//! (`raider-lifecycle.md`, identity). Append-only; [`verify`] finds the first changed entry.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// A link of an identity chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CvEntry {
    /// 1 for the first.
    pub seq: u64,
    /// Hash of the previous entry, empty for the first.
    pub prev: String,
    /// SHA-256 over name, seq, prev, kind and data.
    pub hash: String,
    /// The event (`merged`, `merge_failed`, `escalated`, ...).
    pub kind: String,
    /// Details.
    pub data: Value,
}

/// Returns the entry that follows `last` in the chain of `name`.
#[must_use]
pub fn next(name: &str, last: Option<&CvEntry>, kind: &str, data: &Value) -> CvEntry {
    let mut entry = CvEntry {
        seq: last.map_or(0, |last| last.seq) + 1,
        prev: last.map(|last| last.hash.clone()).unwrap_or_default(),
        hash: String::new(),
        kind: kind.to_owned(),
        data: data.clone(),
    };
    entry.hash = hash(name, &entry);
    entry
}

/// Checks the whole chain of `name`, the first entry first.
///
/// # Errors
/// The index of the first entry that does not follow from the previous ones.
pub fn verify(name: &str, chain: &[CvEntry]) -> Result<(), usize> {
    let mut last: Option<&CvEntry> = None;
    for (index, entry) in chain.iter().enumerate() {
        if next(name, last, &entry.kind, &entry.data) != *entry {
            return Err(index);
        }
        last = Some(entry);
    }
    Ok(())
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
        let mut chain: Vec<CvEntry> = Vec::new();
        for (index, kind) in kinds.iter().enumerate() {
            let data = json!({"relic": format!("gt-{index}"), "usd": 0.1});
            chain.push(next(name, chain.last(), kind, &data));
        }
        chain
    }

    #[test]
    fn a_chain_as_appended_is_whole() {
        let chain = chain("horde/raiders/Toast", &["merged", "escalated", "merged"]);
        assert_eq!(verify("horde/raiders/Toast", &chain), Ok(()));
        assert_eq!(verify("horde/raiders/Toast", &[]), Ok(()));
        assert_eq!(chain[0].prev, "");
        assert_eq!(chain[2].prev, chain[1].hash);
        assert_eq!(chain[2].seq, 3);
    }

    #[test]
    fn hash_is_over_sorted_keys_and_stable() {
        let entry = next(
            "Toast",
            None,
            "merged",
            &json!({"b": [1, {"y": 2, "x": 1.5}], "a": "ä\""}),
        );
        let text = r#"{"data":{"a":"ä\"","b":[1,{"x":1.5,"y":2}]},"kind":"merged","name":"Toast","prev":"","seq":1}"#;
        let digest = Sha256::digest(text.as_bytes());
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(entry.hash, hex);
    }

    #[test]
    fn another_name_or_order_breaks_it() {
        let mut chain = chain("Toast", &["merged", "merged", "merged"]);
        assert_eq!(verify("Nux", &chain), Err(0));
        chain.swap(1, 2);
        assert_eq!(verify("Toast", &chain), Err(1));
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
            prop_assert_eq!(verify("Toast", &chain), Err(at));
        }

        #[test]
        fn chain_read_back_from_text_still_verifies(usd in any::<f64>().prop_filter("finite", |f| f.is_finite())) {
            let entry = next("Toast", None, "merged", &json!({"usd": usd}));
            let text = serde_json::to_string(&entry).unwrap();
            let back: CvEntry = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(verify("Toast", &[back]), Ok(()));
        }
    }
}
