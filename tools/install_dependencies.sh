#!/usr/bin/env bash
# Puts in place what building and testing need; installs only what is missing, says what it does.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."

DRY_RUN=0
WITH_VM=0
case "${1:-}" in
  --dry-run) DRY_RUN=1 ;;
  --vm) WITH_VM=1 ;;
  -h|--help) echo "usage: $0 [--dry-run | --vm]"
             echo "installs Debian/Ubuntu packages and, where no CUDA"
             echo "toolkit is found, NVIDIA's compiler wheels into build/cuda-toolkit"
             echo "--vm: also what the tests that boot virtual machines want"; exit 0 ;;
  "") ;;
  *) echo "$0: unknown argument $1" >&2; exit 2 ;;
esac

LLVM=19
CUDA_VERSION=13.0
TOOLKIT=build/cuda-toolkit
PACKAGES=(
  build-essential g++ cmake ninja-build ccache git          # building
  llvm-$LLVM-dev                                            # softgpu: the JIT
  libflatbuffers-dev flatbuffers-compiler                   # protocol: records, control messages
  libfabric-dev                                             # net: the data plane between hosts
  libzstd-dev zlib1g-dev liblz4-dev                                    # api: compressed kernels
  libspdlog-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libseccomp-dev  # server, tools
  prometheus-cpp-dev                                        # server: metrics
  libxxhash-dev                                             # softgpu: cache keys
  libzmq3-dev                                               # net: the control plane
  libgtest-dev libgmock-dev libbenchmark-dev                # tests
  clang-14 libclang-rt-14-dev clang-format-14 clang-tidy-14 # fuzzers, format, tidy
  python3 python3-venv                                      # generator, checks, wheels
  file binutils
)
# What tests that boot virtual machines want (label vm): only with --vm.
VM_PACKAGES=(qemu-system-x86 busybox-static)

say() { printf 'dependencies: %s\n' "$*"; }
die() { printf 'dependencies: %s\n' "$*" >&2; exit 1; }

run() {
  say "running: $*"
  if [ "$DRY_RUN" = 0 ]; then "$@"; fi
}

is_installed() { dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

install_packages() {
  command -v apt-get >/dev/null || {
    say "no apt-get here: please install by hand what these Debian packages hold:"
    say "  ${PACKAGES[*]}"
    return 0
  }
  local missing=() package
  if [ "$WITH_VM" = 1 ]; then PACKAGES+=("${VM_PACKAGES[@]}"); fi
  for package in "${PACKAGES[@]}"; do
    is_installed "$package" || missing+=("$package")
  done
  if [ ${#missing[@]} = 0 ]; then say "all ${#PACKAGES[@]} packages are there"; return 0; fi
  say "missing packages: ${missing[*]}"
  local root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "not root and no sudo: install the packages above first"
    root=(sudo)
  fi
  run "${root[@]}" apt-get update -q
  for package in "${missing[@]}"; do
    if [ "$DRY_RUN" = 0 ] && [ -z "$(apt-cache policy "$package" | sed -n 's/ *Candidate: //p' |
        grep -v '(none)')" ]; then
      case "$package" in
        llvm-*) die "this system has no $package; add the packages of https://apt.llvm.org (one
  script there does it), or use Debian 12 or Ubuntu 24.04 and later" ;;
        *) die "this system has no package $package; Debian 12 has it" ;;
      esac
    fi
  done
  run "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
    --no-install-recommends "${missing[@]}"
}

check_python() {
  local version
  version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || echo none)
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    [ "$DRY_RUN" = 1 ] || die "Python 3.11 or newer is needed (found: $version)"
}

# Prints the root of a toolkit with nvcc and cuda.h; the same order as cmake/dependencies.cmake.
find_toolkit() {
  local candidate nvcc
  nvcc=$(command -v nvcc || true)
  if [ -n "$nvcc" ]; then nvcc=$(readlink -f "$nvcc"); fi
  for candidate in "${VGPU_CUDA_ROOT:-}" "${CUDA_HOME:-}" "${nvcc%/bin/nvcc}" /usr/local/cuda \
      "$TOOLKIT"; do
    [ -n "$candidate" ] || continue
    if [ -x "$candidate/bin/nvcc" ] && [ -f "$candidate/include/cuda.h" ]; then
      echo "$candidate"
      return 0
    fi
  done
  return 1
}

