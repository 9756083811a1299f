//! Single operations with copies, for programs that embed the cache. Each opens a session of its
//! own.

use crate::cache::Cache;
use crate::session::Session;
use crate::types::{
    Attributes, Condition, Expiry, Lookup, Refusal, Remove, Removed, Store, Stored,
};

/// Sessions in a row in which an operation is tried, for memory that readers have to leave first,
/// before it counts as out of memory. Each waits for them, for some milliseconds at most.
pub const SESSIONS_MAX: u32 = 64;

impl Cache {
    /// Returns a copy of the key's value, if it is there.
    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let hash = self.hash(key);
        let found = self.with_memory(|session| match session.look_up(key, hash) {
            Lookup::Hit(item) => Ok(Some(item.to_vec())),
            Lookup::Miss => Ok(None),
            Lookup::Pending => Err(Refusal::Pending),
        });
        found.unwrap_or_default()
    }

    /// Stores a value for a key of 1 to 250 bytes, in place of the present one. While another
    /// session is open for long, the caller's own among them, there may be no memory for it.
    ///
    /// # Errors
    ///
    /// [`Refusal::TooLarge`] or [`Refusal::NoMemory`].
    pub fn set(&self, key: &[u8], value: &[u8], expiry: Expiry) -> Result<(), Refusal> {
        let attributes = Attributes { expiry, ..Attributes::default() };
        self.put(key, value, attributes, Condition::Always).map(|_| ())
    }

    /// Stores a value if the condition holds.
    ///
    /// # Errors
    ///
    /// Those of [`Cache::set`].
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

    /// Runs an operation that needs memory in a session of its own, and again in another one if the
    /// memory that was freed for it was still visible to its session, or if an item had to be read
    /// from flash first. A session that stays open meanwhile, on whichever thread, keeps memory
    /// from coming free: after [`SESSIONS_MAX`] tries there is none.
    ///
    /// # Errors
    ///
    /// Those of the operation, but for [`Refusal::SessionTooLong`] and [`Refusal::Pending`].
    pub fn with_memory<'c, R>(
        &'c self,
        mut attempt: impl FnMut(&Session<'c>) -> Result<R, Refusal>,
    ) -> Result<R, Refusal> {
        let (mut arrived, mut sessions) = (Vec::new(), 0);
        loop {
            let session = self.session();
            session.deliver(arrived.drain(..));
            let outcome = attempt(&session);
            let wanted = session.take_wanted();
            // No thread waits with a session open.
            drop(session);
            match outcome {
                Err(Refusal::SessionTooLong) if sessions == SESSIONS_MAX => {
                    return Err(Refusal::NoMemory);
                }
                Err(Refusal::SessionTooLong) => {
                    sessions += 1;
                    self.wait_for_memory();
                }
                Err(Refusal::Pending) => arrived = self.read_wanted_now(wanted),
                outcome => return outcome,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: such a store returned only when the session ended: on the same thread, never.
    #[test]
    fn a_store_beside_an_open_session_of_its_thread_runs_out_of_memory() {
        let cache = Cache::builder().memory_bytes(4 << 20).build().expect("a small cache");
        let set = |number: u32| cache.set(&number.to_be_bytes(), &[7; 1000], Expiry::NEVER);
        let session = cache.session();
        let refused = (0..1_000_000).find_map(|number| set(number).err());
        assert_eq!(refused, Some(Refusal::NoMemory));
        drop(session);
        assert!((0..10_000).all(|number| set(number).is_ok()));
    }
}
