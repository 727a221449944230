//! Transcripts as the real programs write them (shortened), read whole and in parts.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::ledger::{By, Owner, Row, Sum, together};
use super::price::{Price, Prices};
use super::*;

const CLAUDE: &str = r#"{"type":"user","message":{"role":"user","content":"x"},"timestamp":"2026-11-23T13:31:50.000Z"}
{"message":{"id":"msg_1","model":"claude-sonnet-5","usage":{"input_tokens":1200,"cache_creation_input_tokens":7,"cache_read_input_tokens":5,"output_tokens":4}},"requestId":"req_1","type":"assistant","timestamp":"2026-11-23T13:31:56.959Z"}
{"message":{"id":"msg_1","model":"claude-sonnet-5","usage":{"input_tokens":1200,"cache_creation_input_tokens":7,"cache_read_input_tokens":5,"output_tokens":34}},"requestId":"req_1","type":"assistant","timestamp":"2026-11-23T13:31:57.959Z"}
not json
{"message":{"id":"msg_2","model":"claude-sonnet-5","usage":{"input_tokens":10,"output_tokens":1}},"type":"assistant","timestamp":"2026-11-23T13:31:58.471Z"}
{"message":{"id":"msg_1","model":"claude-sonnet-5","usage":{"input_tokens":1200,"cache_creation_input_tokens":7,"cache_read_input_tokens":5,"output_tokens":34}},"requestId":"req_1","type":"assistant","timestamp":"2026-11-23T13:31:58.959Z"}
"#;

const CODEX: &str = r#"{"timestamp":"2026-11-23T13:00:00Z","type":"turn_context","payload":{"model":"gpt-x"}}
{"timestamp":"2026-11-23T13:00:01Z","type":"event_msg","payload":{"type":"token_count","info":null}}
{"timestamp":"2026-11-23T13:00:02Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":100,"cached_input_tokens":40,"output_tokens":10,"reasoning_output_tokens":4,"total_tokens":110},"last_token_usage":{"input_tokens":100}}}}
{"timestamp":"2026-11-23T13:00:03Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":100,"cached_input_tokens":40,"output_tokens":10}}}}
{"timestamp":"2026-11-23T13:00:04Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":300,"cached_input_tokens":140,"output_tokens":15}}}}
"#;

/// The session ends after the last answer.
const CODEX_RECORDS: &str = r#"{"timestamp":"2026-11-23T17:25:43.917Z","ordinal":9,"type":"turn_context","payload":{"turn_id":"01a2","model":"gpt-x"}}
{"timestamp":"2026-11-23T17:25:44.022Z","ordinal":14,"type":"token_usage_record","payload":{"response_id":"resp_1","usage":{"input_tokens":1200,"cached_input_tokens":200,"cache_write_input_tokens":50,"output_tokens":34,"reasoning_output_tokens":4,"total_tokens":1234},"thread_token_usage":{"input_tokens":1200}}}
{"timestamp":"2026-11-23T17:25:44.276Z","ordinal":17,"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":1200,"cached_input_tokens":200,"cache_write_input_tokens":50,"output_tokens":34,"reasoning_output_tokens":4,"total_tokens":1234}}}}
{"timestamp":"2026-11-23T17:25:44.330Z","ordinal":19,"type":"token_usage_record","payload":{"response_id":"resp_3","usage":{"input_tokens":1200,"cached_input_tokens":0,"cache_write_input_tokens":0,"output_tokens":34},"thread_token_usage":{"input_tokens":2400}}}
"#;

const GEMINI: &str = r#"{"id":"a","timestamp":"2026-11-23T13:33:01.993Z","type":"gemini","content":"","tokens":{"input":1200,"output":34,"cached":200,"thoughts":6,"tool":0,"total":1240},"model":"gemini-3.8-flash"}
{"$set":{"lastUpdated":"2026-11-23T13:33:02.907Z"}}
{"id":"a","timestamp":"2026-11-23T13:33:01.993Z","type":"gemini","content":"","tokens":{"input":1200,"output":34,"cached":200,"thoughts":6,"tool":0,"total":1240},"model":"gemini-3.8-flash","toolCalls":[]}
{"id":"b","timestamp":"2026-11-23T13:33:07.966Z","type":"info","content":"Request cancelled."}
"#;

