//! Certificates for tests of TLS, made on demand, and the configuration of clients that trust them.
//! Only tests depend on this crate. It panics on errors, which are the test's fault.

#![forbid(unsafe_code)]

use std::sync::Arc;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion, version};

/// The supported versions of TLS.
pub const VERSIONS: [&SupportedProtocolVersion; 2] = [&version::TLS12, &version::TLS13];

/// The name in servers' certificates.
const SERVER_NAME: &str = "localhost";

/// No test runs later than this year.
const LAST_YEAR: i32 = 2900;

/// A certificate and its key, as PEM.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate.
    pub chain: String,
    /// Its private key.
    pub key: String,
}

/// An authority that signs certificates.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate, as PEM.
    pub certificate: String,
}

impl Authority {
    /// Returns an authority of this name. Another one of the same name is a different authority.
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut parameters = CertificateParams::new(Vec::new()).expect("parameters");
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(parameters, key), certificate }
    }

    fn sign(&self, usage: ExtendedKeyUsagePurpose, last_year: i32) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let mut parameters = CertificateParams::new(vec![SERVER_NAME.to_owned()]).expect("a name");
        parameters.extended_key_usages = vec![usage];
        parameters.not_before = rcgen::date_time_ymd(2000, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(last_year, 12, 31);
        let chain = parameters.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Identity { chain, key: key.serialize_pem() }
    }

    /// Returns its own identity, which signs others and is no server's.
    pub fn itself(&self) -> Identity {
        Identity { chain: self.certificate.clone(), key: self.issuer.key().serialize_pem() }
    }

    /// Returns a server's identity.
    pub fn server(&self) -> Identity {
        self.sign(ExtendedKeyUsagePurpose::ServerAuth, LAST_YEAR)
    }

    /// Returns a client's identity.
    pub fn client(&self) -> Identity {
        self.client_until(LAST_YEAR)
    }

    /// Returns a client's identity that expires at the end of that year.
    pub fn client_until(&self, last_year: i32) -> Identity {
        self.sign(ExtendedKeyUsagePurpose::ClientAuth, last_year)
    }

    /// Returns the configuration of a client that trusts this authority and shows `identity`.
    pub fn client_config(
        &self,
        identity: Option<&Identity>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(certificate(&self.certificate)).expect("an authority");
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .expect("versions")
            .with_root_certificates(roots);
        Arc::new(match identity {
            None => builder.with_no_client_auth(),
            Some(Identity { chain, key }) => {
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
                builder.with_client_auth_cert(vec![certificate(chain)], key).expect("they fit")
            }
        })
    }
}

fn certificate(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).expect("one")
}

/// Returns a client's session that has sent nothing.
pub fn session(config: Arc<ClientConfig>) -> ClientConnection {
    let name = ServerName::try_from(SERVER_NAME).expect("a name");
    ClientConnection::new(config, name).expect("a session")
}
