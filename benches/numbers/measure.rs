//! The cost of the parts of custody in a sandbox of 20,000 files, in processor time of this process and of the git
//! processes that it waits for: making the sandbox, and measuring it.

use std::fs;
use std::time::Duration;

use horde_supervisor::ports::repo::Repo;
use horde_supervisor::testing::scratch_on_disk;
use nix::sys::resource::UsageWho::{RUSAGE_CHILDREN, RUSAGE_SELF};

use crate::city::fill;
use crate::support::city::City;
use crate::support::git::git;
use crate::task::{FILES, spent};

/// The number of measurements.
const SAMPLES: u32 = 10;

/// Prints both.
pub fn measure() {
    let city = City::inside(scratch_on_disk(), |checkout| fill(checkout, FILES));
    city.repo.prepare().expect("prepared");
    let (repo, spec) = (&city.repo, city.spec(1));
    let made = cost(|| repo.make_sandbox(&spec).expect("a sandbox"));
    println!("a sandbox of 20,000 files is made: {made:?}");
    fs::write(spec.path.join("more.txt"), "more\n").expect("a file");
    git(&spec.path, &["add", "more.txt"]);
    git(&spec.path, &["commit", "--quiet", "-m", "more"]);
    let first = cost(|| drop(repo.facts(&spec.path, "main").expect("facts")));
    let more = cost(|| {
        for _ in 0..SAMPLES {
            repo.facts(&spec.path, "main").expect("facts");
        }
    });
    println!("it is measured: {first:?}, again: {:?}", more / SAMPLES);
}

fn cost(act: impl FnOnce()) -> Duration {
    let now = || spent(RUSAGE_SELF) + spent(RUSAGE_CHILDREN);
    let before = now();
    act();
    now() - before
}
