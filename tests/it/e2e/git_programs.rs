//! Programs that an agent names in git's configuration: git runs them in the session of the agent, and never below the
//! supervisor.

use std::fs;

use crate::support::git::git;
use crate::support::live::City;
use crate::support::program;

/// All that an agent can set for the repository of the sandboxes, and for every file in it.
const SET: &[&str] = &[
    "git config core.hooksPath \"{root}/hooks\"",
    "for key in core.fsmonitor core.sshCommand core.gitProxy core.askPass core.editor core.pager gpg.program diff.external \
     filter.trap.clean filter.trap.smudge diff.trap.textconv merge.trap.driver merge.default credential.helper \
     remote.origin.uploadpack remote.origin.receivepack; do git config $key {root}/trap; done",
    "git config merge.default trap",
    "echo '* filter=trap diff=trap merge=trap' >\"$(git rev-parse --git-common-dir)/info/attributes\"",
    "git config remote.origin.url \"ext::{root}/trap\"",
    "git config protocol.ext.allow always",
];

/// Case git-configuration of an adversary: programs in git's configuration ran below the supervisor.
#[test]
fn programs_that_an_agent_names_in_git_run_in_sessions_only() {
    let city = City::new();
    let root = city.root().to_owned();
    let (trap, own, mark) = (
        root.join("trap"),
        root.join("in-session"),
        root.join("outside"),
    );
    let (own_place, mark_place) = (own.display(), mark.display());
    program::script(
        &trap,
        &format!(
            "if [ -n \"$HD_SESSION\" ]; then : >'{own_place}'; else : >'{mark_place}'; fi; [ -t 0 ] || exec cat"
        ),
    );
    fs::create_dir(root.join("hooks")).unwrap();
    for hook in [
        "pre-push",
        "post-checkout",
        "reference-transaction",
        "post-index-change",
        "pre-receive",
        "update",
    ] {
        fs::copy(&trap, root.join("hooks").join(hook)).unwrap();
    }
    let set: Vec<_> = SET
        .iter()
        .map(|step| step.replace("{root}", &root.display().to_string()))
        .collect();
    let work = |name: &str, file: &str| {
        let commit = format!("commit {file}");
        let mut steps: Vec<_> = set.iter().map(String::as_str).collect();
        steps.extend([&*commit, "git status >/dev/null", "hd done"]);
        city.work(name, &steps)
    };
    // The second one is charged in the repository that the first has prepared.
    for (name, file) in [("set traps", "a.txt"), ("work beside them", "b.txt")] {
        let relic = work(name, file);
        city.wait_status(&relic, "closed");
        assert!(own.exists(), "git runs the program in the session");
        fs::remove_file(&own).unwrap();
    }
    city.wait_no_raiders();
    let landed = git(&city.origin(), &["ls-tree", "--name-only", "main"]);
    assert!(
        landed.contains("a.txt") && landed.contains("b.txt"),
        "{landed}"
    );
    assert!(!mark.exists(), "it ran outside of any session");
}
