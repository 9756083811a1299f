//! The short way: single operations with copies, for programs that embed the cache. Each opens a
//! session of its own.

use crate::cache::Cache;
use crate::session::Session;
use crate::types::{Attributes, Condition, Expiry, Refusal, Remove, Removed, Store, Stored};

impl Cache {
    /// A copy of the key's value, if it is there.
    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.session().get(key, self.hash(key)).map(|item| item.to_vec())
    }

    /// Stores a value for a key of 1 to 250 bytes, in place of what was there.
    pub fn set(&self, key: &[u8], value: &[u8], expiry: Expiry) -> Result<(), Refusal> {
        let attributes = Attributes { expiry, ..Attributes::default() };
        self.put(key, value, attributes, Condition::Always).map(|_| ())
    }

    /// Stores a value if the condition holds.
    pub fn put(
        &self,
        key: &[u8],
        value: &[u8],
        attributes: Attributes,
        condition: Condition,
    ) -> Result<Stored, Refusal> {
        let mut draft = self.with_memory(|_| self.reserve(key, attributes, value.len()))?;
        draft.write(value);
        let mut draft = Some(draft);
        self.with_memory(|session| {
            let filled = draft.take().expect("put back when refused");
            session.store(filled, Store::when(condition)).map_err(|(filled, refusal)| {
                draft = Some(filled);
                refusal
            })
        })
    }

    /// Removes the key's item. Returns whether it was there.
    pub fn remove(&self, key: &[u8]) -> bool {
        let removed = self.session().remove(key, self.hash(key), &Remove::default());
        removed == Ok(Removed::Removed)
    }

    /// Runs something that needs memory in sessions of its own, again when the memory that was
    /// freed for it was still visible to its session.
    pub fn with_memory<'c, R>(
        &'c self,
        mut attempt: impl FnMut(&Session<'c>) -> Result<R, Refusal>,
    ) -> Result<R, Refusal> {
        loop {
            // A statement of its own: the session must be closed before the wait.
            let outcome = attempt(&self.session());
            if !matches!(outcome, Err(Refusal::SessionTooLong)) {
                return outcome;
            }
            self.wait_for_memory();
        }
    }
}
