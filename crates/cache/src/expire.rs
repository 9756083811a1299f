//! The sweeps for what is expired, of the hot zone and of the compressed one: a part of each now
//! and then, while memory is full there, or nearly, and within a share of a processor.

use compressed::Writer;
use hot::expire::Sweep;

use crate::cache::Cache;
use crate::compressed_tier::CompressedTier;
use crate::cpu_budget::Allowance;
use crate::time_slice::TimeSlice;

/// A sweep goes on no sooner than so long after its last part,
const PAUSE_US: u64 = 20_000;
/// of so many steps at the most,
const STEPS: usize = 64;
/// and takes no more than this share of a processor.
const SHARE_MAX: f64 = 0.02;
/// While one in so many of the chunks that are looked at is taken, that is as good a way to make
/// room as any, and nobody asks how long it takes.
const WORTH_SHARE: u64 = 8;
/// So many chunks may be looked at in vain in each turn, to see whether that is so.
const VAIN_LOOKS: u64 = 512;
/// Leaves that a step below looks at, unless it finds one to rewrite before that.
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
    /// Takes what is expired from the hot zone, from when that is nearly full. Returns whether so
    /// much of it is found that nothing else need go at this moment.
    pub(crate) fn sweep_expired(&self, expiry: &mut HotSweep, turn: &mut TimeSlice) -> bool {
        let HotSweep { sweep, part } = expiry;
        if !self.hot.is_nearly_full() {
            return false;
        }
        self.sweep_part(part, || self.hot.sweep_expired(sweep, self));
        self.hot.wants_room() && self.sweep_for_room(sweep, turn)
    }

    /// Goes on with the sweep for as long as that is worth it, but no longer than a part. Returns
    /// whether it was until then.
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

    /// Takes what is expired from the compressed zone, while that is as good as full.
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

    /// A part of a sweep, if it is time for one and some is left to it. `step` returns whether to
    /// go on.
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
