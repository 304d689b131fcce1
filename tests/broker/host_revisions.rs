//! Goal: a revision that cannot take over the state is refused while the running one goes on, and
//! one that can takes over whatever else it changed. Method: a guest whose description is patched,
//! swapped under a running host.

use std::fs;

use dovetail_tests::broker::Record;
use dovetail_tests::workspace;

use crate::host_process::{Host, LIMIT, Pipeline, get, metric, wait_for_answer};

/// A pipeline on the guest that does what its records say.
struct Guest {
    pipeline: Pipeline,
    original: Vec<u8>,
    sent: usize,
}

impl Guest {
    fn create() -> Self {
        let folder = workspace::root().join("tests/guests/misbehaving");
        let original = fs::read(folder.join("dovetail_guest_misbehaving.wasm"))
            .expect("`dovetail build tests/guests/misbehaving` makes it");
        let pipeline = Pipeline::without_topics();
        for topic in ["records", "results", "late"] {
            pipeline.client.create_topic(&pipeline.topic(topic), 1, &[]).unwrap();
        }
        pipeline.replace_plugin(&original);
        Self { pipeline, original, sent: 0 }
    }

    fn run(&self) -> Host {
        let (name, brokers) = (&self.pipeline.name, self.pipeline.brokers());
        let text = format!(
            "pipeline: {name}\n\
             kafka: {{ brokers: \"{brokers}\" }}\n\
             inputs:\n\
             \x20 records:\n\
             \x20   topic: {name}.records\n\
             \x20   key: {{ from: key }}\n\
             \x20   start: earliest\n\
             plugin: {{ file: plugin.wasm }}\n\
             outputs:\n\
             \x20 main: {{ topic: {name}.results }}\n\
             \x20 late: {{ topic: {name}.late }}\n\
             state: {{ dir: state }}\n\
             admin: {{ listen: \"127.0.0.1:0\" }}\n"
        );
        self.pipeline.run_text("pipeline.yaml", &text)
    }

    /// The component with one constant replaced by another of its length.
    fn patched(&self, from: &str, to: &str) -> Vec<u8> {
        assert_eq!(from.len(), to.len());
        let mut bytes = self.original.clone();
        let is_there = |at: &usize| bytes[*at..].starts_with(from.as_bytes());
        let places: Vec<usize> = (0..bytes.len()).filter(is_there).collect();
        let [at] = places.as_slice() else { panic!("{from:?} is there {} times", places.len()) };
        bytes[*at..at + from.len()].copy_from_slice(to.as_bytes());
        bytes
    }

    fn send(&mut self, value: &str) {
        let records = [Record::new("k", value)];
        self.pipeline.client.produce(&self.pipeline.topic("records"), &records).unwrap();
        self.sent += 1;
    }

    /// Values of a topic, once there are so many.
    fn values(&self, topic: &str, count: usize) -> Vec<String> {
        let records = self.pipeline.client.wait_for(&self.pipeline.topic(topic), count, LIMIT);
        records.unwrap().iter().map(Record::value_text).collect()
    }
}

/// The guest's description names its first state so.
const STATE: &str = r#"{"name":"value","kind":"value","schema_version":1}"#;

#[test]
fn revisions_that_declare_other_state_are_refused_and_the_running_one_goes_on() {
    let mut guest = Guest::create();
    let host = guest.run();
    let admin = host.wait_for_lanes();
    guest.send("put kept");
    let faults = [
        (r#"{"name":"vALUE","kind":"value","schema_version":1}"#, "state vALUE"),
        (r#"{"name":"value","kind":"map",  "schema_version":1}"#, "map, schema version 1"),
        (r#"{"name":"value","kind":"value","schema_version":2}"#, "value, schema version 2"),
    ];
    for (number, (state, said)) in faults.iter().enumerate() {
        guest.pipeline.replace_plugin(&guest.patched(STATE, state));
        host.wait_for(said);
        guest.send("emit-value");
        assert_eq!(guest.values("results", number + 1)[number], "kept");
        let metrics = get(&admin, "/metrics").1;
        let refused = metric(&metrics, "dovetail_plugin_reloads_total", &["result=\"refused\""]);
        assert_eq!(refused, Some(f64::from(u32::try_from(number).unwrap() + 1)));
    }
    let said = host.text();
    assert_eq!(said.matches("the plugin revision is refused").count(), faults.len(), "{said}");
    assert!(!said.contains("every lane has switched"), "{said}");
    host.stop();
}

#[test]
fn a_revision_that_names_its_outputs_in_another_order_writes_each_to_its_own_topic() {
    let mut guest = Guest::create();
    let host = guest.run();
    let admin = host.wait_for_lanes();
    // The guest emits to its output number 0 and forwards to number 1.
    guest.send("put kept");
    guest.send("emit-value");
    guest.send("forward 1");
    assert_eq!(guest.values("results", 1), ["kept"]);
    assert_eq!(guest.values("late", 1), ["forward 1"]);

    let reordered = guest.patched(r#""outputs":["main","late"]"#, r#""outputs":["late","main"]"#);
    guest.pipeline.replace_plugin(&reordered);
    host.wait_for("every lane has switched");
    guest.send("emit-value");
    guest.send("forward 2");
    assert_eq!(guest.values("late", 2), ["forward 1", "kept"]);
    assert_eq!(guest.values("results", 2), ["kept", "forward 2"]);
    // Counts follow the names, not the numbers.
    let counted = |name: &str, count: f64| {
        let label = format!("output=\"{name}\"");
        let wanted = Some(count);
        let is_wanted = |(_, body): &(u16, String)| {
            metric(body, "dovetail_output_records_total", &[&label]) == wanted
        };
        wait_for_answer(&admin, "/metrics", is_wanted);
    };
    counted("main", 2.0);
    counted("late", 2.0);
    host.stop();
    // And after a restart on the same revision.
    let host = guest.run();
    host.wait_for_lanes();
    guest.send("emit-value");
    assert_eq!(guest.values("late", 3), ["forward 1", "kept", "kept"]);
    host.stop();
}
