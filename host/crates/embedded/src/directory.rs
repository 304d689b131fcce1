//! The files of a directory: names, lock, and what a start makes of what it finds.
//!
//! Invariant: a commit file is there as a whole or not at all.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Write as _},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use crate::{
    commits::{self, Extent, Lines, PartitionName},
    error::{During as _, EmbeddedError},
    format::COMMITS_HEADER,
    sync,
};

/// Longest name of a topic, in bytes, as Kafka has it.
const TOPIC_NAME_MAX: usize = 249;

/// What a directory may hold that has no commit file yet: ours, and a file system's own.
const HARMLESS: [&str; 5] = ["lock", "topics", "commits.new", "state", "lost+found"];

/// Refuses a directory that holds something else.
pub(crate) fn check_not_foreign(dir: &Path) -> Result<(), EmbeddedError> {
    let refuse = |what: String| {
        let dir = dir.display();
        let help = "name a directory of its own, or an empty one (`embedded.dir`)";
        Err(EmbeddedError::Config(format!("{dir} {what}; {help}")))
    };
    let found = match fs::metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.during("read", dir)?,
    };
    if !found.is_dir() {
        return refuse("is not a directory".to_owned());
    }
    if commits_path(dir).exists() {
        return Ok(());
    }
    for entry in fs::read_dir(dir).during("read", dir)? {
        let entry = entry.during("read", dir)?;
        let name = entry.file_name();
        let is_harmless = HARMLESS.iter().any(|harmless| name == **harmless)
            && (name != "lock" || is_lock(&entry.path()));
        if !is_harmless {
            let name = name.to_string_lossy();
            return refuse(format!("is not empty and not the embedded log's: it holds `{name}`"));
        }
    }
    Ok(())
}

/// Whether a file holds what a lock file does: a process id, or nothing yet.
fn is_lock(path: &Path) -> bool {
    const PID_BYTES_MAX: u64 = 20;
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() <= PID_BYTES_MAX)
        && fs::read_to_string(path)
            .is_ok_and(|text| text.trim_end().bytes().all(|byte| byte.is_ascii_digit()))
}

/// The lock of a directory, released when this is dropped.
///
/// Closing the file would release it too, but not while a child that is just being started has a
/// copy of it.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Where it fails the system releases the lock with the last copy of the file.
        self.0.unlock().ok();
    }
}

/// Takes the directory for this process.
pub(crate) fn lock(dir: &Path) -> Result<Lock, EmbeddedError> {
    let path = dir.join("lock");
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .during("open", &path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::Error(source)) => {
            return Err(EmbeddedError::Io { action: "lock", path, source });
        }
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            file.read_to_string(&mut holder).during("read", &path)?;
            let holder = holder.trim();
            let holder = if holder.is_empty() { "(unknown)" } else { holder };
            return Err(EmbeddedError::Locked { dir: dir.to_owned(), holder: holder.to_owned() });
        }
    }
    file.set_len(0).during("write", &path)?;
    file.write_all(format!("{}\n", std::process::id()).as_bytes()).during("write", &path)?;
    Ok(Lock(file))
}

/// Makes the commit file of a new directory, with an id drawn at random.
pub(crate) fn create_commits(dir: &Path) -> Result<(), EmbeddedError> {
    let topics = dir.join("topics");
    let mut entries = fs::read_dir(&topics).during("read", &topics)?;
    if entries.next().is_some() {
        return Err(EmbeddedError::corrupt(
            &commits_path(dir),
            "the file is gone, but there are topics; restore it from a copy, or remove the \
             directory and run again from the start",
        ));
    }
    let random = Path::new("/dev/urandom");
    let mut id = [0; 16];
    File::open(random).and_then(|mut file| file.read_exact(&mut id)).during("read", random)?;
    replace_commits(dir, &commits::start(id))?;
    Ok(())
}

/// Puts a whole commit file in the place of the present one, at once.
pub(crate) fn replace_commits(dir: &Path, bytes: &[u8]) -> Result<File, EmbeddedError> {
    let (path, new_path) = (commits_path(dir), dir.join("commits.new"));
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&new_path)
        .during("create", &new_path)?;
    file.write_all(bytes).during("write", &new_path)?;
    sync::bytes(&file, &new_path)?;
    fs::rename(&new_path, &path).during("rename", &new_path)?;
    sync::names(dir)?;
    Ok(file)
}

/// Opens a partition file for writing and cuts off what is not committed.
pub(crate) fn recover_partition(
    dir: &Path,
    name: &PartitionName,
    extent: Extent,
) -> Result<File, EmbeddedError> {
    let path = partition_path(dir, name);
    let file = OpenOptions::new().read(true).write(true).open(&path).during("open", &path)?;
    let found = file.metadata().during("read", &path)?.len();
    if found < extent.length {
        return Err(EmbeddedError::corrupt(
            &path,
            format!(
                "it has {found} bytes, but {} are committed: after a power cut without \
                 `embedded.sync: true`, or the file was changed. Restore the directory from a \
                 copy, or remove it and run again from the start",
                extent.length
            ),
        ));
    }
    if found > extent.length {
        file.set_len(extent.length).during("cut", &path)?;
    }
    Ok(file)
}

/// Makes a followed file what the commits say; returns its length.
pub(crate) fn recover_follow(path: &Path, end: u64, lines: &[Lines]) -> Result<u64, EmbeddedError> {
    let found = fs::metadata(path).map_or(0, |file| file.len());
    let base = lines.first().map_or(end, |lines| lines.start);
    if found < base {
        tracing::warn!(
            path = %path.display(), found, committed = end,
            "a followed file was cut or removed: it goes on from here; its topic has everything"
        );
        return Ok(found);
    }
    if found < end {
        for lines in lines {
            write_lines(path, lines)?;
        }
    }
    if let Ok(file) = OpenOptions::new().write(true).open(path) {
        file.set_len(end).during("cut", path)?;
    }
    Ok(end)
}

/// Puts lines into a followed file. Makes its folder where that is gone: people remove it to begin
/// again, and the commits say what belongs into it.
pub(crate) fn write_lines(path: &Path, lines: &Lines) -> Result<(), EmbeddedError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).during("create", folder)?;
    }
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .during("open", path)?;
    file.write_all_at(&lines.bytes, lines.start).during("write", path)
}

/// Refuses a name that Kafka would not take.
pub(crate) fn check_topic_name(topic: &str) -> Result<(), EmbeddedError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let is_good = !topic.is_empty()
        && topic.len() <= TOPIC_NAME_MAX
        && topic != "."
        && topic != ".."
        && topic.bytes().all(is_allowed);
    if is_good {
        return Ok(());
    }
    Err(EmbeddedError::Config(format!(
        "topic name {topic:?}: expected 1 to {TOPIC_NAME_MAX} letters, digits, `.`, `_` or `-`"
    )))
}

/// Returns the path of the commit file.
pub(crate) fn commits_path(dir: &Path) -> PathBuf {
    dir.join("commits")
}

/// Returns the path of a partition file.
pub(crate) fn partition_path(dir: &Path, (topic, partition): &PartitionName) -> PathBuf {
    dir.join("topics").join(topic).join(format!("{partition}.records"))
}

/// Reads the id in a commit file.
pub(crate) fn cluster_id_bytes(commits: &File) -> io::Result<[u8; 16]> {
    let mut id = [0; 16];
    let at = u64::try_from(COMMITS_HEADER.len()).unwrap_or(u64::MAX);
    commits.read_exact_at(&mut id, at)?;
    Ok(id)
}
