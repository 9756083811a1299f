//! Measures Larder and its peers with the same client on the same machine.

fn main() {}
