//! Node tree to [`Config`]: which keys exist, what they may be and what they default to.
//!
//! Rules between keys are in [`super::check`].

mod input;
mod kafka;

use std::path::{Path, PathBuf};

use dovetail_core::options::{CommitOptions, DeadLetterRate, WhenAllIdle};

use super::{
    model::{
        CheckpointConfig, Config, DeadLettersConfig, EmbeddedConfig, LogConfig, OutputConfig,
        PluginConfig, PluginLimits,
    },
    node::Node,
    reader::{Reader, Section},
    scalars, substitute, units,
};

/// Where the admin server listens when nothing is said.
pub const ADMIN_LISTEN_DEFAULT: &str = "127.0.0.1:9464";

/// What reading needs beside the tree.
pub(super) struct Surroundings<'e> {
    /// The directory that relative paths start from.
    pub(super) base: &'e Path,
    /// Environment variables.
    pub(super) lookup: substitute::Lookup<'e>,
}

impl Surroundings<'_> {
    pub(super) fn resolve(&self, path: impl AsRef<Path>) -> PathBuf {
        // Without the `.` that people write.
        self.base.join(path).components().collect()
    }
}

/// Reads the whole tree; problems are in the reader.
pub(super) fn read(reader: &mut Reader, tree: &Node, around: &Surroundings<'_>) -> Config {
    let mut root = reader.root(tree);
    let pipeline = reader.required(
        &mut root,
        "pipeline",
        "its name is its identity: topics, group and transactions are named after it",
        scalars::pipeline,
    );
    let log = read_log(reader, &mut root, around);
    let is_kafka = matches!(log, LogConfig::Kafka(_));
    let inputs = input::read_inputs(reader, &mut root, is_kafka, around);
    let plugin = read_plugin(reader, &mut root, around);
    let outputs = read_outputs(reader, &mut root, is_kafka, around);
    let dead_letters = read_dead_letters(reader, &mut root, &pipeline, is_kafka, around);
    let checkpoint = read_checkpoint(reader, &mut root, around);
    let state_dir = read_state_dir(reader, &mut root, &log, around);
    let lanes = reader
        .optional(&mut root, "lanes", scalars::number(1, 1_024))
        .map(|lanes| u16::try_from(lanes).expect("at most 1,024"));
    let wait_for_input = reader.or(&mut root, "wait_for_input", "10s", scalars::positive_duration);
    let when_all_idle = reader.or(
        &mut root,
        "when_all_idle",
        "hold",
        scalars::choice(&[("hold", WhenAllIdle::Hold), ("follow_clock", WhenAllIdle::FollowClock)]),
    );
    let commit = read_commit(reader, &mut root);
    let memory = reader.or(&mut root, "memory", "256MiB", scalars::size);
    let mut admin = reader.section(&mut root, "admin");
    let admin_listen = reader.or(&mut admin, "listen", ADMIN_LISTEN_DEFAULT, |scalar| {
        scalar.text.parse().map_err(|_unreadable| "an address such as 127.0.0.1:9464".to_owned())
    });
    reader.close(&admin);
    reader.close(&root);
    Config {
        pipeline,
        log,
        inputs,
        plugin,
        outputs,
        dead_letters,
        checkpoint,
        state_dir,
        lanes,
        wait_for_input,
        when_all_idle,
        commit,
        memory,
        admin_listen,
    }
}

fn read_log(reader: &mut Reader, root: &mut Section<'_>, around: &Surroundings<'_>) -> LogConfig {
    if root.has("kafka") {
        reader.refuse(
            root,
            "embedded",
            "`embedded` is for pipelines without `kafka`",
            "keep one of the two",
        );
        return LogConfig::Kafka(kafka::read_kafka(reader, root, around));
    }
    root.node("kafka");
    let mut section = reader.section(root, "embedded");
    let dir = reader.or(&mut section, "dir", "./data", scalars::path);
    let sync = reader.or(&mut section, "sync", "false", scalars::boolean);
    reader.close(&section);
    LogConfig::Embedded(EmbeddedConfig { dir: around.resolve(dir), sync })
}

fn read_checkpoint(
    reader: &mut Reader,
    root: &mut Section<'_>,
    around: &Surroundings<'_>,
) -> Option<CheckpointConfig> {
    let is_given = root.has("checkpoint");
    let mut section = reader.section(root, "checkpoint");
    if !is_given {
        return None;
    }
    let store = reader.required(
        &mut section,
        "store",
        "where checkpoints go, such as file:///mnt/checkpoints/my-pipeline",
        scalars::folder_url,
    );
    let keep = reader.or(&mut section, "keep", "3", scalars::number(2, 1_000));
    let checkpoint = CheckpointConfig {
        store: around.resolve(store),
        every: reader.or(&mut section, "every", "30s", scalars::positive_duration),
        keep: usize::try_from(keep).expect("at most 1,000"),
        timeout: reader.or(&mut section, "timeout", "10m", scalars::positive_duration),
    };
    reader.close(&section);
    Some(checkpoint)
}

