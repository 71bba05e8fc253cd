#!/bin/sh
# sh tools/quickstart.sh: from a fresh clone to compiled kernels of DeepSeek-V3.2, and on a machine with a GPU to
# checked and timed ones. Installs what is missing (setup.sh says how). Debian 12 and Ubuntu 24.04.
set -eu
cd "$(dirname "$0")/.."
. tools/setup.sh

began=$(date +%s)
set_up
bin=$build/bin
say "built in $(($(date +%s) - began)) s"

# The kernels of DeepSeek-V3.2 (576 = 512 + 64 columns): the whole model's 128 heads and a half of them. The lengths
# (topk 2048 among them) are arguments of a call, so these serve every length.
for heads in 64 128; do
  "$bin/smla-prewarm" --heads $heads --arch sm_90a
done
printf 'kernels are kept in %s\n' "$("$bin/smla-cache" path)"
printf 'compiled with %s\n' "$SMLA_NVRTC"
if [ "$SMLA_NVRTC" = "$(wheel_nvrtc)" ]; then printf 'for your own programs: export SMLA_NVRTC=%s\n' "$SMLA_NVRTC"; fi
printf 'tools: %s/  library: %s/libsmla.so  header: include/smla/smla.h\n' "$bin" "$build"

# Without a GPU the same generated text runs on the CPU, a few tokens of it, against the fp64 reference.
check_on_cpu() {
  printf 'no GPU that can be used here: the kernels run on the CPU instead\n'
  "$bin/smla-check" --heads 64 --on cpu
}

if [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ]; then  # Linux and WSL
  check_on_cpu
  printf 'done in %s s\n' "$(($(date +%s) - began))"
  exit 0
fi
for heads in 64 128; do
  code=0
  "$bin/smla-bench" --heads $heads --queries 4096 --topk 2048 --check || code=$?
  case $code in
    0) ;;
    7)
      check_on_cpu
      break
      ;;
    *) exit $code ;;
  esac
done
printf 'done in %s s\n' "$(($(date +%s) - began))"
