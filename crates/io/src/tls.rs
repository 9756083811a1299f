//! TLS 1.2 and 1.3 by rustls: a listener's configuration, and (in [`stream`]) one connection.
//!
//! A [`Config`] is made from the texts of files: the server's identity, and the clients that it
//! accepts. It never changes; new certificates make a new one, for later connections. Existing ones
//! keep theirs.
//!
//! Cryptography is ring's. There is no compression, renegotiation or early data, and nothing older
//! than TLS 1.2. Sessions can be resumed only where that is enabled; then the client keeps all of
//! the session, sealed with a key that dies with the `Config`, and the server nothing.

mod stream;

use std::fmt;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, SupportedCipherSuite, version};

pub use stream::{SEALED_BYTES_MAX, TlsStream};

/// Whether clients show certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Clients are not asked.
    None,
    /// Clients are asked; one without a certificate is let in, one with a bad certificate is not.
    Request,
    /// Only a client with a good one is let in.
    Require,
}

/// The form of a private key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFormat {
    /// Text, perhaps among certificates.
    Pem,
    /// Bytes, of PKCS#8, PKCS#1 or SEC1.
    Der,
}

/// The texts of files, and the other choices.
#[derive(Debug)]
pub struct Settings<'f> {
    /// The server's certificate and those that follow it in the chain, as PEM.
    pub chain: &'f [u8],
    /// Its private key.
    pub key: &'f [u8],
    /// The key's form.
    pub key_format: KeyFormat,
    /// The signers of clients' certificates, as PEM. Needed unless clients show none.
    pub authorities: Option<&'f [u8]>,
    /// Whether clients show certificates.
    pub clients: ClientCertificates,
    /// Whether TLS 1.2 is refused.
    pub is_13_only: bool,
    /// The cipher suites of TLS 1.2, by OpenSSL's names, best first; empty for all.
    pub ciphers: &'f [String],
    /// Whether clients may resume sessions.
    pub resumption: bool,
}

/// Why these texts make no configuration.
#[derive(Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The chain's text holds no certificate, or a bad one.
    Chain(String),
    /// The key's text is no key, or not that of the certificate.
    Key(String),
    /// The authorities' text holds none.
    Authorities(String),
    /// An error of rustls.
    Other(String),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Chain(text) | Self::Key(text) | Self::Authorities(text) | Self::Other(text)) =
            self;
        f.write_str(text)
    }
}

