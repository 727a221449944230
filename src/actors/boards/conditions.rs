//! The table of watched sessions: the state of each by the last look and the reports since.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::Notify;

use crate::domain::account::AccountReport;
use crate::domain::condition::{Condition, Watch};
use crate::domain::facts::SessionFacts;
use crate::domain::first_prompt::Pasted;
use crate::domain::ids::{ChildId, HarnessName, SessionId};
use crate::domain::screen::ScreenView;
use crate::domain::unsubmitted::Unsubmitted;
use crate::ports::sessions::SessionHandle;

/// The conditions of all watched sessions, kept between two looks.
#[derive(Default)]
pub struct Conditions {
    entries: Mutex<BTreeMap<SessionId, Entry>>,
    /// The number of watches begun so far.
    begun: AtomicU64,
}

/// A moment before the sessions were listed. A session that started later is missing in that list, or the list holds
/// its predecessor.
#[derive(Debug, Clone, Copy)]
pub struct Moment(u64);

/// A session that is watched.
pub(in crate::actors) struct Entry {
    pub(in crate::actors) watch: Watch,
    /// The number of this watch, counted from the first.
    number: u64,
    pub(in crate::actors) child: ChildId,
    pub(in crate::actors) harness: HarnessName,
    /// A text that was typed and not submitted: it stands in the program's input line.
    unsubmitted: Option<Unsubmitted>,
    /// The first prompt, if it was pasted.
    first_prompt: Option<Pasted>,
    /// Wakes tasks that wait for another screen.
    pub(in crate::actors) looked: Arc<Notify>,
}

impl Entry {
    /// Handles the submission of the text in the input line.
    fn submits(&mut self) {
        let submitted = self.unsubmitted.take();
        if let (Some(submitted), Some(prompt)) = (submitted, &mut self.first_prompt)
            && submitted.has(prompt.text())
        {
            prompt.submits();
            self.looked.notify_one();
        }
    }

    /// The program begins to work at a text: at the one in the input line, unless that is a first prompt that the last look
    /// did not see there. A dialog may have swallowed that, and the text may be a person's.
    pub(in crate::actors) fn begins(&mut self) {
        let swallowed = match (&self.unsubmitted, &mut self.first_prompt) {
            (Some(stands), Some(prompt)) => stands.has(prompt.text()) && !prompt.begins(),
            _ => false,
        };
        if !swallowed {
            self.submits();
        }
    }

    /// Handles an observation of the screen.
    pub(in crate::actors) fn saw_prompt(&mut self, view: &ScreenView, attached: Option<bool>) {
        if let Some(prompt) = &mut self.first_prompt {
            prompt.observe(view, attached);
        }
    }
}

impl Conditions {
    pub(in crate::actors) fn entries(&self) -> MutexGuard<'_, BTreeMap<SessionId, Entry>> {
        // A poisoned lock at most costs another reading of a screen.
        (self.entries.lock()).unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns this moment, for a look at the sessions that are listed after it.
    #[must_use]
    pub fn moment(&self) -> Moment {
        Moment(self.begun.load(Ordering::Relaxed))
    }

    /// Returns the condition of that session, as far as it is known.
    #[must_use]
    pub fn of(&self, handle: &SessionHandle) -> Option<Condition> {
        let entries = self.entries();
        let watch = &entries.get(&handle.id)?.watch;
        watch.is_of(&handle.token).then(|| watch.shown())?.cloned()
    }

    /// Returns the limit or login that this session is in, or that it has not gone on after.
    #[must_use]
    pub fn trouble(&self, handle: &SessionHandle) -> Option<AccountReport> {
        let entries = self.entries();
        let watch = &entries.get(&handle.id)?.watch;
        watch.is_of(&handle.token).then(|| watch.trouble())?
    }

    /// Clears the limit or login that this session shows, whatever stays on its screen.
    pub fn pass(&self, handle: &SessionHandle) {
        let mut entries = self.entries();
        let entry = entries.get_mut(&handle.id);
        if let Some(entry) = entry.filter(|entry| entry.watch.is_of(&handle.token)) {
            entry.watch.pass();
        }
    }

    /// Returns the question that the session's harness reports, which its screen may not show yet.
    #[must_use]
    pub fn reported_question(&self, handle: &SessionHandle) -> Option<String> {
        let entries = self.entries();
        let watch = &entries.get(&handle.id)?.watch;
        let question = watch
            .is_of(&handle.token)
            .then(|| watch.reported_question());
        question?.map(str::to_owned)
    }

    /// Returns what can be answered to the dialog that is open in that session, as far as is known.
    #[must_use]
    pub fn choices(&self, handle: &SessionHandle) -> Vec<String> {
        let entries = self.entries();
        let entry = entries.get(&handle.id);
        let entry = entry.filter(|entry| entry.watch.is_of(&handle.token));
        entry.map_or_else(Vec::new, |entry| entry.watch.choices().to_vec())
    }

