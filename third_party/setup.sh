#!/usr/bin/env bash
# Brings what the build and the tests need: system packages (Debian and Ubuntu), and files of PyPI
# packages into .deps/, every one checked by its hash.
#
#   third_party/setup.sh [--quick] [--tpu] [--cuda]    what `./dev setup` runs
#   third_party/setup.sh --venv NAME                   .deps/NAME-venv from NAME.lock
#
# --quick trusts files whose size and time are as the last full check left them; without it every
# file is hashed again, and a package with a missing or altered file is fetched again.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
deps=$(dirname "$here")/.deps

die() {
  echo "error: $*" >&2
  exit 1
}
say() { echo "setup: $*"; }

# ---- System packages ----------------------------------------------------------------------------

readonly kPackages=(cmake ninja-build ccache lld git libcli11-dev libtomlplusplus-dev
  nlohmann-json3-dev libspdlog-dev libfmt-dev libprotobuf-dev protobuf-compiler libpcre2-dev
  libcurl4-openssl-dev libssl-dev libarchive-dev zlib1g-dev libgtest-dev libbenchmark-dev)

# Packages of the list that are not installed, one a line.
missing_packages() {
  dpkg-query -W -f='${Package} ${db:Status-Status}\n' "${kPackages[@]}" 2>/dev/null |
    awk -v wanted="${kPackages[*]}" '
      $2 == "installed" { have[$1] = 1 }
      END { n = split(wanted, w, " "); for (i = 1; i <= n; i++) if (!(w[i] in have)) print w[i] }'
  "$here/compiler.sh" >/dev/null || echo g++
  command -v gnuplot >/dev/null || echo gnuplot-nox
  command -v python3 >/dev/null || echo python3
  python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
}

