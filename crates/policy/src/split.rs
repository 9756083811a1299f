//! The division of memory between the hot zone and the compressed zone.
//!
//! The hot zone serves a hit in a fraction of a microsecond; the compressed zone takes some
//! microseconds, and keeps several times as much in the same memory; a miss costs its user a
//! thousand times that. Now and then, after a *window* of requests, a rule looks at the window's
//! events and moves one step of memory ([`STEP_SHARE`]) from one zone to the other, or leaves it.
//!
//! - [`Rule::Target`] is zExpander's (Wu and others, EuroSys 2016): the hot zone is to serve a
//!   given share of the hits. Below the share it grows, above it shrinks. What it ignores is what
//!   users pay: with many hits in the hot zone already, memory is spent on microseconds.
//! - [`Rule::Price`] compares prices, as SlimCache does for flash: the hits that more memory for
//!   the compressed zone would have gained, told by those misses whose item was evicted a moment
//!   ago (*ghosts*), less the part of it that the hot zone's items would take, at the price of a
//!   miss, or of a read from flash if the items are there; and the hits that would be served
//!   compressed instead of hot, at the price of decompression. Above all stands a bound on the
//!   readers' time for decompression.
//!
//! What differs from zExpander: it counts expensive operations only, so that a flood of cheap ones
//! does not decide; here hits alone are counted, since misses and stores say nothing of which zone
//! would have served them.

/// The share of the memory that moves at a time, as in zExpander.
pub const STEP_SHARE: f64 = 0.03;
/// The hot zone keeps this share of the memory at least: constantly read items, and new ones, need
/// some room to be told from the rest.
pub const HOT_SHARE_MIN: f64 = 0.06;
/// The compressed zone's share when memory first fills up.
pub const COMPRESSED_SHARE_START: f64 = 0.5;
/// The distance of a share of hits from its target that has no consequence.
const TARGET_SLACK: f64 = 0.01;
/// Decompression may take more as long as it takes less than this part of its limit.
const WORK_SLACK: f64 = 0.8;
/// Fewer hits than this say nothing.
const HITS_MIN: u64 = 256;
/// A step back needs a loss of this many times the gain: without this margin, noise would move
/// memory to and fro.
const PRICE_MARGIN: f64 = 4.0;

/// The events of one window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Window {
    /// Hits in the hot zone.
    pub hot_hits: u64,
    /// Hits in the compressed zone.
    pub compressed_hits: u64,
    /// Misses of items that would have been there with one more step for the compressed zone.
    pub ghost_hits: u64,
    /// Reads from flash of such items.
    pub ghosts_on_flash: u64,
    /// Microseconds that one of these reads takes.
    pub flash_us: f64,
    /// Items that the compressed zone evicted.
    pub evicted: u64,
    /// Microseconds that readers took for decompression.
    pub work_us: u64,
    /// Microseconds that the window took, times the threads that serve, as far as there are
    /// processors for them; 0 if unknown.
    pub elapsed_us: u64,
    /// The hot zone's share of the memory.
    pub hot_share: f64,
    /// The number of items in the hot zone; 0 if unknown.
    pub hot_items: u64,
    /// Bytes of items in a byte of the hot zone, by those in a byte of the compressed zone.
    pub hot_density: f64,
}

/// The decision for the compressed zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It gets a step of memory from the hot zone.
    Grow,
    /// It gives one up.
    Shrink,
    /// Neither.
    Stay,
}

/// The rule by which the split is decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// The share of hits, 0 to 1, that the hot zone is to serve.
    Target(f64),
    /// The costs of hits and misses.
    Price(Prices),
}

/// The costs of hits and misses, and a limit on the time for decompression.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    /// Microseconds that a hit in the compressed zone takes beyond one in the hot zone.
    pub compressed_us: f64,
    /// Microseconds that a miss costs.
    pub miss_us: f64,
    /// The share of the serving threads' time that decompression may take.
    pub work_share_max: f64,
}

impl Default for Prices {
    fn default() -> Self {
        Self { compressed_us: 3.0, miss_us: 1000.0, work_share_max: 0.25 }
    }
}

impl Default for Rule {
    fn default() -> Self {
        Self::Price(Prices::default())
    }
}

impl Rule {
    /// The step that follows from a window.
    pub fn decide(self, window: &Window) -> Step {
        match self {
            Self::Target(share) => target(share, window),
            Self::Price(prices) => price(prices, window),
        }
    }
}

fn target(share: f64, window: &Window) -> Step {
    let hits = window.hot_hits + window.compressed_hits;
    if hits < HITS_MIN {
        return Step::Stay;
    }
    let hot = window.hot_hits as f64 / hits as f64;
    if hot > share + TARGET_SLACK {
        Step::Grow
    } else if hot < share - TARGET_SLACK {
        Step::Shrink
    } else {
        Step::Stay
    }
}

