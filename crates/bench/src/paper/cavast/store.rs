//! A simulated store: the bytes that a request reads, and the ways to keep hot items together.
//!
//! ```text
//!   get -> [front] -> lookup -> header and key -> value        lines, by kind
//!            |                                     |
//!            small index of the hot area           heat: one access in `every`
//!                                                  |
//!                     columns, rows: a pass over the slab, at most once in so many accesses
//!                     area:          at once, with a cold item of the hot area
//! ```
//!
//! No byte of a value exists. All requests are reads; writing in place would touch the same lines.
//! Temperatures are in an array for each slab, so counting an access touches a line of it, and a
//! pass reads all of it; in the item's header they cost an access nothing and a pass every header.
//! A swap reads and writes both items and looks both up in the index: all that is [`Kind::Upkeep`].

use policy::columns::{Chooser, LIMITS, Limits, PASS_ACCESSES, Seen, Swap, Temperatures};
use policy::geometry::CacheGeometry;

use super::cells::{Cells, FREE, Layout, Place, SLAB_BYTES};
use super::expiry::{Expiries, ExpiryKind};
use super::lookup::{IndexKind, Lookup, Step};
use super::memory::{FRONT_BASE, INDEX_BASE, Kind, Memory, Pages, TEMPERATURE_BASE};
use super::population::Population;
use super::zones::{Placement, Zones};
use crate::random::Random;

/// Mean items of a bucket of the front, and its bytes.
const FRONT_LOAD: f64 = 6.0;
const LINE_BYTES: u64 = 64;
/// Added to the seed, to give the sampling of accesses a stream of its own.
const SAMPLING_SEED: u64 = 4;
/// The most bytes of an item that are prefetched, as in the server: for a longer one the
/// processor's own prefetcher takes over.
const ASKED_BYTES_MAX: u64 = 16 * LINE_BYTES;

/// The differences between stores.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    pub index: IndexKind,
    pub layout: Layout,
    pub pages: Pages,
    pub placement: Placement,
    /// Whether a small index of the hot area is searched first.
    pub has_front: bool,
    /// Whether items outside the hot zone are read past the cache, and all upkeep, too.
    pub passes_cold: bool,
    pub heating: Heating,
    pub expiry: ExpiryKind,
    /// Requests whose lines are prefetched together before they are read; 1: no prefetching.
    pub group: usize,
}

/// How temperatures are kept.
#[derive(Debug, Clone, Copy)]
pub struct Heating {
    /// One access in this many counts.
    pub every: u64,
    /// In the items' headers instead of an array.
    pub is_in_header: bool,
    /// Accesses between two passes.
    pub pass_accesses: u32,
    pub limits: Limits,
}

impl Heating {
    /// Every access counts, in an array.
    pub const USUAL: Heating =
        Heating { every: 1, is_in_header: false, pass_accesses: PASS_ACCESSES, limits: LIMITS };
}

/// The work of upkeep.
#[derive(Debug, Clone, Copy, Default)]
pub struct Work {
    pub passes: u64,
    pub swaps: u64,
    /// Bytes moved: of both items.
    pub moved_bytes: u64,
}

/// A store with all of a population's items.
pub struct Store<'p> {
    config: Config,
    population: &'p Population,
    pub cells: Cells,
    pub lookup: Lookup,
    pub memory: Memory,
    pub work: Work,
    pub expiries: Expiries,
    zones: Zones,
    slabs: Vec<Heat>,
    sampling: Random,
    chooser: Chooser,
    steps: Vec<Step>,
    requests: u64,
}

/// The use of a slab.
struct Heat {
    temperatures: Temperatures,
    /// The address of its temperatures.
    base: u64,
    accesses: u64,
}

