#!/bin/sh
# On a server without a display: the wheel, installed with pip alone in a minimal Debian without libGL, libX11 and glib,
# trains the sample and draws its pictures, with mmengine and then with its fork, onedl-mmengine, in its place.
#
#   make headless        needs root and debootstrap, 2.5 GB for a while in TMPDIR, and about five minutes
#
# Everything is fetched beforehand, with pip as it is set up here; inside there is no network.
set -eu

repository=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-$repository/.venv/bin/python}
if [ "$(id -u)" != 0 ] || ! command -v debootstrap > /dev/null; then
    echo "headless: it installs a Debian of its own, which needs root and debootstrap: apt-get install debootstrap" >&2
    exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
seconds() { date +%s; }
began=$(seconds)
lap() { echo "headless: $1 ($(($(seconds) - began)) s)"; began=$(seconds); }

debootstrap --variant=minbase --include=python3,python3-venv bookworm "$root" > "$work/debootstrap.log" 2>&1 ||
    { tail "$work/debootstrap.log" >&2; exit 1; }
lap "minimal Debian: $(du -sm "$root" | cut -f1) MB"

mkdir "$work/source" "$root/wheels" "$root/elsewhere"
cp -rL "$repository/ndformer" "$repository/pyproject.toml" "$repository/README.md" "$repository/LICENSE" "$work/source"
"$python" -m pip wheel -qq --no-deps --wheel-dir "$root/wheels" "$work/source"
"$python" -m pip download -qq --dest "$root/wheels" -c "$repository/constraints.txt" --only-binary=:all: \
    --python-version 3.11 "$root"/wheels/ndformer-*.whl onedl-mmengine
cp "$repository/constraints.txt" "$root/wheels"
lap "wheels: $(du -sm "$root/wheels" | cut -f1) MB"

cat > "$root/inside.sh" <<'INSIDE'
set -eu
export PATH=/venv/bin:$PATH PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels PIP_DISABLE_PIP_VERSION_CHECK=1
if ldconfig -p | grep -E 'libGL\.|libX11\.|libglib-'; then
    echo "headless: this root has the libraries that it should lack" >&2
    exit 1
fi
case $1 in
install)
    python3 -m venv /venv
    pip install -q -c /wheels/constraints.txt /wheels/ndformer-*.whl
    if python -c 'import cv2' 2> /dev/null; then
        echo "headless: OpenCV loads here, so this shows nothing" >&2
        exit 1
    fi
    ;;
swap) # in this order: both unpack into one folder
    pip uninstall -q -y mmengine opencv-python
    pip install -q -c /wheels/constraints.txt onedl-mmengine
    ;;
train)
    cd /elsewhere
    ndformer train cifar10_pape --sample --work-dir "/$2" --cfg-options train_cfg.max_epochs=2
    test -s "/$2/best.pth" && test -s "/$2/curves.png" && test -s "/$2/confusion_matrix.png"
    python -c "import json; print(json.load(open('/$2/results.json'))['test'])"
    ;;
esac
INSIDE

inside() { # a mount namespace of its own: its mounts end with it
    unshare --mount --net sh -c 'mount -t proc proc "$1/proc"; mount -t tmpfs tmpfs "$1/dev/shm"; exec chroot "$@"' \
        sh "$root" /bin/sh /inside.sh "$@"
}
inside install
lap "installed: $(du -sm "$root/venv" | cut -f1) MB"
inside train mmengine
lap "trained with mmengine"
inside swap
lap "its fork instead: $(du -sm "$root/venv" | cut -f1) MB"
inside train onedl-mmengine
lap "trained with onedl-mmengine"
echo "headless: both trained without libGL, libX11 and glib"
