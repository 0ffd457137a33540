# Shared by the scripts beside it: stages, Debian packages, the Python environment.
# Source it from a script that has set -euo pipefail.

REPRISE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# --- stages: each says how long it took, and the script how long in all ---------

_stage_name=
_stage_start=0
_script_start=$SECONDS

end_stage() {
  [ -z "$_stage_name" ] || echo "=== $_stage_name: $((SECONDS - _stage_start)) s"
  _stage_name=
}

stage() {
  end_stage
  _stage_name=$1
  _stage_start=$SECONDS
  echo
  echo "=== $_stage_name"
}

end_script() {
  local status=$?
  if [ "$status" -eq 0 ]; then
    end_stage
    echo "=== done in $((SECONDS - _script_start)) s"
  else
    echo "=== ${_stage_name:-start}: failed after $((SECONDS - _stage_start)) s" >&2
  fi
}
trap end_script EXIT

# --- what is missing, and installing it ----------------------------------------

missing_packages() {
  local name
  while read -r name; do
    dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || echo "$name"
  done < <(grep -v '^#' "$REPRISE_ROOT/requirements/debian.txt")
  # Any Python that can make environments will do, Debian's or another.
  python3 -c 'import ensurepip, venv' 2>/dev/null || printf '%s\n' python3 python3-venv
}

# What the Python environment holds.
requirements=$REPRISE_ROOT/requirements/dev.txt

# Not where the library keeps its kernels.
environments=${XDG_CACHE_HOME:-$HOME/.cache}/reprise-development

# A new folder for each Python and each set of pinned requirements, outside the
# checkout, so that checkouts share it. REPRISE_ENV_DIR names one that is ready.
find_environment() {
  local key
  if [ -n "${REPRISE_ENV_DIR:-}" ]; then
    env_dir=$REPRISE_ENV_DIR
    return
  fi
  key=$({ python3 -c 'import os, sys; print(sys.version, os.path.realpath(sys.executable))'
          cat "$requirements"; } | sha256sum | cut -c1-12)
  env_dir=$environments/env-$key
}

environment_is_ready() {
  [ -n "${REPRISE_ENV_DIR:-}" ] || [ -e "$env_dir/.complete" ]
}

install_packages() {
  local packages install
  packages=$(missing_packages | tr '\n' ' ')
  if [ -z "$packages" ]; then
    echo "Debian packages: all there"
    return
  fi
  echo "Debian packages to install: $packages"
  install="apt-get install -y --no-install-recommends $packages"
  if [ "$(id -u)" -ne 0 ]; then
    echo "Not root: run this line, then this script again:" >&2
    echo "  sudo apt-get update && sudo $install" >&2
    exit 1
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q
  # shellcheck disable=SC2086  # one word a package
  $install -q
}

# Built at its final path (an environment cannot be moved) by one script at a
# time; the stamp is written last, so a broken one is built anew.
# build_environment <folder> <command that makes it>...
build_environment() {
  local folder=$1
  shift
  (
    flock -n 9 || { echo "another script is making it; waiting"; flock 9; }
    if [ ! -e "$folder/.complete" ]; then
      rm -rf "$folder"
      "$@"
      touch "$folder/.complete"
    fi
  ) 9>"$folder.lock"
}

# pip_install <folder of an environment> <pip's arguments>...
#
# On a terminal pip shows how far it is, because it takes minutes.
pip_install() {
  local quiet=(--quiet)
  [ ! -t 1 ] || quiet=()
  "$1/bin/python" -m pip install "${quiet[@]}" --no-input --disable-pip-version-check \
    --no-cache-dir "${@:2}"
}

fill_environment() {
  python3 -m venv "$env_dir"
  pip_install "$env_dir" -r "$requirements"
}

make_environment() {
  find_environment
  if ! environment_is_ready; then
    mkdir -p "$(dirname "$env_dir")"
    echo "Python environment to make in $env_dir:"
    grep -v '^#' "$requirements" | sed 's/^/  /'
    echo "about 5 GB, some minutes; free there: $(df -h --output=avail "$(dirname "$env_dir")" | tail -1 | tr -d ' ')"
    build_environment "$env_dir" fill_environment
  fi
  echo "Python environment: $env_dir"
  enter_environment
}

# fill_added <lower environment> <requirements>: pip leaves alone what the lower one has.
fill_added() {
  local lower=$1 site
  "$lower/bin/python" -m venv "$env_dir"
  site=$("$env_dir/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  "$lower/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
    >"$site/lower.pth"
  "$lower/bin/python" -m pip list --format=freeze --disable-pip-version-check \
    | grep -v -E '^(pip|setuptools)==' >"$env_dir/constraints.txt"
  pip_install "$env_dir" -r "$2" -c "$env_dir/constraints.txt"
}

# add_environment <requirements>: enters an environment on top of the one that is entered,
# with these packages. It is kept, too, and goes by both sets of requirements.
add_environment() {
  stage "Python environment of $1"
  local lower=$env_dir key
  key=$({ echo "$lower"; cat "$requirements" "$1"; } | sha256sum | cut -c1-12)
  env_dir=$environments/env-$key
  mkdir -p "$(dirname "$env_dir")"
  build_environment "$env_dir" fill_added "$lower" "$1"
  echo "Python environment: $env_dir"
  export VIRTUAL_ENV=$env_dir
  export PATH=$env_dir/bin:$PATH
}

enter_environment() {
  export VIRTUAL_ENV=$env_dir
  export PATH=$env_dir/bin:$PATH
  unset PYTHONHOME
  local found=("$env_dir"/lib/python3*/site-packages/torch)
  export REPRISE_TORCH_DIR=${found[0]}
}

prepare() {
  stage "packages"
  install_packages
  stage "Python environment"
  make_environment
}

# The first 3.MINOR that there is, or nothing.
find_python() {
  local python
  for python in "$(command -v "python3.$1")" \
                "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3."$1".*/bin/python3; do
    # One of pyenv's that is not chosen is there and does not run.
    if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
      echo "$python"
      return
    fi
  done
}

# --- building -------------------------------------------------------------------

# How many commands run at once. (nproc alone would go by OMP_NUM_THREADS.)
jobs=$(env -u OMP_NUM_THREADS nproc)

# build <preset> [<target>...]
build() {
  local preset=$1
  shift
  (
    cd "$REPRISE_ROOT"
    "${RUN[@]}" cmake --preset "$preset" >/dev/null
    "${RUN[@]}" cmake --build "build/$preset" -j "$jobs" ${1:+--target "$@"}
  )
}
RUN=()  # a command to run builds under

# What a Python program needs to find the package as built by a preset.
use_package() {
  export PYTHONPATH=$REPRISE_ROOT/bindings/python${PYTHONPATH:+:$PYTHONPATH}
  export REPRISE_LIBRARY=$REPRISE_ROOT/build/$1/python/reprise
}

# run_python_tests <pytest's arguments>...: those that need no GPU, several files at once.
# OpenMP's threads of several processes would wait for each other.
run_python_tests() {
  OMP_NUM_THREADS=1 python -m pytest -q -m "not gpu" -n "$jobs" --dist loadfile "$@" \
    tests/python
}
