//! CLOCK with costs in many variants, beside LRU, GreedyDual and Larder's own.
//!
//! `cargo run --release -p larder-policy --example cost_variants`
//!
//! Prints, for every variant and every configuration of costs, how much of the cost that LRU pays
//! is saved, as a share of what GreedyDual saves, and in brackets how many items the hand looks at
//! for each eviction. The configurations are those of `larder-bench workload` that do not need
//! values of several sizes. Keys are drawn from Zipf's law with an exponent of 0.99, a miss is
//! stored, and the first half of the requests is not counted. No time is measured, so every run
//! prints the same.

use std::collections::VecDeque;

use larder_policy::Verdict;
use larder_policy::cost_clock::CostClock;
use larder_policy::gd_wheel::{Link, Shape, Wheels};
use stdx::random::split_mix;

const KEYS: u32 = 30_000;
/// Items that a cache has room for: LRU hits about 95 % and 70 %.
const SIZES: [usize; 2] = [21_000, 3_000];
const REQUESTS: usize = 4_000_000;
const SEEDS: u64 = 2;
const SKEW: f64 = 0.99;

type Group = (f64, (u32, u32));
const LOW: (u32, u32) = (10, 30);
const MIDDLE: (u32, u32) = (120, 180);
const HIGH: (u32, u32) = (350, 450);
const CONFIGURATIONS: &[(&str, &[Group])] = &[
    ("gd-1", &[(0.80, LOW), (0.15, MIDDLE), (0.05, HIGH)]),
    ("gd-2", &[(0.20, LOW), (0.75, MIDDLE), (0.05, HIGH)]),
    ("gd-3", &[(0.50, LOW), (0.25, MIDDLE), (0.25, HIGH)]),
    ("same", &[(1.0, (20, 20))]),
    ("two", &[(0.95, LOW), (0.05, HIGH)]),
    ("rare", &[(0.99, LOW), (0.01, (2000, 4000))]),
    ("mild", &[(0.80, LOW), (0.20, (20, 60))]),
    ("steep", &[(0.80, LOW), (0.15, (100, 300)), (0.05, (1000, 3000))]),
    ("even", &[(1.0, (10, 450))]),
    ("inverse", &[(0.05, LOW), (0.15, MIDDLE), (0.80, HIGH)]),
    ("partly", &[(0.10, (1, 1)), (0.90, (1000, 1000))]),
];
const SAME: usize = 3;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        (split_mix(&mut self.0) >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn requests(seed: u64) -> Vec<u32> {
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=KEYS)
        .map(|rank| {
            sum += f64::from(rank).powf(-SKEW);
            sum
        })
        .collect();
    let mut random = Random(seed);
    let mut draw = || {
        let place = random.unit() * sum;
        sums.partition_point(|&end| end < place).min(sums.len() - 1) as u32
    };
    (0..REQUESTS).map(|_| draw()).collect()
}

fn costs(groups: &[Group], seed: u64) -> Vec<u32> {
    let mut random = Random(!seed);
    let mut draw = || {
        let (group, place) = (random.unit(), random.unit());
        let mut end = 0.0;
        let found = groups.iter().find(|(share, _)| {
            end += share;
            group < end
        });
        let (_, (low, high)) = found.unwrap_or(&groups[groups.len() - 1]);
        low + (f64::from(high - low + 1) * place) as u32
    };
    (0..KEYS).map(|_| draw()).collect()
}

/// The policy that decides.
enum Rule {
    /// Every cost is the same, whatever the policy is told.
    Lru,
    GreedyDual,
    /// GreedyDual in which a hit sets a bit, and a victim that has it is renewed.
    Lazy,
    /// Larder's credit.
    Credit(CostClock),
    /// Another credit.
    Variant(Variant),
}

/// When a hit gives new credit.
#[derive(Clone, Copy, PartialEq)]
enum Charge {
    AtOnce,
    WhenUsedUp,
}

/// The mean from which a unit of cost is made.
#[derive(Clone, Copy)]
enum Unit {
    Harmonic,
    Geometric,
    Mean,
    /// The mean of the victims' costs.
    Victims,
}

