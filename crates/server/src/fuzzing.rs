//! Properties of operators' input: the bodies of the fuzz targets, which stable tests run too.

pub use crate::options::fuzzing::options;
pub use crate::users::fuzzing::users;

#[cfg(test)]
mod tests {
    use stdx::random::split_mix;

    use super::*;

    const OPTIONS: &[&str] = &[
        "port = 1\n",
        "memory-limit = \"2m\"\n",
        "listen = [\"a,b\", \"[::1]:7\"]\n",
        "verbose = 9\n",
        "extended = [\"slab_reassign\"]\n",
        "disable-cas = true\n",
        "hot-target = 1e-1\n",
        "# \u{e4}\n",
        "user = '''\n",
        "flash = \"a:2m\"\n",
        "-vvvvvvvvvvvv\n",
        "-m64\n",
        "--memory-l\n64\n",
        "-l\n,a,,b,\n",
        "-o\nidle_timeout=5,no_maxconns_fast,hashpower=9\n",
        "-D\n\"\n",
        "--flash=x:1g\n",
        "--flash-write-limit\n40g/d\n",
        "-C\n",
        "--disable-cas=false\n",
        "--cache-geometry\n6x2048x20x64\n",
        "-u\n\u{7f}\\\"\n",
        "top\n",
        "--once\n",
        "-Z\n",
        "-S\n",
        "LARDER_PORT=7\n",
        "LARDER_USER=\n",
        "LARDER_VERBOSE=3\n",
        "LARDER_LISTEN=a\n",
        "LARDER_X=1\n",
        "\u{1e}",
        "\u{1e}",
        "\u{1e}",
    ];

    const USERS: &[&str] = &[
        "bob:secret\n",
        "ann:a:b \r\n",
        "[read-only]\n",
        "[read-only]:x\n",
        ":",
        "\n",
        "$",
        "\u{e4}:\u{e4}\n",
        "pia:$pbkdf2-sha256$i=1000,l=32$c2FsdHNhbHRzYWx0$\
         sVaWem31qy3rw+Ldi3plA/XzhMSNi9/XHnnD1Ytj05o\n",
        "ava:$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0$\
         Sm3MnLdCFk0Af+croKgebRoqqmhbKd88iiW3yUOXn78\n",
        "eva:$argon2i$v=16$m=8,t=1,p=1$c2FsdHNhbHRzYWx0$\
         Sm3MnLdCFk0Af+croKgebRoqqmhbKd88iiW3yUOXn78\n",
        "i=1",
        "m=4294967295",
        "t=0",
        "p=9",
        "v=1",
        "$argon2id$$",
    ];

    /// Numbers from a printed seed (splitmix64).
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: usize) -> usize {
            (split_mix(&mut self.0) % end as u64) as usize
        }

        /// Some of `parts`, damaged now and then.
        fn text(&mut self, parts: &[&str]) -> Vec<u8> {
            let mut text = Vec::new();
            for _ in 0..1 + self.below(6) {
                text.extend_from_slice(parts[self.below(parts.len())].as_bytes());
            }
            for _ in 0..self.below(3) {
                let at = self.below(text.len());
                match self.below(3) {
                    0 => text[at] = self.below(256) as u8,
                    1 => drop(text.remove(at)),
                    _ => drop(text.splice(at..at, parts[self.below(parts.len())].bytes())),
                }
                if text.is_empty() {
                    break;
                }
            }
            text
        }
    }

    fn number_from_environment(name: &str, default: u64) -> u64 {
        std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
    }

    /// `LARDER_SEED` repeats a run and `LARDER_RUNS` lengthens it.
    fn run(parts: &[&str], body: fn(&[u8])) {
        let seed = number_from_environment("LARDER_SEED", 0x1a2d_e203);
        for run in seed..seed + number_from_environment("LARDER_RUNS", 3000) {
            let input = Random(run).text(parts);
            let ran = std::panic::catch_unwind(|| body(&input));
            let shown = String::from_utf8_lossy(&input);
            assert!(ran.is_ok(), "LARDER_SEED={run} LARDER_RUNS=1, input {shown:?}");
        }
    }

    #[test]
    fn any_options_are_refused_or_printed_so_that_they_mean_the_same() {
        run(OPTIONS, options);
    }

    #[test]
    fn any_users_are_refused_or_admitted() {
        run(USERS, users);
    }
}
