//! The plugin file, pushing, and the gate, over a running pipeline.

use std::{
    fs,
    os::unix::fs::symlink,
    path::PathBuf,
    time::{Duration, Instant},
};

use dovetail_runtime::{
    Handle, PipelineEnd, Supervisor,
    reload::{Candidate, Gate, PushError, ReloadParts, Reloader},
    revisions::RevisionState,
    watch::{WatchOptions, digest_of},
};
use tempfile::TempDir;

use crate::support::{Disk, Topics, lane_setup, pipeline, revision};

struct Reloading {
    topics: Topics,
    folder: TempDir,
    supervisor: Supervisor,
    reloader: Reloader,
}

/// The file's text is the revision's digest; what begins with "bad" does not pass the gate.
fn gate() -> Gate {
    Box::new(|candidate: &Candidate<'_>| {
        let text = String::from_utf8_lossy(candidate.bytes).into_owned();
        if text.starts_with("bad") {
            Err(format!("{text} is no component"))
        } else {
            Ok(revision(&text, 1))
        }
    })
}

impl Reloading {
    fn start() -> Self {
        let (topics, folder) = (Topics::new(), TempDir::new().unwrap());
        let path = folder.path().join("plugin.wasm");
        fs::write(folder.path().join("target.wasm"), "r1").unwrap();
        symlink("target.wasm", &path).unwrap();
        let lanes = vec![lane_setup(0, &topics, &Disk::default())];
        let supervisor = Supervisor::start(&pipeline(revision("r1", 1)), lanes).unwrap();
        let reloader = Reloader::spawn(ReloadParts {
            path,
            digest: digest_of(b"r1"),
            gate: gate(),
            handle: supervisor.handle(),
            watch: WatchOptions {
                settle: Duration::from_millis(10),
                poll: Duration::from_millis(50),
                ..WatchOptions::default()
            },
        });
        Self { topics, folder, supervisor, reloader: reloader.unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("plugin.wasm")
    }

    fn handle(&self) -> Handle {
        self.supervisor.handle()
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "waited too long until {what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_changed_file_takes_over_and_a_bad_one_is_refused() {
    let reloading = Reloading::start();
    let handle = reloading.handle();
    fs::write(reloading.path(), "r2").unwrap();
    wait_until("r2 runs", || handle.running_revision() == "r2");
    fs::write(reloading.path(), "bad").unwrap();
    wait_until("the bad one is refused", || handle.revisions().len() == 3);
    let refused = handle.revisions().pop().unwrap();
    assert_eq!(refused.state, RevisionState::Refused("bad is no component".to_owned()));
    assert_eq!(refused.digest, digest_of(b"bad"));
    assert_eq!(handle.running_revision(), "r2");
    reloading.topics.append("a=x");
    reloading.topics.end();
    assert_eq!(reloading.supervisor.join(), PipelineEnd::Finished);
    assert_eq!(reloading.topics.outputs(), ["r2:x#1"]);
}

#[test]
fn a_pushed_revision_replaces_the_file_and_is_taken_over_once() {
    let reloading = Reloading::start();
    let handle = reloading.handle();
    assert_eq!(reloading.reloader.push(b"r2").unwrap(), digest_of(b"r2"));
    assert_eq!(handle.running_revision(), "r2");
    assert_eq!(fs::read(reloading.path()).unwrap(), b"r2");
    assert!(reloading.path().is_symlink(), "what the link points to is replaced, not the link");
    let refused = reloading.reloader.push(b"bad");
    assert!(matches!(refused, Err(PushError::Refused { .. })), "{refused:?}");
    assert_eq!(fs::read(reloading.path()).unwrap(), b"r2");
    // A change behind it shows that the watch has seen the pushed file and kept still.
    fs::write(reloading.path(), "r3").unwrap();
    wait_until("r3 runs", || handle.running_revision() == "r3");
    let digests: Vec<_> = handle.revisions().into_iter().map(|entry| entry.digest).collect();
    assert_eq!(digests, ["r1".to_owned(), "r2".to_owned(), digest_of(b"bad"), "r3".to_owned()]);
    handle.stop();
    assert_eq!(reloading.supervisor.join(), PipelineEnd::Stopped);
}
