//! Stored drums: mail between raiders, agents and people.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, named_params, params};

use crate::domain::drum::{Drum, DrumHead, Mailbox, NewDrum, Waiting};
use crate::ports::relics::StoreError;

use super::txn::SqliteTxn;
use super::value::{Time, Word};

/// The columns of a drum without its text.
const HEAD: &str =
    "id, mailbox, sender, receiver, reply_to, subject, answers, sent, delivered, read, acked";

fn head(row: &Row<'_>) -> rusqlite::Result<DrumHead> {
    let time = |name: &str| {
        let time = row.get::<_, Option<Time>>(name);
        time.map(|time| time.map(|time| time.0))
    };
    Ok(DrumHead {
        id: row.get("id")?,
        mailbox: row.get::<_, Word<_>>("mailbox")?.0,
        from: row.get("sender")?,
        to: row.get("receiver")?,
        reply_to: row.get::<_, Option<Word<_>>>("reply_to")?.map(|it| it.0),
        subject: row.get("subject")?,
        answers: row.get("answers")?,
        sent: row.get::<_, Time>("sent")?.0,
        delivered: time("delivered")?,
        read: time("read")?,
        acked: time("acked")?,
    })
}

pub(super) fn add(txn: &mut SqliteTxn<'_>, new: &NewDrum) -> Result<Drum, StoreError> {
    txn.conn
        .prepare_cached(
            "INSERT INTO drums (mailbox, sender, receiver, reply_to, subject, body, answers, sent)
             VALUES (:mailbox, :sender, :receiver, :reply_to, :subject, :body, :answers, :sent)",
        )?
        .execute(named_params! {
            ":mailbox": Word(&new.mailbox),
            ":sender": new.from,
            ":receiver": new.to,
            ":reply_to": new.reply_to.as_ref().map(Word),
            ":subject": new.subject,
            ":body": new.body,
            ":answers": new.answers,
            ":sent": Time(txn.now),
        })?;
    get(txn.conn, txn.conn.last_insert_rowid().unsigned_abs())
}

pub(super) fn get(conn: &Connection, id: u64) -> Result<Drum, StoreError> {
    let none = || StoreError::NotFound {
        kind: "drum",
        id: id.to_string(),
    };
    // A number that SQLite cannot hold was never given out.
    let number = i64::try_from(id).map_err(|_| none())?;
    let found = conn
        .prepare_cached(&format!("SELECT {HEAD}, body FROM drums WHERE id = ?"))?
        .query_row([number], |row| {
            Ok(Drum {
                head: head(row)?,
                body: row.get("body")?,
            })
        })
        .optional()?;
    found.ok_or_else(none)
}

/// Overwrites the times of a drum.
pub(super) fn put(conn: &Connection, drum: &DrumHead) -> Result<(), StoreError> {
    let changed = conn
        .prepare_cached("UPDATE drums SET delivered = ?, read = ?, acked = ? WHERE id = ?")?
        .execute(params![
            drum.delivered.map(Time),
            drum.read.map(Time),
            drum.acked.map(Time),
            drum.id
        ])?;
    match changed {
        0 => Err(StoreError::NotFound {
            kind: "drum",
            id: drum.id.to_string(),
        }),
        _ => Ok(()),
    }
}

/// Lists the first drums that wait in a mailbox, the oldest first.
pub(super) fn waiting(
    conn: &Connection,
    mailbox: &Mailbox,
    limit: usize,
) -> Result<Vec<DrumHead>, StoreError> {
    let mut select = conn.prepare_cached(&format!(
        "SELECT {HEAD} FROM drums WHERE mailbox = ? AND acked IS NULL ORDER BY id LIMIT ?"
    ))?;
    let rows = select.query_map(params![Word(mailbox), limit], head)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Lists the last acknowledged drums of a mailbox, the newest first.
pub(super) fn acked(
    conn: &Connection,
    mailbox: &Mailbox,
    limit: usize,
) -> Result<Vec<DrumHead>, StoreError> {
    let mut select = conn.prepare_cached(&format!(
        "SELECT {HEAD} FROM drums WHERE mailbox = ? AND acked IS NOT NULL
         ORDER BY acked DESC, id DESC LIMIT ?"
    ))?;
    let rows = select.query_map(params![Word(mailbox), limit], head)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Counts the drums that wait in a mailbox.
pub(super) fn count(
    conn: &Connection,
    mailbox: &Mailbox,
    sender: &str,
) -> Result<Waiting, StoreError> {
    let counted = conn
        .prepare_cached(
            "SELECT count(*), count(*) FILTER (WHERE sender = ?2) FROM drums
             WHERE mailbox = ?1 AND acked IS NULL",
        )?
        .query_row(params![Word(mailbox), sender], |row| {
            Ok(Waiting {
                all: row.get(0)?,
                of_sender: row.get(1)?,
            })
        })?;
    Ok(counted)
}

/// Deletes the acknowledged drums of a mailbox but the newest.
pub(super) fn trim(conn: &Connection, mailbox: &Mailbox, keep: u64) -> Result<usize, StoreError> {
    let trimmed = conn
        .prepare_cached(
            "DELETE FROM drums WHERE id IN
                 (SELECT id FROM drums WHERE mailbox = ? AND acked IS NOT NULL
                  ORDER BY acked DESC, id DESC LIMIT -1 OFFSET ?)",
        )?
        .execute(params![Word(mailbox), keep])?;
    Ok(trimmed)
}

/// Deletes drums that were acknowledged, or sent about work that is closed by now, before that time.
pub(super) fn prune(
    conn: &Connection,
    before: Timestamp,
    limit: usize,
) -> Result<usize, StoreError> {
    let pruned = conn
        .prepare_cached(
            "DELETE FROM drums WHERE id IN
                 (SELECT d.id FROM drums d
                  WHERE d.acked < ?1
                     OR (d.acked IS NULL AND d.sent < ?1 AND d.mailbox LIKE 'relic/%'
                         AND NOT EXISTS (SELECT 1 FROM relics r
                                         WHERE r.id = substr(d.mailbox, 7) AND r.status <> 'closed'))
                  LIMIT ?2)",
        )?
        .execute(params![Time(before), limit])?;
    Ok(pruned)
}
