#!/usr/bin/env bash
# Follows each binding's README on a fresh Debian 12 with nothing else: as root, with debootstrap and a network.
#
#   fresh_debian.sh FOLDER [LANGUAGE | PACKAGES | suite...]
#
# FOLDER/base is made where it is not there; each language gets a copy of it, with the last commit in /nanolith. PACKAGES
# is a folder of Debian packages (BUILD_DIR/packages), which are installed by apt; then programs are built with them.
# "suite" runs tests/bindings/run.sh, which installs what it needs.
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
[ $# -gt 0 ] || set -- rust go csharp python
install_packages='apt-get update -q && apt-get install -q -y /packages/*.deb binutils gcc g++ pkg-config libdnnl-dev \
    libpcre2-dev libsentencepiece-dev libutf8proc-dev nettle-dev cargo golang-go mono-mcs mono-runtime libmono-system-core4.0-cil &&
    dpkg --audit && /nanolith/tests/bindings/packages.sh --installed'
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
    commands="apt-get update -q && /nanolith/tests/bindings/readme.sh --install $language /work"
    if [ "$language" = suite ]; then
        commands=/nanolith/tests/bindings/run.sh
    elif [ -d "$language" ]; then
        mkdir "$folder/root/packages"
        cp "$language"/*.deb "$folder/root/packages"
        commands=$install_packages
    fi
    chroot "$folder/root" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        bash -c "$commands"
    echo "ok      $language"
done
