#!/bin/sh
# The symbols that libsmla.so exports are those that smla.h declares. exports.sh LIBRARY HEADER [NM]
set -eu
library=$1 header=$2 nm=${3:-nm}
exported=$("$nm" -D --defined-only "$library" | awk '{ print $NF }' | sed 's/@.*//' | sort)
declared=$(sed -n 's/^SMLA_API .*[ *]\(smla_[a-z_]*\)(.*/\1/p' "$header" | sort)
test -n "$declared"
if [ "$exported" != "$declared" ]; then
  printf 'exported:\n%s\ndeclared:\n%s\n' "$exported" "$declared" >&2
  exit 1
fi
echo "$exported"
