# What the scripts share; to be sourced from the root of the repository.

step() { printf '\n== %s\n' "$*"; }

# retry runs a command that needs the network.
retry() {
  for pause in 2 5; do
    "$@" && return
    echo "failed, trying again in $pause s: $*" >&2
    sleep "$pause"
  done
  "$@"
}

# as_root is for the system's package manager.
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# packages installs packages of the system; another script may do so at the same time, and is waited for.
packages() {
  (
    flock 9
    retry as_root apt-get update -qq
    retry as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 install -y -qq --no-install-recommends "$@" >/dev/null
  ) 9>"${TMPDIR:-/tmp}/gyro-packages.lock"
}

# need COMMAND PACKAGE… installs packages unless the command is there.
need() { PATH="$PATH:/usr/sbin" command -v "$1" >/dev/null || packages "${@:2}"; }

# venv FOLDER REQUIREMENTS keeps a Python environment up to date.
venv() {
  if ! cmp -s "$2" "$1/installed"; then
    python3 -c 'import ensurepip, venv' 2>/dev/null || packages python3-venv
    python3 -m venv --clear "$1"
    retry "$1/bin/pip" install --quiet --disable-pip-version-check -r "$2"
    cp "$2" "$1/installed"
  fi
}

# together runs functions at once, prints what each has printed when it has ended, in their order, and fails
# if one of them does.
together() {
  local one failed=0 printed jobs=()
  printed=$(mktemp -d)
  for one in "$@"; do
    "$one" >"$printed/$one" 2>&1 &
    jobs+=($!)
  done
  for one in "$@"; do
    wait "${jobs[0]}" || failed=1
    jobs=("${jobs[@]:1}")
    cat "$printed/$one"
  done
  rm -rf "$printed"
  return "$failed"
}