# NVIDIA publishes its compiler as Python wheels; together they are a toolkit without libraries.
install_toolkit() {
  local root
  if root=$(find_toolkit); then say "CUDA toolkit: $root"; return 0; fi
  say "no CUDA toolkit found (nvcc on PATH, CUDA_HOME, /usr/local/cuda)"
  [ "$(uname -m)" = x86_64 ] || [ "$(uname -m)" = aarch64 ] || die "no CUDA wheels for $(uname -m)"
  say "taking NVIDIA's wheels of CUDA $CUDA_VERSION (about 130 MB) into $TOOLKIT"
  local stage=build/cuda-toolkit.part
  run rm -rf "$stage"
  run mkdir -p "$stage"
  run python3 -m venv "$stage/venv"
  local wheels=(nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-cuda-crt nvidia-nvvm nvidia-cuda-cccl)
  run "$stage/venv/bin/pip" install -q --disable-pip-version-check --no-deps \
    --target "$stage/wheels" "${wheels[@]/%/==$CUDA_VERSION.*}"
  if [ "$DRY_RUN" = 1 ]; then return 0; fi
  local made="$stage/wheels/nvidia/cu13"
  [ -x "$made/bin/nvcc" ] || die "the wheels hold no nvcc where it was expected ($made/bin)"
  ln -sfn lib "$made/lib64"
  for library in "$made"/lib/lib*.so.*; do
    ln -sf "$(basename "$library")" "${library%%.so.*}.so"
  done
  rm -rf "$TOOLKIT"
  mv "$made" "$TOOLKIT"
  rm -rf "$stage"
  try_toolkit
  say "CUDA toolkit: $TOOLKIT"
}

# nvml.h, which the wheels above and some toolkits have not.
install_nvml_header() {
  local root
  root=$(find_toolkit) || root=$TOOLKIT
  if [ -f "$root/include/nvml.h" ] || [ -f build/nvml/nvml.h ]; then
    say "nvml.h is there"
    return 0
  fi
  say "taking nvml.h of CUDA $CUDA_VERSION from NVIDIA's wheel into build/nvml"
  local stage=build/nvml.part
  run rm -rf "$stage"
  run mkdir -p "$stage"
  run python3 -m venv "$stage/venv"
  run "$stage/venv/bin/pip" install -q --disable-pip-version-check --no-deps \
    --target "$stage/wheels" "nvidia-nvml-dev==$CUDA_VERSION.*"
  if [ "$DRY_RUN" = 1 ]; then return 0; fi
  mkdir -p build/nvml
  cp "$stage"/wheels/nvidia/*/include/nvml.h build/nvml/ || die "the wheel holds no nvml.h"
  rm -rf "$stage"
}

# Prometheus for the tests of docs/monitoring. Unpacked only: its package would start a service.
unpack_prometheus() {
  if command -v prometheus >/dev/null && command -v promtool >/dev/null; then return 0; fi
  if [ -x build/prometheus/usr/bin/promtool ]; then say "prometheus is there"; return 0; fi
  command -v apt-get >/dev/null || return 0
  say "taking Debian's prometheus into build/prometheus"
  run mkdir -p build/prometheus.part
  if [ "$DRY_RUN" = 1 ]; then return 0; fi
  # Without it the tests of docs/monitoring are skipped, and say so.
  if (cd build/prometheus.part && apt-get download -q prometheus &&
      dpkg-deb -x prometheus_*.deb .); then
    rm -rf build/prometheus build/prometheus.part/prometheus_*.deb
    mv build/prometheus.part build/prometheus
  else
    say "prometheus could not be had"
    rm -rf build/prometheus.part
  fi
}

# A toolkit counts as installed when it compiles a kernel.
try_toolkit() {
  local folder
  folder=$(mktemp -d)
  echo '__global__ void k(int* p) { *p = threadIdx.x; } int main() { k<<<1, 1>>>(nullptr); }' \
    > "$folder/try.cu"
  if ! "$TOOLKIT/bin/nvcc" -o "$folder/try" "$folder/try.cu"; then
    rm -rf "$folder"
    die "the nvcc from the wheels does not work here"
  fi
  rm -rf "$folder"
}

install_packages
check_python
install_toolkit
install_nvml_header
unpack_prometheus
say "done"
