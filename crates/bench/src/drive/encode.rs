//! Requests as bytes, in the two dialects that the servers speak.

use std::io::Write;

use clap::ValueEnum;
use serde::Serialize;

/// The protocol of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// memcached's text protocol.
    Text,
    /// Redis's protocol.
    Resp,
}

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Read one key, or several in one request.
    Get,
    /// Store one item.
    Set,
}

/// Appends a request that reads all of `keys`.
pub fn get<'k>(dialect: Dialect, keys: impl ExactSizeIterator<Item = &'k [u8]>, out: &mut Vec<u8>) {
    match dialect {
        Dialect::Text => {
            out.extend_from_slice(b"get");
            for key in keys {
                out.push(b' ');
                out.extend_from_slice(key);
            }
            out.extend_from_slice(b"\r\n");
        }
        Dialect::Resp => {
            let name: &[u8] = if keys.len() == 1 { b"GET" } else { b"MGET" };
            push(out, format_args!("*{}\r\n", keys.len() + 1));
            bulk(name, out);
            keys.for_each(|key| bulk(key, out));
        }
    }
}

/// Appends a request that stores one item.
pub fn set(dialect: Dialect, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    match dialect {
        Dialect::Text => {
            out.extend_from_slice(b"set ");
            out.extend_from_slice(key);
            push(out, format_args!(" 0 0 {}\r\n", value.len()));
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
        Dialect::Resp => {
            out.extend_from_slice(b"*3\r\n");
            [b"SET", key, value].into_iter().for_each(|part| bulk(part, out));
        }
    }
}

fn bulk(part: &[u8], out: &mut Vec<u8>) {
    push(out, format_args!("${}\r\n", part.len()));
    out.extend_from_slice(part);
    out.extend_from_slice(b"\r\n");
}

fn push(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a vector takes every write");
}

#[cfg(test)]
mod tests {
    use super::{Dialect, get, set};

    #[test]
    fn requests_are_what_the_servers_expect() {
        let keys: [&[u8]; 2] = [b"ab", b"c"];
        let mut out = Vec::new();
        get(Dialect::Text, keys.into_iter(), &mut out);
        assert_eq!(out, b"get ab c\r\n");
        out.clear();
        get(Dialect::Resp, keys.into_iter(), &mut out);
        assert_eq!(out, b"*3\r\n$4\r\nMGET\r\n$2\r\nab\r\n$1\r\nc\r\n");
        out.clear();
        get(Dialect::Resp, keys[..1].iter().copied(), &mut out);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$2\r\nab\r\n");
        out.clear();
        set(Dialect::Text, b"ab", b"xyz", &mut out);
        assert_eq!(out, b"set ab 0 0 3\r\nxyz\r\n");
        out.clear();
        set(Dialect::Resp, b"ab", b"xyz", &mut out);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$2\r\nab\r\n$3\r\nxyz\r\n");
    }
}
