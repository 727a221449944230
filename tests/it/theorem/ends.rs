//! The tested pairs of forms and ends, and the forms that are added by chance.

use std::collections::{BTreeMap, BTreeSet};

use super::forms::Form;
use horde_supervisor::domain::saga::FaultPoint;

/// The end of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// A nuke, during which the daemon dies at each of [`NUKE`].
    Nuke,
    /// A completion, during which it dies at each of [`DONE`]; a nuke when that is refused.
    Done,
    /// Repairs of everything that can break, and a nuke.
    Repair,
    /// A completion that conflicts, while the sandbox is still being worked in.
    Remuster,
    /// Its hook is lost; the patrol removes it after its work was kept for `keep_dirty`.
    Kept,
    /// Its relic is closed by a person; the patrol ends its session, then removes it in that way, too.
    Closed,
}

/// The steps of a nuke.
pub const NUKE: &[FaultPoint] = &[
    FaultPoint::NukeIntentBefore,
    FaultPoint::NukeIntentAfter,
    FaultPoint::NukeSalvageBefore,
    FaultPoint::NukeSalvageAfter,
    FaultPoint::NukeReleaseBefore,
    FaultPoint::NukeReleaseAfter,
];

/// The steps of a completion, and of the landing and removal that follow.
pub const DONE: &[FaultPoint] = &[
    FaultPoint::DoneIntentBefore,
    FaultPoint::DoneIntentAfter,
    FaultPoint::DonePushBefore,
    FaultPoint::DonePushAfter,
    FaultPoint::DoneSubmitBefore,
    FaultPoint::DoneSubmitAfter,
    FaultPoint::DoneSessionBefore,
    FaultPoint::DoneSessionAfter,
    FaultPoint::WitnessReadyBefore,
    FaultPoint::WitnessReadyAfter,
    FaultPoint::NukeIntentBefore,
    FaultPoint::NukeIntentAfter,
    FaultPoint::NukeReleaseBefore,
    FaultPoint::NukeReleaseAfter,
];

impl End {
    /// Every end.
    pub const ALL: &[Self] = &[
        Self::Nuke,
        Self::Done,
        Self::Repair,
        Self::Remuster,
        Self::Kept,
        Self::Closed,
    ];

    /// Returns whether the patrol removes it without being asked.
    pub fn is_patrols(self) -> bool {
        matches!(self, Self::Kept | Self::Closed)
    }
}

/// Returns whether a nuke refuses the form.
pub fn is_at_risk(form: Form) -> bool {
    !matches!(
        form,
        Form::Elsewhere
            | Form::Backup
            | Form::HiddenWorktree
            | Form::HiddenClone
            | Form::ReflogOnly
            | Form::Ignored
            // git would store these bytes as the blob that HEAD has, so they are saved without being asked.
            | Form::LineEndings
            | Form::LossyFilter
            | Form::SeparateHidden
            | Form::DeepHidden
            | Form::Locked
            // An entry that is no longer in the list holds nothing up, and is saved without being asked.
            | Form::StashTaken
            | Form::RefLocks
            | Form::Clean
    )
}

/// Returns whether a completion refuses the form.
pub fn is_dirty(form: Form) -> bool {
    let committed = matches!(
        form,
        Form::Ahead
            | Form::Amended
            | Form::Grafted
            | Form::Replaced
            | Form::Forged
            | Form::Stash
            | Form::SubmoduleLeft
            | Form::SubmoduleGone
            | Form::SubmoduleRemoved
    );
    is_at_risk(form) && !committed
}

/// A single case.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub form: Form,
    pub end: End,
    pub seed: u64,
}

/// The number of things that can break besides the work.
pub const BREAKS: usize = 7;
/// The break that also destroys work outside commits and index: the directory is deleted.
pub const DELETED: usize = BREAKS;

/// The counts of tested cases.
#[derive(Default)]
pub struct Tally {
    ended: BTreeMap<(Form, End), usize>,
    died: BTreeMap<(End, &'static str), usize>,
    total: usize,
}

impl Tally {
    /// Adds the counts of another part.
    pub fn add(&mut self, other: Self) {
        for (pair, times) in other.ended {
            *self.ended.entry(pair).or_default() += times;
        }
        for (step, times) in other.died {
            *self.died.entry(step).or_default() += times;
        }
        self.total += other.total;
    }

    /// Returns the number of cases.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Counts a case.
    pub fn count(&mut self) {
        self.total += 1;
    }

    /// Counts a death of the daemon at this step.
    pub fn died(&mut self, end: End, at: FaultPoint) {
        *self.died.entry((end, at.as_str())).or_default() += 1;
    }

