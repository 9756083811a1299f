//! The packed form: an item as a record, and its layout among the rows of a block.
//!
//! ```text
//!   +-------+-------+--------------+-------+--------+--------+------+------+-------+-----+-------+
//!   | key   | shape | value bytes  | flags | expiry | custom | cost | mark | early | key | value |
//!   | bytes | u8    | LEB128, 1..5 | u32   | u32    | u64    | u16  | u8   | u16   |     | or no |
//!   +-------+-------+--------------+-------+--------+--------+------+------+-------+-----+-------+
//!                                    fields that are there only when they are not default
//!
//!   shape   0 flags   1 expiry   2 custom CAS   3 cost   4 mark   5 base64 key   6 long   7 early
//! ```
//!
//! An item without fields takes three bytes, which compress to almost nothing because they repeat.
//! A *long* row has its value in a block of its own, and nothing behind its key.

use crate::Damaged;
use policy::cost::Cost;

/// The longest key, in bytes.
pub const RECORD_KEY_BYTES_MAX: usize = u8::MAX as usize;

/// The most bytes of a row beside key and value: sizes, shape and all fields.
pub const ROW_HEAD_BYTES_MAX: usize = 2 + VALUE_SIZE_BYTES_MAX + 4 + 4 + 8 + 2 + 1 + 2;
const VALUE_SIZE_BYTES_MAX: usize = 5;

const SHAPE_FLAGS: u8 = 1 << 0;
const SHAPE_EXPIRY: u8 = 1 << 1;
const SHAPE_CUSTOM: u8 = 1 << 2;
const SHAPE_COST: u8 = 1 << 3;
const SHAPE_MARK: u8 = 1 << 4;
const SHAPE_BASE64: u8 = 1 << 5;
const SHAPE_LONG: u8 = 1 << 6;
const SHAPE_EARLY: u8 = 1 << 7;

/// The fields kept beside key and value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fields {
    /// Client flags.
    pub flags: u32,
    /// Unix seconds at which the item expires; 0 never.
    pub expiry: u32,
    /// Milliseconds, less than a second's, by which the item expires earlier.
    pub early_ms: u16,
    /// A CAS unique of the client's choice.
    pub custom_cas: Option<u64>,
    /// The client sent the key in base64.
    pub base64_key: bool,
    /// The cost of making the item again.
    pub cost: Cost,
    /// The bits of the hot zone's mark that outlast the move: fetched, win token sent, stale.
    pub mark: u8,
}

impl Fields {
    /// Whether the item has expired at `now` (Unix seconds), regardless of `early_ms`: readers of
    /// the item check that, and it is no reason to look for the item earlier.
    #[inline]
    pub fn is_expired(&self, now: u32) -> bool {
        self.expiry != 0 && self.expiry <= now
    }
}

/// An item on its way into the zone or out of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'r> {
    /// The key, 1 to 255 bytes.
    pub key: &'r [u8],
    /// The value.
    pub value: &'r [u8],
    /// The rest.
    pub fields: Fields,
}

/// A row as it lies in the raw bytes of a block.
#[derive(Debug, Clone, Copy)]
pub struct Row<'r> {
    /// The key.
    pub key: &'r [u8],
    /// The value; empty where it is long.
    pub value: &'r [u8],
    /// Bytes of the value, wherever it is.
    pub value_bytes: usize,
    /// Whether the value is elsewhere.
    pub long: bool,
    /// The rest.
    pub fields: Fields,
    /// The row itself.
    pub bytes: &'r [u8],
}

/// Appends a record as a row; without its value if that is `long`.
pub fn write_row(record: &Record<'_>, long: bool, target: &mut Vec<u8>) {
    write_row_head(record.key, &record.fields, record.value.len(), long, target);
    if !long {
        target.extend_from_slice(record.value);
    }
}

/// Appends a row up to its value, which is `long` or follows.
pub fn write_row_head(
    key: &[u8],
    fields: &Fields,
    value_bytes: usize,
    long: bool,
    target: &mut Vec<u8>,
) {
    let mut shape = if long { SHAPE_LONG } else { 0 };
    let shape_at = target.len() + 1;
    target.extend_from_slice(&[key.len() as u8, 0]);
    write_size(value_bytes, target);
    if fields.flags != 0 {
        shape |= SHAPE_FLAGS;
        target.extend_from_slice(&fields.flags.to_le_bytes());
    }
    if fields.expiry != 0 {
        shape |= SHAPE_EXPIRY;
        target.extend_from_slice(&fields.expiry.to_le_bytes());
    }
    if let Some(unique) = fields.custom_cas {
        shape |= SHAPE_CUSTOM;
        target.extend_from_slice(&unique.to_le_bytes());
    }
    if fields.cost.is_known() {
        shape |= SHAPE_COST;
        target.extend_from_slice(&fields.cost.0.to_le_bytes());
    }
    if fields.mark != 0 {
        shape |= SHAPE_MARK;
        target.push(fields.mark);
    }
    if fields.base64_key {
        shape |= SHAPE_BASE64;
    }
    if fields.early_ms != 0 {
        shape |= SHAPE_EARLY;
        target.extend_from_slice(&fields.early_ms.to_le_bytes());
    }
    target[shape_at] = shape;
    target.extend_from_slice(key);
}

fn write_size(size: usize, target: &mut Vec<u8>) {
    let mut rest = size;
    while rest >= 0x80 {
        target.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    target.push(rest as u8);
}

/// The rows of a block, one after the other; anything that cannot be a row is damage, and ends
/// them.
#[derive(Debug, Clone)]
pub struct Rows<'r> {
    rest: &'r [u8],
}

