#!/usr/bin/env bash
# A process may use this library and Netlink's: no function of ours has the name of one of theirs, but for
# nl_cache_free, which src/api/netlink.cpp handles. check_names.sh LIBRARY
set -euo pipefail
export LC_ALL=C  # one order everywhere
library=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# exported LIBRARY...: names without their versions.
exported() { nm -D --defined-only "$@" | awk 'NF == 3 { sub(/@.*/, "", $3); print $3 }' | sort -u; }

mapfile -t netlink < <(ldconfig -p | awk '$1 ~ /^libnl(-[a-z]+)?-3\.so\.200$/ { print $NF }')
for needed in libnl-3.so.200 libnl-route-3.so.200; do
    printf '%s\n' "${netlink[@]##*/}" | grep -qx "$needed" || { echo "$needed is not installed" >&2 && exit 1; }
done
exported "${netlink[@]}" >"$work/theirs"
exported "$library" >"$work/ours"
[ "$(grep -c '^nl_' "$work/theirs")" -gt 100 ]
[ "$(grep -c '^nl_' "$work/ours")" -gt 40 ]
comm -12 "$work/ours" "$work/theirs" >"$work/both"
echo "nl_cache_free" | diff - "$work/both"
echo "$(wc -l <"$work/ours") names of ours, $(wc -l <"$work/theirs") of ${#netlink[@]} Netlink libraries"
