//! The accounts of the harnesses: which are parked, and whose turn it is.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::domain::account::{Account, Park, Record, Why};
use crate::domain::city::City;
use crate::domain::ids::{ChildId, HarnessName};

/// The accounts of the harnesses, by their names.
#[derive(Default)]
pub struct Accounts(Mutex<AccountTable>);

#[derive(Default)]
pub(in crate::actors) struct AccountTable {
    /// Set when the parks that an earlier supervisor stored were read.
    pub loaded: bool,
    /// Set when the store does not have the latest change yet.
    pub changed: bool,
    pub accounts: BTreeMap<String, Account>,
}

impl Accounts {
    pub(in crate::actors) fn known(&self) -> MutexGuard<'_, AccountTable> {
        // A poisoned lock at most repeats a report of a limit.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns why no session of this child may be started or told anything now.
    #[must_use]
    pub fn held(&self, city: &City, harness: &HarnessName, child: &ChildId) -> Option<Why> {
        let name = city.account(harness)?;
        self.known().accounts.get(name)?.holds(child)
    }

    /// Returns the park of a harness's account; none when it is open, or its sessions go on already.
    #[must_use]
    pub fn parked(&self, city: &City, harness: &HarnessName) -> Option<Park> {
        self.park(city, harness, |account| account.parked().cloned())
    }

    pub(in crate::actors) fn park(
        &self,
        city: &City,
        harness: &HarnessName,
        of: impl Fn(&Account) -> Option<Park>,
    ) -> Option<Park> {
        let name = city.account(harness)?;
        self.known().accounts.get(name).and_then(of)
    }

    /// Returns the turn of this child, if its account is open again and it still waits.
    #[must_use]
    pub fn turn(&self, city: &City, harness: &HarnessName, child: &ChildId) -> Option<Timestamp> {
        let name = city.account(harness)?;
        self.known().accounts.get(name)?.turn(child)
    }

    /// Returns every parked account, by name.
    #[must_use]
    pub fn all_parked(&self) -> BTreeMap<String, Park> {
        let known = self.known();
        let parked = known.accounts.iter();
        let parked = parked.filter_map(|(name, account)| Some((name, account.parked()?)));
        parked
            .map(|(name, park)| (name.clone(), park.clone()))
            .collect()
    }

    pub(in crate::actors) fn records(&self) -> BTreeMap<String, Record> {
        let known = self.known();
        let records = known.accounts.iter();
        let records = records.map(|(name, account)| (name.clone(), account.record()));
        records.collect()
    }

    pub(in crate::actors) fn change<T>(
        &self,
        name: &str,
        change: impl FnOnce(&mut Account) -> T,
    ) -> T {
        let mut known = self.known();
        let changed = change(known.accounts.entry(name.to_owned()).or_default());
        known.changed = true;
        changed
    }
}
