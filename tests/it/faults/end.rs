//! The end that every story must have, whatever happened on the way.

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::support::git::git;
use crate::support::live::{City, wait};
use crate::support::processes;

impl City {
    /// Asserts that each of these is on the origin's main, in exactly one commit, and that no other trace of the work
    /// is left.
    pub fn assert_landed(&self, work: &[(String, String)]) {
        for (name, relic) in work {
            self.wait_status(relic, "closed");
            self.assert_once(name, relic);
        }
        self.assert_quiet();
    }

    fn assert_once(&self, name: &str, relic: &str) {
        let subjects = git(&self.origin(), &["log", "--format=%s", "main"]);
        let wanted = format!("Work on {name}");
        let times = subjects.lines().filter(|line| *line == wanted).count();
        assert_eq!(times, 1, "{name} landed {times} times:\n{subjects}",);
        let content = git(&self.origin(), &["show", &format!("main:work/{name}")]);
        assert_eq!(content, name);
        let landed: Vec<_> = self
            .mrs(relic)
            .into_iter()
            .filter(|mr| mr["state"] == "merged")
            .collect();
        assert_eq!(landed.len(), 1, "{relic}: {landed:?}");
        for mr in self.mrs(relic) {
            let sent = self.all_of("message.sent");
            let merged = sent.iter().filter(|event| {
                event["data"]["type"] == "MERGED" && event["data"]["mr"] == mr["id"]
            });
            let wanted = usize::from(mr["state"] == "merged");
            assert_eq!(merged.count(), wanted, "MERGED of {}", mr["id"],);
        }
        let closed = self.all_of("relic.closed");
        let closed = closed
            .iter()
            .filter(|event| event["subject"] == relic)
            .count();
        assert_eq!(closed, 1, "{relic} was closed {closed} times");
    }

    /// Asserts that no raider works, nothing is under way, and a raider's only trace is its history.
    pub fn assert_quiet(&self) {
        wait("nothing is under way", || {
            self.unfinished().is_empty().then_some(())
        });
        let status = self.answer("status", json!({}));
        let rig = &status["rigs"][0];
        assert_eq!(rig["raiders"], json!([]));
        assert_eq!(rig["forge"]["queue"], json!([]));
        let refs = |dir: &std::path::Path, prefix: &str| {
            git(dir, &["for-each-ref", "--format=%(refname)", prefix])
        };
        if self.origin().join("refs/heads/main").exists() {
            assert_eq!(refs(&self.origin(), "refs/heads"), "refs/heads/main");
            assert_eq!(refs(&self.origin(), "refs/horde"), "");
        }
        assert_eq!(refs(&self.repo(), "refs/horde/mq"), "");
        assert_eq!(refs(&self.repo(), "refs/horde/pushed"), "");
        assert_eq!(refs(&self.theirs(), "refs/heads/raider"), "");
        let worktrees = git(&self.theirs(), &["worktree", "list", "--porcelain"]);
        assert!(!worktrees.contains("/raiders/"), "{worktrees}");
    }

    /// Returns the merge requests of a relic, the oldest first, in full.
    pub fn mrs(&self, relic: &str) -> Vec<Value> {
        let all = self.answer("mq.list", json!({ "rig": "horde" }));
        let all = all.as_array().expect("a list").clone();
        let of = all.into_iter().filter(|mr| mr["relic"] == relic);
        let of = of.map(|mr| self.answer("mq.show", json!({ "mr": mr["id"] })));
        let mut of: Vec<_> = of.collect();
        of.sort_by_key(|mr| mr["queued_at"].to_string() + &mr["id"].to_string());
        of
    }

    /// Returns the work that is still under way, by the place where it is seen.
    fn unfinished(&self) -> Vec<String> {
        let mut left = Vec::new();
        let store = self.root().join(".horde/relics.db");
        let store = Connection::open_with_flags(store, OpenFlags::SQLITE_OPEN_READ_ONLY);
        let store = store.expect("the store can be read");
        for (table, which) in [
            ("sagas", "1"),
            ("hooks", "1"),
            ("messages", "handled_at IS NULL"),
        ] {
            let count = format!("SELECT count(*) FROM {table} WHERE {which}");
            let rows: i64 = store.query_row(&count, [], |row| row.get(0)).unwrap_or(1);
            if rows > 0 {
                left.push(format!("{rows} {table}"));
            }
        }
        for dir in ["horde/raiders", ".horde/trash", ".horde/outbox"] {
            let names = std::fs::read_dir(self.root().join(dir));
            let names = names.into_iter().flatten().flatten();
            left.extend(names.map(|entry| entry.path().display().to_string()));
        }
        let running = processes::describe(&processes::of(self.root()));
        let agents = running
            .lines()
            .filter(|line| !line.contains("horde-supervisor"));
        left.extend(agents.map(str::to_owned));
        let refs = [
            "for-each-ref",
            "--format=%(refname)",
            "refs/heads/raider",
            "refs/horde/mq",
            "refs/horde/pushed",
        ];
        left.extend(git(&self.repo(), &refs).lines().map(str::to_owned));
        // A patrol deletes what a removal left.
        let branches = ["for-each-ref", "--format=%(refname)", "refs/heads/raider"];
        left.extend(git(&self.theirs(), &branches).lines().map(str::to_owned));
        left
    }

    /// Asserts that nothing was ever salvaged, because nothing was ever at risk.
    pub fn assert_no_salvage(&self) {
        assert_eq!(self.answer("salvage.list", json!({})), json!([]),);
        let refs = git(&self.repo(), &["for-each-ref", "refs/horde/salvage"]);
        assert_eq!(refs, "");
    }
}
