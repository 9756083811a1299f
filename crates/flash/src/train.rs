//! Training: the background's part of what `dictionaries` and `sampling` describe.

use codec::Dictionary;
use stdx::sync::lock;

use crate::Flash;
use crate::dictionaries::DICTIONARIES_MAX;
use crate::writer::{Stream, Writer};

/// A trained dictionary, and the number of rows in its samples.
pub(crate) struct Trained {
    pub(crate) dictionary: Dictionary,
    rows: u32,
}

impl Flash {
    /// Trains a dictionary if there are samples enough, and leaves it to [`Flash::maintain`], which
    /// makes it the current one if it is better than that. Training takes some tenths of a second,
    /// in which nothing waits for it: a thread of its own may call it. Returns whether it has
    /// trained one, used or not.
    pub fn train(&self) -> bool {
        let (samples, current) = {
            let mut writer = lock(&self.writer);
            let Some(samples) = writer.sampling.take() else { return false };
            (samples, writer.dictionary.clone())
        };
        let (bytes_max, rows) = (self.dictionary_bytes_max(), samples.rows());
        let better = samples.train(bytes_max, self.level).filter(|fresh| {
            let current = current.as_ref().map(|known| &known.dictionary);
            samples.prefers(fresh, current, self.level)
        });
        let better = better.map(Dictionary::with_hurried);
        let mut writer = lock(&self.writer);
        match better {
            Some(dictionary) => writer.trained = Some(Trained { dictionary, rows }),
            None => writer.sampling.resume(rows, false),
        }
        true
    }

    /// Makes a waiting trained dictionary the current one. Called with the lock of the chores held:
    /// no segment is collected meanwhile, and none is given to the index.
    pub(crate) fn publish_trained(&self) {
        let trained = lock(&self.writer).trained.take();
        if let Some(Trained { dictionary, rows }) = trained {
            let is_published = self.publish(dictionary);
            lock(&self.writer).sampling.resume(rows, is_published);
        }
    }

    /// Bytes of the longest possible dictionary.
    pub(crate) fn dictionary_bytes_max(&self) -> usize {
        self.dictionaries.bytes_max().min(self.dictionary_bytes)
    }

    /// Writes a dictionary to a slot that no segment names, and makes it the current one. `false`
    /// if there is no such slot, or the device refuses all of them.
    pub(crate) fn publish(&self, fresh: Dictionary) -> bool {
        let free = {
            let writer = lock(&self.writer);
            let current = writer.dictionary.as_ref().map_or(0, |known| known.number);
            let named = writer.named();
            self.dictionaries.tidy(current, |number| named[usize::from(number)])
        };
        // A slot may be bad for good.
        let number = free.into_iter().find(|&number| {
            let written = self.dictionaries.write(&*self.device, number, &fresh);
            self.counters.io_errors.add(written.is_err().into());
            written.is_ok()
        });
        let Some(number) = number else { return false };
        let known = self.dictionaries.keep(number, fresh);
        let mut writer = lock(&self.writer);
        writer.dictionary = Some(known);
        // The previous one only decodes from now on.
        let named = writer.named();
        self.dictionaries.tidy(number, |number| named[usize::from(number)]);
        drop(writer);
        self.counters.trained.add(1);
        true
    }
}

impl Writer {
    /// Which dictionaries segments name, by their numbers. Looks at few segments: there may be a
    /// million, and other threads wait for the lock. Only segments that were found at the start are
    /// all looked at, as long as they are not given to the index.
    fn named(&self) -> [bool; DICTIONARIES_MAX + 1] {
        let open = self.streams.iter().filter_map(|stream| stream.open.as_ref());
        let waiting = self.waiting.iter().map(|full| full.entry.dictionary);
        let open = open.filter_map(|open| open.dictionary.as_ref().map(|known| known.number));
        let mut named = [false; DICTIONARIES_MAX + 1];
        let found = self.found.iter().map(|found| found.entry.dictionary);
        for number in open.chain(waiting).chain(found) {
            let named = named.get_mut(usize::from(number));
            *named.expect("a start has made void what names others") = true;
        }
        for Stream { written, .. } in &self.streams {
            let listed = named.iter_mut().zip(written.named());
            listed.for_each(|(named, is_listed)| *named |= is_listed);
        }
        named
    }
}
