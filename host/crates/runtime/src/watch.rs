//! Watches one file for new content: written in place, renamed over it, or swapped by a symbolic
//! link (as mounted configuration is).
//!
//! Knows nothing of plugins but the outline of a WebAssembly file, by which half-written ones are
//! told. Uses the system's notifications where there are any and looks at the file itself
//! regularly besides, because notifications do not cross links and network file systems.
//!
//! Invariant: content is handed over once, whole, and only when it differs from what was handed
//! over before.

use std::{
    fs,
    io::{self, Read as _},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread::JoinHandle,
    time::Duration,
};

use crossbeam_channel::{Receiver, Sender, bounded, never, select};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use sha2::{Digest, Sha256};

/// How often a file that looks cut off is looked at again before it is handed over as it is.
const INCOMPLETE_LOOKS: u32 = 25;

/// When changes are noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchOptions {
    /// How long a file must stay as it is before it is read.
    pub settle: Duration,
    /// How often the file is looked at without a notification.
    pub poll: Duration,
    /// A longer file is not read, bytes.
    pub bytes_max: u64,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self {
            settle: Duration::from_millis(200),
            poll: Duration::from_secs(2),
            bytes_max: 64 << 20,
        }
    }
}

/// What a file was when it was last looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fingerprint {
    target: PathBuf,
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    is_regular: bool,
}

fn fingerprint(path: &Path) -> io::Result<Fingerprint> {
    let target = fs::canonicalize(path)?;
    let metadata = fs::metadata(&target)?;
    Ok(Fingerprint {
        target,
        device: metadata.dev(),
        inode: metadata.ino(),
        size: metadata.len(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        is_regular: metadata.is_file(),
    })
}

/// Returns the SHA-256 of bytes in lower-case hex.
#[must_use]
pub fn digest_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A running watch; dropping it ends it.
#[derive(Debug)]
pub struct FileWatch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FileWatch {
    /// Watches a file on a thread of its own and hands over new content. What the file holds now
    /// counts as known when its digest is `known`.
    ///
    /// # Errors
    ///
    /// When no thread can be started.
    pub fn spawn(
        path: PathBuf,
        known: String,
        options: WatchOptions,
        take: impl FnMut(Vec<u8>, &str) + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = bounded(0);
        let (signal, signals) = bounded(1);
        let thread =
            std::thread::Builder::new().name("plugin-watch".to_owned()).spawn(move || {
                let (_watcher, signals) = match notifications(&path, signal) {
                    Ok(watcher) => (Some(watcher), signals),
                    Err(error) => {
                        let path = path.display();
                        tracing::debug!("no notifications for {path}, looking regularly: {error}");
                        (None, never())
                    }
                };
                let mut watched = Watched { path, options, seen: None, handed_over: known, take };
                watched.run(&signals, &stopped);
            })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for FileWatch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that watches the plugin file has panicked");
        }
    }
}

fn notifications(path: &Path, signal: Sender<()>) -> notify::Result<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |_: notify::Result<notify::Event>| {
        // One pending signal says all: the file is looked at either way.
        if signal.try_send(()).is_err() {
            tracing::trace!("a change is being looked at already");
        }
    })?;
    let folder = folder_of(path);
    watcher.watch(&folder, RecursiveMode::NonRecursive)?;
    if let Ok(target) = fs::canonicalize(path) {
        let target_folder = folder_of(&target);
        if target_folder != folder {
            watcher.watch(&target_folder, RecursiveMode::NonRecursive)?;
        }
    }
    Ok(watcher)
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

struct Watched<F> {
    path: PathBuf,
    options: WatchOptions,
    seen: Option<Fingerprint>,
    handed_over: String,
    take: F,
}

impl<F: FnMut(Vec<u8>, &str)> Watched<F> {
    fn run(&mut self, signals: &Receiver<()>, stopped: &Receiver<()>) {
        loop {
            if self.look(stopped).is_none() {
                return;
            }
            select! {
                recv(signals) -> signal => if signal.is_err() { return },
                recv(stopped) -> _ => return,
                default(self.options.poll) => {}
            }
        }
    }

