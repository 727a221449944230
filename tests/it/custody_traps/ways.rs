//! The ways to make git run a program by files in a repository.

use std::fs;

use super::{Wires, sprung};
use crate::support::git::{commit_all, git, rev, write};

/// A way to make git run a program.
pub(super) struct Way {
    pub(super) name: &'static str,
    pub(super) set: fn(&Wires),
    pub(super) springs: Springs,
}

/// The proof that the trap works: git in the agent's sandbox runs the program.
pub(super) enum Springs {
    /// This command springs it.
    By(&'static [&'static str]),
    /// The trap has several programs that git runs at different commands: each is sprung on its own.
    Each(fn(&Wires)),
}

/// All known ways.
pub(super) const WAYS: &[Way] = &[
    Way {
        name: "hooks",
        set: |wires| wires.hooks(&wires.city.repo.theirs().join("hooks")),
        springs: Springs::By(&["branch", "sprung"]),
    },
    Way {
        name: "core.hooksPath",
        set: |wires| {
            let hooks = wires.city.root().join("hooks");
            wires.hooks(&hooks);
            wires.config(&[("core.hooksPath", hooks.to_str().unwrap())]);
        },
        springs: Springs::By(&["branch", "sprung"]),
    },
    Way {
        name: "config.worktree",
        set: |wires| {
            let hooks = wires.city.root().join("hooks");
            wires.hooks(&hooks);
            // As `git sparse-checkout` sets it: a sandbox is no bare repository.
            let theirs = wires.city.repo.theirs();
            wires.config(&[("extensions.worktreeConfig", "true")]);
            git(theirs, &["config", "--unset", "core.bare"]);
            for (key, value) in [
                ("core.hooksPath", hooks.to_str().unwrap()),
                ("core.fsmonitor", &wires.program),
                ("filter.trap.clean", &wires.program),
                ("filter.trap.smudge", &wires.program),
            ] {
                git(&wires.sandbox, &["config", "--worktree", key, value]);
            }
            let text = format!("[core]\n\tbare = true\n\tfsmonitor = {}\n", wires.program);
            fs::write(theirs.join("config.worktree"), text).unwrap();
        },
        springs: Springs::By(&["status"]),
    },
    Way {
        name: "a .git file that leads to a repository of the agent's",
        set: |wires| {
            let evil = wires.evil();
            let link = format!("gitdir: {}\n", evil.display());
            fs::write(wires.sandbox.join(".git"), link).unwrap();
        },
        springs: Springs::By(&["status"]),
    },
    Way {
        name: "commondir and gitdir that lead there",
        set: |wires| {
            let admin = wires.admin();
            let evil = wires.evil();
            fs::write(admin.join("commondir"), format!("{}\n", evil.display())).unwrap();
        },
        springs: Springs::By(&["status"]),
    },
    Way {
        name: "a repository inside, with a configuration of its own",
        set: |wires| {
            let inner = wires.sandbox.join("inner");
            fs::create_dir(&inner).unwrap();
            git(&inner, &["init", "-q"]);
            write(&inner, "code", "1\n");
            commit_all(&inner, "inner");
            write(&inner, ".gitattributes", "* filter=trap diff=trap\n");
            wires.hooks(&inner.join(".git/hooks"));
            for (key, value) in wires.programs() {
                git(&inner, &["config", key, &value]);
            }
        },
        springs: Springs::By(&["-C", "inner", "status"]),
    },
    Way {
        name: "a submodule",
        set: |wires| {
            let (inner, url) = (wires.sandbox.join("sub"), wires.city.origin());
            let url = url.to_str().unwrap();
            git(&wires.sandbox, &["clone", "-q", url, "sub"]);
            git(
                &wires.sandbox,
                &["config", "-f", ".gitmodules", "submodule.sub.path", "sub"],
            );
            let update = format!("!{}", wires.program);
            for (key, value) in [
                ("submodule.sub.url", format!("ext::{}", wires.program)),
                ("submodule.sub.update", update.clone()),
            ] {
                git(
                    &wires.sandbox,
                    &["config", "-f", ".gitmodules", key, &value],
                );
                wires.config(&[(key, &value)]);
            }
            wires.config(&[
                ("submodule.recurse", "true"),
                ("submodule.sub.active", "true"),
            ]);
            git(&wires.sandbox, &["submodule", "--quiet", "absorbgitdirs"]);
            write(&inner, "README", "other\n");
            for (key, value) in wires.programs() {
                git(&inner, &["config", key, &value]);
            }
        },
        springs: Springs::By(&["-C", "sub", "status"]),
    },
    Way {
        name: "core.fsmonitor",
        set: |wires| wires.config(&[("core.fsmonitor", &wires.program)]),
        springs: Springs::By(&["status"]),
    },
    Way {
        name: "diff.external",
        set: |wires| wires.config(&[("diff.external", &wires.program)]),
        springs: Springs::By(&["diff", "HEAD~1"]),
    },
    Way {
        name: "textconv and a diff command",
        set: |wires| {
            wires.attribute("* diff=trap");
            let (program, key) = (&*wires.program, "diff.trap.");
            wires.config(&[
                (&format!("{key}textconv"), program),
                (&format!("{key}command"), program),
            ]);
        },
        springs: Springs::By(&["diff", "HEAD~1"]),
    },
    Way {
        name: "merge drivers",
        set: |wires| {
            wires.attribute("* merge=trap");
            let program = &*wires.program;
            wires.config(&[
                ("merge.trap.driver", program),
                ("merge.trap.recursive", "trap"),
                ("merge.default", "trap"),
            ]);
        },
        springs: Springs::By(&["merge-tree", "HEAD", "origin/main"]),
    },
    Way {
        name: "filters",
        set: |wires| {
            wires.attribute("* filter=trap");
            let program = &*wires.program;
            wires.config(&[
                ("filter.trap.clean", program),
                ("filter.trap.smudge", program),
                ("filter.trap.required", "true"),
            ]);
        },
        springs: Springs::By(&["hash-object", "README"]),
    },
    Way {
        name: "a filter process",
        set: |wires| {
            wires.attribute("* filter=trap");
            wires.config(&[("filter.trap.process", &wires.program)]);
        },
        springs: Springs::By(&["hash-object", "README"]),
    },
    Way {
        name: "filters by files that are committed, and by one below",
        set: |wires| {
            write(&wires.sandbox, "src/.gitattributes", "* filter=trap\n");
            wires.config(&[
                ("filter.trap.clean", &wires.program),
                ("filter.trap.smudge", &wires.program),
                ("filter.own.clean", &wires.program),
                ("filter.own.smudge", &wires.program),
            ]);
        },
        springs: Springs::By(&["hash-object", "src/a.txt"]),
    },
    Way {
        name: "a filter with the name of git-lfs's",
        set: |wires| {
            wires.attribute("* filter=lfs diff=lfs merge=lfs -text");
            for what in ["clean", "smudge", "process"] {
                wires.config(&[(&format!("filter.lfs.{what}"), &wires.program)]);
            }
        },
        springs: Springs::By(&["hash-object", "README"]),
    },
    Way {
        name: "core.attributesFile",
        set: |wires| {
            let file = wires.city.root().join("attributes");
            fs::write(&file, "* filter=trap diff=trap merge=trap\n").unwrap();
            wires.config(&[("core.attributesFile", file.to_str().unwrap())]);
            for (key, value) in wires.programs() {
                wires.config(&[(key, &value)]);
            }
        },
        springs: Springs::By(&["hash-object", "README"]),
    },
    Way {
        name: "include.path and includeIf",
        set: |wires| {
            let file = wires.city.root().join("included");
            let text = format!("[core]\n\tfsmonitor = {}\n", wires.program);
            fs::write(&file, text).unwrap();
            let file = file.to_str().unwrap();
            wires.config(&[("include.path", file), ("includeIf.gitdir:/.path", file)]);
        },
        springs: Springs::By(&["status"]),
    },
    Way {
        name: "pagers and editors",
        set: |wires| {
            for key in [
                "core.pager",
                "pager.log",
                "core.editor",
                "sequence.editor",
                "interactive.diffFilter",
            ] {
                wires.config(&[(key, &wires.program)]);
            }
        },
        springs: Springs::Each(sprung::pagers_and_editors),
    },
    Way {
        name: "credentials",
        set: |wires| {
            let helper = format!("!{}", wires.fails);
            wires.config(&[
                ("credential.helper", &helper),
                ("core.askPass", &wires.fails),
                ("http.proxy", "http://127.0.0.1:1"),
            ]);
        },
        springs: Springs::Each(sprung::credentials),
    },
    Way {
        name: "the programs at both ends of a transport",
        set: |wires| {
            let origin = wires.city.origin();
            wires.config(&[
                ("remote.origin.uploadpack", &wires.fails),
                ("remote.origin.receivepack", &wires.fails),
                ("uploadpack.packObjectsHook", &wires.fails),
                ("core.sshCommand", &wires.fails),
                ("core.gitProxy", &wires.fails),
                ("remote.origin.url", origin.to_str().unwrap()),
            ]);
        },
        springs: Springs::By(&["fetch", "-q", "origin"]),
    },
    Way {
        name: "an ext address, and every address made one",
        set: |wires| {
            let ext = format!("ext::{} ", wires.fails);
            wires.config(&[
                ("remote.origin.url", &ext),
                ("remote.origin.vcs", "ext"),
                ("protocol.ext.allow", "always"),
                (&format!("url.{ext}.insteadOf"), "/"),
                (&format!("url.{ext}.pushInsteadOf"), "/"),
            ]);
        },
        springs: Springs::By(&["fetch", "-q", "origin"]),
    },
    Way {
        name: "core.alternateRefsCommand",
        set: |wires| wires.config(&[("core.alternateRefsCommand", &wires.program)]),
        springs: Springs::By(&["fetch", "-q", "../../../../origin.git"]),
    },
    Way {
        name: "signing",
        set: |wires| {
            wires.config(&[
                ("gpg.program", &wires.program),
                ("gpg.ssh.program", &wires.program),
                ("commit.gpgSign", "true"),
                ("tag.gpgSign", "true"),
                ("log.showSignature", "true"),
                ("merge.verifySignatures", "true"),
            ]);
        },
        springs: Springs::By(&["commit-tree", "-S", "-m", "x", "HEAD^{tree}"]),
    },
    Way {
        name: "an alias, a trailer, replaced objects and other parents",
        set: |wires| {
            let run = format!("!{}", wires.program);
            for name in ["merge-tree", "rev-parse", "sprung"] {
                wires.config(&[(&format!("alias.{name}"), &run)]);
            }
            wires.config(&[("trailer.x.command", &wires.program)]);
            let (blob, other) = ("HEAD:src/a.txt", "HEAD:src/deep/c.txt");
            git(&wires.sandbox, &["replace", blob, other]);
            git(
                &wires.sandbox,
                &["replace", "--graft", "HEAD", "origin/main"],
            );
            let graft = format!("{}\n", rev(&wires.sandbox, "origin/main"));
            write(wires.city.repo.theirs(), "info/grafts", graft);
        },
        springs: Springs::By(&["sprung"]),
    },
    Way {
        name: "settings of merges and diffs",
        set: |wires| {
            wires.config(&[
                ("merge.renames", "false"),
                ("diff.renames", "false"),
                ("diff.algorithm", "minimal"),
                ("merge.renormalize", "true"),
                ("merge.conflictStyle", "diff3"),
                ("core.autocrlf", "true"),
                ("core.ignoreCase", "true"),
                ("core.fsmonitor", &wires.program),
            ]);
        },
        springs: Springs::By(&["status"]),
    },
];
