//! The sweeps for expired items, of the hot zone and of the compressed one: a part of each now and
//! then, while memory is full there, or nearly, and within a share of a processor.

use compressed::Writer;
use hot::expire::Sweep;

use crate::cache::Cache;
use crate::compressed_tier::CompressedTier;
use crate::cpu_budget::Allowance;
use crate::time_slice::TimeSlice;

/// Microseconds after a part of a sweep before which it does not go on.
const PAUSE_US: u64 = 20_000;
/// Steps of a part, at most.
const STEPS: usize = 64;
/// The largest share of a processor that sweeps take.
const SHARE_MAX: f64 = 0.02;
/// While one in this many of the chunks that are looked at is taken, a sweep is as good a way to
/// make room as any, and its time is not limited.
const WORTH_SHARE: u64 = 8;
/// Chunks that may be looked at in vain in each turn, to see whether that is so.
const VAIN_LOOKS: u64 = 512;
/// Leaves that a step in the compressed zone looks at, unless it finds one to rewrite before that.
const LEAVES_A_STEP: usize = 256;

/// When a sweep goes on, and the time that it may take.
#[derive(Debug, Default)]
pub(crate) struct Part {
    allowance: Allowance,
    /// By the monotonic clock.
    next_us: u64,
}

/// The sweep of the hot zone.
#[derive(Debug, Default)]
pub(crate) struct HotSweep {
    sweep: Sweep,
    part: Part,
}

impl Cache {
    /// Takes expired items from the hot zone, once that is nearly full. Returns whether it finds so
    /// many that no other item need leave at this moment.
    pub(crate) fn sweep_expired(&self, expiry: &mut HotSweep, turn: &mut TimeSlice) -> bool {
        let HotSweep { sweep, part } = expiry;
        if !self.hot.is_nearly_full() {
            return false;
        }
        self.sweep_part(part, || self.hot.sweep_expired(sweep, self));
        self.hot.wants_room() && self.sweep_for_room(sweep, turn)
    }

    /// Goes on with the sweep for as long as that is worth it, but no longer than a part. Returns
    /// whether it was worth it to the end.
    fn sweep_for_room(&self, sweep: &mut Sweep, turn: &mut TimeSlice) -> bool {
        let before = sweep.found();
        let taken = |sweep: &Sweep| sweep.found().taken - before.taken;
        let is_worth_it = |sweep: &Sweep| {
            let looks = sweep.found().looks - before.looks;
            taken(sweep) * WORTH_SHARE + VAIN_LOOKS >= looks
        };
        for _ in 0..STEPS {
            if !self.hot.sweep_expired(sweep, self) || !is_worth_it(sweep) {
                return false;
            }
            turn.end_if_long(&*self.clock);
        }
        taken(sweep) > 0
    }

    /// Takes expired items from the compressed zone, while that is as good as full.
    pub(crate) fn sweep_expired_compressed(
        &self,
        compressed: &CompressedTier,
        part: &mut Part,
        writer: &mut Writer<'_>,
    ) {
        self.sweep_part(part, || {
            let zone = &compressed.zone;
            zone.wants_expired() && zone.sweep_expired(LEAVES_A_STEP, self.now(), writer)
        });
    }

    /// Does a part of a sweep, if it is due and has time left. `step` returns whether to go on.
    fn sweep_part(&self, part: &mut Part, mut step: impl FnMut() -> bool) {
        let now_us = self.clock.monotonic_us();
        if now_us < part.next_us {
            return;
        }
        part.next_us = now_us + PAUSE_US;
        part.allowance.refill(now_us, SHARE_MAX);
        if !part.allowance.has_any() {
            return;
        }
        let began_us = self.clock.thread_cpu_us();
        for _ in 0..STEPS {
            if !step() {
                break;
            }
        }
        part.allowance.spend(self.clock.thread_cpu_us().saturating_sub(began_us));
    }
}
