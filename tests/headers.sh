#!/bin/sh
# Each public header compiles alone. headers.sh INCLUDE_DIRECTORY CC CXX
set -eu
include=$1 cc=$2 cxx=$3
for header in "$include"/smla/*; do
  name=smla/$(basename "$header")
  case $name in
    *.h)
      echo "#include <$name>" | "$cc" -std=c99 -pedantic -Wall -Wextra -Wstrict-prototypes -Werror -I"$include" -x c -fsyntax-only -
      echo "#include <$name>" | "$cxx" -std=c++20 -Wall -Wextra -Wpedantic -Werror -I"$include" -x c++ -fsyntax-only - ;;
    *.hpp)
      echo "#include <$name>" | "$cxx" -std=c++20 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -I"$include" -x c++ -fsyntax-only - ;;
    *) echo "$name is neither .h nor .hpp" >&2; exit 1 ;;
  esac
  echo "$name"
done
