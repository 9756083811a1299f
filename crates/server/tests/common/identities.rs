//! Certificates for tests, made when they are needed, and clients that speak TLS.

#![allow(dead_code, reason = "every test binary uses a part of this")]

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};
use tempfile::TempDir;

use crate::common::Client;

/// Both versions that there are.
pub const VERSIONS: [&SupportedProtocolVersion; 2] =
    [&rustls::version::TLS12, &rustls::version::TLS13];

/// A certificate and its key, as PEM.
#[derive(Clone)]
pub struct Identity {
    pub chain: String,
    pub key: String,
}

/// Someone who signs certificates, and a folder with files of them.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    folder: TempDir,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut parameters = CertificateParams::new(Vec::new()).expect("parameters");
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&key).expect("a certificate").pem();
        let folder = TempDir::new().expect("a folder");
        let authority = Self { issuer: Issuer::new(parameters, key), certificate, folder };
        fs::write(authority.path("ca.pem"), &authority.certificate).expect("a file");
        authority.write_server(&authority.server());
        authority
    }

    /// A file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The options of a server with files of here, and others.
    pub fn options(&self, others: &[&str]) -> Vec<String> {
        let [chain, key, ca] = ["chain.pem", "key.pem", "ca.pem"]
            .map(|name| self.path(name).to_str().expect("a path in UTF-8").to_owned());
        let files = format!("ssl_chain_cert={chain},ssl_key={key},ssl_ca_cert={ca}");
        let mut options = vec!["-Z".to_owned(), "-o".to_owned(), files];
        options.extend(others.iter().map(|&option| option.to_owned()));
        options
    }

    /// Makes `identity` the server's, from its next look on.
    pub fn write_server(&self, identity: &Identity) {
        fs::write(self.path("chain.pem"), &identity.chain).expect("a file");
        fs::write(self.path("key.pem"), &identity.key).expect("a file");
    }

    fn sign(&self, usage: ExtendedKeyUsagePurpose, last_year: i32) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let mut parameters = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        parameters.extended_key_usages = vec![usage];
        parameters.not_before = rcgen::date_time_ymd(2000, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(last_year, 12, 31);
        let chain = parameters.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Identity { chain, key: key.serialize_pem() }
    }

    /// A server's.
    pub fn server(&self) -> Identity {
        self.sign(ExtendedKeyUsagePurpose::ServerAuth, 2900)
    }

    /// A client's, which expires at the end of that year.
    pub fn client(&self, last_year: i32) -> Identity {
        self.sign(ExtendedKeyUsagePurpose::ClientAuth, last_year)
    }

    /// What a client has to know that trusts this authority.
    pub fn client_config(
        &self,
        identity: Option<&Identity>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes());
        roots.add(certificate.expect("one")).expect("an authority");
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .expect("versions")
            .with_root_certificates(roots);
        Arc::new(match identity {
            None => builder.with_no_client_auth(),
            Some(Identity { chain, key }) => {
                let chain = CertificateDer::from_pem_slice(chain.as_bytes()).expect("one");
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
                builder.with_client_auth_cert(vec![chain], key).expect("they fit")
            }
        })
    }

    /// A client that trusts this authority and shows nothing.
    pub fn connect(&self, address: SocketAddr) -> TlsClient {
        connect(address, self.client_config(None, &VERSIONS))
    }
}

/// A client over TLS.
pub type TlsClient = Client<StreamOwned<ClientConnection, TcpStream>>;

/// The session of a client of which nothing has been sent.
pub fn session(config: Arc<ClientConfig>) -> ClientConnection {
    let name = ServerName::try_from("localhost").expect("a name");
    ClientConnection::new(config, name).expect("a session")
}

/// A client with this configuration.
pub fn connect(address: SocketAddr, config: Arc<ClientConfig>) -> TlsClient {
    Client { stream: StreamOwned::new(session(config), Client::connect(address).stream) }
}
