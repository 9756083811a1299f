//! When the rows of a block expire, as far as 16 bytes can say: enough to know without decoding
//! whether a rewrite would gain anything. A block in which nothing expires has no summary.
//!
//! ```text
//!   0       4      6                               16
//!   +-------+------+-----+-----+-----+-----+-----+
//!   | base  | last | 5 points, u16 each          |
//!   | u32   | u16  |                             |
//!   +-------+------+-----+-----+-----+-----+-----+
//!
//!   base    Unix seconds, no later than any of the others
//!   last    when all rows have expired, in seconds behind the base
//!   point   when a row expires that stands for a fifth of the bytes
//! ```
//!
//! Seconds behind the base are exact up to 8191, and beyond that rounded up to 13 significant bits.
//!
//! When a block is built, the points are the expiries at 10, 30, 50, 70 and 90 percent of its
//! bytes. An appended row replaces each point with a probability that is its share of the bytes, so
//! that the points stay a sample of all rows, and none has to be decoded for that. So the points
//! may be wrong about other rows. `last` never says that everything has expired while something has
//! not: it alone decides that a block is dropped unread.

use stdx::random::Xorshift;

/// Bytes of a summary in a block.
pub(crate) const SUMMARY_BYTES: usize = 16;

const POINTS: usize = 5;
/// A block is worth a rewrite when this many of its points have expired: for one that was just
/// built that is 30 percent of its bytes. Then two to three rows are encoded for each that is
/// removed, about as much as when a row of 200 bytes is appended, which encodes half a frame. If
/// that pays for each row that is added, it does for the room that the row takes.
const WORTH_POINTS: usize = 2;

/// The code for never, in place of seconds behind a base.
const NEVER: u16 = u16::MAX;
/// Significant bits of seconds behind a base.
const SIGNIFICANT_BITS: u32 = 13;
const MANTISSA: u32 = 1 << (SIGNIFICANT_BITS - 1);

const _: () = assert!(size_of::<u32>() + (1 + POINTS) * size_of::<u16>() == SUMMARY_BYTES);

/// When the rows of a block expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Summary {
    base: u32,
    last: u16,
    points: [u16; POINTS],
}

impl Summary {
    /// The summary of rows with these expiries (0 never) and bytes; `None` if no row expires.
    pub(crate) fn of(rows: impl Iterator<Item = (u32, usize)>) -> Option<Self> {
        let mut rows: Vec<(u32, usize)> =
            rows.map(|(expiry, bytes)| (expiry.wrapping_sub(1), bytes)).collect();
        rows.sort_unstable();
        let total: usize = rows.iter().map(|(_, bytes)| bytes).sum();
        let (first, last) = (rows.first()?.0, rows.last()?.0);
        if first == u32::MAX {
            return None;
        }
        let base = first + 1;
        let code = |before: u32| code_of(base, before.wrapping_add(1));
        let (mut points, mut filled, mut passed) = ([NEVER; POINTS], 0, 0);
        for (before, bytes) in rows {
            passed += bytes;
            while filled < POINTS && passed * 2 * POINTS >= total * (2 * filled + 1) {
                points[filled] = code(before);
                filled += 1;
            }
        }
        Some(Self { base, last: code(last), points })
    }

    /// The summary of a block after another row, with this share of its bytes, was appended.
    pub(crate) fn with(
        before: Option<Self>,
        expiry: u32,
        share: f64,
        random: &mut Xorshift,
    ) -> Option<Self> {
        if before.is_none() && expiry == 0 {
            return None;
        }
        let fresh = Self { base: expiry, last: NEVER, points: [NEVER; POINTS] };
        let mut summary = before.unwrap_or(fresh);
        if expiry != 0 && expiry < summary.base {
            summary = summary.based_on(expiry);
        }
        let code = code_of(summary.base, expiry);
        summary.last = summary.last.max(code);
        for point in &mut summary.points {
            if random.chance(share) {
                *point = code;
            }
        }
        Some(summary)
    }

    /// When a tenth of the block, or an appended row, has expired; `u32::MAX` never.
    pub(crate) fn begins(&self) -> u32 {
        self.points.iter().min().map_or(u32::MAX, |&point| self.time_of(point))
    }

    /// When a rewrite is worth it; `u32::MAX` never.
    pub(crate) fn due(&self) -> u32 {
        let mut points = self.points;
        points.sort_unstable();
        self.time_of(points[WORTH_POINTS - 1])
    }

    /// When everything in the block has expired; `u32::MAX` never.
    pub(crate) fn over(&self) -> u32 {
        self.time_of(self.last)
    }

    /// The summary as it stands in a block.
    pub(crate) fn bytes(&self) -> [u8; SUMMARY_BYTES] {
        let mut bytes = [0; SUMMARY_BYTES];
        let (base, codes) = bytes.split_at_mut(size_of::<u32>());
        base.copy_from_slice(&self.base.to_ne_bytes());
        let values = [self.last].into_iter().chain(self.points);
        for (code, value) in codes.as_chunks_mut().0.iter_mut().zip(values) {
            *code = value.to_ne_bytes();
        }
        bytes
    }

