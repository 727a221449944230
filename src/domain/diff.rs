//! The difference of two texts, line by line, as `diff -u` shows it.

/// The number of unchanged lines shown around each change.
const CONTEXT: usize = 2;
/// Texts that differ in more lines than this are not compared line by line: all old lines are removed, all new lines
/// added.
const COMPARED_MAX: usize = 2000;

/// The fate of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line<'a> {
    Stays(&'a str),
    Goes(&'a str),
    Comes(&'a str),
}

/// Returns the changed lines, each with its sign, and the lines around them; empty when the texts are equal. Lines have
/// no line end.
#[must_use]
pub fn lines(before: &str, after: &str) -> String {
    if before == after {
        return String::new();
    }
    let all = compare(&split(before), &split(after));
    let changed: Vec<usize> = all
        .iter()
        .enumerate()
        .filter(|(_, line)| !matches!(line, Line::Stays(_)))
        .map(|(index, _)| index)
        .collect();
    let near = |index: usize| changed.iter().any(|at| at.abs_diff(index) <= CONTEXT);
    let (mut out, mut skipped) = (String::new(), false);
    for (index, line) in all.iter().enumerate() {
        if !near(index) {
            skipped = true;
            continue;
        }
        if std::mem::take(&mut skipped) {
            out.push_str(" ...\n");
        }
        let (sign, text) = match line {
            Line::Stays(text) => (' ', text),
            Line::Goes(text) => ('-', text),
            Line::Comes(text) => ('+', text),
        };
        out.push(sign);
        out.push_str(text);
        out.push('\n');
    }
    if skipped {
        out.push_str(" ...\n");
    }
    out
}

fn split(text: &str) -> Vec<&str> {
    text.lines().collect()
}

/// Returns every line of both, in order.
fn compare<'a>(before: &[&'a str], after: &[&'a str]) -> Vec<Line<'a>> {
    let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
    let head = before.iter().zip(after).take_while(same).count();
    let (old, new) = (&before[head..], &after[head..]);
    let tail = old.iter().rev().zip(new.iter().rev());
    let tail = tail.take_while(same).count();
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
    let mut all: Vec<_> = before[..head]
        .iter()
        .map(|line| Line::Stays(line))
        .collect();
    all.extend(middle(old, new));
    let last = &before[before.len() - tail..];
    all.extend(last.iter().map(|line| Line::Stays(line)));
    all
}

/// Compares the lines between the first and the last that differ, by their longest common subsequence.
fn middle<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    if old.len() + new.len() > COMPARED_MAX {
        let goes = old.iter().map(|line| Line::Goes(line));
        return goes
            .chain(new.iter().map(|line| Line::Comes(line)))
            .collect();
    }
    let width = new.len() + 1;
    let mut common = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = match old[i] == new[j] {
                true => common[(i + 1) * width + j + 1] + 1,
                false => common[(i + 1) * width + j].max(common[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        let both = i < old.len() && j < new.len();
        if both && old[i] == new[j] {
            lines.push(Line::Stays(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len()
            || (both && common[(i + 1) * width + j] >= common[i * width + j + 1])
        {
            lines.push(Line::Goes(old[i]));
            i += 1;
        } else {
            lines.push(Line::Comes(new[j]));
            j += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_are_shown_with_those_around_them() {
        let before = "a\nb\nc\nd\ne\nf\ng\n";
        let after = "a\nb\nc\nX\ne\nf\ng\nh\n";
        let wanted = " ...\n b\n c\n-d\n+X\n e\n f\n g\n+h\n";
        assert_eq!(lines(before, after), wanted);
        assert_eq!(lines(before, before), "");
        assert_eq!(lines("", "a\n"), "+a\n");
        assert_eq!(lines("a\n", ""), "-a\n");
    }

    #[test]
    fn lines_far_from_a_change_are_left_out() {
        let old: Vec<_> = (0..40).map(|number| number.to_string()).collect();
        let mut new = old.clone();
        new[10] = "ten".to_owned();
        new.remove(30);
        let shown = lines(&old.join("\n"), &new.join("\n"));
        let wanted = " ...\n 8\n 9\n-10\n+ten\n 11\n 12\n ...\n 28\n 29\n-30\n 31\n 32\n ...\n";
        assert_eq!(shown, wanted);
    }

    #[test]
    fn texts_that_differ_everywhere_are_shown_in_full() {
        let text = |sign: char| {
            let lines = (0..COMPARED_MAX).map(|number| format!("{sign}{number}"));
            lines.collect::<Vec<_>>().join("\n")
        };
        let shown = lines(&text('a'), &text('b'));
        assert_eq!(shown.lines().count(), 2 * COMPARED_MAX);
    }
}
