//! Talks to a running pipeline over its HTTP API.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use clap::Args;
use serde_json::Value;

use super::FILE_DEFAULT;
use crate::{
    config::{self, Environment, Loaded},
    failure::{Exit, Failure},
};

/// How long an answer may take that waits for lanes.
const TIMEOUT: Duration = Duration::from_secs(70);
/// How long a process may take to say which pipeline it is, which waits for nothing.
const SAYS_WHO_WITHIN: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Where the running pipeline is.
#[derive(Debug, Args)]
pub(super) struct Where {
    /// The pipeline file, to find the address in.
    #[arg(value_name = "FILE", default_value = FILE_DEFAULT)]
    file: PathBuf,
    /// The address of its admin port.
    #[arg(long, value_name = "URL", env = "DOVETAIL_URL")]
    url: Option<String>,
}

impl Where {
    /// Finds the pipeline by `--url`, `DOVETAIL_URL`, or the port in the pipeline file; then it
    /// must be the pipeline of that file which answers, and soon.
    pub(super) fn client(&self) -> Result<Client, Failure> {
        let mut expected = None;
        let base = match &self.url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => {
                let loaded = self.load()?;
                let mut address = loaded.config.admin_listen;
                expected = Some(loaded.config.pipeline);
                if address.ip().is_unspecified() {
                    let local = if address.is_ipv4() {
                        IpAddr::from([127, 0, 0, 1])
                    } else {
                        IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])
                    };
                    address.set_ip(local);
                }
                format!("http://{address}")
            }
        };
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .http_status_as_error(false)
            .build()
            .into();
        let client = Client { base, agent };
        client.expect(expected.as_deref()).map(|()| client)
    }

    /// Returns a connection, or `None` where no address was said and the pipeline of the file does
    /// not answer.
    pub(super) fn running(&self) -> Result<Option<Client>, Failure> {
        match self.client() {
            Ok(client) => Ok(Some(client)),
            Err(failure) if failure.exit == Exit::Usage && self.url.is_none() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Reads the pipeline file.
    pub(super) fn load(&self) -> Result<Loaded, Failure> {
        Ok(config::load(&self.file, &Environment::of_process(&[]))?)
    }

    /// Returns the token that changes need.
    pub(super) fn token(&self) -> Result<String, Failure> {
        if let Ok(token) = std::env::var("DOVETAIL_TOKEN") {
            return Ok(token);
        }
        let loaded = self.load()?;
        let path = loaded.config.state_dir.join("admin-token");
        crate::text_file::read(&path).map(|token| token.trim().to_owned()).map_err(|error| {
            Failure::usage(format!(
                "{} cannot be read: {error}; the running pipeline writes it. Elsewhere, give its \
                 content in DOVETAIL_TOKEN",
                path.display()
            ))
        })
    }
}

/// A connection to a running pipeline.
pub(super) struct Client {
    base: String,
    agent: ureq::Agent,
}

impl Client {
    /// Refuses a process that does not answer, and another pipeline on the port.
    fn expect(&self, expected: Option<&str>) -> Result<(), Failure> {
        let path = "/api/v1/status";
        let request = self.agent.get(format!("{}{path}", self.base));
        let answer = request.config().timeout_global(Some(SAYS_WHO_WITHIN)).build().call();
        let status = self.read(path, answer)?;
        let found = status.get("pipeline").and_then(Value::as_str);
        match found.zip(expected) {
            Some((found, expected)) if found != expected => Err(Failure::usage(format!(
                "{} answers for {found}, not {expected}: is {expected} running? Give each pipeline \
                 its own `admin.listen`, or say where with --url or DOVETAIL_URL",
                self.base
            ))),
            Some(_) | None => Ok(()),
        }
    }

    /// Asks for a JSON document.
    pub(super) fn get(&self, path: &str) -> Result<Value, Failure> {
        let answer = self.agent.get(format!("{}{path}", self.base)).call();
        self.read(path, answer)
    }

    /// Asks for a JSON document of a known form.
    pub(super) fn read_as<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        serde_json::from_value(self.get(path)?).map_err(|error| {
            Failure::internal(format!(
                "{}{path} answers in a form that this version does not know: {error}; use the \
                 `dovetail` that runs the pipeline",
                self.base
            ))
        })
    }

    /// Sends bytes; returns the JSON answer.
    pub(super) fn post(&self, path: &str, token: &str, body: &[u8]) -> Result<Value, Failure> {
        let answer = self
            .agent
            .post(format!("{}{path}", self.base))
            .header("authorization", format!("Bearer {token}"))
            // Who refuses answers before the body is sent, instead of closing amid it.
            .header("expect", "100-continue")
            .send(body);
        self.read(path, answer)
    }

    /// A connection is there, made by the system for whoever listens, and no answer comes.
    fn silent(&self) -> Failure {
        Failure::usage(format!(
            "the process at {} accepts connections but does not answer: is it stopped (`ps` shows \
             state T), its machine overloaded, or is this another program? Say where with --url or \
             DOVETAIL_URL",
            self.base
        ))
    }

    fn read(
        &self,
        path: &str,
        answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<Value, Failure> {
        let mut answer = answer.map_err(|error| match error {
            ureq::Error::Timeout(ureq::Timeout::Global) => self.silent(),
            error => Failure::usage(format!(
                "no pipeline answers at {}: {error}; is it running? Say where with --url or \
                 DOVETAIL_URL",
                self.base
            )),
        })?;
        let status = answer.status();
        let text = answer.body_mut().read_to_string().map_err(|error| match error {
            ureq::Error::Timeout(_) => self.silent(),
            error => Failure::internal(format!(
                "the answer of {}{path} cannot be read: {error}",
                self.base
            )),
        })?;
        let value: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        if status.is_success() {
            return Ok(value);
        }
        let reason = value.get("error").and_then(Value::as_str).map_or_else(
            || value.as_str().map_or_else(|| value.to_string(), str::to_owned),
            str::to_owned,
        );
        Err(Failure::check(format!("{} answers {status}: {}", self.base, reason.trim())))
    }
}
