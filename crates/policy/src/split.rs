//! How memory is divided between the hot zone and the compressed zone.
//!
//! The hot zone serves a hit in a fraction of a microsecond; the compressed zone takes some
//! microseconds, and keeps several times as much in the same memory; a miss costs its user a
//! thousand times that. Now and then, after a *window* of requests, a rule looks at what happened
//! in it and moves one step of memory ([`STEP_SHARE`]) from one zone to the other, or leaves it.
//!
//! - [`Rule::Target`] is zExpander's (Wu and others, EuroSys 2016): a share of the hits is to be
//!   served by the hot zone. Below the share it grows, above it shrinks. What it ignores is what
//!   users pay: with many hits in the hot zone already, memory is spent on microseconds.
//! - [`Rule::Price`] compares prices, as SlimCache does for flash: the hits that more memory for
//!   the compressed zone would have gained, told by those misses whose item was evicted a moment
//!   ago (*ghosts*), less what the hot zone's items would take of it, at the price of a miss, or
//!   of a read from flash where that has them; and the hits that would be served compressed instead
//!   of hot, at the price of decompression. Above all stands a bound on the time that readers may
//!   take for it.
//!
//! What differs from zExpander: it counts expensive operations only, so that a flood of cheap ones
//! does not decide; here hits alone are counted, since misses and stores say nothing of which zone
//! would have served them.

/// The share of the memory that moves at a time, as in zExpander.
pub const STEP_SHARE: f64 = 0.03;
/// The hot zone keeps this share of the memory at least: what is read all the time, and what is
/// stored, needs some room to be told from the rest.
pub const HOT_SHARE_MIN: f64 = 0.06;
/// The compressed zone's share when memory first fills up.
pub const COMPRESSED_SHARE_START: f64 = 0.5;
/// How far from its target a share of hits may be without consequence.
const TARGET_SLACK: f64 = 0.01;
/// Below this part of what compression may take, it may take more.
const WORK_SLACK: f64 = 0.8;
/// Fewer hits than this say nothing.
const HITS_MIN: u64 = 256;
/// The gain that justifies a step back has to be so many times the loss: without it, noise would
/// move memory to and fro.
const PRICE_MARGIN: f64 = 4.0;

/// What happened in one window.
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
    /// Microseconds that one of these takes.
    pub flash_us: f64,
    /// Items that the compressed zone evicted.
    pub evicted: u64,
    /// Microseconds that readers took for unpacking.
    pub work_us: u64,
    /// Microseconds that the window took, times the threads that serve, as far as there are
    /// processors for them; 0 if nobody knows.
    pub elapsed_us: u64,
    /// The hot zone's share of the memory.
    pub hot_share: f64,
    /// How many items the hot zone has; 0 if nobody knows.
    pub hot_items: u64,
    /// Bytes of items in a byte of the hot zone, by those in a byte of the compressed zone.
    pub hot_density: f64,
}

/// What follows for the compressed zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It gets a step of memory from the hot zone.
    Grow,
    /// It gives one up.
    Shrink,
    /// Neither.
    Stay,
}

/// By what the split is decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// The share of hits, 0 to 1, that the hot zone shall serve.
    Target(f64),
    /// What hits and misses cost.
    Price(Prices),
}

/// What hits and misses cost, and how much time reading may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    /// Microseconds that a hit in the compressed zone takes beyond one in the hot zone.
    pub compressed_us: f64,
    /// Microseconds that a miss costs.
    pub miss_us: f64,
    /// The share of the serving threads' time that unpacking may take.
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
    /// What follows from a window.
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
    // Everything fits: more memory would gain nothing, and what is not used of the compressed
    // zone's is the hot zone's anyway.
    if window.evicted == 0 {
        return Step::Stay;
    }
    if window.hot_hits + window.compressed_hits < HITS_MIN {
        return Step::Stay;
    }
    // What no longer fits the hot zone takes its place in the step that is gained: of items that do
    // not compress the zone would hold no more, and earn nothing.
    let more = (1.0 - window.hot_density).max(0.0);
    let from_flash = window.ghosts_on_flash as f64 * window.flash_us.min(prices.miss_us);
    let gain = (window.ghost_hits as f64 * prices.miss_us + from_flash) * more;
    let part = (STEP_SHARE / window.hot_share.max(STEP_SHARE)).min(1.0);
    // What goes is what is read least. By Zipf's law with an exponent of 1 the first n items have
    // ln n of all reads, and the last of them so many times fewer than they have on average.
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
    fn the_price_of_misses_moves_memory_down_until_the_work_is_too_much() {
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
    fn what_flash_has_is_worth_a_read_from_it() {
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
