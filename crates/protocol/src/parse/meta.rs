//! The meta commands: `<verb> <key> [<bytes>] <flag>*`.
//!
//! All of them read the same flags, whether they use them or not; a flag that another command
//! knows is no error. One pass over the tokens fills [`Options`]. Which error is answered, if
//! there are several, goes by rank:
//!
//! 1. a token that does not start with a letter or digit: the line is malformed (and a payload is
//!    not skipped);
//! 2. the key is too long;
//! 3. there are too many tokens;
//! 4. the first flag that is unknown or stands there twice; what follows it is not read;
//! 5. the last bad argument;
//! 6. a bad mode (`M`), then a long opaque (`O`).
//!
//! `ma` calls 2 to 5 all the same. `P` and `L` are for proxies and take any argument. `Pc` and
//! digits up to the end of the token are the cost of the value. Every other `P` is a proxy's,
//! `Pcat`, `Pc-1` and `Pc12x` among them: ignored, as memcached ignores it, and no error.

use super::classic::{touch_expiry, value_length};
use super::tokens::{Tokens, ends_in_noreply};
use super::{Failure, Outcome, numbers};
use crate::base64_key;
use crate::refusal::Refusal;
use crate::request::{
    Direction, ExpiryTime, KEY_BYTES_MAX, Key, MetaArithmetic, MetaDelete, MetaFlags, MetaGet,
    MetaSet, Request, StoreMode,
};

/// The most tokens of a line, verb and key included.
const TOKENS_MAX: usize = 20;

/// The most bytes of an opaque behind its letter.
const OPAQUE_BYTES_MAX: usize = 31;

/// The options in the flags of a line.
#[derive(Debug, Clone, Copy, Default)]
struct Options {
    /// A bit for each letter that was there, counted from `@`.
    seen: u64,
    touch: Option<ExpiryTime>,
    vivify: Option<ExpiryTime>,
    recache: Option<ExpiryTime>,
    compare_cas: Option<u64>,
    new_cas: Option<u64>,
    client_flags: u32,
    delta: Option<u64>,
    initial: u64,
    cost_us: u32,
    /// The letter behind `M`; 0 if there is none.
    mode: Option<u8>,
    opaque_too_long: bool,
}

/// The error in a line of flags.
enum Flaw {
    /// An error of rank 2 to 5.
    Bad(Refusal),
    /// The error of rank 1.
    Malformed,
}

impl Options {
    #[inline]
    fn has(&self, letter: u8) -> bool {
        self.seen & letter_bit(letter) != 0
    }
}

#[inline]
fn letter_bit(letter: u8) -> u64 {
    1 << (letter & 63)
}

/// Reads the flags of a line whose first `tokens_before` tokens are not flags.
#[inline]
fn read(
    options: &mut Options,
    key: &[u8],
    flags: MetaFlags<'_>,
    tokens_before: usize,
) -> Result<(), Flaw> {
    let mut tokens_count = tokens_before;
    let mut fatal = None;
    let mut bad = None;
    for (letter, argument) in flags.iter() {
        if !matches!(letter, b'A'..=b'z' | b'0'..=b'9') {
            return Err(Flaw::Malformed);
        }
        tokens_count += 1;
        if fatal.is_some() {
            continue;
        }
        if letter < b'A' {
            fatal = Some(Refusal::InvalidFlag);
        } else if options.has(letter) {
            fatal = Some(Refusal::DuplicateFlag);
        } else {
            options.seen |= letter_bit(letter);
            match options.take(letter, argument, key) {
                Ok(()) => {}
                Err(Refusal::InvalidFlag) => fatal = Some(Refusal::InvalidFlag),
                // `F` has no error of its own: it keeps the one before it.
                Err(Refusal::BadCommandLineFormat) => {
                    bad = bad.or(Some(Refusal::BadCommandLineFormat));
                }
                Err(error) => bad = Some(error),
            }
        }
    }
    if key.len() > KEY_BYTES_MAX {
        Err(Flaw::Bad(Refusal::BadCommandLineFormat))
    } else if tokens_count > TOKENS_MAX {
        Err(Flaw::Bad(Refusal::OptionsTooLong))
    } else if let Some(error) = fatal.or(bad) {
        Err(Flaw::Bad(error))
    } else {
        Ok(())
    }
}

