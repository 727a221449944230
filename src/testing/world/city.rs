//! The city that scenarios start from.

#[cfg_attr(
    not(test),
    expect(clippy::wildcard_imports, reason = "a part of the module above")
)]
use super::*;
use crate::domain::city::OnCompact;
use crate::domain::condition::Patterns;
use crate::domain::harness::hooks::Hooks;
use crate::domain::identity::Identities;
use crate::domain::review_paths::ReviewPaths;
use crate::domain::usage::price::Prices;

/// Returns a city with one rig and no agents.
#[must_use]
pub fn city() -> City {
    let harness = HarnessName::new("script").unwrap();
    City {
        root: "/city".into(),
        name: "city".into(),
        revision: "sha256:0".into(),
        daemon: DaemonPolicy {
            patrol_interval: Duration::from_secs(30),
            restart: RestartPolicy {
                max_restarts: 5,
                window: Duration::from_secs(3600),
                backoff: Backoff {
                    first: Duration::ZERO,
                    initial: Duration::from_secs(1),
                    max: Duration::from_secs(30),
                    multiplier: 2.0,
                    jitter: 0.1,
                },
                stable_after: None,
                history: History::Memory,
            },
            shutdown_timeout: Duration::from_secs(5),
            start_concurrency: 16,
            wisp_gc: None,
            on_term: OnTerm::Stop,
            socket: PathBuf::new(),
        },
        session: SessionPolicy {
            provider: Provider::Holder,
            startup_timeout: Duration::from_secs(60),
            output_limit: 1 << 20,
            tmux_socket: String::new(),
        },
        retention: for_ever(),
        notify: every_notice(),
        harnesses: BTreeMap::from([(harness.clone(), script(&harness))]),
        rigs: vec![the_rig(harness)],
        agents: Vec::new(),
        groups: Vec::new(),
        suspended: false,
        budget: None,
        automations: Vec::new(),
        identities: Identities::default(),
        rituals: BTreeMap::new(),
    }
}

/// Returns a harness that just runs.
fn script(name: &HarnessName) -> Harness {
    Harness {
        name: name.clone(),
        command: vec!["script".into()],
        prompt: PromptMode::Arg,
        process_names: Vec::new(),
        reduced: Vec::new(),
        resume: Vec::new(),
        account: "script".into(),
        limit_answer: String::new(),
        hooks: Hooks::None,
        done_on_exit: false,
        reduced_asks: false,
        exclude: Vec::new(),
        review: "/review".into(),
        env: BTreeMap::new(),
        env_pass: Vec::new(),
        patterns: Patterns::default(),
        prices: Prices::default(),
        budget: None,
    }
}

/// Returns a standing agent.
#[must_use]
pub fn standing(name: &str, restart: RestartType) -> Agent {
    Agent {
        name: AgentName::new(name).unwrap(),
        command: vec!["agent".into()],
        prompt: None,
        first_input: None,
        harness: None,
        process_names: Vec::new(),
        on_compact: OnCompact::Rally,
        dir: PathBuf::from("/city"),
        env: BTreeMap::new(),
        env_pass: Vec::new(),
        restart,
        rights: Rights::Work,
        shutdown_timeout: Duration::from_secs(5),
        idle_timeout: None,
        depends_on: Vec::new(),
        suspended: false,
        pool: None,
        drain_timeout: Duration::ZERO,
        fingerprint: String::new(),
    }
}

fn every_notice() -> NotifyPolicy {
    NotifyPolicy {
        on: Notice::WORDS.iter().map(|(_, notice)| *notice).collect(),
        command: None,
        reraise: Some(4 * HOUR),
        mail_to: Vec::new(),
    }
}

fn for_ever() -> RetentionPolicy {
    RetentionPolicy {
        events: None,
        session_logs: None,
        gate_logs: None,
        salvage: None,
        salvage_max: None,
    }
}

/// Makes every harness recognise "?" as a question.
pub fn asking(city: &mut City) {
    for harness in city.harnesses.values_mut() {
        harness.patterns.asks = Pattern::new(r"\?").into_iter().collect();
    }
}

fn the_rig(harness: HarnessName) -> Rig {
    let names = ["Toast", "Shadow", "Copper", "Ash"];
    Rig {
        name: rig(),
        source: RigSource::Path("/repo".into()),
        prefix: "gt".into(),
        default_branch: Some("main".into()),
        suspended: false,
        draining: false,
        raiders: RaiderPolicy {
            harness,
            routes: BTreeMap::new(),
            names: names.map(|name| SlotName::new(name).unwrap()).to_vec(),
            max: 4,
            auto_charge: false,
            respawn_reduced: true,
            on_compact: OnCompact::Rally,
            stall_after: None,
            max_session: None,
            nudges: 2,
            max_reviews: 2,
            setup: Vec::new(),
            copy: Vec::new(),
            idle_timeout: None,
            budget: None,
        },
        witness: WitnessPolicy {
            done_intent_timeout: Duration::from_secs(60),
            spawn_grace: Duration::from_secs(300),
            keep_dirty: 24 * HOUR,
            review_hold: 24 * HOUR,
        },
        forge: ForgePolicy {
            target: None,
            style: LandStyle::Rebase,
            gates: Vec::new(),
            push: true,
            rework_attempts: 3,
            gate_env_pass: Vec::new(),
            review_human: false,
            human_review_paths: ReviewPaths::default(),
            pr: None,
        },
    }
}
