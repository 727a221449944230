//! Observes a city.

#[cfg_attr(
    not(test),
    expect(clippy::wildcard_imports, reason = "a part of the module above")
)]
use super::*;

/// Methods that observe.
impl TestCity {
    /// Has the root look so many times in a row, while a call of a fake is held and time stands still. The actions of a
    /// look are done before the next begins.
    pub async fn run_looks(&self, times: usize) {
        let sessions = &self.parts.sessions;
        for _ in 0..times {
            sessions.hold_lists(true);
            self.send_to_root(RootMail::Look).unwrap();
            self.until("a look", || sessions.lists_held() > 0).await;
            sessions.hold_lists(false);
            self.until("its list", || sessions.lists_held() == 0).await;
        }
    }

    /// Runs a transaction that cannot fail.
    pub async fn store<T, F>(&self, job: F) -> T
    where
        T: Send + 'static,
        F: FnMut(&mut dyn Txn) -> Result<T, StoreError> + Send + 'static,
    {
        self.world.store.run(job).await.unwrap()
    }

    /// Returns the relic's present state.
    pub async fn relic_now(&self, id: &RelicId) -> Relic {
        let id = id.clone();
        self.store(move |txn| txn.relic(&id)).await
    }

    /// Returns the relic's present status.
    pub async fn status(&self, id: &RelicId) -> RelicStatus {
        self.relic_now(id).await.status
    }

    /// Returns the raider's hook.
    pub async fn hook(&self, raider: &RaiderId) -> Option<Hook> {
        let raider = raider.clone();
        self.store(move |txn| txn.hook(&raider)).await
    }

    /// Returns the newest merge request of a relic.
    pub async fn mr(&self, relic: &RelicId) -> Option<MergeRequest> {
        let all = self.store(|txn| txn.mrs(None, false)).await;
        all.into_iter().rfind(|mr| &mr.relic == relic)
    }

    /// Returns the number of open sagas.
    pub async fn sagas(&self) -> usize {
        self.store(|txn| Ok(txn.sagas(None)?.len())).await
    }

    /// Returns the open escalations.
    pub async fn escalations(&self) -> Vec<Relic> {
        let filter = RelicFilter {
            kind: Some(RelicKind::Escalation),
            ..RelicFilter::default()
        };
        self.store(move |txn| txn.relics(&filter)).await
    }

    /// Rewords every stored text, as another version of the supervisor would.
    pub async fn reword(&self) {
        self.store(|txn| txn.reword()).await;
    }

    /// Returns the events of this type, in order.
    pub async fn events(&self, kind: EventType) -> Vec<Event> {
        let filter = EventFilter {
            kind: Some(kind.as_str().to_owned()),
            ..EventFilter::default()
        };
        self.store(move |txn| txn.events(&filter)).await
    }

    /// Returns all events as lines, for the message of an assertion that fails rarely.
    pub async fn journal(&self) -> String {
        let all = EventFilter::default();
        let events = self.store(move |txn| txn.events(&all)).await;
        let line = |event: &Event| format!("{} {} {}\n", event.ts, event.kind, event.subject);
        events.iter().map(line).collect()
    }

    /// Returns the child as the root sees it.
    pub async fn view(&self, id: &ChildId) -> Option<ChildView> {
        let views = ask::views(&self.world).await.unwrap();
        views.into_iter().find(|view| &view.spec.id == id)
    }

    /// Returns the state of the child.
    pub async fn state(&self, id: &ChildId) -> Option<ChildState> {
        self.view(id).await.map(|view| view.state)
    }

    /// Returns the number of sessions of this id that were started.
    #[must_use]
    pub fn starts(&self, id: &SessionId) -> usize {
        let starts = self.parts.sessions.starts();
        starts.iter().filter(|spec| &spec.id == id).count()
    }

    /// Returns whether a session of this id runs.
    #[must_use]
    pub fn runs(&self, id: &SessionId) -> bool {
        self.parts.sessions.running().contains(id)
    }

    /// Returns the session id of a child.
    #[must_use]
    pub fn session(&self, id: &ChildId) -> SessionId {
        id.session_id(&self.world.city.name)
    }
}
