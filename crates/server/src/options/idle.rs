//! Options that have no effect beside others, or without them. Who gives one believes that it does
//! something, so that a line of the log says that it does not, and `--check` too.

use larder::Policy;

use super::Options;
use crate::listen;

/// The long name of an option, whether it has an effect, and why it has none where it has not.
type Need = (&'static str, fn(&Options) -> bool, &'static str);

/// What needs something else. That TLS, or a Unix socket, is not asked for is said elsewhere.
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

/// What has no effect of these options, of which `is_said` tells those that differ from their
/// defaults.
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

    /// Of these only one was said to have no effect.
    #[test]
    fn what_needs_something_that_is_not_there_is_told_and_with_it_is_not() {
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
    fn a_port_of_the_address_goes_before_the_other() {
        let both = "--admin-port 9150 --admin-listen";
        let text = "--admin-port 9150 has no effect: --admin-listen names port 9999";
        assert_eq!(warned(&format!("{both} 127.0.0.1:9999")), [text]);
        assert_eq!(warned(&format!("{both} [::1]:9150")), [""; 0]);
        assert_eq!(warned(&format!("{both} ::1")), [""; 0]);
    }

    #[test]
    fn what_needs_something_is_an_option() {
        for (long, ..) in NEEDS {
            assert!(DECLARATIONS.iter().any(|known| known.long == *long), "{long}");
        }
    }
}
