#!/usr/bin/env bash
# Follows each binding's README on a fresh Debian 12 with nothing else: as root, with debootstrap and a network.
#
#   fresh_debian.sh FOLDER [LANGUAGE...]
#
# FOLDER/base is made where it is not there; each language gets a copy of it, with the last commit in /nanolith.
set -euo pipefail
folder=$1
shift
mkdir -p "$folder"
folder=$(realpath "$folder")
cd "$(dirname "$0")/../.."

if [ ! -e "$folder/base/etc/debian_version" ]; then
    debootstrap --variant=minbase bookworm "$folder/base" http://deb.debian.org/debian
fi
leave() { umount "$folder/root/proc" "$folder/root/dev" 2>/dev/null || true; }
trap leave EXIT
[ $# -gt 0 ] || set -- rust go csharp
for language; do
    leave
    rm -rf --one-file-system "$folder/root"
    cp -a "$folder/base" "$folder/root"
    cp -L /etc/resolv.conf "$folder/root/etc/"
    mkdir "$folder/root/nanolith" "$folder/root/work"
    git archive HEAD | tar x -C "$folder/root/nanolith"
    mount -t proc proc "$folder/root/proc"
    mount --bind /dev "$folder/root/dev"
    echo "$language on a fresh Debian $(cat "$folder/root/etc/debian_version")"
    chroot "$folder/root" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        bash -c "apt-get update -q && /nanolith/tests/bindings/readme.sh --install $language /work"
done
