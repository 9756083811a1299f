#!/bin/sh
# Becomes systemd in the namespaces made by `unshare -m -p -C -u -i --fork`: over the machine's
# files, without writing to them, with one target that wants larder.service and nothing else. Takes
# an empty folder, the program, the file of its options and the unit.
#
# chroot alone would not do: no user namespace can be made below a changed root, and the unit asks
# for one.
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
# A file that only root may read, which the unit may load as a credential.
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
# systemd mounts a service's credentials beside it; shared mounts make them visible there.
mount --make-rshared /
exec env -i container=lxc PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --system --unit=larder-only.target
