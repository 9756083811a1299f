#!/bin/sh
# Starts Memcarrot as a peer of larder-bench:
#
#   larder-bench compare trace TRACE \
#       --peer 'memcarrot:text=crates/bench/peers/memcarrot.sh {port} {memory-mb} {threads}'
#
# MEMCARROT is the folder in which it was built: its configuration is used, but for the address, the
# threads, the memory, segments of SEGMENT (4m by default, so that a small cache has many), and
# that nothing is saved at its end. The heap of Java is as its own scripts have it.
set -eu
port=$1 memory_mb=$2 threads=$3
folder=${TMPDIR:-/tmp}/larder-bench-memcarrot-$port
mkdir -p "$folder"
sed -e "s/^server.port=.*/server.port=$port/" \
    -e "s/^server.address=.*/server.address=127.0.0.1/" \
    -e "s/^storage.size.max=.*/storage.size.max=${memory_mb}m/" \
    -e "s/^data.segment.size=.*/data.segment.size=${SEGMENT:-4m}/" \
    -e "s/^save.on.shutdown=.*/save.on.shutdown=false/" \
    -e "s/^jmx.metrics.enabled=.*/jmx.metrics.enabled=false/" \
    "$MEMCARROT/conf/memcarrot.cfg" > "$folder/memcarrot.cfg"
printf '\nworkers.pool.size=%s\nroot.dir.path=%s/data\n' "$threads" "$folder" \
    >> "$folder/memcarrot.cfg"
opens=
for package in java.base/java.io java.base/java.lang java.base/java.lang.invoke \
    java.base/java.lang.reflect java.base/java.net java.base/java.nio java.base/java.security \
    java.base/java.util java.base/java.util.concurrent java.base/java.util.concurrent.atomic \
    java.base/jdk.internal.misc java.base/sun.net java.base/sun.nio.ch \
    java.base/sun.security.action jdk.naming.rmi/com.sun.jndi.rmi.registry \
    jdk.unsupported/sun.misc; do
    opens="$opens --add-opens=$package=ALL-UNNAMED"
done
jar=$(ls "$MEMCARROT"/lib/memcarrot-*-bundle.jar)
cd "$folder"
# shellcheck disable=SC2086 # Each word of $opens is an argument.
exec java $opens -Xmx200m -XX:MaxDirectMemorySize=256m -jar "$jar" "$folder/memcarrot.cfg" start