impl<'p> Store<'p> {
    /// Stores all items.
    pub fn new(
        config: Config,
        population: &'p Population,
        geometry: &CacheGeometry,
        seed: u64,
    ) -> Store<'p> {
        let count = population.count();
        let cells = match config.placement {
            Placement::ByRank => Cells::fill(config.layout, population, population.by_rank()),
            _ => Cells::fill(config.layout, population, 0..count),
        };
        assert!(cells.bytes() <= INDEX_BASE, "slabs end where the index begins");
        let mut base = TEMPERATURE_BASE;
        let slabs = cells.slabs.iter().map(|slab| {
            let chunks = slab.items.len();
            let heat = Heat { temperatures: Temperatures::new(chunks), base, accesses: 0 };
            base += (chunks as u64).div_ceil(2);
            heat
        });
        Store {
            config,
            population,
            slabs: slabs.collect(),
            zones: Zones::new(config.placement, &cells, geometry),
            expiries: Expiries::new(config.expiry, &cells, count, seed),
            lookup: Lookup::new(config.index, count),
            memory: Memory::new(geometry, config.pages),
            cells,
            work: Work::default(),
            sampling: Random::new(seed.wrapping_add(SAMPLING_SEED)),
            chooser: Chooser::default(),
            steps: Vec::new(),
            requests: 0,
        }
    }

    /// Reads items, one at a time or in groups.
    ///
    /// In groups, three stages overlap as in the server (`crates/cache/src/prefetch.rs`): while a
    /// group is read, the next one's items are prefetched, by its lines of the index, and the lines
    /// of the index of the one after it.
    pub fn get_all(&mut self, mut requests: impl Iterator<Item = u32>) {
        if self.config.group == 1 {
            requests.for_each(|item| self.get(item));
            return;
        }
        let [mut found, mut asked]: [Vec<u32>; 2] = [Vec::new(), Vec::new()];
        loop {
            let next: Vec<u32> = requests.by_ref().take(self.config.group).collect();
            next.iter().for_each(|item| self.ask_index(*item));
            for item in &asked {
                self.search(*item);
                self.ask_item(*item);
            }
            found.iter().for_each(|item| self.read(*item));
            (found, asked) = (asked, next);
            if found.is_empty() && asked.is_empty() {
                return;
            }
        }
    }

    /// Reads an item.
    fn get(&mut self, item: u32) {
        self.search(item);
        self.read(item);
    }

    /// Prefetches the known lines of the index: those that a bucket links to are unknown.
    fn ask_index(&mut self, item: u32) {
        assert!(!self.config.has_front && !self.config.passes_cold, "the server has neither");
        self.lookup.find(item, self.population, &mut self.steps);
        let known = if self.config.index == IndexKind::Cuckoo { self.steps.len() } else { 1 };
        for step in &self.steps[..known] {
            if let Step::Index(address, bytes) = *step {
                self.memory.ask(Kind::Index, address, bytes);
            }
        }
    }

    fn ask_item(&mut self, item: u32) {
        let parts = self.cells.parts(self.population, item);
        self.memory.ask(Kind::Key, parts.key, parts.key_bytes.min(ASKED_BYTES_MAX));
        self.memory.ask(Kind::Value, parts.value, parts.value_bytes.min(ASKED_BYTES_MAX));
    }

    /// Finds the place of an item.
    fn search(&mut self, item: u32) {
        let is_hot = self.zones.is_hot(&self.cells, self.cells.place(item));
        if self.config.has_front {
            self.memory.read(Kind::Index, self.front_line(item), LINE_BYTES);
        }
        self.memory.set_passing(self.config.passes_cold && !is_hot);
        if !(self.config.has_front && is_hot) {
            self.find(item, Kind::Index);
        }
    }

    /// Reads an item that was found, and does the upkeep that follows.
    fn read(&mut self, item: u32) {
        self.requests += 1;
        let place = self.cells.place(item);
        let is_hot = self.zones.is_hot(&self.cells, place);
        let parts = self.cells.parts(self.population, item);
        self.memory.read(Kind::Key, parts.key, parts.key_bytes);
        self.memory.read(Kind::Value, parts.value, parts.value_bytes);
        self.expiries.read(item, self.requests);
        self.memory.set_passing(self.config.passes_cold);
        if self.config.placement.is_by_heat() && self.sampling.below(self.config.heating.every) == 0
        {
            self.heat(place, is_hot);
        }
        self.scan();
        self.memory.set_passing(false);
    }

    fn find(&mut self, item: u32, kind: Kind) {
        self.lookup.find(item, self.population, &mut self.steps);
        for step in &self.steps {
            match *step {
                Step::Index(address, bytes) => self.memory.read(kind, address, bytes),
                Step::Other { item, has_key } => {
                    let parts = self.cells.parts(self.population, item);
                    // A comparison seldom goes beyond a key's first bytes.
                    let header = self.config.layout.header_bytes;
                    self.memory.read(kind, parts.key, header + u64::from(has_key));
                }
            }
        }
    }

    fn front_line(&self, item: u32) -> u64 {
        let buckets = (self.zones.hot_cells() as f64 / FRONT_LOAD).ceil() as u64;
        FRONT_BASE + Random::new(u64::from(item)).below(buckets.max(1)) * LINE_BYTES
    }

    fn heat(&mut self, place: Place, is_hot: bool) {
        let heating = self.config.heating;
        let heat = &mut self.slabs[place.slab as usize];
        if !heating.is_in_header {
            self.memory.read(Kind::Upkeep, heat.base + u64::from(place.cell) / 2, 1);
        }
        let temperature = heat.temperatures.heat(place.cell as usize);
        if let Placement::Area { .. } = self.config.placement {
            if !is_hot {
                self.enter_area(place, temperature);
            }
            // All slabs age alike, so that temperatures of two of them can be compared.
            let period = u64::from(heating.pass_accesses);
            if self.requests % period < heating.every {
                let turn = (self.requests / period) as usize % self.slabs.len();
                self.slabs[turn].temperatures.age();
            }
            return;
        }
        heat.accesses += heating.every;
        if heat.accesses >= u64::from(heating.pass_accesses) {
            heat.accesses = 0;
            self.pass(place.slab);
        }
    }

    /// Makes a pass over a slab.
    fn pass(&mut self, slab: u32) {
        self.work.passes += 1;
        let heat = &self.slabs[slab as usize];
        let cells = self.cells.slabs[slab as usize].items.len() as u32;
        if self.config.heating.is_in_header {
            self.read_headers(slab);
        } else {
            let bytes = u64::from(cells).div_ceil(2);
            self.memory.read(Kind::Upkeep, heat.base, bytes);
        }
        let heat = &self.slabs[slab as usize];
        let seen = (0..cells).map(|cell| {
            let place = Place { slab, cell };
            let item = self.cells.item(place);
            let is_item = item != FREE && !self.expiries.is_gone(item);
            Seen {
                is_hot_zone: self.zones.is_hot(&self.cells, place),
                temperature: is_item.then(|| heat.temperatures.get(cell as usize)),
            }
        });
        let (limits, start) = (self.config.heating.limits, self.sampling.word() as u32);
        let swaps: Vec<Swap> = self.chooser.swaps(seen, limits, start).collect();
        for swap in swaps {
            self.swap(Place { slab, cell: swap.warm }, Place { slab, cell: swap.cold });
        }
        self.slabs[slab as usize].temperatures.age();
        if self.expiries.kind == ExpiryKind::PassHeaders {
            self.read_headers(slab);
        }
        if self.expiries.is_in_passes() {
            self.expiries.reclaim(&self.cells, slab, self.requests);
            // Four more bits for each chunk, in the same array.
            if self.expiries.kind == ExpiryKind::PassBeside {
                let bytes = u64::from(cells).div_ceil(2);
                self.memory.read(Kind::Upkeep, self.expiries.beside(slab), bytes);
            }
        }
    }

    /// Swaps the places of two items.
    fn swap(&mut self, one: Place, other: Place) {
        for place in [one, other] {
            let item = self.cells.item(place);
            if item != FREE {
                self.find(item, Kind::Upkeep);
                if self.config.has_front {
                    self.memory.read(Kind::Upkeep, self.front_line(item), LINE_BYTES);
                }
                self.touch(item);
            }
        }
        self.cells.swap(one, other);
        for place in [one, other] {
            let item = self.cells.item(place);
            if item != FREE {
                self.work.moved_bytes += self.touch(item);
            }
        }
        self.work.swaps += 1;
        if one.slab == other.slab {
            let temperatures = &mut self.slabs[one.slab as usize].temperatures;
            temperatures.swap(one.cell as usize, other.cell as usize);
            return;
        }
        let [first, second] = [one, other]
            .map(|place| self.slabs[place.slab as usize].temperatures.get(place.cell as usize));
        for (place, temperature) in [(one, second), (other, first)] {
            let temperatures = &mut self.slabs[place.slab as usize].temperatures;
            temperatures.set(place.cell as usize, temperature);
        }
    }

    fn touch(&mut self, item: u32) -> u64 {
        let parts = self.cells.parts(self.population, item);
        self.memory.read(Kind::Upkeep, parts.key, parts.key_bytes);
        self.memory.read(Kind::Upkeep, parts.value, parts.value_bytes);
        parts.key_bytes + parts.value_bytes
    }

    /// Swaps an item outside the hot area with one inside that is colder by the margin, if the hand
    /// meets one within a few steps.
    fn enter_area(&mut self, place: Place, temperature: u8) {
        let margin = self.config.heating.limits.margin;
        if temperature < margin {
            return;
        }
        let shape = self.cells.slabs[place.slab as usize].shape;
        for victim in self.zones.look(shape) {
            let heat = &self.slabs[victim.slab as usize];
            self.memory.read(Kind::Upkeep, heat.base + u64::from(victim.cell) / 2, 1);
            if heat.temperatures.get(victim.cell as usize) + margin <= temperature {
                self.swap(place, victim);
                return;
            }
        }
    }

    /// Reads the parts with the expiry, of all items of a slab.
    fn read_headers(&mut self, slab: u32) {
        let shape = self.cells.slabs[slab as usize].shape;
        let base = u64::from(slab) * SLAB_BYTES;
        let header = self.config.layout.header_bytes;
        let mut last = u64::MAX;
        for cell in 0..u64::from(shape.cells()) {
            let from = base + cell * shape.key_cell;
            // Lines shared by two headers are read once.
            for line in from / LINE_BYTES..=(from + header - 1) / LINE_BYTES {
                if line != last {
                    self.memory.read(Kind::Upkeep, line * LINE_BYTES, 1);
                    last = line;
                }
            }
        }
    }

    /// Continues the walk over all items beside the requests, if there is one: a slab at a time.
    fn scan(&mut self) {
        let period = u64::from(self.config.heating.pass_accesses);
        if self.expiries.kind == ExpiryKind::Scan && self.requests.is_multiple_of(period) {
            let slab = (self.requests / period % self.slabs.len() as u64) as u32;
            self.read_headers(slab);
            self.expiries.reclaim(&self.cells, slab, self.requests);
        }
    }

    /// Returns the number of requests so far.
    pub fn now(&self) -> u64 {
        self.requests
    }

    /// Returns the bytes of temperatures, and of upkeep's other state of each chunk.
    pub fn upkeep_bytes(&self) -> u64 {
        let chunks: usize = self.cells.slabs.iter().map(|slab| slab.items.len()).sum();
        match self.config.placement.is_by_heat() {
            true => (chunks as u64).div_ceil(2),
            false => 0,
        }
    }
}