    /// Returns since when the turn of that session is over and nothing has followed, as its harness reported.
    #[must_use]
    pub fn turn_over(&self, handle: &SessionHandle) -> Option<Timestamp> {
        let entries = self.entries();
        let watch = &entries.get(&handle.id)?.watch;
        watch.is_of(&handle.token).then(|| watch.turn_over())?
    }

    /// Returns when a person typed last into a line that stands in the input of that session, where `begun` is what its
    /// holder says of that.
    #[must_use]
    pub fn typed_last(
        &self,
        handle: &SessionHandle,
        begun: Option<Timestamp>,
    ) -> Option<Timestamp> {
        let entries = self.entries();
        let entry = entries.get(&handle.id);
        match entry.filter(|entry| entry.watch.is_of(&handle.token)) {
            Some(entry) => entry.watch.typed_last(begun),
            None => begun,
        }
    }

    /// Notes that a text was submitted in that session.
    pub fn submitted(&self, handle: &SessionHandle) {
        let mut entries = self.entries();
        let entry = entries.get_mut(&handle.id);
        if let Some(entry) = entry.filter(|entry| entry.watch.is_of(&handle.token)) {
            entry.watch.submitted();
            entry.submits();
        }
    }

    /// Notes how the first prompt of that session was pasted and not submitted. A text that is known to stand in the input
    /// line stays known.
    pub fn set_pasted(&self, handle: &SessionHandle, prompt: &Pasted) {
        let mut entries = self.entries();
        let entry = entries.get_mut(&handle.id);
        if let Some(entry) = entry.filter(|entry| entry.watch.is_of(&handle.token)) {
            entry.first_prompt = Some(prompt.clone());
            (entry.unsubmitted).get_or_insert_with(|| prompt.text().clone());
        }
    }

    /// Returns what was seen of the first prompt of that session since it was pasted.
    #[must_use]
    pub fn pasted(&self, handle: &SessionHandle) -> Option<Pasted> {
        let entries = self.entries();
        let entry = entries.get(&handle.id)?;
        entry.watch.is_of(&handle.token).then_some(entry)?;
        entry.first_prompt.clone()
    }

    /// Notes a look at the screen of that session; `attached` where it is known whether a person is.
    pub fn saw_prompt(&self, handle: &SessionHandle, view: &ScreenView, attached: Option<bool>) {
        let mut entries = self.entries();
        let entry = entries.get_mut(&handle.id);
        if let Some(entry) = entry.filter(|entry| entry.watch.is_of(&handle.token)) {
            entry.saw_prompt(view, attached);
        }
    }

    /// Notes that keys were typed for a person in that session.
    pub fn pressed(&self, handle: &SessionHandle) {
        let mut entries = self.entries();
        let entry = entries.get_mut(&handle.id);
        let entry = entry.filter(|entry| entry.watch.is_of(&handle.token));
        if let Some(prompt) = entry.and_then(|entry| entry.first_prompt.as_mut()) {
            prompt.pressed();
        }
    }

    /// Returns true when another session of this name is watched.
    #[must_use]
    pub fn is_followed(&self, handle: &SessionHandle) -> bool {
        let entries = self.entries();
        let entry = entries.get(&handle.id);
        entry.is_some_and(|entry| !entry.watch.is_of(&handle.token))
    }

    /// Returns true when that session has a known condition. Faults found by the supervisor itself do not count.
    #[must_use]
    pub fn has(&self, handle: &SessionHandle) -> bool {
        let entries = self.entries();
        let entry = entries.get(&handle.id);
        let entry = entry.filter(|entry| entry.watch.is_of(&handle.token));
        entry.is_some_and(|entry| entry.watch.condition().is_some())
    }

    /// Notes that the reported question was answered.
    pub fn answered(&self, handle: &SessionHandle) {
        let mut entries = self.entries();
        let entry = entries.get_mut(&handle.id);
        if let Some(entry) = entry.filter(|entry| entry.watch.is_of(&handle.token)) {
            entry.watch.answered();
        }
    }

    /// Returns what stands for the screen of that session, without spinners and clocks, if it could be seen.
    #[must_use]
    pub fn picture(&self, id: &SessionId) -> Option<u64> {
        self.entries().get(id)?.watch.picture()
    }

    /// Returns the text that was typed into that session and not submitted, and remembers another one in its place.
    pub fn set_unsubmitted(
        &self,
        handle: &SessionHandle,
        text: Option<Unsubmitted>,
    ) -> Option<Unsubmitted> {
        let mut entries = self.entries();
        let entry = entries.get_mut(&handle.id)?;
        let entry = entry.watch.is_of(&handle.token).then_some(entry)?;
        std::mem::replace(&mut entry.unsubmitted, text)
    }