/// How a credit follows from units, and how a pass lowers it.
#[derive(Clone, Copy, PartialEq)]
enum Scale {
    /// One by one.
    Linear,
    /// The logarithm; a credit of `c` is lowered in one round of `2^(c - 1)`.
    Logarithmic,
}

#[derive(Clone, Copy)]
struct Variant {
    charge: Charge,
    scale: Scale,
    unit: Unit,
    /// The unit as a part of the mean.
    part: f64,
    /// Bits of credit.
    bits: u32,
    /// Steps per factor of two in which a cost is known; 0 exactly.
    steps: f64,
    mean: f64,
    round: u64,
}

impl Variant {
    fn learn(&mut self, cost: u32) {
        let cost = f64::from(cost);
        let cost = match self.unit {
            Unit::Harmonic => cost.recip(),
            Unit::Geometric => cost.log2(),
            Unit::Mean | Unit::Victims => cost,
        };
        self.mean += if self.mean == 0.0 { cost } else { (cost - self.mean) / 1024.0 };
    }

    fn credit(&self, cost: u32) -> u32 {
        let mut cost = f64::from(cost);
        if self.steps > 0.0 {
            cost = ((cost.log2() * self.steps).round() / self.steps).exp2();
        }
        let mean = match self.unit {
            Unit::Harmonic => self.mean.recip(),
            Unit::Geometric => self.mean.exp2(),
            Unit::Mean | Unit::Victims => self.mean,
        };
        let units = cost / (mean * self.part);
        let rounds = match self.scale {
            Scale::Linear => units.round(),
            Scale::Logarithmic => units.max(1.0).log2().round() + 1.0,
        };
        (rounds as u32).clamp(1, (1 << self.bits) - 1)
    }

    /// The mark after a pass, or `None` if the item is evicted: a bit for a hit, and the credit.
    fn pass(&self, mark: u32, cost: u32) -> Option<u32> {
        let (credit, is_recent) = (mark >> 1, mark & 1 != 0);
        match (credit, self.scale) {
            (0, _) => is_recent.then(|| (self.credit(cost) - 1) << 1),
            (_, Scale::Logarithmic) if !self.round.is_multiple_of(1 << (credit - 1)) => Some(mark),
            _ => Some(mark - 2),
        }
    }
}

/// A cache: wheels, or a ring whose front is under the hand.
struct Cache {
    items_max: usize,
    rule: Rule,
    wheels: Wheels,
    links: Vec<Link>,
    ring: VecDeque<u32>,
    is_in: Vec<bool>,
    marks: Vec<u32>,
    passes: u64,
    /// Passes until the hand has come round.
    passes_left: usize,
}

impl Cache {
    fn new(rule: Rule, items_max: usize) -> Cache {
        let (keys, shape) = (KEYS as usize, Shape::default());
        let (links, marks) = (vec![Link::default(); keys], vec![0; keys]);
        let (wheels, ring) = (Wheels::new(shape), VecDeque::new());
        let is_in = vec![false; keys];
        let passes_left = items_max;
        Cache { items_max, rule, wheels, links, ring, is_in, marks, passes: 0, passes_left }
    }

    fn access(&mut self, key: u32, costs: &[u32]) -> bool {
        let (at, cost) = (key as usize, costs[key as usize]);
        if self.is_in[at] {
            self.marks[at] = match &self.rule {
                Rule::Variant(variant) if variant.charge == Charge::AtOnce => {
                    variant.credit(cost) << 1
                }
                _ => self.marks[at] | 1,
            };
            if matches!(self.rule, Rule::Lru | Rule::GreedyDual) {
                self.wheels.renew(&mut self.links, key);
            }
            return true;
        }
        while self.wheels.items() as usize + self.ring.len() >= self.items_max {
            self.pass(costs);
        }
        self.is_in[at] = true;
        self.marks[at] = match &mut self.rule {
            Rule::Credit(policy) => u32::from(policy.store(cost)),
            Rule::Variant(variant) => {
                if !matches!(variant.unit, Unit::Victims) || variant.mean == 0.0 {
                    variant.learn(cost);
                }
                (variant.credit(cost) - 1) << 1
            }
            _ => 0,
        };
        match self.rule {
            Rule::Lru => self.wheels.insert(&mut self.links, key, 0),
            Rule::GreedyDual | Rule::Lazy => self.wheels.insert(&mut self.links, key, cost),
            _ => self.ring.push_back(key),
        }
        false
    }

