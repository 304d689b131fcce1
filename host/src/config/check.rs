//! Rules between keys of one configuration, without asking anybody.
//!
//! What needs the plugin's `describe` or a broker is checked in wiring.

mod files;

use std::{collections::BTreeMap, path::Path};

use dovetail_core::options::LatePolicy;

use super::{
    model::{Config, InputFrom, LogConfig, Start},
    reader::Reader,
    report::{nearest, one_of},
    units::show_ms,
};

/// Adds what contradicts itself, and warnings. `pipeline_file` is where it was read.
pub(super) fn check(reader: &mut Reader, config: &Config, pipeline_file: &Path) {
    check_inputs(reader, config);
    check_topics(reader, config);
    files::check(reader, config, pipeline_file);
    check_roles(reader, config);
    check_times(reader, config);
    warn(reader, config);
}

fn check_inputs(reader: &mut Reader, config: &Config) {
    if config.inputs.is_empty() {
        reader.problem_at("inputs", "no input is named", "name at least one topic or file to read");
        return;
    }
    let mut keyed = config.inputs.iter().filter(|input| !input.is_broadcast);
    let Some(first) = keyed.next() else {
        let message = "every input is `broadcast: true`, which every lane reads whole";
        reader.problem_at("inputs", message, "name at least one input without it");
        return;
    };
    for input in keyed {
        if input.format.key.key_type != first.format.key.key_type {
            let message = format!(
                "keys of `{}` are compared as {}, those of `{}` as {}: they would never meet",
                input.name,
                input.format.key.key_type.name(),
                first.name,
                first.format.key.key_type.name()
            );
            let path = format!("inputs.{}.key.type", input.name);
            reader.problem_at(&path, message, "say the same `key.type` for all inputs");
        }
    }
    if config.inputs.iter().all(|input| input.bootstrap || input.is_broadcast) && first.bootstrap {
        reader.problem_at(
            &format!("inputs.{}.bootstrap", first.name),
            "every input is loaded first: there is none whose records could wait",
            "leave `bootstrap` out where records are to wait for the others",
        );
    }
    let has_late = config.outputs.iter().any(|output| output.name == "late");
    for input in &config.inputs {
        if input.late == LatePolicy::SideOutput && !has_late {
            reader.problem_at(
                &format!("inputs.{}.late", input.name),
                "`late: side_output` needs an output `late`",
                "outputs: { late: { topic: … } }, or `late: process` or `late: drop`",
            );
        }
        if input.is_broadcast && input.start == Start::Latest {
            reader.problem_at(
                &format!("inputs.{}.start", input.name),
                "lanes begin at different moments, and would not know the same of a broadcast input \
                 that each starts at its end",
                "say `start: earliest`: every lane reads all of it",
            );
        }
        if input.bootstrap && input.start == Start::Latest {
            reader.problem_at(
                &format!("inputs.{}.bootstrap", input.name),
                "an input that starts at its end has nothing that could be loaded first",
                "say `start: earliest`, or leave `bootstrap` out",
            );
        }
        if !input.is_broadcast && input.time.is_none() && input.late != LatePolicy::Process {
            reader.problem_at(
                &format!("inputs.{}.late", input.name),
                "an input without `time` has no late records",
                "leave `late` out, or say where the event time is",
            );
        }
    }
}

/// One topic is named by one input only, and nothing is read that is written here.
fn check_topics(reader: &mut Reader, config: &Config) {
    let mut named: BTreeMap<String, (String, String)> = BTreeMap::new();
    for input in &config.inputs {
        let names: Vec<String> = match &input.from {
            InputFrom::Topic(topic) => vec![topic.clone()],
            InputFrom::Files(files) => {
                files.iter().map(|file| file.display().to_string()).collect()
            }
        };
        let key = if matches!(input.from, InputFrom::Topic(_)) { "topic" } else { "file" };
        for name in names.into_iter().filter(|name| !name.is_empty()) {
            let path = format!("inputs.{}.{key}", input.name);
            if let Some((other, at)) =
                named.insert(name.clone(), (input.name.clone(), path.clone()))
            {
                let there = reader.where_is(&at);
                reader.problem_at(
                    &path,
                    format!("`{name}` is already read by the input `{other}` ({there})"),
                    "a topic is named by one input only; the plugin tells its records apart",
                );
            }
        }
    }
    let mut written: BTreeMap<&str, String> = BTreeMap::new();
    let journal = format!("{}.journal", config.pipeline);
    let own = [("pipeline", journal.as_str()), ("dead_letters.topic", &config.dead_letters.topic)];
    let own = own.map(|(path, topic)| (path.to_owned(), topic));
    let outputs = config.outputs.iter();
    let outputs = outputs.map(|it| (format!("outputs.{}.topic", it.name), it.topic.as_str()));
    for (path, topic) in own.into_iter().chain(outputs).filter(|(_, topic)| !topic.is_empty()) {
        if let Some((input, at)) = named.get(topic) {
            let there = reader.where_is(at);
            let message = format!(
                "`{topic}` is read by the input `{input}` ({there}): results would be read again"
            );
            reader.problem_at(&path, message, "write to another topic");
        }
        match written.get(topic) {
            Some(other) => {
                let what = match other.as_str() {
                    "pipeline" => "the pipeline's journal".to_owned(),
                    "dead_letters.topic" => "where dead letters go".to_owned(),
                    other => format!("the topic of `{}`", other.trim_end_matches(".topic")),
                };
                let message = format!("`{topic}` is {what} already ({})", reader.where_is(other));
                let help =
                    "give each a topic of its own: whoever reads one could not tell them apart";
                reader.problem_at(&path, message, help);
            }
            None => {
                written.insert(topic, path);
            }
        }
    }
}