    /// Reads the summary of a block.
    pub(crate) fn read(bytes: &[u8; SUMMARY_BYTES]) -> Self {
        let &[b0, b1, b2, b3, ref codes @ ..] = bytes;
        let mut codes = codes.as_chunks().0.iter().map(|code| u16::from_ne_bytes(*code));
        let mut next = || codes.next().unwrap_or(NEVER);
        let (base, last) = (u32::from_ne_bytes([b0, b1, b2, b3]), next());
        Self { base, last, points: std::array::from_fn(|_| next()) }
    }

    /// The same summary with an earlier base.
    fn based_on(&self, base: u32) -> Self {
        let moved = |code| code_of(base, if code == NEVER { 0 } else { self.time_of(code) });
        Self { base, last: moved(self.last), points: self.points.map(moved) }
    }

    fn time_of(&self, code: u16) -> u32 {
        if code == NEVER {
            return u32::MAX;
        }
        let code = u32::from(code);
        let shift = (code / MANTISSA).saturating_sub(1);
        let behind = if shift == 0 { code } else { (MANTISSA + code % MANTISSA) << shift };
        self.base.saturating_add(behind)
    }
}

/// The code of an expiry (0 never) that is not before the base. An expiry too far behind it counts
/// as never.
fn code_of(base: u32, expiry: u32) -> u16 {
    if expiry == 0 {
        return NEVER;
    }
    debug_assert!(expiry >= base);
    let behind = expiry - base;
    let bits = u32::BITS - behind.leading_zeros();
    let shift = bits.saturating_sub(SIGNIFICANT_BITS);
    // Rounding up may carry into the next power of two, which the sum below takes care of.
    let rounded = u64::from(behind).div_ceil(1 << shift) as u32;
    u16::try_from(shift * MANTISSA + rounded).unwrap_or(NEVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u32 = 1_800_000_000;

    fn row(seconds: u32) -> (u32, usize) {
        (if seconds == 0 { 0 } else { NOW + seconds }, 100)
    }

    #[test]
    fn times_are_exact_for_two_hours_and_then_never_early_and_hardly_late() {
        let at = |behind: u32| {
            let summary = Summary { base: NOW, last: code_of(NOW, NOW + behind), points: [0; 5] };
            assert_eq!(Summary::read(&summary.bytes()), summary);
            summary.over()
        };
        for behind in (0..8192).chain([8192, 16_384, 1 << 26]) {
            assert_eq!(at(behind), NOW + behind);
        }
        const LAST: u32 = 8190 << 14;
        for behind in (8191..LAST).step_by(9973).chain([(1 << 20) - 1, LAST]) {
            let late = at(behind) - NOW - behind;
            assert!(late <= behind >> 12, "{behind}: {late}");
        }
        assert_eq!([at(LAST + 1), at(u32::MAX - NOW)], [u32::MAX; 2]);
    }

    #[test]
    fn a_block_is_due_with_three_expired_rows_in_ten_and_over_with_all() {
        let summary = Summary::of((1..=10).rev().map(row)).expect("they expire");
        assert_eq!((summary.due(), summary.over()), (NOW + 3, NOW + 10));
        let summary = Summary::of([row(0), row(0), row(9), row(7)].into_iter());
        let summary = summary.expect("two expire");
        assert_eq!((summary.due(), summary.over()), (NOW + 9, u32::MAX));
        // One row, but most of the bytes.
        let rows = [row(0), row(0), (NOW + 5, 1000)];
        assert_eq!(Summary::of(rows.into_iter()).map(|it| it.due()), Some(NOW + 5));
        let rows = (0..10).map(|at| row(if at < 2 { 5 } else { 0 }));
        assert_eq!(Summary::of(rows).map(|it| it.due()), Some(u32::MAX));
        assert_eq!(Summary::of([row(0), row(0)].into_iter()), None);
    }

    #[test]
    fn appended_rows_become_known_and_a_block_with_a_live_row_is_never_over() {
        let mut random = Xorshift::default();
        let mut known = 0;
        for _ in 0..1000 {
            let mut summary = None;
            for rows in 1..=20_u32 {
                summary = Summary::with(summary, 0, 1.0 / f64::from(rows), &mut random);
            }
            assert_eq!(summary, None);
            for rows in 21..=40_u32 {
                // Earlier and earlier, so that the base moves.
                let expiry = NOW + 1000 - 10 * rows;
                summary = Summary::with(summary, expiry, 1.0 / f64::from(rows), &mut random);
            }
            let summary = summary.expect("half of the rows expire");
            assert_eq!(summary.over(), u32::MAX);
            known += u32::from(summary.due() < NOW + 1000);
        }
        // At least two of five points, each of which is in the expiring half by one chance in two.
        assert!((750..875).contains(&known), "{known}");
        let mut summary = Summary::of([row(100), row(300)].into_iter());
        summary = Summary::with(summary, NOW + 20_000, 0.0, &mut random);
        assert!(summary.is_some_and(|it| (20_000..20_005).contains(&(it.over() - NOW))));
        summary = Summary::with(summary, NOW - 5, 0.0, &mut random);
        assert!(summary.is_some_and(|it| (20_000..20_010).contains(&(it.over() - NOW))));
        assert_eq!(summary.map(|it| it.due()), Some(NOW + 100));
        summary = Summary::with(summary, 0, 0.0, &mut random);
        assert_eq!(summary.map(|it| it.over()), Some(u32::MAX));
    }
}
