//! The turn of a connection that has sent a part of a long Redis command.
//!
//! ```text
//! unread  *3 $3 SET $1 k $1000000 xxxxxxxxx|........|
//!                                    length|capacity|            wanted: the command's end
//! buffer                                   |<- copied behind it ->|
//! ```
//!
//! The part stays where it is until the command is whole, or until its next header is here. What a
//! client has announced costs nothing before it comes, and input kept between reads counts with all
//! its capacity.

use std::mem;

use protocol::resp::Scan;

use super::{DIRECT_BYTES_MAX, READ_BYTES, TurnExecutor};
use crate::connection::{Close, Connection};
use crate::sampling::Sampling;

impl<'c, S: Sampling> TurnExecutor<'c, S> {
    /// Reads behind the part of a long command that is here, and executes the input when it has
    /// come to the command's end.
    pub(super) fn read_behind(&mut self, connection: &mut Connection<'c>) -> Result<(), Close> {
        let mut input = mem::take(&mut connection.unread);
        let scan = connection.redis.as_ref().map_or_else(Scan::default, |client| client.scan);
        let wanted = scan.wanted_bytes();
        let mut is_ended = false;
        // A whole command, or input longer than a header that has not been scanned, was kept from
        // being executed by parked output: that comes first.
        let is_begun = scan != Scan::default() && !scan.is_whole(input.len());
        let is_short = scan == Scan::default() && input.len() <= READ_BYTES;
        if connection.is_readable && (is_begun || is_short) {
            is_ended = self.read_on(connection, &mut input, wanted)?;
        }
        if input.len() >= wanted {
            let consumed = self.process(connection, &input)?;
            if connection.parked.is_empty() {
                self.flush(connection)?;
            }
            if consumed > 0 {
                input.drain(..consumed);
                input.shrink_to_fit();
            }
        }
        connection.unread = input;
        self.settle(connection, is_ended)
    }

    /// Reads behind `input` until that has `wanted` bytes, the socket has no more or the turn is
    /// long enough; returns whether the client sends no more. The bytes go through the worker's
    /// buffer: room in `input` would have to be zeroed for more than most reads bring.
    fn read_on(
        &mut self,
        connection: &mut Connection<'c>,
        input: &mut Vec<u8>,
        wanted: usize,
    ) -> Result<bool, Close> {
        let command_bytes_max = self.server.parked.command_bytes_max();
        let enough = wanted.min(input.len() + DIRECT_BYTES_MAX);
        loop {
            let target = &mut self.buffer[..READ_BYTES];
            let Some(read) = connection.read(target, self.counters)? else {
                return Ok(false);
            };
            let filled = input.len() + read;
            if filled > input.capacity() {
                let room = room_for(filled, wanted, command_bytes_max + READ_BYTES);
                input.reserve_exact(room - input.len());
            }
            input.extend_from_slice(&self.buffer[..read]);
            if read == 0 || filled >= enough || !connection.is_readable {
                return Ok(read == 0);
            }
        }
    }
}

/// The capacity for a part of a command with `filled` bytes now and at least `wanted` when whole,
/// at most `bytes_max`. A growing part is copied a few times at the most, and takes little more
/// memory than it is long, unless that much has been announced.
fn room_for(filled: usize, wanted: usize, bytes_max: usize) -> usize {
    let announced = wanted.min(2 * filled);
    announced.max(filled + filled / 4).min(bytes_max).max(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: bytes kept between reads were counted, but not the megabyte of capacity behind
    /// them.
    #[test]
    fn a_part_of_a_command_takes_little_more_than_it_is_long() {
        let bytes_max = 1 << 20;
        for filled in [1, 5_000, 100_000, 1 << 20] {
            // More is announced than has come, or nothing is known.
            for (wanted, most) in [(usize::MAX, 2 * filled), (0, filled + filled / 4)] {
                let room = room_for(filled, wanted, bytes_max);
                assert!((filled..=most.min(bytes_max)).contains(&room), "{filled}: {room}");
            }
            assert!(room_for(filled, usize::MAX, filled + 1) <= filled + 1, "{filled}");
        }
        assert_eq!(room_for(400_000, 500_000, bytes_max), 500_000, "no more than the whole");
    }

    #[test]
    fn a_part_that_grows_is_copied_a_few_times_at_the_most() {
        for wanted in [0, 1 << 20] {
            let (mut capacity, mut copied) = (0, 0);
            for filled in 5_000..=1 << 20 {
                if filled > capacity {
                    copied += filled - 1;
                    capacity = room_for(filled, wanted, 2 << 20);
                }
            }
            assert!(copied <= 5 << 20, "{copied} bytes for {wanted}");
        }
    }
}
