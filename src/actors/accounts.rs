//! Accounts of harnesses (`domain/account.rs`): parks all sessions of an account when one of them reports a limit or a
//! login, and lets them go on when that is over.
//!
//! ```text
//!  conditions ── told, over ──► Accounts ──► RootMail::Accounts ──► advance: park stored, people told,
//!  hd harness resume ───────────────▲                              turns given, sessions woken
//!  a session that ended of it ──────┘                                     │
//!        look, charge, nudges ask `held` ◄─────────────────────────────────┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use super::refusal::{Refusal, RefusalKind};
use super::world::World;
use crate::actors::mail::RootMail;
use crate::actors::mail::WitnessMsg;
use crate::actors::records::escalations::{self, Ends};
use crate::domain::account::{Account, AccountReport, Due, Park, Record, ReportEffect, Why};
use crate::domain::asker::Asker;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{ChildId, HarnessName};
use crate::domain::message::Escalation;
use crate::domain::problem::ProblemKind;
use crate::ports::relics::{StoreError, Txn};

mod wake;

/// The store's key of the parks.
const PARKED: &str = "accounts.parked";
/// The pause before a release is tried again that failed because the children could not be seen.
const AGAIN: std::time::Duration = std::time::Duration::from_secs(5);

/// Refuses new work for a harness whose account is parked.
///
/// # Errors
/// [`RefusalKind::Parked`].
pub fn refuse_parked(world: &World, harness: &HarnessName) -> Result<(), Refusal> {
    let closed = world
        .directory
        .accounts
        .park(&world.city, harness, |account| account.closed().cloned());
    closed.map_or(Ok(()), |park| Err(refusal(harness, &park)))
}

/// Refuses a text for a child that is held, although others of its account may go on already.
///
/// # Errors
/// [`RefusalKind::Parked`].
pub fn refuse_held(world: &World, harness: &HarnessName, child: &ChildId) -> Result<(), Refusal> {
    let holding = |account: &Account| account.holding(child).cloned();
    let park = world.directory.accounts.park(&world.city, harness, holding);
    park.map_or(Ok(()), |park| Err(refusal(harness, &park)))
}

fn refusal(harness: &HarnessName, park: &Park) -> Refusal {
    let what = match park.why {
        Why::RateLimited => "is at a limit",
        Why::Auth => "needs a login",
    };
    let until = park
        .until
        .map(|until| format!(" until {}", until.strftime("%FT%TZ")));
    let message = format!(
        "the account of harness {harness} {what}{}: {}",
        until.unwrap_or_default(),
        park.text
    );
    let hint = match park.why {
        Why::RateLimited => {
            format!("its sessions resume then; `hd harness resume {harness}` resumes them now")
        }
        Why::Auth => format!(
            "log in (`hd attach` shows a session of it), then `hd harness resume {harness}`"
        ),
    };
    Refusal::new(RefusalKind::Parked, message).hint(hint)
}

/// Handles a session's report about its account.
pub fn report_trouble(
    world: &World,
    child: &ChildId,
    harness: &HarnessName,
    trouble: AccountReport,
) -> ReportEffect {
    let Some(name) = world.city.account(harness) else {
        return ReportEffect::Known;
    };
    let now = world.clock.now();
    let accounts = &world.directory.accounts;
    let told = accounts.change(name, |account| account.report(child, trouble, now));
    if told != ReportEffect::Parked {
        return told;
    }
    if let Some(park) = accounts.parked(&world.city, harness) {
        let (subject, cause) = (format!("account {name}"), park.why.cause());
        let event = NewEvent::new(EventType::AccountParked, subject, cause);
        world.store.journal(vec![event.with(json!(park))]);
    }
    world.directory.tell_root(RootMail::Accounts);
    told
}

/// Handles a session that goes on after it reported this trouble: over for the account, if this session had reported
/// the limit. A login may be made in any session.
pub fn went_on(world: &World, child: &ChildId, harness: &HarnessName) {
    let Some(name) = world.city.account(harness) else {
        return;
    };
    let now = world.clock.now();
    let accounts = &world.directory.accounts;
    if accounts.change(name, |account| account.went_on(child, now)) {
        world.directory.tell_root(RootMail::Accounts);
    }
}

/// Handles a completion: the trouble that this session reported was none, or is over. Another session that reported it
/// may still have it.
pub fn completed(world: &World, child: &ChildId, harness: &HarnessName) {
    let accounts = &world.directory.accounts;
    let park = accounts.parked(&world.city, harness);
    if park.is_some_and(|park| park.told_by == child.to_string()) {
        went_on(world, child, harness);
    }
    forget(world, child, harness);
}

