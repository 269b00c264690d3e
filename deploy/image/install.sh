#!/bin/sh
# install.sh TARGET [WHEEL]: the contents of the image in one folder: a virtual environment with the locked dependencies and bayplan, without pip.
# Run it from the root of a checkout; PYTHON names another interpreter. Without WHEEL, one is built from there. The Containerfile and the test of the image run the same steps.
set -eu
target=$1
wheel=${2:-}
here=$(pwd)
pip="$target/bin/python -m pip --disable-pip-version-check --quiet --no-input"

python=${PYTHON:-python3}

"$python" -m venv "$target"
$pip install --no-deps --require-hashes --requirement "$here/requirements/image.txt"
if [ -z "$wheel" ]; then
    "$python" -m venv "$target.build"
    "$target.build/bin/python" -m pip --disable-pip-version-check --quiet wheel --no-deps --wheel-dir "$target.wheel" "$here"
    wheel=$(ls "$target.wheel"/*.whl)
fi
$pip install --no-deps "$wheel"
# Containers of nfd-topology-updater and nfd-gc can be switched to this image by its name alone.
ln -s bayplan "$target/bin/nfd-topology-updater"
ln -s bayplan "$target/bin/nfd-gc"
$pip uninstall --yes pip
"$target/bin/python" -m compileall -q "$target/lib"
rm -rf "$target.build" "$target.wheel"
