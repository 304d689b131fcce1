//! The files of this repository, as the tests about the code itself see them.

use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};

/// Folders that hold no sources.
const SKIPPED: [&str; 4] = [".git", "target", "data", "node_modules"];

/// The top folder.
#[must_use]
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// One text file, its path relative to the top folder and with `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// For example `host/src/main.rs`.
    pub path: String,
    /// The whole text.
    pub text: String,
}

impl SourceFile {
    /// A file that exists only in a test.
    #[must_use]
    pub fn sample(path: &str, text: &str) -> Self {
        SourceFile { path: path.to_owned(), text: text.to_owned() }
    }

    /// Whether the name ends so, with the dot: `.rs`.
    #[must_use]
    pub fn has_extension(&self, extension: &str) -> bool {
        self.path.ends_with(extension)
    }
}

/// All text files below the top folder, in the order of their paths.
///
/// # Errors
/// A folder or file that cannot be read.
pub fn source_files() -> Result<Vec<SourceFile>> {
    let root = root();
    let mut files = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("read the folder {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_symlink() || SKIPPED.contains(&name.as_ref()) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = String::from_utf8(std::fs::read(&path)?) {
                let path = path.strip_prefix(&root)?.to_string_lossy().into_owned();
                files.push(SourceFile { path, text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// The names of the folders directly in `folder` (relative to the top), sorted.
///
/// # Errors
/// A folder that cannot be read; one that does not exist has none.
pub fn folders_in(folder: &str) -> Result<Vec<String>> {
    let path = root().join(folder);
    if !path.is_dir() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}
