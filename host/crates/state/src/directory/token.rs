//! The admin token: 32 random bytes in hexadecimal, readable by its owner only.

use std::{
    fs::{self, File, Permissions},
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use super::{DirectoryError, io_error, write_whole};

const FILE: &str = "admin-token";
const OWNER_ONLY: u32 = 0o600;
const RANDOM_BYTES: usize = 32;

/// Returns the token, making it when there is none; takes rights away that others have on it.
pub(super) fn read_or_make(dir: &Path) -> Result<String, DirectoryError> {
    let file = dir.join(FILE);
    match fs::read_to_string(&file) {
        // An empty file would allow everyone everything.
        Ok(text) if !text.trim().is_empty() => {
            fs::set_permissions(&file, Permissions::from_mode(OWNER_ONLY))
                .map_err(io_error(&file, "making the admin token private"))?;
            return Ok(text.trim().to_owned());
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(io_error(&file, "reading the admin token")(error));
        }
        Ok(_) | Err(_) => {}
    }
    let token = random_token()?;
    write_whole(&file, OWNER_ONLY, &format!("{token}\n"))
        .map_err(io_error(&file, "writing the admin token"))?;
    Ok(token)
}

fn random_token() -> Result<String, DirectoryError> {
    let source = Path::new("/dev/urandom");
    let mut bytes = [0_u8; RANDOM_BYTES];
    File::open(source)
        .and_then(|mut random| random.read_exact(&mut bytes))
        .map_err(io_error(source, "making an admin token"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
