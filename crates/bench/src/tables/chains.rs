//! Chains of items, as in memcached: an array of heads, the link of the chain and those of the list
//! by recency inside the item, beside its key.
//!
//! ```text
//!   heads  | 3 | - | 0 | - |        next, newer, older: numbers of nodes, or NONE
//!   nodes  | key value next links | key value next links | ...
//! ```
//!
//! `O` is an item's part for its recency: [`Links`] for strict LRU, or empty.

use super::{Key, Touch, hash};

/// Ends a chain or a list.
const NONE: usize = usize::MAX;

/// One item.
#[derive(Debug)]
pub struct Node<V, O> {
    key: Key,
    value: V,
    next: usize,
    order: O,
}

/// The place of an item in the list by recency.
#[derive(Debug, Clone, Copy)]
pub struct Links {
    newer: usize,
    older: usize,
}

/// The ends of the list by recency.
#[derive(Debug, Clone, Copy)]
pub struct Ends {
    newest: usize,
    oldest: usize,
}

/// The handling of an item's recency.
pub trait Order: Copy + Send {
    /// An item that is in no list.
    const OUT: Self;

    /// Puts an item in front of all others.
    fn enter<V>(ends: &mut Ends, nodes: &mut [Node<V, Self>], node: usize);

    /// Removes an item.
    fn leave<V>(ends: &mut Ends, nodes: &mut [Node<V, Self>], node: usize);
}

impl Order for () {
    const OUT: Self = ();
    #[inline]
    fn enter<V>(_ends: &mut Ends, _nodes: &mut [Node<V, Self>], _node: usize) {}
    #[inline]
    fn leave<V>(_ends: &mut Ends, _nodes: &mut [Node<V, Self>], _node: usize) {}
}

impl Order for Links {
    const OUT: Self = Links { newer: NONE, older: NONE };

    #[inline]
    fn enter<V>(ends: &mut Ends, nodes: &mut [Node<V, Self>], node: usize) {
        nodes[node].order = Links { newer: NONE, older: ends.newest };
        match ends.newest {
            NONE => ends.oldest = node,
            newest => nodes[newest].order.newer = node,
        }
        ends.newest = node;
    }

    #[inline]
    fn leave<V>(ends: &mut Ends, nodes: &mut [Node<V, Self>], node: usize) {
        let Links { newer, older } = nodes[node].order;
        match newer {
            NONE => ends.newest = older,
            newer => nodes[newer].order.older = older,
        }
        match older {
            NONE => ends.oldest = newer,
            older => nodes[older].order.newer = newer,
        }
    }
}

/// A table of chains, for one thread at a time.
#[derive(Debug)]
pub struct Chains<V, O> {
    heads: Vec<usize>,
    nodes: Vec<Node<V, O>>,
    ends: Ends,
}

impl<V, O: Order> Chains<V, O> {
    /// Returns room for `count` items, with about as many heads: memcached doubles them at 1.5
    /// items each.
    pub fn new(count: usize) -> Self {
        let heads = (count * 2 / 3).max(1).next_power_of_two();
        let ends = Ends { newest: NONE, oldest: NONE };
        Chains { heads: vec![NONE; heads], nodes: Vec::with_capacity(count), ends }
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the bytes of heads and links, without keys and values.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.heads[..]) + self.nodes.len() * (size_of::<usize>() + size_of::<O>())
    }

    /// Uses the upper bits: the lower ones choose among several tables.
    #[inline]
    fn head(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.heads.len() - 1)
    }

    /// Returns the value of a key, which becomes the newest.
    #[inline]
    pub fn find(&mut self, key: &Key, hash: u64, touch: &mut impl Touch) -> Option<&mut V> {
        let mut node = self.heads[self.head(hash)];
        touch.line();
        while node != NONE {
            touch.item();
            if self.nodes[node].key == *key {
                O::leave(&mut self.ends, &mut self.nodes, node);
                O::enter(&mut self.ends, &mut self.nodes, node);
                return Some(&mut self.nodes[node].value);
            }
            node = self.nodes[node].next;
        }
        None
    }

    /// Enters a key that is absent.
    pub fn insert(&mut self, key: Key, hash: u64, value: V) {
        self.nodes.push(Node { key, value, next: NONE, order: O::OUT });
        self.link(hash, self.nodes.len() - 1);
    }

    /// Puts an absent key in place of the least recently used one.
    pub fn replace_oldest(&mut self, key: Key, hash_new: u64, value: V) {
        let node = self.ends.oldest;
        self.unlink(hash(&self.nodes[node].key), node);
        self.nodes[node] = Node { key, value, next: NONE, order: O::OUT };
        self.link(hash_new, node);
    }

    fn link(&mut self, hash: u64, node: usize) {
        let head = self.head(hash);
        self.nodes[node].next = std::mem::replace(&mut self.heads[head], node);
        O::enter(&mut self.ends, &mut self.nodes, node);
    }

    fn unlink(&mut self, hash: u64, node: usize) {
        O::leave(&mut self.ends, &mut self.nodes, node);
        let (head, next) = (self.head(hash), self.nodes[node].next);
        if self.heads[head] == node {
            self.heads[head] = next;
            return;
        }
        let mut before = self.heads[head];
        while self.nodes[before].next != node {
            before = self.nodes[before].next;
        }
        self.nodes[before].next = next;
    }
}

#[cfg(test)]
mod tests {
    use super::{Chains, Links};
    use crate::tables::{hash, key};

    #[test]
    fn the_key_used_longest_ago_is_replaced() {
        let mut chains = Chains::<u64, Links>::new(3);
        for number in 0..3 {
            chains.insert(key(number), hash(&key(number)), number);
        }
        let find = |chains: &mut Chains<u64, Links>, number: u64| {
            chains.find(&key(number), hash(&key(number)), &mut ()).copied()
        };
        assert_eq!(find(&mut chains, 0), Some(0));
        for number in 3..5 {
            chains.replace_oldest(key(number), hash(&key(number)), number);
        }
        let left = [0, 1, 2, 3, 4].map(|number| find(&mut chains, number));
        assert_eq!(left, [Some(0), None, None, Some(3), Some(4)]);
        assert_eq!(chains.len(), 3);
    }
}
