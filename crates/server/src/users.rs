//! Who may use the server: names and passwords from a file, a line `name:password` for each.
//!
//! A password stands there as it is or as a hash in PHC form, `$argon2id$...` or
//! `$pbkdf2-sha256$...`. Passwords that stand there as they are are compared in constant time, but
//! for their length; a name that does not exist takes as long as the first one of the file. To
//! check a hash takes a worker as long as the hash was made to take, so that a connection is closed
//! after [`FAILURES_MAX`] failures. SIGHUP reads the file again; connections keep what they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use argon2::{Argon2, PasswordHash, PasswordVerifier};
use pbkdf2::Pbkdf2;
use stdx::sync::lock;
use subtle::ConstantTimeEq;

/// After so many wrong passwords a connection is closed.
pub const FAILURES_MAX: u8 = 3;

/// A file may name so many users. Who needs more has another place for them than this file.
const USERS_MAX: usize = 256;

/// The longest line: longer ones than any client could send in one token.
const LINE_BYTES_MAX: usize = 1024;

/// The longest file.
const FILE_BYTES_MAX: u64 = (USERS_MAX * LINE_BYTES_MAX) as u64;

/// Those who may use the server.
#[derive(Debug)]
pub struct Users {
    path: PathBuf,
    list: Mutex<Arc<[User]>>,
}

/// One of them.
struct User {
    name: String,
    password: Password,
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "User({})", self.name)
    }
}

/// How a password is known.
enum Password {
    /// As it is.
    Plain(Vec<u8>),
    /// As a hash.
    Hashed(Box<PasswordHash>),
}

impl Users {
    /// Reads them from a file, which is found again wherever the process goes.
    pub fn load(path: &Path) -> Result<Self, String> {
        let path = std::path::absolute(path)
            .map_err(|error| format!("cannot find {}: {error}", path.display()))?;
        let list = Mutex::new(read(&path)?);
        Ok(Self { path, list })
    }

    /// Reads the file again; returns how many there are. If something is wrong with it, who may use
    /// the server stays as it was.
    pub fn reload(&self) -> Result<usize, String> {
        let list = read(&self.path)?;
        let count = list.len();
        *lock(&self.list) = list;
        Ok(count)
    }

    /// Whether this is one of them, with that password. May take long: see the opening.
    pub fn admit(&self, name: &[u8], password: &[u8]) -> bool {
        let list = Arc::clone(&lock(&self.list));
        let known = list.iter().find(|user| user.name.as_bytes() == name);
        // Somebody's password is checked in any case.
        let Some(user) = known.or(list.first()) else {
            return false;
        };
        user.password.is(password) && known.is_some()
    }
}

impl Password {
    fn is(&self, password: &[u8]) -> bool {
        match self {
            Self::Plain(plain) => bool::from(plain.as_slice().ct_eq(password)),
            Self::Hashed(hash) if hash.algorithm.as_str().starts_with("argon2") => {
                Argon2::default().verify_password(password, hash.as_ref()).is_ok()
            }
            Self::Hashed(hash) => {
                Pbkdf2::default().verify_password(password, hash.as_ref()).is_ok()
            }
        }
    }

    /// What stands behind the colon.
    fn parse(text: &str) -> Result<Self, String> {
        if !text.starts_with('$') {
            return Ok(Self::Plain(text.as_bytes().to_vec()));
        }
        let hash = PasswordHash::new(text).map_err(|error| format!("a bad hash: {error}"))?;
        if !matches!(hash.algorithm.as_str(), "argon2id" | "argon2i" | "pbkdf2-sha256") {
            return Err(format!("a hash by {}; argon2id, pbkdf2-sha256 are known", hash.algorithm));
        }
        if hash.hash.is_none() || hash.salt.is_none() {
            return Err("a hash without salt or without result".to_owned());
        }
        Ok(Self::Hashed(Box::new(hash)))
    }
}

/// Reads the users of a file.
fn read(path: &Path) -> Result<Arc<[User]>, String> {
    let name = path.display();
    let failed = |error| format!("cannot read the users in {name}: {error}");
    let bytes = fs::metadata(path).map_err(failed)?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(format!(
            "the users in {name} take {bytes} bytes; {FILE_BYTES_MAX} are the most"
        ));
    }
    let text = fs::read_to_string(path).map_err(failed)?;
    parse(&text).map_err(|error| format!("the users in {name}: {error}"))
}

