//! A certificate for servers that speak TLS, made for one run: in files for them, and in the trust
//! store of clients.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use rcgen::CertifiedKey;
use rustls::crypto::{CryptoProvider, ring};
use rustls::{ClientConfig, RootCertStore, version};

use super::Server;
use super::recipe::{Kind, Recipe};
use super::scratch::Scratch;
use crate::drive::wire::SERVER_NAME;
use crate::failure::{Failure, Outcome};

/// The address of a server, and its TLS configuration, if any.
pub type Route<'i> = (SocketAddr, Option<&'i Arc<ClientConfig>>);

/// Files of a certificate and its key, which are removed when this is dropped.
pub struct Identity {
    folder: Scratch,
    /// The client's configuration.
    pub client: Arc<ClientConfig>,
}

impl Identity {
    /// Makes the files. The client takes one suite of TLS 1.3, so that every server does the same
    /// work.
    pub fn new() -> Outcome<Self> {
        let wrong = |error: &dyn std::fmt::Display| {
            Failure::Ended(format!("making a certificate: {error}"))
        };
        let made = rcgen::generate_simple_self_signed(vec![SERVER_NAME.to_owned()]);
        let CertifiedKey { cert, signing_key } = made.map_err(|error| wrong(&error))?;
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).map_err(|error| wrong(&error))?;
        let provider = CryptoProvider {
            cipher_suites: vec![ring::cipher_suite::TLS13_AES_256_GCM_SHA384],
            ..ring::default_provider()
        };
        let client = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&version::TLS13])
            .map_err(|error| wrong(&error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let folder = Scratch::folder("larder-bench-tls")?;
        let identity = Self { folder, client: Arc::new(client) };
        for (file, text) in [("chain.pem", cert.pem()), ("key.pem", signing_key.serialize_pem())] {
            let path = identity.folder.path().join(file);
            fs::write(path, text).map_err(Failure::io("writing a certificate"))?;
        }
        Ok(identity)
    }

    /// Starts a server that speaks TLS, and plain text at the address for filling and statistics.
    pub fn start(&self, recipe: &Recipe, memory_mb: u64, cores: &[usize]) -> Outcome<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let plain = listener.and_then(|it| it.local_addr()).map_err(Failure::io("a free port"))?;
        // memcached's recipe has the plain address.
        let first = match recipe.kind {
            Kind::Memcached => "",
            Kind::Larder => "127.0.0.1,",
            kind => return Err(Failure::Usage(format!("{kind} is not compared over TLS"))),
        };
        let [chain, key] = ["chain.pem", "key.pem"].map(|file| self.folder.path().join(file));
        let recipe = recipe.clone().with([format!(
            "-Z -l {first}notls:{plain} -o ssl_chain_cert={},ssl_key={}",
            chain.display(),
            key.display()
        )]);
        let mut server = Server::start_silent(&recipe, memory_mb, cores)?;
        server.tls_address = Some(std::mem::replace(&mut server.address, plain));
        server.tell_version();
        Ok(server)
    }

    /// Returns the address for requests, and its TLS configuration.
    pub fn route<'i>(identity: Option<&'i Self>, server: &Server) -> Route<'i> {
        match (identity, server.tls_address) {
            (Some(identity), Some(address)) => (address, Some(&identity.client)),
            _ => (server.address, None),
        }
    }
}
