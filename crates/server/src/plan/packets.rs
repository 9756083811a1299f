//! [`Plan::fill`] of the binary protocol: a request has one key at most, and is never cut.

use larder::{Cache, Hash};
use protocol::binary::{self, Command, HEADER_BYTES};

use super::{Action, BATCH_KEYS_MAX, End, NO_HASH, Payload, Place, Plan, Step};
use crate::rights::{Rights, is_binary_change};

impl<'b> Plan<'b> {
    /// Fills a batch with the next requests.
    #[inline(never)]
    pub(super) fn fill_binary(
        &mut self,
        cache: &Cache,
        steps: &mut Vec<Step<'b>>,
        hashes: &mut Vec<Hash>,
    ) -> End {
        while steps.len() < BATCH_KEYS_MAX {
            let place = self.place;
            match binary::parse(self.rest()) {
                binary::Parsed::Incomplete => return End::Input,
                binary::Parsed::Request { request, consumed } => {
                    let line = &self.rest()[..consumed];
                    self.skip(consumed);
                    if self.rights != Rights::All
                        && let Some(is_end) = self.refuse_packet(&request, place, steps)
                    {
                        if is_end {
                            return End::Batch;
                        }
                        continue;
                    }
                    let step = self.binary_step(cache, request, line, place, hashes);
                    steps.push(step);
                    if step.payload == Payload::Part || ends_batch(&request) {
                        return End::Batch;
                    }
                }
                binary::Parsed::Refused { echo, .. } if self.rights == Rights::None => {
                    steps.push(unauthenticated(echo, place));
                    return End::Batch;
                }
                binary::Parsed::Refused { echo, status, swallow_bytes } => {
                    self.skip(HEADER_BYTES);
                    let is_fatal = swallow_bytes.is_none();
                    steps.push(Step::bare(Action::Refuse { echo, status, is_fatal }, place));
                    if is_fatal || self.swallow(swallow_bytes.unwrap_or(0)) {
                        return End::Batch;
                    }
                }
                binary::Parsed::Close => {
                    steps.push(Step::close(place));
                    return End::Batch;
                }
            }
        }
        End::Batch
    }

    /// Refuses a request that the client may not make; returns whether the batch ends there.
    #[cold]
    fn refuse_packet(
        &mut self,
        request: &binary::Request<'b>,
        place: Place,
        steps: &mut Vec<Step<'b>>,
    ) -> Option<bool> {
        if self.rights == Rights::None {
            if is_open(request) {
                return None;
            }
            steps.push(unauthenticated(request.echo, place));
            return Some(true);
        }
        if !is_binary_change(request) {
            return None;
        }
        let (echo, status) = (request.echo, binary::Status::AuthFailure);
        steps.push(Step::bare(Action::Refuse { echo, status, is_fatal: false }, place));
        let value_bytes = request.value_bytes().unwrap_or(0);
        Some(self.swallow(value_bytes as u64))
    }

    /// A step for one request, with as much of its value as is here.
    fn binary_step(
        &mut self,
        cache: &Cache,
        request: binary::Request<'b>,
        line: &'b [u8],
        place: Place,
        hashes: &mut Vec<Hash>,
    ) -> Step<'b> {
        let mut hash_at = NO_HASH;
        if let Some(key) = request.key() {
            hash_at = hashes.len();
            hashes.push(cache.hash(key));
        }
        let mut payload = Payload::None;
        if let Some(value_bytes) = request.value_bytes() {
            payload = match self.rest().get(..value_bytes) {
                Some(whole) => Payload::Whole(whole),
                None => Payload::Part,
            };
            if let Payload::Whole(whole) = payload {
                self.skip(whole.len());
            }
        }
        let (action, hash_end) = (Action::Binary(request), hashes.len());
        Step { action, line, payload, hash_at, hash_end, place }
    }
}

/// Whether an unauthenticated client may make this request.
fn is_open(request: &binary::Request<'_>) -> bool {
    matches!(request.command, Command::Version | Command::SaslList | Command::Sasl { .. })
}

/// As in memcached, any other request of an unauthenticated client ends the connection.
fn unauthenticated<'b>(echo: binary::Echo, place: Place) -> Step<'b> {
    let status = binary::Status::AuthFailure;
    Step::bare(Action::Refuse { echo, status, is_fatal: true }, place)
}

/// Whether this request may change the meaning of the input behind it.
fn ends_batch(request: &binary::Request<'_>) -> bool {
    matches!(request.command, Command::Quit | Command::Sasl { .. })
}

#[cfg(test)]
mod tests {
    use protocol::{Dialect, Wire};

    use super::*;

    /// A request without a CAS unique.
    fn packet(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x80, opcode, 0, key.len() as u8, extras.len() as u8, 0, 0, 0];
        let body_bytes = (extras.len() + key.len() + value.len()) as u32;
        packet.extend_from_slice(&body_bytes.to_be_bytes());
        packet.resize(HEADER_BYTES, 0);
        [&packet, extras, key, value].concat()
    }

    #[test]
    fn a_batch_of_packets_ends_where_a_value_is_not_all_there() {
        let cache = Cache::builder().memory_bytes(64 << 20).build().expect("a small cache");
        let (mut steps, mut hashes) = (Vec::new(), Vec::new());
        let get = packet(0x09, b"", b"a", b"");
        let set = packet(0x01, &[0; 8], b"b", b"value");
        let unknown = packet(0x77, b"", b"", b"skipped");
        let input = [&get[..], &set, &unknown, &get, &set[..set.len() - 2]].concat();
        let mut plan = Plan::new(&input, None, Dialect::default(), Wire::Binary);
        assert_eq!(plan.fill(&cache, &mut steps, &mut hashes), End::Batch);
        assert_eq!((steps.len(), hashes.len()), (5, 4));
        assert_eq!(steps[0].payload, Payload::None);
        assert_eq!(steps[1].payload, Payload::Whole(b"value"));
        assert!(matches!(steps[2].action, Action::Refuse { is_fatal: false, .. }));
        assert_eq!(steps[4].payload, Payload::Part);
        assert_eq!(plan.rest(), b"val");
    }

    #[test]
    fn nothing_is_planned_behind_lengths_that_do_not_fit() {
        let cache = Cache::builder().memory_bytes(64 << 20).build().expect("a small cache");
        let (mut steps, mut hashes) = (Vec::new(), Vec::new());
        let input = [packet(0x00, b"1234", b"a", b""), packet(0x0a, b"", b"", b"")].concat();
        let mut plan = Plan::new(&input, None, Dialect::default(), Wire::Binary);
        assert_eq!(plan.fill(&cache, &mut steps, &mut hashes), End::Batch);
        assert_eq!(steps.len(), 1);
        assert!(matches!(steps[0].action, Action::Refuse { is_fatal: true, .. }));
    }
}