fn read_plugin(
    reader: &mut Reader,
    root: &mut Section<'_>,
    around: &Surroundings<'_>,
) -> PluginConfig {
    let mut section = reader.section(root, "plugin");
    let file = reader.required(
        &mut section,
        "file",
        "the path of the component that `dovetail build` made",
        scalars::path,
    );
    let roles = section.has("inputs").then(|| {
        let inputs = reader.section(&mut section, "inputs");
        let mut roles = Vec::new();
        for entry in inputs.names() {
            let path = super::join(inputs.path(), &entry.key);
            match &entry.node.value {
                super::node::Value::Scalar(scalar) if !scalar.is_null() => {
                    let segments = path.split('.').map(str::to_owned).collect();
                    reader.remember(segments, scalar.shown().to_owned(), entry.node.place.clone());
                    roles.push((entry.key.clone(), scalar.text.clone()));
                }
                _ => reader.problem_at(
                    &path,
                    format!("expected the name of an input, found {}", entry.node.kind()),
                    "write `role: input`",
                ),
            }
        }
        roles
    });
    section.node("inputs");
    let config = section.node("config").map_or_else(
        || "{}".to_owned(),
        |node| {
            let json = node.to_json().to_string();
            let shown = remembered(node);
            let path = vec!["plugin".to_owned(), "config".to_owned()];
            reader.remember(path, shown, node.place.clone());
            remember_places(reader, "plugin.config", node);
            json
        },
    );
    let limits = read_limits(reader, &mut section);
    reader.close(&section);
    PluginConfig { file: around.resolve(file), roles, config, limits }
}

/// Remembers where each key stands that only the plugin can judge.
fn remember_places(reader: &mut Reader, path: &str, node: &Node) {
    use super::node::Value;
    match &node.value {
        Value::Scalar(_) => {}
        Value::List(items) => {
            for (at, item) in items.iter().enumerate() {
                let path = format!("{path}[{at}]");
                reader.places.insert(path.clone(), item.place.clone());
                remember_places(reader, &path, item);
            }
        }
        Value::Map(entries) => {
            for entry in entries {
                let path = super::join(path, &entry.key);
                reader.places.insert(path.clone(), entry.key_place.clone());
                remember_places(reader, &path, &entry.node);
            }
        }
    }
}

/// What `--print-config` shows of a plugin's configuration: references as written.
fn remembered(node: &Node) -> String {
    let mut node = node.clone();
    show_as_written(&mut node);
    node.to_json().to_string()
}

fn show_as_written(node: &mut Node) {
    use super::node::Value;
    match &mut node.value {
        Value::Scalar(scalar) => {
            if let Some(written) = scalar.written.take() {
                scalar.text = written;
            }
        }
        Value::List(items) => items.iter_mut().for_each(show_as_written),
        Value::Map(entries) => {
            entries.iter_mut().for_each(|entry| show_as_written(&mut entry.node));
        }
    }
}

fn read_limits(reader: &mut Reader, plugin: &mut Section<'_>) -> PluginLimits {
    let mut section = reader.section(plugin, "limits");
    let count = |number: u64| u32::try_from(number).expect("read with an upper bound below 2^32");
    let up_to = scalars::number(1, 10_000_000);
    let limits = PluginLimits {
        memory: reader.or(&mut section, "memory", "64MiB", scalars::positive_size),
        deadline: reader.or(&mut section, "deadline", "1s", scalars::positive_duration),
        outputs: count(reader.or(&mut section, "outputs", "10000", &up_to)),
        output_bytes: reader.or(&mut section, "output_bytes", "8MiB", scalars::positive_size),
        scan_entries: count(reader.or(&mut section, "scan_entries", "1000", &up_to)),
        scan_bytes: reader.or(&mut section, "scan_bytes", "8MiB", scalars::positive_size),
        state_row_bytes: reader.or(&mut section, "state_row_bytes", "8MiB", scalars::positive_size),
        state_bytes: reader.or(&mut section, "state_bytes", "32MiB", scalars::positive_size),
        timers: count(reader.or(&mut section, "timers", "10000", &up_to)),
        firings_per_timer: count(reader.or(&mut section, "firings_per_timer", "100000", &up_to)),
        import_bytes: reader.or(&mut section, "import_bytes", "32MiB", scalars::positive_size),
        component_bytes: reader.or(
            &mut section,
            "component_bytes",
            "64MiB",
            scalars::positive_size,
        ),
    };
    reader.close(&section);
    let rooms = [("import_bytes", limits.import_bytes), ("state_bytes", limits.state_bytes)];
    for (name, bytes) in rooms {
        if limits.state_row_bytes > bytes {
            let message = format!("a row cannot be larger than `{name}` allows ({bytes} bytes)");
            let help = format!("raise `{name}`, or lower `state_row_bytes`");
            reader.problem_at("plugin.limits.state_row_bytes", message, &help);
        }
    }
    limits
}

