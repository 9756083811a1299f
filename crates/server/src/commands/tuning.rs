//! `lru`, `slabs` and the tuning commands of `lru_crawler`. They have no effect: their arguments
//! are checked, and answered as memcached would.

use protocol::{Refusal, reply};

/// The highest number of a size class in memcached.
const CLASS_MAX: u32 = 63;

/// The longest that memcached's crawler sleeps between two items.
const SLEEP_US_MAX: u32 = 1_000_000;

/// The most that memcached gives to its hot and warm lists together, in percent of the memory.
const HOT_AND_WARM_PERCENT_MAX: u64 = 80;

const BAD_CLASS: &str = "BADCLASS invalid class id\r\n";
const BAD_FACTOR: &str = "ERROR hot/warm age factors must be greater than 0\r\n";
const BAD_PERCENT: &str = "ERROR hot and warm pcts must not exceed 80\r\n";
const BAD_SLEEP: &str = "CLIENT_ERROR sleep must be one second or less\r\n";
const BAD_WINDOW: &str = "CLIENT_ERROR automove window too low or too high\r\n";
const NO_SPARE_PAGES: &str = "NOSPARE source class has no spare pages\r\n";

/// The answer to a line of these words.
pub fn answer(words: &[&[u8]]) -> &'static str {
    let bad_format = Refusal::BadCommandLineFormat.line();
    match *words {
        [b"lru_crawler", b"enable" | b"disable"] => reply::OK,
        [b"lru_crawler", b"crawl", classes] if are_classes(classes) => reply::OK,
        [b"lru_crawler", b"crawl", _] => BAD_CLASS,
        [b"lru_crawler", b"sleep", sleep_us] => match number::<u32>(sleep_us) {
            Some(0..=SLEEP_US_MAX) => reply::OK,
            Some(_) => BAD_SLEEP,
            None => bad_format,
        },
        [b"lru_crawler", b"tocrawl", items] => {
            number::<u32>(items).map_or(bad_format, |_| reply::OK)
        }
        [b"lru", b"mode", mode, ..] => {
            let is_known = b"flat".starts_with(mode) || b"segmented".starts_with(mode);
            if is_known { reply::OK } else { reply::ERROR }
        }
        [b"lru", b"temp_ttl", ttl_s, ..] => {
            number::<i32>(ttl_s).map_or(reply::ERROR, |_| reply::OK)
        }
        [b"lru", b"tune", hot, warm, hot_factor, warm_factor, ..] => {
            tune([hot, warm], [hot_factor, warm_factor])
        }
        [b"slabs", b"automove", ref wish @ ..] => automove(wish),
        [b"slabs", b"reassign", source, target] => {
            let are_numbers = number::<i32>(source).is_some() && number::<i32>(target).is_some();
            if are_numbers { NO_SPARE_PAGES } else { bad_format }
        }
        _ => reply::ERROR,
    }
}

/// Parses a number that takes the whole word.
fn number<N: std::str::FromStr>(word: &[u8]) -> Option<N> {
    str::from_utf8(word).ok().filter(|word| !word.starts_with('+'))?.parse().ok()
}

/// Whether the word is `all`, or numbers of classes with commas between them.
fn are_classes(word: &[u8]) -> bool {
    let mut classes = word.split(|&byte| byte == b',').filter(|class| !class.is_empty());
    word == b"all" || classes.all(|class| matches!(number(class), Some(1..=CLASS_MAX)))
}

/// Checks shares of the memory, and ages as shares of that of the oldest cold item.
fn tune(percents: [&[u8]; 2], factors: [&[u8]; 2]) -> &'static str {
    let (percents, factors) = (percents.map(number::<u32>), factors.map(number::<f64>));
    let ([Some(hot), Some(warm)], [Some(hot_factor), Some(warm_factor)]) = (percents, factors)
    else {
        return reply::ERROR;
    };
    if u64::from(hot) + u64::from(warm) > HOT_AND_WARM_PERCENT_MAX {
        BAD_PERCENT
    } else if hot_factor <= 0.0 || warm_factor <= 0.0 {
        BAD_FACTOR
    } else {
        reply::OK
    }
}

/// Checks a setting of the automover.
fn automove(wish: &[&[u8]]) -> &'static str {
    let bad_format = Refusal::BadCommandLineFormat.line();
    let word = |place: usize| wish.get(place).copied().unwrap_or_default();
    match word(0) {
        b"ratio" | b"freeratio" if number::<f64>(word(1)).is_some() => reply::OK,
        b"ratio" | b"freeratio" => reply::ERROR,
        b"window" => match number::<u32>(word(1)) {
            Some(3..=1800) => reply::OK,
            Some(_) => BAD_WINDOW,
            None => bad_format,
        },
        level => match number::<u32>(level) {
            Some(0..=2) => reply::OK,
            Some(_) => reply::ERROR,
            None => bad_format,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> &'static str {
        answer(&text.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    /// Regression: any words were accepted where memcached checks them, so that a script was not
    /// told of an error in them.
    #[test]
    fn words_that_memcached_refuses_are_refused() {
        let bad_format = Refusal::BadCommandLineFormat.line();
        for (text, expected) in [
            ("lru mode flat", reply::OK),
            ("lru mode segmented", reply::OK),
            ("lru mode x", reply::ERROR),
            ("lru mode", reply::ERROR),
            ("lru temp_ttl -1", reply::OK),
            ("lru temp_ttl 61 x", reply::OK),
            ("lru temp_ttl 1x", reply::ERROR),
            ("lru temp_ttl 2147483648", reply::ERROR),
            ("lru temp_ttl", reply::ERROR),
            ("lru tune 10 25 0.1 2.0", reply::OK),
            ("lru tune 40 40 0.1 2.0", reply::OK),
            ("lru tune 40 41 0.1 2.0", BAD_PERCENT),
            ("lru tune 10 25 0 2.0", BAD_FACTOR),
            ("lru tune 10 25 0.1 -1", BAD_FACTOR),
            ("lru tune 10 25 0.1 x", reply::ERROR),
            ("lru tune x 25 0.1 2.0", reply::ERROR),
            ("lru tune 10.5 25 0.1 2.0", reply::ERROR),
            ("lru tune 10 25 0.1", reply::ERROR),
            ("lru tune 10", reply::ERROR),
            ("lru_crawler enable", reply::OK),
            ("lru_crawler crawl all", reply::OK),
            ("lru_crawler crawl 1,63,", reply::OK),
            ("lru_crawler crawl 1,64", BAD_CLASS),
            ("lru_crawler crawl 0", BAD_CLASS),
            ("lru_crawler crawl x", BAD_CLASS),
            ("lru_crawler sleep 1000000", reply::OK),
            ("lru_crawler sleep 1000001", BAD_SLEEP),
            ("lru_crawler sleep -1", bad_format),
            ("lru_crawler tocrawl 4294967295", reply::OK),
            ("lru_crawler tocrawl 4294967296", bad_format),
            ("lru_crawler tocrawl +1", bad_format),
            ("slabs reassign 1 2", NO_SPARE_PAGES),
            ("slabs reassign 1 x", bad_format),
            ("slabs reassign 1", reply::ERROR),
            ("extstore item_age 1", reply::ERROR),
        ] {
            assert_eq!(line(text), expected, "{text}");
        }
    }
}
