//! Agents that write about limits and logins: their text and the output of their tools is no message of the program.
//! The screens are drawn like those of the recordings.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::SampleDir;
use crate::domain::condition::{Condition, judge};
use crate::domain::ids::HarnessName;
use crate::domain::screen::ScreenView;

/// Messages of programs about limits and logins, in each program's own words.
const SAID: [&str; 20] = [
    "You've hit your session limit · resets 5:52pm (UTC)",
    "You’ve hit your usage limit. Visit https://x.example or try again at 5:52 PM.",
    "API Error: Request rejected (429) · too many requests",
    "Quota exceeded. Check your plan and billing details.",
    "Usage limit reached for all Pro models.",
    "429 Too Many Requests: try again in 7m12s",
    "Error: 429 slow down",
    "[retrying in 58m 56s attempt #1]",
    "litellm.RateLimitError: RateLimitError: OpenAIException - Rate limit reached",
    "Not logged in · Please run /login",
    "Please run /login · API Error: 401 OAuth token has expired.",
    "Invalid API key · Fix external API key",
    "unexpected status 401 Unauthorized: Incorrect API key provided.",
    "Your refresh token has expired. Please log out and sign in again.",
    "[API Error: {\"error\":{\"code\":401,\"status\":\"UNAUTHENTICATED\"}}]",
    "Incorrect API key provided",
    "Unauthorized: bad token",
    "Error: 401 Unauthorized",
    "Error: 403 Forbidden",
    "Authentication failed with provider at http://127.0.0.1 (HTTP 401). Please use /login",
];

/// The screen of a program whose agent ran a command that printed this text, and quoted it: in a row of its own and
/// inside a row.
fn screens(preset: &str, said: &str) -> Vec<String> {
    let frame = "─".repeat(60);
    match preset {
        "claude" => {
            let input =
                format!("✻ Cooked for 3s\n\n{frame}\n❯\u{a0}\n{frame}\n  ⏵⏵ bypass permissions on");
            vec![
                format!("❯ Go\n\n● Bash(cat log)\n  ⎿  {said}\n\n● It is in the log.\n\n{input}"),
                format!("❯ Go\n\n● The log says:\n\n  {said}\n\n  That is all.\n\n{input}"),
                format!("❯ Go\n\n● It says {said}, and goes on.\n\n{input}"),
            ]
        }
        "codex" => {
            let input = "› Ask Codex to do anything\n\n  GPT-6.1 default · /srv/x\n  ← for agents · ? for shortcuts";
            vec![
                format!("› Go\n\n• Ran cat log\n  └ {said}\n\n• It is in the log.\n\n{input}"),
                format!("› Go\n\n• {said}\n\n  {said}\n\n{input}"),
            ]
        }
        "gemini" => {
            let input = " YOLO Ctrl+Y\n\n *   Type your message or @path/to/file\n";
            vec![
                format!(
                    "╭────────╮\n│ ✓  Shell cat log\n│ {said}\n╰────────╯\n✦ It is in the log.\n\n{input}"
                ),
                format!("✦ {said}\n  {said}\n\n{input}"),
            ]
        }
        "opencode" => of_opencode(said),
        "pi" => {
            let input = format!("{frame}\n\n{frame}\n/srv/x (toast)\n0.4%/128k (auto)");
            vec![
                format!(
                    " Go\n\n $ cat log\n\n {said}\n\n Took 0.2s\n\n It is in the log.\n\n{input}"
                ),
                format!(" Go\n\n $ cat log\n\n {said}\n\n Took 0.2s\n\n{input}"),
                format!(" Go\n\n {said}\n\n That is what the log says.\n\n{input}"),
                format!(" Go\n\n It says {said}\n\n{input}"),
            ]
        }
        "copilot" => {
            let input = format!(" /srv/x [⎇ work]\n{frame}\n❯\n{frame}\n / commands · ? help");
            vec![
                format!(
                    " ❯ Go\n\n ✗ Read the log (shell)\n   $ cat log\n   └ {said}\n\n ● In the log.\n\n{input}"
                ),
                format!(" ❯ Go\n\n ● {said}\n   {said}\n\n{input}"),
            ]
        }
        "aider" => vec![
            format!("The log says:\n\n{said}\n\nThat is all.\n{frame}\ndiff> "),
            format!("It says {said}\n{frame}\ndiff> "),
        ],
        other => panic!("no screens of {other}"),
    }
}

/// The same for opencode, and an error after which the agent has continued.
fn of_opencode(said: &str) -> Vec<String> {
    let bar = "▀".repeat(60);
    let input = format!("  ┃\n  ┃\n  ┃  Build auto · Model One\n  ╹{bar}\n   /srv/x");
    let end = "     ▣  Build · Model One · 3.1s";
    vec![
        format!(
            "  ┃\n  ┃  $ cat log\n  ┃\n  ┃  {said}\n  ┃\n\n     In the log.\n\n{end}\n\n{input}"
        ),
        format!("  ┃\n  ┃  $ cat log\n  ┃\n  ┃  {said}\n  ┃\n\n{end}\n\n{input}"),
        format!("  ┃\n  ┃  Go\n  ┃\n\n     {said}\n\n{end}\n\n{input}"),
        // An error after which the agent has continued.
        format!(
            "  ┃\n  ┃  {said}\n  ┃\n\n{end}\n\n  ┃\n  ┃  Go on\n  ┃\n\n     Done.\n\n{end}\n\n{input}"
        ),
    ]
}

#[test]
fn agent_text_about_limits_and_logins_is_not_taken_for_its_programs_message() {
    let place = SampleDir::new();
    let city = place.load("workspace.name = \"c\"").unwrap().city;
    let now: Timestamp = "2026-11-23T10:00:00Z".parse().unwrap();
    let mut wrong = Vec::new();
    for preset in [
        "claude", "codex", "gemini", "opencode", "pi", "copilot", "aider",
    ] {
        let looks = &city.harnesses[&HarnessName::new(preset).unwrap()].patterns;
        for text in SAID.iter().flat_map(|said| screens(preset, said)) {
            let sighting = judge(looks, &ScreenView::of_text(&text), now, &TimeZone::UTC);
            assert!(sighting.goes_on, "{preset} waits for text:\n{text}");
            if let Some(Condition::RateLimited { text: row, .. } | Condition::Auth { text: row }) =
                sighting.condition.or(sighting.ending)
            {
                wrong.push(format!("{preset}: {row:?} in\n{text}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
