# What quickstart.sh and test.sh share: finding and installing what the build needs, and the build. POSIX sh, to be
# read by ". tools/setup.sh" from the root of the source tree.
#
# Nothing missing: no package manager runs and no network is touched.
#
#   SMLA_BUILD_DIR   where to build; default build/release
#   CXX              compiler; default whatever CMake finds

build=${SMLA_BUILD_DIR:-build/release}
nvrtc_wheel=nvidia-cuda-nvrtc==13.0.88  # the version whose registers and spills the tests pin down

say() { printf '%s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# has_header FILE: whether the C++ compiler finds it.
has_header() { printf '#include <%s>\n' "$1" | ${CXX:-c++} -std=c++20 -fsyntax-only -x c++ - 2>/dev/null; }

# missing_packages [tests]: the Debian names of what is not there.
missing_packages() {
  have "${CXX:-c++}" || printf 'g++ '
  have cmake || printf 'cmake '
  have ninja || printf 'ninja-build '
  # Without a compiler nothing can be asked for; apt passes over what is installed.
  has_header fmt/format.h || printf 'libfmt-dev '
  has_header nlohmann/json.hpp || printf 'nlohmann-json3-dev '
  has_header CLI/CLI.hpp || printf 'libcli11-dev '
  if [ "${1:-}" = tests ]; then
    has_header catch2/catch_test_macros.hpp || has_header catch2/catch.hpp || printf 'catch2 '
    have python3 || printf 'python3 '
    have pkg-config || printf 'pkg-config '
  fi
  if [ -z "$(toolkit_nvrtc)" ] && [ ! -e "$(wheel_nvrtc)" ]; then
    have python3 || printf 'python3 '
    python3 -m pip --version >/dev/null 2>&1 || printf 'python3-pip '
  fi
}

install_packages() {
  packages=$(missing_packages "${1:-}")
  [ -n "$packages" ] || return 0
  have apt-get || die "missing: $packages(names of Debian packages). There is no apt-get here; please install them."
  root=
  if [ "$(id -u)" != 0 ]; then
    have sudo || die "missing: $packages. Please run as root: apt-get install $packages"
    root=sudo
  fi
  say "installing $packages"
  $root apt-get update -qq >&2 || say "apt-get update failed; trying with the lists that are there"
  # shellcheck disable=SC2086 # a list of words
  $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >&2 ||
    die "apt-get could not install $packages"
  still=$(missing_packages "${1:-}")
  [ -z "$still" ] || die "still missing after apt-get: $still"
}

# The first NVRTC of a toolkit of 12.8 or later: what SMLA_NVRTC names, the loader's path, CUDA_HOME, /usr/local/cuda*.
toolkit_nvrtc() {
  if [ -n "${SMLA_NVRTC:-}" ]; then
    printf '%s\n' "$SMLA_NVRTC"
    return
  fi
  for directory in $(printf '%s' "${LD_LIBRARY_PATH:-}" | tr ':' ' ') \
    ${CUDA_HOME:+"$CUDA_HOME/lib64"} ${CUDA_HOME:+"$CUDA_HOME/lib"} ${CUDA_PATH:+"$CUDA_PATH/lib64"} \
    /usr/local/cuda/lib64 /usr/local/cuda-*/lib64 /usr/lib/x86_64-linux-gnu /usr/lib/aarch64-linux-gnu; do
    if [ -e "$directory/libnvrtc.so.13" ]; then
      printf '%s\n' "$directory/libnvrtc.so.13"
      return
    fi
    for library in "$directory"/libnvrtc.so.12.[89]* "$directory"/libnvrtc.so.12.[1-9][0-9]*; do
      if [ -e "$library" ]; then
        printf '%s\n' "$library"
        return
      fi
    done
  done
}

# Where the wheel's NVRTC is, or would be.
wheel_nvrtc() {
  case $build in
    /*) printf '%s/nvrtc/nvidia/cu13/lib/libnvrtc.so.13\n' "$build" ;;
    *) printf '%s/%s/nvrtc/nvidia/cu13/lib/libnvrtc.so.13\n' "$(pwd)" "$build" ;;
  esac
}

# Sets and exports SMLA_NVRTC; fetches the pinned wheel into the build tree where no toolkit has one.
provide_nvrtc() {
  SMLA_NVRTC=$(toolkit_nvrtc)
  if [ -z "$SMLA_NVRTC" ]; then
    SMLA_NVRTC=$(wheel_nvrtc)
    if [ ! -e "$SMLA_NVRTC" ]; then
      say "fetching $nvrtc_wheel (90 MB), since no CUDA toolkit of 12.8 or later is here"
      scratch=$build/nvrtc.part
      rm -rf "$scratch"
      python3 -m pip download -q --no-deps --only-binary=:all: -d "$scratch/wheel" "$nvrtc_wheel" >&2 ||
        die "pip could not fetch $nvrtc_wheel; name an NVRTC of 12.8 or later in SMLA_NVRTC instead"
      python3 -m zipfile -e "$scratch"/wheel/*.whl "$scratch/unpacked" || die "the wheel could not be unpacked"
      rm -rf "$build/nvrtc"
      mv "$scratch/unpacked" "$build/nvrtc"  # whole or not at all
      rm -rf "$scratch"
    fi
  fi
  export SMLA_NVRTC
}

# build_all ON|OFF: with or without the tests.
build_all() {
  strict=OFF
  [ "${CI:-}" = true ] && strict=ON
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DSMLA_BUILD_TESTS="$1" \
    -DSMLA_WARNINGS_AS_ERRORS=$strict >"$build/configure.log" 2>&1 || {
    cat "$build/configure.log" >&2
    die "cmake could not configure; the log is $build/configure.log"
  }
  cmake --build "$build" >"$build/build.log" 2>&1 || {
    tail -n 40 "$build/build.log" >&2
    die "the build failed; the log is $build/build.log"
  }
}

# set_up [tests]: everything up to a finished build.
set_up() {
  mkdir -p "$build" || die "$build cannot be made"
  install_packages "${1:-}"
  provide_nvrtc
  say "building in $build"
  if [ "${1:-}" = tests ]; then build_all ON; else build_all OFF; fi
}