    /// Judges the next item, which is evicted or stays.
    fn pass(&mut self, costs: &[u32]) {
        self.passes += 1;
        let next = self.ring.pop_front().or_else(|| self.wheels.pop(&mut self.links));
        let key = next.expect("a full cache has something next");
        let (mark, cost) = (&mut self.marks[key as usize], costs[key as usize]);
        let spared = match &self.rule {
            Rule::Lru | Rule::GreedyDual => None,
            Rule::Lazy => (*mark != 0).then_some(0),
            Rule::Credit(policy) => match policy.pass(*mark as u8, cost) {
                Verdict::Evict => None,
                Verdict::Keep(mark) => Some(u32::from(mark)),
            },
            Rule::Variant(variant) => variant.pass(*mark, cost),
        };
        match (spared, &mut self.rule) {
            (Some(spared), Rule::Lazy) => {
                *mark = spared;
                self.wheels.insert(&mut self.links, key, cost);
            }
            (Some(spared), _) => {
                *mark = spared;
                self.ring.push_back(key);
            }
            (None, rule) => {
                self.is_in[key as usize] = false;
                if let Rule::Variant(variant) = rule
                    && matches!(variant.unit, Unit::Victims)
                {
                    variant.learn(cost);
                }
            }
        }
        self.passes_left -= 1;
        if self.passes_left == 0 {
            self.passes_left = self.items_max;
            if let Rule::Variant(variant) = &mut self.rule {
                variant.round += 1;
            }
        }
    }
}

/// The counts of the second half of the requests.
#[derive(Default)]
struct Tally {
    misses: u64,
    paid: u64,
    passes: u64,
}

fn run(make: &dyn Fn() -> Rule, items: usize, traces: &[Vec<u32>], groups: &[Group]) -> Tally {
    let mut tally = Tally::default();
    for (seed, requests) in traces.iter().enumerate() {
        let costs = costs(groups, seed as u64);
        let mut cache = Cache::new(make(), items);
        let (warm, counted) = requests.split_at(requests.len() / 2);
        for &key in warm {
            cache.access(key, &costs);
        }
        let before = cache.passes;
        for &key in counted {
            if !cache.access(key, &costs) {
                tally.misses += 1;
                tally.paid += u64::from(costs[key as usize]);
            }
        }
        tally.passes += cache.passes - before;
    }
    tally
}

fn variant(charge: Charge, scale: Scale, unit: Unit, part: f64, bits: u32, steps: f64) -> Rule {
    Rule::Variant(Variant { charge, scale, unit, part, bits, steps, mean: 0.0, round: 0 })
}