    /// Looks at the file, and waits until it has settled when it has changed; `None` when stopped.
    fn look(&mut self, stopped: &Receiver<()>) -> Option<()> {
        let mut incomplete = 0;
        let Ok(mut now) = fingerprint(&self.path) else {
            return Some(());
        };
        if self.seen.as_ref() == Some(&now) {
            return Some(());
        }
        loop {
            if !matches!(
                stopped.recv_timeout(self.options.settle),
                Err(crossbeam_channel::RecvTimeoutError::Timeout)
            ) {
                return None;
            }
            // It may be away for the moment of a swap.
            let Ok(before) = fingerprint(&self.path) else {
                return Some(());
            };
            if before != now {
                now = before;
                continue;
            }
            // Opening a pipe would wait for its writer; a device has no end.
            if let Some(why) = self.unreadable(&now) {
                let path = self.path.display();
                tracing::warn!("the plugin file {path} has changed and is not read: {why}");
                self.seen = Some(now);
                return Some(());
            }
            let read = read_at_most(&self.path, self.options.bytes_max);
            let (Ok(bytes), Ok(after)) = (read, fingerprint(&self.path)) else {
                return Some(());
            };
            if after != now || bytes.len() as u64 != now.size {
                now = after;
                continue;
            }
            if !is_whole(&bytes) && incomplete < INCOMPLETE_LOOKS {
                incomplete += 1;
                continue;
            }
            self.seen = Some(now);
            self.hand_over(bytes);
            return Some(());
        }
    }

    fn unreadable(&self, file: &Fingerprint) -> Option<String> {
        let (size, max) = (file.size, self.options.bytes_max);
        if !file.is_regular {
            return Some("it is not a regular file".to_owned());
        }
        (size > max).then(|| format!("it has {size} bytes, more than the {max} allowed"))
    }

    fn hand_over(&mut self, bytes: Vec<u8>) {
        let digest = digest_of(&bytes);
        if digest != self.handed_over {
            (self.take)(bytes, &digest);
            self.handed_over = digest;
        }
    }
}

