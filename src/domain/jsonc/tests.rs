//! Edits of JSON texts.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn edit(path: &[&str], put: Put) -> Edit {
    let path = path.iter().map(|key| (*key).to_owned()).collect();
    Edit { path, put }
}

fn set(path: &[&str], value: Value) -> Edit {
    edit(path, Put::Set(value))
}

fn apply_one(text: &str, edit: Edit) -> Result<String, Unchangeable> {
    apply(text, &[edit])
}

#[test]
fn value_is_put_in_and_every_other_byte_stays() {
    let cases = [
        ("", "{\n  \"a\": true\n}\n"),
        ("{}", "{\n  \"a\": true\n}"),
        ("{\"b\":1}\n", "{\"b\":1, \"a\": true}\n"),
        ("{\"a\":false,\"b\":1}", "{\"a\":true,\"b\":1}"),
        (
            "{\n    \"z\": 1,\n    \"b\": [ ]\n}\n",
            "{\n    \"z\": 1,\n    \"b\": [ ],\n    \"a\": true\n}\n",
        ),
        (
            "// mine\n{\n\t\"b\": 1, // why\n}\n",
            "// mine\n{\n\t\"b\": 1, // why\n\t\"a\": true\n}\n",
        ),
        (
            "{\n  \"b\": 1 // why\n}\n",
            "{\n  \"b\": 1, // why\n  \"a\": true\n}\n",
        ),
        (
            "{\r\n  \"b\": 1\r\n}\r\n",
            "{\r\n  \"b\": 1,\r\n  \"a\": true\r\n}\r\n",
        ),
        ("{ // empty\n}", "{ // empty\n  \"a\": true\n}"),
    ];
    for (before, after) in cases {
        let put = apply_one(before, set(&["a"], json!(true)));
        assert_eq!(put.as_deref(), Ok(after), "{before:?}");
        let again = apply_one(after, set(&["a"], json!(true)));
        assert_eq!(again.as_deref(), Ok(after), "made once");
    }
}

#[test]
fn objects_on_the_way_are_made() {
    let trust = set(&["projects", "/c", "trusted"], json!(true));
    let text = apply_one("{\n  \"projects\": {}\n}\n", trust.clone()).unwrap();
    let wanted = "{\n  \"projects\": {\n    \"/c\": {\n      \"trusted\": true\n    }\n  }\n}\n";
    assert_eq!(text, wanted);
    let text = apply_one("{\n  \"n\": 1\n}\n", trust).unwrap();
    let wanted = "{\n  \"n\": 1,\n  \"projects\": {\n    \"/c\": {\n      \"trusted\": true\n    }\n  }\n}\n";
    assert_eq!(text, wanted);
}

#[test]
fn element_is_added_once_and_default_replaces_nothing() {
    let add = edit(&["f"], Put::Add(json!("/c")));
    for (before, after) in [
        ("{}", "{\n  \"f\": [\n    \"/c\"\n  ]\n}"),
        ("{\"f\":[]}", "{\"f\":[\n  \"/c\"\n]}"),
        ("{\"f\":[\"/a\"]}", "{\"f\":[\"/a\", \"/c\"]}"),
        (
            "{\n  \"f\": [\n    \"/a\"\n  ]\n}",
            "{\n  \"f\": [\n    \"/a\",\n    \"/c\"\n  ]\n}",
        ),
        ("{\"f\":[\"/c\"]}", "{\"f\":[\"/c\"]}"),
    ] {
        assert_eq!(apply_one(before, add.clone()).as_deref(), Ok(after));
    }
    let default = edit(&["f"], Put::Default(json!("mine")));
    let text = "{\"f\": \"theirs\"}";
    assert_eq!(apply_one(text, default.clone()).as_deref(), Ok(text));
    let text = apply_one("{\"f\": null}", default);
    assert_eq!(text.as_deref(), Ok("{\"f\": \"mine\"}"));
}

#[test]
fn invalid_json_and_other_kinds_are_refused() {
    for (text, says) in [
        ("{\"a\": }", "line 1: this is not a value"),
        ("{\n\"a\": 1\n\"b\": 2}", "line 3: a comma is missing"),
        ("{\"a\": \"x", "line 1: this is not a value"),
        ("{\"a\": 1} x", "line 1: something follows the value"),
        ("{a: 1}", "line 1: a key in quotes is missing"),
        ("{\"a\" 1}", "line 1: a colon is missing"),
        ("{\"a\\\"", "line 1: this is not a value"),
        ("{ /* x", "line 1: a comment does not end"),
        ("[]", "`` is not an object"),
        ("{\"a\": [1]}", "`a` is not an object"),
    ] {
        let refused = apply_one(text, set(&["a", "b"], json!(1)));
        assert_eq!(refused.unwrap_err().to_string(), says, "{text}");
    }
    let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
    assert!(apply_one(&deep, set(&["a"], json!(1))).is_err());
    let add = edit(&["a"], Put::Add(json!("x")));
    let refused = apply_one("{\"a\": 1}", add).unwrap_err();
    assert_eq!(refused.to_string(), "`a` is not an array");
}

#[test]
fn empty_values_do_not_count_as_there() {
    let text = r#"{"a": {"b": "x"}, "n": null, "e": [], "o": {}, "s": ""}"#;
    assert_eq!(has(text, &["a", "b"]), Ok(true));
    for path in [["n"], ["e"], ["o"], ["s"], ["missing"]] {
        assert_eq!(has(text, &path), Ok(false), "{path:?}");
    }
    assert_eq!(has("", &["a"]), Ok(false));
    assert!(has("{", &["a"]).is_err());
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-c\"\\\\/\n{}]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c\"/]{1,3}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn only_the_named_value_changes(
        members in prop::collection::btree_map("[a-c\"/]{1,3}", value(), 0..5),
        key in "[a-c\"/]{1,3}", inner in "[x-z]{1,2}", new in value(), pretty: bool,
    ) {
        let mut expected = Value::Object(members.into_iter().collect());
        let text = match pretty {
            true => format!("{expected:#}"),
            false => expected.to_string(),
        };
        let edit = set(&[&key, &inner], new.clone());
        match apply_one(&text, edit) {
            Ok(edited) => {
                expected[&key][&inner] = new;
                prop_assert_eq!(serde_json::from_str::<Value>(&edited).unwrap(), expected);
            }
            Err(_) => {
                let there = expected.get(&key);
                prop_assert!(there.is_some_and(|there| !there.is_object()));
            }
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "[{}\\[\\]\",:/*a1\\\\ \n]{0,40}") {
        let _either = apply_one(&text, set(&["a", "b"], json!(1)));
    }
}
