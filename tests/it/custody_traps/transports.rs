//! Trip wires on the way to a remote and at a signature: the user has a program for it, and an agent names another one.
//! The user's runs and the agent's never does.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use horde_supervisor::domain::ids::Oid;
use horde_supervisor::domain::merge::{LandStyle, MergeOutcome};
use horde_supervisor::ports::repo::{Repo, RepoError};

use crate::sandbox_life::request;
use crate::support::city::City;
use crate::support::git::{commit_all, git, rev, try_git, write};

/// A server on the loopback address that refuses every request and counts the connections.
struct Refusing {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Refusing {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, ends) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let (count, end) = (Arc::clone(&connections), Arc::clone(&ends));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if end.load(Ordering::SeqCst) {
                    return;
                }
                count.fetch_add(1, Ordering::SeqCst);
                // The client may have gone.
                drop(stream.map(refuse));
            }
        });
        Self {
            address,
            connections,
            ends,
            thread: Some(thread),
        }
    }

    /// Returns the number of connections since the last call.
    fn met(&self) -> usize {
        self.connections.swap(0, Ordering::SeqCst)
    }
}

impl Drop for Refusing {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// Reads the head of a request and asks for a password.
fn refuse(mut stream: TcpStream) -> std::io::Result<()> {
    let (mut head, mut some) = (Vec::<u8>::new(), [0_u8; 1024]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < 65536 {
        match stream.read(&mut some)? {
            0 => return Ok(()),
            length => head.extend(&some[..length]),
        }
        // A client of git's own protocol sends one line, and no head of HTTP.
        if head
            .windows(7)
            .any(|name| name == b"upload-" || name == b"receive")
            && head[0] == b'0'
        {
            return Ok(());
        }
    }
    stream.write_all(
        b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    )
}

/// Makes a program that leaves a mark. Returns its path and its mark.
fn program(city: &City, name: &str, then: &str) -> (String, PathBuf) {
    let (file, mark) = (
        city.root().join(name),
        city.root().join(format!("{name}-ran")),
    );
    let text = format!("#!/bin/sh\n: >'{}'\n{then}\n", mark.display());
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    (file.display().to_string(), mark)
}

/// Gives the user's checkout a setting.
fn user(city: &City, key: &str, value: &str) {
    git(&city.checkout(), &["config", "--replace-all", key, value]);
}

/// Sets a key as an agent does, behind the settings that the supervisor gives to the repository of the sandboxes.
fn agent(city: &City, key: &str, value: &str) {
    let (file, config) = (
        city.root().join("agents.config"),
        city.repo.theirs().join("config"),
    );
    if !file.exists() {
        let mut text = fs::read_to_string(&config).unwrap();
        text.push_str(&format!("[include]\n\tpath = {}\n", file.display()));
        fs::write(&config, text).unwrap();
    }
    let place = file.to_str().unwrap();
    git(
        &city.root(),
        &["config", "-f", place, "--replace-all", key, value],
    );
}

/// Asserts that the mark is there, or not, and removes it.
fn ran(mark: &PathBuf, expected: bool, when: &str) {
    assert_eq!(mark.exists(), expected, "{} at {when}", mark.display());
    fs::remove_file(mark).ok();
}

/// Case git-configuration of an adversary: `core.sshCommand`, with an address for which git runs it.
#[test]
fn ssh_command_of_an_agent_never_runs_and_that_of_the_user_does() {
    let city = City::bare();
    let local = r#"while [ $# -gt 1 ]; do shift; done; exec sh -c "$1""#;
    let (users, asked) = program(&city, "users-ssh", local);
    let (trap, sprung) = program(&city, "agents-ssh", "exit 1");
    let url = format!("ssh://example.invalid{}", city.origin().display());
    user(&city, "remote.origin.url", &url);
    user(&city, "core.sshCommand", &users);
    city.repo.prepare().unwrap();
    ran(&asked, true, "prepare");
    let sandbox = city.sandbox();
    write(&sandbox, "README", "by the agent\n");
    let head = Oid::new(commit_all(&sandbox, "work")).unwrap();
    agent(&city, "core.sshCommand", &trap);
    agent(&city, "ssh.variant", "simple");
    assert!(
        !try_git(&sandbox, &["fetch", "-q", "origin"])
            .status
            .success()
    );
    ran(&sprung, true, "a fetch of the agent's");
    fs::remove_file(&asked).ok();

    let target = city.repo.fetch_target("main").unwrap();
    ran(&asked, true, "fetch_target");
    city.repo.push_branch("work", &head, None).unwrap();
    ran(&asked, true, "push_branch");
    assert_eq!(city.repo.remote_head("work").unwrap(), Some(head.clone()));
    let request = request(&head, &target.tip, LandStyle::Squash);
    let MergeOutcome::Clean { tip, .. } = city.repo.merge(&request).unwrap() else {
        panic!("no clean merge");
    };
    city.repo.land("main", &target.tip, &tip).unwrap();
    assert_eq!(rev(&city.origin(), "main"), tip.as_str());
    city.repo.delete_branch("work", &head).unwrap();
    city.repo.prepare().unwrap();
    ran(&sprung, false, "work of the supervisor");
}

/// Case git-configuration of an adversary: helpers for passwords, and a proxy, with a server that asks for a password.
#[test]
fn helper_and_proxy_of_an_agent_see_no_request_and_the_helper_of_the_user_does() {
    let city = City::bare();
    let (server, proxy) = (Refusing::start(), Refusing::start());
    let (users, asked) = program(&city, "users-helper", "echo username=ada; echo password=x");
    let (trap, sprung) = program(&city, "agents-helper", "exit 1");
    let site = format!("http://{}", server.address);
    user(&city, "remote.origin.url", &format!("{site}/origin.git"));
    user(&city, "credential.helper", &format!("!{users}"));
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "by the agent\n");
    let head = Oid::new(commit_all(&sandbox, "work")).unwrap();
    let fetch = || try_git(&sandbox, &["fetch", "-q", "origin"]);

    // Each trap alone, so that none hides another.
    let own = format!("credential.{site}.helper");
    for (key, value) in [
        ("credential.helper", format!("!{trap}")),
        (&own, format!("!{trap}")),
        ("core.askPass", trap.clone()),
    ] {
        agent(&city, "credential.helper", "");
        agent(&city, key, &value);
        fetch();
        ran(&sprung, true, key);
    }
    let through = format!("http://{}", proxy.address);
    for key in ["http.proxy".to_owned(), format!("http.{site}.proxy")] {
        agent(&city, &key, &through);
        fetch();
        assert!(proxy.met() > 0, "{key}");
    }
    agent(&city, "remote.origin.proxy", &through);
    for mark in [&asked, &sprung] {
        fs::remove_file(mark).ok();
    }
    server.met();

    let refused = |result: Result<(), RepoError>, what: &str| {
        assert!(matches!(result, Err(RepoError::Remote(_))), "{result:?}");
        assert!(server.met() > 0, "{what} asks the server");
        ran(&asked, true, what);
        ran(&sprung, false, what);
        assert_eq!(proxy.met(), 0, "{what} goes through no proxy");
    };
    refused(city.repo.fetch_target("main").map(drop), "fetch_target");
    refused(
        city.repo.push_branch("work", &head, None).map(drop),
        "push_branch",
    );
    refused(city.repo.remote_head("work").map(drop), "remote_head");
}

/// Case git-configuration of an adversary: `core.gitProxy`, with an address for which git runs it.
#[test]
fn git_proxy_of_an_agent_never_runs() {
    let city = City::bare();
    let server = Refusing::start();
    let (trap, sprung) = program(&city, "agents-proxy", "exit 1");
    let url = format!("git://{}/origin.git", server.address);
    user(&city, "remote.origin.url", &url);
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    agent(&city, "core.gitProxy", &trap);
    try_git(&sandbox, &["fetch", "-q", "origin"]);
    ran(&sprung, true, "a fetch of the agent's");
    server.met();
    assert!(city.repo.fetch_target("main").is_err());
    assert!(server.met() > 0, "the supervisor asks the server");
    ran(&sprung, false, "fetch_target");
}

/// Case git-configuration of an adversary: `gpg.program`, where the user signs the commits of merges.
#[test]
fn commits_are_signed_by_the_program_of_the_user_and_never_by_that_of_an_agent() {
    let signs =
        "cat >/dev/null; echo '[GNUPG:] SIG_CREATED ' >&2; echo '-----BEGIN PGP SIGNATURE-----'";
    let city = City::bare();
    let (users, asked) = program(&city, "users-gpg", signs);
    let (trap, sprung) = program(&city, "agents-gpg", signs);
    user(&city, "commit.gpgSign", "true");
    user(&city, "gpg.program", &users);
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    for (key, value) in [
        ("gpg.program", &*trap),
        ("gpg.openpgp.program", &trap),
        ("gpg.ssh.program", &trap),
        ("gpg.x509.program", &trap),
        ("user.signingKey", "agents"),
    ] {
        agent(&city, key, value);
    }
    write(&sandbox, "README", "by the agent\n");
    let head = Oid::new(commit_all(&sandbox, "work")).unwrap();
    ran(&sprung, true, "a commit of the agent's");
    city.repo.push_branch("work", &head, None).unwrap();
    fs::remove_file(&asked).ok();
    let target = city.repo.fetch_target("main").unwrap();
    for style in [LandStyle::Squash, LandStyle::Merge] {
        let request = request(&head, &target.tip, style);
        let MergeOutcome::Clean { tip, .. } = city.repo.merge(&request).unwrap() else {
            panic!("no clean merge");
        };
        let commit = git(city.repo.repo_dir(), &["cat-file", "commit", tip.as_str()]);
        assert!(commit.contains("\ngpgsig -----BEGIN"), "{commit}");
        ran(&asked, true, "a merge");
        ran(&sprung, false, "a merge");
    }
}
