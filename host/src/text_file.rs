//! Text files that people write: pipeline files, cases, secrets.
//!
//! Knows nothing of what is in them. A name given by mistake (a device, a pipe, a topic's data) is
//! refused instead of being read or waited for without end.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::Path,
};

/// How large such a file may be, in bytes; what people write is far smaller.
pub const TEXT_BYTES_MAX: u64 = 1 << 20;

/// Reads a text file.
///
/// # Errors
///
/// When it is no regular file, larger than [`TEXT_BYTES_MAX`], not UTF-8, or cannot be read.
pub fn read(path: &Path) -> io::Result<String> {
    // Opening a pipe would wait for its writer; a device has no end.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut text = Vec::new();
    File::open(path)?.take(TEXT_BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > TEXT_BYTES_MAX {
        let message = format!(
            "it has more than the {TEXT_BYTES_MAX} bytes that such a file may have: is it the right one?"
        );
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    let no_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text");
    String::from_utf8(text).map_err(no_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_a_bounded_size_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let refused = |path: &Path| read(path).unwrap_err().to_string();
        fs::write(&file, vec![b'a'; 1 << 20]).unwrap();
        assert_eq!(read(&file).unwrap().len(), 1 << 20);
        fs::write(&file, vec![b'a'; (1 << 20) + 1]).unwrap();
        assert!(refused(&file).contains("more than the 1048576 bytes"), "{}", refused(&file));
        fs::write(&file, b"\xff").unwrap();
        assert!(refused(&file).contains("UTF-8"), "{}", refused(&file));
        for path in [Path::new("/dev/zero"), folder.path()] {
            assert!(refused(path).contains("not a regular file"), "{}", refused(path));
        }
    }
}
