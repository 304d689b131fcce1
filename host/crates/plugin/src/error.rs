//! Why a plugin is not let in: what was expected, what was found, what to do.

use std::path::PathBuf;

use dovetail_core::plugin::CallFailure;

use crate::artifact::{HOST_INTERFACE, InterfaceVersion};

/// Why a plugin file is refused.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The file cannot be read.
    #[error("plugin {} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is larger than allowed.
    #[error(
        "the plugin has {size} bytes, more than the {max} allowed; build it with `--release`, or \
         raise the limit"
    )]
    TooLarge {
        /// Its size in bytes.
        size: u64,
        /// The largest allowed, in bytes.
        max: u64,
    },
    /// Not WebAssembly.
    #[error(
        "the plugin is not WebAssembly: expected it to begin with `\\0asm`, found {found}; name \
         the `.wasm` file that `dovetail build` writes"
    )]
    NotWasm {
        /// The first bytes as hexadecimal, or that there are none.
        found: String,
    },
    /// A core module where a component is needed.
    #[error(
        "the plugin is a core WebAssembly module, expected a component; build it with `dovetail \
         build`, or turn the module into a component with `wasm-tools component new`"
    )]
    CoreModule,
    /// WebAssembly that cannot be parsed to its end.
    #[error("the plugin is damaged or incomplete: {0}; copy or build it again")]
    Damaged(String),
    /// A component for something else.
    #[error(
        "the component is not a Dovetail plugin: it uses nothing of `dovetail:plugin`, this host \
         speaks {HOST_INTERFACE}; build it with `dovetail build`"
    )]
    NoInterface,
    /// A plugin for another version of the interface.
    #[error(
        "the plugin wants interface dovetail:plugin@{wants}, this host speaks {}; {}",
        spoken(),
        advice(*.wants)
    )]
    VersionMismatch {
        /// What the plugin was built for.
        wants: InterfaceVersion,
    },
    /// Imports that this host does not offer.
    #[error(
        "the plugin imports what this host does not offer: {}; a plugin has no clock, randomness, \
         files or network of its own: build it for wasm32-unknown-unknown (`dovetail build`) and \
         use the interface instead",
        names.join(", ")
    )]
    ForeignImports {
        /// Each of them, in the order of the component.
        names: Vec<String>,
    },
    /// Exports that a plugin must have.
    #[error(
        "the plugin does not export {}; export it with the SDK's macro or implement the world \
         `dovetail:plugin/plugin`",
        names.join(", ")
    )]
    MissingExports {
        /// Each of them.
        names: Vec<String>,
    },
    /// A broadcast input, and nothing that handles its records.
    #[error(
        "the plugin says that its input `{input}` is broadcast, and does not export \
         `process-broadcast`; implement the world `dovetail:plugin/broadcast-plugin`, or leave the \
         input out of `broadcast`"
    )]
    NoBroadcastHandler {
        /// The input.
        input: String,
    },
    /// An import or export of another type than the interface gives it.
    #[error(
        "the plugin does not fit the interface dovetail:plugin@{HOST_INTERFACE}: {0}; build it \
         against the interface of this host"
    )]
    WrongType(String),
    /// Wasmtime refused it.
    #[error(
        "the plugin cannot be compiled: {0}; components may not use threads, exceptions, garbage \
         collection, relaxed SIMD or 64-bit memories"
    )]
    NotCompiled(String),
    /// No instance could be made.
    #[error("the plugin cannot be instantiated: {}", .0.message)]
    NotInstantiated(CallFailure),
    /// `describe` returned an error: the configuration is wrong.
    #[error("the plugin refuses its configuration: {0}")]
    ConfigRefused(String),
    /// `describe` failed.
    #[error("`describe` failed: {}", .0.message)]
    DescribeFailed(CallFailure),
    /// `describe` returned what this host cannot use.
    #[error("`describe` returned a description that cannot be used: {0}")]
    BadDescription(String),
    /// `open` returned an error.
    #[error("the plugin cannot be opened: {0}")]
    OpenRefused(String),
    /// `open` failed.
    #[error("`open` failed: {}", .0.message)]
    OpenFailed(CallFailure),
}

fn spoken() -> String {
    let InterfaceVersion { major, minor, .. } = HOST_INTERFACE;
    if minor == 0 { format!("{major}.0") } else { format!("{major}.0 to {major}.{minor}") }
}

fn advice(wants: InterfaceVersion) -> String {
    let InterfaceVersion { major, minor, .. } = wants;
    if (major, minor) > (HOST_INTERFACE.major, HOST_INTERFACE.minor) {
        format!("run it on a host that speaks {major}.{minor}, or build it with an older SDK")
    } else {
        "build it again with this host's SDK".to_owned()
    }
}
