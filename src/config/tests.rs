//! Whole configurations: samples, right and wrong, the shipped files, and the promise that no
//! default lives in code.
