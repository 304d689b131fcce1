//! Where a followed file begins.
//!
//! Invariant: a followed file holds what its topic holds. A topic that is still empty when it is
//! first followed empties the file, so that a run from the start does not add to what an earlier
//! log directory has left; a topic that has records is followed from then on, behind what is there.

use std::{
    fs::{self, OpenOptions},
    path::Path,
};

use crate::{
    cluster::EmbeddedCluster,
    commits::{Changes, Lines},
    error::{During as _, EmbeddedError},
};

impl EmbeddedCluster {
    /// Begins to follow a topic in a file; nothing where it is followed there already.
    pub(crate) fn begin_follow(&self, topic: &str, path: &Path) -> Result<(), EmbeddedError> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let name = path.display().to_string();
        let mut inner = self.lock();
        let committed = inner.committed();
        let mut of_topic =
            committed.partitions.iter().filter(|((known, _), _)| known == topic).peekable();
        let is_empty = of_topic.peek().is_some() && of_topic.all(|(_, extent)| extent.records == 0);
        if !is_empty || committed.follows.contains_key(&name) {
            return Ok(());
        }
        let size = fs::metadata(&path).map_or(0, |file| file.len());
        if size > 0 {
            tracing::info!(path = name, "a followed file begins anew with its topic");
            let file = OpenOptions::new().write(true).open(&path).during("open", &path)?;
            file.set_len(0).during("cut", &path)?;
        }
        let mut changes = Changes::default();
        changes.follows.insert(name, Lines { start: 0, bytes: Vec::new().into() });
        self.commit_changes(&mut inner, changes)
    }
}
