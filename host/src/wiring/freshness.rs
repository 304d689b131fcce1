//! Whether a component was built from the sources beside it.

use std::{fs, path::Path, time::SystemTime};

/// Says so when a component is older than the crate that it lies in; nothing where it lies in none.
#[must_use]
pub fn warning(component: &Path) -> Option<String> {
    let built = modified(component)?;
    let folder = component.parent()?;
    if !folder.join("Cargo.toml").is_file() {
        return None;
    }
    let (changed, newest) = newest(&folder.join("src"))?;
    (changed > built).then(|| {
        let newest = newest.strip_prefix(folder).unwrap_or(&newest).display().to_string();
        let name = component.file_name().unwrap_or_default().to_string_lossy();
        format!("{name} is older than {newest}: `dovetail build` takes the change over")
    })
}

fn newest(folder: &Path) -> Option<(SystemTime, std::path::PathBuf)> {
    let entries = fs::read_dir(folder).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let times = entries.filter_map(|path| {
        if path.is_dir() { newest(&path) } else { Some((modified(&path)?, path)) }
    });
    times.max()
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_older_than_its_sources_is_named_with_the_file_that_changed() {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, seconds: u64| {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
            path
        };
        let component = write("a.wasm", 10);
        write("src/deep/rule.rs", 20);
        assert_eq!(warning(&component), None, "no crate");
        write("Cargo.toml", 5);
        let said = warning(&component).unwrap();
        assert!(said.starts_with("a.wasm is older than src/deep/rule.rs"), "{said}");
        write("a.wasm", 30);
        assert_eq!(warning(&component), None);
    }
}
