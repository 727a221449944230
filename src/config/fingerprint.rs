//! Hashes that tell a change: the revision of all sources, and the fingerprint of an agent's settings.

use std::path::PathBuf;

use sha2::{Digest, Sha256};

use crate::domain::city::{Agent, Provider};

/// Returns the hash of every setting of an agent that only a fresh session can apply: command, first input, prompt
/// (with its file's text), directory, configured environment, names of passed variables, and provider. Leaves out
/// `restart`, `rights`, `shutdown_timeout`, `process_names` and `on_compact`, which take effect at once, and inherited
/// values.
pub fn agent(agent: &Agent, prompt: &str, provider: Provider) -> String {
    let mut hash = Fields::default();
    hash.list("command", &agent.command);
    hash.list("first_input", agent.first_input.iter());
    hash.list("prompt", [prompt]);
    hash.list("dir", [agent.dir.as_os_str().as_encoded_bytes()]);
    let env = agent
        .env
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    hash.list("env", env);
    hash.list("env_pass", &agent.env_pass);
    hash.list("provider", [format!("{provider:?}")]);
    hash.finish()
}

/// Returns the hash of the path and the bytes of every source, in order.
pub fn revision(sources: &[(PathBuf, Vec<u8>)]) -> String {
    let mut hash = Fields::default();
    for (path, bytes) in sources {
        hash.list(&path.to_string_lossy(), [bytes]);
    }
    hash.finish()
}

/// Hashes fields. Every field and every element carries its length, so that different lists of fields never give the
/// same bytes.
#[derive(Default)]
struct Fields(Sha256);

impl Fields {
    fn list(&mut self, name: &str, elements: impl IntoIterator<Item = impl AsRef<[u8]>>) {
        self.bytes(name.as_bytes());
        let elements: Vec<_> = elements.into_iter().collect();
        self.0.update((elements.len() as u64).to_be_bytes());
        for element in elements {
            self.bytes(element.as_ref());
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    fn finish(self) -> String {
        let digest = self.0.finalize();
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("sha256:{hex}")
    }
}
