//! The life of a raider as `raider-lifecycle.md` describes it (correct lifecycle; `polecat-lifecycle.md` has the same): charge,
//! work in three sessions, done, merge queue. The sandbox and the slot are the same throughout, and the raider is gone before its work
//! is merged.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::git::{commit_all, git, write};
use crate::support::live::asks::session_pid;
use crate::support::live::{City, until};
use crate::support::plan::Plan;
use crate::support::{processes, program};

const TOAST: &str = "horde/raiders/Toast";
const BRANCH: &str = "raider/Toast/gt-1-1";

/// Session 1: steps 1 and 2, then a handoff.
const FIRST: &[&str] = &[
    "sign up$n; await go$n",
    "[ $n != 1 ] || { commit 1.txt; hd step done; commit 2.txt; hd step done; }",
    "[ $n != 1 ] || { hd handoff -m 'mind gap 1'; forever; }",
];

/// Session 2: steps 3 and 4, then a handoff. Session 3: step 5, then `hd done`. Session 4 is that of the fresh raider.
const HANDED_OFF: &[&str] = &[
    "[ $n != 2 ] || { commit 3.txt; hd step done; commit 4.txt; hd step done; }",
    "[ $n != 2 ] || { hd handoff -m 'mind gap 2'; forever; }",
    "[ $n != 4 ] || { for it in 1 2 3 4; do commit $it.txt; done; }",
    "commit README mine",
    "commit 5.txt",
    "[ $n != 3 ] || hd step done",
    "hd done",
];

/// Session 2: step 3 and half of step 4, then a crash. Session 3: the rest, then `hd done`.
const CRASHED: &[&str] = &[
    "[ $n != 2 ] || { commit 3.txt; hd step done; echo half >4.txt; git add 4.txt; }",
    "[ $n != 2 ] || { echo note >loose.txt; sign halved; forever; }",
    "rm loose.txt",
    "git commit --quiet -m 'add 4.txt'",
    "hd step done",
    "commit 5.txt",
    "hd step done",
    "hd done",
];

/// Five steps, one after the other.
fn ritual() -> String {
    let steps = (1..=5).map(|n| {
        let needs = if n == 1 {
            String::new()
        } else {
            format!("\"s{}\"", n - 1)
        };
        format!("[[steps]]\nid = \"s{n}\"\ntitle = \"Step {n}\"\nneeds = [{needs}]\n")
    });
    steps.collect()
}

/// A city whose only gate waits for the test.
fn city() -> City {
    let gates = r#"[{ name = "wait", run = "{root}/gate" }]"#;
    let mut city = City::made(&Plan::new().set("forge", "gates", gates));
    let signs = city.root().join("signs");
    let wait = format!("until [ -e {}/land ]; do sleep 0.05; done", signs.display());
    program::script(&city.root().join("gate"), &wait);
    write(city.root(), "rituals/five.toml", ritual());
    city.start();
    city
}

/// The life of one raider, as it is seen from outside.
struct Life {
    city: City,
    relic: String,
    sandbox: PathBuf,
    /// The inode of the sandbox: another directory in its place has another one.
    inode: u64,
}

impl Life {
    /// First box: slot, sandbox on a new branch, session, and the totem on the hook.
    fn charge(further: &[&str]) -> Self {
        let city = city();
        let relic = city.relic("five steps", &[FIRST, further].concat());
        city.hd(&["totem", "start", "five", &relic]).json();
        assert_eq!(
            city.raiders(),
            Vec::<Value>::new(),
            "no raider without work"
        );
        let charged = city.hd(&["charge", &relic, "horde"]).json();
        assert_eq!(
            (&charged["raider"], &charged["branch"]),
            (&json!(TOAST), &json!(BRANCH))
        );
        let sandbox = city.sandbox("Toast");
        let inode = fs::metadata(&sandbox).unwrap().ino();
        let life = Self {
            city,
            relic,
            sandbox,
            inode,
        };
        life.city.wait_sign("up1");
        life.assert_at_work(1, 0, 1);
        life
    }