/// Roles name inputs that exist, each once. Whether the roles exist only the plugin can say.
fn check_roles(reader: &mut Reader, config: &Config) {
    let Some(roles) = &config.plugin.roles else {
        return;
    };
    let names: Vec<&str> = config.inputs.iter().map(|input| input.name.as_str()).collect();
    let mut taken: BTreeMap<&str, &str> = BTreeMap::new();
    for (role, input) in roles {
        let path = format!("plugin.inputs.{role}");
        if !names.contains(&input.as_str()) {
            let near = nearest(input, names.iter().copied())
                .map_or_else(String::new, |word| format!("; did you mean `{word}`?"));
            let message = format!("there is no input `{input}`{near}");
            reader.problem_at(&path, message, &format!("expected {}", one_of(&names)));
        }
        if let Some(other) = taken.insert(input, role) {
            let message = format!("the input `{input}` already has the role `{other}`");
            reader.problem_at(&path, message, "each input has one role");
        }
    }
    for name in names.iter().filter(|name| !taken.contains_key(*name)) {
        let message = format!("the input `{name}` has no role");
        reader.problem_at("plugin.inputs", message, "give it a role, or leave the input out");
    }
}

fn check_times(reader: &mut Reader, config: &Config) {
    if let LogConfig::Kafka(kafka) = &config.log
        && config.commit.every >= kafka.transaction_timeout
    {
        let message = format!(
            "an epoch of {} outlives a transaction of {}",
            show_ms(config.commit.every),
            show_ms(kafka.transaction_timeout)
        );
        reader.problem_at(
            "commit.every",
            message,
            "commit more often, or raise kafka.transaction_timeout",
        );
    }
    const MEMORY_MIN: u64 = 16 << 20;
    if config.memory < MEMORY_MIN {
        reader.problem_at("memory", "expected at least 16MiB", "the default is 256MiB");
    }
}

fn warn(reader: &mut Reader, config: &Config) {
    for input in &config.inputs {
        if input.time.as_ref().is_some_and(|time| time.idle_after.is_none()) {
            reader.warn_at(
                &format!("inputs.{}.time.idle_after", input.name),
                "with `idle_after: never` one quiet partition stops event time for its lane",
                "timers wait until a record comes there",
            );
        }
    }
    let mut keyed = config.inputs.iter().filter(|input| !input.is_broadcast);
    if keyed.all(|input| input.time.is_none()) && !config.inputs.is_empty() {
        reader.warn_at(
            "inputs",
            "no input has `time`: event time stands still and event-time timers never fire",
            "say where the event time is, or use processing-time timers alone",
        );
    }
    if let LogConfig::Kafka(kafka) = &config.log {
        let every = config.commit.every;
        if every.saturating_mul(2) >= kafka.transaction_timeout && every < kafka.transaction_timeout
        {
            reader.warn_at(
                "commit.every",
                format!(
                    "{} is half of kafka.transaction_timeout ({}) or more",
                    show_ms(every),
                    show_ms(kafka.transaction_timeout)
                ),
                "a slow epoch would be ended by the broker",
            );
        }
        if config.state_dir.starts_with("/tmp") || config.state_dir.starts_with("/var/tmp") {
            reader.warn_at(
                "state.dir",
                format!("{} may be emptied at any time", config.state_dir.display()),
                "state is then rebuilt from the journal; choose a directory that stays",
            );
        }
    }
}
