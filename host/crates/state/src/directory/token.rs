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
/// A shorter one could be guessed: it is what a broken file has left of one.
const CHARACTERS_MIN: usize = 32;

/// Returns the token, making it when there is none; takes rights away that others have on it.
pub(super) fn read_or_make(dir: &Path) -> Result<String, DirectoryError> {
    let file = dir.join(FILE);
    match fs::read(&file) {
        // An empty file would allow everyone everything.
        Ok(bytes) if !bytes.trim_ascii().is_empty() => {
            let token = checked(&file, bytes.trim_ascii())?;
            fs::set_permissions(&file, Permissions::from_mode(OWNER_ONLY))
                .map_err(io_error(&file, "making the admin token private"))?;
            return Ok(token);
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

/// Returns what a header can carry and nobody guesses.
fn checked(file: &Path, token: &[u8]) -> Result<String, DirectoryError> {
    let strange = token.iter().filter(|byte| !byte.is_ascii_graphic()).count();
    if strange == 0 && token.len() >= CHARACTERS_MIN {
        return Ok(token.iter().map(|byte| char::from(*byte)).collect());
    }
    Err(DirectoryError::Token {
        file: file.to_owned(),
        expected: format!("at least {CHARACTERS_MIN} printable ASCII characters"),
        found: format!("{} bytes, {strange} of them no such characters", token.len()),
    })
}

fn random_token() -> Result<String, DirectoryError> {
    let source = Path::new("/dev/urandom");
    let mut bytes = [0_u8; RANDOM_BYTES];
    File::open(source)
        .and_then(|mut random| random.read_exact(&mut bytes))
        .map_err(io_error(source, "making an admin token"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
