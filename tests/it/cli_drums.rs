//! The command line of `hd drums`.

use serde_json::{Value, json};

use crate::cli::run;
use crate::fake_city::FakeCity;

#[test]
fn words_of_drums_are_keys_of_the_request() {
    let city = FakeCity::start();
    let sent = json!({"to": "Toast", "subject": "a", "message": "b", "deliver": true});
    let inbox = json!({"name": "mayor", "all": true});
    let reply = json!({"id": 3, "message": "b"});
    let lines: [(&str, &str, Value); 5] = [
        ("drums send Toast -s a -m b --deliver", "drums.send", sent),
        ("mail inbox mayor --all", "drums.inbox", inbox),
        ("drums read 3", "drums.read", json!({"id": 3})),
        ("drums reply 3 -m b", "drums.reply", reply),
        ("drums ack 3", "drums.ack", json!({"id": 3})),
    ];
    for (line, op, args) in lines {
        let ran = run(city.hd().args(line.split(' ')));
        assert_eq!(ran.code, 0, "{line}: {}", ran.stderr);
        assert_eq!(city.fake.asked(op), [args], "{line}");
    }
}

#[test]
fn several_drums_are_acknowledged_in_one_request() {
    let city = FakeCity::start();
    let ran = run(city.hd().args(["drums", "ack", "3", "4"]));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(city.fake.asked("drums.ack"), [json!({"id": [3, 4]})]);
}

#[test]
fn text_of_a_drum_comes_from_standard_input_without_one_in_the_command() {
    let city = FakeCity::start();
    for message in [&["-m", "-"][..], &[]] {
        let mut hd = city.hd();
        hd.args(["drums", "send", "Toast", "-s", "a"]).args(message);
        assert_eq!(run(hd.write_stdin("two\nlines\n")).code, 0);
        let asked = city.fake.asked("drums.send");
        assert_eq!(asked.last().unwrap()["message"], "two\nlines");
    }
}