impl Options {
    /// Takes in one flag.
    #[inline]
    fn take(&mut self, letter: u8, argument: &[u8], key: &[u8]) -> Result<(), Refusal> {
        let seconds = || touch_expiry(argument).ok_or(Refusal::BadToken);
        let unique = || numbers::unsigned_64(argument).ok_or(Refusal::BadToken);
        match letter {
            b'v' | b'k' | b's' | b't' | b'c' | b'f' | b'l' | b'h' | b'u' | b'q' | b'x' | b'I'
            | b'L' => {}
            b'b' => check_base64(key)?,
            b'O' => self.opaque_too_long = argument.len() > OPAQUE_BYTES_MAX,
            b'P' => self.cost_us = cost_us(argument),
            b'T' => self.touch = Some(seconds()?),
            b'N' => self.vivify = Some(seconds()?),
            b'R' => self.recache = Some(seconds()?),
            b'C' => self.compare_cas = Some(unique()?),
            b'E' => self.new_cas = Some(unique()?),
            b'F' => {
                self.client_flags =
                    numbers::unsigned_32(argument).ok_or(Refusal::BadCommandLineFormat)?;
            }
            b'M' => self.mode = Some(argument.first().copied().unwrap_or(0)),
            b'J' => {
                self.initial =
                    numbers::unsigned_64(argument).ok_or(Refusal::InvalidInitialValue)?;
            }
            b'D' => {
                self.delta =
                    Some(numbers::unsigned_64(argument).ok_or(Refusal::InvalidDeltaValue)?);
            }
            _ => return Err(Refusal::InvalidFlag),
        }
        Ok(())
    }

    fn check_opaque(&self) -> Result<(), Refusal> {
        if self.opaque_too_long { Err(Refusal::OpaqueTooLong) } else { Ok(()) }
    }
}

/// The cost in the argument of a `P`; 0 if it has none.
fn cost_us(argument: &[u8]) -> u32 {
    argument.strip_prefix(b"c").and_then(numbers::cost_us).unwrap_or(0)
}

/// `flush_prefix prefix [b] [noreply]`: Larder's own, with a prefix as meta commands have keys.
#[inline(never)]
pub(super) fn flush_prefix(arguments: &[u8]) -> Outcome<'_> {
    let noreply = ends_in_noreply(arguments);
    let refused = |error| Failure::Refused { error, swallow_bytes: 0, quiet: noreply };
    let mut tokens = Tokens::new(arguments);
    let wire = tokens.next().filter(|wire| wire.len() <= KEY_BYTES_MAX);
    let wire = wire.ok_or(refused(Refusal::BadCommandLineFormat))?;
    let (base64, last) = match tokens.next() {
        Some(b"b") => (true, tokens.next()),
        last => (false, last),
    };
    if !matches!(last, None | Some(b"noreply")) || tokens.next().is_some() {
        return Err(refused(Refusal::BadCommandLineFormat));
    }
    if base64 {
        check_base64(wire).map_err(refused)?;
    }
    Ok(Request::FlushPrefix { prefix: Key { wire, base64 }, noreply })
}

#[inline(never)]
fn check_base64(key: &[u8]) -> Result<(), Refusal> {
    let mut scratch = [0; KEY_BYTES_MAX];
    match base64_key::decode(key, &mut scratch) {
        Some(_) => Ok(()),
        None => Err(Refusal::KeyDecode),
    }
}

/// The key and flags of `mg`, `md`, `ma` and `me`.
#[inline]
fn key_and_flags(arguments: &[u8]) -> Result<(&[u8], MetaFlags<'_>), Refusal> {
    let mut tokens = Tokens::new(arguments);
    let key = tokens.next().ok_or(Refusal::BadCommandLineFormat)?;
    Ok((key, MetaFlags(tokens.rest())))
}

/// The options of a line without payload.
#[inline]
fn options(key: &[u8], flags: MetaFlags<'_>) -> Result<Options, Refusal> {
    let mut options = Options::default();
    match read(&mut options, key, flags, 2) {
        Ok(()) => Ok(options),
        Err(Flaw::Bad(error)) => Err(error),
        Err(Flaw::Malformed) => Err(Refusal::BadCommandLineFormat),
    }
}

/// `mg k flag*`.
#[inline]
pub(super) fn get(arguments: &[u8]) -> Outcome<'_> {
    let (wire, flags) = key_and_flags(arguments)?;
    let options = options(wire, flags)?;
    options.check_opaque()?;
    Ok(Request::MetaGet(MetaGet {
        key: Key { wire, base64: options.has(b'b') },
        flags,
        value: options.has(b'v'),
        quiet: options.has(b'q'),
        touch: options.touch,
        vivify: options.vivify,
        recache: options.recache,
        new_cas: options.new_cas,
        known_cas: options.compare_cas,
    }))
}

