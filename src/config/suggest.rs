//! "did you mean": the nearest known word to a misspelt one.

/// The candidate nearest to `word`, if one is near enough to be what was meant: at most a third of
/// its letters may differ.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = |candidate: &&str| distance(word, candidate);
    let limit = |candidate: &str| (candidate.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .filter(|candidate| distance(word, candidate) <= limit(candidate))
        .min_by_key(near)
}

/// How many letters must be put in, taken out, changed or swapped with their neighbour.
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().flat_map(char::to_lowercase).collect();
    let to: Vec<char> = to.chars().flat_map(char::to_lowercase).collect();
    let mut rows = vec![vec![0; to.len() + 1]; from.len() + 1];
    rows[0] = (0..=to.len()).collect();
    for i in 1..=from.len() {
        rows[i][0] = i;
        for j in 1..=to.len() {
            let same = usize::from(from[i - 1] != to[j - 1]);
            let mut best = (rows[i - 1][j] + 1)
                .min(rows[i][j - 1] + 1)
                .min(rows[i - 1][j - 1] + same);
            let swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
            if swapped {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_understood_and_a_different_word_is_not() {
        let keys = [
            "patrol_interval",
            "max_restarts",
            "on_term",
            "socket",
            "max",
        ];
        assert_eq!(nearest("patrol_intervall", keys), Some("patrol_interval"));
        assert_eq!(nearest("max_restrats", keys), Some("max_restarts"));
        assert_eq!(nearest("mx", keys), Some("max"));
        assert_eq!(nearest("colour", keys), None);
        assert_eq!(nearest("timeout", keys), None);
    }
}
