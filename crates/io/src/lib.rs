//! Every system call Larder makes: memory mappings, the clock, sockets, polling.