    /// The session changes, and nothing else does: slot, sandbox, branch, hook and totem.
    fn assert_at_work(&self, session: u64, restarts: u64, step: u32) {
        let raider = self.city.wait_session(&self.relic, session);
        assert_eq!(self.city.raiders().len(), 1);
        for (key, value) in [
            ("id", json!(TOAST)),
            ("incarnation", json!(1)),
            ("state", json!("working")),
            ("hook", json!(self.relic)),
            ("branch", json!(BRANCH)),
            ("restarts", json!(restarts)),
        ] {
            assert_eq!(raider[key], value, "{key}: {raider}");
        }
        let now = &raider["session"];
        assert_eq!(
            (&now["id"], &now["generation"]),
            (&json!("gt-horde-Toast"), &json!(session))
        );
        assert_eq!(fs::metadata(&self.sandbox).unwrap().ino(), self.inode);
        assert_eq!(git(&self.sandbox, &["branch", "--show-current"]), BRANCH);
        let at = fs::read_link(format!("/proc/{}/cwd", session_pid(&raider))).unwrap();
        assert_eq!(at, self.sandbox.canonicalize().unwrap());
        assert_eq!(self.city.status_of(&self.relic), "hooked");
        let totem = self.city.hd(&["totem", "show", &self.relic]).json();
        assert_eq!(
            totem["present"],
            format!("{}.{step}", self.relic),
            "{totem}"
        );
    }

    /// Returns the commits of the branch with their authors, the oldest first.
    fn commits(&self) -> Vec<String> {
        let log = git(&self.sandbox, &["log", "--format=%s by %an"]);
        let mut all: Vec<_> = log.lines().map(str::to_owned).collect();
        all.reverse();
        // Without the one that it began at.
        all.split_off(1)
    }

    /// Second box: this session does its two steps, then a handoff.
    fn hand_off(&self, session: u64) {
        self.city.sign(&format!("go{session}"));
        self.city.wait_sign(&format!("up{}", session + 1));
        let steps = u32::try_from(session * 2).unwrap();
        let prompt = self.city.wait_prompt(&self.relic, session as usize + 1);
        let (gap, next) = (format!("mind gap {session}"), format!("Step {}", steps + 1));
        for part in ["handed off to you", &gap, &next] {
            assert!(prompt.contains(part), "{part}: {prompt}");
        }
        self.assert_at_work(session + 1, 0, steps + 1);
        let all: Vec<_> = (1..=steps)
            .map(|it| format!("add {it}.txt by {TOAST}"))
            .collect();
        assert_eq!(self.commits(), all);
    }

    /// Second box, session 2: steps 3 and half of 4, then a crash. Staged and untracked files are still there.
    fn crash(&self) {
        self.city.sign("go2");
        self.city.wait_sign("halved");
        let raider = self.city.wait_session(&self.relic, 2);
        processes::signal(session_pid(&raider), Signal::SIGKILL);
        self.city.wait_sign("up3");
        let prompt = self.city.wait_prompt(&self.relic, 3);
        for part in ["ended before it was finished", "Step 4"] {
            assert!(prompt.contains(part), "{part}: {prompt}");
        }
        self.assert_at_work(3, 1, 4);
        assert_eq!(self.commits().len(), 3);
        let changes = git(&self.sandbox, &["status", "--porcelain"]);
        assert_eq!(changes, "A  4.txt\n?? loose.txt");
    }

