//! Certificates in files, as a server reads them, and clients that speak TLS.

#![allow(dead_code, reason = "every test binary uses a part of this")]

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tempfile::TempDir;
use testing::{Identity, VERSIONS, session};

use crate::common::Client;

/// An authority that signs certificates, and a folder with files of them.
pub struct Authority {
    signer: testing::Authority,
    folder: TempDir,
}

impl Deref for Authority {
    type Target = testing::Authority;

    fn deref(&self) -> &testing::Authority {
        &self.signer
    }
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let authority = Self { signer: testing::Authority::new(name), folder };
        fs::write(authority.path("ca.pem"), &authority.certificate).expect("a file");
        authority.write_server(&authority.server());
        authority
    }

    /// A file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The options of a server with files of this folder, and others. The authorities of clients
    /// are for one that asks for certificates.
    pub fn options(&self, others: &[&str]) -> Vec<String> {
        let [chain, key, ca] = ["chain.pem", "key.pem", "ca.pem"]
            .map(|name| self.path(name).to_str().expect("a path in UTF-8").to_owned());
        let mut files = format!("ssl_chain_cert={chain},ssl_key={key}");
        if others.iter().any(|option| option.contains("ssl_verify_mode")) {
            files += &format!(",ssl_ca_cert={ca}");
        }
        let mut options = vec!["-Z".to_owned(), "-o".to_owned(), files];
        options.extend(others.iter().map(|&option| option.to_owned()));
        options
    }

    /// Makes `identity` the server's, from its next reading on.
    pub fn write_server(&self, identity: &Identity) {
        fs::write(self.path("chain.pem"), &identity.chain).expect("a file");
        fs::write(self.path("key.pem"), &identity.key).expect("a file");
    }

    /// A client that trusts this authority and shows no certificate.
    pub fn connect(&self, address: SocketAddr) -> TlsClient {
        connect(address, self.client_config(None, &VERSIONS))
    }
}

/// A client over TLS.
pub type TlsClient = Client<StreamOwned<ClientConnection, TcpStream>>;

/// A client with this configuration.
pub fn connect(address: SocketAddr, config: Arc<ClientConfig>) -> TlsClient {
    Client { stream: StreamOwned::new(session(config), Client::connect(address).stream) }
}
