//! Building a plugin crate: what is said when it cannot be.

use std::path::Path;

use dovetail_plugin::{BuildError, Instance, Revision, build_guest, encode_component};

#[test]
fn folder_without_a_crate_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = build_guest(folder.path(), &mut |_| ()).unwrap_err();
    assert!(matches!(error, BuildError::NoCrate(_)), "{error}");
    assert!(error.to_string().contains("dovetail new"), "{error}");
}

#[test]
fn crate_that_builds_no_module_is_told_what_to_add() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core");
    let error = build_guest(&folder, &mut |_| ()).unwrap_err();
    assert!(matches!(error, BuildError::NotCdylib(_)), "{error}");
    assert!(error.to_string().contains("crate-type"), "{error}");
}

#[test]
fn module_without_an_interface_becomes_no_plugin() {
    // A module that imports a function of nobody.
    let module = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x02\x07\x01\x01e\x01f\0\0";
    let error = encode_component(module).unwrap_err();
    assert!(error.to_string().contains("cannot become a component"), "{error}");
    assert!(encode_component(b"no module").is_err());
}

#[test]
fn revisions_are_shared_by_lanes_and_instances_move_to_theirs() {
    fn is_shared<T: Send + Sync + Clone>() {}
    fn moves<T: Send>() {}
    is_shared::<Revision>();
    moves::<Instance>();
}
