//! The commands that talk to servers, against real ones where they are there: `load` and `record`.

mod load;
mod record;
mod servers;
