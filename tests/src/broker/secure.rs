//! A listener with TLS whose users log in with SCRAM, PLAIN or a certificate.

use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::fixture_folder;

const USER: &str = "dovetail";
const PASSWORD: &str = "only-for-tests";

/// How to reach the secure listener of a broker.
#[derive(Debug, Clone)]
pub struct Secure {
    /// `HOST:PORT`.
    pub bootstrap: String,
    /// The one user.
    pub user: &'static str,
    /// The user's password, for SCRAM-SHA-512, SCRAM-SHA-256 and PLAIN alike.
    pub password: &'static str,
    /// The broker's certificate in PEM, which signs itself.
    pub ca_file: PathBuf,
    /// Certificate and key in PEM of a client that the broker knows.
    pub client_files: [PathBuf; 2],
}

impl Secure {
    pub(super) fn new(folder: &Path, plain_bootstrap: &str) -> Result<Self> {
        let (host, port) =
            plain_bootstrap.rsplit_once(':').context("the bootstrap address has no port")?;
        let port: u16 = port.parse().context("read the broker's port")?;
        Ok(Secure {
            // kafka.sh reserves the two ports behind the plain one.
            bootstrap: format!("{host}:{}", port + 2),
            user: USER,
            password: PASSWORD,
            ca_file: certificate(folder),
            client_files: ["client.pem", "client.key"].map(|file| fixture_folder().join(file)),
        })
    }
}

fn keystore(folder: &Path) -> PathBuf {
    folder.join("broker.p12")
}

fn certificate(folder: &Path) -> PathBuf {
    folder.join("ca.pem")
}

/// Makes the key and its certificate; the broker's settings for the listener, which asks for a
/// client's certificate or for a password.
pub(super) fn prepare(folder: &Path, client_certificates: bool) -> Result<String> {
    let keystore = keystore(folder);
    let store = ["-keystore", path_text(&keystore)?, "-storetype", "PKCS12"];
    let secret = ["-storepass", PASSWORD, "-alias", "broker"];
    let key = ["-keyalg", "EC", "-groupname", "secp256r1", "-validity", "2"];
    let name = ["-dname", "CN=127.0.0.1"];
    let names = ["-ext", "SAN=ip:127.0.0.1,dns:localhost"];
    let pair = ["-genkeypair"].iter();
    keytool(pair.chain(&store).chain(&secret).chain(&key).chain(&name).chain(&names))?;
    let export = ["-exportcert", "-rfc", "-file"];
    let certificate = certificate(folder);
    let file = [path_text(&certificate)?];
    keytool(export.iter().chain(&file).chain(&store).chain(&secret))?;
    let login = if client_certificates {
        certificate_login(path_text(&fixture_folder().join("client.pem"))?)
    } else {
        password_login()
    };
    Ok(settings(path_text(&keystore)?) + &login)
}

fn settings(keystore: &str) -> String {
    format!(
        "
listeners=PLAINTEXT://127.0.0.1:@PORT@,CONTROLLER://127.0.0.1:@CONTROLLER@,SECURE://127.0.0.1:@SECURE@
advertised.listeners=PLAINTEXT://127.0.0.1:@PORT@,SECURE://127.0.0.1:@SECURE@
listener.name.secure.ssl.keystore.location={keystore}
listener.name.secure.ssl.keystore.password={PASSWORD}
listener.name.secure.ssl.keystore.type=PKCS12
"
    )
}

fn certificate_login(certificate: &str) -> String {
    format!(
        "\
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SSL
listener.name.secure.ssl.client.auth=required
listener.name.secure.ssl.truststore.location={certificate}
listener.name.secure.ssl.truststore.type=PEM
"
    )
}

fn password_login() -> String {
    let scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
    let plain = "org.apache.kafka.common.security.plain.PlainLoginModule required";
    format!(
        "\
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL
listener.name.secure.sasl.enabled.mechanisms=SCRAM-SHA-512,SCRAM-SHA-256,PLAIN
listener.name.secure.scram-sha-512.sasl.jaas.config={scram}
listener.name.secure.scram-sha-256.sasl.jaas.config={scram}
listener.name.secure.plain.sasl.jaas.config={plain} user_{USER}=\"{PASSWORD}\";
"
    )
}

/// For formatting the storage: users of SCRAM live in the cluster's metadata.
pub(super) fn format_arguments() -> String {
    ["SCRAM-SHA-512", "SCRAM-SHA-256"]
        .map(|mechanism| format!("--add-scram {mechanism}=[name={USER},password={PASSWORD}]"))
        .join(" ")
}

fn path_text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}

fn keytool<'a>(arguments: impl Iterator<Item = &'a &'a str>) -> Result<()> {
    let output = Command::new("keytool")
        .args(arguments)
        .output()
        .context("run keytool, which comes with Java")?;
    if !output.status.success() {
        bail!(
            "keytool failed: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}
