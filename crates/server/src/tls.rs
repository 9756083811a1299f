//! The server's identity where TLS is spoken: its certificate, key, and authorities, from their
//! files.
//!
//! `refresh_certs` and SIGHUP read the files again. An error in one of them is reported, and then
//! everything stays as it was. Connections keep the configuration they began with.

use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use ::io::net::Stream;
use ::io::tls::{Config, ConfigError, KeyFormat, Settings};
use protocol::reply;
use stdx::sync::lock;

use crate::bounded_file;
use crate::exit::Failed;
use crate::options::{Options, TlsOptions};
use crate::server::Server;

const NOT_ENABLED: &str = "Error TLS not enabled\r\n";

/// The longest file of certificates or keys.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The TLS configuration, as it was last read.
#[derive(Debug)]
pub struct Tls {
    options: TlsOptions,
    config: Mutex<Config>,
    /// Held while the files are read again.
    reading: Mutex<()>,
    /// When they were read, in Unix seconds; 0 for the start.
    read_s: AtomicU32,
}

impl Tls {
    /// Reads the files; `None` if TLS is not spoken.
    pub fn load(options: &Options) -> Result<Option<Self>, Failed> {
        let options = options.tls.clone();
        if !options.is_on {
            return Ok(None);
        }
        let config = Mutex::new(read(&options)?);
        Ok(Some(Self { options, config, reading: Mutex::default(), read_s: AtomicU32::new(0) }))
    }

    /// Reads the files again.
    pub fn reload(&self, now_s: u32) -> Result<(), String> {
        // Otherwise a slower read that began earlier could bring back the old files.
        let _turn = lock(&self.reading);
        let config = read(&self.options).map_err(|failed| failed.text)?;
        *lock(&self.config) = config;
        self.read_s.store(now_s, Ordering::Relaxed);
        Ok(())
    }

    /// The configuration now.
    pub fn config(&self) -> Config {
        lock(&self.config).clone()
    }

    /// Wraps a new connection in TLS.
    pub fn wrap(&self, stream: Stream) -> io::Result<Stream> {
        stream.into_tls(&self.config())
    }

    /// Unix seconds when the files were read last, if not at the start.
    pub fn read_s(&self) -> Option<u32> {
        Some(self.read_s.load(Ordering::Relaxed)).filter(|&read_s| read_s > 0)
    }
}

/// Answers `refresh_certs` in memcached's words.
pub fn answer_refresh(server: &Server, out: &mut Vec<u8>) {
    let Some(tls) = &server.tls else {
        return reply::line(out, NOT_ENABLED);
    };
    match tls.reload(server.now()) {
        Ok(()) => {
            server.log(1, "refresh_certs: certificates reloaded");
            reply::line(out, reply::OK);
        }
        Err(error) => {
            server.log(0, &format!("refresh_certs: {error}; the certificates are unchanged"));
            // A line is a line, whatever the file is called.
            let text = error.replace(char::is_control, " ");
            reply::line(out, &format!("Error loading certificates: {text}\r\n"));
        }
    }
}

/// Reads all files into a listener's configuration. A wrong file stays wrong until somebody changes
/// it; but a key that does not fit the certificate may be one that is being exchanged with it.
fn read(options: &TlsOptions) -> Result<Config, Failed> {
    let chain_path = options.chain_cert.as_deref().unwrap_or(Path::new(""));
    let key_path = options.key.as_deref().unwrap_or(chain_path);
    let ca_path = options.ca_cert.as_deref().unwrap_or(Path::new(""));
    let chain = read_file(chain_path, "ssl-chain-cert")?;
    let key = match key_path == chain_path {
        true => chain.clone(),
        false => read_file(key_path, "ssl-key")?,
    };
    let authorities = options.ca_cert.as_deref();
    let authorities = authorities.map(|path| read_file(path, "ssl-ca-cert")).transpose()?;
    let settings = Settings {
        chain: &chain,
        key: &key,
        key_format: if options.key_is_der { KeyFormat::Der } else { KeyFormat::Pem },
        authorities: authorities.as_deref(),
        clients: options.clients(),
        is_13_only: options.is_13_only,
        ciphers: &options.ciphers,
        resumption: options.resumption,
    };
    Config::new(&settings).map_err(|error| match &error {
        ConfigError::Chain(_) => {
            Failed::of_data(format!("the certificate {}: {error}", chain_path.display()))
        }
        ConfigError::Key(_) => format!("the key {}: {error}", key_path.display()).into(),
        ConfigError::Authorities(_) => {
            Failed::of_data(format!("the authorities {}: {error}", ca_path.display()))
        }
        ConfigError::Other(_) => format!("TLS: {error}").into(),
    })
}

/// The bytes of a file, if it is not too long.
fn read_file(path: &Path, option: &str) -> Result<Vec<u8>, Failed> {
    let bytes = bounded_file::read(path, FILE_BYTES_MAX)
        .map_err(|error| format!("cannot read {} for --{option}: {error}", path.display()))?;
    bytes.ok_or_else(|| {
        let path = path.display();
        Failed::of_data(format!("{path} for --{option} is too large for certificates or keys"))
    })
}
