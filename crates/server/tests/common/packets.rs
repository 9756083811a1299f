//! The binary protocol from a client's side: packets built, sent, and read back.

#![allow(dead_code, reason = "every test binary uses a part of this")]

use std::io::{Read, Write};

use crate::common::Client;

/// A request.
#[derive(Debug, Clone, Default)]
pub struct Packet<'a> {
    pub opcode: u8,
    pub opaque: u32,
    pub cas: u64,
    pub extras: &'a [u8],
    pub key: &'a [u8],
    pub value: &'a [u8],
}

impl Packet<'_> {
    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0x80, self.opcode];
        bytes.extend_from_slice(&(self.key.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&[self.extras.len() as u8, 0, 0, 0]);
        let body_bytes = (self.extras.len() + self.key.len() + self.value.len()) as u32;
        bytes.extend_from_slice(&body_bytes.to_be_bytes());
        bytes.extend_from_slice(&self.opaque.to_be_bytes());
        bytes.extend_from_slice(&self.cas.to_be_bytes());
        [&bytes, self.extras, self.key, self.value].concat()
    }
}

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub opcode: u8,
    pub status: u16,
    pub opaque: u32,
    pub cas: u64,
    pub extras: Vec<u8>,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

impl<S: Read + Write> Client<S> {
    /// The next reply.
    #[track_caller]
    pub fn answer(&mut self) -> Answer {
        let mut header = [0; 24];
        self.stream.read_exact(&mut header).expect("a reply comes");
        assert_eq!(header[0], 0x81, "{header:?}");
        let number = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|byte| header[at + byte]));
        let mut body = vec![0; number(8) as usize];
        self.stream.read_exact(&mut body).expect("its body comes");
        let key_at = usize::from(header[4]);
        let value_at = key_at + usize::from(u16::from_be_bytes([header[2], header[3]]));
        Answer {
            opcode: header[1],
            status: u16::from_be_bytes([header[6], header[7]]),
            opaque: number(12),
            cas: u64::from(number(16)) << 32 | u64::from(number(20)),
            extras: body[..key_at].to_vec(),
            key: body[key_at..value_at].to_vec(),
            value: body[value_at..].to_vec(),
        }
    }

    /// Sends a request and returns its reply.
    #[track_caller]
    pub fn call(&mut self, packet: &Packet<'_>) -> Answer {
        self.send(&packet.bytes());
        let answer = self.answer();
        assert_eq!((answer.opcode, answer.opaque), (packet.opcode, packet.opaque));
        answer
    }

    /// Sends a request that is answered only with this status and its words; returns the reply's
    /// CAS unique.
    #[track_caller]
    pub fn expect_status(&mut self, packet: &Packet<'_>, status: u16) -> u64 {
        let answer = self.call(packet);
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.extras.is_empty() && answer.key.is_empty(), "{answer:?}");
        answer.cas
    }
}
