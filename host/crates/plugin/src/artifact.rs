//! A plugin file before anything of it runs: size, format, interface version, imports, digest.
//!
//! Keeps true: a file that is cut, padded or not a component never gets further than this.

use std::{
    fmt, fs,
    io::{self, Read as _},
    path::Path,
};

use sha2::{Digest, Sha256};
use wasmparser::{ComponentImport, ComponentTypeRef, Encoding, Parser, Payload};

use crate::error::GateError;

/// A version of the interface `dovetail:plugin`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterfaceVersion {
    /// Versions of another major number do not understand each other.
    pub major: u64,
    /// A host speaks all minor numbers up to its own.
    pub minor: u64,
    /// Says nothing about what is understood.
    pub patch: u64,
}

impl fmt::Display for InterfaceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The interface that this host speaks.
pub const HOST_INTERFACE: InterfaceVersion = InterfaceVersion { major: 1, minor: 0, patch: 0 };

/// How names of our interface begin.
pub(crate) const INTERFACE_PREFIX: &str = "dovetail:plugin/";

/// A component, parsed but neither compiled nor run.
#[derive(Debug, Clone)]
pub struct Artifact {
    bytes: Vec<u8>,
    digest: String,
    interface: Option<InterfaceVersion>,
    imports: Vec<String>,
    exports: Vec<String>,
}

impl Artifact {
    /// Reads and parses a file of at most `max` bytes.
    ///
    /// # Errors
    ///
    /// When it cannot be read, is too large, or is not a whole component.
    pub fn read(path: &Path, max: u64) -> Result<Self, GateError> {
        let unreadable = |source| GateError::Unreadable { path: path.to_owned(), source };
        let metadata = fs::metadata(path).map_err(unreadable)?;
        // Opening a pipe would wait for its writer; a device has no end.
        if !metadata.is_file() {
            let why = "it is not a regular file";
            return Err(unreadable(io::Error::new(io::ErrorKind::InvalidInput, why)));
        }
        let file = fs::File::open(path).map_err(unreadable)?;
        let size = file.metadata().map_err(unreadable)?.len();
        if size > max {
            return Err(GateError::TooLarge { size, max });
        }
        let mut bytes = Vec::new();
        // One byte more than allowed shows a file that grows meanwhile.
        file.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(unreadable)?;
        Self::parse(bytes, max)
    }

    /// Parses a component of at most `max` bytes.
    ///
    /// # Errors
    ///
    /// When it is too large, or is not a whole component.
    pub fn parse(bytes: Vec<u8>, max: u64) -> Result<Self, GateError> {
        let size = bytes.len() as u64;
        if size > max {
            return Err(GateError::TooLarge { size, max });
        }
        if !bytes.starts_with(b"\0asm") {
            return Err(GateError::NotWasm { found: first_bytes(&bytes) });
        }
        let names = Names::read(&bytes)?;
        let digest = hex(&Sha256::digest(&bytes));
        let interface = interface_version(&names.imports, &names.exports)?;
        Ok(Self { bytes, digest, interface, imports: names.imports, exports: names.exports })
    }

    /// Returns the SHA-256 of the file in hexadecimal: the revision's name.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the version of `dovetail:plugin` it was built for; `None` when it uses nothing of
    /// it. Of several it is the highest.
    #[must_use]
    pub fn interface(&self) -> Option<InterfaceVersion> {
        self.interface
    }

    /// Returns the names of what it imports, in the order of the component.
    #[must_use]
    pub fn imports(&self) -> &[String] {
        &self.imports
    }

    /// Returns the names of what it exports, in the order of the component.
    #[must_use]
    pub fn exports(&self) -> &[String] {
        &self.exports
    }

    /// Returns the file's bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Checks that this host speaks the interface it was built for.
    ///
    /// # Errors
    ///
    /// When it does not, or when the component is no plugin.
    pub fn check_interface(&self) -> Result<InterfaceVersion, GateError> {
        let wants = self.interface.ok_or(GateError::NoInterface)?;
        if wants.major != HOST_INTERFACE.major || wants.minor > HOST_INTERFACE.minor {
            return Err(GateError::VersionMismatch { wants });
        }
        Ok(wants)
    }
}

/// What a component imports and exports at its top.
struct Names {
    imports: Vec<String>,
    exports: Vec<String>,
}

impl Names {
    fn read(bytes: &[u8]) -> Result<Self, GateError> {
        let damaged = |error: wasmparser::BinaryReaderError| GateError::Damaged(error.to_string());
        let (mut imports, mut exports) = (Vec::new(), Vec::new());
        let mut depth = 0_u32;
        for payload in Parser::new(0).parse_all(bytes) {
            match payload.map_err(damaged)? {
                Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => {
                    return Err(GateError::CoreModule);
                }
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::ComponentImportSection(section) if depth == 0 => {
                    // A world that uses a type of an interface imports its name: not a need.
                    let is_need = |import: &ComponentImport<'_>| {
                        !matches!(import.ty, ComponentTypeRef::Type(_))
                    };
                    for import in section {
                        let import = import.map_err(damaged)?;
                        imports.extend(is_need(&import).then(|| import.name.name.to_owned()));
                    }
                }
                Payload::ComponentExportSection(section) if depth == 0 => {
                    for export in section {
                        exports.push(export.map_err(damaged)?.name.name.to_owned());
                    }
                }
                _ => {}
            }
        }
        Ok(Self { imports, exports })
    }
}

/// Returns the version in names like `dovetail:plugin/state@1.0.0`; of several the highest.
fn interface_version(
    imports: &[String],
    exports: &[String],
) -> Result<Option<InterfaceVersion>, GateError> {
    let mut highest = None;
    for name in imports.iter().chain(exports) {
        let Some(rest) = name.strip_prefix(INTERFACE_PREFIX) else {
            continue;
        };
        let version = rest.split_once('@').and_then(|(_, version)| parse_version(version));
        let Some(version) = version else {
            return Err(GateError::Damaged(format!("`{name}` names no interface version")));
        };
        highest = highest.max(Some(version));
    }
    Ok(highest)
}

fn parse_version(text: &str) -> Option<InterfaceVersion> {
    let mut parts = text.split('.').map(|part| part.parse::<u64>().ok());
    let version =
        InterfaceVersion { major: parts.next()??, minor: parts.next()??, patch: parts.next()?? };
    parts.next().is_none().then_some(version)
}

fn first_bytes(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "an empty file".to_owned();
    }
    hex(&bytes[..bytes.len().min(8)])
}

fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes all that is written");
        text
    })
}
