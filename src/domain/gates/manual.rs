//! The gate `manual`: opens only by `hd auto run`, which opens every other gate too.

use super::When;

/// Returns when it opens.
#[must_use]
pub fn when() -> When {
    When::Never
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It depends on nothing, so there is nothing to vary.
    #[test]
    fn it_never_opens_by_itself() {
        assert_eq!(when(), When::Never);
    }
}
