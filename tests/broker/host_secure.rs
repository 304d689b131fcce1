//! Goal: a client certificate is a login, and the cluster that a pipeline began on is part of what
//! it is. Method: a broker of this test's own that admits one certificate, and the shared one as
//! the wrong cluster.

use dovetail_tests::broker::{Broker, Options, shared};

use crate::host_process::{Host, LIMIT, Pipeline, dovetail};
use crate::host_stream::{BASE, order, payment, value};

#[test]
fn a_client_certificate_admits_the_host_and_another_cluster_is_not_its_own() {
    let options = Options { secure: true, client_certificates: true, ..Options::default() };
    let broker = Broker::start(&options).unwrap();
    let secure = broker.secure().unwrap();
    let pipeline = Pipeline::on(broker.bootstrap());
    pipeline.create_topics(1);
    let plain = format!("brokers: \"{}\"", broker.bootstrap());
    let [certificate, key] = secure.client_files.each_ref().map(|file| file.to_str().unwrap());
    let ca = secure.ca_file.to_str().unwrap();
    let through_tls = |login: &str| {
        let security = format!("security: {{ protocol: TLS, ca_file: {ca}{login} }}");
        let with_tls = format!("brokers: \"{}\", {security}", secure.bootstrap);
        pipeline.text().replace(&plain, &with_tls)
    };
    let with_certificate =
        through_tls(&format!(", certificate_file: {certificate}, key_file: {key}"));

    // Without the certificate the broker closes the connection.
    let stranger = pipeline.file("stranger.yaml", &through_tls(""));
    let refused = dovetail(&["validate", "--connect", stranger.to_str().unwrap()]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains(&secure.bootstrap), "{said}");

    let host = pipeline.run_text("pipeline.yaml", &with_certificate);
    host.wait_for_lanes();
    pipeline.client.produce(&pipeline.topic("orders"), &[order("o1", BASE, 1)]).unwrap();
    pipeline.client.produce(&pipeline.topic("payments"), &[payment("o1", BASE, 7, 1)]).unwrap();
    let results = pipeline.client.wait_for(&pipeline.topic("results"), 1, LIMIT).unwrap();
    assert_eq!(value(&results[0])["paid"], 7);
    host.stop();

    let elsewhere = Pipeline::on(&shared().unwrap());
    for topic in ["orders", "payments", "results", "late"] {
        elsewhere.client.create_topic(&pipeline.topic(topic), 1, &[]).unwrap();
    }
    let other = format!("brokers: \"{}\"", elsewhere.brokers());
    let text = pipeline.text().replace(&plain, &other);
    let mut host = Host::start(&pipeline.file("pipeline.yaml", &text));
    assert_eq!(host.wait_exit(LIMIT), Some(78), "{}", host.text());
    assert!(host.text().contains("cluster"), "{}", host.text());
}
