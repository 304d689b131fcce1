//! The fixture itself: what the other broker tests stand on.

use dovetail_tests::broker::{self, Broker, Client, Options, Record, unique_name};
use std::path::Path;
use std::time::Duration;

#[test]
fn records_come_back_with_key_value_headers_and_time() {
    let client = Client::new(&broker::shared().unwrap());
    let topic = unique_name("fixture");
    client.create_topic(&topic, 2, &[]).unwrap();
    let sent = [
        Record::new("k1", "v1").at_ms(1_700_000_000_000).with_header("trace", "7"),
        Record::new("k2", "v2").in_partition(1).at_ms(5),
        Record {
            key: Some("k3".into()),
            partition: 1,
            offset: 1,
            timestamp_ms: Some(6),
            ..Record::default()
        },
    ];
    client.produce(&topic, &sent).unwrap();
    assert_eq!(client.read_committed(&topic).unwrap(), sent);
}

#[test]
fn waiting_for_records_that_do_not_come_says_how_many_came() {
    let client = Client::new(&broker::shared().unwrap());
    let topic = unique_name("fixture");
    client.create_topic(&topic, 1, &[]).unwrap();
    client.produce(&topic, &[Record::new("k", "v")]).unwrap();
    let error = client.wait_for(&topic, 2, Duration::from_millis(500)).unwrap_err();
    assert!(error.to_string().ends_with("within 500ms, found 1"), "{error}");
}

#[test]
fn killed_broker_comes_back_at_the_same_address_with_its_records() {
    let mut broker = Broker::start(&Options::killed()).unwrap();
    let client = broker.client();
    client.create_topic("kept", 1, &[]).unwrap();
    client.produce("kept", &[Record::new("k", "v")]).unwrap();
    broker.kill().unwrap();
    broker.start_again().unwrap();
    let records = client.read_committed("kept").unwrap();
    assert_eq!(records[0].value_text(), "v");
}

#[test]
fn dropped_broker_leaves_no_process() {
    let broker = Broker::start(&Options::default()).unwrap();
    let pid = broker.pid().unwrap();
    let process = format!("/proc/{pid}/cmdline");
    assert!(Path::new(&process).exists());
    drop(broker);
    // What is left, if anything, is a process that its parent has not looked at yet.
    let rest = std::fs::read(&process).unwrap_or_default();
    assert_eq!(String::from_utf8_lossy(&rest), "");
}

#[test]
fn secure_listener_admits_the_right_password_only() {
    let broker = Broker::start(&Options {
        secure: true,
        settings: vec!["message.max.bytes=123456".to_owned()],
        ..Options::default()
    })
    .unwrap();
    let secure = broker.secure().unwrap();
    let client = Client::secure(secure);
    client.create_topic("locked", 1, &[]).unwrap();
    client.produce("locked", &[Record::new("k", "v")]).unwrap();
    assert_eq!(broker.client().read_committed("locked").unwrap().len(), 1);

    let plain = client.clone().with("sasl.mechanism", "PLAIN");
    assert_eq!(plain.read_committed("locked").unwrap().len(), 1);
    let intruder = client.with("sasl.password", "guessed").with("message.timeout.ms", "2000");
    intruder.produce("locked", &[Record::new("k", "v")]).unwrap_err();
}
