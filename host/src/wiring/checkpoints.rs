//! The checkpoint store of a pipeline, and whether the journal may be trimmed behind it.
//!
//! Keeps: the journal is trimmed only behind checkpoints that do not share a disk with the state
//! directory: one failing disk must not take both.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use dovetail_core::{
    checkpoint::{CheckpointError, CheckpointStore as _},
    epoch::{Epoch, LaneId},
    identity::Identity,
};
use dovetail_runtime::{CheckpointSetup, setup::BeforeTrim};
use dovetail_state::{
    checkpoint::{objects::ObjectCheckpoints, owner::StoreOwner},
    identity as kept_identity,
};

use crate::{
    config::{
        Config, Loaded,
        model::{CheckpointConfig, LogConfig},
        report::Problem,
    },
    failure::Failure,
};

/// Opens the store; nothing is asked of it yet.
///
/// # Errors
///
/// When the system gives no event loop.
pub fn open(checkpoint: &CheckpointConfig) -> Result<ObjectCheckpoints, Failure> {
    let timeout = Duration::from_millis(u64::try_from(checkpoint.timeout).unwrap_or(u64::MAX));
    ObjectCheckpoints::in_folder(&checkpoint.store, timeout)
        .map_err(|error| Failure::internal(format!("the checkpoint store's event loop: {error}")))
}

/// Returns what looking at a pipeline needs; `None` without a checkpoint store.
pub(super) fn setup(config: &Config) -> Result<Option<CheckpointSetup>, Failure> {
    let Some(checkpoint) = &config.checkpoint else { return Ok(None) };
    Ok(Some(setup_of(checkpoint, open(checkpoint)?)))
}

/// Returns what running a pipeline needs, its store claimed; `None` without one. A store that does
/// not answer is claimed when it does.
///
/// # Errors
///
/// When the store is another pipeline's.
pub(super) fn claimed(
    loaded: &Arc<Loaded>,
    cluster_id: &str,
) -> Result<Option<CheckpointSetup>, Failure> {
    let config = &loaded.config;
    let Some(checkpoint) = &config.checkpoint else { return Ok(None) };
    let (pipeline, cluster_id) = (config.pipeline.clone(), cluster_id.to_owned());
    let store = open(checkpoint)?.owned_by(StoreOwner { pipeline, cluster_id });
    match store.claim() {
        Ok(()) => {}
        Err(error @ CheckpointError::Unavailable { .. }) => {
            tracing::warn!("it is not known yet whose it is: {error}");
        }
        Err(error) => {
            let help = match &error {
                CheckpointError::Corrupt { .. } => "or name another folder",
                _ => "each pipeline needs a folder of its own",
            };
            let problem = loaded.problem("checkpoint.store", error.to_string(), help);
            return Err(loaded.problems(vec![problem]).into());
        }
    }
    let before_trim = Some(before_trim(Arc::clone(loaded), checkpoint.store.clone()));
    Ok(Some(CheckpointSetup { before_trim, ..setup_of(checkpoint, store) }))
}

/// The journal's first record holds the identity: what is not kept elsewhere must not be trimmed.
fn before_trim(loaded: Arc<Loaded>, store: PathBuf) -> BeforeTrim {
    let at_start = device(&store);
    Arc::new(move |identity| match moved(&store, at_start).or_else(|| untrimmed(&loaded.config)) {
        Some(why) => Err(why),
        None => kept_identity::keep(&loaded.config.state_dir, identity),
    })
}

/// Returns why a store is not where it was: a disk that is not mounted any more leaves a folder on
/// the disk below it, which takes checkpoints as well and hides them when it is mounted again.
fn moved(store: &Path, at_start: Option<u64>) -> Option<String> {
    (device(store) != at_start).then(|| {
        format!(
            "checkpoint.store {} is on another disk than at the start: nothing is trimmed; mount its \
             disk again, or start the pipeline again if it is to stay there",
            store.display()
        )
    })
}

fn setup_of(checkpoint: &CheckpointConfig, store: ObjectCheckpoints) -> CheckpointSetup {
    let (every, keep, timeout) = (checkpoint.every, checkpoint.keep, checkpoint.timeout);
    let grace = CheckpointSetup::GRACE_DEFAULT;
    CheckpointSetup { store: Arc::new(store), every, keep, timeout, grace, before_trim: None }
}

/// Returns why the configured store can never take a checkpoint; changes nothing. A store that fails
/// in ways that pass (a full disk, a server that is away) is no fault of the configuration.
#[must_use]
pub(super) fn problem(loaded: &Loaded) -> Option<Problem> {
    let folder = &loaded.config.checkpoint.as_ref()?.store;
    let there = folder.ancestors().find(|part| part.exists()).unwrap_or(folder);
    let (what, help) = if there.is_dir() {
        // Without a name, so that nobody ever sees it.
        let error = tempfile::tempfile_in(there).err().filter(is_lasting)?;
        let help = "name a folder that this user may write to, on a disk that stays, such as \
                    file:///mnt/checkpoints/NAME";
        // Without the name that was tried.
        let reason = error.get_ref().and_then(|error| error.source());
        let reason = reason.map_or_else(|| error.to_string(), ToString::to_string);
        (format!("nothing can be written to {}: {reason}", there.display()), help)
    } else {
        (format!("{} is there and is not a folder", there.display()), "name a folder of its own")
    };
    let what = if there == folder {
        what
    } else {
        format!("the folder {} cannot be made: {what}", folder.display())
    };
    Some(loaded.problem("checkpoint.store", what, help))
}

