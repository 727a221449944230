//! `drums.*`: mail between raiders, agents and people. The sender is recognised by its process. A raider or agent reads
//! and acknowledges its own drums only, a person all.

mod address;
mod live;
mod party;

use serde_json::Value;

pub(super) use self::address::unknown_note;
pub(super) use self::live::{deliver, waits};
use self::party::Party;
pub(super) use self::party::mailboxes_of;
use super::{served_elsewhere, to_json};
use crate::actors::records::drums;
use crate::actors::world::World;
use crate::control::protocol::answers::{AckedDrums, Inbox, RalliedDrums, SentDrum};
use crate::control::protocol::args::{DrumRef, DrumsAck, DrumsInbox, DrumsReply, DrumsSend};
use crate::control::protocol::{ControlError, ErrorKind, Op};
use crate::control::server::Caller;
use crate::domain::asker::Asker;
use crate::domain::drum::{
    Drum, DrumHead, LISTED_MAX, Mailbox, NewDrum, RALLIED_MAX, WAITING_MAX, check_texts,
    reply_subject,
};
use crate::ports::relics::{StoreError, Txn};

/// Dispatches the operations on drums.
pub(super) async fn dispatch(
    world: &World,
    caller: &Caller,
    op: Op,
) -> Result<Value, ControlError> {
    let party = Party::of(world, caller).await?;
    match op {
        Op::DrumsSend(args) => send(world, party, args).await,
        Op::DrumsInbox(args) => inbox(world, &party, args).await,
        Op::DrumsRead(args) => read(world, party, &args).await,
        Op::DrumsReply(args) => reply(world, party, args).await,
        Op::DrumsAck(args) => ack(world, party, args).await,
        _ => Err(served_elsewhere()),
    }
}

/// `drums.send`: stored first, then told to a live session if that was asked for.
async fn send(world: &World, party: Party, args: DrumsSend) -> Result<Value, ControlError> {
    let to = address::resolve(world, &args.to).await?;
    let body = args.message.unwrap_or_default();
    let new = NewDrum {
        subject: checked(&args.subject, &body)?,
        body,
        mailbox: to.mailbox,
        to: to.name,
        from: party.name,
        reply_to: party.mailboxes.into_iter().next(),
        answers: None,
    };
    let asker = party.asker.clone();
    let sent = (world.store).run(move |txn| drums::send(txn, &new, &asker));
    let sent = sent.await?;
    told(world, sent, args.deliver, &party.asker).await
}

fn checked(subject: &str, body: &str) -> Result<String, ControlError> {
    let checked = check_texts(subject, body);
    checked.map_err(|error| ControlError::bad_request(error.to_string()))
}

/// Answers with the drum and its delivery.
async fn told(
    world: &World,
    sent: Drum,
    deliver: bool,
    asker: &Asker,
) -> Result<Value, ControlError> {
    let (drum, delivery) = match deliver {
        true => live::deliver(world, sent.head, asker).await,
        false => (sent.head, live::waits(None)),
    };
    to_json(&SentDrum { drum, delivery })
}

/// `drums.inbox`: the drums that wait, without their texts.
async fn inbox(world: &World, party: &Party, args: DrumsInbox) -> Result<Value, ControlError> {
    let (name, mailboxes) = match &args.name {
        Some(name) => {
            let of = address::resolve(world, name).await?;
            party.may_see(&of.mailbox, &format!("the inbox of {}", of.name))?;
            (of.name, vec![of.mailbox])
        }
        None if party.mailboxes.is_empty() => {
            let message = format!("{} has no mailbox", party.name);
            return Err(ControlError::conflict(message).hint("name one: `hd drums inbox NAME`"));
        }
        None => (party.name.clone(), party.mailboxes.clone()),
    };
    let all = args.all;
    let listed = world.store.run(move |txn| list(txn, &mailboxes, all));
    let (waiting, drums) = listed.await?;
    to_json(&Inbox {
        name,
        waiting,
        drums,
    })
}

fn list(
    txn: &mut dyn Txn,
    mailboxes: &[Mailbox],
    all: bool,
) -> Result<(u64, Vec<DrumHead>), StoreError> {
    let (mut count, mut waiting, mut acked) = (0, Vec::new(), Vec::new());
    for mailbox in mailboxes {
        count += txn.count_drums(mailbox, "")?.all;
        waiting.extend(txn.waiting_drums(mailbox, LISTED_MAX)?);
        if all {
            acked.extend(txn.acked_drums(mailbox, LISTED_MAX)?);
        }
    }
    waiting.sort_by_key(|head| head.id);
    acked.sort_by_key(|head| std::cmp::Reverse((head.acked, head.id)));
    waiting.extend(acked);
    waiting.truncate(LISTED_MAX);
    Ok((count, waiting))
}

