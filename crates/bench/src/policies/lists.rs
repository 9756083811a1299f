//! Doubly linked lists of objects, the parts of most policies: each object is in one of `N` lists
//! or in none, and every operation takes constant time. A list knows the weight of its objects.
//!
//! ```text
//!   front (newest)  a <-> b <-> c  back (oldest, the next to leave)
//! ```
//!
//! Objects are numbered from 0 without gaps, so the links are in one array instead of a hash table:
//! 16 bytes for each object of the trace.

/// No neighbour.
const NONE: u32 = u32::MAX;
/// In no list.
const NOWHERE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Node {
    newer: u32,
    older: u32,
    weight: u32,
    list: u32,
}

#[derive(Debug, Clone, Copy)]
struct Ends {
    front: u32,
    back: u32,
    items: u64,
    weight: u64,
}

/// `N` lists over the same objects.
#[derive(Debug)]
pub struct Lists<const N: usize> {
    nodes: Vec<Node>,
    ends: [Ends; N],
}

impl<const N: usize> Lists<N> {
    /// Returns empty lists, for objects less than `objects`.
    pub fn new(objects: u32) -> Lists<N> {
        let node = Node { newer: NONE, older: NONE, weight: 0, list: NOWHERE };
        let ends = Ends { front: NONE, back: NONE, items: 0, weight: 0 };
        Lists { nodes: vec![node; objects as usize], ends: [ends; N] }
    }

    /// Returns the list that holds the object.
    pub fn home(&self, object: u32) -> Option<usize> {
        let list = self.nodes[object as usize].list;
        (list != NOWHERE).then_some(list as usize)
    }

    /// Returns the total weight of a list.
    pub fn weight(&self, list: usize) -> u64 {
        self.ends[list].weight
    }

    /// Returns the number of objects in a list.
    pub fn items(&self, list: usize) -> u64 {
        self.ends[list].items
    }

    /// Returns the weight of an object, which must be in a list.
    pub fn weight_of(&self, object: u32) -> u32 {
        debug_assert!(self.home(object).is_some());
        self.nodes[object as usize].weight
    }

    /// Returns the oldest object of a list.
    pub fn back(&self, list: usize) -> Option<u32> {
        (self.ends[list].back != NONE).then_some(self.ends[list].back)
    }

    /// Returns the neighbour towards the front.
    pub fn newer(&self, object: u32) -> Option<u32> {
        let newer = self.nodes[object as usize].newer;
        (newer != NONE).then_some(newer)
    }

    /// Enters an object that is in no list.
    pub fn push_front(&mut self, list: usize, object: u32, weight: u32) {
        debug_assert!(self.home(object).is_none());
        let front = self.ends[list].front;
        self.nodes[object as usize] = Node { newer: NONE, older: front, weight, list: list as u32 };
        match front {
            NONE => self.ends[list].back = object,
            _ => self.nodes[front as usize].newer = object,
        }
        let ends = &mut self.ends[list];
        ends.front = object;
        ends.items += 1;
        ends.weight += u64::from(weight);
    }

    /// Removes an object from the list that it is in; returns its weight.
    pub fn remove(&mut self, object: u32) -> Option<u32> {
        let list = self.home(object)?;
        let Node { newer, older, weight, .. } = self.nodes[object as usize];
        match newer {
            NONE => self.ends[list].front = older,
            _ => self.nodes[newer as usize].older = older,
        }
        match older {
            NONE => self.ends[list].back = newer,
            _ => self.nodes[older as usize].newer = newer,
        }
        self.nodes[object as usize].list = NOWHERE;
        self.ends[list].items -= 1;
        self.ends[list].weight -= u64::from(weight);
        Some(weight)
    }

    /// Removes the oldest object of a list; returns it with its weight.
    pub fn pop_back(&mut self, list: usize) -> Option<(u32, u32)> {
        let object = self.back(list)?;
        let weight = self.remove(object).expect("the back of a list is in it");
        Some((object, weight))
    }

    /// Moves an object, which must be in a list, to the front of this one.
    pub fn move_to_front(&mut self, list: usize, object: u32) {
        let weight = self.remove(object).expect("only what is in a list is moved");
        self.push_front(list, object, weight);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::Lists;

    proptest! {
        #[test]
        fn behave_as_two_deques(steps in prop::collection::vec((0u32..8, 0usize..2, 0u8..4), 99)) {
            let mut lists = Lists::<2>::new(8);
            let mut naive = [VecDeque::new(), VecDeque::new()];
            for (object, list, step) in steps {
                let home = naive.iter().position(|deque| deque.contains(&object));
                prop_assert_eq!(lists.home(object), home);
                match step {
                    0 if home.is_none() => {
                        lists.push_front(list, object, object + 1);
                        naive[list].push_front(object);
                    }
                    1 => {
                        prop_assert_eq!(lists.remove(object), home.map(|_| object + 1));
                        naive.iter_mut().for_each(|deque| deque.retain(|other| *other != object));
                    }
                    2 => {
                        let expected = naive[list].pop_back().map(|object| (object, object + 1));
                        prop_assert_eq!(lists.pop_back(list), expected);
                    }
                    _ if home.is_some() => {
                        lists.move_to_front(list, object);
                        naive.iter_mut().for_each(|deque| deque.retain(|other| *other != object));
                        naive[list].push_front(object);
                    }
                    _ => {}
                }
                for (list, deque) in naive.iter().enumerate() {
                    let weight: u64 = deque.iter().map(|object| u64::from(object + 1)).sum();
                    prop_assert_eq!(lists.weight(list), weight);
                    prop_assert_eq!(lists.items(list), deque.len() as u64);
                    prop_assert_eq!(lists.back(list), deque.back().copied());
                    for (place, object) in deque.iter().enumerate() {
                        let newer = place.checked_sub(1).map(|place| deque[place]);
                        prop_assert_eq!(lists.newer(*object), newer);
                    }
                }
            }
        }
    }
}
