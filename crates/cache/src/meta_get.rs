//! Get with meta's additions: touch, vivify, and win tokens, by which one client of many is chosen
//! to recompute an item that is missing, stale or about to expire.

use std::sync::atomic::Ordering;

use hot::Fields;
use hot::mark::{FETCHED, SENT, STALE, TOKENS, fresh_mark};
use index::Hash;

use crate::item::Item;
use crate::pending_reads::OnReadFailure;
use crate::places::{Fate, Found};
use crate::session::Session;
use crate::store::Entered;
use crate::types::{Condition, Expiry, Fetch, Lookup, Refusal, Tokens, expiry_of};

/// The outcome of looking a key up in the lower tiers.
enum Fetched<'s> {
    /// The item, with nothing to be told beside it.
    Compressed(Item<'s>),
    /// No tier has it, and the miss is noted.
    Nothing,
    /// It is in the hot zone, or has to be for this request.
    Unsaid,
}

impl Session<'_> {
    /// Returns the key's item, if it is there, with the additions that `fetch` asks for.
    ///
    /// # Errors
    ///
    /// The item could not be promoted, changed or created, or has to be read from flash first.
    pub fn fetch(
        &self,
        key: &[u8],
        hash: Hash,
        fetch: &Fetch,
    ) -> Result<(Option<Item<'_>>, Tokens), Refusal> {
        let unread = if fetch.touch.is_some() { OnReadFailure::Goes } else { OnReadFailure::Stays };
        loop {
            let found = match self.fetch_compressed(key, hash, fetch)? {
                Fetched::Compressed(item) => {
                    let tokens = Tokens { expiry_before: item.expiry(), ..Tokens::default() };
                    return Ok((Some(item), tokens));
                }
                Fetched::Nothing => None,
                Fetched::Unsaid => self.find_wanted(key, hash, unread)?,
            };
            let Some((found, promoted)) = found else {
                let Some(expiry) = fetch.vivify else {
                    return Ok((None, Tokens::default()));
                };
                match self.vivify(key, hash, fetch, expiry)? {
                    Some(created) => return Ok(created),
                    None => continue,
                }
            };
            let expiry_before = expiry_of(found.item);
            let is_removed = fetch.touch.is_some_and(|expiry| self.cache.is_expired(expiry));
            // First, since it may be refused, and the request executed again: that must find the
            // item as it was, with its token and without this hit.
            let found = match fetch.touch {
                None => found,
                Some(expiry) => match self.touch_found(key, hash, expiry)? {
                    Some(touched) => touched,
                    None => continue,
                },
            };
            self.count_served(promoted);
            let before = if fetch.quiet {
                found.item.mark().load(Ordering::Relaxed)
            } else {
                self.mark_hit(found)
            };
            let tokens = self.tokens(key, hash, found, fetch, (expiry_before, is_removed));
            return Ok((Some(Item::hot(self.cache, found, before)), tokens));
        }
    }

    /// Returns the key's item if it is in a lower tier and the request only reads it.
    fn fetch_compressed(
        &self,
        key: &[u8],
        hash: Hash,
        fetch: &Fetch,
    ) -> Result<Fetched<'_>, Refusal> {
        let reads_only = fetch.touch.is_none()
            && fetch.recache_before.is_none()
            && !fetch.with_history
            && !fetch.quiet;
        if !reads_only || !self.has_lower() {
            return Ok(Fetched::Unsaid);
        }
        let gone_us = match self.look(key, hash) {
            Ok(_) => return Ok(Fetched::Unsaid),
            Err(gone_us) => gone_us,
        };
        // A client that meets a stale item may win it: that is decided in the hot zone, and counted
        // there.
        let compressed = match self.get_compressed(key, hash, TOKENS) {
            Some(item) => Lookup::Hit(item),
            None => self.get_on_flash(key, hash, TOKENS),
        };
        match compressed {
            Lookup::Hit(item) if item.is_in_recache() => Ok(Fetched::Unsaid),
            Lookup::Hit(item) => Ok(Fetched::Compressed(item)),
            Lookup::Pending => Err(Refusal::Pending),
            // It may have been promoted since the index was looked at, as in [`Session::look_up`].
            Lookup::Miss
                if self.cache.flash.is_some() && self.find_present(key, hash).is_some() =>
            {
                Ok(Fetched::Unsaid)
            }
            Lookup::Miss => {
                self.cache.note_miss(hash, gone_us);
                Ok(Fetched::Nothing)
            }
        }
    }

    /// Gives the key's item another expiry and returns it, if it is there. If that expiry has
    /// passed, the item is no longer found.
    ///
    /// # Errors
    ///
    /// The item could not be promoted or moved, or has to be read from flash first.
    pub fn get_and_touch(
        &self,
        key: &[u8],
        hash: Hash,
        expiry: Expiry,
    ) -> Result<Option<Item<'_>>, Refusal> {
        let Some((_, promoted)) = self.find_wanted(key, hash, OnReadFailure::Goes)? else {
            return Ok(None);
        };
        // Gone by now, if another client was faster.
        let found = self.touch_found(key, hash, expiry)?;
        self.count_served(promoted);
        Ok(found.map(|found| Item::hot(self.cache, found, self.mark_hit(found))))
    }

    /// Returns the tokens for this reader of an item that had this expiry, and that its touch may
    /// have removed; the first reader that may be is told to recompute it. That is decided under
    /// the key's lock, under which the mark goes along with an item that moves: otherwise a second
    /// reader would win the copy.
    fn tokens<'s>(
        &'s self,
        key: &[u8],
        hash: Hash,
        mut found: Found<'s>,
        fetch: &Fetch,
        (expiry_before, is_removed): (Expiry, bool),
    ) -> Tokens {
        let expiry = fetch.touch.filter(|_| fetch.touch_first).unwrap_or(expiry_before);
        let before_ms = fetch.recache_before.and_then(Expiry::unix_ms);
        let is_due = expiry.unix_ms().zip(before_ms).is_some_and(|(ms, before)| ms < before);
        loop {
            let mark = found.item.mark();
            let now = mark.load(Ordering::Relaxed);
            let (stale, sent) = (now & STALE != 0, now & SENT != 0);
            let mut tokens = Tokens { stale, sent, expiry_before, ..Tokens::default() };
            if !(stale || is_due) || sent {
                return tokens;
            }
            if is_removed {
                // No other reader finds it any more.
                tokens.won = true;
                self.cache.note_win(hash, found.item.cost().us());
                return tokens;
            }
            let won = self.cache.update_found(&self.guard, hash, &found, || {
                (Fate::Keep, mark.fetch_or(SENT, Ordering::Relaxed) & SENT == 0)
            });
            if let Some(won) = won {
                (tokens.won, tokens.sent) = (won, !won);
                if won {
                    self.cache.note_win(hash, found.item.cost().us());
                }
                return tokens;
            }
            let sequence = found.item.sequence();
            match self.cache.find(&self.guard, key, hash) {
                Some(moved) if moved.item.sequence() == sequence => found = moved,
                // It is another item by now, or was demoted: a client that asks for that may win
                // it.
                _ => return tokens,
            }
        }
    }

    /// Creates an empty item whose win token this reader gets. `None` if another was first.
    fn vivify(
        &self,
        key: &[u8],
        hash: Hash,
        fetch: &Fetch,
        expiry: Expiry,
    ) -> Result<Option<(Option<Item<'_>>, Tokens)>, Refusal> {
        let fields = expiry.put_in(Fields {
            custom_cas: fetch.new_cas,
            base64_key: fetch.base64_key,
            ..Fields::default()
        });
        let draft = self.cache.reserve_fields(key, hash, &fields, 0)?;
        let mark_bits = if fetch.quiet { SENT } else { SENT | FETCHED };
        match self.enter(draft, Condition::Absent, mark_bits).map_err(|(_, refusal)| refusal)? {
            Entered::Refused(..) => Ok(None),
            Entered::Stored(..) => {
                self.cache.note_win(hash, 0);
                let tokens = Tokens { won: true, created: true, ..Tokens::default() };
                let found = self.cache.find(&self.guard, key, hash);
                let item = found.map(|found| {
                    let mark = SENT | fresh_mark(self.cache.now());
                    Item::hot(self.cache, found, mark)
                });
                Ok(Some((item, tokens)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Cache;
    use crate::types::Remove;

    /// Returns a cache whose item `k` is to be recomputed.
    fn with_a_stale_item() -> Cache {
        let cache = Cache::builder().memory_bytes(4 << 20).build().expect("a small cache");
        cache.set(b"k", b"v", Expiry::NEVER).expect("an empty cache has room");
        let invalidate = Remove { invalidate: true, ..Remove::default() };
        assert!(cache.session().remove(b"k", cache.hash(b"k"), &invalidate).is_ok());
        cache
    }

    /// Regression: a reader that had found the item before it moved won it at its old place, and
    /// another won the copy.
    #[test]
    fn one_reader_wins_the_token_of_an_item_that_moves() {
        let cache = with_a_stale_item();
        let (session, hash) = (cache.session(), cache.hash(b"k"));
        let found = cache.find(&session.guard, b"k", hash).expect("it is there");
        // It has no room for an expiry.
        let later = Expiry::at(cache.now() + 1000);
        assert_eq!(session.touch(b"k", hash, later), Ok(true));
        assert!(!cache.is_still(&session.guard, hash, found.place()), "so it moves");
        let fetch = Fetch::default();
        let first = session.tokens(b"k", hash, found, &fetch, (Expiry::NEVER, false));
        assert!(first.won && !first.sent && first.stale, "{first:?}");
        let (_, second) = session.fetch(b"k", hash, &fetch).expect("it needs no memory");
        assert!(!second.won && second.sent && second.stale, "{second:?}");
    }

    /// The reader that removes an item by its touch is the only one that can be told.
    #[test]
    fn a_touch_that_removes_a_stale_item_wins_it() {
        let cache = with_a_stale_item();
        let past = Expiry::at(cache.now().saturating_sub(1).max(1));
        let fetch = Fetch { touch: Some(past), ..Fetch::default() };
        let (session, hash) = (cache.session(), cache.hash(b"k"));
        let (item, tokens) = session.fetch(b"k", hash, &fetch).expect("it needs no memory");
        assert!(item.is_some() && tokens.won && tokens.stale && !tokens.sent, "{tokens:?}");
        let (item, _) = session.fetch(b"k", hash, &fetch).expect("it needs no memory");
        assert!(item.is_none());
    }

    /// Regression: a request that was executed again, for want of memory, told the client that the
    /// item had been read before: by its own first try.
    #[test]
    fn a_fetch_whose_touch_is_refused_leaves_no_trace() {
        let builder = Cache::builder().memory_bytes(4 << 20).evict(false);
        let cache = builder.build().expect("a small cache");
        let value = [0; 1000];
        for number in 0_u32.. {
            if cache.set(&number.to_be_bytes(), &value, Expiry::NEVER).is_err() {
                break;
            }
        }
        let key = 0_u32.to_be_bytes();
        let (session, hash) = (cache.session(), cache.hash(&key));
        // The item has no room for an expiry, and there is no memory for one that has.
        let later = Some(Expiry::at(cache.now() + 1000));
        let refused = session.fetch(&key, hash, &Fetch { touch: later, ..Fetch::default() });
        assert_eq!(refused.map(|_| ()).unwrap_err(), Refusal::NoMemory);
        let item = session.peek(&key, hash).expect("it stays");
        assert!(!item.fetched());
    }

    #[test]
    fn nobody_wins_an_item_that_was_replaced() {
        let cache = with_a_stale_item();
        let (session, hash) = (cache.session(), cache.hash(b"k"));
        let found = cache.find(&session.guard, b"k", hash).expect("it is there");
        cache.set(b"k", b"w", Expiry::NEVER).expect("there is room");
        let tokens = session.tokens(b"k", hash, found, &Fetch::default(), (Expiry::NEVER, false));
        assert!(!tokens.won && !tokens.sent, "{tokens:?}");
    }
}
