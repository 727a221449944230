//! `cv`: identity chains. Chains are read page by page, so that the store's writer is free
//! between them; hashes are checked outside of it.

use std::cmp::Ordering;

use serde_json::Value;

use super::{served_elsewhere, to_json};
use crate::actors::records::identity_sums::{self, Summed};
use crate::actors::world::World;
use crate::control::protocol::answers::{Chain, Cv};
use crate::control::protocol::{ControlError, Op, args};
use crate::control::server::Caller;
use crate::domain::cv::{Break, CvEntry, Flaw, Head};
use crate::domain::ids::{IdentityName, RaiderId, check_name};
use crate::ports::relics::{ChainOf, StoredEntry, Txn};

mod transfer;

pub(super) use self::transfer::export;

/// The number of entries that are read from the store at once.
const PAGE: usize = 200;
/// The number of chains of an answer.
const CHAINS: usize = 512;
/// The number of entries that are shown unless more are asked for, and the most.
const SHOWN: u64 = 20;
const SHOWN_MAX: u64 = 500;

/// Dispatches the operations on chains that answer with a value.
pub(super) async fn dispatch(
    world: &World,
    caller: &Caller,
    op: Op,
) -> Result<Value, ControlError> {
    match op {
        Op::Cv(args) => show(world, args).await,
        Op::CvImport(args) => transfer::import(world, caller, args).await,
        Op::CvForget(args) => transfer::forget(world, caller, args.city).await,
        _ => Err(served_elsewhere()),
    }
}

/// Shows one chain, or all.
async fn show(world: &World, args: args::Cv) -> Result<Value, ControlError> {
    let limit = args.limit.unwrap_or(SHOWN).min(SHOWN_MAX);
    let answer = match &args.identity {
        Some(name) => one(world, name, limit, args.verify).await?,
        None => all(world, args.verify).await?,
    };
    to_json(&answer)
}

/// Returns the owner and the name of a chain by its name as it is shown.
fn address(text: &str) -> Result<(ChainOf, String), ControlError> {
    let unknown = || ControlError::not_found(format!("no identity named {text:?}"));
    if let Some((city, name)) = text.split_once(':') {
        check_name("city", city).map_err(|_| unknown())?;
        let name = IdentityName::new(name).map_err(|_| unknown())?;
        return Ok((ChainOf::City(city.to_owned()), name.to_string()));
    }
    if text.parse::<RaiderId>().is_ok() && text.contains("/raiders/") {
        return Ok((ChainOf::Slot, text.to_owned()));
    }
    let name = IdentityName::new(text).map_err(|_| unknown())?;
    Ok((ChainOf::Own, name.to_string()))
}

/// Shows one chain with its newest entries.
async fn one(world: &World, text: &str, limit: u64, verify: bool) -> Result<Cv, ControlError> {
    let (of, name) = address(text)?;
    let head = head(world, &of, &name).await?;
    let Some(head) = head else {
        let error = ControlError::not_found(format!("no identity named {text:?}"));
        return Err(error.hint("`hd cv` lists those with a chain"));
    };
    let newest = newest(world, &of, &name, head.seq.saturating_sub(limit)).await?;
    let chain = read(world, &of, &name, (&head, verify)).await?;
    Ok(Cv {
        name: Some(text.to_owned()),
        entries: newest,
        ok: chain.broken.is_none(),
        chains: vec![chain],
        more: false,
    })
}

/// Returns the entries behind this number, as many as are shown at most.
async fn newest(
    world: &World,
    of: &ChainOf,
    name: &str,
    mut after: u64,
) -> Result<Vec<CvEntry>, ControlError> {
    let mut newest = Vec::new();
    loop {
        let page = page(world, of, name, after).await?;
        let is_last = page.len() < PAGE;
        newest.extend(page.into_iter().map(|stored| stored.entry));
        let Some(last) = newest.last().filter(|_| !is_last) else {
            break;
        };
        if newest.len() >= SHOWN_MAX as usize {
            break;
        }
        after = last.seq;
    }
    newest.truncate(SHOWN_MAX as usize);
    Ok(newest)
}

async fn head(world: &World, of: &ChainOf, name: &str) -> Result<Option<Head>, ControlError> {
    let (of, name) = (of.clone(), name.to_owned());
    let find = move |txn: &mut dyn Txn| txn.chain_head(&of, &name);
    Ok(world.store.run(find).await?)
}

/// Lists the chains. Those of other cities and of slots are read only to be verified, and have no sums in a list: each may
/// have as many skills as another city likes.
async fn all(world: &World, verify: bool) -> Result<Cv, ControlError> {
    let cities = world.store.run(|txn| txn.foreign_cities()).await?;
    let mut owners = vec![ChainOf::Own];
    owners.extend(cities.into_iter().map(|city| ChainOf::City(city.name)));
    if verify {
        owners.push(ChainOf::Slot);
    }
    let mut answer = Cv {
        name: None,
        entries: Vec::new(),
        ok: true,
        chains: Vec::new(),
        more: false,
    };
    for of in owners {
        let mut after = String::new();
        loop {
            let (owner, from) = (of.clone(), after.clone());
            let page = move |txn: &mut dyn Txn| txn.chains(&owner, &from, CHAINS);
            let page = world.store.run(page).await?;
            let last = page.last().map(|(name, _)| name.clone());
            for (name, head) in page {
                let mut chain = match verify || of == ChainOf::Own {
                    true => read(world, &of, &name, (&head, verify)).await?,
                    false => unread(&of, &name, &head),
                };
                if of != ChainOf::Own {
                    chain.record = None;
                }
                list(&mut answer, chain);
            }
            match last {
                // A name that is no UTF-8 reads as another one, which may come before it.
                Some(last) if last > after => after = last,
                _ => break,
            }
        }
        if verify {
            let owner = of.clone();
            let unnoted = world.store.run(move |txn| txn.unnoted_chains(&owner));
            for name in unnoted.await? {
                let mut chain = unread(&of, &name, &Head::default());
                let (seq, flaw) = (1, Flaw::Unnoted);
                (chain.verified, chain.broken) = (true, Some(Break { seq, flaw }));
                list(&mut answer, chain);
            }
        }
    }
    Ok(answer)
}

