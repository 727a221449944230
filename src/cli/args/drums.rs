//! The command line of `hd drums`.

use clap::Subcommand;

use crate::control::protocol::args;

/// Verbs of `hd drums`.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum DrumsVerb {
    /// Send a drum to a raider, an agent, a pool or people (`operator`)
    Send(args::DrumsSend),
    /// The drums that wait, the oldest first
    Inbox(args::DrumsInbox),
    /// A drum with its text; your own counts as read then
    Read(args::DrumRef),
    /// Answer the sender of a drum; your own is acknowledged with it
    Reply(args::DrumsReply),
    /// Acknowledge drums: they leave the inbox
    Ack(args::DrumsAck),
}