const COPILOT: &str = r#"{"type":"session.start","data":{"sessionId":"f4"},"id":"1","timestamp":"2026-11-23T13:32:36Z"}
{"type":"session.usage_record","data":{"usage":{"model":"kit-model","inputTokens":1200,"outputTokens":34,"cacheReadTokens":100,"cacheWriteTokens":50,"cost":1.0,"accounting":{"usageId":"chatcmpl-1"}}},"id":"2","timestamp":"2026-11-23T13:32:37Z"}
"#;

const PI: &str = r#"{"type":"message","id":"e066","timestamp":"2026-11-23T13:33:21.991Z","message":{"role":"assistant","model":"kit","usage":{"input":1200,"output":34,"cacheRead":3,"cacheWrite":2,"totalTokens":1239,"cost":{"total":0}}}}
{"type":"message","id":"e067","timestamp":"2026-11-23T13:33:22.991Z","message":{"role":"assistant","model":"kit","usage":{"input":1,"output":1,"cacheRead":0,"cacheWrite":0,"cost":{"total":0.25}}}}
"#;

const OPENCODE: &str = r#"{"timestamp":"2026-11-23T13:00:01Z","id":"msg_1","model":"kit-model","tokens":{"total":1240,"input":1000,"output":30,"reasoning":4,"cache":{"read":200,"write":6}},"cost":0.5}
{"timestamp":"2026-11-23T13:00:02Z","id":"msg_2","model":"kit-model","tokens":{"input":1,"output":1,"reasoning":0,"cache":{"read":0,"write":0}},"cost":0}
{"timestamp":"2026-11-23T13:00:03Z","id":"msg_1","model":"kit-model","tokens":{"total":1240,"input":1000,"output":30,"reasoning":4,"cache":{"read":200,"write":6}},"cost":0.5}
"#;

const ALL: [(Format, &str); 7] = [
    (Format::Claude, CLAUDE),
    (Format::Codex, CODEX),
    (Format::Codex, CODEX_RECORDS),
    (Format::Gemini, GEMINI),
    (Format::Copilot, COPILOT),
    (Format::Pi, PI),
    (Format::Opencode, OPENCODE),
];

fn tokens(input: u64, output: u64, cache_read: u64, cache_write: u64) -> Tokens {
    Tokens {
        input,
        output,
        cache_read,
        cache_write,
    }
}

fn sum(spent: &[Spent]) -> Tokens {
    let mut sum = Tokens::default();
    spent.iter().for_each(|spent| sum += spent.tokens);
    sum
}

#[test]
fn each_program_tells_its_tokens_and_no_message_counts_twice() {
    let expected = [
        ("claude-sonnet-5", tokens(1210, 35, 5, 7)),
        ("gpt-x", tokens(160, 15, 140, 0)),
        ("gpt-x", tokens(2150, 68, 200, 50)),
        ("gemini-3.8-flash", tokens(1000, 40, 200, 0)),
        ("kit-model", tokens(1050, 34, 100, 50)),
        ("kit", tokens(1201, 35, 3, 2)),
        ("kit-model", tokens(1001, 35, 200, 6)),
    ];
    for ((format, text), (model, tokens)) in ALL.into_iter().zip(expected) {
        let mut cursor = Cursor::default();
        let spent = cursor.read(format, text.as_bytes(), false);
        assert_eq!(sum(&spent), tokens, "{format:?}");
        assert!(spent.iter().all(|spent| spent.model == model), "{format:?}");
        assert!(spent.iter().all(|spent| spent.at.is_some()), "{format:?}");
        assert_eq!(cursor.offset, text.len() as u64, "{format:?}");
    }
}

#[test]
fn only_dollars_that_the_program_knows_are_told() {
    let mut cursor = Cursor::default();
    let usd = |spent: Spent| spent.usd;
    let spent = cursor.read(Format::Pi, PI.as_bytes(), false);
    let told: Vec<_> = spent.into_iter().map(usd).collect();
    assert_eq!(told, [None, Some(0.25)]);
    let spent = Cursor::default().read(Format::Opencode, OPENCODE.as_bytes(), false);
    let told: Vec<_> = spent.into_iter().map(usd).collect();
    assert_eq!(told, [Some(0.5), None], "no message is paid for twice");
    let spent = Cursor::default().read(Format::Copilot, COPILOT.as_bytes(), false);
    assert_eq!(spent[0].usd, None, "its cost counts requests");
}