fn read_outputs(
    reader: &mut Reader,
    root: &mut Section<'_>,
    is_kafka: bool,
    around: &Surroundings<'_>,
) -> Vec<OutputConfig> {
    let section = reader.section(root, "outputs");
    let mut outputs = Vec::new();
    for entry in section.names() {
        let keys = ["topic", "follow", "create"];
        if reader.refuse_stray(&section, entry, ("output", &["topic"], &keys)) {
            continue;
        }
        let mut output = reader.entry(&section, entry);
        let topic = reader.required(&mut output, "topic", "the topic to write to", scalars::topic);
        let (follow, create) = read_destination(reader, &mut output, is_kafka, "false", around);
        reader.close(&output);
        outputs.push(OutputConfig { name: entry.key.clone(), topic, follow, create });
    }
    outputs
}

/// `follow` belongs to the embedded log, `create` to Kafka.
fn read_destination(
    reader: &mut Reader,
    section: &mut Section<'_>,
    is_kafka: bool,
    create_default: &str,
    around: &Surroundings<'_>,
) -> (Option<PathBuf>, bool) {
    if is_kafka {
        let help = "read the topic with a Kafka client, or leave `kafka` out";
        reader.refuse(section, "follow", "`follow` is for pipelines without `kafka`", help);
        (None, reader.or(section, "create", create_default, scalars::boolean))
    } else {
        let help = "leave it out: the embedded log creates its topics";
        reader.refuse(section, "create", "`create` is for pipelines with `kafka`", help);
        let follow = reader.optional(section, "follow", scalars::path);
        (follow.map(|path| around.resolve(path)), true)
    }
}

fn read_dead_letters(
    reader: &mut Reader,
    root: &mut Section<'_>,
    pipeline: &str,
    is_kafka: bool,
    around: &Surroundings<'_>,
) -> DeadLettersConfig {
    let mut section = reader.section(root, "dead_letters");
    let name = if pipeline.is_empty() { "pipeline" } else { pipeline };
    let topic = reader.or(&mut section, "topic", &format!("{name}.dead-letters"), scalars::topic);
    let (follow, create) = read_destination(reader, &mut section, is_kafka, "true", around);
    let percent_max =
        reader.or(&mut section, "max_rate", "10%", |scalar| units::percent(&scalar.text));
    reader.close(&section);
    let max_rate = DeadLetterRate { percent_max, ..DeadLetterRate::default() };
    DeadLettersConfig { topic, follow, create, max_rate }
}

fn read_state_dir(
    reader: &mut Reader,
    root: &mut Section<'_>,
    log: &LogConfig,
    around: &Surroundings<'_>,
) -> PathBuf {
    let mut section = reader.section(root, "state");
    let dir = match log {
        LogConfig::Kafka(_) => {
            let help = "state: { dir: /var/lib/dovetail/NAME }: a directory on a disk that stays";
            around.resolve(reader.required(&mut section, "dir", help, scalars::path))
        }
        LogConfig::Embedded(embedded) => reader
            .optional(&mut section, "dir", scalars::path)
            .map_or_else(|| embedded.dir.join("state"), |dir| around.resolve(dir)),
    };
    reader.close(&section);
    dir
}

fn read_commit(reader: &mut Reader, root: &mut Section<'_>) -> CommitOptions {
    let mut section = reader.section(root, "commit");
    let max_records =
        reader.or(&mut section, "max_records", "50000", scalars::number(1, 10_000_000));
    let commit = CommitOptions {
        every: reader.or(&mut section, "every", "100ms", scalars::positive_duration),
        max_records: u32::try_from(max_records).expect("at most 10,000,000"),
        max_bytes: reader.or(&mut section, "max_bytes", "8MiB", scalars::size),
        ..CommitOptions::default()
    };
    reader.close(&section);
    commit
}
