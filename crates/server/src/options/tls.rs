//! The options of TLS, under memcached's names.

use std::path::PathBuf;

use ::io::tls::{ClientCertificates, cipher_names, no_cipher};

use super::{Options, UsageError};

/// Whether and how TLS is spoken.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TlsOptions {
    /// `-Z`: at all TCP addresses without `notls:`.
    pub is_on: bool,
    /// The certificate and its chain.
    pub chain_cert: Option<PathBuf>,
    /// The private key; `None` if it is in the file of the certificate.
    pub key: Option<PathBuf>,
    /// The key is DER instead of PEM.
    pub key_is_der: bool,
    /// memcached's number for whether clients present certificates.
    pub verify_mode: u8,
    /// The authorities that sign these.
    pub ca_cert: Option<PathBuf>,
    /// TLS 1.2 is refused.
    pub is_13_only: bool,
    /// The cipher suites of TLS 1.2; empty for all.
    pub ciphers: Vec<String>,
    /// Clients may resume a session.
    pub resumption: bool,
}

impl TlsOptions {
    /// Returns whether clients present certificates.
    pub fn clients(&self) -> ClientCertificates {
        match self.verify_mode {
            0 => ClientCertificates::None,
            1 => ClientCertificates::Request,
            _ => ClientCertificates::Require,
        }
    }

    /// Returns `verify_mode` as OpenSSL's bits, which memcached reports.
    pub fn verify_bits(&self) -> u8 {
        [0, 1, 3, 7][usize::from(self.verify_mode.min(3))]
    }

    /// Returns the names of the options that differ from their defaults, except `-Z` itself.
    fn said(&self) -> Vec<&'static str> {
        [
            ("--ssl-chain-cert", self.chain_cert.is_some()),
            ("--ssl-key", self.key.is_some()),
            ("--ssl-keyformat", self.key_is_der),
            ("--ssl-verify-mode", self.verify_mode != 0),
            ("--ssl-ca-cert", self.ca_cert.is_some()),
            ("--ssl-min-version", self.is_13_only),
            ("--ssl-ciphers", !self.ciphers.is_empty()),
            ("--ssl-session-cache", self.resumption),
        ]
        .into_iter()
        .filter_map(|(name, is_said)| is_said.then_some(name))
        .collect()
    }
}

/// Sets `--ssl-keyformat`.
pub fn set_key_format(options: &mut Options, value: &str) -> Result<(), String> {
    options.tls.key_is_der = match value {
        "PEM" => false,
        "DER" => true,
        _ => return Err(format!("{value} is neither PEM nor DER")),
    };
    Ok(())
}

/// Sets `--ssl-min-version`, by memcached's numbers.
pub fn set_min_version(options: &mut Options, value: &str) -> Result<(), String> {
    options.tls.is_13_only = match value {
        "2" => false,
        "3" => true,
        "0" | "1" => return Err("TLS 1.0 and 1.1 are not supported; 2 is TLS 1.2".to_owned()),
        _ => return Err(format!("{value} is neither 2 (TLS 1.2) nor 3 (TLS 1.3)")),
    };
    Ok(())
}

/// Sets `--ssl-ciphers`.
pub fn set_ciphers(options: &mut Options, value: &str) -> Result<(), String> {
    let names = value.split(':').filter(|name| !name.is_empty());
    let names: Vec<String> = names.map(str::to_owned).collect();
    if let Some(unknown) = names.iter().find(|name| !cipher_names().any(|known| known == **name)) {
        return Err(no_cipher(unknown));
    }
    options.tls.ciphers = names;
    Ok(())
}

/// Sets `--redis-tls`.
pub fn set_redis_tls(options: &mut Options, value: &str) -> Result<(), String> {
    options.redis_tls = match value {
        "auto" => None,
        "on" => Some(true),
        "off" => Some(false),
        _ => return Err(format!("{value} is not auto, on or off")),
    };
    Ok(())
}