type Row = (&'static str, Box<dyn Fn() -> Rule>);

fn rows() -> Vec<Row> {
    use Charge::{AtOnce, WhenUsedUp};
    use Scale::{Linear, Logarithmic};
    use Unit::{Geometric, Harmonic, Mean, Victims};
    let row = |name, charge, scale, unit, part, bits, steps| -> Row {
        (name, Box::new(move || variant(charge, scale, unit, part, bits, steps)))
    };
    vec![
        row("CLOCK", WhenUsedUp, Linear, Mean, f64::INFINITY, 1, 0.0),
        ("wheels, hits set a bit", Box::new(|| Rule::Lazy)),
        ("**credit as built**", Box::new(|| Rule::Credit(CostClock::default()))),
        row("without a bound on the spread", WhenUsedUp, Linear, Harmonic, 0.75, 7, 0.0),
        row("charged at the hit", AtOnce, Linear, Harmonic, 0.75, 7, 0.0),
        row("charged at the hit, unit halved", AtOnce, Linear, Harmonic, 0.375, 7, 0.0),
        row("unit 1 harmonic mean", WhenUsedUp, Linear, Harmonic, 1.0, 7, 0.0),
        row("unit 1/2 harmonic mean", WhenUsedUp, Linear, Harmonic, 0.5, 7, 0.0),
        row("unit 3/4 geometric mean", WhenUsedUp, Linear, Geometric, 0.75, 7, 0.0),
        row("unit 1/3 mean", WhenUsedUp, Linear, Mean, 0.33, 7, 0.0),
        row("unit 1/2 mean of victims", WhenUsedUp, Linear, Victims, 0.5, 7, 0.0),
        row("2 bits of credit", WhenUsedUp, Linear, Harmonic, 0.75, 2, 0.0),
        row("3 bits of credit", WhenUsedUp, Linear, Harmonic, 0.75, 3, 0.0),
        row("4 bits of credit", WhenUsedUp, Linear, Harmonic, 0.75, 4, 0.0),
        row("5 bits of credit", WhenUsedUp, Linear, Harmonic, 0.75, 5, 0.0),
        row("6 bits of credit", WhenUsedUp, Linear, Harmonic, 0.75, 6, 0.0),
        row("logarithmic, 2 bits", WhenUsedUp, Logarithmic, Harmonic, 0.75, 2, 0.0),
        row("logarithmic, 3 bits", WhenUsedUp, Logarithmic, Harmonic, 0.75, 3, 0.0),
        row("logarithmic, 4 bits", WhenUsedUp, Logarithmic, Harmonic, 0.75, 4, 0.0),
        row("logarithmic, 4 bits, at the hit", AtOnce, Logarithmic, Harmonic, 0.75, 4, 0.0),
        row("costs known to powers of 2", WhenUsedUp, Linear, Harmonic, 0.75, 7, 1.0),
        row("costs known to quarters of that", WhenUsedUp, Linear, Harmonic, 0.75, 7, 4.0),
    ]
}

fn print(name: &str, cells: impl Iterator<Item = String>) {
    println!("| {name} | {} |", cells.collect::<Vec<String>>().join(" | "));
}

/// Prints the table for a cache of `items` items.
fn table(items: usize, traces: &[Vec<u32>]) {
    let of = |make: &dyn Fn() -> Rule| -> Vec<Tally> {
        CONFIGURATIONS.iter().map(|(_, groups)| run(make, items, traces, groups)).collect()
    };
    let (lru, gd) = (of(&|| Rule::Lru), of(&|| Rule::GreedyDual));
    print(&format!("{items} items"), CONFIGURATIONS.iter().map(|(name, _)| (*name).to_owned()));
    print("---", CONFIGURATIONS.iter().map(|_| "---".to_owned()));
    let counted = (REQUESTS / 2) as f64 * SEEDS as f64;
    let misses = |tally: &Tally| format!("{:.1} %", 100.0 * tally.misses as f64 / counted);
    print("LRU misses", lru.iter().map(misses));
    print("GreedyDual misses", gd.iter().map(misses));
    let saved = |(lru, tally): (&Tally, &Tally)| 1.0 - tally.paid as f64 / lru.paid as f64;
    let both = lru.iter().zip(&gd);
    print("GreedyDual saves", both.clone().map(|pair| format!("{:.1} %", 100.0 * saved(pair))));
    for (name, make) in rows() {
        let tallies = of(&*make);
        let cell = |(at, ((lru, gd), tally)): (usize, ((&Tally, &Tally), &Tally))| {
            let passes = tally.passes as f64 / tally.misses as f64;
            let saved_here = saved((lru, tally));
            // With equal costs there is nothing to save: what LRU pays, as a share of what is paid.
            let share =
                if at == SAME { (1.0 - saved_here).recip() } else { saved_here / saved((lru, gd)) };
            format!("{:.0} ({passes:.1})", 100.0 * share)
        };
        print(name, both.clone().zip(&tallies).enumerate().map(cell));
    }
}

fn main() {
    let traces: Vec<Vec<u32>> = (0..SEEDS).map(requests).collect();
    SIZES.iter().for_each(|&items| table(items, &traces));
}
