//! The consent to operations that destroy something.

use super::{CvForget, MqReject, RaiderNuke, RaiderRepair, RelicCancel, RelicClose, SalvagePrune};

/// The arguments of an operation that destroys something. Arguments without this trait cannot stand in a row of the
/// table that needs consent.
pub trait Consent {
    /// Returns true when the caller consents, or the operation destroys nothing this time.
    fn is_given(&self) -> bool;
}

macro_rules! consent_by_yes {
    ($($args:ident),+) => {
        $(impl Consent for $args {
            fn is_given(&self) -> bool {
                self.yes
            }
        })+
    };
}

consent_by_yes!(
    CvForget,
    MqReject,
    RaiderRepair,
    RelicCancel,
    RelicClose,
    SalvagePrune
);

impl Consent for RaiderNuke {
    fn is_given(&self) -> bool {
        self.yes || self.dry_run
    }
}
