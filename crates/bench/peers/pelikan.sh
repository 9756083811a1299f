#!/bin/sh
# Starts Pelikan's segcache as a peer of larder-bench:
#
#   larder-bench compare trace TRACE \
#       --peer 'pelikan:text=crates/bench/peers/pelikan.sh {port} {memory-mb} {threads}'
#
# PELIKAN is its program, pelikan-segcache by default. HASH_POWER is the logarithm of the slots of
# its hash table: the default is for about a million items.
set -eu
port=$1 memory_mb=$2 threads=$3
config=${TMPDIR:-/tmp}/larder-bench-pelikan-$port.toml
cat > "$config" <<END
[admin]
host = "127.0.0.1"
port = "$((port < 32768 ? port + 32767 : port - 32767))"
http_enabled = false
[server]
host = "127.0.0.1"
port = "$port"
[worker]
threads = $threads
[seg]
hash_power = ${HASH_POWER:-20}
heap_size = "${memory_mb}MB"
segment_size = "1MB"
eviction = "Merge"
[time]
time_type = "Memcache"
[klog]
sample = 0
[debug]
log_level = "error"
END
exec "${PELIKAN:-pelikan-segcache}" "$config"