fn price(prices: Prices, window: &Window) -> Step {
    let work_us_max = window.elapsed_us as f64 * prices.work_share_max;
    let is_known = window.elapsed_us > 0;
    if is_known && window.work_us as f64 > work_us_max {
        return Step::Shrink;
    }
    // Everything fits: more memory would gain nothing, and the unused part of the compressed zone's
    // is the hot zone's anyway.
    if window.evicted == 0 {
        return Step::Stay;
    }
    if window.hot_hits + window.compressed_hits < HITS_MIN {
        return Step::Stay;
    }
    // Items that no longer fit the hot zone take their place in the step that is gained: if they do
    // not compress, the zone would hold no more, and gain nothing.
    let more = (1.0 - window.hot_density).max(0.0);
    let from_flash = window.ghosts_on_flash as f64 * window.flash_us.min(prices.miss_us);
    let gain = (window.ghost_hits as f64 * prices.miss_us + from_flash) * more;
    let part = (STEP_SHARE / window.hot_share.max(STEP_SHARE)).min(1.0);
    // The least read items leave. By Zipf's law with an exponent of 1 the first n items have ln n
    // of all reads, and the last of them is read 1 / ln n times as often as the average.
    let least_read = (window.hot_items as f64).ln().max(1.0);
    let loss = window.hot_hits as f64 * part / least_read * prices.compressed_us;
    if gain > loss {
        let may_grow = !is_known || (window.work_us as f64) < work_us_max * WORK_SLACK;
        if may_grow { Step::Grow } else { Step::Stay }
    } else if gain * PRICE_MARGIN < loss {
        Step::Shrink
    } else {
        Step::Stay
    }
}

/// The compressed zone's share after a step, from its share before.
pub fn after(step: Step, share: f64) -> f64 {
    let moved = match step {
        Step::Grow => share + STEP_SHARE,
        Step::Shrink => share - STEP_SHARE,
        Step::Stay => share,
    };
    moved.clamp(0.0, 1.0 - HOT_SHARE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window {
        hot_hits: 9_000,
        compressed_hits: 1_000,
        ghost_hits: 100,
        ghosts_on_flash: 0,
        flash_us: 100.0,
        evicted: 500,
        work_us: 1_000,
        elapsed_us: 1_000_000,
        hot_share: 0.5,
        hot_items: 22_026,
        hot_density: 0.0,
    };

    #[test]
    fn a_target_is_approached_from_both_sides_and_kept() {
        let rule = Rule::Target(0.9);
        assert_eq!(rule.decide(&WINDOW), Step::Stay);
        assert_eq!(rule.decide(&Window { hot_hits: 20_000, ..WINDOW }), Step::Grow);
        assert_eq!(rule.decide(&Window { hot_hits: 5_000, ..WINDOW }), Step::Shrink);
        let few = Window { hot_hits: 100, compressed_hits: 10, ..WINDOW };
        assert_eq!(rule.decide(&few), Step::Stay, "too few to tell");
    }

    #[test]
    fn misses_move_memory_to_the_compressed_zone_up_to_the_work_limit() {
        let rule = Rule::default();
        assert_eq!(rule.decide(&WINDOW), Step::Grow);
        assert_eq!(rule.decide(&Window { work_us: 260_000, ..WINDOW }), Step::Shrink);
        assert_eq!(rule.decide(&Window { work_us: 240_000, ..WINDOW }), Step::Stay);
        assert_eq!(rule.decide(&Window { evicted: 0, ..WINDOW }), Step::Stay, "all fits");
        assert_eq!(
            rule.decide(&Window { ghost_hits: 0, ..WINDOW }),
            Step::Shrink,
            "nothing gained"
        );
        // A tenth of 6 % of 9000 hits move, since ln 22026 is 10: 54 times 3 us against a miss of
        // 1000 us.
        assert_eq!(rule.decide(&Window { ghost_hits: 1, ..WINDOW }), Step::Grow);
        let many = Window { hot_hits: 90_000, ..WINDOW };
        assert_eq!(rule.decide(&Window { ghost_hits: 1, ..many }), Step::Stay);
        assert_eq!(rule.decide(&Window { ghost_hits: 2, ..many }), Step::Grow);
        let even = Window { hot_items: 0, ..WINDOW };
        assert_eq!(rule.decide(&Window { ghost_hits: 1, ..even }), Step::Stay, "all are alike");
        assert_eq!(rule.decide(&Window { hot_density: 0.4, ..WINDOW }), Step::Grow);
        let incompressible = Window { hot_density: 1.0, ..WINDOW };
        assert_eq!(rule.decide(&incompressible), Step::Shrink, "it holds no more");
    }

    #[test]
    fn an_item_on_flash_is_worth_a_read_from_it() {
        let rule = Rule::default();
        let on_flash = |ghosts_on_flash, flash_us| {
            let window = Window { ghost_hits: 0, ghosts_on_flash, flash_us, ..WINDOW };
            rule.decide(&window)
        };
        // 162 us are lost.
        assert_eq!(on_flash(1, 1000.0), Step::Grow);
        assert_eq!(on_flash(1, 100.0), Step::Stay);
        assert_eq!(on_flash(2, 100.0), Step::Grow);
        assert_eq!(on_flash(1, 10.0), Step::Shrink);
        assert_eq!(on_flash(1, 1e9), on_flash(1, 1000.0), "a miss is no worse");
    }

    #[test]
    fn without_a_clock_only_prices_decide() {
        let blind = Window { work_us: 1_000_000, elapsed_us: 0, ..WINDOW };
        assert_eq!(Rule::default().decide(&blind), Step::Grow);
    }

    #[test]
    fn steps_end_at_the_edges() {
        let mut share = COMPRESSED_SHARE_START;
        for _ in 0..100 {
            share = after(Step::Grow, share);
        }
        assert_eq!(share, 1.0 - HOT_SHARE_MIN);
        for _ in 0..100 {
            share = after(Step::Shrink, share);
        }
        assert_eq!(share, 0.0);
        assert_eq!(after(Step::Stay, 0.3), 0.3);
    }
}
