//! `cv.export`, `cv.import` and `cv.forget`: chains as JSON lines. An import comes in batches, each verified and stored whole or not at
//! all; a client verifies the whole file before it sends the first.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{CHAINS, PAGE, address, end, follow, head, page};
use crate::actors::records::identities::STORE_ID;
use crate::actors::world::World;
use crate::control::handlers::{caller, to_json};
use crate::control::protocol::answers::{CvForgotten, CvImported, CvLine};
use crate::control::protocol::{BATCH_MAX, ControlError, args};
use crate::control::server::{Caller, Items};
use crate::domain::asker::{Asker, AskerKind};
use crate::domain::cv::{Break, Head};
use crate::domain::event::{EventType, NewEvent};
use crate::domain::federation::{CITIES_MAX, Checked, End, Header, LINE_MAX, Line};
use crate::ports::relics::{ChainOf, ForeignCity, StoreError, StoredEntry, Txn};

/// The number of lines that a slow reader may hold up.
const BUFFER: usize = 64;

/// Streams the chains of this city's identities, or of one: the header, every entry, and the ends. A chain that breaks ends
/// the stream with an error.
pub(in crate::control::handlers) async fn export(
    world: &Arc<World>,
    args: args::CvExport,
) -> Result<Items, ControlError> {
    let named = match &args.identity {
        None => None,
        Some(name) => {
            let (of, name) = address(name)?;
            if of != ChainOf::Own || head(world, &of, &name).await?.is_none() {
                let message = format!("this city has no identity named {name:?}");
                return Err(
                    ControlError::not_found(message).hint("`hd cv` lists those with a chain")
                );
            }
            Some(name)
        }
    };
    let id = world.store.run(|txn| txn.get(STORE_ID)).await?;
    let header = Header::new(&world.city.name, &id.unwrap_or_default());
    let (send, receive) = mpsc::channel(BUFFER);
    let world = Arc::clone(world);
    tokio::spawn(async move {
        if let Err(error) = send_all(&world, header, named, &send).await {
            // The reader may be gone already.
            let _gone = send.send(Err(error)).await;
        }
    });
    Ok(receive)
}

type Sender = mpsc::Sender<Result<String, ControlError>>;

/// Sends a line; returns false when the reader is gone.
async fn send_line(send: &Sender, line: &CvLine) -> Result<bool, ControlError> {
    let text = serde_json::to_string(line);
    let text = text.map_err(|error| ControlError::internal(error.to_string()))?;
    Ok(send.send(Ok(text)).await.is_ok())
}

async fn send_all(
    world: &World,
    header: Header,
    named: Option<String>,
    send: &Sender,
) -> Result<(), ControlError> {
    if !send_line(send, &CvLine::Header(header)).await? {
        return Ok(());
    }
    let mut ends = End::default();
    for name in names(world, named).await? {
        let Some(head) = send_chain(world, &name, send).await? else {
            return Ok(());
        };
        ends.heads.insert(name, head);
    }
    send_line(send, &CvLine::End(ends)).await.map(drop)
}

/// Lists the chains of an export.
async fn names(world: &World, named: Option<String>) -> Result<Vec<String>, ControlError> {
    if let Some(name) = named {
        return Ok(vec![name]);
    }
    let mut names: Vec<String> = Vec::new();
    loop {
        let after = names.last().cloned().unwrap_or_default();
        let from = after.clone();
        let page = move |txn: &mut dyn Txn| txn.chains(&ChainOf::Own, &from, CHAINS);
        let page = world.store.run(page).await?;
        names.extend(page.into_iter().map(|(name, _)| name));
        // A name that is no UTF-8 reads as another one, which may come before it.
        if names.last().is_none_or(|last| *last <= after) {
            return Ok(names);
        }
    }
}

/// Sends the entries of a chain, and returns its end; none when the reader is gone.
async fn send_chain(
    world: &World,
    name: &str,
    send: &Sender,
) -> Result<Option<Head>, ControlError> {
    let breaks = |Break { seq, flaw }: Break| {
        let message = format!("entry {seq} of {name} {}", flaw.says());
        ControlError::conflict(message).hint("`hd cv --verify` checks every chain")
    };
    let mut head = Head::default();
    loop {
        let page = page(world, &ChainOf::Own, name, head.seq).await?;
        let is_last = page.len() < PAGE;
        for stored in page {
            follow(&mut head, name, &stored).map_err(breaks)?;
            let line = CvLine::Entry(Line {
                name: name.to_owned(),
                entry: stored.entry,
            });
            if !send_line(send, &line).await? {
                return Ok(None);
            }
        }
        if is_last {
            break;
        }
    }
    // Entries that were appended meanwhile are checked with it, and not sent.
    let sent = head.clone();
    match end(world, &ChainOf::Own, name, &mut head).await? {
        Some(broken) => Err(breaks(broken)),
        None => Ok(Some(sent)),
    }
}

