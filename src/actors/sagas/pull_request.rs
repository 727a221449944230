//! `hd mq pr`: a pull request for a pushed branch, opened by a command of the operator (`[rigs.forge] pr`).

use std::time::Duration;

use crate::actors::claims::ClaimKey;
use crate::actors::effects;
use crate::actors::records::raider_notes;
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::actors::world::World;
use crate::domain::asker::Asker;
use crate::domain::city::{Rig, RigSource, Rights};
use crate::domain::event::{EventType, NewEvent};
use crate::domain::merge::MergeRequest;
use crate::domain::pull_request::{self, Placeholder, PrCommand};
use crate::domain::raider_notes::RaiderNotes;
use crate::domain::relic::Relic;
use crate::domain::self_review::Round;
use crate::domain::shown;
use crate::ports::relics::Txn;
use crate::ports::runner::{Command, Ended};

/// The time limit of the command.
const LIMIT: Duration = Duration::from_secs(120);

/// A pull request.
#[derive(Debug, Clone)]
pub struct Opened {
    /// Its merge request.
    pub mr: MergeRequest,
    /// Set when it had been opened before.
    pub already: bool,
    /// The end of the output of the command.
    pub output: String,
}

impl Opened {
    /// Makes the answer for one that another call opened.
    fn before(mr: MergeRequest) -> Self {
        Self {
            mr,
            already: true,
            output: String::new(),
        }
    }
}

/// Opens a pull request, and stores its address. While one is stored, it is not opened again, unless that is asked for: the
/// supervisor does not see that a person closed it at the host.
///
/// # Errors
/// [`RefusalKind::Conflict`] when the merge request has ended or no command is configured, [`RefusalKind::Failed`] when
/// the command fails.
pub async fn open(
    world: &World,
    mr: MergeRequest,
    anew: bool,
    asker: &Asker,
) -> Result<Opened, Refusal> {
    if mr.pr.is_some() && !anew {
        return Ok(Opened::before(mr));
    }
    expect_open(&mr)?;
    let rig = world.city.rig(&mr.rig);
    let configured = rig.and_then(|rig| Some((rig, rig.forge.pr.as_ref()?)));
    let Some((rig, command)) = configured else {
        let message = format!("rig {} has no command that opens pull requests", mr.rig);
        let hint = "set one: [rigs.forge] pr = [\"gh\", \"pr\", \"create\", \"--head\", \"{branch}\", \"--base\", \
            \"{target}\", \"--title\", \"{title}\", \"--body-file\", \"{body_file}\"]";
        return Err(Refusal::conflict(message).hint(hint));
    };
    let Some(_claim) = world.claims.claim(ClaimKey::PullRequest(rig.name.clone())) else {
        let message = format!("another pull request of rig {} is being opened", rig.name);
        return Err(Refusal::conflict(message));
    };
    // Another caller may have opened one since it was read.
    let (id, known) = (mr.id.clone(), mr.pr);
    let mr = world.store.run(move |txn| txn.mr(&id)).await?;
    if mr.pr != known {
        return Ok(Opened::before(mr));
    }
    expect_open(&mr)?;
    let ended = run(world, rig, command, &mr).await?;
    let output = shown::output(&ended.tail).trim().to_owned();
    if let Some(why) = failure(&ended) {
        let message = format!("the command of [rigs.forge] pr {why}: {output}");
        return Err(Refusal::new(RefusalKind::Failed, message));
    }
    let Some(url) = pull_request::url(&ended.tail) else {
        let message = format!("the command of [rigs.forge] pr printed no address: {output}");
        return Err(Refusal::new(RefusalKind::Failed, message));
    };
    let (id, asker) = (mr.id.clone(), asker.clone());
    let mr = world.store.run(move |txn| {
        let mut mr = txn.mr(&id)?;
        mr.pr = Some(url.clone());
        txn.put_mr(&mr)?;
        let data =
            serde_json::json!({ "mr": mr.id, "relic": mr.relic, "raider": mr.raider, "url": url });
        let event = NewEvent::new(EventType::MrPrOpened, &mr.id, &asker);
        txn.record(&event.with(data))?;
        Ok(mr)
    });
    Ok(Opened {
        mr: mr.await?,
        already: false,
        output,
    })
}

fn expect_open(mr: &MergeRequest) -> Result<(), Refusal> {
    match mr.is_final() {
        true => Err(Refusal::conflict(format!("{} has ended", mr.id))),
        false => Ok(()),
    }
}

/// Runs the command in the rig's checkout, with the supervisor's environment.
async fn run(
    world: &World,
    rig: &Rig,
    command: &PrCommand,
    mr: &MergeRequest,
) -> Result<Ended, Refusal> {
    let own = mr.clone();
    let read = move |txn: &mut dyn Txn| {
        let rounds = txn.self_reviews(&own.relic, &own.raider, own.incarnation)?;
        let notes = raider_notes::of(txn, &own.id)?;
        Ok((txn.relic(&own.relic)?, rounds, notes))
    };
    let (relic, rounds, notes): (Relic, Vec<Round>, RaiderNotes) = world.store.run(read).await?;
    let place = world.city.state_dir().join("pr");
    let (dir, name) = (place.clone(), format!("{}.md", rig.name));
    let text = pull_request::body(&relic, mr, &rounds, &notes);
    let owner = effects::Owner::Rig(rig.name.clone());
    let write =
        move |tasks: &dyn crate::ports::tasks::TaskFiles| tasks.write_beside(&dir, &name, &text);
    let body_file = effects::tasks(world, owner, write).await.map_err(|error| {
        let message = format!("the text of the pull request cannot be written: {error}");
        Refusal::new(RefusalKind::Unavailable, message)
    })?;
    let mut env = world.env.clone();
    env.extend(effects::errand_env(world, &[]));
    for placeholder in Placeholder::ALL {
        let value = match placeholder {
            Placeholder::Title => pull_request::title(&relic),
            Placeholder::BodyFile => body_file.to_string_lossy().into_owned(),
            Placeholder::Branch => mr.branch.clone(),
            Placeholder::Target => mr.target.clone(),
            Placeholder::Head => mr.head.to_string(),
            Placeholder::Mr => mr.id.to_string(),
            Placeholder::Relic => mr.relic.to_string(),
        };
        env.insert(placeholder.variable().to_owned(), value);
    }
    let command = Command {
        line: command.line(),
        dir: match &rig.source {
            RigSource::Path(path) => path.clone(),
            RigSource::Remote(_) => world.city.root.clone(),
        },
        env,
        stdin: None,
        limit: LIMIT,
        record: place.join(rig.name.as_str()),
        alone: true,
        // The city's owner has it run.
        rights: Rights::All,
        name: format!("pr/{}", rig.name),
    };
    let owner = effects::Owner::Rig(rig.name.clone());
    let running = effects::command(world, owner, effects::WorkKind::Commands, command);
    Ok(running.end.await)
}

/// Returns how the command failed, if it did.
fn failure(ended: &Ended) -> Option<String> {
    match (&ended.why, ended.timed_out, ended.code, ended.signal) {
        (Some(why), ..) => Some(format!("could not be run or watched ({why})")),
        (None, true, ..) => Some(format!("took longer than {LIMIT:?}")),
        (None, false, Some(0), _) => None,
        (None, false, Some(code), _) => Some(format!("exited with {code}")),
        (None, false, None, Some(signal)) => Some(format!("was ended by signal {signal}")),
        (None, false, None, None) => Some("was ended".to_owned()),
    }
}
