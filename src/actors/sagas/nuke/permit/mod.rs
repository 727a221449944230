//! The permit of a removal: measured, judged, and refused as long as work would be lost. Nothing is touched.

pub(super) mod ignored;
pub(super) mod judgement;
pub(super) mod measure;
pub(super) mod missing;
pub(super) mod rehearse;
pub(super) mod verdict;
