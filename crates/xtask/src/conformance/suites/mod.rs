//! Other people's tests: those that Redis, memcached and Django ship for themselves, played against
//! Larder.
//!
//! The sources of the first two come from Debian (`sources`), Django's from PyPI (`install`). What
//! cannot hold for Larder stands in a list with its reasons (`listed`): all else has to pass.

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

/// Where suites are run.
const FOLDER: &str = "target/conformance/suites";

/// A fresh copy of a package's folder of tests, changed as its list says.
fn unpacked(package: &str, tests: &str, listed: &Listed) -> Result<PathBuf> {
    let folder = Path::new(FOLDER).join(package);
    replace_folder(&folder)?;
    let source = Path::new(sources::FOLDER).join(package).join(tests);
    Run::new("cp -r").arg(source).arg(&folder).capture(Duration::from_secs(60))?;
    let folder = std::fs::canonicalize(folder)?;
    listed.change(&folder)?;
    Ok(folder)
}
