//! Connects, and says what a broker refused.

use std::{
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
    time::{Duration, Instant},
};

use rdkafka::{
    ClientConfig, ClientContext,
    admin::AdminClient,
    client::Client,
    config::{FromClientConfigAndContext as _, RDKafkaLogLevel},
    consumer::{BaseConsumer, Consumer as _, ConsumerContext},
    error::KafkaError,
    types::RDKafkaErrorCode as Code,
};

use super::{ANSWER_TIMEOUT, ClusterError};
use crate::{options::Connection, producer::log_line, settings};

/// How often the reports of a connection in the making are looked at.
const LOOK_STEP: Duration = Duration::from_millis(200);

/// How long more reports are waited for.
const SERVE_TIME: Duration = Duration::from_millis(10);

#[derive(Debug, Default)]
struct Heard {
    refusal: Option<String>,
    last: Option<String>,
}

/// Keeps what librdkafka reports.
#[derive(Debug, Clone, Default)]
pub(super) struct Listener(Arc<Mutex<Heard>>);

impl ClientContext for Listener {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        // What goes wrong here is told by the error; it is not said twice.
        let level = if matches!(facility, "FAIL" | "ERROR") { 7 } else { level as i32 };
        log_line(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_refusal = matches!(
            error.rdkafka_error_code(),
            Some(Code::Authentication | Code::SaslAuthenticationFailed | Code::SSL)
        );
        let reason = plain_reason(reason);
        if is_refusal && heard.refusal.is_none() {
            heard.refusal = Some(reason.clone());
        }
        if error.rdkafka_error_code() != Some(Code::AllBrokersDown) || heard.last.is_none() {
            heard.last = Some(reason);
        }
    }
}

impl ConsumerContext for Listener {}

/// Turns librdkafka's report into a sentence: without the state and time it adds, and with the
/// broker's mechanisms where it lists them.
fn plain_reason(reason: &str) -> String {
    let reason = reason.split(" (after ").next().unwrap_or(reason);
    let Some((_, rest)) =
        reason.split_once("Unsupported SASL mechanism: not supported by broker: ")
    else {
        return reason.trim().to_owned();
    };
    match rest.split_once(": broker's supported mechanisms: ") {
        Some((mechanism, offered)) => {
            format!("SASL mechanism {mechanism} refused, broker offers {}", offered.trim())
        }
        None => format!("SASL mechanism {} refused", rest.trim()),
    }
}

/// The text of an error, without the value: it may be a secret.
fn unusable(error: &KafkaError) -> ClusterError {
    ClusterError::Settings(match error {
        KafkaError::ClientConfig(_, text, name, _) => format!("`{name}`: {text}"),
        error => error.to_string(),
    })
}

fn config(connection: &Connection) -> ClientConfig {
    let mut config = ClientConfig::new();
    for (name, value) in settings::connection(connection) {
        config.set(name, value);
    }
    config
}

/// Connects a consumer; returns the cluster's id with it.
pub(super) fn connect(
    connection: &Connection,
) -> Result<(BaseConsumer<Listener>, String), ClusterError> {
    let listener = Listener::default();
    let mut config = config(connection);
    config
        .set("group.id", "dovetail.check")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("isolation.level", "read_committed")
        .set("fetch.wait.max.ms", "10");
    let consumer = BaseConsumer::from_config_and_context(&config, listener.clone())
        .map_err(|error| unusable(&error))?;
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    loop {
        if let Some(id) = cluster_id(consumer.client()) {
            return Ok((consumer, id));
        }
        // Serves the reports: log lines are among them, and without a time to wait each call would
        // serve a single one; a refusal is behind those of its own connection.
        while consumer.poll(SERVE_TIME).is_some() {}
        let heard = listener.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cause) = heard.refusal.clone() {
            let (brokers, protocol) = (connection.brokers.clone(), connection.security.name());
            return Err(ClusterError::LoginRefused { brokers, protocol, cause });
        }
        if Instant::now() >= deadline {
            return Err(ClusterError::Unreachable {
                brokers: connection.brokers.clone(),
                seconds: ANSWER_TIMEOUT.as_secs(),
                cause: heard.last.clone().unwrap_or_else(|| "no reason is known".to_owned()),
            });
        }
    }
}

fn cluster_id(client: &Client<Listener>) -> Option<String> {
    client.fetch_cluster_id(LOOK_STEP).filter(|id| !id.is_empty())
}

/// Makes the client for requests about topics and settings.
pub(super) fn admin(connection: &Connection) -> Result<AdminClient<Listener>, ClusterError> {
    AdminClient::from_config_and_context(&config(connection), Listener::default())
        .map_err(|error| unusable(&error))
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for an answer of the admin client, whose own thread brings it.
pub(super) fn block_on<T>(answer: impl Future<Output = T>) -> T {
    let mut answer = pin!(answer);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match answer.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_mechanism_is_told_with_those_the_broker_offers() {
        let report = "sasl_ssl://127.0.0.1:9094/bootstrap: Unsupported SASL mechanism: not \
                      supported by broker: PLAIN: broker's supported mechanisms: SCRAM-SHA-512 \
                      (after 2ms in state AUTH_HANDSHAKE)";
        assert_eq!(
            plain_reason(report),
            "SASL mechanism PLAIN refused, broker offers SCRAM-SHA-512"
        );
    }

    #[test]
    fn other_reports_lose_only_their_timing() {
        assert_eq!(
            plain_reason(
                "h:1/bootstrap: Connect failed: Connection refused (after 0ms in state CONNECT)"
            ),
            "h:1/bootstrap: Connect failed: Connection refused"
        );
    }
}
