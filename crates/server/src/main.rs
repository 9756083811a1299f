//! The cache server.

fn main() {}
