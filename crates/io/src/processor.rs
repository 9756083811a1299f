//! The processor as the kernel describes it: its last-level cache.

use std::fs;
use std::path::Path;

/// Where the kernel lists the caches of the first processor, each in a folder of its own.
const CACHES: &str = "/sys/devices/system/cpu/cpu0/cache";

/// A cache, as far as the kernel tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cache {
    /// 1 is next to the core.
    pub level: usize,
    /// Bytes of a line.
    pub line_bytes: usize,
    /// Lines of a set.
    pub ways: usize,
    /// Sets of all slices together.
    pub sets: usize,
}

/// The cache furthest from the core that holds data; `None` where the kernel does not tell.
pub fn last_level_cache() -> Option<Cache> {
    last_level_in(Path::new(CACHES))
}

fn last_level_in(caches: &Path) -> Option<Cache> {
    let entries = fs::read_dir(caches).ok()?;
    let cache = |entry: fs::DirEntry| {
        let folder = entry.path();
        described(|name| fs::read_to_string(folder.join(name)).ok())
    };
    entries.flatten().filter_map(cache).max_by_key(|cache| cache.level)
}

/// The cache that these texts describe, if it holds data and the kernel knows all of its figures:
/// an unknown one is 0.
fn described(text: impl Fn(&str) -> Option<String>) -> Option<Cache> {
    let number = |name| text(name)?.trim().parse().ok().filter(|&number: &usize| number > 0);
    let has_data = matches!(text("type")?.trim(), "Data" | "Unified");
    let cache = Cache {
        level: number("level")?,
        line_bytes: number("coherency_line_size")?,
        ways: number("ways_of_associativity")?,
        sets: number("number_of_sets")?,
    };
    has_data.then_some(cache)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(kind: &str, level: &str, sets: &str) -> Option<Cache> {
        described(|name| {
            let text = match name {
                "type" => kind,
                "level" => level,
                "coherency_line_size" => "64\n",
                "ways_of_associativity" => "16\n",
                "number_of_sets" => sets,
                _ => return None,
            };
            Some(text.to_owned())
        })
    }

    #[test]
    fn a_cache_is_described_only_if_it_holds_data_and_is_fully_known() {
        let cache = Cache { level: 3, line_bytes: 64, ways: 16, sets: 32_768 };
        assert_eq!(text("Unified\n", "3\n", "32768\n"), Some(cache));
        assert_eq!(text("Data\n", "3\n", "32768\n"), Some(cache));
        assert_eq!(text("Instruction\n", "3\n", "32768\n"), None);
        assert_eq!(text("Unified\n", "3\n", "0\n"), None);
        assert_eq!(text("Unified\n", "", "32768\n"), None);
        assert_eq!(described(|_| None), None);
    }

    #[test]
    fn the_last_of_several_levels_counts_and_no_folder_is_no_cache() {
        let folder = tempfile::tempdir().expect("a folder for a test");
        let kinds = [("1", "Data"), ("3", "Unified"), ("2", "Unified"), ("4", "Instruction")];
        for (number, (level, kind)) in kinds.into_iter().enumerate() {
            let cache = folder.path().join(format!("index{number}"));
            fs::create_dir(&cache).expect("a folder for a test");
            let texts = [
                ("level", level),
                ("type", kind),
                ("coherency_line_size", "64"),
                ("ways_of_associativity", "8"),
                ("number_of_sets", "1024"),
            ];
            for (name, text) in texts {
                fs::write(cache.join(name), text).expect("a file of a test");
            }
        }
        assert_eq!(last_level_in(folder.path()).map(|cache| cache.level), Some(3));
        assert_eq!(last_level_in(&folder.path().join("none")), None);
    }
}
