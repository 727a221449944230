//! The place of `include` in a file.

use super::SampleDir;

#[test]
fn include_below_a_table_is_told_where_it_belongs() {
    let place = SampleDir::new();
    let errors = place
        .load("[workspace]\nname = \"c\"\ninclude = [\"x.toml\"]\n")
        .unwrap_err();
    let told = errors.render(false);
    assert!(
        told.contains("write `include` at the top of city.toml, above the first table"),
        "{told}"
    );
}
