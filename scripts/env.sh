# Source this to work by hand: `. scripts/env.sh` makes the Python environment if
# there is none, enters it, and points the CMake presets and Python at this checkout.

_reprise_env() {
  local scripts env_dir
  scripts=$(dirname "${BASH_SOURCE[0]}")
  # In a shell of its own, so that nothing of lib.sh's stays behind.
  env_dir=$(bash -euo pipefail -c '. "$1/lib.sh"; make_environment >&2; trap - EXIT; echo "$env_dir"' - "$scripts") || return 1
  export VIRTUAL_ENV=$env_dir
  export PATH=$env_dir/bin:$PATH
  REPRISE_TORCH_DIR=$(echo "$env_dir"/lib/python3*/site-packages/torch)
  export REPRISE_TORCH_DIR
  PYTHONPATH=$(cd "$scripts/../bindings/python" && pwd)${PYTHONPATH:+:$PYTHONPATH}
  export PYTHONPATH
}
_reprise_env
unset -f _reprise_env
