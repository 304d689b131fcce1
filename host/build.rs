//! Puts the SDK's sources (guest-sdk, core, wit) into the binary, so that `dovetail new` can write
//! them beside a new plugin.

use std::{env, error::Error, fmt::Write as _, fs, path::Path};

const PARTS: [&str; 3] = ["guest-sdk", "host/crates/core", "wit"];

fn main() -> Result<(), Box<dyn Error>> {
    let manifest_dir = env::var("CARGO_MANIFEST_DIR")?;
    let top = Path::new(&manifest_dir).parent().ok_or("host lies in the repository")?;
    let mut table = String::from("&[\n");
    for part in PARTS {
        println!("cargo::rerun-if-changed={}", top.join(part).display());
        add(top, &top.join(part), &mut table)?;
    }
    table.push(']');
    let out = env::var("OUT_DIR")?;
    fs::write(Path::new(&out).join("sdk_files.rs"), table)?;
    let manifest = top.join("Cargo.toml");
    println!("cargo::rerun-if-changed={}", manifest.display());
    let workspace = workspace_of_sdk(&fs::read_to_string(manifest)?)?;
    fs::write(Path::new(&out).join("sdk_workspace.toml"), workspace)?;
    Ok(())
}

fn add(top: &Path, folder: &Path, table: &mut String) -> Result<(), Box<dyn Error>> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::path);
    for entry in entries {
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "target" {
                add(top, &path, table)?;
            }
        } else {
            let name = path.strip_prefix(top)?.display().to_string();
            writeln!(table, "    ({name:?}, include_str!({:?})),", path.display().to_string())?;
        }
    }
    Ok(())
}

/// The repository's manifest with the SDK's members alone: versions and lints stay ours.
fn workspace_of_sdk(manifest: &str) -> Result<String, Box<dyn Error>> {
    let start = manifest.find("members = [").ok_or("the workspace has members")?;
    let end = start + manifest[start..].find(']').ok_or("the members end")? + 1;
    let members = "members = [\"guest-sdk\", \"host/crates/core\"]";
    let rest = &manifest[end..];
    let profiles = rest.find("\n# One profile").or_else(|| rest.find("\n[profile"));
    Ok(format!("{}{members}{}", &manifest[..start], &rest[..profiles.unwrap_or(rest.len())]))
}