    /// Third box: pushed, in the merge queue, and the raider is gone before its work is merged.
    fn done(&self) {
        let session = session_pid(&self.city.wait_session(&self.relic, 3));
        self.city.sign("go3");
        self.city.wait_no_raiders();
        until("the session has ended", || !processes::runs(session));
        assert!(!self.sandbox.exists());
        let unknown = self.city.hd(&["raider", "show", "Toast"]).error(4);
        assert_eq!(unknown["kind"], "not_found", "no idle state: {unknown}");
        let queue = self.city.hd(&["mq", "list"]).json();
        let mr = &queue[0];
        assert_eq!(
            (&mr["relic"], &mr["branch"], &mr["state"]),
            (&json!(self.relic), &json!(BRANCH), &json!("testing")),
            "{queue}"
        );
        let head = git(&self.city.origin(), &["rev-parse", BRANCH]);
        assert_eq!(mr["head"], head, "its branch is on the remote");
        assert_eq!(
            self.city.landed(),
            [".gitignore", "README"],
            "not merged yet"
        );
        assert_eq!(self.city.status_of(&self.relic), "hooked");
    }

    /// Last box: merged to main, and the relic is closed. The slot is free.
    fn merge(&self) {
        self.city.sign("land");
        self.assert_merged();
        assert_eq!(self.city.sessions_of(&self.relic), 3);
        let next = self.city.work("the next", &["forever"]);
        let raider = self.city.wait_session(&next, 1);
        assert_eq!(
            (&raider["id"], &raider["incarnation"]),
            (&json!(TOAST), &json!(2))
        );
    }

    fn assert_merged(&self) {
        self.city.wait_status(&self.relic, "closed");
        self.city.wait_event(1, "raider.merged", TOAST);
        let landed = self.city.landed();
        for n in 1..=5 {
            assert!(landed.contains(&format!("{n}.txt")), "{landed:?}");
        }
        until("its branch is gone", || {
            git(&self.city.origin(), &["for-each-ref", "refs/heads/raider"]).is_empty()
        });
    }

    /// Last box, when another client's commit conflicts: a fresh raider does the relic again on top of that commit.
    fn conflict(&self) {
        let checkout = self.city.checkout();
        write(&checkout, "README", "theirs\n");
        let theirs = commit_all(&checkout, "theirs");
        git(&checkout, &["push", "--quiet", "origin", "main"]);
        self.city.sign("land");
        self.city.wait_sign("up4");
        let fresh = self.city.wait_session(&self.relic, 1);
        assert_eq!(
            (&fresh["incarnation"], &fresh["restarts"]),
            (&json!(2), &json!(0))
        );
        assert_ne!(fresh["branch"], BRANCH);
        assert_eq!(git(&self.sandbox, &["rev-parse", "HEAD"]), theirs);
        let prompt = self.city.wait_prompt(&self.relic, 4);
        let task = fs::read_to_string(self.sandbox.join("TASK.md")).unwrap();
        let told = prompt + &task;
        for part in ["An earlier attempt", "README"] {
            assert!(told.contains(part), "{part}: {told}");
        }
        fs::remove_file(self.city.root().join("signs/land")).unwrap();
        self.city.sign("go4");
        self.city.wait_no_raiders();
        self.city.sign("land");
        self.assert_merged();
        let readme = git(&self.city.origin(), &["show", "main:README"]);
        assert_eq!(readme, "mine");
        assert_eq!(self.city.sessions_of(&self.relic), 4);
        assert_eq!(self.city.raiders(), Vec::<Value>::new());
    }
}

/// The course of a life, in order: the events of the raider and of its totem, each with its cause; the states of its merge
/// requests; the messages between session, witness and forge.
struct Story {
    events: &'static [&'static str],
    queue: &'static [&'static str],
    messages: &'static [&'static str],
}

