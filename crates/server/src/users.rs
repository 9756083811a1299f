//! The users of the server: names and passwords from a file, a line `name:password` for each.
//!
//! ```text
//! web:$argon2id$v=19$m=19456,t=2,p=1$...
//! [read-only]
//! graphs:its password as it is
//! ```
//!
//! A password stands there as it is or as a hash in PHC form, `$argon2id$...`, `$argon2i$...` or
//! `$pbkdf2-sha256$...`. Users behind a line `[read-only]` may only read; no user's line can be
//! taken for that one, as it has no colon. SIGHUP reads the file again; connections keep their
//! rights.
//!
//! The time of an answer does not reveal the names in the file. Passwords are of a few *kinds*:
//! plain, or hashed with certain parameters, which decide what checking takes. Every login has one
//! password of each kind checked: the user's own for its kind, and the file's first for any other,
//! which then decides nothing. Plain passwords are compared in constant time, except for their
//! length.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use argon2::{Argon2, PasswordHash, PasswordVerifier};
use pbkdf2::Pbkdf2;
use stdx::sync::lock;
use subtle::ConstantTimeEq;

use crate::bounded_file;
use crate::exit::Failed;
use crate::rights::Rights;

/// Wrong passwords after which a connection is closed.
pub const FAILURES_MAX: u8 = 3;

/// Users that a file may name. More than this belong in another place than this file.
const USERS_MAX: usize = 256;

/// Kinds of hashes that a file may have, each of which every login is checked by.
const KINDS_MAX: usize = 8;

/// The most memory for comparing a password with an argon2 hash: thirteen times the usual memory,
/// and many times the passes.
const HASH_KIB_MAX: u32 = 256 << 10;
const HASH_PASSES_MAX: u32 = 64;
/// The most rounds of a pbkdf2 hash: sixteen times the usual number.
const HASH_ROUNDS_MAX: u32 = 10_000_000;

/// The line behind which users may only read.
const READ_ONLY: &str = "[read-only]";

/// The longest line: longer than any client could send in one token.
const LINE_BYTES_MAX: usize = 1024;

/// The longest file: twice as many of the longest lines as there may be users, with their ends.
const FILE_BYTES_MAX: u64 = (2 * USERS_MAX * (LINE_BYTES_MAX + "\r\n".len())) as u64;

/// A mark that some editors put before the first line.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The users of the server.
#[derive(Debug)]
pub struct Users {
    path: PathBuf,
    list: Mutex<Arc<List>>,
}

/// The contents of a file.
#[derive(Debug, Default)]
struct List {
    users: Vec<User>,
    /// The kinds of passwords, and the first user with one of each.
    kinds: Vec<(Kind, usize)>,
}

/// One of them.
struct User {
    name: String,
    password: Password,
    /// The position of the kind of the user's password.
    kind: usize,
    rights: Rights,
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "User({})", self.name)
    }
}

/// A password as the file has it.
enum Password {
    /// Plain.
    Plain(Vec<u8>),
    /// Hashed.
    Hashed(Box<PasswordHash>),
}

/// The part of a password that decides how long its check takes: `None` for a plain one, the
/// algorithm and its parameters for a hash.
type Kind = Option<String>;

impl Users {
    /// Reads them from a file, whose path is made absolute for the log.
    pub fn load(path: &Path) -> Result<Self, Failed> {
        let path = std::path::absolute(path)
            .map_err(|error| format!("cannot find {}: {error}", path.display()))?;
        let list = Mutex::new(read(&path)?);
        Ok(Self { path, list })
    }

    /// Reads the file again; returns the number of users. After an error the users stay as they
    /// were.
    pub fn reload(&self) -> Result<usize, String> {
        let list = read(&self.path).map_err(|failed| failed.text)?;
        let count = list.users.len();
        *lock(&self.list) = list;
        Ok(count)
    }

    /// The rights of a user, if this is one with that password. Takes as long as the hashes of the
    /// file were made to take.
    pub fn admit(&self, name: &[u8], password: &[u8]) -> Option<Rights> {
        let list = Arc::clone(&lock(&self.list));
        let mut rights = None;
        for (user, is_meant) in list.trials(name) {
            let is_right = user.password.is(password);
            if is_right && is_meant {
                rights = Some(user.rights);
            }
        }
        rights
    }
}

impl List {
    /// The users whose passwords are compared at a login under this name, and whether each is the
    /// user named.
    fn trials(&self, name: &[u8]) -> impl Iterator<Item = (&User, bool)> {
        let known = self.users.iter().find(|user| user.name.as_bytes() == name);
        self.kinds.iter().enumerate().map(move |(kind, (_, first))| {
            match known.filter(|user| user.kind == kind) {
                Some(user) => (user, true),
                None => (&self.users[*first], false),
            }
        })
    }

