//! Hash to location: the sharded optimistic cuckoo table.
