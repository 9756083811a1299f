//! The topic of a `stats` command: the words behind it, as memcached 1.6.45 takes them.
//!
//! In text the beginning of some known words is enough, so that `stats set` shows the settings, and
//! words behind the one that counts are ignored. In the binary protocol it is the other way round:
//! the key only has to begin with such a word. All other words have to match exactly.

use protocol::parse::tokens::Tokens;

/// The topic asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    General,
    Settings,
    Items,
    Slabs,
    Costs,
    Compressed,
    Quotas,
    Flash,
    Sizes,
    Connections,
    Cachedump,
    /// To count from here on.
    Reset,
    /// Statistics by namespace; `None` without a known action.
    Detail(Option<Detail>),
}

/// The action on the statistics by namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    On,
    Off,
    Dump,
}

impl Topic {
    /// The topic of a line with `arguments` behind `stats`.
    pub fn of_line(arguments: &[u8]) -> Option<Self> {
        let mut words = Tokens::new(arguments);
        let Some(word) = words.next() else {
            return Some(Self::General);
        };
        let begins = |known: &[u8]| known.starts_with(word);
        // Of several words that one is the beginning of, the first counts.
        if begins(b"reset") {
            Some(Self::Reset)
        } else if begins(b"detail") {
            Some(Self::Detail(words.next().and_then(Detail::of_word)))
        } else if begins(b"settings") {
            Some(Self::Settings)
        } else if begins(b"cachedump") {
            Some(Self::Cachedump)
        } else if begins(b"conns") {
            Some(Self::Connections)
        } else {
            Self::of_name(word)
        }
    }

    /// The topic of a packet with this key.
    pub fn of_packet(key: &[u8]) -> Option<Self> {
        if key.is_empty() {
            Some(Self::General)
        } else if key.starts_with(b"reset") {
            Some(Self::Reset)
        } else if key.starts_with(b"settings") {
            Some(Self::Settings)
        } else if let Some(behind) = key.strip_prefix(b"detail") {
            Some(Self::Detail(Detail::of_behind(behind)))
        } else if key == b"conns" {
            Some(Self::Connections)
        } else {
            Self::of_name(key)
        }
    }

    fn of_name(word: &[u8]) -> Option<Self> {
        Some(match word {
            b"items" => Self::Items,
            b"slabs" => Self::Slabs,
            b"costs" => Self::Costs,
            b"compressed" => Self::Compressed,
            b"quotas" => Self::Quotas,
            b"flash" => Self::Flash,
            b"sizes" | b"sizes_enable" | b"sizes_disable" => Self::Sizes,
            _ => return None,
        })
    }

    /// Whether asking for it changes anything.
    pub fn is_change(self) -> bool {
        matches!(self, Self::Reset | Self::Detail(Some(Detail::On | Detail::Off)))
    }
}

impl Detail {
    fn of_word(word: &[u8]) -> Option<Self> {
        let known = [(&b"on"[..], Self::On), (b"off", Self::Off), (b"dump", Self::Dump)];
        known.into_iter().find(|(known, _)| known.starts_with(word)).map(|(_, detail)| detail)
    }

    fn of_behind(behind: &[u8]) -> Option<Self> {
        let known = [(&b" dump"[..], Self::Dump), (b" on", Self::On), (b" off", Self::Off)];
        known.into_iter().find(|(known, _)| behind.starts_with(known)).map(|(_, detail)| detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: `stats resetx` reset all counters: the words were matched the wrong way round.
    #[test]
    fn a_line_may_have_the_beginning_of_a_word_and_no_more_than_the_word() {
        for (line, topic) in [
            (&b""[..], Some(Topic::General)),
            (b"reset", Some(Topic::Reset)),
            (b"res", Some(Topic::Reset)),
            (b"resetx", None),
            (b"settings", Some(Topic::Settings)),
            (b"set and more", Some(Topic::Settings)),
            (b"s", Some(Topic::Settings)),
            (b"settingsfoo", None),
            (b"c", Some(Topic::Cachedump)),
            (b"co", Some(Topic::Connections)),
            (b"items foo", Some(Topic::Items)),
            (b"item", None),
            (b"itemsfoo", None),
            (b"sizes_enable", Some(Topic::Sizes)),
            (b"detail", Some(Topic::Detail(None))),
            (b"det on and on", Some(Topic::Detail(Some(Detail::On)))),
            (b"detail of", Some(Topic::Detail(Some(Detail::Off)))),
            (b"detail d", Some(Topic::Detail(Some(Detail::Dump)))),
            (b"detail dumped", Some(Topic::Detail(None))),
            (b"detailed dump", None),
        ] {
            assert_eq!(Topic::of_line(line), topic, "{}", line.escape_ascii());
        }
    }

    #[test]
    fn a_key_begins_with_a_word_that_is_known() {
        for (key, topic) in [
            (&b""[..], Some(Topic::General)),
            (b"resetx", Some(Topic::Reset)),
            (b"res", None),
            (b"settingsfoo", Some(Topic::Settings)),
            (b"set", None),
            (b"items", Some(Topic::Items)),
            (b"items foo", None),
            (b"conns", Some(Topic::Connections)),
            (b"detail", Some(Topic::Detail(None))),
            (b"detail on", Some(Topic::Detail(Some(Detail::On)))),
            (b"detail offal", Some(Topic::Detail(Some(Detail::Off)))),
            (b"detaildump", Some(Topic::Detail(None))),
            (b"detail dump", Some(Topic::Detail(Some(Detail::Dump)))),
        ] {
            assert_eq!(Topic::of_packet(key), topic, "{}", key.escape_ascii());
        }
    }
}
