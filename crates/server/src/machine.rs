//! The memory available to the process: the machine's, or less where a control group bounds it, as
//! that of a container or of a service. Control groups are of version 2 or, on older systems, of
//! version 1, where each kind of bound has a hierarchy of its own; some systems have both at once.

use std::fs;
use std::path::Path;

use crate::options::Options;

/// The root of control groups.
const GROUPS: &str = "/sys/fs/cgroup";

/// A warning if less is available than the limit allows.
pub fn beyond(options: &Options) -> Option<String> {
    let machine = ::io::map::physical_memory_bytes().map(|bytes| (bytes as u64, "this machine"));
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = bounded_to(Path::new(GROUPS), &own).map(|bytes| (bytes, "its control group"));
    let (bytes, whose) = machine.into_iter().chain(group).min_by_key(|(bytes, _)| *bytes)?;
    told(options.memory_megabytes as u64, bytes, whose)
}

/// The bytes allowed by the control groups that a process is in, or by groups around them.
fn bounded_to(groups: &Path, own: &str) -> Option<u64> {
    own.lines().filter_map(|line| bounded_by(groups, line)).min()
}

/// The bytes allowed by the group of a line of `/proc/self/cgroup`, or by groups around it:
/// `0::/GROUP` in version 2, `NUMBER:KIND,KIND:/GROUP` in version 1.
fn bounded_by(groups: &Path, line: &str) -> Option<u64> {
    let (_, line) = line.split_once(':')?;
    let (kinds, group) = line.split_once(":/")?;
    let (root, name) = match kinds {
        "" => (groups.to_owned(), "memory.max"),
        _ if kinds.split(',').any(|kind| kind == "memory") => {
            (groups.join("memory"), "memory.limit_in_bytes")
        }
        _ => return None,
    };
    let limits = Path::new(group).ancestors().filter_map(|group| {
        let text = fs::read_to_string(root.join(group).join(name)).ok()?;
        // Without a bound it is a word in version 2, and a number beyond all memory in version 1.
        text.trim().parse().ok()
    });
    limits.min()
}

fn told(memory_megabytes: u64, bytes: u64, whose: &str) -> Option<String> {
    let megabytes = bytes >> 20;
    (memory_megabytes > megabytes).then(|| {
        format!("-m {memory_megabytes} is more than the {megabytes} megabytes of {whose}'s memory")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_memory_than_there_is_is_said() {
        assert_eq!(told(64, 64 << 20, "this machine"), None);
        let text = told(65, 64 << 20, "this machine").expect("one more");
        assert_eq!(text, "-m 65 is more than the 64 megabytes of this machine's memory");
    }

    /// Regression: a container with less memory than `-m` was killed without a warning.
    #[test]
    fn the_least_of_the_groups_around_a_process_bounds_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let limit = |group: &str, text: &str| {
            let group = folder.path().join(group);
            fs::create_dir_all(&group).expect("a folder");
            fs::write(group.join("memory.max"), text).expect("a file");
        };
        let bounded = |own: &str| bounded_to(folder.path(), own);
        assert_eq!(bounded("0::/pod/server\n"), None);
        limit("pod/server", "max\n");
        assert_eq!(bounded("0::/pod/server\n"), None);
        limit("pod", "2097152\n");
        assert_eq!(bounded("0::/pod/server\n"), Some(2 << 20));
        limit("pod/server", "1048576\n");
        assert_eq!(bounded("3:cpu:/x\n0::/pod/server\n"), Some(1 << 20));
        assert_eq!(
            (bounded("0::/other\n"), bounded("3:memory:/pod\n"), bounded("")),
            (None, None, None)
        );
        // As a container sees its own group.
        limit("", "4096\n");
        assert_eq!(bounded("0::/\n"), Some(4096));
    }

    /// Regression: a bound by a group of version 1 was not seen.
    #[test]
    fn groups_of_version_1_bound_a_process_too_and_the_least_of_all_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        let limit = |file: &str, text: &str| {
            let file = folder.path().join(file);
            fs::create_dir_all(file.parent().expect("it has one")).expect("a folder");
            fs::write(file, text).expect("a file");
        };
        let own = "3:cpu,cpuacct:/cpu\n2:hugetlb,memory:/pod/server\n0::/unified\n";
        let bounded = || bounded_to(folder.path(), own);
        limit("memory/pod/server/memory.limit_in_bytes", "9223372036854771712\n");
        limit("cpu/cpu/memory.limit_in_bytes", "1\n");
        assert_eq!(bounded(), Some(9_223_372_036_854_771_712));
        limit("memory/pod/memory.limit_in_bytes", "3145728\n");
        assert_eq!(bounded(), Some(3 << 20));
        limit("unified/memory.max", "2097152\n");
        assert_eq!(bounded(), Some(2 << 20));
        // As a container sees its own group, by the name that it has outside.
        limit("memory/memory.limit_in_bytes", "1048576\n");
        assert_eq!(bounded(), Some(1 << 20));
    }
}