/// Returns the drum, if the caller may see it.
async fn visible(world: &World, party: &Party, id: u64) -> Result<Drum, ControlError> {
    let found = world.store.run(move |txn| txn.drum(id)).await;
    let drum = found.map_err(|error| {
        let error = ControlError::from(error);
        match error.kind {
            ErrorKind::NotFound => error.hint("`hd drums inbox` lists your drums"),
            _ => error,
        }
    })?;
    party.may_see(&drum.head.mailbox, &format!("drum {id}"))?;
    Ok(drum)
}

/// `drums.read`: the drum with its text. It stays unread when a person reads the drum of a raider or agent.
async fn read(world: &World, party: Party, args: &DrumRef) -> Result<Value, ControlError> {
    let drum = visible(world, &party, args.id).await?;
    let is_own = party.owns(&drum.head.mailbox);
    let (id, asker) = (args.id, party.asker);
    let read = world
        .store
        .run(move |txn| drums::read(txn, id, is_own, &asker));
    to_json(&read.await?)
}

/// `drums.ack`: the drums leave the inbox, all of them or none.
async fn ack(world: &World, party: Party, args: DrumsAck) -> Result<Value, ControlError> {
    if args.id.len() > LISTED_MAX {
        let message = format!("at most {LISTED_MAX} drums are acknowledged at once");
        return Err(ControlError::bad_request(message));
    }
    for id in &args.id {
        visible(world, &party, *id).await?;
    }
    let asker = party.asker;
    let acked = world.store.run(move |txn| {
        let ids = args.id.iter();
        ids.map(|id| drums::acknowledge(txn, *id, &asker))
            .collect::<Result<Vec<_>, _>>()
    });
    let mut acked = acked.await?;
    to_json(&match acked.pop() {
        Some(only) if acked.is_empty() => AckedDrums::One(Box::new(only)),
        last => {
            acked.extend(last);
            AckedDrums::Several(acked)
        }
    })
}

/// `drums.reply`: a drum to the sender. The answered one is acknowledged in the same transaction, if the caller is its
/// receiver.
async fn reply(world: &World, party: Party, args: DrumsReply) -> Result<Value, ControlError> {
    let answered = visible(world, &party, args.id).await?.head;
    let Some(mailbox) = answered.reply_to.clone() else {
        let message = format!(
            "{}, which sent drum {}, takes no replies",
            answered.from, args.id
        );
        return Err(ControlError::conflict(message));
    };
    let subject = args
        .subject
        .unwrap_or_else(|| reply_subject(&answered.subject));
    let body = args.message.unwrap_or_default();
    let mut new = NewDrum {
        subject: checked(&subject, &body)?,
        body,
        to: answered.from.clone(),
        from: party.name.clone(),
        reply_to: party.mailboxes.first().cloned(),
        answers: Some(args.id),
        mailbox,
    };
    let (is_own, asker) = (party.owns(&answered.mailbox), party.asker.clone());
    let sent = world.store.run(move |txn| {
        // Its work may have another raider by now.
        if let Mailbox::Work(relic) = &new.mailbox
            && let Some(hook) = txn.hook_of_relic(relic)?
        {
            new.to = hook.raider.to_string();
        }
        let sent = drums::send(txn, &new, &asker)?;
        if is_own {
            drums::acknowledge(txn, answered.id, &asker)?;
        }
        Ok(sent)
    });
    let sent = sent.await?;
    told(world, sent, args.deliver, &party.asker).await
}

/// Returns the drums that wait in these mailboxes, as `rally` lists them; none when none waits.
pub(super) fn rallied(
    txn: &mut dyn Txn,
    mailboxes: &[Mailbox],
    hd: &str,
) -> Result<Option<RalliedDrums>, StoreError> {
    let most = usize::try_from(WAITING_MAX).unwrap_or(usize::MAX);
    let mut heads = Vec::new();
    for mailbox in mailboxes {
        heads.extend(txn.waiting_drums(mailbox, most)?);
    }
    if heads.is_empty() {
        return Ok(None);
    }
    heads.sort_by_key(|head| (head.read.is_some(), head.id));
    Ok(Some(RalliedDrums {
        waiting: heads.len() as u64,
        how: format!(
            "`{hd} drums read ID` shows one, `{hd} drums reply ID -m TEXT` answers it, `{hd} drums ack ID...` takes it \
             off this list, `{hd} drums inbox` lists up to {LISTED_MAX}"
        ),
        drums: heads.iter().take(RALLIED_MAX).map(Into::into).collect(),
    }))
}
