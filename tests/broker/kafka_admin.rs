//! Goal: start-up checks say what is wrong before anything is read. Method: topics and listeners
//! that are as they should be, and such that are not.

use std::time::{Duration, Instant};

use dovetail_core::log::Log as _;
use dovetail_core::output::OutputBuffer;
use dovetail_kafka::admin::ClusterError;
use dovetail_kafka::options::{Connection, Sasl, SaslMechanism, Secret, Security, Tls};
use dovetail_kafka::{Cluster, KafkaLog};
use dovetail_tests::broker::{Broker, Client, Options, Record, Secure, shared, unique_name};

use crate::kafka_lane::{Lane, commit, plain, read_to_end};

#[test]
fn topics_are_described_with_the_settings_that_matter() {
    let brokers = shared().unwrap();
    let client = Client::new(&brokers);
    let topic = unique_name("described");
    let settings = [
        ("cleanup.policy", "compact"),
        ("max.message.bytes", "123456"),
        ("message.timestamp.after.max.ms", "5000"),
    ];
    client.create_topic(&topic, 3, &settings).unwrap();
    let cluster = Cluster::connect(&plain(&brokers)).unwrap();
    assert!(!cluster.id().is_empty());
    assert!(!cluster.create_topic(&topic, 3, &[]).unwrap(), "it exists");
    let found = cluster.topics(&["no-such-topic", &topic]).unwrap();
    assert_eq!(found[0], None);
    let found = found[1].as_ref().unwrap();
    assert_eq!((found.partitions, found.max_message_bytes), (3, 123_456));
    assert!(found.is_compacted());
    assert_eq!(found.timestamps.after_ms, 5000);
}

#[test]
fn journal_is_created_as_it_must_be_and_accepted_again() {
    let cluster = Cluster::connect(&plain(&shared().unwrap())).unwrap();
    let journal = unique_name("journal");
    cluster.ensure_journal(&journal, 3).unwrap();
    cluster.ensure_journal(&journal, 3).unwrap();
    let found = cluster.topic(&journal).unwrap().unwrap();
    assert_eq!((found.partitions, found.retention_ms), (3, -1));
}

#[test]
fn a_journal_with_other_settings_is_refused_naming_each() {
    let brokers = shared().unwrap();
    let journal = unique_name("journal");
    let settings = [("retention.ms", "1000"), ("cleanup.policy", "compact")];
    Client::new(&brokers).create_topic(&journal, 2, &settings).unwrap();
    let cluster = Cluster::connect(&plain(&brokers)).unwrap();
    let text = cluster.ensure_journal(&journal, 4).unwrap_err().to_string();
    for part in [
        "it has 2 partitions and needs 4",
        "`retention.ms` is 1000 and must be -1",
        "`cleanup.policy` is compact and must be delete",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn p37b_transaction_timeout_above_the_brokers_names_both_and_a_value_that_works() {
    let cluster = Cluster::connect(&plain(&shared().unwrap())).unwrap();
    cluster.check_transaction_timeout(Duration::from_secs(20)).unwrap();
    let hour = Duration::from_secs(3600);
    let text = cluster.check_transaction_timeout(hour).unwrap_err().to_string();
    for part in [
        "`kafka.transaction_timeout` is 3600000 ms",
        "`transaction.max.timeout.ms` is 900000 ms",
        "`kafka.transaction_timeout: 900000ms or less`",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_lane_with_too_long_a_transaction_timeout_says_so_itself() {
    let brokers = shared().unwrap();
    let mut lane = Lane::create(&Client::new(&brokers), plain(&brokers));
    lane.options.transaction_timeout = Duration::from_secs(3600);
    let text = lane.log().acquire().unwrap_err().to_string();
    assert!(text.contains("`transaction.max.timeout.ms`"), "{text}");
}

#[test]
fn a_sample_has_the_newest_records() {
    let brokers = shared().unwrap();
    let client = Client::new(&brokers);
    let topic = unique_name("sample");
    client.create_topic(&topic, 2, &[]).unwrap();
    let sent: Vec<Record> = (0..20).map(|n| Record::new("k", &n.to_string())).collect();
    client.produce(&topic, &sent).unwrap();
    let cluster = Cluster::connect(&plain(&brokers)).unwrap();
    let sample = cluster.sample(&topic, 4).unwrap();
    let offsets: Vec<i64> = sample.iter().map(|(_, record)| record.offset).collect();
    assert_eq!(offsets, [18, 19]);
}

#[test]
fn nobody_listening_is_told_within_ten_seconds() {
    let begin = Instant::now();
    let error = Cluster::connect(&plain("127.0.0.1:1")).unwrap_err();
    assert!(matches!(error, ClusterError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("Connection refused"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(15));
}

fn secured(secure: &Secure, mechanism: SaslMechanism, password: &str) -> Connection {
    let sasl = Sasl {
        mechanism,
        username: Secret::new(secure.user.to_owned()),
        password: Secret::new(password.to_owned()),
    };
    Connection {
        brokers: secure.bootstrap.clone(),
        security: Security {
            tls: Some(Tls { ca_file: Some(secure.ca_file.clone()) }),
            sasl: Some(sasl),
        },
        ..Connection::default()
    }
}

#[test]
fn scram_and_plain_over_tls_carry_a_lane_and_refusals_are_plain() {
    let broker = Broker::start(&Options { secure: true, ..Options::default() }).unwrap();
    let secure = broker.secure().unwrap();
    for mechanism in SaslMechanism::ALL {
        let connection = secured(secure, mechanism, secure.password);
        Cluster::connect(&connection).unwrap();
        let lane = Lane::create(&broker.client(), connection);
        broker.client().produce(&lane.input, &[Record::new("k", "v")]).unwrap();
        let mut log: KafkaLog = lane.started();
        let [heard, _] = read_to_end(&mut log);
        assert_eq!(heard.values(), ["v"], "{mechanism:?}");
        commit(&mut log, 0, &[1, 0], &OutputBuffer::default(), &["r"]).unwrap();
    }
    let wrong = secured(secure, SaslMechanism::ScramSha512, "guessed-secret");
    let error = Cluster::connect(&wrong).unwrap_err();
    assert!(matches!(error, ClusterError::LoginRefused { .. }), "{error}");
    assert!(!format!("{error} {error:?}").contains("guessed-secret"));
    let mut stranger = secured(secure, SaslMechanism::ScramSha512, secure.password);
    stranger.security.tls = Some(Tls::default());
    let error = Cluster::connect(&stranger).unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
}