fn is_lasting(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::NotFound
            | Kind::NotADirectory
            | Kind::PermissionDenied
            | Kind::ReadOnlyFilesystem
            | Kind::Unsupported
    )
}

/// Returns why the journal is not trimmed; `None` = it is, behind checkpoints.
#[must_use]
pub fn untrimmed(config: &Config) -> Option<String> {
    let why = match (&config.log, &config.checkpoint) {
        // Its journal is a file on this machine: there is nothing to run out of sooner.
        (LogConfig::Embedded(_), _) => return None,
        (LogConfig::Kafka(_), None) => "there are no checkpoints".to_owned(),
        (LogConfig::Kafka(_), Some(checkpoint)) => {
            let (store, state) = (device(&checkpoint.store), device(&config.state_dir));
            match (store, state) {
                (Some(store), Some(state)) if store != state => return None,
                (Some(_), Some(_)) => format!(
                    "checkpoint.store {} is on the disk of state.dir, and is lost with it",
                    checkpoint.store.display()
                ),
                (None, _) | (_, None) => format!(
                    "it is not known whether checkpoint.store {} is on the disk of state.dir",
                    checkpoint.store.display()
                ),
            }
        }
    };
    Some(format!(
        "{why}: nothing is trimmed from `{}`, which grows with every commit",
        dovetail_kafka::options::journal_topic(&config.pipeline)
    ))
}

/// Returns the device that a folder is on, or would be.
fn device(folder: &Path) -> Option<u64> {
    folder.ancestors().find_map(|part| fs::metadata(part).ok()).map(|metadata| metadata.dev())
}

/// Why it is not known what a trimmed journal has lost.
pub(super) enum Lost {
    /// The store does not answer, which may pass.
    Unanswered(String),
    /// An operator must do something.
    Gone(Failure),
}

impl From<Lost> for Failure {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::Unanswered(told) => Self::configuration(told),
            Lost::Gone(failure) => failure,
        }
    }
}

/// Returns the identity that a trimmed journal has lost: as `state.dir` keeps it, else from the
/// newest manifest of the first lane that can be read.
///
/// # Errors
///
/// When neither has it.
pub(super) fn identity(config: &Config, begins: Epoch) -> Result<Identity, Lost> {
    match kept_identity::read(&config.state_dir) {
        // Another pipeline's directory is refused later, with the ways out.
        Ok(Some(identity)) if identity.pipeline == config.pipeline => return Ok(identity),
        Ok(_) => {}
        Err(error) => tracing::warn!("the identity is asked of the checkpoint store: {error}"),
    }
    let found = format!(
        "the journal begins at epoch {} and not with the genesis record: it was trimmed behind \
         checkpoints; state.dir {} does not keep the pipeline's identity",
        begins.0,
        config.state_dir.display()
    );
    let gone = |what: String| Lost::Gone(Failure::configuration(format!("{found}{what}")));
    let Some(checkpoint) = &config.checkpoint else {
        return Err(gone(
            "; set `checkpoint.store` to the one that this pipeline ran with".to_owned(),
        ));
    };
    let store = open(checkpoint).map_err(Lost::Gone)?;
    let failed = |error: CheckpointError| match error {
        CheckpointError::Unavailable { .. } => Lost::Unanswered(format!("{found}; {error}")),
        error => gone(format!("; {error}")),
    };
    for id in store.list(LaneId(0)).map_err(failed)? {
        match store.manifest(id) {
            Ok(manifest) => return Ok(manifest.identity),
            Err(error @ CheckpointError::Unavailable { .. }) => return Err(failed(error)),
            Err(error) => tracing::warn!("checkpoint {id} cannot be used: {error}"),
        }
    }
    Err(gone(format!(
        ", and {} has none; set `checkpoint.store` to the one that this pipeline ran with",
        checkpoint.store.display()
    )))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_store_whose_disk_is_another_than_at_the_start_trims_nothing() {
        let below = tempfile::tempdir().unwrap();
        let mounted = tempfile::TempDir::new_in("/dev/shm").unwrap();
        let store = below.path().join("mount");
        symlink(mounted.path(), &store).unwrap();
        // The folder itself comes with the first checkpoint.
        let folder = store.join("my-join");
        let at_start = device(&folder);
        fs::create_dir(&folder).unwrap();
        assert_eq!(moved(&folder, at_start), None);
        fs::remove_file(&store).unwrap();
        fs::create_dir_all(&folder).unwrap();
        let told = moved(&folder, at_start).unwrap();
        assert!(told.contains("on another disk") && told.contains("mount"), "{told}");
        fs::remove_dir_all(&store).unwrap();
        symlink(mounted.path(), &store).unwrap();
        assert_eq!(moved(&folder, at_start), None);
    }
}
