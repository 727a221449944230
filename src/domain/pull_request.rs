//! The command that opens a pull request (`[rigs.forge] pr`), and the texts that it gets. The command is the operator's,
//! title and body are an agent's: these reach the shell as variables and a file, and are never a part of its line.

use std::fmt::Write as _;

use super::merge::MergeRequest;
use super::raider_notes::RaiderNotes;
use super::relic::Relic;
use super::self_review::Round;
use super::shown;

/// The longest title, in characters.
const TITLE_MAX: usize = 200;
/// The longest body, in bytes; hosts take 64 KiB.
const BODY_MAX: usize = 60_000;
/// The longest address that is stored, in bytes.
const URL_MAX: usize = 2000;

words! {
    /// A placeholder of the command, as it is written.
    Placeholder {
        /// `{title}`: the title of the relic.
        Title => "{title}",
        /// `{body_file}`: a file with the text of the relic and the notes of its raider.
        BodyFile => "{body_file}",
        /// `{branch}`: the pushed branch.
        Branch => "{branch}",
        /// `{target}`: the branch that it lands on.
        Target => "{target}",
        /// `{head}`: the pushed commit.
        Head => "{head}",
        /// `{mr}`: the id of the merge request.
        Mr => "{mr}",
        /// `{relic}`: the id of the relic.
        Relic => "{relic}",
    }
}

impl Placeholder {
    /// Returns the variable that holds its value.
    #[must_use]
    pub fn variable(self) -> &'static str {
        match self {
            Self::Title => "HD_PR_TITLE",
            Self::BodyFile => "HD_PR_BODY_FILE",
            Self::Branch => "HD_PR_BRANCH",
            Self::Target => "HD_PR_TARGET",
            Self::Head => "HD_PR_HEAD",
            Self::Mr => "HD_PR_MR",
            Self::Relic => "HD_PR_RELIC",
        }
    }
}

/// The program that opens a pull request, with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrCommand(Vec<String>);

impl PrCommand {
    /// Checks the words of a command.
    ///
    /// # Errors
    /// A placeholder is unknown.
    pub fn new(words: Vec<String>) -> Result<Self, String> {
        for word in &words {
            let mut rest = word.as_str();
            while let Some((before, placeholder, after)) = braces(rest) {
                if part(&rest[before.len()..]).is_none() {
                    let known = Placeholder::ALL.iter().map(|it| it.as_str());
                    let known: Vec<_> = known.collect();
                    let known = known.join(" ");
                    return Err(format!(
                        "{placeholder} is no placeholder of this command: {known}"
                    ));
                }
                rest = after;
            }
        }
        Ok(Self(words))
    }

    /// Returns the command; none where no program is configured.
    #[must_use]
    pub fn into_some(self) -> Option<Self> {
        (!self.0.is_empty()).then_some(self)
    }

    /// Returns the line for the shell. Values are variables of it, which the shell does not parse.
    #[must_use]
    pub fn line(&self) -> String {
        let words: Vec<_> = self.0.iter().map(|word| quoted(word)).collect();
        words.join(" ")
    }
}

/// Splits a text at its first `{word}`.
fn braces(text: &str) -> Option<(&str, &str, &str)> {
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let mut from = 0;
    loop {
        let open = from + text[from..].find('{')?;
        let name = text[open + 1..].find(|c: char| !is_name(c))?;
        let close = open + 1 + name;
        if name > 0 && text[close..].starts_with('}') {
            let (before, rest) = text.split_at(open);
            let (word, after) = rest.split_at(close + 1 - open);
            return Some((before, word, after));
        }
        from = open + 1;
    }
}

/// Returns the placeholder that a text begins with, and the rest.
fn part(text: &str) -> Option<(Placeholder, &str)> {
    let mut all = Placeholder::ALL.iter();
    all.find_map(|it| Some((*it, text.strip_prefix(it.as_str())?)))
}

fn quoted(word: &str) -> String {
    let literal = |text: &str| match text {
        "" => String::new(),
        _ => format!("'{}'", text.replace('\'', r"'\''")),
    };
    let (mut line, mut rest) = (String::new(), word);
    while let Some((before, _, _)) = braces(rest) {
        let Some((placeholder, after)) = part(&rest[before.len()..]) else {
            break;
        };
        line.push_str(&literal(before));
        let _infallible = write!(line, "\"${{{}}}\"", placeholder.variable());
        rest = after;
    }
    line.push_str(&literal(rest));
    if line.is_empty() {
        "''".to_owned()
    } else {
        line
    }
}

/// Returns the title of a pull request.
#[must_use]
pub fn title(relic: &Relic) -> String {
    let title: String = relic.title.chars().take(TITLE_MAX).collect();
    shown::line(&title).into_owned()
}

