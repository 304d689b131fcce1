//! A real Kafka broker for a test, and a client that talks to it without our own code.
//!
//! `shared()` is the cluster for tests that only need topics of their own. A test that stops or
//! kills the broker, or needs special settings or a secure listener, starts a [`Broker`] itself.
//! Every broker ends with its owner: when it is dropped, and when the test process is gone.

mod client;
mod follower;
mod operator;
mod secure;

pub use client::{Client, Record, block_on, unique_name};
pub use follower::Follower;
pub use secure::Secure;

use anyhow::{Context as _, Result, bail};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;

/// Names a cluster that the tests use instead of starting one: `HOST:PORT[,HOST:PORT…]`.
pub const CLUSTER_VARIABLE: &str = "DOVETAIL_TEST_BROKERS";

/// The Kafka whose coordinator ends every transaction that it answered, killed at whatever moment.
///
/// Those of Kafka 4 take a partition without a leader for a deleted one and forget its marker
/// (KAFKA-20734): killed between the answer to a commit and its markers, a broker that is alone
/// leaves the transaction open for ever. 3.9 waits for a leader.
pub const ENDS_TRANSACTIONS: &str = "3.9.1";

/// What a broker is started with; `Options::default()` is a plain one.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The version of the broker, e.g. [`ENDS_TRANSACTIONS`]; none: the one in `tests/kafka/pom.xml`.
    pub version: Option<&'static str>,
    /// Lines for the broker's settings, `key=value`; they win over the fixture's own.
    pub settings: Vec<String>,
    /// Adds a listener with TLS and SCRAM or PLAIN; see [`Broker::secure`].
    pub secure: bool,
    /// The secure listener asks for the certificate in [`Secure::client_files`] instead.
    pub client_certificates: bool,
}

impl Options {
    /// For a broker that is killed: it is ready again soon. On a busy machine it may also lose its
    /// partitions for a moment without being killed.
    #[must_use]
    pub fn killed() -> Self {
        let settings = vec!["broker.session.timeout.ms=4000".to_owned()];
        Self { settings, ..Self::default() }
    }
}

/// A broker of this test alone.
#[derive(Debug)]
pub struct Broker {
    folder: TempDir,
    options: Options,
    bootstrap: String,
    secure: Option<Secure>,
}

impl Broker {
    /// Starts a broker on free ports with an empty folder.
    ///
    /// # Errors
    /// The broker did not start; the message has the end of its log.
    pub fn start(options: &Options) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("dovetail-broker-")
            .tempdir()
            .context("create the broker's folder")?;
        let mut settings = options.settings.join("\n");
        if options.secure {
            settings.push_str(&secure::prepare(folder.path(), options.client_certificates)?);
        }
        std::fs::write(folder.path().join("extra.properties"), settings + "\n")?;
        let mut broker =
            Broker { folder, options: options.clone(), bootstrap: String::new(), secure: None };
        broker.start_again()?;
        Ok(broker)
    }

    /// `HOST:PORT` of the plain listener; stays the same when the broker is started again.
    #[must_use]
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// A client of the plain listener.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(&self.bootstrap)
    }

    /// The secure listener.
    ///
    /// # Errors
    /// The broker was started without one.
    pub fn secure(&self) -> Result<&Secure> {
        self.secure
            .as_ref()
            .context("this broker has no secure listener: start it with `secure: true`")
    }

    /// The broker's process, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.script("pid").ok()?.parse().ok()
    }

    /// Ends the broker in order, and keeps its data.
    ///
    /// # Errors
    /// The script failed.
    pub fn stop(&self) -> Result<()> {
        self.script("stop").map(drop)
    }

    /// Ends the broker with SIGKILL, and keeps its data.
    ///
    /// # Errors
    /// The script failed.
    pub fn kill(&self) -> Result<()> {
        self.script("kill").map(drop)
    }

    /// Starts the broker on the data that it left, at the same address.
    ///
    /// # Errors
    /// The broker did not start, or its port was taken in the meantime.
    pub fn start_again(&mut self) -> Result<()> {
        let bootstrap = self.script("start")?;
        if !self.bootstrap.is_empty() && self.bootstrap != bootstrap {
            bail!("the broker's port was taken meanwhile: {} became {bootstrap}", self.bootstrap);
        }
        if self.options.secure {
            self.secure = Some(Secure::new(self.folder.path(), &bootstrap)?);
        }
        self.bootstrap = bootstrap;
        Ok(())
    }

    fn script(&self, command: &str) -> Result<String> {
        let script = fixture_folder().join("kafka.sh");
        let mut call = Command::new(&script);
        if let Some(version) = self.options.version {
            call.env("KAFKA_VERSION", version);
        }
        let output = call
            .arg(command)
            .env("KAFKA_FIXTURE_DIR", self.folder.path())
            .env("KAFKA_OWNER", std::process::id().to_string())
            .env("KAFKA_EXTRA", self.folder.path().join("extra.properties"))
            .env("KAFKA_FORMAT_ARGS", secure::format_arguments())
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("run {}", script.display()))?;
        if !output.status.success() {
            bail!("kafka.sh {command} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // SIGKILL: nothing of it is wanted any more, and a test need not wait for a clean end.
        let ended = self.kill();
        debug_assert!(ended.is_ok(), "{ended:?}");
    }
}

fn fixture_folder() -> PathBuf {
    crate::workspace::root().join("tests/kafka")
}

/// The address of the cluster that all tests of this process share: the one that
/// [`CLUSTER_VARIABLE`] names, else a broker that is started on first use.
///
/// # Errors
/// The broker did not start.
pub fn shared() -> Result<String> {
    // A static is never dropped; the broker ends when this process does (KAFKA_OWNER).
    static SHARED: Mutex<Option<Broker>> = Mutex::new(None);
    if let Ok(brokers) = std::env::var(CLUSTER_VARIABLE)
        && !brokers.is_empty()
    {
        return Ok(brokers);
    }
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(broker) = shared.as_ref() {
        return Ok(broker.bootstrap.clone());
    }
    let broker = Broker::start(&Options::default())?;
    let bootstrap = broker.bootstrap.clone();
    *shared = Some(broker);
    Ok(bootstrap)
}