/// `ms k bytes flag*`.
#[inline]
pub(super) fn set(arguments: &[u8]) -> Outcome<'_> {
    let mut tokens = Tokens::new(arguments);
    let (Some(wire), Some(bytes)) = (tokens.next(), tokens.next()) else {
        return Err(Refusal::BadCommandLineFormat.into());
    };
    let flags = MetaFlags(tokens.rest());
    let value_bytes = value_length(bytes).ok_or(Refusal::BadCommandLineFormat)?;
    let mut options = Options::default();
    let set = match read(&mut options, wire, flags, 3) {
        Ok(()) => stored(wire, flags, value_bytes, &options),
        Err(Flaw::Bad(error)) => Err(error),
        Err(Flaw::Malformed) => return Err(Refusal::BadCommandLineFormat.into()),
    };
    set.map(Request::MetaSet).map_err(|error| {
        let swallow_bytes = value_bytes as u64 + 2;
        Failure::Refused { error, swallow_bytes, quiet: false }
    })
}

#[inline]
fn stored<'b>(
    wire: &'b [u8],
    flags: MetaFlags<'b>,
    value_bytes: usize,
    options: &Options,
) -> Result<MetaSet<'b>, Refusal> {
    let mode = match options.mode {
        None | Some(b'S') => StoreMode::Set,
        Some(b'E') => StoreMode::Add,
        Some(b'A') => StoreMode::Append,
        Some(b'P') => StoreMode::Prepend,
        Some(b'R') => StoreMode::Replace,
        Some(_) => return Err(Refusal::InvalidSetMode),
    };
    options.check_opaque()?;
    Ok(MetaSet {
        key: Key { wire, base64: options.has(b'b') },
        flags,
        value_bytes,
        mode,
        client_flags: options.client_flags,
        expiry: options.touch.unwrap_or_default(),
        compare_cas: options.compare_cas,
        // Only here, 0 means that there is none.
        new_cas: options.new_cas.filter(|&unique| unique != 0),
        invalidate: options.has(b'I'),
        vivify: options.vivify,
        quiet: options.has(b'q'),
        cost_us: options.cost_us,
    })
}

/// `md k flag*`.
pub(super) fn delete(arguments: &[u8]) -> Outcome<'_> {
    let (wire, flags) = key_and_flags(arguments)?;
    let options = options(wire, flags)?;
    options.check_opaque()?;
    Ok(Request::MetaDelete(MetaDelete {
        key: Key { wire, base64: options.has(b'b') },
        flags,
        compare_cas: options.compare_cas,
        new_cas: options.new_cas,
        invalidate: options.has(b'I'),
        touch: options.touch,
        drop_value: options.has(b'x'),
        client_flags: options.client_flags,
        quiet: options.has(b'q'),
    }))
}

/// `ma k flag*`.
pub(super) fn arithmetic(arguments: &[u8]) -> Outcome<'_> {
    let (wire, flags) = key_and_flags(arguments)?;
    let mut options = Options::default();
    match read(&mut options, wire, flags, 2) {
        Ok(()) => {}
        Err(Flaw::Bad(_)) => return Err(Refusal::InvalidOrDuplicateFlag.into()),
        Err(Flaw::Malformed) => return Err(Refusal::BadCommandLineFormat.into()),
    }
    let direction = match options.mode {
        None | Some(b'I' | b'+') => Direction::Increment,
        Some(b'D' | b'-') => Direction::Decrement,
        Some(_) => return Err(Refusal::InvalidArithmeticMode.into()),
    };
    options.check_opaque()?;
    Ok(Request::MetaArithmetic(MetaArithmetic {
        key: Key { wire, base64: options.has(b'b') },
        flags,
        direction,
        delta: options.delta.unwrap_or(1),
        initial: options.initial,
        vivify: options.vivify,
        touch: options.touch,
        // Only here, 0 means any CAS unique.
        compare_cas: options.compare_cas.filter(|&unique| unique != 0),
        new_cas: options.new_cas,
        value: options.has(b'v'),
        quiet: options.has(b'q'),
    }))
}

/// `me k [b]`. Other flags say nothing, known or not.
pub(super) fn debug(arguments: &[u8]) -> Outcome<'_> {
    let (wire, flags) = key_and_flags(arguments)?;
    let base64 = flags.iter().any(|(letter, argument)| letter == b'b' && argument.is_empty());
    let malformed = flags.iter().any(|(letter, _)| !matches!(letter, b'A'..=b'z' | b'0'..=b'9'));
    if malformed || wire.len() > KEY_BYTES_MAX || (base64 && check_base64(wire).is_err()) {
        return Err(Refusal::BadCommandLineFormat.into());
    }
    Ok(Request::MetaDebug { key: Key { wire, base64 } })
}