impl<'r> Rows<'r> {
    /// The rows in these raw bytes.
    pub fn new(raw: &'r [u8]) -> Self {
        Self { rest: raw }
    }

    /// The next row, which must be there.
    #[inline]
    pub fn next_row(&mut self) -> Result<Row<'r>, Damaged> {
        let (row, rest) = read_row(self.rest).ok_or(Damaged)?;
        self.rest = rest;
        Ok(row)
    }

    /// Whether all bytes have been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

#[inline]
fn read_row(bytes: &[u8]) -> Option<(Row<'_>, &[u8])> {
    let (&key_bytes, rest) = bytes.split_first().filter(|(key_bytes, _)| **key_bytes > 0)?;
    let (&shape, rest) = rest.split_first()?;
    let (value_bytes, mut rest) = read_size(rest)?;
    let mut fields = Fields::default();
    if shape & !SHAPE_LONG != 0 {
        (fields, rest) = read_fields(shape, rest)?;
    }
    let long = shape & SHAPE_LONG != 0;
    let (key, rest) = rest.split_at_checked(key_bytes.into())?;
    let (value, rest) = rest.split_at_checked(if long { 0 } else { value_bytes })?;
    let bytes = &bytes[..bytes.len() - rest.len()];
    Some((Row { key, value, value_bytes, long, fields, bytes }, rest))
}

fn read_size(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut size = 0;
    for (index, &byte) in bytes.iter().take(VALUE_SIZE_BYTES_MAX).enumerate() {
        size |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((size, &bytes[index + 1..]));
        }
    }
    None
}

fn read_fields(shape: u8, bytes: &[u8]) -> Option<(Fields, &[u8])> {
    let mut fields = Fields { base64_key: shape & SHAPE_BASE64 != 0, ..Fields::default() };
    let mut rest = bytes;
    if shape & SHAPE_FLAGS != 0 {
        fields.flags = u32::from_le_bytes(take(&mut rest)?);
    }
    if shape & SHAPE_EXPIRY != 0 {
        fields.expiry = u32::from_le_bytes(take(&mut rest)?);
    }
    if shape & SHAPE_CUSTOM != 0 {
        fields.custom_cas = Some(u64::from_le_bytes(take(&mut rest)?));
    }
    if shape & SHAPE_COST != 0 {
        fields.cost = Cost(u16::from_le_bytes(take(&mut rest)?));
    }
    if shape & SHAPE_MARK != 0 {
        [fields.mark] = take(&mut rest)?;
    }
    if shape & SHAPE_EARLY != 0 {
        fields.early_ms = u16::from_le_bytes(take(&mut rest)?);
    }
    Some((fields, rest))
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Vec<Record<'static>> {
        let full = Fields {
            flags: 7,
            expiry: 1_700_000_000,
            early_ms: 999,
            custom_cas: Some(u64::MAX),
            base64_key: true,
            cost: Cost(u16::MAX),
            mark: 0b1110,
        };
        let plain = Fields::default();
        vec![
            Record { key: b"a", value: b"", fields: plain },
            Record { key: &[b'k'; RECORD_KEY_BYTES_MAX], value: &[b'v'; 127], fields: full },
            Record { key: b"key", value: &[b'v'; 128], fields: plain },
            Record { key: b"b", value: b"v", fields: Fields { mark: 2, ..plain } },
            Record { key: b"c", value: b"v", fields: Fields { base64_key: true, ..plain } },
        ]
    }

    #[test]
    fn rows_come_back_as_they_were() {
        let mut raw = Vec::new();
        for (index, record) in records().iter().enumerate() {
            let start = raw.len();
            write_row(record, index == 2, &mut raw);
            let head = raw.len() - start - record.key.len();
            assert!(head - if index == 2 { 0 } else { record.value.len() } <= ROW_HEAD_BYTES_MAX);
        }
        let mut rows = Rows::new(&raw);
        for (index, record) in records().iter().enumerate() {
            let row = rows.next_row().expect("undamaged");
            assert_eq!((row.key, row.fields), (record.key, record.fields));
            assert_eq!((row.long, row.value_bytes), (index == 2, record.value.len()));
            assert_eq!(row.value, if row.long { b"" } else { record.value });
        }
        assert!(rows.is_empty() && rows.next_row().is_err());
    }

    #[test]
    fn a_plain_row_has_three_bytes_beside_key_and_value() {
        let mut raw = Vec::new();
        write_row(
            &Record { key: b"k", value: b"value", fields: Fields::default() },
            false,
            &mut raw,
        );
        assert_eq!(raw.len(), 3 + 1 + 5);
    }

    /// No item has an empty key: a process that took one over from a device would panic.
    #[test]
    fn a_row_without_a_key_is_damage() {
        let mut raw = Vec::new();
        write_row(&Record { key: b"k", ..records()[0] }, false, &mut raw);
        assert!(Rows::new(&raw).next_row().is_ok());
        raw.clear();
        write_row(&Record { key: b"", ..records()[0] }, false, &mut raw);
        assert!(Rows::new(&raw).next_row().is_err());
    }

    #[test]
    fn a_truncated_or_changed_row_is_damage_and_never_a_panic() {
        let mut raw = Vec::new();
        write_row(&records()[1], false, &mut raw);
        for end in 0..raw.len() {
            assert!(Rows::new(&raw[..end]).next_row().is_err(), "{end}");
        }
        for at in 0..raw.len() {
            for flip in 1..=u8::MAX {
                let mut changed = raw.clone();
                changed[at] ^= flip;
                let mut rows = Rows::new(&changed);
                while rows.next_row().is_ok() {}
            }
        }
    }
}