/// Adds a chain to the answer. One that breaks is always named.
fn list(answer: &mut Cv, chain: Chain) {
    answer.ok &= chain.broken.is_none();
    if answer.chains.len() < CHAINS || chain.broken.is_some() {
        answer.chains.push(chain);
    } else {
        answer.more = true;
    }
}

fn unread(of: &ChainOf, name: &str, head: &Head) -> Chain {
    let city = match of {
        ChainOf::City(city) => Some(city.clone()),
        ChainOf::Own | ChainOf::Slot => None,
    };
    Chain {
        name: name.to_owned(),
        city,
        is_slot: *of == ChainOf::Slot,
        entries: head.seq,
        head: head.hash.clone(),
        verified: false,
        broken: None,
        record: None,
    }
}

/// Reads a chain and sums it up; where it is to be verified, as far as it follows. The sum of an own chain is kept, and
/// only later entries are read, unless it is to be verified.
async fn read(
    world: &World,
    of: &ChainOf,
    name: &str,
    (due, verify): (&Head, bool),
) -> Result<Chain, ControlError> {
    let mut chain = unread(of, name, due);
    let keeps = !verify && *of == ChainOf::Own;
    let own = name.to_owned();
    let mut sum = match keeps {
        true => (world.store.run(move |txn| identity_sums::read(txn, &own))).await?,
        false => Summed::default(),
    };
    let (mut head, mut last, kept) = (Head::default(), sum.seq, sum.seq);
    loop {
        let page = page(world, of, name, last).await?;
        let is_last = page.len() < PAGE;
        for stored in &page {
            last = stored.entry.seq;
            if verify && chain.broken.is_none() {
                chain.broken = follow(&mut head, name, stored).err();
            }
            if chain.broken.is_none() {
                sum.record.add(&stored.entry);
                (sum.seq, sum.hash) = (last, stored.entry.hash.clone());
            }
        }
        if is_last {
            break;
        }
    }
    if keeps && sum.seq - kept >= PAGE as u64 {
        keep(world, name, &sum).await;
    }
    let record = sum.record;
    chain.record = Some(record);
    if !verify {
        return Ok(chain);
    }
    if chain.broken.is_none() {
        chain.broken = end(world, of, name, &mut head).await?;
    }
    chain.entries = head.seq;
    chain.head = head.hash;
    chain.verified = true;
    Ok(chain)
}

/// Keeps the sum of a chain for the next look; one that is not kept is made again.
async fn keep(world: &World, name: &str, sum: &Summed) {
    let (own, sum) = (name.to_owned(), sum.clone());
    let kept = world
        .store
        .run(move |txn| identity_sums::keep(txn, &own, &sum));
    if let Err(error) = kept.await {
        tracing::debug!(name, %error, "the sum of an identity's chain is not kept; the next look reads the chain again");
    }
}

/// Compares the end of a chain that was read with the noted one, in one transaction: entries may have been appended
/// since it was read.
async fn end(
    world: &World,
    of: &ChainOf,
    name: &str,
    head: &mut Head,
) -> Result<Option<Break>, ControlError> {
    let (owner, key, after) = (of.clone(), name.to_owned(), head.seq);
    let (due, later) = (world.store)
        .run(move |txn| {
            let due = txn.chain_head(&owner, &key)?.unwrap_or_default();
            Ok((due, txn.chain_entries(&owner, &key, after, PAGE)?))
        })
        .await?;
    for stored in &later {
        if let Err(broken) = follow(head, name, stored) {
            return Ok(Some(broken));
        }
    }
    let (seq, flaw) = match head.seq.cmp(&due.seq) {
        Ordering::Less => (head.seq + 1, Flaw::Missing),
        Ordering::Greater => (due.seq + 1, Flaw::Unnoted),
        Ordering::Equal if head.hash != due.hash => (head.seq, Flaw::Unnoted),
        Ordering::Equal => return Ok(None),
    };
    Ok(Some(Break { seq, flaw }))
}

async fn page(
    world: &World,
    of: &ChainOf,
    name: &str,
    after: u64,
) -> Result<Vec<StoredEntry>, ControlError> {
    let (of, name) = (of.clone(), name.to_owned());
    let read = move |txn: &mut dyn Txn| txn.chain_entries(&of, &name, after, PAGE);
    Ok(world.store.run(read).await?)
}

fn follow(head: &mut Head, name: &str, stored: &StoredEntry) -> Result<(), Break> {
    head.follow(name, &stored.entry)?;
    match stored.columns_fit {
        true => Ok(()),
        false => Err(Break {
            seq: stored.entry.seq,
            flaw: Flaw::Columns,
        }),
    }
}
