#!/usr/bin/env bash
# without_cuda_toolkit.sh <command>...
#
# Runs a command where no CUDA toolkit can be seen: Reprise builds against the
# headers in torch's wheel and loads CUDA's libraries at run time, and must not
# lean on a toolkit that happens to be there. Toolkits are mounted over in a mount
# namespace of the command's own; without the right to make one, only the
# environment is cleaned.
set -euo pipefail

unset CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH LD_LIBRARY_PATH
unset CUDA_HOME CUDA_PATH CUDACXX CUDA_TOOLKIT_ROOT_DIR CUDAToolkit_ROOT

hidden=()
for folder in /usr/local/cuda /usr/local/cuda-* /opt/cuda /usr/lib/cuda; do
  if [ -d "$folder" ] && [ ! -L "$folder" ]; then hidden+=("$folder"); fi
done
# Folders that hold links into a toolkit.
for folder in /usr/local/include /usr/local/lib; do
  if [ -e "$folder/cuda.h" ] || compgen -G "$folder/libcudart*" >/dev/null; then hidden+=("$folder"); fi
done

if [ ${#hidden[@]} -eq 0 ]; then
  exec "$@"
fi
if ! unshare -m true 2>/dev/null; then
  echo "a CUDA toolkit stays visible (may not mount over ${hidden[*]})" >&2
  exec "$@"
fi
echo "hidden from the build: ${hidden[*]}" >&2
exec unshare -m bash -euc '
  folders=$1
  shift
  for folder in $folders; do mount -t tmpfs tmpfs "$folder"; done
  exec "$@"' - "${hidden[*]}" "$@"
