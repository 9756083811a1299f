//! The sweeps for what is expired, of the hot zone and of the compressed one: a part of each now
//! and then, while memory is full there, and within a share of a processor.

use compressed::Writer;
use hot::expire::Sweep;

use crate::allowance::Allowance;
use crate::below::Below;
use crate::cache::Cache;

/// A sweep goes on no sooner than so long after its last part,
const PAUSE_US: u64 = 20_000;
/// of so many steps at the most,
const STEPS: usize = 64;
/// and takes no more than this share of a processor.
const SHARE_MAX: f64 = 0.02;
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
    /// Takes what is expired from the hot zone, while room is made there by eviction.
    pub(crate) fn sweep_expired(&self, expiry: &mut HotSweep) {
        let HotSweep { sweep, part } = expiry;
        if self.may_evict && self.hot.is_full() {
            self.sweep_part(part, || self.hot.sweep_expired(sweep, self));
        }
    }

    /// Takes what is expired from the compressed zone, while that is as good as full.
    pub(crate) fn sweep_expired_below(
        &self,
        below: &Below,
        part: &mut Part,
        writer: &mut Writer<'_>,
    ) {
        self.sweep_part(part, || {
            let zone = &below.zone;
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
