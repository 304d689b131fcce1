//! The `kafka` section.

use super::{
    super::{
        model::{KafkaConfig, Secret, SecurityConfig, SecurityProtocol},
        node::Value,
        reader::{Reader, Section},
        scalars,
    },
    Surroundings,
};

/// Client settings with keys of their own, beside those that the transport names.
const SAID_ELSEWHERE: [&str; 3] =
    ["ssl.certificate.location", "ssl.key.location", "ssl.key.password"];

/// Passed-through settings whose values are shown: no other can be told from a secret.
const SHOWN: [&str; 26] = [
    "allow.auto.create.topics",
    "api.version.request",
    "api.version.request.timeout.ms",
    "broker.address.family",
    "broker.address.ttl",
    "client.dns.lookup",
    "client.id",
    "client.rack",
    "compression.codec",
    "compression.level",
    "compression.type",
    "connections.max.idle.ms",
    "debug",
    "enable.ssl.certificate.verification",
    "log.connection.close",
    "log_level",
    "metadata.max.age.ms",
    "receive.message.max.bytes",
    "retry.backoff.ms",
    "socket.connection.setup.timeout.ms",
    "socket.keepalive.enable",
    "socket.max.fails",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
    "ssl.endpoint.identification.algorithm",
    "topic.metadata.refresh.interval.ms",
];

pub(super) fn read_kafka(
    reader: &mut Reader,
    root: &mut Section<'_>,
    around: &Surroundings<'_>,
) -> KafkaConfig {
    let mut section = reader.section(root, "kafka");
    let brokers = reader.required(
        &mut section,
        "brokers",
        "host:port, more of them separated by commas",
        scalars::text,
    );
    let security = read_security(reader, &mut section, around);
    let transaction_timeout =
        reader.or(&mut section, "transaction_timeout", "20s", scalars::positive_duration);
    let librdkafka = read_passthrough(reader, &mut section, around);
    reader.close(&section);
    KafkaConfig { brokers, security, transaction_timeout, librdkafka }
}

fn read_security(
    reader: &mut Reader,
    kafka: &mut Section<'_>,
    around: &Surroundings<'_>,
) -> SecurityConfig {
    let mut section = reader.section(kafka, "security");
    let protocols = [
        ("PLAINTEXT", SecurityProtocol::Plaintext),
        ("TLS", SecurityProtocol::Tls),
        ("SASL_PLAINTEXT", SecurityProtocol::SaslPlaintext),
        ("SASL_TLS", SecurityProtocol::SaslTls),
    ];
    let mechanisms = [
        ("PLAIN", "PLAIN"),
        ("SCRAM-SHA-256", "SCRAM-SHA-256"),
        ("SCRAM-SHA-512", "SCRAM-SHA-512"),
    ];
    let resolve = |path: &str| around.resolve(path);
    let file = |reader: &mut Reader, section: &mut Section<'_>, name| {
        reader.optional(section, name, scalars::path).map(|path| around.resolve(path))
    };
    let security = SecurityConfig {
        protocol: reader.or(&mut section, "protocol", "PLAINTEXT", scalars::choice(&protocols)),
        mechanism: reader.optional(&mut section, "mechanism", scalars::choice(&mechanisms)),
        username: reader.optional(&mut section, "username", scalars::text),
        password: reader.secret(&mut section, "password", around.lookup, &resolve),
        ca_file: file(reader, &mut section, "ca_file"),
        certificate_file: file(reader, &mut section, "certificate_file"),
        key_file: file(reader, &mut section, "key_file"),
        key_password: reader.secret(&mut section, "key_password", around.lookup, &resolve),
    };
    reader.close(&section);
    check_security(reader, &section, &security);
    security
}

fn check_security(reader: &mut Reader, section: &Section<'_>, security: &SecurityConfig) {
    let is_sasl =
        matches!(security.protocol, SecurityProtocol::SaslPlaintext | SecurityProtocol::SaslTls);
    let is_tls = matches!(security.protocol, SecurityProtocol::Tls | SecurityProtocol::SaslTls);
    for name in ["mechanism", "username", "password"] {
        if is_sasl && !section.has(name) {
            let message = format!("`{name}` must be said with a SASL protocol");
            reader.problem_at(
                section.path(),
                message,
                "SASL needs mechanism, username and password",
            );
        } else if !is_sasl && section.has(name) {
            let path = super::super::join(section.path(), name);
            let message = format!("`{name}` is used with SASL_PLAINTEXT and SASL_TLS alone");
            reader.problem_at(&path, message, "set `protocol: SASL_TLS`, or leave it out");
        }
    }
    for name in ["ca_file", "certificate_file", "key_file", "key_password"] {
        if !is_tls && section.has(name) {
            let path = super::super::join(section.path(), name);
            let message = format!("`{name}` is used with TLS and SASL_TLS alone");
            reader.problem_at(&path, message, "set `protocol: TLS`, or leave it out");
        }
    }
    for (path, name) in [
        (&security.ca_file, "ca_file"),
        (&security.certificate_file, "certificate_file"),
        (&security.key_file, "key_file"),
    ] {
        if let Some(path) = path
            && let Err(error) = std::fs::File::open(path)
        {
            let at = super::super::join(section.path(), name);
            let message = format!("{} cannot be read: {error}", path.display());
            reader.problem_at(&at, message, "give the path of a PEM file");
        }
    }
}

fn read_passthrough(
    reader: &mut Reader,
    kafka: &mut Section<'_>,
    around: &Surroundings<'_>,
) -> Vec<(String, Secret)> {
    let resolve = |path: &str| around.resolve(path);
    let section = reader.section(kafka, "librdkafka");
    let mut settings = Vec::new();
    for entry in section.names() {
        let path = format!("{}.{}", section.path(), entry.key);
        let segments = vec!["kafka".to_owned(), "librdkafka".to_owned(), entry.key.clone()];
        if let Some(reason) = refusal_of(&entry.key) {
            reader.places.insert(path.clone(), entry.key_place.clone());
            reader.problem_at(&path, reason, "leave it out of `librdkafka`");
            continue;
        }
        match &entry.node.value {
            Value::Scalar(scalar) if !scalar.is_null() => {
                let is_shown = SHOWN.contains(&entry.key.as_str());
                let shown = if is_shown { scalar.shown() } else { "***" };
                reader.remember(segments, shown.to_owned(), entry.node.place.clone());
                settings.push((entry.key.clone(), Secret::new(scalar.text.clone())));
            }
            Value::Map(_) => {
                let secret = reader.secret_at(&entry.node, path, segments, around.lookup, &resolve);
                settings.extend(secret.map(|secret| (entry.key.clone(), secret)));
            }
            Value::Scalar(_) | Value::List(_) => {
                reader.places.insert(path.clone(), entry.key_place.clone());
                let message = format!("expected a value, found {}", entry.node.kind());
                let help =
                    "settings of librdkafka are single values, or { env: NAME } or { file: PATH }";
                reader.problem_at(&path, message, help);
            }
        }
    }
    settings
}

fn refusal_of(name: &str) -> Option<String> {
    if SAID_ELSEWHERE.contains(&name) {
        return Some(format!("`{name}` cannot be set here: use `kafka.security`"));
    }
    let setting = [(name.to_owned(), String::new())].into();
    dovetail_kafka::options::refused_settings(&setting).first().map(ToString::to_string)
}
