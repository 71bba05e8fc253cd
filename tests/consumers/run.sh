#!/bin/sh
# Installs a built tree into a fresh prefix and builds tests/consumers against it, by find_package and by pkg-config.
# run.sh BUILD_TREE CMAKE CC CXX
set -eu
build=$1 cmake=$2 cc=$3 cxx=$4
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT INT TERM

"$cmake" --install "$build" --component smla --prefix "$scratch/first" > "$scratch/install.log" 2>&1 || {
  cat "$scratch/install.log" >&2
  exit 1
}
mv "$scratch/first" "$scratch/prefix"  # the package may not depend on where it was installed

for program in c99 cpp20; do
  "$cmake" -S "$here/$program" -B "$scratch/$program" -DCMAKE_PREFIX_PATH="$scratch/prefix" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" > "$scratch/$program.log" 2>&1 &&
    "$cmake" --build "$scratch/$program" >> "$scratch/$program.log" 2>&1 || {
    cat "$scratch/$program.log" >&2
    exit 1
  }
  "$scratch/$program/consumer"
done

if ! command -v pkg-config > /dev/null; then
  echo "pkg-config is not installed: its half is left out"
  exit 0
fi
PKG_CONFIG_PATH=$(dirname "$(find "$scratch/prefix" -name smla.pc)")
LD_LIBRARY_PATH=$(dirname "$(find "$scratch/prefix" -name libsmla.so)")
export PKG_CONFIG_PATH LD_LIBRARY_PATH
test "$(pkg-config --modversion smla)" = "$(sed -n 's/^Version: //p' "$PKG_CONFIG_PATH/smla.pc")"
# shellcheck disable=SC2046 # flags are words
"$cc" -std=c99 -pedantic -Werror "$here/c99/main.c" -o "$scratch/by_pkg_config" $(pkg-config --cflags --libs smla)
"$scratch/by_pkg_config"
# shellcheck disable=SC2046
"$cxx" -std=c++20 -Werror "$here/cpp20/main.cpp" -o "$scratch/by_pkg_config_cpp" $(pkg-config --cflags --libs smla)
"$scratch/by_pkg_config_cpp"
