//! Promotion at once: an item that was read moves into the hot area without waiting for its segment
//! to be collected.
//!
//! The item leaves a segment that stays valid. So its death there is noted before the index leads
//! elsewhere: from then on it is staged, and may be forgotten without a note. In the other order, a
//! process that is killed in between would leave it to be found where it was.

use codec::record::Record;
use stdx::sync::lock;

use crate::area::Area;
use crate::stage::Intake;
use crate::{Flash, IndexAccess, Place, Refused, Ticket};

/// When items that were read move into the hot area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promotion {
    /// When their segment is collected, which looks at them anyway.
    Merged,
    /// At once, by [`Flash::promote`]; the others when their segment is collected.
    Immediate,
}

impl Flash {
    /// Stages an item into the hot area that was just read by this ticket from a place in the cold
    /// one, and leads the index there. `false` if it is not worth it or too late: promotion is not
    /// [`Promotion::Immediate`], the item is hot already, or the index now leads elsewhere.
    pub fn promote(
        &self,
        hash: u64,
        place: Place,
        ticket: &Ticket,
        record: &Record<'_>,
        access: &dyn IndexAccess,
    ) -> Result<bool, Refused> {
        let is_cold = || self.segments[ticket.spot.segment as usize].area() == Area::Cold;
        let is_of_ticket = self.geometry.locate(place) == Some(ticket.spot);
        if self.promotion == Promotion::Merged || !is_of_ticket || !is_cold() {
            return Ok(false);
        }
        let mut writer = lock(&self.writer);
        // Under the writer's lock a segment that has this life keeps it.
        if writer.hot_target.is_none()
            || !self.is_current(ticket)
            || self.is_flushed(place, record.key)
            || access.accesses(hash, place).is_none()
        {
            return Ok(false);
        }
        let staged = self.take_row(&mut writer, Area::Hot, hash, record, Intake::Moved, access)?;
        self.journal(ticket.spot.segment, ticket.spot.granule, hash);
        if !access.relocate(hash, place, staged) {
            writer.stream(Area::Hot).unit.pop();
            return Ok(false);
        }
        self.counters.promoted.add(1);
        self.counters.areas[Area::Hot.index()].moved_in.add(1);
        Ok(true)
    }
}
