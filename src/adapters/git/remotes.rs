//! The remotes of a rig in the settings of both repositories.

use std::collections::BTreeSet;

use super::addresses::{self, Address, Addresses};
use super::config_text::Settings;
use super::rig::PUSH_URL_KEY;

/// The end of the name of a remote that nothing uses. It has the URL of another one as it is written, which the user's conditions
/// compare (`hasconfig:remote.*.url`). No ref can have the name.
pub(super) const AS_WRITTEN: &str = " as written";

/// Keys of a remote that are taken over; its refspecs and addresses are ours.
const KEYS: &[&str] = &[
    "proxy",
    "proxyauthmethod",
    "tagopt",
    "uploadpack",
    "vcs",
    "lfsurl",
    "lfspushurl",
];

/// The remotes of a rig, `origin` among them.
#[derive(Debug)]
pub(super) struct Remotes {
    addresses: Addresses,
    origin: Address,
    /// Their other settings.
    settings: Settings,
    /// More addresses that git must use as they are.
    pinned: Vec<String>,
}

impl Remotes {
    /// Begins with the addresses and all settings of remotes. Without an `origin`, it is at `own`.
    pub(super) fn of(mut addresses: Addresses, own: &str, settings: Settings) -> Self {
        let of_own = || Address {
            written: own.to_owned(),
            fetch: own.to_owned(),
            push: own.to_owned(),
        };
        let origin = addresses.remove("origin").unwrap_or_else(of_own);
        Self {
            addresses,
            origin,
            settings,
            pinned: Vec::new(),
        }
    }

    /// Adds addresses that git must use as they are.
    pub(super) fn with_pins(mut self, more: impl IntoIterator<Item = String>) -> Self {
        self.pinned.extend(more);
        self
    }

    /// Returns the addresses of `origin`.
    pub(super) fn origin(&self) -> &Address {
        &self.origin
    }

    /// Returns the remotes for ours: each with its final address, `origin` with the one that is pushed to. Their refs are always
    /// named in the command, and a push changes none of them.
    pub(super) fn ours(&self) -> Settings {
        let mut settings = vec![(PUSH_URL_KEY.to_owned(), Some(self.origin.push.clone()))];
        for (name, address) in self.all() {
            let is_origin = name == "origin";
            let url = if is_origin {
                &address.push
            } else {
                &address.fetch
            };
            settings.push(setting(name, "url", url));
            settings.extend(self.of_remote(name));
            if address.written != *url {
                let unused = format!("{name}{AS_WRITTEN}");
                settings.push(setting(&unused, "url", &address.written));
            }
        }
        settings
    }

    /// Returns the remotes for theirs: each with its URL as it is written.
    pub(super) fn theirs(&self) -> Settings {
        let mut settings = Settings::new();
        for (name, address) in self.all() {
            settings.push(setting(name, "url", &address.written));
            settings.extend(self.of_remote(name));
            let refspec = format!("+refs/heads/*:refs/remotes/{name}/*");
            settings.push(setting(name, "fetch", &refspec));
        }
        settings
    }

    /// Returns the settings that keep git from rewriting the addresses of ours.
    pub(super) fn pins(&self) -> Settings {
        let urls = self.all().flat_map(|(_, it)| [&it.fetch, &it.push]);
        let all: BTreeSet<&String> = urls.chain(&self.pinned).collect();
        addresses::pins(all)
    }

    fn all(&self) -> impl Iterator<Item = (&str, &Address)> {
        let others = self.addresses.iter();
        let others = others.map(|(name, address)| (name.as_str(), address));
        [("origin", &self.origin)].into_iter().chain(others)
    }

    fn of_remote(&self, name: &str) -> Settings {
        let is_taken_over = |key: &str| {
            let rest = key
                .strip_prefix("remote.")
                .and_then(|rest| rest.strip_prefix(name));
            let key = rest.and_then(|rest| rest.strip_prefix('.'));
            key.is_some_and(|key| KEYS.contains(&key))
        };
        let own = self.settings.iter().filter(|(key, _)| is_taken_over(key));
        own.cloned().collect()
    }
}

fn setting(remote: &str, key: &str, value: &str) -> (String, Option<String>) {
    (format!("remote.{remote}.{key}"), Some(value.to_owned()))
}
