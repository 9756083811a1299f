//! The plan of an input in Redis' protocol: the table of commands says what a command is and where
//! its keys stand, and as many of its keys are hashed as the batch has room for.

use larder::{Cache, Hash};
use protocol::resp::{Command, Scan, Scanned, scan, scan_of_stranger};

use super::{Action, BATCH_KEYS_MAX, End, NO_HASH, Place, Plan, Step};
use crate::commands::redis::{Call, Keys, Lookup};
use crate::rights::Rights;

impl<'b> Plan<'b> {
    /// Goes on with a command that an earlier plan has begun to scan; one longer than `bytes_max`
    /// is refused.
    pub fn resume(&mut self, scan: Scan, bytes_max: usize) {
        self.scan = scan;
        self.command_bytes_max = bytes_max;
    }

    /// How far the command at `place`, where the plan was left, has been scanned: `place` is the
    /// plan's end, or before one of its last `steps`.
    pub fn scan_at(&self, place: Place, steps: &[Step<'b>]) -> Scan {
        if place == self.place {
            return self.scan;
        }
        match steps.iter().find(|step| step.place == place).map(|step| step.action) {
            Some(Action::Redis(Call::Command(command, _))) => {
                Scan::of_whole(command, &self.input[place.offset..])
            }
            _ => Scan::default(),
        }
    }

    /// [`Plan::fill`] of Redis' protocol.
    pub(super) fn fill_redis(
        &mut self,
        cache: &Cache,
        steps: &mut Vec<Step<'b>>,
        hashes: &mut Vec<Hash>,
    ) -> End {
        let bytes_max = self.command_bytes_max;
        while hashes.len() < BATCH_KEYS_MAX && steps.len() < BATCH_KEYS_MAX {
            let place = self.place;
            let is_stranger = self.rights == Rights::None;
            let scan = if is_stranger { scan_of_stranger } else { scan };
            let (call, consumed) = match scan(self.rest(), &mut self.scan, bytes_max) {
                Scanned::Incomplete => {
                    if self.scan.is_beyond(bytes_max) {
                        let forgotten = self.scan.forget(self.rest().len());
                        self.place.offset += forgotten;
                    }
                    return End::Input;
                }
                Scanned::Nothing(consumed) => {
                    self.place.offset += consumed;
                    continue;
                }
                Scanned::TooLarge(consumed) => (Call::TooLarge { bytes_max }, consumed),
                Scanned::Refused(refusal) => {
                    steps.push(Step::bare(Action::Redis(Call::Refused(refusal)), place));
                    return End::Batch;
                }
                Scanned::Command(command, consumed) => {
                    (Call::Command(command, Lookup::of(command)), consumed)
                }
            };
            self.place.offset += consumed;
            let mut step = Step::bare(Action::Redis(call), place);
            // A login may authenticate the client for the input behind it, and RESET log it out.
            let mut is_end = is_stranger;
            if let Action::Redis(Call::Command(command, lookup)) = &mut step.action {
                is_end |= lookup.may_reset(*command);
                step.hash_at = hashes.len();
                lookup.hashed = hash_keys(cache, *command, lookup.keys(), hashes);
            }
            step.hash_end = hashes.len();
            if step.hash_at == step.hash_end {
                step.hash_at = NO_HASH;
            }
            steps.push(step);
            if is_end {
                return End::Batch;
            }
        }
        End::Batch
    }
}

/// Hashes the first of a command's keys; returns how many.
fn hash_keys(cache: &Cache, command: Command<'_>, keys: Keys, hashes: &mut Vec<Hash>) -> usize {
    let room = BATCH_KEYS_MAX - hashes.len();
    let before = hashes.len();
    hashes.extend(keys.of(command).take(room).map(|key| cache.hash(key)));
    hashes.len() - before
}
