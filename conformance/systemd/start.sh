#!/bin/sh
# Becomes systemd in namespaces of its own, which `unshare -m -p -C -u -i --fork` has made: over the
# machine's files, without writing to them, with one target that wants larder.service and nothing
# else. Takes an empty folder, the program, the file of its options and the unit.
#
# A root that was only changed to with chroot would not do: no user namespace can be made below
# one, and the unit asks for one.
set -eu
folder=$(realpath "$1") program=$(realpath "$2") options=$(realpath "$3") unit=$(realpath "$4")

mount --make-rprivate /
mount -t tmpfs tmpfs "$folder"
mkdir "$folder/changed" "$folder/work" "$folder/root"
root="$folder/root"
mount -t overlay overlay "$root" \
    -o "lowerdir=/,upperdir=$folder/changed,workdir=$folder/work"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"

mkdir -p "$root/etc/larder"
cp "$program" "$root/usr/bin/larder"
chmod 755 "$root/usr/bin/larder"
cp "$options" "$root/etc/larder/larder.toml"
chmod 644 "$root/etc/larder/larder.toml"
# What only root may read, for a unit that asks to be handed it.
(umask 077 && echo 'bob:secret' > "$root/etc/larder/users")
cp "$unit" "$root/etc/systemd/system/larder.service"
cat > "$root/etc/systemd/system/larder-only.target" <<'EOF'
[Unit]
Description=Larder and nothing else
Wants=dbus.service larder.service
EOF

cd "$root"
mkdir -p before
pivot_root . before
umount -l /before
# What systemd hands to a service it mounts beside it, to be seen from there.
mount --make-rshared /
exec env -i container=lxc PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --system --unit=larder-only.target