/// Reads users, a line each.
fn parse(text: &str) -> Result<Arc<[User]>, String> {
    let mut users: Vec<User> = Vec::new();
    for (place, line) in text.lines().enumerate() {
        let wrong = |what: &str| format!("line {}: {what}", place + 1);
        if line.is_empty() {
            continue;
        }
        if line.len() > LINE_BYTES_MAX {
            return Err(wrong(&format!("longer than {LINE_BYTES_MAX} bytes")));
        }
        // The line itself is not told: it may be a password.
        let (name, password) = line.split_once(':').ok_or_else(|| wrong("not name:password"))?;
        if name.is_empty() || password.is_empty() {
            return Err(wrong("without a name or without a password"));
        }
        if users.iter().any(|user| user.name == name) {
            return Err(wrong(&format!("{name} has been named before")));
        }
        if users.len() == USERS_MAX {
            return Err(format!("more than {USERS_MAX}"));
        }
        let password = Password::parse(password).map_err(|text| wrong(&text))?;
        users.push(User { name: name.to_owned(), password });
    }
    if users.is_empty() {
        return Err("there are none, so that nobody could use the server".to_owned());
    }
    Ok(users.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with Python's `hashlib.pbkdf2_hmac("sha256", b"secret", b"saltsaltsalt", 1000)`.
    const PBKDF2: &str = "$pbkdf2-sha256$i=1000,l=32$\
        c2FsdHNhbHRzYWx0$sVaWem31qy3rw+Ldi3plA/XzhMSNi9/XHnnD1Ytj05o";
    /// Made with `argon2-cffi`, of `secret`, 64 KiB and one pass.
    const ARGON2: &str = "$argon2id$v=19$m=64,t=1,p=1$\
        c2FsdHNhbHRzYWx0$Sm3MnLdCFk0Af+croKgebRoqqmhbKd88iiW3yUOXn78";

    fn users(text: &str) -> Users {
        Users { path: PathBuf::new(), list: Mutex::new(parse(text).expect("good users")) }
    }

    fn refused(text: &str) -> String {
        parse(text).expect_err("bad users")
    }

    #[test]
    fn a_name_is_admitted_with_its_own_password_alone() {
        let text = format!("bob:secret\n\nann:pass word:x\r\npia:{PBKDF2}\nava:{ARGON2}\n");
        let users = users(&text);
        for (name, password) in
            [("bob", "secret"), ("ann", "pass word:x"), ("pia", "secret"), ("ava", "secret")]
        {
            assert!(users.admit(name.as_bytes(), password.as_bytes()), "{name}");
            for wrong in ["", "Secret", "secret ", "secre", "pass word:y", PBKDF2, ARGON2] {
                assert!(!users.admit(name.as_bytes(), wrong.as_bytes()), "{name} {wrong}");
            }
        }
        for name in ["", "bo", "bobb", "eve"] {
            assert!(!users.admit(name.as_bytes(), b"secret"), "{name}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        for (text, what) in [
            ("", "there are none"),
            ("\n\n", "there are none"),
            ("bob:x\nann\n", "line 2: not name:password"),
            (":x", "line 1: without a name"),
            ("bob:", "line 1: without a name or without a password"),
            ("bob:x\nbob:y", "line 2: bob has been named before"),
            ("bob:$argon2id$v=19", "line 1: a hash without salt"),
            ("bob:$md5$c2FsdHNhbHRzYWx0$c2FsdHNhbHRzYWx0", "line 1: a hash by md5"),
            ("bob:$", "line 1: a bad hash"),
        ] {
            let told = refused(text);
            assert!(told.contains(what), "{text}: {told}");
        }
    }

    #[test]
    fn limits_hold_at_their_edges() {
        let some = |count: usize| (0..count).map(|user| format!("u{user}:x\n")).collect::<String>();
        assert_eq!(parse(&some(USERS_MAX)).expect("as many as may be").len(), USERS_MAX);
        assert!(refused(&some(USERS_MAX + 1)).contains("more than 256"));
        let long = |bytes: usize| format!("u:{}", "x".repeat(bytes - 2));
        assert!(parse(&long(LINE_BYTES_MAX)).is_ok());
        assert!(refused(&long(LINE_BYTES_MAX + 1)).contains("longer than 1024 bytes"));
    }
}
