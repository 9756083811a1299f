//! Foreign test suites: those that Redis, memcached and Django ship for themselves, run against
//! Larder.
//!
//! The sources of the first two come from Debian (`sources`), Django's from PyPI (`install`). Tests
//! that cannot hold for Larder are listed with their reasons (`listed`): all others have to pass.

mod django;
mod listed;
mod memcached;
mod redis;

pub use django::own_tests as of_django;
pub use memcached::own_tests as of_memcached;
pub use redis::own_tests as of_redis;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Result;
use crate::command::Run;
use crate::sources::{self, replace_folder};

use listed::Listed;

/// The folder in which suites run.
const FOLDER: &str = "target/conformance/suites";

/// Unpacks a fresh copy of a package's folder of tests, changed as its list says.
fn unpacked(package: &str, tests: &str, listed: &Listed) -> Result<PathBuf> {
    let folder = Path::new(FOLDER).join(package);
    replace_folder(&folder)?;
    let source = Path::new(sources::FOLDER).join(package).join(tests);
    Run::new("cp -r").arg(source).arg(&folder).capture(Duration::from_secs(60))?;
    let folder = std::fs::canonicalize(folder)?;
    listed.change(&folder)?;
    Ok(folder)
}
