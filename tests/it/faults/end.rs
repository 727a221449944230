//! The end that every story must have, whatever happened on the way.

use rusqlite::{Connection, OpenFlags};
use serde_json::json;

use super::super::support::git::git;
use super::city::City;

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
        assert_eq!(
            times,
            1,
            "{name} landed {times} times:\n{subjects}\n{}",
            self.story()
        );
        let content = git(&self.origin(), &["show", &format!("main:work/{name}")]);
        assert_eq!(content, name);
        let landed: Vec<_> = self
            .mrs(relic)
            .into_iter()
            .filter(|mr| mr["state"] == "merged")
            .collect();
        assert_eq!(landed.len(), 1, "{relic}: {landed:?}");
        for mr in self.mrs(relic) {
            let sent = self.events("message.sent");
            let merged = sent.iter().filter(|event| {
                event["data"]["type"] == "MERGED" && event["data"]["mr"] == mr["id"]
            });
            let wanted = usize::from(mr["state"] == "merged");
            assert_eq!(
                merged.count(),
                wanted,
                "MERGED of {}\n{}",
                mr["id"],
                self.story()
            );
        }
        let closed = self.events("relic.closed");
        let closed = closed
            .iter()
            .filter(|event| event["subject"] == relic)
            .count();
        assert_eq!(closed, 1, "{relic} was closed {closed} times");
    }

    /// Asserts that no raider works, nothing is under way, and a raider's only trace is its history.
    pub fn assert_quiet(&self) {
        self.wait("nothing is under way", || {
            self.unfinished().is_empty().then_some(())
        });
        let status = self.ask("status", &json!({}));
        let rig = &status["rigs"][0];
        assert_eq!(rig["raiders"], json!([]), "{}", self.story());
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

    /// Returns the work that is still under way, by the place where it is seen.
    fn unfinished(&self) -> Vec<String> {
        let mut left = Vec::new();
        let store = self.dir().join(".horde/relics.db");
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
        for dir in ["rig/raiders", ".horde/trash", ".horde/outbox"] {
            let names = std::fs::read_dir(self.dir().join(dir));
            let names = names.into_iter().flatten().flatten();
            left.extend(names.map(|entry| entry.path().display().to_string()));
        }
        let agents = self.processes().into_iter();
        let agents = agents.filter(|(_, command)| !command.contains("horde-supervisor"));
        left.extend(agents.map(|(pid, command)| format!("{pid} {command}")));
        let refs = [
            "for-each-ref",
            "--format=%(refname)",
            "refs/heads/raider",
            "refs/horde/mq",
            "refs/horde/pushed",
        ];
        left.extend(git(&self.repo(), &refs).lines().map(str::to_owned));
        left
    }

    /// Asserts that nothing was ever salvaged, because nothing was ever at risk.
    pub fn assert_no_salvage(&self) {
        assert_eq!(
            self.ask("salvage.list", &json!({})),
            json!([]),
            "{}",
            self.story()
        );
        let refs = git(&self.repo(), &["for-each-ref", "refs/horde/salvage"]);
        assert_eq!(refs, "");
    }
}
