//! The wire: round trips, torn frames, hostile bytes.

use super::*;
use jiff::Timestamp;
use proptest::prelude::*;

fn requests() -> Vec<Request> {
    vec![
        Request::Expect("t".to_owned()),
        Request::Attach {
            rows: 50,
            cols: 200,
        },
        Request::Keys(vec![0, 3, 255]),
        Request::Resize { rows: 1, cols: 2 },
        Request::Submit("grüß".to_owned()),
        Request::Type(vec![27]),
        Request::Peek,
        Request::Interrupt,
        Request::Stop { grace_ms: 5000 },
        Request::EndOfInput,
    ]
}

fn answers() -> Vec<Answer> {
    vec![
        Answer::Done,
        Answer::Refused("no".to_owned()),
        Answer::Gone,
        Answer::Screen("a\nb".to_owned()),
        Answer::Snapshot(vec![1]),
        Answer::Output(vec![2]),
        Answer::Ended(Ended {
            token: "t".to_owned(),
            exit: SessionExit {
                code: None,
                signal: Some(9),
                at: Timestamp::UNIX_EPOCH,
                by_person: true,
                stopped: true,
            },
            killed: true,
            stragglers: 1,
            undead: 0,
        }),
    ]
}

#[test]
fn every_frame_survives_the_way_even_byte_by_byte() {
    let mut frames = Frames::default();
    for request in requests() {
        let mut got = None;
        for byte in request.encode() {
            assert!(got.is_none());
            frames.push(&[byte]);
            if let Some((kind, payload)) = frames.next_frame().unwrap() {
                got = Some(Request::decode(kind, payload).unwrap());
            }
        }
        assert_eq!(got, Some(request));
    }
    for answer in answers() {
        frames.push(&answer.encode());
        let (kind, payload) = frames.next_frame().unwrap().unwrap();
        assert_eq!(Answer::decode(kind, payload).unwrap(), answer);
    }
}

#[test]
fn versions_step_down_to_the_older_side() {
    assert_eq!(agree(&hello(VERSION)), Ok(VERSION));
    assert_eq!(agree(&hello(VERSION + 7)), Ok(VERSION));
    let older = OLDEST - 1;
    assert_eq!(agree(&hello(older)), Err(WireError::Version(older)));
    assert_eq!(agree(b"GET / HT"), Err(WireError::NotAHolder));
}

#[test]
fn the_bytes_of_version_one_are_frozen() {
    assert_eq!(&hello(1), b"HDHOLD\x00\x01");
    assert_eq!(
        Request::Attach {
            rows: 50,
            cols: 200
        }
        .encode(),
        [0, 0, 0, 5, 2, 0, 50, 0, 200]
    );
    assert_eq!(Request::Peek.encode(), [0, 0, 0, 1, 7]);
    assert_eq!(
        Answer::Output(b"x".to_vec()).encode(),
        [0, 0, 0, 2, 0x87, b'x']
    );
    let ended = r#"{"token":"t","code":3,"signal":null,"at":"1970-01-01T00:00:00Z"}"#;
    let Answer::Ended(ended) = Answer::decode(0x88, ended.as_bytes()).unwrap() else {
        panic!("not the end");
    };
    assert_eq!((ended.exit.code, ended.killed), (Some(3), false));
}

proptest! {
    #[test]
    fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut frames = Frames::default();
        frames.push(&bytes);
        frames.hello();
        while let Ok(Some((kind, payload))) = frames.next_frame() {
            // Any result is fine; only a panic would fail.
            drop(Request::decode(kind, payload));
            drop(Answer::decode(kind, payload));
        }
    }
}