#[test]
fn sum_that_begins_anew_counts_from_nothing() {
    let line = |input: u64| {
        format!(
            "{{\"payload\":{{\"type\":\"token_count\",\"info\":{{\"total_token_usage\":{{\"input_tokens\":{input},\"output_tokens\":1}}}}}}}}\n"
        )
    };
    let mut cursor = Cursor::default();
    let mut read = |input| sum(&cursor.read(Format::Codex, line(input).as_bytes(), false));
    assert_eq!(read(100), tokens(100, 1, 0, 0));
    assert_eq!(read(30), tokens(30, 1, 0, 0));
}

#[test]
fn line_that_is_too_long_is_passed_over_and_the_next_is_read() {
    let mut cursor = Cursor::default();
    let long = vec![b'x'; 1000];
    assert_eq!(cursor.read(Format::Pi, &long, true), []);
    assert_eq!(cursor.offset, 1000);
    let rest = format!("xx\"usage\"\n{PI}");
    let spent = cursor.read(Format::Pi, rest.as_bytes(), false);
    assert_eq!(sum(&spent), tokens(1201, 35, 3, 2));
    let mut waits = Cursor::default();
    assert_eq!(waits.read(Format::Pi, &long, false), []);
    assert_eq!(waits.offset, 0, "its line is not at its end yet");
}

fn price(input: f64) -> Price {
    Price {
        input,
        output: 10.0,
        cache_read: 0.5,
        cache_write: 2.0,
    }
}

#[test]
fn longest_name_that_fits_has_the_price() {
    let prices = [("m*", 1.0), ("m-1*", 2.0), ("m-1", 3.0)];
    let prices = prices.map(|(name, input)| (name.to_owned(), price(input)));
    let prices = Prices(prices.into());
    let input = |model| prices.of(model).map(|price| price.input);
    assert_eq!(input("m-1"), Some(3.0));
    assert_eq!(input("m-1-2026"), Some(2.0));
    assert_eq!(input("m-2"), Some(1.0));
    assert_eq!(input("other"), None);
    let million = tokens(1_000_000, 1_000_000, 1_000_000, 1_000_000);
    assert_eq!(prices.usd("m-1", &million), Some(15.5));
    assert_eq!(prices.usd("other", &million), None);
}

#[test]
fn rows_are_summed_and_unpriced_models_are_reported() {
    let row = |day: &str, child: &str, usd: f64, unpriced: u64| Row {
        day: day.to_owned(),
        owner: Owner {
            session: format!("gt-horde-{child}"),
            rig: "horde".to_owned(),
            child: child.to_owned(),
            relic: "gt-1".to_owned(),
            harness: "claude".to_owned(),
        },
        model: "m".to_owned(),
        tokens: tokens(10, 0, 0, 0),
        usd,
        unpriced,
    };
    let rows = [
        row("2026-01-01", "Toast", 1.0, 0),
        row("2026-01-02", "Toast", 0.5, 4),
        row("2026-01-02", "Ash", 0.0, 10),
    ];
    let keys = |by| {
        together(&rows, by)
            .into_iter()
            .map(|(key, sum)| (key, sum.usd))
    };
    let keys = |by| keys(by).collect::<BTreeMap<_, _>>();
    let map = |pairs: &[(&str, f64)]| {
        let pairs = pairs.iter().map(|(key, usd)| ((*key).to_owned(), *usd));
        pairs.collect::<BTreeMap<_, _>>()
    };
    assert_eq!(
        keys(By::Day),
        map(&[("2026-01-01", 1.0), ("2026-01-02", 0.5)])
    );
    assert_eq!(
        keys(By::Session),
        map(&[("gt-horde-Ash", 0.0), ("gt-horde-Toast", 1.5)])
    );
    assert_eq!(keys(By::Rig), map(&[("horde", 1.5)]));
    assert_eq!(keys(By::Raider), map(&[("Ash", 0.0), ("Toast", 1.5)]));
    let known = |rows: &[Row]| Sum::of(rows).known_usd();
    assert_eq!(known(&rows), Some(1.5));
    assert_eq!(known(&rows[2..]), None, "nothing of it is known");
    assert_eq!(known(&[]), Some(0.0));
}

