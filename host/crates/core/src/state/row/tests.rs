//! The durable bytes of format 1, and that their order is the order of the fields.
use super::*;

fn encoded(partition: u16, key: &[u8], state: u16, entry: &[u8]) -> Vec<u8> {
    let mut row = Vec::new();
    state_row(Partition(partition), &Key::new(key.to_vec()), StateId(state), entry, &mut row);
    row
}

#[test]
fn the_bytes_of_format_1_are_fixed() {
    assert_eq!(encoded(1, b"k\x00y", 2, b"e"), [0x02, 0, 1, b'k', 0, 0xff, b'y', 0, 1, 0, 2, b'e']);
    let mut value = b"left over".to_vec();
    Value { schema_version: 3, stamp: Some(-1), payload: b"p" }.encode(&mut value);
    assert_eq!(value, [1, 1, 0, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, b'p']);
}

#[test]
fn the_bytes_of_a_broadcast_row_are_fixed_and_belong_to_no_key() {
    let mut row = b"left over".to_vec();
    broadcast_row(StateId(513), b"\x00entry", &mut row);
    assert_eq!(row, [&[0x05, 2, 1][..], b"\x00entry"].concat());
    assert_eq!(parse_broadcast_row(&row), Some((StateId(513), &b"\x00entry"[..])));
    assert_eq!((parse_state_row(&row), state_of(&row)), (None, None));
    for bad in [&b""[..], b"\x05", b"\x05\x00", &encoded(1, b"k", 2, b"e")] {
        assert_eq!(parse_broadcast_row(bad), None, "{bad:?}");
    }
}

#[test]
fn keys_that_hold_each_other_as_prefix_keep_their_order() {
    let keys: [&[u8]; 6] = [b"", b"\x00", b"\x00\x00", b"\x00\x01", b"a", b"a\x00"];
    for (a, b) in keys.iter().zip(keys.iter().skip(1)) {
        assert!(encoded(0, a, 9, b"zz") < encoded(0, b, 0, b""), "{a:?} before {b:?}");
    }
}

#[test]
fn a_row_key_comes_back_as_written() {
    let row = encoded(7, b"a\x00\xffb", 513, b"\x00entry");
    let parsed = parse_state_row(&row).unwrap();
    assert_eq!(parsed.partition, Partition(7));
    assert_eq!(parsed.key.as_bytes(), b"a\x00\xffb");
    assert_eq!(parsed.state, StateId(513));
    assert_eq!(parsed.entry, b"\x00entry");
    assert_eq!(state_of(&row), Some(StateId(513)));
}

#[test]
fn bytes_that_are_no_row_are_refused() {
    let bad: [&[u8]; 5] = [b"", b"\x02", b"\x02\x00\x00abc", b"\x02\x00\x00a\x00\x05", b"\x03"];
    for row in bad {
        assert_eq!(parse_state_row(row), None, "{row:?}");
        assert_eq!(state_of(row), None, "{row:?}");
    }
}

#[test]
fn times_order_as_their_bytes() {
    let times = [i64::MIN, -1, 0, 1, i64::MAX];
    for pair in times.windows(2) {
        assert!(order_preserving_time(pair[0]) < order_preserving_time(pair[1]));
        assert_eq!(time_of_order_preserving(order_preserving_time(pair[0])), pair[0]);
    }
}
