//! An admin port that speaks TLS: the certificates that `larder top` accepts.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{CertificateError, ClientConfig, Error, RootCertStore};

/// rustls' name for the error that a certificate is good for signing others only.
const AUTHORITY_ITSELF: &str = "CaUsedAsEndEntity";

/// The authorities, one of which has to have signed the server's certificate.
pub struct Trust(TlsConnector);

impl Trust {
    /// The authorities in a PEM file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = fs::read(path).map_err(|error| wrong(&error))?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&text) {
            let certificate = certificate.map_err(|error| wrong(&error))?;
            roots.add(certificate).map_err(|error| wrong(&error))?;
        }
        if roots.is_empty() {
            return Err(wrong(&"it contains no certificate"));
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(|it| wrong(&it))?;
        let config = builder.with_root_certificates(roots).with_no_client_auth();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Wraps the connection in TLS, if the other end is the server of `address`.
    pub async fn connect(
        &self,
        address: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, String> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
        self.0.connect(name, stream).await.map_err(|error| said(&error, address))
    }
}

/// The message about a failed TLS connection, with the remedy where that is known.
fn said(error: &io::Error, address: &str) -> String {
    let reason = error.get_ref().and_then(|reason| reason.downcast_ref());
    match reason {
        Some(Error::InvalidMessage(_)) => {
            format!("it does not use TLS; try larder top {address}")
        }
        Some(Error::InvalidCertificate(CertificateError::Other(other)))
            if other.0.to_string().contains(AUTHORITY_ITSELF) =>
        {
            "the server presents the certificate of an authority, as openssl req -x509 makes it, \
             and not one signed by an authority; --ca-file names the authority that signed the \
             server's"
                .to_owned()
        }
        _ => error.to_string(),
    }
}
