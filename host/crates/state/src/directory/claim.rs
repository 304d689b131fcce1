//! Format: the file `pipeline`, which says whose state this is.
//!
//! ```text
//! dovetail state, format 1
//! pipeline: ad-attribution
//! cluster: 5L6g3nShT-eMCtK--X86sw
//! ```
//!
//! Names are one line each; unknown lines behind them are left to later versions.

use std::{fs, io, path::Path};

use super::{DirectoryError, FORMAT, LOCK_FILE, io_error, write_whole};

const FILE: &str = "pipeline";
const TITLE: &str = "dovetail state, format ";
/// What may be in a directory that has no `pipeline` file yet: ours, and a file system's own.
const HARMLESS: [&str; 3] = [LOCK_FILE, "pipeline.unfinished", "lost+found"];

/// Who wants to use a state directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The pipeline's name, one line.
    pub pipeline: String,
    /// The cluster's id, or the embedded log's, one line.
    pub cluster_id: String,
    /// When this process started, as a person reads it: told to those who find the lock held.
    pub since: String,
}

fn told(pipeline: &str, cluster: &str) -> String {
    format!("pipeline `{pipeline}` on cluster `{cluster}`")
}

/// Returns an error when the directory is another pipeline's, or holds something else.
pub(super) fn check_not_foreign(dir: &Path, claim: &Claim) -> Result<(), DirectoryError> {
    let file = dir.join(FILE);
    let text = match fs::read(&file) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|error| DirectoryError::Damaged {
            file: file.clone(),
            expected: "text in UTF-8",
            found: String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return check_empty(dir),
        Err(error) => return Err(io_error(&file, "reading whose state this is")(error)),
    };
    let mut lines = text.lines();
    let mut field = |name: &str, expected: &'static str| {
        let line = lines.next().unwrap_or_default();
        line.strip_prefix(name).ok_or_else(|| DirectoryError::Damaged {
            file: file.clone(),
            expected,
            found: line.to_owned(),
        })
    };
    let format = field(TITLE, "a line `dovetail state, format 1`")?;
    if format.parse() != Ok(FORMAT) {
        return Err(DirectoryError::Format { dir: dir.to_owned(), found: format.to_owned() });
    }
    let pipeline = field("pipeline: ", "a line `pipeline: NAME`")?;
    let cluster = field("cluster: ", "a line `cluster: ID`")?;
    if (pipeline, cluster) == (&claim.pipeline, &claim.cluster_id) {
        return Ok(());
    }
    Err(DirectoryError::Foreign {
        dir: dir.to_owned(),
        found: told(pipeline, cluster),
        expected: told(&claim.pipeline, &claim.cluster_id),
    })
}

fn check_empty(dir: &Path) -> Result<(), DirectoryError> {
    let reading = "reading the state directory";
    for entry in fs::read_dir(dir).map_err(io_error(dir, reading))? {
        let name = entry.map_err(io_error(dir, reading))?.file_name();
        if !HARMLESS.iter().any(|harmless| name == **harmless) {
            let entry = name.to_string_lossy().into_owned();
            return Err(DirectoryError::NotEmpty { dir: dir.to_owned(), entry });
        }
    }
    Ok(())
}

/// Writes the claim into a new directory.
pub(super) fn write_if_absent(dir: &Path, claim: &Claim) -> Result<(), DirectoryError> {
    let file = dir.join(FILE);
    if file.exists() {
        return Ok(());
    }
    let (pipeline, cluster) = (&claim.pipeline, &claim.cluster_id);
    let text = format!("{TITLE}{FORMAT}\npipeline: {pipeline}\ncluster: {cluster}\n");
    write_whole(&file, 0o600, &text).map_err(io_error(&file, "writing whose state this is"))
}