#[test]
fn transcripts_are_where_their_programs_write_them() {
    use super::transcript_dirs::{format, pi, root, transcript};
    use crate::domain::harness::hooks::Hooks;
    use std::path::Path;

    let env = [("HOME", "/h"), ("CODEX_HOME", "/x")];
    let env = env
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let own = Path::new("/c/.horde/tasks");
    assert_eq!(
        root(Format::Claude, &env, own),
        Path::new("/h/.claude/projects")
    );
    assert_eq!(root(Format::Codex, &env, own), Path::new("/x/sessions"));
    let home = root(Format::Copilot, &env, own);
    let path = transcript(Format::Copilot, &home, "f4", None);
    let expected = Path::new("/h/.copilot/session-state/f4/events.jsonl");
    assert_eq!(path.as_deref(), Some(expected));
    assert_eq!(transcript(Format::Copilot, &home, "../f4", None), None);
    assert_eq!(transcript(Format::Claude, &home, "f4", None), None);
    let sessions = Path::new("/h/.pi/agent/sessions");
    let dir = pi(sessions, Path::new("/tmp/kit-H3/city/kit/raiders/Ada"));
    assert_eq!(dir, sessions.join("--tmp-kit-H3-city-kit-raiders-Ada--"));
    assert_eq!(format(Hooks::None, "/opt/pi"), Some(Format::Pi));
    assert_eq!(format(Hooks::None, "aider"), None);
    assert_eq!(format(Hooks::Opencode, "opencode"), Some(Format::Opencode));
    assert_eq!(root(Format::Opencode, &env, own), own);
}

proptest! {
    /// Holds for any cuts and any number of reads.
    #[test]
    fn parts_count_as_much_as_the_whole(which in 0..ALL.len(), cuts in prop::collection::vec(0.0..1.0f64, 0..6)) {
        let (format, text) = ALL[which];
        let whole = sum(&Cursor::default().read(format, text.as_bytes(), false));
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| (cut * text.len() as f64) as usize).collect();
        cuts.push(text.len());
        cuts.sort_unstable();
        let mut cursor = Cursor::default();
        let mut counted = Tokens::default();
        for cut in cuts {
            let from = usize::try_from(cursor.offset).unwrap();
            let spent = cursor.read(format, &text.as_bytes()[from.min(cut)..cut], false);
            counted += sum(&spent);
            let kept = serde_json::to_string(&cursor).unwrap();
            cursor = serde_json::from_str(&kept).unwrap();
        }
        prop_assert_eq!(counted, whole);
    }

    #[test]
    fn no_line_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), full: bool) {
        for (format, _) in ALL {
            Cursor::default().read(format, &bytes, full);
        }
    }
}

fn line(id: &str, model: &str, at: &str) -> String {
    format!(
        "{{\"message\":{{\"id\":\"{id}\",\"model\":\"{model}\",\"usage\":{{\"input_tokens\":1}}}},\
         \"timestamp\":\"{at}\"}}\n"
    )
}

/// An agent can write into its transcript, so the remembered state is bounded.
#[test]
fn transcript_of_many_models_and_long_ids_is_remembered_in_little() {
    let mut cursor = Cursor::default();
    let long = "x".repeat(100_000);
    let lines: String = (0..500)
        .map(|n| {
            line(
                &format!("{n}-{long}"),
                &format!("m{n}"),
                "2026-11-23T13:00:00Z",
            )
        })
        .collect();
    let spent = cursor.read(Format::Claude, lines.as_bytes(), false);
    assert_eq!(spent.len(), 500);
    let models: std::collections::BTreeSet<_> = spent.iter().map(|one| &one.model).collect();
    assert_eq!(models.len(), MODELS + 1, "the rest has no name");
    let stored = serde_json::to_string(&cursor).unwrap();
    assert!(stored.len() < 50_000, "{}", stored.len());
    let spent = cursor.read(
        Format::Claude,
        line("a", &long, "2026-11-23T13:00:00Z").as_bytes(),
        false,
    );
    assert_eq!(spent[0].model, "");
}

/// A transcript may be older than the session that names it.
#[test]
fn tokens_used_before_the_session_are_not_counted() {
    let mut cursor = Cursor {
        since: Some("2026-11-23T12:00:00Z".parse().unwrap()),
        ..Cursor::default()
    };
    let lines = [
        line("a", "m", "2026-11-23T11:59:00Z"),
        line("b", "m", "2026-11-23T12:01:00Z"),
    ];
    let spent = cursor.read(Format::Claude, lines.concat().as_bytes(), false);
    assert_eq!(spent.len(), 1);
    assert_eq!(cursor.offset, lines.concat().len() as u64);
}
