//! Files that are written must be nobody else's: not read here, not written twice. The folders of
//! a pipeline do not lie in each other where one outlives the other.
//!
//! Compares what paths lead to, not how they are written: links and `..` are followed, and two
//! names of one file are one file. Makes and changes nothing.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Component, Path, PathBuf},
};

use super::super::{
    model::{Config, InputFrom, LogConfig},
    reader::Reader,
};

/// How many links a path may lead through, as Linux has it.
const LINKS_MAX: u32 = 40;

/// A file or directory that is taken, and by what.
struct Taken {
    place: Place,
    by: String,
}

/// Adds every followed file that something else needs, or that cannot be written as a file.
/// `pipeline_file` is where the configuration was read.
pub(super) fn check(reader: &mut Reader, config: &Config, pipeline_file: &Path) {
    let mut directories = vec![("state.dir", Place::of(&config.state_dir))];
    if let LogConfig::Embedded(embedded) = &config.log {
        directories.push(("embedded.dir", Place::of(&embedded.dir)));
    }
    if let Some(checkpoint) = &config.checkpoint {
        let store = Place::of(&checkpoint.store);
        check_store(reader, &store, &directories);
        directories.push(("checkpoint.store", store));
    }
    let mut taken = taken_files(config, pipeline_file);
    for (path, follow) in follows(config) {
        let place = Place::of(follow);
        let shown = follow.display();
        let help = "name a file of its own";
        if fs::metadata(follow).is_ok_and(|found| !found.is_file()) {
            let message = format!("{shown} is there and is not a regular file");
            reader.problem_at(&path, message, help);
        } else if let Some(other) = taken.iter().find(|other| other.place.is(&place)) {
            let message = format!("{shown} is {}: it would be overwritten", other.by);
            reader.problem_at(&path, message, help);
        } else if let Some((key, _)) = directories.iter().find(|(_, dir)| place.crosses(dir)) {
            let message = format!("{shown} lies in `{key}`, whose files are the pipeline's own");
            reader.problem_at(&path, message, "name a file outside of it");
        }
        taken.push(Taken { place, by: format!("the file of `{path}` already") });
    }
}

/// Checkpoints are there for when the other folders are lost, moved aside or removed.
fn check_store(reader: &mut Reader, store: &Place, directories: &[(&str, Place)]) {
    let path = "checkpoint.store";
    for (key, directory) in directories.iter().filter(|(_, dir)| store.crosses(dir)) {
        let (store, directory) = (&store.path, &directory.path);
        let place = reader.where_is(key);
        let message = if store.starts_with(directory) {
            format!("{} lies in `{key}` {} ({place})", store.display(), directory.display())
        } else {
            format!("`{key}` {} ({place}) lies in {}", directory.display(), store.display())
        };
        let message = format!("{message}: what is lost of one is lost of both");
        reader.problem_at(path, message, "name a folder outside of it, best on another disk");
    }
}

fn taken_files(config: &Config, pipeline_file: &Path) -> Vec<Taken> {
    let taken = |path: &Path, by: String| Taken { place: Place::of(path), by };
    let mut files = vec![
        taken(pipeline_file, "the pipeline file".to_owned()),
        taken(&config.plugin.file, "the plugin's file".to_owned()),
    ];
    for input in &config.inputs {
        if let InputFrom::Files(paths) = &input.from {
            let by = format!("a file of the input `{}`", input.name);
            files.extend(paths.iter().map(|path| taken(path, by.clone())));
        }
    }
    files
}

fn follows(config: &Config) -> impl Iterator<Item = (String, &PathBuf)> {
    let outputs = config.outputs.iter().filter_map(|output| {
        Some((format!("outputs.{}.follow", output.name), output.follow.as_ref()?))
    });
    let dead_letters = config.dead_letters.follow.as_ref();
    outputs.chain(dead_letters.map(|follow| ("dead_letters.follow".to_owned(), follow)))
}

/// Where a path leads.
struct Place {
    path: PathBuf,
    /// Device and inode of a file that is there.
    file: Option<(u64, u64)>,
}

impl Place {
    fn of(path: &Path) -> Self {
        let found = fs::metadata(path).ok().filter(fs::Metadata::is_file);
        let file = found.map(|found| (found.dev(), found.ino()));
        Self { path: resolved(path, LINKS_MAX), file }
    }

    fn is(&self, other: &Self) -> bool {
        self.path == other.path || (self.file.is_some() && self.file == other.file)
    }

    /// Whether one lies in the other.
    fn crosses(&self, other: &Self) -> bool {
        self.path.starts_with(&other.path) || other.path.starts_with(&self.path)
    }
}

/// Returns where a path leads, also when its last parts are not there yet.
fn resolved(path: &Path, links: u32) -> PathBuf {
    if let Ok(canonical) = fs::canonicalize(path) {
        return canonical;
    }
    let mut at = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                at.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => at.push(part),
        }
        // A link to what is not there: writing would make its target.
        if links > 0
            && let Ok(target) = fs::read_link(&at)
        {
            let parent = at.parent().unwrap_or(Path::new("/"));
            at = resolved(&parent.join(target), links - 1);
        }
    }
    at
}