system_packages() {
  if ! command -v dpkg-query >/dev/null; then
    local tool
    for tool in cmake ninja protoc python3 gnuplot; do
      command -v "$tool" >/dev/null ||
        die "'$tool' is missing, and this is neither Debian nor Ubuntu: install what" \
          "third_party/README.md lists with your system's package manager"
    done
    return
  fi
  local missing
  mapfile -t missing < <(missing_packages)
  ((${#missing[@]})) || return 0
  local sudo=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      die "not root and no sudo; as root: apt-get install ${missing[*]}"
    sudo=(sudo)
  fi
  say "installing ${missing[*]}"
  local apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq
    -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  "${apt[@]}" update || die "apt-get update failed: is this machine online?"
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >/dev/null ||
    die "apt-get could not install ${missing[*]}: see its messages above"
  if ! "$here/compiler.sh" >/dev/null; then
    "${apt[@]}" install -y --no-install-recommends g++-12 >/dev/null ||
      die "no C++20 compiler: install g++ 12 or later"
  fi
}

# ---- Python environments ------------------------------------------------------------------------

# The first Python that the locks hold wheels for; fails with a message where there is none.
locked_python() {
  local python
  for python in python3 python3.11 python3.12 python3.13; do
    if "$python" -c 'import ensurepip, sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
      2>/dev/null; then
      echo "$python"
      return
    fi
  done
  die "the locks hold wheels for CPython 3.11 to 3.13, and none of these is here" \
    "(python3 is $(python3 --version 2>&1)): install one, or extend third_party/relock"
}

# make_venv FOLDER LOCK PYTHON: a virtual environment with exactly the lock's packages.
make_venv() {
  local folder=$1 lock=$2 python=$3 want made_of
  made_of=("$lock")
  if [[ ${lock##*/} == torch.lock ]]; then made_of+=("$here/torch_cpu.sh"); fi
  want=$(cat "${made_of[@]}" | sha256sum)
  if [[ -f $folder/lock.sha256 && $(<"$folder/lock.sha256") == "$want" ]] &&
    "$folder/bin/python" -c '' 2>/dev/null; then
    return
  fi
  say "making ${folder##*/} from ${lock##*/}"
  rm -rf "$folder"
  "$python" -m venv "$folder" || die "'$python -m venv' failed: install python3-venv"
  "$folder/bin/python" -m pip --disable-pip-version-check install --quiet --no-deps \
    --only-binary=:all: --require-hashes --retries 5 --timeout 60 -r "$lock" ||
    die "pip could not install ${lock##*/}: see its message above. Offline? Then go online once" \
      "and run this again; an index of your own is set by pip's own configuration"
  if [[ ${lock##*/} == torch.lock ]]; then
    "$here/torch_cpu.sh" "$folder" || die "torch could not be made to run without CUDA: see above"
  fi
  echo "$want" >"$folder/lock.sha256"
}

# ---- Files of packages --------------------------------------------------------------------------

# The lines of files.sha256 under a prefix.
hashes_of() { awk -v prefix="$1" 'index($2, prefix) == 1' "$here/files.sha256"; }

intact() { (cd "$deps" && hashes_of "$1" | sha256sum --check --status --strict 2>/dev/null); }

# download LOCK PACKAGE FOLDER [PIP OPTION...]
download() {
  local lock=$1 package=$2 folder=$3
  shift 3
  grep "^$package==" "$lock" >"$folder/requirement.txt"
  # Source packages are asked for their metadata, which runs their build backend: ours, by hash.
  "$deps/tools-venv/bin/python" -m pip --disable-pip-version-check download --quiet --no-deps \
    --no-build-isolation --require-hashes --retries 5 --timeout 60 --dest "$folder" "$@" \
    -r "$folder/requirement.txt" ||
    die "pip could not fetch $package: see its message above. Offline? Then go online once and" \
      "run './dev setup' again; an index of your own is set by pip's own configuration"
}

# unpack ARCHIVE MEMBER TARGET...: files, or folders ending in '/', of a wheel or source package.
unpack() {
  "$deps/tools-venv/bin/python" - "$@" <<'PYTHON'
import os, shutil, sys, tarfile, zipfile

path, pairs = sys.argv[1], list(zip(sys.argv[2::2], sys.argv[3::2]))
if path.endswith(".whl"):
    archive = zipfile.ZipFile(path)
    names, open_member = archive.namelist(), archive.open
else:  # every name of a source package begins with NAME-VERSION/
    archive = tarfile.open(path)
    members = {m.name.split("/", 1)[-1]: m for m in archive.getmembers() if m.isfile()}
    names, open_member = list(members), lambda name: archive.extractfile(members[name])
for member, target in pairs:
    for name in names:
        if name != member and not (member.endswith("/") and name.startswith(member)):
            continue
        to = os.path.join(target, name[len(member):]) if member.endswith("/") else target
        os.makedirs(os.path.dirname(to), exist_ok=True)
        with open_member(name) as source, open(to + ".part", "wb") as sink:
            shutil.copyfileobj(source, sink)
        os.replace(to + ".part", to)
PYTHON
}

# part LOCK PACKAGE PREFIX MEMBER TARGET...: makes the files under PREFIX be as files.sha256 says;
# TARGETs are relative to .deps/. PIP_OPTIONS go to pip.
part() {
  local lock=$1 package=$2 prefix=$3
  shift 3
  if intact "$prefix"; then return; fi
  say "fetching $package"
  local folder archive arguments=()
  folder=$(mktemp -d "$deps/download.XXXXXX")
  # shellcheck disable=SC2064  # the folder's name now
  trap "rm -rf '$folder'" EXIT
  download "$here/$lock" "$package" "$folder" "${PIP_OPTIONS[@]}"
  while (($#)); do
    arguments+=("$1" "$deps/$2")
    shift 2
  done
  archive=$(find "$folder" -name '*.whl' -o -name '*.tar.gz')
  unpack "$archive" "${arguments[@]}"
  rm -rf "$folder"
  intact "$prefix" ||
    die "files of $package differ from third_party/files.sha256: was the lock changed without it?"
}

# What the stamp holds: changes with the locks, these scripts, and any file's size or time.
fingerprint() {
  {
    cat "$here/requirements.lock" "$here/tools.lock" "$here/files.sha256" "$here/setup.sh"
    cd "$deps"
    hashes_of "" | awk '$2 !~ /^plugins\/(tpu|cuda)\// { print $2 }' | xargs stat -c '%n %s %Y'
    "$deps/tools-venv/bin/python" --version
  } 2>/dev/null | sha256sum
}

packages() {
  [[ $(uname -sm) == "Linux x86_64" ]] ||
    die "the CPU plugin is published for Linux on x86-64 alone; this is $(uname -sm)"
  if ((quick)) && [[ -f $deps/stamp && $(<"$deps/stamp") == "$(fingerprint)" ]]; then return; fi
  rm -f "$deps/stamp"
  make_venv "$deps/tools-venv" "$here/tools.lock" python3
  PIP_OPTIONS=()
  part requirements.lock pypjrt pjrt/ vendor/xla/ pjrt/include/xla LICENSE pjrt/LICENSE
  local wheel=lammps_jax_pjrt_cpu licenses=lammps_jax_pjrt_cpu-0.11.2.dist-info/licenses
  part requirements.lock lammps-jax-pjrt-cpu plugins/cpu/ \
    $wheel/pjrt_c_api_cpu_plugin.so plugins/cpu/pjrt_c_api_cpu_plugin.so \
    $licenses/ plugins/cpu
  part requirements.lock fastatomstruct-xla-cpu plugins/cpu-old/ \
    fastatomstruct_xla_cpu/libpjrt_cpu.so plugins/cpu-old/libpjrt_cpu.so
  part requirements.lock openai-whisper text/gpt2. \
    whisper/assets/gpt2.tiktoken text/gpt2.tiktoken LICENSE text/gpt2.LICENSE
  part requirements.lock llama-models text/llama3. \
    llama_models/llama3/tokenizer.model text/llama3.model
  fingerprint >"$deps/stamp"
}

tpu_plugin() {
  PIP_OPTIONS=(--only-binary=:all: --implementation cp --python-version 3.11 --abi cp311
    --platform manylinux_2_31_x86_64)
  part plugins.lock libtpu plugins/tpu/ libtpu/libtpu.so plugins/tpu/libtpu.so
}

cuda_plugin() {
  PIP_OPTIONS=(--only-binary=:all:)
  part plugins.lock jax-cuda13-pjrt plugins/cuda/ \
    jax_plugins/xla_cuda13/xla_cuda_plugin.so plugins/cuda/xla_cuda_plugin.so
}

quick=0 tpu=0 cuda=0
while (($#)); do
  case $1 in
    --quick) quick=1 ;;
    --tpu) tpu=1 ;;
    --cuda) cuda=1 ;;
    --venv)
      mkdir -p "$deps"
      python=$(locked_python)
      make_venv "$deps/$2-venv" "$here/$2.lock" "$python"
      exit
      ;;
    *) die "unknown option '$1'; setup takes --tpu and --cuda" ;;
  esac
  shift
done

system_packages
mkdir -p "$deps"
exec 9>"$deps/lock" # two runs at once take turns
flock 9
packages
if ((tpu)); then tpu_plugin; fi
if ((cuda)); then cuda_plugin; fi
