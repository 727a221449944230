//! The gate `manual`: opens by `hd auto run` only, as every gate does besides.

use super::When;

/// When it opens.
#[must_use]
pub fn when() -> When {
    When::Never
}

#[cfg(test)]
mod tests {
    use super::*;

    /// There is nothing that it depends on, and so nothing to vary.
    #[test]
    fn it_never_opens_by_itself() {
        assert_eq!(when(), When::Never);
    }
}
