//! What the server says of the file or device of its flash tier while it serves and when it ends.
//!
//! A device that takes no writes any more, because its file system has become read-only, does not
//! hear of what is deleted or replaced. It is told that all on it is void as soon as it takes that.
//! If the process ends before, nobody but the log can say so: the next start in the same boot would
//! believe what is there.

use larder::CloseError;

use crate::server::Server;

/// Says in the log when the device begins or ends to be behind what was deleted. To be called now
/// and then, with what it left there the last time; `false` at first.
pub fn watch(server: &Server, was_unsound: &mut bool) {
    let is_unsound = server.cache.is_flash_unsound();
    if is_unsound == *was_unsound {
        return;
    }
    *was_unsound = is_unsound;
    let text = if is_unsound {
        format!("{}, unless it takes writes before this process ends", stale(server))
    } else {
        format!("--flash {} takes writes again, and what was on it is void", path(server))
    };
    server.log(0, &text);
}

/// Closes the tier for the next start; says what is to be done before that if it cannot be told.
pub fn close(server: &Server) -> Result<(), String> {
    server.cache.close_flash().map_err(|error| match error {
        CloseError::Incomplete => format!("what was not yet on flash is lost: {error}"),
        CloseError::Unsound => format!(
            "{}: before that, remove the file, or fill the first MiB of the device with zeros",
            stale(server)
        ),
    })
}

fn stale(server: &Server) -> String {
    format!(
        "--flash {} takes no writes, and the next start may find there what was deleted or \
         replaced",
        path(server)
    )
}

/// Where the tier is.
fn path(server: &Server) -> String {
    let flash = server.options.flash.as_ref();
    flash.map(|(path, _)| path.display().to_string()).unwrap_or_default()
}