    /// Returns whether the daemon died at all of the steps of this end. A sandbox may be kept after a completion, and
    /// its nuke refused.
    pub fn has_died_at(&self, end: End, steps: &[FaultPoint]) -> bool {
        let has = |at: &FaultPoint| self.died.contains_key(&(end, at.as_str()));
        let own = |at: &&FaultPoint| end == End::Nuke || !NUKE.contains(at);
        steps.iter().filter(own).all(has)
    }

    /// Counts this form with this end.
    pub fn end(&mut self, pair: (Form, End)) {
        *self.ended.entry(pair).or_default() += 1;
    }

    /// Returns the number of times that this form came to this end.
    pub fn ended(&self, pair: (Form, End)) -> usize {
        self.ended.get(&pair).copied().unwrap_or(0)
    }
}

/// A small generator of numbers (splitmix).
pub struct Dice(u64);

impl Dice {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Starts from a text of the agent, which differs from case to case.
    pub fn of(text: &[u8]) -> Self {
        let mix = |seed: u64, byte: &u8| seed.wrapping_mul(31).wrapping_add(u64::from(*byte));
        Self(text.iter().fold(0, mix))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `most`.
    pub fn below(&mut self, most: usize) -> usize {
        (self.next() % most as u64) as usize
    }

    /// Returns a text for an agent to write: a line of its own, then any bytes.
    pub fn text(&mut self) -> Vec<u8> {
        let mut text = format!("{:x}\n", self.next()).into_bytes();
        let odd = self.next().to_le_bytes();
        text.extend(&odd[..self.below(8)]);
        text.extend([&b""[..], b"\r\n", b"\n", b"\0"][self.below(4)]);
        text
    }
}

/// Returns whether the form can be added to any sandbox, whatever else is in it.
fn goes_along(form: Form) -> bool {
    // With random settings another form may be something else than its name says, so they take others in and are not
    // added to any; and no form can be made where git does not work.
    let plain = form != Form::Told && !form.is_ruin() && !form.is_staged_around();
    plain && form >= Form::Conflict
        || matches!(
            form,
            Form::Elsewhere
                | Form::Backup
                | Form::Ahead
                | Form::Amended
                | Form::ReflogOnly
                | Form::OwnRef
        )
}

/// Forms that move HEAD, and leave room for others behind them.
const MOVES: [Form; 11] = [
    Form::Aside,
    Form::Left,
    Form::Stash,
    Form::Detached,
    Form::Bisect,
    Form::Sparse,
    Form::Rebase,
    Form::Autostash,
    Form::Merge,
    Form::CherryPick,
    Form::Revert,
];

/// Returns whether the first form may be made before the second. While an operation is in progress, no other begins;
/// and work that is left behind is on the raider's own branch.
fn goes_before(first: Form, then: Form) -> bool {
    let leaves_off = first < Form::Bisect || first == Form::Sparse;
    // Outside the sparse checkout nothing can be added as a promise, and no submodule is taken in; nor is a submodule
    // committed when another form must stay uncommitted.
    let taken = Form::Submodule <= then && then <= Form::SubmoduleRemoved;
    // A rebase refuses to begin over the leftover file, nothing outside can be added, and existing files lose their
    // flags.
    let refused = matches!(
        then,
        Form::Intent | Form::Rebase | Form::Skip | Form::StagedOnly
    );
    let outside = first == Form::Sparse && (taken || refused);
    let busy = !leaves_off && (then < Form::Submodule || taken && then != Form::Submodule);
    first < then && then != Form::Left && !outside && !busy
}

/// Returns the forms of a case, in the order in which an agent makes them.
pub fn forms(case: Case, dice: &mut Dice) -> Vec<Form> {
    let mut forms = BTreeSet::from([case.form]);
    if case.end == End::Done && case.form != Form::Orphan {
        forms.insert(Form::Ahead);
    }
    let alone = case.form.is_ruin()
        || matches!(
            case.form,
            Form::Orphan
                | Form::Clean
                | Form::OwnWorktree
                | Form::HiddenWorktree
                | Form::Submodule
                | Form::SubmoduleLeft
                | Form::SubmoduleGone
                | Form::SubmoduleRemoved
        );
    let spoils = |also| case.end == End::Done && is_dirty(also) && !is_dirty(case.form);
    let most = if case.form == Form::Told { 8 } else { 4 };
    for _ in 0..dice.below(most) {
        let also = Form::ALL[dice.below(Form::ALL.len())];
        if !alone && !spoils(also) && goes_along(also) {
            forms.insert(also);
        }
    }
    let also = MOVES[dice.below(MOVES.len())];
    let alone = case.form == Form::Clean || case.form.is_ruin();
    if dice.below(2) == 0 && !alone && !spoils(also) && goes_before(also, case.form) {
        forms.insert(also);
    }
    forms.into_iter().collect()
}