    /// Adds a user, behind the others.
    fn add(&mut self, name: &str, password: Password, rights: Rights) -> Result<(), String> {
        let kind = password.kind();
        let place = self.kinds.iter().position(|(known, _)| *known == kind);
        let place = place.unwrap_or_else(|| {
            self.kinds.push((kind, self.users.len()));
            self.kinds.len() - 1
        });
        if self.kinds.iter().filter(|(kind, _)| kind.is_some()).count() > KINDS_MAX {
            return Err(format!(
                "more than {KINDS_MAX} kinds of hashes; use the same parameters for them"
            ));
        }
        self.users.push(User { name: name.to_owned(), password, kind: place, rights });
        Ok(())
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

    fn kind(&self) -> Kind {
        let Self::Hashed(hash) = self else { return None };
        let version = hash.version.unwrap_or_default();
        Some(format!("{} {version} {}", hash.algorithm, hash.params))
    }

    /// Parses the text behind the colon.
    fn parse(text: &str) -> Result<Self, String> {
        if !text.starts_with('$') {
            return Ok(Self::Plain(text.as_bytes().to_vec()));
        }
        // The output of crypt(3) has another form, of which only the algorithm can be named.
        let algorithm = text.split('$').nth(1).unwrap_or_default();
        if !matches!(algorithm, "argon2id" | "argon2i" | "pbkdf2-sha256") {
            let known = "argon2id, argon2i, pbkdf2-sha256 are known";
            return Err(format!("a hash by {}; {known}", algorithm.escape_debug()));
        }
        let hash = PasswordHash::new(text).map_err(|error| format!("a bad hash: {error}"))?;
        if hash.hash.is_none() || hash.salt.is_none() {
            return Err("a hash without salt or without result".to_owned());
        }
        check_cost(&hash)?;
        Ok(Self::Hashed(Box::new(hash)))
    }
}

/// Whether a password can be compared with a hash at all, and at a cost that a server can spare:
/// otherwise the first attempt would take the memory of the machine, or occupy the thread that
/// checks passwords for ever.
fn check_cost(hash: &PasswordHash) -> Result<(), String> {
    let useless = |error| format!("a hash that no password can be compared with: {error}");
    if hash.algorithm.as_str().starts_with("argon2") {
        let params = argon2::Params::try_from(hash).map_err(useless)?;
        if params.m_cost() > HASH_KIB_MAX || params.t_cost() > HASH_PASSES_MAX {
            return Err(format!(
                "a hash of more than {HASH_KIB_MAX} KiB or {HASH_PASSES_MAX} passes: m={},t={}",
                params.m_cost(),
                params.t_cost()
            ));
        }
    } else {
        let rounds = pbkdf2::Params::try_from(hash).map_err(useless)?.rounds();
        if rounds > HASH_ROUNDS_MAX {
            return Err(format!("a hash of more than {HASH_ROUNDS_MAX} rounds: i={rounds}"));
        }
    }
    Ok(())
}

/// Reads the users of a file. A wrong file stays wrong until somebody changes it.
fn read(path: &Path) -> Result<Arc<List>, Failed> {
    let name = path.display();
    let failed = |error: &dyn Display| format!("cannot read the users in {name}: {error}");
    let bytes = bounded_file::read(path, FILE_BYTES_MAX).map_err(|error| failed(&error))?;
    let bytes = bytes.ok_or_else(|| {
        Failed::of_data(format!(
            "the users in {name} take more bytes than the maximum of {FILE_BYTES_MAX}"
        ))
    })?;
    let text = String::from_utf8(bytes).map_err(|error| Failed::of_data(failed(&error)))?;
    parse(&text).map_err(|error| Failed::of_data(format!("the users in {name}: {error}")))
}

/// Reads users, a line each.
fn parse(text: &str) -> Result<Arc<List>, String> {
    let mut list = List::default();
    let mut rights = Rights::All;
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    for (place, line) in text.lines().enumerate() {
        let wrong = |what: &str| format!("line {}: {what}", place + 1);
        if line.is_empty() {
            continue;
        }
        if line.len() > LINE_BYTES_MAX {
            return Err(wrong(&format!("longer than {LINE_BYTES_MAX} bytes")));
        }
        if line == READ_ONLY {
            rights = Rights::Read;
            continue;
        }
        // The line itself is not shown: it may be a password.
        let (name, password) = line
            .split_once(':')
            .ok_or_else(|| wrong("not name:password; comments are not allowed"))?;
        if name.is_empty() || password.is_empty() {
            return Err(wrong("without a name or without a password"));
        }
        if list.users.iter().any(|user| user.name == name) {
            return Err(wrong(&format!("{name} is named twice")));
        }
        if list.users.len() == USERS_MAX {
            return Err(format!("more than {USERS_MAX}"));
        }
        let password = Password::parse(password).map_err(|text| wrong(&text))?;
        list.add(name, password, rights).map_err(|text| wrong(&text))?;
    }
    if list.users.is_empty() {
        return Err("there are none, so nobody could use the server".to_owned());
    }
    Ok(Arc::new(list))
}

/// Properties of any users: the body of the fuzz target.
#[cfg(any(test, fuzzing))]
pub mod fuzzing {
    use super::*;

