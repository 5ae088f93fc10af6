#!/usr/bin/env bash
# What libnanolith.so shows to the outside: check_library.sh BUILD_DIR
# - it exports the functions of the headers, the symbols that these name with NL_SYMBOL, and nothing else, under the
#   version node NANOLITH_0
# - its soname is libnanolith.so.0
# - it needs no CUDA, and opens in a plain C program with every symbol bound
set -euo pipefail
export LC_ALL=C  # one order everywhere
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
library=$build/lib/libnanolith.so
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sed -n -e 's/^NL_API .*[ *]\(nl_[a-z_]*\)(.*/\1/p' include/nanolith/*.h >"$work/names"
sed -n -e 's/.* NL_SYMBOL("\(.*\)").*/\1/p' include/nanolith/*.h >>"$work/names"
sort "$work/names" >"$work/declared"
nm -D --defined-only "$library" | awk '{print $3}' | grep -v '^NANOLITH_0$' | sort >"$work/exported"
sed 's/$/@@NANOLITH_0/' "$work/declared" >"$work/expected"
[ "$(wc -l <"$work/declared")" -gt 40 ]
diff "$work/expected" "$work/exported"

readelf -d "$library" | grep -q 'SONAME.*\[libnanolith\.so\.0\]'
ldd -r "$library" >"$work/needs" 2>&1
if grep -E 'not found|undefined symbol' "$work/needs"; then exit 1; fi
# Names alone: a library that has nothing to do with CUDA (an OpenCL loader, say) may lie in CUDA's folder.
awk '{ sub(/.*\//, "", $1); print $1 }' "$work/needs" >"$work/names"
grep -q '^libc\.' "$work/names"
if grep -i -E 'cuda|cublas|nvidia|nvrtc' "$work/names"; then exit 1; fi

cat >"$work/open.c" <<'C'
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    const char *(*version)(void) = NULL;
    if (library == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
    *(void **)&version = dlsym(library, "nl_version");
    if (version == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
    printf("opened %s\n", version());
    return dlclose(library);
}
C
cc -std=c99 -Wall "$work/open.c" -o "$work/open" -ldl
"$work/open" "$library"
