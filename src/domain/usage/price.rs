//! Prices of models: `[harness.<name>] prices`.

use std::collections::BTreeMap;

use super::Tokens;

/// US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// Of input.
    pub input: f64,
    /// Of output.
    pub output: f64,
    /// Of input from a cache.
    pub cache_read: f64,
    /// Of input that goes into a cache.
    pub cache_write: f64,
}

/// Prices by the name of the model; a name that ends in `*` matches all names with that beginning.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Prices(pub BTreeMap<String, Price>);

impl Prices {
    /// Returns the price of a model: that of the longest matching name.
    #[must_use]
    pub fn of(&self, model: &str) -> Option<&Price> {
        let fits = |name: &str| match name.strip_suffix('*') {
            Some(start) => model.starts_with(start),
            None => model == name,
        };
        let fitting = self.0.iter().filter(|(name, _)| fits(name));
        let longest = fitting
            .max_by_key(|(name, _)| (name.trim_end_matches('*').len(), !name.ends_with('*')));
        longest.map(|(_, price)| price)
    }

    /// Returns US dollars for tokens of a model; none where it has no price.
    #[must_use]
    pub fn usd(&self, model: &str, tokens: &Tokens) -> Option<f64> {
        let price = self.of(model)?;
        // Token counts are exact as floats far beyond any real bill.
        let of = |count: u64, price: f64| count as f64 * price / 1e6;
        Some(
            of(tokens.input, price.input)
                + of(tokens.output, price.output)
                + of(tokens.cache_read, price.cache_read)
                + of(tokens.cache_write, price.cache_write),
        )
    }
}