    /// Any bytes are refused with a message, or are users within the limits, each of which is known
    /// by its name alone, with the rights that the lines say.
    pub fn users(input: &[u8]) {
        let text = String::from_utf8_lossy(input);
        let list = match parse(&text) {
            Ok(list) => list,
            Err(error) => return assert!(!error.is_empty()),
        };
        assert!((1..=USERS_MAX).contains(&list.users.len()));
        assert!(list.kinds.len() <= KINDS_MAX + 1);
        let written = written(&list);
        let again = parse(&written).expect("what was read can be read again");
        assert_eq!(super::fuzzing::written(&again), written);
        for user in &list.users {
            let is_meant = |(known, is_meant): &(&User, bool)| *is_meant && known.name == user.name;
            assert_eq!(list.trials(user.name.as_bytes()).filter(is_meant).count(), 1);
            if let Password::Plain(plain) = &user.password {
                assert!(user.password.is(plain) && !user.password.is(&[plain, &b"x"[..]].concat()));
            }
        }
    }

    /// A file with the same users.
    fn written(list: &List) -> String {
        let line = |user: &User| match &user.password {
            Password::Plain(plain) => {
                format!("{}:{}\r\n", user.name, String::from_utf8_lossy(plain))
            }
            Password::Hashed(hash) => format!("{}:{hash}\r\n", user.name),
        };
        let of = |rights: Rights| {
            list.users.iter().filter(|user| user.rights == rights).map(line).collect::<String>()
        };
        format!("{}{READ_ONLY}\n{}", of(Rights::All), of(Rights::Read))
    }
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
            let admitted = users.admit(name.as_bytes(), password.as_bytes());
            assert_eq!(admitted, Some(Rights::All), "{name}");
            for wrong in ["", "Secret", "secret ", "secre", "pass word:y", PBKDF2, ARGON2] {
                let admitted = users.admit(name.as_bytes(), wrong.as_bytes());
                assert_eq!(admitted, None, "{name} {wrong}");
            }
        }
        for name in ["", "bo", "bobb", "eve"] {
            assert_eq!(users.admit(name.as_bytes(), b"secret"), None, "{name}");
        }
    }

    #[test]
    fn users_behind_the_line_may_only_read() {
        let text = format!("bob:x\n[read-only]\nann:[read-only]\n[read-only]:y\neve:{PBKDF2}\n");
        let users = users(&text);
        for (name, password, rights) in [
            ("bob", "x", Rights::All),
            ("ann", "[read-only]", Rights::Read),
            ("[read-only]", "y", Rights::Read),
            ("eve", "secret", Rights::Read),
        ] {
            let admitted = users.admit(name.as_bytes(), password.as_bytes());
            assert_eq!(admitted, Some(rights), "{name}");
        }
        assert!(refused("[read-only]\n").contains("there are none"));
        assert!(refused("[readonly]\nbob:x\n").contains("line 1: not name:password"));
    }

    #[test]
    fn every_claim_takes_the_same_work() {
        let costlier = PBKDF2.replace("i=1000", "i=2000");
        let text = format!("bob:x\npia:{PBKDF2}\npat:{PBKDF2}\nava:{ARGON2}\ndan:{costlier}\n");
        let list = parse(&text).expect("good users");
        assert_eq!(list.kinds.len(), 4);
        for name in ["bob", "pia", "pat", "ava", "dan", "eve", ""] {
            let trials: Vec<_> = list.trials(name.as_bytes()).collect();
            let kinds: Vec<_> = trials.iter().map(|(user, _)| user.kind).collect();
            assert_eq!(kinds, [0, 1, 2, 3], "{name}");
            let meant: Vec<_> = trials.iter().filter(|(_, is_meant)| *is_meant).collect();
            let is_named = list.users.iter().any(|user| user.name == name);
            assert_eq!(meant.len(), usize::from(is_named), "{name}");
            assert!(meant.iter().all(|(user, _)| user.name == name));
        }
    }

    #[test]
    fn errors_in_a_file_are_reported() {
        for (text, what) in [
            ("", "there are none"),
            ("\n\n", "there are none"),
            ("bob:x\nann\n", "line 2: not name:password"),
            (":x", "line 1: without a name"),
            ("bob:", "line 1: without a name or without a password"),
            ("bob:x\nbob:y", "line 2: bob is named twice"),
            ("bob:$argon2id$v=19", "line 1: a hash without salt"),
            ("bob:$md5$c2FsdHNhbHRzYWx0$c2FsdHNhbHRzYWx0", "line 1: a hash by md5"),
            ("bob:$2y$05$abcdefghijklmnopqrstuu", "line 1: a hash by 2y; argon2id"),
            ("bob:$6$salt$mW", "line 1: a hash by 6; argon2id"),
            ("bob:$", "line 1: a hash by ; argon2id"),
            ("bob:$argon2id$v=19$m=64", "line 1: a hash without salt"),
            ("bob:$argon2id$?", "line 1: a bad hash"),
        ] {
            let told = refused(text);
            assert!(told.contains(what), "{text}: {told}");
        }
    }

    /// Regression: a hash with `m=4294967295` was accepted, and the first attempt to log in asked
    /// for 4 TiB.
    #[test]
    fn a_hash_that_takes_more_than_a_server_can_spare_is_refused() {
        let argon2 = |params: &str| format!("bob:{}", ARGON2.replace("m=64,t=1,p=1", params));
        let pbkdf2 = |rounds: &str| format!("bob:{}", PBKDF2.replace("1000", rounds));
        for text in [argon2("m=262144,t=64,p=1"), pbkdf2("10000000")] {
            assert!(parse(&text).is_ok(), "{text}");
        }
        for (text, what) in [
            (argon2("m=262145,t=1,p=1"), "of more than 262144 KiB or 64 passes: m=262145,t=1"),
            (argon2("m=4294967295,t=1,p=1"), "a hash"),
            (argon2("m=64,t=65,p=1"), "of more than 262144 KiB or 64 passes: m=64,t=65"),
            (argon2("m=0,t=1,p=1"), "that no password can be compared with"),
            (pbkdf2("10000001"), "of more than 10000000 rounds: i=10000001"),
            (pbkdf2("999"), "that no password can be compared with"),
        ] {
            let told = refused(&text);
            assert!(told.contains("line 1: a hash") && told.contains(what), "{text}: {told}");
        }
    }

    /// Regression: the file of the most users allowed, with the longest lines, was too long by its
    /// line ends.
    #[test]
    fn a_file_of_the_longest_lines_is_not_too_long() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("users");
        let line = |user: usize| format!("u{user:03}:{}\r\n", "x".repeat(LINE_BYTES_MAX - 5));
        std::fs::write(&path, (0..USERS_MAX).map(line).collect::<String>()).expect("a file");
        assert_eq!(read(&path).expect("good users").users.len(), USERS_MAX);
        let more = "\n".repeat(FILE_BYTES_MAX as usize + 1);
        std::fs::write(&path, more).expect("a file");
        assert!(read(&path).expect_err("too long").text.contains("more bytes than"));
    }

    /// Regression: it became part of the first name, so that no client could log in by that.
    #[test]
    fn a_byte_order_mark_is_no_part_of_a_name() {
        let users = users("\u{feff}bob:secret\n");
        assert_eq!(users.admit(b"bob", b"secret"), Some(Rights::All));
    }

    #[test]
    fn limits_hold_at_their_edges() {
        let some = |count: usize| (0..count).map(|user| format!("u{user}:x\n")).collect::<String>();
        assert_eq!(parse(&some(USERS_MAX)).expect("as many as may be").users.len(), USERS_MAX);
        assert!(refused(&some(USERS_MAX + 1)).contains("more than 256"));
        let long = |bytes: usize| format!("u:{}", "x".repeat(bytes - 2));
        assert!(parse(&long(LINE_BYTES_MAX)).is_ok());
        assert!(refused(&long(LINE_BYTES_MAX + 1)).contains("longer than 1024 bytes"));
        let kinds = |count: usize| {
            let line =
                |n: usize| format!("u{n}:{}\n", PBKDF2.replace("1000", &format!("{}", 1000 + n)));
            (1..=count).map(line).collect::<String>() + "plain:x\n"
        };
        assert_eq!(parse(&kinds(KINDS_MAX)).expect("few kinds").kinds.len(), KINDS_MAX + 1);
        assert!(refused(&kinds(KINDS_MAX + 1)).contains("line 9: more than 8 kinds of hashes"));
    }
}
