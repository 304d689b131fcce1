//! Goal: what cannot become right is refused before anything is read, with both sides and the ways
//! out. Method: `validate --connect` and `run` on pipelines with one fault each; afterwards there
//! is neither a journal nor a committed record.

use crate::host_process::{Host, LIMIT, Pipeline, dovetail, order_payment};

/// Runs it and returns what it said when it was refused.
fn refused(pipeline: &Pipeline, text: &str) -> String {
    let mut host = Host::start(&pipeline.file("pipeline.yaml", text));
    assert_eq!(host.wait_exit(LIMIT), Some(78), "{}", host.text());
    host.text()
}

/// What `validate --connect` says of what it refuses.
fn invalid(pipeline: &Pipeline, text: &str) -> String {
    let file = pipeline.file("pipeline.yaml", text);
    let output = dovetail(&["validate", "--connect", file.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    said
}

fn assert_says(said: &str, all: &[&str]) {
    // Long messages are wrapped in boxes and tables.
    let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for text in all {
        assert!(flat.contains(text), "{text:?} is not in:\n{said}");
    }
}

#[test]
fn p17_different_partition_counts_are_refused_before_anything_is_read() {
    let pipeline = Pipeline::without_topics();
    let (orders, payments) = (pipeline.topic("orders"), pipeline.topic("payments"));
    for (topic, partitions) in [("orders", 6), ("payments", 4), ("results", 4), ("late", 4)] {
        pipeline.client.create_topic(&pipeline.topic(topic), partitions, &[]).unwrap();
    }
    let text = pipeline.text();
    for said in [invalid(&pipeline, &text), refused(&pipeline, &text)] {
        assert_says(
            &said,
            &[
                &format!("{orders} has 6 partitions, {payments} 4"),
                "records of one key would lie in different lanes",
                "give both the same number",
                &format!("copy `{orders}` or `{payments}` into a new topic"),
            ],
        );
    }
    pipeline.client.read_committed(&pipeline.topic("journal")).unwrap_err();
}

#[test]
fn topics_that_are_missing_are_all_named_at_once() {
    let pipeline = Pipeline::without_topics();
    let text = pipeline.text();
    for said in [invalid(&pipeline, &text), refused(&pipeline, &text)] {
        for topic in ["orders", "payments", "results", "late"] {
            let missing = format!("the topic `{}` does not exist", pipeline.topic(topic));
            assert_says(&said, &[&missing]);
        }
    }
}

#[test]
fn a_compacted_dead_letter_topic_is_refused_with_ways_out() {
    let pipeline = Pipeline::create(1);
    let letters = pipeline.topic("compacted");
    let settings = [("cleanup.policy", "compact"), ("max.message.bytes", "2000000")];
    pipeline.client.create_topic(&letters, 1, &settings).unwrap();
    let text = format!("{}dead_letters: {{ topic: {letters} }}\n", pipeline.text());
    for said in [invalid(&pipeline, &text), refused(&pipeline, &text)] {
        assert_says(
            &said,
            &[
                &format!("`{letters}` is compacted (cleanup.policy=compact)"),
                "it refuses dead letters without key",
                &format!("set cleanup.policy=delete on `{letters}`, or name another topic"),
            ],
        );
    }
}

#[test]
fn a_journal_that_nothing_trims_is_said_once() {
    let pipeline = Pipeline::create(1);
    let file = pipeline.file("pipeline.yaml", &pipeline.text());
    let output = dovetail(&["validate", "--connect", file.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let warning = format!("nothing is trimmed from `{}`", pipeline.topic("journal"));
    assert_eq!(said.matches(&warning).count(), 1, "{said}");
    let host = pipeline.run();
    host.wait_for_lanes();
    let said = host.text();
    assert_eq!(said.matches(&warning).count(), 1, "{said}");
    host.stop();
}

#[test]
fn one_topic_named_by_two_inputs_is_refused() {
    let pipeline = Pipeline::create(1);
    let twice = pipeline.topic("orders");
    let text = pipeline.text().replace(&pipeline.topic("payments"), &twice);
    for said in [invalid(&pipeline, &text), refused(&pipeline, &text)] {
        assert_says(&said, &[&format!("`{twice}` is already read by the input `orders`")]);
    }
}

#[test]
fn changed_identity_is_refused_with_both_sides() {
    let pipeline = Pipeline::create(4);
    let text = pipeline.text();
    let host = pipeline.run();
    host.wait_for_lanes();
    host.stop();

    let lanes = format!("{text}lanes: 2\n");
    let keys = text.replace("type: string", "type: integer");
    let faults: [(&str, &[&str]); 2] =
        [(&lanes, &["lanes", "4", "2"]), (&keys, &["input orders", "string", "integer"])];
    let ways_out = ["committed at the first start", "configured now", "Ways out", "another name"];
    for (changed, sides) in faults {
        for said in [invalid(&pipeline, changed), refused(&pipeline, changed)] {
            assert_says(&said, sides);
            assert_says(&said, &ways_out);
        }
    }
    let renamed = pipeline.topic("other");
    pipeline.client.create_topic(&renamed, 4, &[]).unwrap();
    let elsewhere = text.replacen(&pipeline.topic("orders"), &renamed, 1);
    let side = |topic: &str, count| format!("orders = {topic}, {count} partitions");
    let orders = pipeline.topic("orders");
    for said in [invalid(&pipeline, &elsewhere), refused(&pipeline, &elsewhere)] {
        assert_says(&said, &["input orders", &side(&orders, 4), &side(&renamed, 4)]);
        assert_says(&said, &ways_out);
    }
    pipeline.replace_plugin(&with_another_state());
    for said in [invalid(&pipeline, &text), refused(&pipeline, &text)] {
        assert_says(&said, &["state payments", "state paymentz"]);
        assert_says(&said, &ways_out);
    }

    // What was refused has left no trace.
    pipeline.replace_plugin(order_payment());
    let host = pipeline.run_text("pipeline.yaml", &text);
    host.admin();
    host.stop();

    // More partitions cannot be taken back, so they come last.
    for topic in ["orders", "payments"] {
        pipeline.client.add_partitions(&pipeline.topic(topic), 8).unwrap();
    }
    for said in [invalid(&pipeline, &text), refused(&pipeline, &text)] {
        assert_says(&said, &["input orders", &side(&orders, 4), &side(&orders, 8)]);
        assert_says(&said, &ways_out);
    }
}

/// The plugin with its state `payments` under another name.
fn with_another_state() -> Vec<u8> {
    let mut bytes = order_payment().to_vec();
    let name = b"payments";
    let is_name = |at: &usize| {
        let from = &bytes[*at..];
        // Constants lie side by side: `payment` and `status` do, too.
        from.starts_with(name) && !from.starts_with(b"paymentstatus")
    };
    let places: Vec<usize> = (0..bytes.len()).filter(is_name).collect();
    for at in places {
        bytes[at + name.len() - 1] = b'z';
    }
    bytes
}
