//! The world of `wit/v1`, generated.
#![allow(
    unsafe_code,
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    elided_lifetimes_in_paths,
    clippy::all,
    clippy::mem_forget,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::undocumented_unsafe_blocks,
    reason = "generated code"
)]

wit_bindgen::generate!({
    path: "../wit/v1",
    world: "broadcast-plugin",
    pub_export_macro: true,
    export_macro_name: "export_world",
    default_bindings_module: "dovetail_sdk::bindings",
    runtime_path: "dovetail_sdk::wit_bindgen::rt",
});
