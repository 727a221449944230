//! The cost of processes so far, by the kernel's own counters.

use std::fs;
use std::iter::Sum;
use std::ops::Sub;
use std::time::Duration;

/// A process and its cost.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    /// The number of times that one of its threads was put on a processor.
    pub wakeups: u64,
    /// Processor time of all its threads; the kernel counts it in hundredths of a second.
    pub cpu: Duration,
    /// Processor time of children that it has reaped, and of theirs.
    pub childrens_cpu: Duration,
    /// Page faults of children that it has reaped: a subprocess that ended has had some.
    pub childrens_faults: u64,
}

impl Cost {
    /// Returns the cost of a process until now.
    pub fn of(pid: u32) -> Self {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
        let wakeups = tasks.map(|task| switches(&task.expect("a thread").path()));
        let stat = stat(pid);
        let time = |ticks: u64| Duration::from_millis(10) * u32::try_from(ticks).expect("short");
        Self {
            wakeups: wakeups.sum(),
            cpu: time(stat[11] + stat[12]),
            childrens_cpu: time(stat[13] + stat[14]),
            childrens_faults: stat[8],
        }
    }
}

impl Sub for Cost {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            wakeups: self.wakeups - before.wakeups,
            cpu: self.cpu - before.cpu,
            childrens_cpu: self.childrens_cpu - before.childrens_cpu,
            childrens_faults: self.childrens_faults - before.childrens_faults,
        }
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), |sum, cost| Self {
            wakeups: sum.wakeups + cost.wakeups,
            cpu: sum.cpu + cost.cpu,
            childrens_cpu: sum.childrens_cpu + cost.childrens_cpu,
            childrens_faults: sum.childrens_faults + cost.childrens_faults,
        })
    }
}

/// Returns the parent of a process.
pub fn parent(pid: u32) -> u32 {
    u32::try_from(stat(pid)[1]).expect("a pid")
}

/// Returns the memory that a process shares with no other, in KiB.
pub fn private_kib(pid: u32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("it runs");
    let private = rollup.lines().filter(|line| line.starts_with("Private_"));
    private.map(number).sum()
}

fn switches(task: &std::path::Path) -> u64 {
    // A thread that has just ended has no status any more.
    let status = fs::read_to_string(task.join("status")).unwrap_or_default();
    let switches = status.lines().filter(|line| line.contains("ctxt_switches"));
    switches.map(number).sum()
}

/// Returns the fields behind the process's name, which may hold any character.
fn stat(pid: u32) -> Vec<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    // Some fields may be negative; none of those used is.
    let number = |field: &str| field.parse().unwrap_or(0);
    fields.split_whitespace().map(number).collect()
}

fn number(line: &str) -> u64 {
    let word = line.split_whitespace().nth(1).expect("a number");
    word.parse().expect("a number")
}
