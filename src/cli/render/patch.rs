//! A patch, with the colours that git gives it.

use super::super::output::{Style, Tone};
use crate::domain::shown;
use crate::domain::work_diff::Diff;

/// Renders a diff: the patch, then what is missing in it.
pub fn patch(diff: &Diff, style: Style) -> String {
    // A change of line ends is a change.
    let text = diff.text.replace('\r', "\\r");
    let text = shown::lines(&text);
    let mut lines: Vec<String> = text
        .lines()
        .map(|line| style.paint(tone(line), line))
        .collect();
    for path in &diff.left_out {
        let path = shown::line(path);
        let line = format!("{path}: in no commit, and not shown");
        lines.push(style.paint(Tone::Waits, &line));
    }
    if diff.is_cut {
        let line = "the rest of the patch is too long to be shown";
        lines.push(style.paint(Tone::Waits, line));
    }
    lines.join("\n")
}

/// Renders the sentence that says what a diff compares.
pub fn note(diff: &Diff, style: Style) -> Option<String> {
    let note = diff.note.as_deref()?;
    Some(style.paint(Tone::Faint, &shown::line(note)))
}

fn tone(line: &str) -> Tone {
    const HEADS: &[&str] = &[
        "diff --git ",
        "index ",
        "--- ",
        "+++ ",
        "new file ",
        "deleted file ",
        "old mode ",
        "new mode ",
        "similarity ",
        "rename ",
    ];
    match line {
        head if HEADS.iter().any(|begin| head.starts_with(begin)) => Tone::Strong,
        hunk if hunk.starts_with("@@ ") => Tone::Faint,
        added if added.starts_with('+') => Tone::Good,
        removed if removed.starts_with('-') => Tone::Bad,
        _ => Tone::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Style = Style {
        color: false,
        width: None,
    };
    const PAINTED: Style = Style {
        color: true,
        width: None,
    };

    #[test]
    fn patch_has_colours_and_hides_nothing_that_an_agent_wrote() {
        let text = "diff --git a/f b/f\n@@ -1 +1 @@\n-old\n+new\x1b[2Jline\n context\n";
        let diff = Diff {
            text: text.to_owned(),
            ..Diff::default()
        };
        let plain = patch(&diff, PLAIN);
        assert!(!plain.contains('\x1b'), "{plain:?}");
        assert!(plain.contains("-old\n+new"), "{plain:?}");
        let painted = patch(&diff, PAINTED);
        assert!(painted.contains("\x1b[31m-old\x1b[0m"), "{painted:?}");
        assert!(painted.contains("\x1b[32m+new"), "{painted:?}");
        assert!(!painted.contains("\x1b[2J"), "{painted:?}");
    }

    #[test]
    fn missing_parts_are_named() {
        let diff = Diff {
            text: "x\n".to_owned(),
            is_cut: true,
            left_out: vec!["disk.img".to_owned()],
            ..Diff::default()
        };
        let text = patch(&diff, PLAIN);
        assert!(text.contains("disk.img: in no commit"), "{text}");
        assert!(text.ends_with("too long to be shown"), "{text}");
    }
}