/// Stores a batch of entries of another city, apart from this city's chains. Every entry is verified before any is stored;
/// one that is there already must be the same.
pub(super) async fn import(
    world: &World,
    caller: &Caller,
    args: args::CvImport,
) -> Result<Value, ControlError> {
    let asker = caller::asker(world, caller).await;
    if asker.kind() != AskerKind::Person {
        return Err(ControlError::forbidden(
            "chains of other cities are imported by a person",
        ));
    }
    if args.lines.len() > BATCH_MAX {
        let message = format!("a batch has at most {BATCH_MAX} entries");
        return Err(ControlError::bad_request(message));
    }
    args.header.check().map_err(ControlError::bad_request)?;
    let long = |line: &&Line| json!(line).to_string().len() > LINE_MAX;
    if let Some(line) = args.lines.iter().find(long) {
        let seq = line.entry.seq;
        let message = format!("entry {seq} is longer than {LINE_MAX} bytes");
        return Err(ControlError::bad_request(message));
    }
    let (header, own) = (args.header, world.city.name.clone());
    let lines = args.lines;
    let store = move |txn: &mut dyn Txn| store(txn, &asker, &own, &header, &lines);
    to_json(&world.store.run(store).await?)
}

/// Stores the entries in one transaction. An error undoes all of them.
fn store(
    txn: &mut dyn Txn,
    asker: &Asker,
    own: &str,
    header: &Header,
    lines: &[Line],
) -> Result<CvImported, StoreError> {
    let city = &header.city;
    let known_city = admit(txn, own, header)?;
    let of = ChainOf::City(city.clone());
    let mut heads = BTreeMap::new();
    let mut after = String::new();
    loop {
        let page = txn.chains(&of, &after, CHAINS)?;
        let Some((last, _)) = page.last() else { break };
        after.clone_from(last);
        heads.extend(page);
    }
    let bytes = known_city.as_ref().map_or(0, |city| city.bytes);
    let mut checked = Checked::after(&header.id, heads, bytes);
    let (mut added, mut known) = (Vec::new(), 0);
    for line in lines {
        let seq = line.entry.seq;
        let stored = checked.heads.get(&line.name).map_or(0, |head| head.seq);
        if (1..=stored).contains(&seq) {
            let there = txn.chain_entries(&of, &line.name, seq - 1, 1)?;
            // One of this batch is stored only when all are checked.
            let same = |stored: &StoredEntry| stored.entry == line.entry;
            if !there.iter().any(same) && !added.contains(&line) {
                let name = &line.name;
                let why = format!(
                    "entry {seq} of {city}:{name} differs from the one that was imported before; nothing of this batch is stored"
                );
                return Err(StoreError::Conflict(why));
            }
            known += 1;
        } else {
            checked.add(line).map_err(StoreError::Conflict)?;
            added.push(line);
        }
    }
    if known_city.is_some() && added.is_empty() {
        return Ok(CvImported {
            city: city.clone(),
            added: 0,
            known,
        });
    }
    txn.put_foreign_city(&ForeignCity {
        name: city.clone(),
        id: header.id.clone(),
        imported_at: txn.now(),
        bytes,
    })?;
    for line in &added {
        txn.add_foreign_entry(city, line)?;
    }
    let added = added.len() as u64;
    let data = json!({ "city": city, "id": header.id, "added": added, "known": known });
    txn.record(&NewEvent::new(EventType::CvImported, city, asker).with(data))?;
    Ok(CvImported {
        city: city.clone(),
        added,
        known,
    })
}

/// Deletes the chains of another city. They may be imported again.
pub(super) async fn forget(
    world: &World,
    caller: &Caller,
    city: String,
) -> Result<Value, ControlError> {
    let asker = caller::asker(world, caller).await;
    if asker.kind() != AskerKind::Person {
        return Err(ControlError::forbidden(
            "chains of other cities are forgotten by a person",
        ));
    }
    let name = city.clone();
    let forgotten = world.store.run(move |txn| {
        let Some(entries) = txn.forget_foreign_city(&name)? else {
            return Ok(None);
        };
        let data = json!({ "city": name, "entries": entries });
        txn.record(&NewEvent::new(EventType::CvForgotten, &name, &asker).with(data))?;
        Ok(Some(entries))
    });
    let Some(entries) = forgotten.await? else {
        let message = format!("no chains of a city named {city:?} were imported");
        return Err(
            ControlError::not_found(message).hint("`hd cv` lists the chains with their cities")
        );
    };
    to_json(&CvForgotten { city, entries })
}

/// Checks that the city is another one, and that name and id belong together. Returns the city if it has chains here.
fn admit(txn: &mut dyn Txn, own: &str, header: &Header) -> Result<Option<ForeignCity>, StoreError> {
    let conflict = |why: String| Err(StoreError::Conflict(why));
    let (city, id) = (&header.city, &header.id);
    if txn.get(STORE_ID)?.as_ref() == Some(id) {
        return conflict("these are the chains of this city itself".to_owned());
    }
    if city == own {
        return conflict(format!(
            "this city is called {city}, too; `hd cv import --as NAME` keeps the other one under another name"
        ));
    }
    let cities = txn.foreign_cities()?;
    if let Some(other) = cities
        .iter()
        .find(|other| other.name == *city && other.id != *id)
    {
        return conflict(format!(
            "the chains of another city called {} were imported before; `hd cv import --as NAME` keeps this one under another name",
            other.name
        ));
    }
    if let Some(other) = cities
        .iter()
        .find(|other| other.id == *id && other.name != *city)
    {
        let name = &other.name;
        return conflict(format!(
            "the chains of this city were imported as {name}; `hd cv import --as {name}` adds to them"
        ));
    }
    let is_full = cities.len() >= CITIES_MAX;
    let known = cities.into_iter().find(|other| other.name == *city);
    if known.is_none() && is_full {
        return conflict(format!(
            "the chains of {CITIES_MAX} other cities are kept at most; `hd cv forget CITY` deletes those of one"
        ));
    }
    Ok(known)
}