/// Reads a file; of one that grows meanwhile not more than a byte over `max`.
fn read_at_most(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns whether a WebAssembly file ends where its last section ends. Anything else counts as
/// whole: the gate says what is wrong with it.
fn is_whole(bytes: &[u8]) -> bool {
    const MAGIC: &[u8] = b"\0asm";
    let head = &bytes[..bytes.len().min(MAGIC.len())];
    if head != &MAGIC[..head.len()] {
        return true;
    }
    if bytes.len() < 8 {
        return false;
    }
    let mut at = 8;
    while at < bytes.len() {
        at += 1;
        let (mut size, mut shift) = (0_usize, 0);
        loop {
            let Some(byte) = bytes.get(at) else {
                return false;
            };
            at += 1;
            size |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
            if shift > 28 {
                return true;
            }
        }
        at = at.saturating_add(size);
    }
    at == bytes.len()
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::unix::fs::symlink};

    use tempfile::TempDir;

    use super::*;

    const OPTIONS: WatchOptions = WatchOptions {
        settle: Duration::from_millis(20),
        poll: Duration::from_millis(50),
        bytes_max: 1 << 10,
    };
    const DEADLINE: Duration = Duration::from_secs(20);

    /// A WebAssembly file with one custom section that holds `text`.
    fn component(text: &str) -> Vec<u8> {
        let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
        bytes.push(0);
        bytes.push(u8::try_from(text.len()).unwrap());
        bytes.extend_from_slice(text.as_bytes());
        bytes
    }

    fn watch(path: &Path, known: &[u8]) -> (FileWatch, Receiver<Vec<u8>>) {
        let (sender, receiver) = bounded(16);
        let known = digest_of(known);
        let watch = FileWatch::spawn(path.to_owned(), known, OPTIONS, move |bytes, digest| {
            assert_eq!(digest, digest_of(&bytes));
            sender.send(bytes).unwrap();
        });
        (watch.unwrap(), receiver)
    }

    #[test]
    fn a_file_renamed_over_it_is_handed_over_once() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("p.wasm");
        fs::write(&path, component("one")).unwrap();
        let (_watch, changes) = watch(&path, &component("one"));
        for text in ["two", "three"] {
            let new = folder.path().join("p.wasm.new");
            fs::write(&new, component(text)).unwrap();
            fs::rename(&new, &path).unwrap();
            assert_eq!(changes.recv_timeout(DEADLINE), Ok(component(text)));
        }
        // The same content again is nothing new; a marker behind it shows that it was looked at.
        fs::write(&path, component("three")).unwrap();
        fs::write(&path, component("four")).unwrap();
        assert_eq!(changes.recv_timeout(DEADLINE), Ok(component("four")));
    }

    #[test]
    fn swapped_links_are_followed() {
        let folder = TempDir::new().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (version, text) in [("v1", "one"), ("v2", "two")] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("p.wasm"), component(text)).unwrap();
        }
        symlink("v1", at("data")).unwrap();
        symlink("data/p.wasm", at("p.wasm")).unwrap();
        let (_watch, changes) = watch(&at("p.wasm"), &component("one"));
        symlink("v2", at("data.new")).unwrap();
        fs::rename(at("data.new"), at("data")).unwrap();
        assert_eq!(changes.recv_timeout(DEADLINE), Ok(component("two")));
        // Content behind a link changes where no notification of the link's folder tells.
        fs::write(at("v2").join("p.wasm"), component("three")).unwrap();
        assert_eq!(changes.recv_timeout(DEADLINE), Ok(component("three")));
    }

    #[test]
    fn a_file_written_in_pieces_is_handed_over_whole() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("p.wasm");
        fs::write(&path, component("one")).unwrap();
        let (_watch, changes) = watch(&path, &component("one"));
        let bytes = component("a longer text than before");
        let mut file = fs::File::create(&path).unwrap();
        file.write_all(&bytes[..12]).unwrap();
        file.sync_all().unwrap();
        assert!(changes.recv_timeout(OPTIONS.settle * 5).is_err(), "a half file was handed over");
        file.write_all(&bytes[12..]).unwrap();
        drop(file);
        assert_eq!(changes.recv_timeout(DEADLINE), Ok(bytes));
    }

    #[test]
    fn a_file_that_is_away_for_a_moment_is_found_again() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("p.wasm");
        fs::write(&path, component("one")).unwrap();
        let (_watch, changes) = watch(&path, &component("one"));
        fs::remove_file(&path).unwrap();
        fs::write(&path, component("two")).unwrap();
        assert_eq!(changes.recv_timeout(DEADLINE), Ok(component("two")));
    }

    #[test]
    fn what_is_no_regular_file_or_too_long_is_not_read() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("p.wasm");
        let new = folder.path().join("p.wasm.new");
        fs::write(&path, component("one")).unwrap();
        let (watch, changes) = watch(&path, &component("one"));
        let status = std::process::Command::new("mkfifo").arg(&new).status().unwrap();
        assert!(status.success());
        fs::rename(&new, &path).unwrap();
        assert!(changes.recv_timeout(OPTIONS.settle * 10).is_err(), "a pipe was handed over");
        fs::File::create(&new).unwrap().set_len(OPTIONS.bytes_max + 1).unwrap();
        fs::rename(&new, &path).unwrap();
        assert!(changes.recv_timeout(OPTIONS.settle * 10).is_err(), "it is too long");
        fs::write(&new, component("two")).unwrap();
        fs::rename(&new, &path).unwrap();
        assert_eq!(changes.recv_timeout(DEADLINE), Ok(component("two")));
        drop(watch);
    }

    #[test]
    fn every_cut_inside_a_section_is_seen() {
        let whole = component("text");
        for end in 1..whole.len() {
            // A file that ends behind its header has no section that is cut.
            assert_eq!(is_whole(&whole[..end]), end == 8, "cut at {end}");
        }
        assert!(is_whole(&whole));
        assert!(is_whole(b"(component)"));
    }
}
