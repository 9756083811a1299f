//! Values composed from the present one. They are written straight into the memory of the item that
//! they become, so that lengthening a value takes no memory beside that.

use std::borrow::Cow;

use larder::{Attributes, Condition, Draft, Hash, Item, Observed, Successor};

use super::set::fill;
use super::{Stop, Task};
use crate::output::Output;

/// A value that is made up.
///
/// ```text
/// old        | front |         | tail |
/// amended    | front | zeros | new | tail |
/// ```
#[derive(Debug, Default)]
pub(super) struct Amended<'v> {
    /// Bytes from the front of the old value.
    pub(super) front: usize,
    /// Zeros behind them.
    pub(super) zeros: usize,
    /// Bytes that the client has sent, or the server has counted.
    pub(super) new: Cow<'v, [u8]>,
    /// Bytes from the end of the old value.
    pub(super) tail: usize,
}

impl Amended<'_> {
    /// Its length.
    pub(super) fn bytes(&self) -> usize {
        self.front + self.zeros + self.new.len() + self.tail
    }

    /// Fills a draft that has room for exactly this.
    fn write(&self, old: Option<&Item<'_>>, draft: &mut Draft<'_>) {
        if let Some(old) = old {
            old.part(0, self.front).for_each(|part| fill(draft, part));
        }
        let mut zeros = self.zeros;
        while zeros > 0 {
            let space = draft.writable();
            let bytes = space.len().min(zeros);
            space[..bytes].fill(0);
            draft.advance(bytes);
            zeros -= bytes;
        }
        fill(draft, &self.new);
        if let Some(old) = old {
            let skip = old.value_bytes() - self.tail;
            old.part(skip, self.tail).for_each(|part| fill(draft, part));
        }
    }
}

impl<'s> Task<'_, '_, '_, 's, '_> {
    /// Composes a value from the present one, and stores it with the present item's expiry, client
    /// flags and cost. `make` returns the composition, or that nothing is to be stored; it is asked
    /// again if another thread was faster. Returns whether the key was there. All of the value
    /// counts as work: most of it may be copied, or zeros.
    pub(super) fn amend<'v>(
        &self,
        (key, hash): (&[u8], Hash),
        out: &mut Output<'_, '_>,
        mut make: impl FnMut(Option<&Item<'s>>) -> Result<Option<Amended<'v>>, Stop>,
    ) -> Result<bool, Stop> {
        loop {
            let observed = self.session.observe(key, hash);
            let observed = observed.map_err(|refusal| self.refused(refusal))?;
            let old = observed.as_ref().map(Observed::item);
            let Some(amended) = make(old)? else {
                return Ok(observed.is_some());
            };
            let bytes = amended.bytes();
            let draft = match &observed {
                None => self.session.reserve(key, hash, Attributes::default(), bytes),
                Some(observed) => {
                    let expiry = observed.item().expiry();
                    let successor = Successor { flags: None, expiry, cost_us: None };
                    self.session.draft_over(observed, successor, bytes)
                }
            };
            let mut draft = draft.map_err(|refusal| self.refused(refusal))?;
            amended.write(old, &mut draft);
            out.charge(bytes);
            let is_done = match &observed {
                None => self.enter(draft, Condition::Absent)?,
                Some(observed) => self.session.replace(observed, draft),
            };
            if is_done {
                return Ok(observed.is_some());
            }
        }
    }
}