/// The cipher suites of TLS 1.2 by OpenSSL's names. Those of TLS 1.3 are not selectable; OpenSSL's
/// list does not select them either.
const SUITES: [(&str, SupportedCipherSuite); 6] = {
    use ring::cipher_suite as suite;
    [
        ("ECDHE-ECDSA-AES256-GCM-SHA384", suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
        ("ECDHE-ECDSA-AES128-GCM-SHA256", suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
        ("ECDHE-ECDSA-CHACHA20-POLY1305", suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
        ("ECDHE-RSA-AES256-GCM-SHA384", suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
        ("ECDHE-RSA-AES128-GCM-SHA256", suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
        ("ECDHE-RSA-CHACHA20-POLY1305", suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
    ]
};

/// The names that [`Settings::ciphers`] may hold.
pub fn cipher_names() -> impl Iterator<Item = &'static str> {
    SUITES.iter().map(|(name, _)| *name)
}

/// A listener's TLS configuration.
#[derive(Debug, Clone)]
pub struct Config(Arc<ServerConfig>);

impl Config {
    /// Reads the texts; the error says which of them is wrong, and how.
    pub fn new(settings: &Settings<'_>) -> Result<Self, ConfigError> {
        let other = |error: rustls::Error| ConfigError::Other(error.to_string());
        let provider = Arc::new(provider(settings.ciphers)?);
        let versions: &[_] = if settings.is_13_only {
            &[&version::TLS13]
        } else {
            &[&version::TLS13, &version::TLS12]
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(other)?;
        let builder = match settings.clients {
            ClientCertificates::None => builder.with_no_client_auth(),
            clients => {
                let roots = Arc::new(authorities(settings.authorities)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                let verifier = match clients {
                    ClientCertificates::Request => verifier.allow_unauthenticated(),
                    _ => verifier,
                };
                let verifier = verifier.build();
                let verifier =
                    verifier.map_err(|error| ConfigError::Authorities(error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let chain = certificates(settings.chain).map_err(ConfigError::Chain)?;
        let key = private_key(settings.key, settings.key_format).map_err(ConfigError::Key)?;
        let config = builder.with_single_cert(chain, key);
        let mut config = config.map_err(|error| match error {
            rustls::Error::InvalidCertificate(_) => ConfigError::Chain(error.to_string()),
            rustls::Error::InconsistentKeys(_) => {
                ConfigError::Key("it is not the key of the certificate".to_owned())
            }
            error => ConfigError::Key(error.to_string()),
        })?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        if settings.resumption {
            config.ticketer = ring::Ticketer::new().map_err(other)?;
        } else {
            config.send_tls13_tickets = 0;
        }
        Ok(Self(Arc::new(config)))
    }

    /// rustls' configuration, for callers with sockets of their own.
    pub fn rustls(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0)
    }
}

/// ring, with the requested cipher suites.
fn provider(ciphers: &[String]) -> Result<CryptoProvider, ConfigError> {
    let mut provider = ring::default_provider();
    if !ciphers.is_empty() {
        provider.cipher_suites.retain(|suite| suite.tls13().is_some());
        for wanted in ciphers {
            let suite = SUITES.iter().find(|(name, _)| name == wanted);
            let suite = suite.ok_or_else(|| ConfigError::Other(no_cipher(wanted)))?;
            provider.cipher_suites.push(suite.1);
        }
    }
    Ok(provider)
}

/// The message for an unknown cipher.
pub fn no_cipher(name: &str) -> String {
    let known: Vec<&str> = cipher_names().collect();
    format!("unknown cipher {name}; {} are known", known.join(", "))
}

/// The certificates of a text, which must hold at least one.
fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(text).collect();
    match found {
        Ok(found) if found.is_empty() => Err("there is no certificate in it".to_owned()),
        Ok(found) => Ok(found),
        Err(error) => Err(error.to_string()),
    }
}

/// The signers of clients' certificates.
fn authorities(text: Option<&[u8]>) -> Result<RootCertStore, ConfigError> {
    let text = text.unwrap_or_default();
    let mut roots = RootCertStore::empty();
    for certificate in certificates(text).map_err(ConfigError::Authorities)? {
        let added = roots.add(certificate);
        added.map_err(|error| ConfigError::Authorities(error.to_string()))?;
    }
    Ok(roots)
}

/// Reads a private key, which is never printed.
fn private_key(text: &[u8], format: KeyFormat) -> Result<PrivateKeyDer<'static>, String> {
    match format {
        KeyFormat::Pem => PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
            // rustls names its kind in two ways, and bad base64 is only a consequence.
            _ if is_encrypted(text) => {
                "it is encrypted, and nobody can be asked for the password; \
                 openssl pkey -in FILE -out FILE2 writes it as it is"
                    .to_owned()
            }
            pem::Error::NoItemsFound => "there is no private key in it".to_owned(),
            error => error.to_string(),
        }),
        KeyFormat::Der => PrivateKeyDer::try_from(text.to_vec()).map_err(|error| error.to_owned()),
    }
}

/// Whether a key needs a password, by the word in the line that begins it or in its header.
fn is_encrypted(text: &[u8]) -> bool {
    let lines = text.split(|byte| *byte == b'\n');
    lines.into_iter().any(|line| {
        line.starts_with(b"-----BEGIN ENCRYPTED PRIVATE KEY")
            || line.starts_with(b"Proc-Type: 4,ENCRYPTED")
    })
}

#[cfg(test)]
mod tests;
