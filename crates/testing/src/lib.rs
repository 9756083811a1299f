//! Certificates for tests of TLS, made when they are needed, and what clients have to know that
//! trust them. Only tests depend on this. What goes wrong here is the test's fault: it panics.

#![forbid(unsafe_code)]

use std::sync::Arc;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion, version};

/// Both versions that there are.
pub const VERSIONS: [&SupportedProtocolVersion; 2] = [&version::TLS12, &version::TLS13];

/// The name that servers' certificates are for.
const SERVER_NAME: &str = "localhost";

/// No test runs as late as in this year.
const LAST_YEAR: i32 = 2900;

/// A certificate and its key, as PEM.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate.
    pub chain: String,
    /// Its private key.
    pub key: String,
}

/// Someone who signs certificates.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Who that is, as PEM.
    pub certificate: String,
}

impl Authority {
    /// One of this name. Another of the same name is another authority all the same.
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

    /// Its own, which is for signing others, and no server's.
    pub fn itself(&self) -> Identity {
        Identity { chain: self.certificate.clone(), key: self.issuer.key().serialize_pem() }
    }

    /// A server's.
    pub fn server(&self) -> Identity {
        self.sign(ExtendedKeyUsagePurpose::ServerAuth, LAST_YEAR)
    }

    /// A client's.
    pub fn client(&self) -> Identity {
        self.client_until(LAST_YEAR)
    }

    /// A client's, which expires at the end of that year.
    pub fn client_until(&self, last_year: i32) -> Identity {
        self.sign(ExtendedKeyUsagePurpose::ClientAuth, last_year)
    }

    /// What a client has to know that trusts this authority and shows `identity`.
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

/// The session of a client of which nothing has been sent.
pub fn session(config: Arc<ClientConfig>) -> ClientConnection {
    let name = ServerName::try_from(SERVER_NAME).expect("a name");
    ClientConnection::new(config, name).expect("a session")
}