/// Returns the body of a pull request: the text of the relic, the notes of the raider, and the ids of both.
#[must_use]
pub fn body(relic: &Relic, mr: &MergeRequest, rounds: &[Round], of_raider: &RaiderNotes) -> String {
    let mut body = String::new();
    if !relic.body.trim().is_empty() {
        let _infallible = writeln!(body, "{}\n", relic.body.trim());
    }
    if let Some(done) = &of_raider.done {
        let _infallible = writeln!(body, "{}\n", done.text);
    }
    let notes = rounds.iter().filter_map(|round| {
        let note = round
            .note
            .as_deref()
            .filter(|note| !note.trim().is_empty())?;
        Some(format!(
            "- {}: {}",
            round.verdict.as_str(),
            note.trim().replace('\n', "\n  ")
        ))
    });
    let notes: Vec<_> = notes.collect();
    if !notes.is_empty() {
        let _infallible = writeln!(body, "Self-review:\n\n{}\n", notes.join("\n"));
    }
    let mut end = body.len().min(BODY_MAX);
    while !body.is_char_boundary(end) {
        end -= 1;
    }
    if end < body.len() {
        body.truncate(end);
        body.push_str(" …\n\n");
    }
    let _infallible = writeln!(body, "{} of {}, by {}", mr.id, mr.relic, mr.raider);
    shown::lines(&body).into_owned()
}

/// Returns the address that the command printed: the last one of its output.
#[must_use]
pub fn url(output: &str) -> Option<String> {
    let words = output.split_whitespace().rev();
    let mut urls = words.filter(|word| {
        let rest = word
            .strip_prefix("https://")
            .or(word.strip_prefix("http://"));
        rest.is_some_and(|rest| !rest.is_empty())
    });
    let fits = |url: &&str| url.len() <= URL_MAX && !url.chars().any(char::is_control);
    urls.find(fits).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::merge::MrState;
    use crate::domain::raider_notes::RaiderNote;
    use crate::domain::self_review::Verdict;
    use crate::testing::records::{self, toast};

    fn line(words: &[&str]) -> Result<String, String> {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        PrCommand::new(words).map(|command| command.line())
    }

    /// No text of an agent is a part of the line that a shell parses.
    #[test]
    fn values_reach_the_shell_as_quoted_variables() {
        for (words, expected) in [
            (&["gh", "pr"][..], "'gh' 'pr'"),
            (&["--title", "{title}"], r#"'--title' "${HD_PR_TITLE}""#),
            (
                &["--body-file={body_file}"],
                r#"'--body-file='"${HD_PR_BODY_FILE}""#,
            ),
            (
                &["{relic}: {title}!"],
                r#""${HD_PR_RELIC}"': '"${HD_PR_TITLE}"'!'"#,
            ),
            (&["it's", "$(id)"], r"'it'\''s' '$(id)'"),
            (
                &["", "{}", "{A}", "{{branch}"],
                r#"'' '{}' '{A}' '{'"${HD_PR_BRANCH}""#,
            ),
        ] {
            assert_eq!(line(words).unwrap(), expected, "{words:?}");
        }
    }

    #[test]
    fn unknown_placeholder_is_an_error_that_lists_the_known_ones() {
        let error = line(&["gh", "{titel}"]).unwrap_err();
        assert!(
            error.contains("{titel}") && error.contains("{title}"),
            "{error}"
        );
    }

    #[test]
    fn address_is_the_last_one_that_was_printed() {
        let long = format!("https://x/{}", "y".repeat(URL_MAX));
        for (output, expected) in [
            ("https://h/1\n", Some("https://h/1")),
            ("see http://h/0\nhttps://h/1 \n", Some("https://h/1")),
            ("https://\ncreated", None),
            ("ftp://h/1", None),
            (long.as_str(), None),
            ("", None),
        ] {
            assert_eq!(url(output).as_deref(), expected, "{output}");
        }
    }

    #[test]
    fn body_has_the_notes_of_the_raider() {
        let relic = records::relic("gt-1");
        let hook = records::hook(&toast(), &relic.id);
        let mr = records::mr("gt-2", hook, MrState::Reviewing);
        let round = |round, verdict, note: Option<&str>| Round {
            relic: relic.id.clone(),
            raider: toast(),
            incarnation: mr.incarnation,
            round,
            verdict,
            note: note.map(str::to_owned),
            at: jiff::Timestamp::UNIX_EPOCH,
        };
        let rounds = [
            round(1, Verdict::Failed, Some("no test\nof the flag")),
            round(2, Verdict::Failed, Some(" ")),
            round(3, Verdict::Passed, Some("tests are there")),
        ];
        let done = RaiderNote::new("the old format stays readable", jiff::Timestamp::UNIX_EPOCH);
        let notes = RaiderNotes {
            done,
            handoff: None,
        };
        let body = body(&relic, &mr, &rounds, &notes);
        assert!(
            body.ends_with(
                "the old format stays readable\n\n\
                 Self-review:\n\n- failed: no test\n  of the flag\n- passed: tests are there\n\n\
                 gt-2 of gt-1, by horde/raiders/Toast\n"
            ),
            "{body}"
        );
    }

    /// Texts of an agent are shown escaped, and bounded.
    #[test]
    fn texts_are_escaped_and_bounded() {
        let mut relic = records::relic("gt-1");
        relic.title = format!("a\u{1b}[2J{}", "b".repeat(500));
        relic.body = format!("text\u{7}\n{}", "ä".repeat(BODY_MAX));
        let hook = records::hook(&toast(), &relic.id);
        let mr = records::mr("gt-2", hook, MrState::Reviewing);
        let title = title(&relic);
        assert!(
            !title.contains('\u{1b}') && title.chars().count() < 250,
            "{title}"
        );
        let body = body(&relic, &mr, &[], &RaiderNotes::default());
        assert!(body.starts_with("text") && !body.contains('\u{7}'));
        assert!(body.ends_with("gt-2 of gt-1, by horde/raiders/Toast\n"));
        assert!(body.len() < BODY_MAX + 1000);
    }
}