    /// Returns the notifier that is woken at each reading of that session's screen.
    #[must_use]
    pub fn looked(&self, handle: &SessionHandle) -> Option<Arc<Notify>> {
        let entries = self.entries();
        let entry = entries.get(&handle.id)?;
        let is_it = entry.watch.is_of(&handle.token);
        is_it.then(|| Arc::clone(&entry.looked))
    }

    /// Returns true when that session is known to have a condition.
    #[must_use]
    pub fn is_known(&self, id: &SessionId) -> bool {
        let entries = self.entries();
        entries.get(id).is_some_and(|entry| entry.watch.is_known())
    }

    pub(in crate::actors) fn holding(&self) -> BTreeSet<SessionId> {
        let entries = self.entries();
        let holding = entries.iter().filter(|(_, entry)| entry.watch.holds());
        holding.map(|(id, _)| id.clone()).collect()
    }

    /// Has the conditions on the screens of these harnesses reported to the account again.
    pub fn report_again(&self, of: impl Fn(&HarnessName) -> bool) {
        let mut entries = self.entries();
        let its = entries.values_mut().filter(|entry| of(&entry.harness));
        its.for_each(|entry| entry.watch.forget_account());
    }

    /// Has every screen read again, because the patterns changed.
    pub fn look_again(&self) {
        let mut entries = self.entries();
        entries.values_mut().for_each(|entry| entry.watch.missed());
    }

    /// Marks a session as not observable: the content of its screen is unknown.
    pub(in crate::actors) fn missed(&self, handle: &SessionHandle) {
        let mut entries = self.entries();
        let entry = entries.get_mut(&handle.id);
        if let Some(entry) = entry.filter(|entry| entry.watch.is_of(&handle.token)) {
            entry.watch.missed();
        }
    }

    /// Begins to watch a session, so that reports of its holder and its harness are handled.
    pub fn enroll(&self, child: &ChildId, harness: &HarnessName, handle: &SessionHandle) {
        self.enroll_seen(child, harness, handle, Moment(u64::MAX));
    }

    /// Begins to watch a session that was listed after `moment`, unless a later one of its name is watched.
    pub(in crate::actors) fn enroll_seen(
        &self,
        child: &ChildId,
        harness: &HarnessName,
        handle: &SessionHandle,
        moment: Moment,
    ) {
        let mut entries = self.entries();
        let is_kept = |entry: &Entry| {
            let is_it = entry.watch.is_of(&handle.token) && entry.harness == *harness;
            is_it || entry.number > moment.0
        };
        if entries.get(&handle.id).is_some_and(is_kept) {
            return;
        }
        let entry = Entry {
            watch: Watch::new(&handle.token),
            number: self.begun.fetch_add(1, Ordering::Relaxed) + 1,
            child: child.clone(),
            harness: harness.clone(),
            unsubmitted: None,
            first_prompt: None,
            looked: Arc::default(),
        };
        entries.insert(handle.id.clone(), entry);
    }

    /// Forgets every session but these, unless it is watched since a look at the sessions that began at `moment`.
    pub(in crate::actors) fn forget_others(&self, known: &BTreeSet<SessionId>, moment: Moment) {
        let stays =
            |id: &SessionId, entry: &mut Entry| known.contains(id) || entry.number > moment.0;
        self.entries().retain(stays);
    }

    /// Returns true when the screen must be read.
    pub(in crate::actors) fn is_due(&self, facts: &SessionFacts) -> bool {
        let entries = self.entries();
        let entry = entries.get(&facts.id);
        entry.is_some_and(|entry| !entry.watch.is_fresh(facts.last_activity))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::condition::Report;

    fn handle(token: &str) -> SessionHandle {
        SessionHandle {
            id: "hd-t-horde-Toast".parse().unwrap(),
            token: token.to_owned(),
        }
    }

    /// A session can start while a look at an older list of sessions runs. Its watch stays, with what its hooks reported.
    #[test]
    fn session_that_came_up_during_a_look_stays_watched() {
        let conditions = Conditions::default();
        let child = ChildId::Raider("horde/raiders/Toast".parse().unwrap());
        let harness: HarnessName = "claude".parse().unwrap();
        let (old, new) = (handle("old"), handle("new"));
        conditions.enroll(&child, &harness, &old);
        let moment = conditions.moment();
        conditions.enroll(&child, &harness, &new);
        let asks = Report::Asks {
            question: "Which?".to_owned(),
            choices: Vec::new(),
        };
        let now = jiff::Timestamp::UNIX_EPOCH;
        let report = |entry: &mut Entry| entry.watch.reported(&asks, now);
        conditions.entries().values_mut().for_each(report);
        conditions.enroll_seen(&child, &harness, &old, moment);
        conditions.forget_others(&BTreeSet::new(), moment);
        assert_eq!(
            conditions.reported_question(&new).as_deref(),
            Some("Which?")
        );
        let later = conditions.moment();
        conditions.forget_others(&BTreeSet::new(), later);
        assert_eq!(conditions.reported_question(&new), None);
    }
}