/// Refuses conflicting options, and warns of those without effect.
pub fn settle(options: &mut Options) -> Result<(), UsageError> {
    let tls = &options.tls;
    let wrong = |text: &str| Err(UsageError(text.to_owned()));
    if !tls.is_on {
        if options.redis_tls == Some(true) {
            return wrong("--redis-tls on needs --enable-ssl");
        }
        let said = tls.said().join(", ");
        if !said.is_empty() {
            // A user who names a certificate expects encryption.
            let text = "without --enable-ssl everything is plain text";
            options.warnings.push(format!("{text}: {said} has no effect"));
        }
        return Ok(());
    }
    if tls.chain_cert.is_none() {
        return wrong("--enable-ssl needs --ssl-chain-cert, the server's certificate");
    }
    if tls.verify_mode > 0 && tls.ca_cert.is_none() {
        return wrong(
            "--ssl-verify-mode needs --ssl-ca-cert, the authorities that sign clients' \
             certificates",
        );
    }
    if tls.key_is_der && tls.key.is_none() {
        return wrong("--ssl-keyformat DER needs --ssl-key: the certificate file is PEM");
    }
    // A user who names authorities expects other clients to be refused.
    if tls.verify_mode == 0 && tls.ca_cert.is_some() {
        let text = "--ssl-ca-cert has no effect without --ssl-verify-mode 1 or 2: clients are not \
                    asked for a certificate";
        options.warnings.push(text.to_owned());
    }
    let tls = &options.tls;
    if tls.is_13_only && !tls.ciphers.is_empty() {
        let text = "--ssl-ciphers has no effect with --ssl-min-version 3: it sets those of TLS 1.2";
        options.warnings.push(text.to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Command, Given};
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        let arguments = line.split_whitespace().map(str::to_owned).collect();
        match (Given { arguments, ..Given::default() }).read() {
            Ok(Command::Serve(settings)) => Ok(settings.options),
            Ok(other) => panic!("{line}: {other:?}"),
            Err(UsageError(text)) => Err(text),
        }
    }

    #[test]
    fn memcacheds_options_of_tls_are_understood() {
        let options = parse(
            "-Z -o ssl_chain_cert=/c,ssl_key=/k,ssl_verify_mode=2,ssl_ca_cert=/a,\
             ssl_min_version=3,ssl_session_cache,ssl_wbuf_size=64,ssl_keyformat=DER \
             -o ssl_ciphers=ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384",
        );
        let options = options.expect("they go together");
        let tls = &options.tls;
        assert!(tls.is_on && tls.is_13_only && tls.resumption && tls.key_is_der);
        assert_eq!(tls.chain_cert.as_deref(), Some("/c".as_ref()));
        assert_eq!(tls.key.as_deref(), Some("/k".as_ref()));
        assert_eq!(tls.ca_cert.as_deref(), Some("/a".as_ref()));
        assert_eq!((tls.clients(), tls.verify_bits()), (ClientCertificates::Require, 3));
        assert_eq!(tls.ciphers.len(), 2);
        let warnings = &options.warnings;
        assert!(warnings[0] == "-o ssl_wbuf_size has no effect" && warnings.len() == 2);
        let options = parse("-Z --ssl-chain-cert /c").expect("the key may be in there");
        assert_eq!(options.tls.clients(), ClientCertificates::None);
        let options = parse("-o ssl_chain_cert=/c,ssl_key=/k").expect("only without effect");
        let text = "without --enable-ssl everything is plain text: --ssl-chain-cert, --ssl-key has \
                    no effect";
        assert_eq!(options.warnings, [text]);
    }

    /// A user who names authorities without a mode expects other clients to be refused.
    #[test]
    fn options_without_effect_give_a_warning() {
        let chain = "-Z --ssl-chain-cert /c";
        let warnings = |line: &str| parse(&format!("{chain} {line}")).expect(line).warnings;
        let [warning] = &warnings("--ssl-ca-cert /a")[..] else { panic!("not one warning") };
        assert!(warning.contains("clients are not asked for a certificate"), "{warning}");
        for mode in 1..=3 {
            let line = format!("--ssl-ca-cert /a --ssl-verify-mode {mode}");
            assert_eq!(warnings(&line), [""; 0], "{line}");
        }
        let ciphers = "--ssl-ciphers ECDHE-RSA-AES128-GCM-SHA256";
        assert_eq!(warnings(ciphers), [""; 0]);
        let [warning] = &warnings(&format!("{ciphers} --ssl-min-version 3"))[..] else {
            panic!("not one warning")
        };
        assert!(warning.contains("--ssl-ciphers has no effect"), "{warning}");
    }

    #[test]
    fn unsupported_values_are_refused_with_a_reason() {
        for (line, words) in [
            ("-Z", "--ssl-chain-cert"),
            ("-Z -o ssl_chain_cert=/c,ssl_verify_mode=1", "--ssl-ca-cert"),
            ("-Z -o ssl_chain_cert=/c,ssl_keyformat=DER", "--ssl-key"),
            ("-o ssl_keyformat=ENGINE", "neither PEM nor DER"),
            ("-o ssl_min_version=0", "TLS 1.0 and 1.1 are not supported"),
            ("-o ssl_min_version=1", "TLS 1.0 and 1.1 are not supported"),
            ("-o ssl_min_version=4", "neither 2 (TLS 1.2) nor 3"),
            ("-o ssl_verify_mode=4", "from 0 to 3"),
            ("-o ssl_ciphers=HIGH", "unknown cipher HIGH"),
            ("-o ssl_nothing=1", "no extended option"),
            ("--redis-tls on", "--enable-ssl"),
            ("--redis-tls maybe", "not auto, on or off"),
        ] {
            let text = parse(line).expect_err(line);
            assert!(text.contains(words), "{line}: {text}");
        }
    }
}
