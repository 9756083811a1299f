//! Options that have no effect beside others, or without them. A user who sets one expects an
//! effect, so a line of the log, and of `--check`, says that it has none.

use larder::Policy;

use super::Options;
use crate::listen;

/// The long name of an option, whether it has an effect, and the reason if it has none.
type Need = (&'static str, fn(&Options) -> bool, &'static str);

/// Options that need another one. TLS and Unix sockets are checked elsewhere.
pub const NEEDS: &[Need] = &[
    ("flash-write-limit", |options| options.flash.is_some(), "without --flash"),
    ("flash-reads", |options| options.flash.is_some(), "without --flash"),
    (
        "save-seconds",
        |options| options.flash.is_some() || options.memory_file.is_some(),
        "without --flash or --memory-file",
    ),
    ("cache-geometry", |options| options.repartition, "without --repartition"),
    ("redis-tls", |options| options.redis_port != 0, "without --redis-port"),
    ("unix-mask", |options| options.unix_path.is_some(), "without --unix-socket"),
    ("cost-unit-us", |options| options.policy == Policy::GdWheel, "without --policy gd-wheel"),
    ("hot-target", |options| options.compressed, "with --compressed off"),
];

/// Returns a warning for each option without effect; `is_said` tells which options differ from
/// their defaults.
pub fn warnings(options: &Options, is_said: impl Fn(&str) -> bool) -> Vec<String> {
    let idle = NEEDS.iter().filter(|(long, works, _)| is_said(long) && !works(options));
    let idle = idle.map(|(long, _, why)| format!("--{long} has no effect {why}"));
    let own_port = listen::own_port(&options.admin_listen);
    let ports = options.admin_port.zip(own_port).filter(|(port, own)| port != own);
    let port = ports.map(|(port, own)| {
        format!("--admin-port {port} has no effect: --admin-listen names port {own}")
    });
    idle.chain(port).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Command, Given, declare::DECLARATIONS};
    use super::*;

    fn warned(line: &str) -> Vec<String> {
        let arguments = line.split_whitespace().map(str::to_owned).collect();
        match (Given { arguments, ..Given::default() }).read() {
            Ok(Command::Serve(settings)) => settings.options.warnings,
            other => panic!("{line}: {other:?}"),
        }
    }

    /// Regression: only one of these was said to have no effect.
    #[test]
    fn an_option_without_the_one_it_needs_gives_a_warning() {
        for (given, needed) in [
            ("--flash-write-limit 1m", "--flash /f:64m"),
            ("--flash-reads threads", "--flash /f:64m"),
            ("--save-seconds 7", "--flash /f:64m"),
            ("--flash-save-seconds 7", "--memory-file /m"),
            ("--cache-geometry 1024x16x64", "--repartition"),
            ("--redis-tls off", "--redis-port 6379"),
            ("-a 0777", "-s /s"),
            ("--cost-unit-us 7", "--policy gd-wheel"),
        ] {
            let alone = warned(given);
            assert!(alone.len() == 1 && alone[0].contains("has no effect without "), "{alone:?}");
            assert_eq!(warned(&format!("{given} {needed}")), [""; 0], "{given}");
        }
        let off = warned("--compressed off --hot-target 0.5");
        assert_eq!(off, ["--hot-target has no effect with --compressed off"]);
        assert_eq!(warned("--hot-target 0.5 --save-seconds 60 -a 0700"), [""; 0]);
    }

    #[test]
    fn a_port_in_the_address_overrides_the_other() {
        let both = "--admin-port 9150 --admin-listen";
        let text = "--admin-port 9150 has no effect: --admin-listen names port 9999";
        assert_eq!(warned(&format!("{both} 127.0.0.1:9999")), [text]);
        assert_eq!(warned(&format!("{both} [::1]:9150")), [""; 0]);
        assert_eq!(warned(&format!("{both} ::1")), [""; 0]);
    }

    #[test]
    fn every_need_names_an_option() {
        for (long, ..) in NEEDS {
            assert!(DECLARATIONS.iter().any(|known| known.long == *long), "{long}");
        }
    }
}
