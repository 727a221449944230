//! "Did you mean": the nearest known word to an unknown word.

/// Returns the candidate that differs least from the word, if the difference is small. A single letter has none: it is like
/// every short word.
#[must_use]
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    let allowed = (length / 3).max(1).min(length.saturating_sub(1));
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the number of edits (insert, delete, replace, swap of neighbours) between two words.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().flat_map(char::to_lowercase).collect();
    let b: Vec<char> = b.chars().flat_map(char::to_lowercase).collect();
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let plain = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                let swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                if swap {
                    plain.min(rows[i - 2][j - 2] + 1)
                } else {
                    plain
                }
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_recognised_and_another_word_is_not() {
        let words = ["relic", "rig", "harness", "target"];
        assert_eq!(closest("relci", words), Some("relic"));
        assert_eq!(closest("Harnes", words), Some("harness"));
        assert_eq!(closest("rigs", words), Some("rig"));
        assert_eq!(closest("colour", words), None);
        assert_eq!(closest("", words), None);
        assert_eq!(closest("a", ["b", "ab", "on"]), None, "a single letter");
        assert_eq!(closest("A", ["a", "ab"]), Some("a"), "but for its case");
    }
}
