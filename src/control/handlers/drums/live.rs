//! Delivery of a drum into a live session: a line that says which drum has arrived, typed by the rules of every other
//! text of the supervisor. No word of the sender is typed: what is typed counts as a person's.

use super::mailboxes_of;
use crate::actors::accounts;
use crate::actors::ask;
use crate::actors::claims::ClaimKey;
use crate::actors::mail::ChildView;
use crate::actors::records::drums;
use crate::actors::typing::{self, Typing};
use crate::actors::world::World;
use crate::control::protocol::answers::{Delivery, DeliveryState};
use crate::domain::asker::Asker;
use crate::domain::drum::{DrumHead, Mailbox, notice};
use crate::domain::ids::ChildId;

/// Returns the delivery of a drum that waits.
pub(in crate::control::handlers) fn waits(why: Option<String>) -> Delivery {
    Delivery {
        state: DeliveryState::Waits,
        why,
    }
}

/// Tells a live session of the drum, and records that. The drum is stored already: if this fails, it waits. A failed
/// delivery does not make the act before it an error: it is told beside its answer.
pub(in crate::control::handlers) async fn deliver(
    world: &World,
    head: DrumHead,
    asker: &Asker,
) -> (DrumHead, Delivery) {
    if let Err(why) = tell(world, &head).await {
        return (head, waits(Some(why)));
    }
    let (id, asker) = (head.id, asker.clone());
    let noted = world
        .store
        .run(move |txn| drums::delivered(txn, id, &asker));
    let (head, why) = match noted.await {
        Ok(noted) => (noted, None),
        Err(error) => (head, Some(format!("that could not be recorded: {error}"))),
    };
    let state = DeliveryState::Delivered;
    (head, Delivery { state, why })
}

/// Types the notice into the first session of the receiver that takes it.
async fn tell(world: &World, head: &DrumHead) -> Result<(), String> {
    let receivers = receivers(world, head).await?;
    let text = notice(&world.hd(), head.id, &head.from);
    let mut why = format!("{} has no session now", head.to);
    for view in receivers {
        match tell_one(world, &view, &text).await {
            Ok(()) => return Ok(()),
            Err(refused) => why = refused,
        }
    }
    Err(why)
}

/// Returns the children that read the mailbox.
async fn receivers(world: &World, head: &DrumHead) -> Result<Vec<ChildView>, String> {
    let raider = match &head.mailbox {
        Mailbox::People => {
            return Err("people are not told of it: `hd drums inbox` lists it".to_owned());
        }
        Mailbox::Agent(_) => None,
        Mailbox::Work(relic) => {
            let relic = relic.clone();
            let hook = world.store.run(move |txn| txn.hook_of_relic(&relic)).await;
            let hook = hook.map_err(|error| error.to_string())?;
            let none = || format!("{} has no raider now", head.mailbox);
            Some(ChildId::Raider(hook.ok_or_else(none)?.raider))
        }
    };
    let views = ask::views(world).await.map_err(|error| error.to_string())?;
    let reads = |view: &ChildView| match (&view.spec.id, &head.mailbox) {
        (ChildId::Agent(name), Mailbox::Agent(_)) => {
            mailboxes_of(&world.city, name).contains(&head.mailbox)
        }
        (id, _) => Some(id) == raider.as_ref(),
    };
    Ok(views.into_iter().filter(reads).collect())
}

async fn tell_one(world: &World, view: &ChildView, text: &str) -> Result<(), String> {
    let id = &view.spec.id;
    let Some(session) = &view.session else {
        return Err(format!("{id} has no session now"));
    };
    // A plain command may take any text as a command.
    let Some(harness) = view.spec.harness() else {
        return Err(format!(
            "no harness drives {id}, so nothing is typed into its terminal"
        ));
    };
    if let Err(held) = accounts::refuse_held(world, harness, id) {
        return Err(held.message);
    }
    let handle = &session.handle;
    let prompt = ClaimKey::Prompt(handle.token.clone());
    if world.claims.is_claimed(&prompt) {
        return Err(format!("the first prompt of {id} is still to be typed"));
    }
    match typing::may_type(world, harness, handle).await {
        Typing::Free => {}
        Typing::Attended => return Err(format!("a person is attached to {id}")),
        Typing::Asks(dialog) => return Err(format!("{id} asks: {}", dialog.question)),
        Typing::Begun(_) => return Err(format!("a person has begun a line in the input of {id}")),
        Typing::Unrecognised(_) => return Err(format!("the screen of {id} shows no input line")),
        Typing::Unseen(why) => return Err(why),
        Typing::Gone => return Err(format!("{id} has no session now")),
    }
    let sent = typing::submit(world, id, Some(harness), handle, text).await;
    sent.map_err(|refused| refused.message)
}