/// Drops the turn of this child, because its work is over or other work begins: the next raider of its name does not
/// wait for it.
pub fn forget(world: &World, child: &ChildId, harness: &HarnessName) {
    let mut known = world.directory.accounts.known();
    let account = world
        .city
        .account(harness)
        .and_then(|name| known.accounts.get_mut(name));
    if let Some(account) = account {
        account.forget(child);
    }
}

/// Lifts a park on an operator's order: all sessions of the account go on, one after another. Returns false when it was
/// not parked.
pub fn unpark(world: &World, harness: &HarnessName, by: Asker) -> bool {
    let Some(name) = world.city.account(harness) else {
        return false;
    };
    let accounts = &world.directory.accounts;
    let now = world.clock.now();
    let ended = accounts.change(name, |account| account.resumed(now, by));
    if ended {
        world.directory.tell_root(RootMail::Accounts);
    }
    ended
}

/// Calls a person for each wanted login, once for all sessions of the account: what the shaman knows is not sent again.
async fn call_for_logins(world: &World) {
    let parked = world.directory.accounts.all_parked().into_iter();
    for (name, park) in parked.filter(|(_, park)| park.why == Why::Auth) {
        let mut harnesses = world.city.harnesses.values();
        let Some(harness) = harnesses.find(|harness| harness.account == name) else {
            continue;
        };
        or_warn!(
            call(world, &name, &harness.name, &park).await,
            account = name,
            "the escalation about a login could not be stored; the next patrol retries"
        );
    }
}

async fn call(
    world: &World,
    name: &str,
    harness: &HarnessName,
    park: &Park,
) -> Result<(), Refusal> {
    let body = Escalation::high(
        format!("account {name}"),
        ProblemKind::LoginWanted,
        format!(
            "{}\nseen at {}\nAll sessions of the account are parked. `hd attach {}` shows that session; \
             after a login in another terminal, `hd harness resume {harness}` resumes them.",
            park.text, park.told_by, park.told_by
        ),
    );
    escalations::call(world, "root", Ends::WithWork, body).await
}

/// Reads the parks that an earlier supervisor stored, once.
pub async fn load(world: &World) {
    let accounts = &world.directory.accounts;
    if accounts.known().loaded {
        return;
    }
    let stored = match world.store.run(read).await {
        Ok(stored) => stored,
        Err(error) => {
            tracing::warn!(
                %error,
                "the stored parks of accounts cannot be read; the read is retried"
            );
            return;
        }
    };
    let mut known = accounts.known();
    if !std::mem::replace(&mut known.loaded, true) {
        for (name, record) in stored {
            // Reports since then are newer.
            let accounts = &mut known.accounts;
            accounts
                .entry(name)
                .or_insert_with(|| Account::stored(record));
        }
        world.directory.tell_root(RootMail::Accounts);
    }
}

fn read(txn: &mut dyn Txn) -> Result<BTreeMap<String, Record>, StoreError> {
    let text = txn.get(PARKED)?;
    let Some(text) = text else {
        return Ok(BTreeMap::new());
    };
    Ok(serde_json::from_str(&text).unwrap_or_else(|error| {
        // Its sessions report their limits and logins again.
        tracing::warn!(
            %error,
            "the stored parks of accounts are invalid and are dropped; sessions of these accounts start, and report their \
            limits again"
        );
        BTreeMap::new()
    }))
}

async fn write(world: &World) {
    if !std::mem::take(&mut world.directory.accounts.known().changed) {
        return;
    }
    let stored = world.directory.accounts.records();
    let text = (!stored.is_empty()).then(|| json!(stored).to_string());
    let written = world.store.run(move |txn| match txn.get(PARKED)? == text {
        true => Ok(()),
        false => txn.set(PARKED, text.as_deref()),
    });
    if let Err(error) = written.await {
        tracing::warn!(%error, "the parks of accounts could not be stored; the next change of one retries");
        world.directory.accounts.known().changed = true;
    }
}

