//! Servers with a flash tier: Larder and memcached with extstore.
//!
//! extstore's defaults are for terabytes, so it gets the best options for a small tier:
//!
//! | option | here | default | why |
//! | --- | --- | --- | --- |
//! | `ext_page_size` | a 128th of the flash, 2 MiB or more | 64 MiB | evicts a page at a time |
//! | `ext_wbuf_size` | a quarter of a page, 2 to 4 MiB | 4 MiB | write buffers come on top of -m |
//! | `ext_item_size` | 64 bytes | 512 | most real values are shorter than 512 |
//! | `ext_threads` | 4 | 1 | a read that waits does not hold up the others |
//! | `slab_automove_window` | 3, the least | 30 | memory follows what it is needed for sooner |
//! | `-f` | 1.5 | 1.25 | fewer size classes share out what values leave of the memory |
//!
//! The memory of items on flash needs slabs that held values before, and those move one in each
//! window. With 64 MiB, 256 MiB of flash and 30,000 to 40,000 sets of `movie_json` a second
//! memcached had 11,000 items on flash after the fill with the defaults of the last two options,
//! 184,000 with the shorter window, and 315,000 with both; `-f 2` and `slab_automove_freeratio`
//! gave no more, nor did collecting later (`ext_compact_under`, `ext_drop_under`). The other
//! options keep their defaults: items go to flash when memory runs out (no `ext_item_age`), and the
//! hash table grows by itself.

use clap::Args;
use std::path::PathBuf;

use crate::failure::Outcome;
use crate::server::Server;
use crate::server::flash_file::FlashFile;
use crate::server::recipe::{Kind, ProgramOptions, Recipe, ServerOptions};

/// The number of extstore's pages on the flash: a page is evicted at a time.
const PAGES: u64 = 128;
const PAGE_MB_MIN: u64 = 2;
const PAGE_MB_MAX: u64 = 64;
/// Write buffers of a page.
const BUFFERS_PER_PAGE: u64 = 4;
/// The smallest write buffer and page; pages hold whole buffers.
const BUFFER_MB_MIN: u64 = 2;
const BUFFER_MB_MAX: u64 = 4;

/// The sizes and the place of the tiers, and the servers, as in `ServerOptions`.
#[derive(Debug, Clone, Args)]
pub struct TierOptions<P: Args = ProgramOptions> {
    /// Memory limit in MiB.
    #[arg(short, long = "memory-mb", default_value_t = 64)]
    pub memory_mb: u64,
    /// Size of the flash tier in MiB (16 to 1048576).
    #[arg(long, default_value_t = 1024,
        value_parser = clap::value_parser!(u64).range(16..=1 << 20))]
    pub flash_mb: u64,
    /// Folder of the flash tier's file [default: the folder of temporary files].
    #[arg(long)]
    pub dir: Option<PathBuf>,
    #[command(flatten)]
    pub servers_options: ServerOptions<P>,
}

/// A server and its flash tier, which are removed together.
#[derive(Debug)]
pub struct Tiered {
    /// The server.
    pub server: Server,
    /// The tier's file. Declared after the server, so that it is dropped last.
    pub file: FlashFile,
}

impl<P: Args> TierOptions<P> {
    /// Bytes of the flash.
    pub fn flash_bytes(&self) -> f64 {
        (self.flash_mb << 20) as f64
    }

    /// Starts a server with an empty tier.
    pub fn start(&self, recipe: &Recipe) -> Outcome<Tiered> {
        let file = FlashFile::in_folder(self.dir.as_deref(), false)?;
        let (path, mb) = (file.path().display(), self.flash_mb);
        let arguments = match recipe.kind {
            // The path comes last, as memcached requires.
            Kind::Memcached => format!("{},ext_path={path}:{mb}m", extstore(mb)),
            _ => format!("--flash {path}:{mb}m"),
        };
        // The command line's arguments come last.
        let recipe = recipe.clone().with_first([arguments]);
        let server = Server::start(&recipe, self.memory_mb, &self.servers_options.server_cores)?;
        Ok(Tiered { server, file })
    }
}

/// Returns memcached's options for a tier of `flash_mb` MiB, without its path.
fn extstore(flash_mb: u64) -> String {
    let page_mb = (flash_mb / PAGES).next_power_of_two().clamp(PAGE_MB_MIN, PAGE_MB_MAX);
    let buffer_mb = (page_mb / BUFFERS_PER_PAGE).clamp(BUFFER_MB_MIN, BUFFER_MB_MAX);
    format!(
        "-f 1.5 -o slab_automove_window=3,ext_page_size={page_mb},ext_wbuf_size={buffer_mb},\
         ext_item_size=64,ext_threads=4"
    )
}

#[cfg(test)]
mod tests {
    use super::extstore;

    #[test]
    fn pages_are_a_128th_and_whole_buffers_fill_them() {
        assert!(extstore(1024).contains(",ext_page_size=8,ext_wbuf_size=2,"));
        assert!(extstore(16).contains(",ext_page_size=2,ext_wbuf_size=2,"));
        assert!(extstore(1 << 20).contains(",ext_page_size=64,ext_wbuf_size=4,"));
    }
}
