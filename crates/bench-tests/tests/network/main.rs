//! The commands that talk to servers, against real ones where they are installed: `load` and
//! `record`.

mod load;
mod record;
mod servers;