/// Does what is due for every account. Returns when something is due next.
pub async fn advance(world: &Arc<World>) -> Option<Timestamp> {
    loop {
        let now = world.clock.now();
        let due = {
            let mut known = world.directory.accounts.known();
            let mut accounts = known.accounts.iter_mut();
            accounts.find_map(|(name, account)| Some((name.clone(), account.due(now)?)))
        };
        let Some((name, due)) = due else { break };
        // The decision is stored first: it holds for the next supervisor, too.
        write(world).await;
        if let Err(error) = carry_out(world, &name, due).await {
            tracing::warn!(
                %error,
                account = name,
                "the sessions of an account could not be resumed; it is retried"
            );
            return world.clock.now().checked_add(AGAIN).ok();
        }
    }
    forget_unknown(world).await;
    call_for_logins(world).await;
    write(world).await;
    let known = world.directory.accounts.known();
    known.accounts.values().filter_map(Account::next).min()
}

/// Returns the accounts that work is charged to, or was; none while that cannot be read.
async fn in_use(world: &World) -> Option<BTreeSet<String>> {
    let hooks = match world.store.run(|txn| txn.hooks(None)).await {
        Ok(hooks) => hooks,
        Err(error) => {
            tracing::warn!(%error, "the accounts in use cannot be read; the read is retried");
            return None;
        }
    };
    let city = &world.city;
    let rigs = city.rigs.iter().map(|rig| &rig.raiders.harness);
    let agents = city
        .agents
        .iter()
        .filter_map(|agent| agent.harness.as_ref());
    let hooks = hooks.iter().map(|hook| &hook.harness);
    let used = rigs.chain(agents).chain(hooks);
    let used = used.filter_map(|harness| world.city.account(harness));
    Some(used.map(str::to_owned).collect())
}

/// Drops accounts that no session uses any more, and those without any state.
async fn forget_unknown(world: &World) {
    let now = world.clock.now();
    if world.directory.accounts.known().accounts.is_empty() {
        return;
    }
    let Some(used) = in_use(world).await else {
        return;
    };
    let has = |name: &str| used.contains(name);
    let gone: Vec<String> = {
        let mut known = world.directory.accounts.known();
        let before = known.accounts.len();
        known
            .accounts
            .retain(|_, account| !account.is_forgotten(now));
        let names = known.accounts.keys().filter(|name| !has(name));
        let gone: Vec<_> = names.cloned().collect();
        known.accounts.retain(|name, _| has(name));
        known.changed |= known.accounts.len() != before;
        gone
    };
    for name in gone {
        close_login_escalation(world, &name).await;
    }
}

async fn carry_out(world: &Arc<World>, name: &str, due: Due) -> Result<(), Refusal> {
    let directory = &world.directory;
    match due {
        Due::Release => {
            let children = wake::order(world, name).await?;
            let (now, random) = (world.clock.now(), &*world.random);
            let mut asker = None;
            let released = directory.accounts.change(name, |account| {
                // A session may have told of a new limit meanwhile.
                let still = account.due(now) == Some(Due::Release);
                if still {
                    asker = account.parked().and_then(|park| park.resumed_by.clone());
                    account.release(&children, now, random);
                }
                still
            });
            if !released {
                return Ok(());
            }
            let event = NewEvent::new(
                EventType::AccountResumed,
                format!("account {name}"),
                Cause::Progress,
            );
            let data =
                json!({ "children": children.iter().map(ToString::to_string).collect::<Vec<_>>() });
            let event = event.with(data);
            world.store.journal(vec![match &asker {
                Some(asker) => event.asked_by(asker),
                None => event,
            }]);
            close_login_escalation(world, name).await;
            // Waiting work may be charged, and sessions that are held by nothing may start.
            look_for_work(world);
        }
        Due::Turns(children) => wake::wake(world, children),
        Due::Open => {
            directory.accounts.known().changed = true;
            // A text that still stands on a screen is reported again: its session may have missed its turn.
            let is_of = |harness: &HarnessName| world.city.account(harness) == Some(name);
            directory.conditions.report_again(is_of);
            // Work that waited for a trial may be charged.
            look_for_work(world);
        }
    }
    directory.tell_root(RootMail::Look);
    Ok(())
}

fn look_for_work(world: &World) {
    for rig in &world.city.rigs {
        world.directory.tell_witness(&rig.name, WitnessMsg::Look);
    }
}

/// Closes the escalation of a login: the account is open again.
async fn close_login_escalation(world: &World, name: &str) {
    let subject = format!("account {name}");
    let settled = world.store.run(move |txn| {
        escalations::close_matching(txn, &[ProblemKind::LoginWanted], |who, _| who == subject)
    });
    or_warn!(
        settled.await,
        account = name,
        "the escalation about a login could not be closed; it stays open"
    );
}
