//! A last-level cache: sets of ways of lines, replaced by true LRU within each set.
//!
//! A line's set follows from its lowest bits, and its slice, where there are several, from a hash
//! of all of them, as in processors whose hash is not known. Writes are treated as reads: the count
//! is of lines that come from memory. Every access allocates. A *passing* access takes the place
//! that is next to be replaced and stays there, so that it costs the others at most one way of its
//! set: roughly what processors do with non-temporal reads.

use policy::geometry::CacheGeometry;

use crate::random::Random;

/// No line: a tag that no address of a simulation has.
const EMPTY: u32 = u32::MAX;

/// The cache's tags.
pub struct Llc {
    ways: usize,
    set_bits: u32,
    slices: u64,
    /// The ways of each set, the most recently used first.
    tags: Vec<u32>,
}

impl Llc {
    /// An empty cache.
    pub fn new(geometry: &CacheGeometry) -> Llc {
        let sets = geometry.sets() * geometry.slices();
        Llc {
            ways: geometry.ways(),
            set_bits: geometry.sets().ilog2(),
            slices: geometry.slices() as u64,
            tags: vec![EMPTY; sets * geometry.ways()],
        }
    }

    /// Accesses a line by its number; returns whether it was there.
    #[inline]
    pub fn touch(&mut self, line: u64, is_passing: bool) -> bool {
        let within = line & ((1 << self.set_bits) - 1);
        let slice = if self.slices == 1 { 0 } else { Random::new(line).below(self.slices) };
        let tag = u32::try_from(line >> self.set_bits).expect("simulated memory is not that large");
        let set = ((slice << self.set_bits) + within) as usize;
        let ways = &mut self.tags[set * self.ways..(set + 1) * self.ways];
        let found = ways.iter().position(|way| *way == tag);
        if is_passing {
            ways[found.unwrap_or(self.ways - 1)] = tag;
        } else {
            // The line goes to the front; on a miss the last one leaves.
            ways.copy_within(..found.unwrap_or(self.ways - 1), 1);
            ways[0] = tag;
        }
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::Llc;
    use crate::random::Random;
    use policy::geometry::CacheGeometry;

    /// Sets as lists, the most recently used last; an empty way is a line that is never accessed.
    struct Naive {
        sets: Vec<Vec<u64>>,
    }

    impl Naive {
        fn touch(&mut self, line: u64, is_passing: bool) -> bool {
            let sets = self.sets.len() as u64;
            let set = &mut self.sets[(line % sets) as usize];
            let found = set.iter().position(|other| *other == line);
            match (is_passing, found) {
                (true, None) => set[0] = line,
                (true, Some(_)) => {}
                (false, _) => {
                    set.remove(found.unwrap_or(0));
                    set.push(line);
                }
            }
            found.is_some()
        }
    }

    #[test]
    fn hits_are_those_of_lists() {
        for (sets, ways) in [(1, 1), (1, 20), (16, 2), (64, 20)] {
            let geometry = CacheGeometry::new(64, ways, sets, 1).expect("it is a cache");
            let mut cache = Llc::new(&geometry);
            let mut naive = Naive { sets: vec![vec![u64::MAX; ways]; sets] };
            let mut random = Random::new(7);
            for _ in 0..50_000 {
                let most = random.below(4 * (sets * ways) as u64) + 1;
                let line = random.below(most);
                let passes = random.below(4) == 0;
                let found = naive.touch(line, passes);
                assert_eq!(cache.touch(line, passes), found, "{sets} sets of {ways}");
            }
        }
    }

    #[test]
    fn slices_hold_what_one_set_of_lists_of_theirs_would() {
        let geometry = CacheGeometry::new(64, 20, 32, 6).expect("it is a cache");
        let mut cache = Llc::new(&geometry);
        let lines = geometry.bytes() as u64 / 64;
        // Half of a fitting buffer stays, whichever slice each line falls to: hardly any set
        // overflows.
        let misses =
            |cache: &mut Llc| (0..lines / 2).filter(|line| !cache.touch(*line, false)).count();
        assert_eq!(misses(&mut cache), lines as usize / 2);
        assert!(misses(&mut cache) < lines as usize / 50);
    }
}