const THREE_SESSIONS_AND_A_CONFLICT: Story = Story {
    events: &[
        "totem.started operator",
        "agent.started charged",
        "raider.charged operator",
        "raider.working charged",
        "totem.step_done agent",
        "totem.step_done agent",
        "raider.handoff handoff",
        "agent.restarted handoff",
        "agent.started handoff",
        "totem.step_done agent",
        "totem.step_done agent",
        "raider.handoff handoff",
        "agent.restarted handoff",
        "agent.started handoff",
        "totem.step_done agent",
        "raider.done done",
        "agent.stopped done",
        "raider.nuked done_clean_pushed",
        "raider.merge_failed merge_failed",
        "agent.started charged",
        "raider.charged merge_failed",
        "raider.working charged",
        "raider.done done",
        "agent.stopped done",
        "raider.nuked done_clean_pushed",
        "raider.merged merged",
    ],
    queue: &[
        "mr.queued done",
        "mr.testing done",
        "mr.merging done",
        "mr.testing done",
        "mr.conflict merge_failed",
        "mr.queued done",
        "mr.testing done",
        "mr.merging done",
    ],
    messages: &[
        "HANDOFF",
        "HANDOFF",
        "POLECAT_DONE",
        "MERGE_READY",
        "MERGE_FAILED",
        "POLECAT_DONE",
        "MERGE_READY",
        "MERGED",
    ],
};

const A_CRASH_IN_SESSION_2: Story = Story {
    events: &[
        "totem.started operator",
        "agent.started charged",
        "raider.charged operator",
        "raider.working charged",
        "totem.step_done agent",
        "totem.step_done agent",
        "raider.handoff handoff",
        "agent.restarted handoff",
        "agent.started handoff",
        "totem.step_done agent",
        "agent.crashed session_died",
        "agent.started session_died",
        "raider.respawned session_died",
        "totem.step_done agent",
        "totem.step_done agent",
        "raider.done done",
        "agent.stopped done",
        "raider.nuked done_clean_pushed",
        "raider.merged merged",
    ],
    queue: &["mr.queued done", "mr.testing done", "mr.merging done"],
    messages: &["HANDOFF", "POLECAT_DONE", "MERGE_READY", "MERGED"],
};

/// Checks that the events happened in order, and no other of their kinds.
fn assert_story(events: &[Value], story: &Story) {
    let kind = |event: &Value| event["type"].as_str().unwrap().to_owned();
    let end = events.iter().position(|it| kind(it) == "raider.merged");
    let life = &events[..=end.unwrap()];
    let of = |groups: &[&str]| -> Vec<String> {
        let found = life.iter().filter(|event| {
            let kind = kind(event);
            groups.iter().any(|group| kind.starts_with(group))
        });
        let words =
            found.map(|event| format!("{} {}", kind(event), event["cause"].as_str().unwrap()));
        words.collect()
    };
    assert_eq!(of(&["totem.", "agent.", "raider."]), story.events);
    // The witness and the forge work at the same time, so only their own events have an order.
    assert_eq!(of(&["mr."]), story.queue);
    let last = |wanted: &str| life.iter().rposition(|event| kind(event) == wanted);
    assert!(
        last("raider.nuked") < last("mr.merging"),
        "gone before the merge"
    );
    let sent = life.iter().filter(|event| kind(event) == "message.sent");
    let sent: Vec<_> = sent.map(|event| event["data"]["type"].clone()).collect();
    assert_eq!(sent, story.messages);
}

/// The diagram of the seed, literally: steps 1 and 2, handoff, steps 3 and 4, handoff, step 5, `hd done`. Its work conflicts, and a
/// fresh raider does it again; the first raider never comes back.
///
/// Weakness W25 of an earlier system: the session after a handoff began in the wrong directory, and prompts were
/// typed after a fixed time, whatever was on the screen.
#[test]
fn one_raider_lives_through_three_sessions_and_a_fresh_one_resolves_the_conflict() {
    let life = Life::charge(HANDED_OFF);
    life.hand_off(1);
    life.hand_off(2);
    life.done();
    life.conflict();
    assert_story(&life.city.events(), &THREE_SESSIONS_AND_A_CONFLICT);
}

/// A crash in the middle of a step is a change of the session, too: staged and untracked files are still there.
#[test]
fn one_raider_lives_through_a_handoff_and_a_crash_from_charge_to_merge() {
    let life = Life::charge(CRASHED);
    life.hand_off(1);
    life.crash();
    life.done();
    life.merge();
    assert_story(&life.city.events(), &A_CRASH_IN_SESSION_2);
}
